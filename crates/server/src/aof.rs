//! The append-only file: [`writer`] is the thread, [`work`] the part that workers do.
//! [`crate::replay`] reads the files at startup. The state and the formats are in
//! [`durability::aof`].

pub mod work;
pub mod writer;
