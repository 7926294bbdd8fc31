//! How keys outlive a process and reach others: the state and the formats of snapshots, of the
//! append-only file, of replication and of restarts.
//!
//! The threads and the workers' parts, which execute commands, are modules of the crate `server`
//! with the same names.
#![forbid(unsafe_code)]

pub mod aof;
pub mod check;
pub mod loading;
pub mod replication;
pub mod restart;
pub mod saving;
