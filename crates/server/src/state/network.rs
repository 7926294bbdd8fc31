//! How clients and other servers reach this one.

use crate::tls::Tls;
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU16;

/// How clients and other servers reach this one.
#[derive(Default)]
pub struct Network {
    /// TLS settings in force.
    pub tls: Tls,
    /// TCP port of Redis's protocol.
    pub port: AtomicU16,
    /// First TCP address of Redis's protocol. An address without TLS takes precedence.
    pub first_address: OnceLock<SocketAddr>,
    /// Addresses and paths that the server listens on, as shown by INFO.
    pub listening: OnceLock<Vec<String>>,
}
