//! `mayfly bench` as a separate program, to compare builds without rebuilding the server.

use clap::Parser;
use std::process::ExitCode;

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    bench: bench::BenchCommand,
}

fn main() -> ExitCode {
    match Arguments::parse().bench.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}
