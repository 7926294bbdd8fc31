//! `mayfly edge`: an HTTP cache, and clusters of such caches.

#[cfg(feature = "edge")]
mod file;
#[cfg(feature = "edge")]
mod serve;
mod simulate;
#[cfg(feature = "edge")]
mod status;

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
    /// Serve HTTP clients from a cache in front of origin servers.
    #[cfg(feature = "edge")]
    Serve(Box<serve::Arguments>),
    /// Print the status of a running cache.
    #[cfg(feature = "edge")]
    Status(status::Arguments),
    /// Replay a trace through clusters that keep copies or coded chunks; report misses, failures
    /// and load.
    Simulate(Box<simulate::Arguments>),
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.command {
        #[cfg(feature = "edge")]
        Command::Serve(serve) => serve.run(),
        #[cfg(feature = "edge")]
        Command::Status(status) => status.run(),
        Command::Simulate(simulate) => simulate.run(),
    }
}
