//! Everything that lets keys survive a process or reach another one: the state and formats of
//! snapshots, the append-only file, replication and restarts.
//!
//! The threads, and the work done by workers, are in modules of the same names in the crate
//! `server`, which executes commands.
#![forbid(unsafe_code)]

pub mod aof;
pub mod check;
pub mod dump;
pub mod loading;
pub mod replication;
pub mod restart;
pub mod saving;
