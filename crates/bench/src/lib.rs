//! Experiments that compare Mayfly with other servers in a single run, and their load generator.
//!
//! Each subcommand of `mayfly bench` is one file that answers one question. `contestant.rs` starts
//! servers, `load.rs` sends requests over many connections, `client.rs` is a blocking client with
//! one connection, and `process.rs` reads CPU time and memory from the system. Servers and load are
//! pinned to different CPUs. All traffic stays on this machine, unless `--address` names another.
//!
//! Deliberately absent: statistics beyond medians and percentiles, and any judgement of a result.
#![forbid(unsafe_code)]

mod client;
mod clock;
mod cluster;
mod contestant;
mod elements;
mod error;
mod expiry;
mod expiry_lag;
mod expiry_mixed;
mod expiry_storm;
mod keys;
mod latency;
mod load;
mod machine;
mod memory;
mod noise;
mod open_loop;
mod process;
mod progress;
mod protocol;
mod replay;
mod report;
mod segment;
mod throughput;

pub use cluster::ClusterBench;
pub use contestant::Contest;
pub use elements::Elements;
pub use error::Error;
pub use expiry::Expiry;
pub use expiry_lag::ExpiryLag;
pub use expiry_mixed::ExpiryMixed;
pub use expiry_storm::ExpiryStorm;
pub use machine::Machine;
pub use memory::Memory;
pub use process::Cpus;
pub use replay::Replay;
pub use segment::Segment;
pub use throughput::{Threads, Throughput};

/// `mayfly bench …`.
#[derive(clap::Args, Debug)]
pub struct BenchCommand {
    #[command(subcommand)]
    experiment: Experiment,
}

/// The experiments.
#[derive(clap::Subcommand, Debug)]
pub enum Experiment {
    /// The server's CPU time per operation
    Throughput(Throughput),
    /// CPU time per operation with one and with more data threads
    Threads(Threads),
    /// Fields and members with TTLs: memory, CPU time, expiry at one instant, delay of events
    Elements(Elements),
    /// Compare expiry indexes of keys: our own and those of peers
    Expiry(Expiry),
    /// Delay of expired events, and of freeing memory
    ExpiryLag(ExpiryLag),
    /// Expired keys still in memory among many unexpired ones
    ExpiryMixed(ExpiryMixed),
    /// Millions of keys with one deadline, and the latency of other clients
    ExpiryStorm(ExpiryStorm),
    /// Bytes per key: resident, and as counted by the server
    Memory(Memory),
    /// A cluster whose primary dies, hands over, and whose slots move, beside Valkey's
    Cluster(ClusterBench),
    /// A trace replayed against servers as look-aside caches, with TTLs
    Replay(Replay),
    /// The segment engine compared with the slab engine, memcached and Redis: misses, memory, CPU
    /// time
    Segment(Box<Segment>),
}

impl BenchCommand {
    /// Runs the experiment and prints its report.
    ///
    /// # Errors
    /// Returns an error if the arguments cannot be satisfied, a server does not start, or a server
    /// replies with an error.
    pub fn run(&self) -> Result<(), Error> {
        match &self.experiment {
            Experiment::Throughput(throughput) => throughput.run(),
            Experiment::Threads(threads) => threads.run(),
            Experiment::Elements(elements) => elements.run(),
            Experiment::Expiry(expiry) => expiry.run(),
            Experiment::ExpiryLag(expiry_lag) => expiry_lag.run(),
            Experiment::ExpiryMixed(expiry_mixed) => expiry_mixed.run(),
            Experiment::ExpiryStorm(expiry_storm) => expiry_storm.run(),
            Experiment::Memory(memory) => memory.run(),
            Experiment::Cluster(cluster) => cluster.run(),
            Experiment::Replay(replay) => replay.run(),
            Experiment::Segment(segment) => segment.run(),
        }
    }
}
