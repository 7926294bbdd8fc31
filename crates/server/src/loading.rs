//! Loading of a snapshot file: [`mod@file`] reads it. The state is [`durability::loading`].

pub mod file;
mod storing;
mod threads;
