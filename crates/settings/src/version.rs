//! Versions that the server reports to clients.

/// Version of Redis whose commands are implemented.
pub const REDIS_VERSION: &str = "8.6.3";
/// Version of this server.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
