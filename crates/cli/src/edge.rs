//! `mayfly edge`: clusters of edge caches.

mod simulate;

use anyhow::Result;
use clap::{Args, Subcommand};

/// What to do with a cluster.
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Replay a trace through clusters that keep copies or coded chunks: misses, failures, load.
    Simulate(Box<simulate::Arguments>),
}

/// Runs it.
pub fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.command {
        Command::Simulate(simulate) => simulate.run(),
    }
}
