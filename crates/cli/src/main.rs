//! `mayfly`: a cache and in-memory data server for Redis and memcached clients, with exact
//! expiration.
#![deny(unsafe_code)]

mod check;
mod edge;
#[cfg(test)]
mod manual;
mod pages;
mod ping;
mod serve;
mod sim;
mod trace;

use clap::{Parser, Subcommand};
use std::io::ErrorKind;
use std::process::ExitCode;
use std::sync::LazyLock;

// jemalloc returns freed memory to the system at once, by its options in `.cargo/config.toml`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
/// Name of the allocator above in INFO.
const ALLOCATOR_NAME: &str = "jemalloc";

/// What `--version` prints after the name: the version, the commit if `cargo xtask dist` built the
/// program, and the optional features.
static BUILD: LazyLock<String> = LazyLock::new(|| {
    let features = [
        ("parquet", cfg!(feature = "parquet")),
        ("png", cfg!(feature = "png")),
    ];
    let features: Vec<&str> = features
        .iter()
        .filter_map(|(name, is_on)| is_on.then_some(*name))
        .collect();
    let features = match features.as_slice() {
        [] => "none".to_owned(),
        names => names.join(", "),
    };
    let commit = option_env!("MAYFLY_COMMIT").map(|commit| format!("commit: {commit}\n"));
    format!(
        "{}\n{}features: {features}",
        env!("CARGO_PKG_VERSION"),
        commit.unwrap_or_default()
    )
});

/// Cache and in-memory data server for Redis and memcached clients, in which keys, fields and
/// members expire on time.
#[derive(Parser)]
#[command(
    name = "mayfly",
    version,
    long_version = BUILD.as_str(),
    about,
    args_conflicts_with_subcommands = true
)]
struct CommandLine {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: serve::Arguments,
}

#[derive(Subcommand)]
enum Command {
    /// Serve clients (the default without a subcommand).
    Serve(serve::Arguments),
    /// Report what a snapshot file contains, and where it is damaged.
    Check(check::Arguments),
    /// Report whether a server answers, for health checks.
    Ping(ping::Arguments),
    /// Measure this server, and compare it with others.
    Bench(bench::BenchCommand),
    /// Simulate eviction policies on traces.
    Sim(Box<sim::Arguments>),
    /// Simulate clusters of edge caches that store copies or coded chunks.
    Edge(edge::Arguments),
    /// Show, analyze, convert, cut, sample and generate traces.
    Trace(trace::Arguments),
}

fn main() -> ExitCode {
    server::process::set_allocator(ALLOCATOR_NAME);
    let arguments = match CommandLine::try_parse_from(serve::join_settings(std::env::args_os())) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are printed to standard output and are not a failure.
            let _ = error.print();
            return if error.use_stderr() {
                ExitCode::from(2)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    let result = match arguments.command {
        None => serve::run(arguments.serve),
        Some(Command::Serve(arguments)) => serve::run(arguments),
        Some(Command::Check(arguments)) => check::run(&arguments),
        Some(Command::Ping(arguments)) => ping::run(&arguments),
        Some(Command::Bench(bench)) => bench.run().map_err(anyhow::Error::from),
        Some(Command::Sim(arguments)) => unless_broken_pipe(sim::run(&arguments)),
        Some(Command::Edge(edge)) => unless_broken_pipe(edge::run(&edge)),
        Some(Command::Trace(trace)) => unless_broken_pipe(trace::run(trace)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mayfly: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// A closed pipe is not a failure: the reader of the output has read enough.
fn unless_broken_pipe(result: anyhow::Result<()>) -> anyhow::Result<()> {
    let is_broken_pipe = |error: &anyhow::Error| {
        let mut causes = error.chain().filter_map(|cause| cause.downcast_ref());
        causes.any(|cause: &std::io::Error| cause.kind() == ErrorKind::BrokenPipe)
    };
    match result {
        Err(error) if is_broken_pipe(&error) => Ok(()),
        result => result,
    }
}
