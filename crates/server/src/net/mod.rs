//! Sockets: workers with a readiness loop each, the connections they serve, the listeners.

pub mod connection;
mod found;
pub mod listener;
pub mod worker;
