//! What the server knows of users and clients, and what passes between them: each part behind its
//! own lock, so that it is read and tested alone.
//!
//! Nothing here knows commands, event loops or the server as a whole.
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
