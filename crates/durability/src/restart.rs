//! Restart for an upgrade: the process executes its program file again, which may have been
//! replaced, and keeps its process ID, its listening sockets and its keys.
//!
//! ```text
//! SIGUSR2, SHUTDOWN RESTART ─▶ thread: runs the program with --check-config
//!   refused: the server goes on          accepted: a stop, with a snapshot if the keys need one
//!   snapshot failed: the server goes on  complete: workers end, their sockets are kept
//!                                        ─▶ the program is executed in place of this process
//! ```
//!
//! New connections made in the meantime wait in the sockets' backlog. Existing connections are
//! closed, as in a shutdown.
//!
//! The settings determine where the keys are kept. With the append-only file, the new process reads
//! that file; with save points, it reads the snapshot file. Otherwise, or if the program would read
//! another file than this process writes, a separate snapshot file is used. The new process removes
//! it as soon as its append-only file's first base or its own snapshot file is complete, or after
//! loading if it writes neither. If the new process fails before that, the file stays, and the next
//! start names it in the log but does not load it, because other files may be newer.
//!
//! This module holds the state. `handover.rs` passes sockets and a path to the next process,
//! `program.rs` runs the program, and the server's `work.rs` performs the sequence above.

pub mod handover;
pub mod program;

use crate::saving::Waiting;
use handover::{Handover, Place};
use program::Program;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock};

/// Error for a second restart.
pub const IN_PROGRESS: &str = "ERR a restart is in progress";
/// Error if the server is part of another program, or if its settings cannot be read again.
pub const NO_PROGRAM: &str = "ERR this process cannot be restarted, because its settings came from standard input or it is a part of another program";

/// Stage of a restart.
///
/// ```text
/// event    from                    to
/// begin    None                    Checking, the next number
/// proceed  Checking, same number   Saving
/// fail     any but Executing, same number  None
/// commit   Saving, same number     Ready
/// cancel   Checking, Saving, Ready None
/// take     Ready                   Executing
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// There is no restart.
    #[default]
    None,
    /// The program checks the settings.
    Checking,
    /// The keys are being saved.
    Saving,
    /// The workers are ending.
    Ready,
    /// The program is being executed.
    Executing,
}

/// Requested restart.
pub struct Request {
    /// Reason, for the log.
    pub cause: String,
    /// Whether the keys are saved to the snapshot file (true) or not at all (false). With `None`
    /// the settings decide.
    pub wants: Option<bool>,
    /// Client that receives an error if the server does not restart.
    pub client: Option<Waiting>,
}

/// Function that performs the restart with this number on its own thread. Returns false if the
/// thread cannot be created.
pub type Runner = Box<dyn Fn(u64, Request) -> bool + Send + Sync>;

/// State protected by one lock.
#[derive(Default)]
pub struct State {
    /// Stage that the restart has reached.
    pub phase: Phase,
    /// Number of restarts begun so far.
    pub number: u64,
    /// Sockets and path to be passed on.
    pub handover: Handover,
    /// Path of the snapshot that the previous process left for this one.
    pub inherited: Option<PathBuf>,
}

/// State of restarts.
#[derive(Default)]
pub struct Restart {
    /// The program to execute.
    program: OnceLock<Program>,
    /// Function that performs a requested restart.
    pub runner: OnceLock<Runner>,
    /// State protected by the lock.
    state: Mutex<State>,
}

impl Restart {
    /// Locks the state.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("the lock is not poisoned")
    }

    /// Sets the program that a restart executes. Without one, restarts are refused.
    pub fn set_program(&self, program: Program) {
        let _ = self.program.set(program);
    }

    /// Returns the program that a restart executes.
    pub fn program(&self) -> Option<&Program> {
        self.program.get()
    }

    /// Sets the function that performs restarts.
    pub fn set_runner(&self, runner: impl Fn(u64, Request) -> bool + Send + Sync + 'static) {
        let _ = self.runner.set(Box::new(runner));
    }

    /// Begins a restart. Returns its number.
    ///
    /// # Errors
    /// Another restart is in progress. The message is a reply.
    pub fn begin(&self) -> Result<u64, &'static str> {
        let mut state = self.state();
        if state.phase != Phase::None {
            return Err(IN_PROGRESS);
        }
        state.phase = Phase::Checking;
        state.number += 1;
        state.handover = Handover::default();
        Ok(state.number)
    }

    /// Moves the restart with this number to another phase. Returns false if it is not in phase
    /// `from`.
    pub fn advance(&self, number: u64, from: Phase, to: Phase) -> bool {
        let mut state = self.state();
        let may = (state.number, state.phase) == (number, from);
        if may {
            state.phase = to;
        }
        may
    }

    /// Begins to save the keys. Returns false if the restart was cancelled.
    pub fn proceed(&self, number: u64) -> bool {
        self.advance(number, Phase::Checking, Phase::Saving)
    }

    /// Ends the restart with this number because a step failed.
    pub fn fail(&self, number: u64) {
        let mut state = self.state();
        if state.number == number && state.phase != Phase::Executing {
            state.phase = Phase::None;
            std::mem::take(&mut state.handover).discard();
        }
    }

    /// Records that the keys of the restart with this number are saved, so that the program can be
    /// executed once the workers have ended. Returns false if the restart was cancelled.
    pub fn commit(&self, number: u64) -> bool {
        self.advance(number, Phase::Saving, Phase::Ready)
    }

    /// Cancels the restart in progress, if any. Returns the phase it was in.
    pub fn cancel(&self) -> Phase {
        let mut state = self.state();
        let phase = state.phase;
        if phase != Phase::Executing {
            state.phase = Phase::None;
            std::mem::take(&mut state.handover).discard();
        }
        phase
    }

    /// Cancels the restart in progress unless its keys are already being saved. Returns whether
    /// there was one.
    pub fn cancel_check(&self) -> bool {
        let mut state = self.state();
        let is_checking = state.phase == Phase::Checking;
        if is_checking {
            state.phase = Phase::None;
        }
        is_checking
    }

    /// Returns the phase.
    pub fn phase(&self) -> Phase {
        self.state().phase
    }

    /// Adds a socket that the next process inherits if the workers are ending for a restart.
    /// Otherwise returns the socket.
    pub fn keep_socket(&self, place: Place, socket: OwnedFd) -> Option<OwnedFd> {
        let mut state = self.state();
        if state.phase != Phase::Ready {
            return Some(socket);
        }
        state.handover.add_socket(place, socket);
        None
    }

    /// Adds the snapshot that the next process loads.
    pub fn keep_snapshot(&self, path: PathBuf) {
        self.state().handover.set_snapshot(path);
    }

    /// Begins to execute the program. Returns what the new process inherits, or `None` if there is
    /// no restart or it was cancelled. A snapshot for the new process replaces the inherited one.
    pub fn take(&self) -> Option<Handover> {
        let mut state = self.state();
        if state.phase != Phase::Ready {
            return None;
        }
        state.phase = Phase::Executing;
        let handover = std::mem::take(&mut state.handover);
        drop(state);
        if handover.snapshot().is_some() {
            self.end_inherited();
        }
        Some(handover)
    }

    /// Sets the snapshot that the previous process left.
    pub fn inherit(&self, path: Option<PathBuf>) {
        self.state().inherited = path;
    }

    /// Returns the snapshot that the previous process left, until it is removed.
    pub fn inherited(&self) -> Option<PathBuf> {
        self.state().inherited.clone()
    }

    /// Removes the snapshot that the previous process left, because another file contains its keys
    /// or because this process writes no file.
    pub fn end_inherited(&self) {
        // The removal of a large file takes long, so that it does not hold the lock.
        let inherited = self.state().inherited.take();
        if let Some(path) = inherited {
            remove(&path);
        }
    }
}

/// Removes the snapshot of a restart, which will soon be out of date.
fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path) {
        log::warn!("{}: not removed: {error}", path.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restart_executes_the_program_only_after_all_its_steps() {
        let restart = Restart::default();
        let number = restart.begin().expect("the first one");
        assert_eq!(restart.begin(), Err(IN_PROGRESS));
        assert!(!restart.commit(number), "the settings are not checked");
        assert!(restart.take().is_none());
        assert!(restart.proceed(number) && !restart.proceed(number));
        assert!(restart.take().is_none(), "the keys are not saved");
        assert!(restart.commit(number));
        assert!(restart.take().is_some() && restart.take().is_none());
        assert_eq!(restart.cancel(), Phase::Executing);
        assert_eq!(restart.phase(), Phase::Executing);
    }

    #[test]
    fn a_cancelled_restart_does_not_end_the_next_one() {
        let restart = Restart::default();
        let first = restart.begin().expect("the first one");
        assert_eq!(restart.cancel(), Phase::Checking);
        let second = restart.begin().expect("the first one has ended");
        assert!(!restart.proceed(first));
        restart.fail(first);
        assert!(restart.proceed(second));
        assert!(!restart.cancel_check(), "the keys are being saved");
        assert!(!restart.commit(first) && restart.commit(second));
        assert_eq!(restart.cancel(), Phase::Ready);
        assert!(restart.take().is_none());
        let third = restart.begin().expect("the second one has ended");
        restart.fail(third);
        assert_eq!(restart.phase(), Phase::None);
    }
}
