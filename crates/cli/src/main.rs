//! `mayfly`: a cache and in-memory data server for Redis and memcached clients, with exact
//! expiration.
#![deny(unsafe_code)]

mod allocator;
mod check;
mod cluster;
mod edge;
mod manual;
mod memory;
mod pages;
mod ping;
mod serve;
mod sim;
mod trace;

use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::process::ExitCode;
use std::sync::LazyLock;

// jemalloc returns freed memory to the system at once, by its options in `.cargo/config.toml`.
#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;
/// Name of the allocator above in INFO.
const ALLOCATOR_NAME: &str = "jemalloc";

/// Text that `--version` prints after the name: the version, the commit if `cargo xtask dist` built
/// the program, and the optional features.
static BUILD: LazyLock<String> = LazyLock::new(|| {
    let features = [
        ("edge", cfg!(feature = "edge")),
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
    /// Create and operate a cluster of several servers.
    Cluster(cluster::Arguments),
    /// Report whether a server answers, for health checks.
    Ping(ping::Arguments),
    /// Measure this server, and compare it with others.
    Bench(bench::BenchCommand),
    /// Simulate eviction policies on traces.
    Sim(Box<sim::Arguments>),
    /// Serve HTTP clients from a cache, or simulate clusters of such caches.
    Edge(edge::Arguments),
    /// Show, analyze, convert, cut, sample and generate traces.
    Trace(trace::Arguments),
    /// Write the man pages and the completions for shells to a folder.
    #[command(hide = true)]
    Manual(manual::Arguments),
}

/// The command line of a server, without the other subcommands.
#[derive(Parser)]
struct ServerLine {
    #[command(flatten)]
    serve: serve::Arguments,
}

/// Parses the command line. The parser of all subcommands takes half a megabyte and some of the
/// time of a start, so that a server is started without it. It reports all errors.
fn parse(mut words: Vec<OsString>) -> Result<CommandLine, clap::Error> {
    let all = words.clone();
    if words.get(1).is_some_and(|word| word == "serve") {
        words.remove(1);
    }
    match ServerLine::try_parse_from(words) {
        Ok(ServerLine { serve }) if serve.names_no_subcommand() => Ok(CommandLine {
            command: None,
            serve,
        }),
        _ => CommandLine::try_parse_from(all),
    }
}

fn main() -> ExitCode {
    settings::process::set_allocator(ALLOCATOR_NAME);
    let arguments = match parse(serve::join_settings(std::env::args_os())) {
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
        Some(Command::Cluster(arguments)) => unless_broken_pipe(cluster::run(&arguments)),
        Some(Command::Ping(arguments)) => ping::run(&arguments),
        Some(Command::Bench(bench)) => bench.run().map_err(anyhow::Error::from),
        Some(Command::Sim(arguments)) => unless_broken_pipe(sim::run(&arguments)),
        Some(Command::Edge(edge)) => unless_broken_pipe(edge::run(&edge)),
        Some(Command::Trace(trace)) => unless_broken_pipe(trace::run(trace)),
        Some(Command::Manual(arguments)) => manual::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mayfly: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns success for a closed pipe, because the reader of the output has read enough.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<CommandLine, clap::Error> {
        parse(line.split(' ').map(OsString::from).collect())
    }

    #[test]
    fn a_node_of_a_cluster_is_started_with_two_options() {
        let line = "mayfly serve --cluster etcd=http://a:1,http://b:2 --zone z";
        let arguments = parsed(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let expected = [
            ("cluster-etcd-endpoints", "http://a:1,http://b:2"),
            ("cluster-zone", "z"),
            ("cluster-enabled", "yes"),
        ];
        assert_eq!(arguments.serve.given(), expected);
        for line in ["mayfly --cluster http://a:1", "mayfly --cluster etcd="] {
            let error = parsed(line).err().map(|error| error.to_string());
            assert!(
                error.is_some_and(|error| error.contains("expected etcd=URLS")),
                "{line}"
            );
        }
    }

    #[test]
    fn both_parsers_agree_on_the_command_line_of_a_server() {
        for line in [
            "mayfly --port 7",
            "mayfly serve --port 7",
            "mayfly /a.conf --port 7",
        ] {
            let arguments = parsed(line).unwrap_or_else(|error| panic!("{line}: {error}"));
            assert!(arguments.command.is_none(), "{line}");
            assert_eq!(arguments.serve.given(), [("port", "7")], "{line}");
        }
        for line in ["mayfly ping", "mayfly check serve", "mayfly trace show x"] {
            let arguments = parsed(line).unwrap_or_else(|error| panic!("{line}: {error}"));
            assert!(arguments.command.is_some(), "{line}");
        }
        for line in [
            "mayfly --help",
            "mayfly serve --help",
            "mayfly --version",
            "mayfly --nosuch 1",
        ] {
            let all = CommandLine::try_parse_from(line.split(' ')).err();
            let error = parsed(line).err().map(|error| error.to_string());
            assert!(error.is_some(), "{line}");
            assert_eq!(error, all.map(|error| error.to_string()), "{line}");
        }
    }
}
