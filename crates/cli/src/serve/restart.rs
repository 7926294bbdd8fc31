//! Executes a new program in place of this process, and starts up as that program.

use anyhow::{Context, Result, anyhow};
use durability::restart::handover::{Handover, OPTION, VERSION};
use durability::restart::program::Program;
use rustix::time::{ClockId, clock_gettime};
use server::supervisor;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;

/// Path of the running program, even if its file was replaced or removed.
const PRESENT: &str = "/proc/self/exe";

/// Returns the errors in the version that a restarted program was given.
pub fn check_version(given: Option<&str>) -> Vec<String> {
    match given {
        None | Some(VERSION) => Vec::new(),
        Some(other) => vec![format!(
            "--{OPTION} {other}: expected {VERSION}; the process before is of another version"
        )],
    }
}

/// Receives the data that the previous process has left at standard input, which is empty
/// afterwards.
pub fn receive() -> Result<Handover> {
    let received = Handover::receive(rustix::stdio::stdin()).map_err(|why| anyhow!(why))?;
    let nothing = File::open("/dev/null").context("cannot open /dev/null")?;
    rustix::stdio::dup2_stdin(&nothing).context("cannot close standard input")?;
    Ok(received)
}

/// Returns the state for the service manager.
pub fn state() -> String {
    let now = clock_gettime(ClockId::Monotonic);
    let microseconds = now.tv_sec.unsigned_abs() * 1_000_000 + now.tv_nsec.unsigned_abs() / 1000;
    supervisor::reloading(microseconds)
}

/// Executes the new program or, if that fails, the current one. Returns the errors of both.
pub fn execute(program: Option<&Program>, handover: &Handover) -> anyhow::Error {
    let Some(program) = program else {
        return anyhow!("this process cannot be restarted");
    };
    let receiver = match handover.send() {
        Ok(receiver) => receiver,
        Err(error) => return anyhow!("the listening sockets cannot be passed on: {error}"),
    };
    log::info!("executing {}", program.path.display());
    if let Some(path) = handover.snapshot() {
        let path = path.display();
        log::info!(
            "the keys are in {path} until the new process has loaded them and, if it writes files, saved them"
        );
    }
    let mut error = anyhow!("it was not executed");
    for path in [program.path.as_path(), Path::new(PRESENT)] {
        let input = match receiver.try_clone() {
            Ok(input) => input,
            Err(error) => return error.into(),
        };
        let failed = program.restart(path).stdin(Stdio::from(input)).exec();
        log::error!("{} cannot be executed: {failed}", path.display());
        error = anyhow!("{} cannot be executed: {failed}", program.path.display());
    }
    error
}
