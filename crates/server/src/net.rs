//! Networking: the workers with one event loop each, the connections that they serve, and the
//! listening sockets.

mod batch_item;
pub mod connection;
pub mod listener;
mod tls;
pub mod worker;
