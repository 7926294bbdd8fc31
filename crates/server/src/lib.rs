//! The server: sessions, commands, event loops, configuration and metrics.
//!
//! Start reading at `net::worker` (input and output), then `dispatch` (how a command gets its locks
//! and its code), then `command` (the tables of commands). The crate `store` implements keys and
//! values, the crate `wire` the protocols.
#![forbid(unsafe_code)]

pub mod acl;
pub mod aof;
pub mod blocking;
pub mod check;
pub mod clients;
pub mod clock;
pub mod command;
pub mod config;
pub mod context;
pub mod crash;
pub mod dispatch;
pub mod doctor;
pub mod engine;
pub mod expiry;
pub mod feed;
pub mod fieldsets;
pub mod files;
pub mod freeing;
pub mod glob;
pub mod histogram;
pub mod hotkeys;
pub mod http;
pub mod inbox;
pub mod info;
pub mod latency;
pub mod learner;
pub mod loading;
pub mod locks;
pub mod logging;
pub mod logins;
pub mod long;
pub mod memcached;
pub mod message;
pub mod metrics;
pub mod monitor;
pub mod net;
pub mod notices;
pub mod notify;
pub mod process;
pub mod pubsub;
pub mod queue;
pub mod random;
pub mod replication;
pub mod restart;
pub mod run;
mod saving;
mod scrape;
mod scripting;
pub mod session;
pub mod slice;
pub mod slowlog;
pub mod socket;
pub mod spec;
pub mod state;
pub mod stats;
pub mod supervisor;
pub mod timing;
pub mod tls;
pub mod tracking;
pub mod version;
pub mod waiting;
pub mod watches;

pub use dispatch::exec;
pub use session::Session;
pub use state::Server;
pub use version::{REDIS_VERSION, VERSION};
