//! `mayfly edge`: clusters of edge caches.

mod simulate;

use anyhow::Result;
use clap::{Args, Subcommand};

/// Arguments of `mayfly edge`.
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Replay a trace through clusters that keep copies or coded chunks; report misses, failures
    /// and load.
    Simulate(Box<simulate::Arguments>),
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.command {
        Command::Simulate(simulate) => simulate.run(),
    }
}
