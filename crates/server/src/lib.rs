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
pub mod context;
pub mod dice;
pub mod dispatch;
pub mod engine;
pub mod expiry;
pub mod glob;
pub mod histogram;
pub mod inbox;
pub mod info;
pub mod latency;
pub mod learner;
pub mod locks;
pub mod logging;
pub mod memcached;
pub mod message;
pub mod net;
pub mod notify;
pub mod process;
pub mod pubsub;
pub mod queue;
pub mod run;
pub mod session;
pub mod slice;
pub mod slowlog;
pub mod spec;
pub mod state;
pub mod stats;
pub mod timing;
pub mod version;
pub mod waiting;

pub use dispatch::exec;
pub use session::Session;
pub use state::Server;
pub use version::{REDIS_VERSION, VERSION};
