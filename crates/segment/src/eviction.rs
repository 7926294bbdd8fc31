//! Expiry and eviction of whole segments.

mod ages;
mod begin;
mod choice;
mod compact;
mod evictor;
mod gl_cache;
mod in_turn;
mod job;
mod learning;
mod merge;
mod plan;
mod progress;
mod ranked;
mod rent;
mod setting;
mod single;
mod step;
mod watch;

pub(crate) use evictor::{EvictionState, Evictor};
pub(crate) use job::Job;
pub(crate) use learning::Learning;
pub use learning::SegmentName;
pub(crate) use plan::{Plan, Store};
pub(crate) use ranked::Ranked;
pub(crate) use setting::ranked;
