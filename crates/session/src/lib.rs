//! The server's records of users and clients, and the data passed between them. Each part has its
//! own lock, so that it can be read and tested alone.
//!
//! This crate does not depend on the commands, the event loops or the server as a whole.
#![forbid(unsafe_code)]

pub mod acl;
pub mod clients;
pub mod clock;
pub mod feed;
pub mod fieldsets;
pub mod freeing;
pub mod histogram;
pub mod hotkeys;
pub mod inbox;
pub mod latency;
pub mod locks;
pub mod logins;
pub mod long;
pub mod message;
pub mod monitor;
pub mod notices;
pub mod pubsub;
pub mod queue;
pub mod scripting;
pub mod session;
pub mod slice;
pub mod slowlog;
pub mod socket;
pub mod spec;
pub mod stats;
pub mod tracking;
pub mod waiting;
pub mod watches;

pub use session::Session;
