//! The conformance suites that any policy, admission filter and expiry index passes through one
//! macro line, and the toy host that they run in.
//!
//! Start with [`host::Host`]: the smallest thing that answers [`Facts`](crate::Facts) and keeps
//! [`Cells`](crate::Cells). Every structure is driven by random operations in it and compared with
//! the plainest model of itself.

pub mod admission;
pub mod expiry;
pub mod host;
pub mod policy;
