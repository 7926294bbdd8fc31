//! Loading of a snapshot file: [`file`] reads it. The state is [`durability::loading`].

pub mod file;
mod storing;
mod threads;
