//! The append-only file: [`writer`] is the thread, [`work`] what workers do, [`load`] reads the
//! files at the start. The state and the formats are [`durability::aof`].

pub mod load;
pub mod work;
pub mod writer;
