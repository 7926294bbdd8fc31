//! The types of collections: each a value of its own that knows elements and their deadlines, and neither
//! keys nor locks.

mod form;
mod hash;
mod list;
mod set;
mod sorted_set;
#[cfg(test)]
mod tests;

pub use hash::Hash;
pub use list::{End, List};
pub use set::Set;
pub use sorted_set::{Interval, SortedSet};
