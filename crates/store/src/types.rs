//! Types of collections. Each is a value with elements and their deadlines, independent of keys and
//! locks.

mod form;
mod hash;
mod list;
mod set;
mod sorted_set;
mod stream;
#[cfg(test)]
mod tests;

pub use hash::Hash;
pub use list::{End, List};
pub use set::Set;
pub use sorted_set::{Interval, SortedSet};
pub use stream::{
    AutoClaimed, Claim, Claimed, Consumer, ConsumerIndex, Delivery, Entry, Expired, Fields, Group,
    IDEMPOTENCE_SECONDS, IDEMPOTENCE_SIZE, IdempotenceFacts, NewFields, Pending, References,
    Removed, Stream, StreamFacts, StreamId, Trim, TrimTo, Trimmed,
};
