//! The server: sessions, commands, event loops, configuration and metrics.
//!
//! Start reading at `net::worker` (input and output), then `dispatch` (how a command gets its locks
//! and its code), then `command` (the tables of commands). The crate `store` implements keys and
//! values, the crate `wire` the protocols.
#![forbid(unsafe_code)]

pub mod aof;
pub mod blocking;
mod changed;
pub mod cluster;
pub mod command;
pub mod context;
pub mod crash;
pub mod dispatch;
pub mod doctor;
pub mod effects;
pub mod expiry;
mod exporting;
pub mod host;
pub mod http;
mod importing;
pub mod info;
pub mod learner;
mod links;
pub mod loading;
pub mod logging;
pub mod memcached;
pub mod metrics;
pub mod movement;
pub mod net;
pub mod notify;
mod outbox;
pub mod permission;
pub mod replay;
mod replica;
pub mod replication;
pub mod restart;
pub mod routing;
pub mod run;
mod saving;
mod scrape;
pub mod seat;
pub mod state;
pub mod supervisor;
pub mod timing;
pub mod tls;
pub mod transfer;

pub use dispatch::exec;
pub use state::Server;
