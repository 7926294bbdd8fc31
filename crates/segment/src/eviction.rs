//! Expiry and eviction of whole segments.

pub(crate) mod ages;
pub(crate) mod compact;
pub(crate) mod evict;
pub(crate) mod learned;
pub(crate) mod merge;
pub(crate) mod ranked;
pub(crate) mod rent;
pub(crate) mod switch;
pub(crate) mod watch;
