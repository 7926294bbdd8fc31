//! RESP2, RESP3 and memcached's protocol as sans-I/O parsing and encoding: bytes to commands, and
//! replies to bytes.
//!
//! The crate has no sockets, no clock and no dependencies, and allocates nothing per request beyond
//! buffers that are reused. Every length in the input is checked against a bound before it is used,
//! and memory grows only with bytes that arrived.
//!
//! Start with [`Parser`] (requests to a server), [`Reply`] (a server's replies) and [`number`] (the
//! text of numbers). [`memcached`] is independent of these. [`response`] is the client's side, for
//! load generators and tests.
#![forbid(unsafe_code)]

/// The example of the README, compiled and run as a test of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod args;
pub mod dump;
pub mod glob;
pub mod inline;
mod long_double;
pub mod memcached;
pub mod number;
pub mod output;
pub mod rdb;
pub mod reply;
pub mod request;
pub mod response;
pub mod slot;

pub use args::{Args, Span};
pub use long_double::LongDouble;
pub use output::{CutOff, Output};
pub use reply::{Protocol, Reply};
pub use request::{Limits, Parsed, Parser, ProtocolError};
pub use response::{ReplyScanner, ResponseError, Value, encode_command, skip_reply};
