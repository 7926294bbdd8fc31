//! Sessions, commands, event loops, configuration, metrics: what speaks to the outside.
//!
//! Start reading at `net::worker` (how bytes come and go), then `dispatch` (how a command finds its
//! locks and its code), then `command` (the one table). What a key means lives in `store`, how bytes
//! become arguments in `wire`.
#![forbid(unsafe_code)]

pub mod blocking;
pub mod clients;
pub mod clock;
pub mod command;
pub mod config;
pub mod dice;
pub mod dispatch;
pub mod engine;
pub mod expiry;
pub mod glob;
pub mod histogram;
pub mod inbox;
pub mod info;
pub mod latency;
pub mod logging;
pub mod memcached;
pub mod net;
pub mod notify;
pub mod process;
pub mod pubsub;
pub mod run;
pub mod segments;
pub mod session;
pub mod slowlog;
pub mod state;
pub mod stats;
pub mod timing;

pub use dispatch::exec;
pub use session::Session;
pub use state::Server;

/// The version of Redis whose commands these are, as clients ask for it.
pub const REDIS_VERSION: &str = "7.4.0";
/// Our own.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
