//! `daemonize yes`: the program starts itself again in the background.
//!
//! The first process waits until the second one has loaded its file or failed, so that its exit
//! code is correct. A program is started instead of calling `fork`, because `fork` needs unsafe
//! code and copies only one of the threads.

use anyhow::{Context, Result, bail};
use durability::restart::program::Program;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::process::Stdio;

/// Hidden option that marks the process in the background.
pub const OPTION: &str = "is-daemon";

/// Default of `pidfile` with `daemonize`.
pub const PID_FILE: &str = "/run/mayfly.pid";

/// Message that the background process writes when it serves requests.
const STARTED: &[u8] = b"started";

/// Starts the server in the background and waits until it serves requests.
pub fn start(program: &Program) -> Result<()> {
    let path = std::env::current_exe().context("cannot find this program")?;
    let mut child = program
        .command(&path)
        .arg(format!("--{OPTION}"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start a process in the background")?;
    let mut message = Vec::new();
    if let Some(mut output) = child.stdout.take() {
        output
            .read_to_end(&mut message)
            .context("cannot read from the process in the background")?;
    }
    if message != STARTED {
        // The background process has printed the reason to standard error.
        bail!("the server did not start");
    }
    Ok(())
}

/// Detaches the process from the terminal: it gets its own session, and its standard streams are
/// closed. The background process calls this when it is ready to serve requests.
pub fn detach() -> Result<()> {
    rustix::process::setsid().context("cannot leave the terminal")?;
    let mut output = std::io::stdout();
    output
        .write_all(STARTED)
        .and_then(|()| output.flush())
        .context("cannot report the start")?;
    let nothing = OpenOptions::new().read(true).write(true).open("/dev/null");
    let nothing = nothing.context("cannot open /dev/null")?;
    rustix::stdio::dup2_stdout(&nothing).context("cannot close standard output")?;
    rustix::stdio::dup2_stderr(&nothing).context("cannot close standard error")?;
    Ok(())
}
