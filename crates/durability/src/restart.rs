//! Restart for an upgrade: the process executes its program again, which may have been replaced,
//! and keeps its number, its listening sockets and its keys.
//!
//! ```text
//! SIGUSR2, SHUTDOWN RESTART ─▶ thread: runs the program with --check-config
//!   refused: the server goes on          accepted: a stop, with a snapshot if the keys need one
//!   snapshot failed: the server goes on  complete: workers end, their sockets are kept
//!                                        ─▶ the program is executed in place of this process
//! ```
//!
//! Connections that clients open meanwhile wait in the backlog of the sockets. Connections that
//! exist are closed as at a stop.
//!
//! Where the keys are depends on the settings. With the append-only file, the new process reads
//! that; with save points, the snapshot file. Otherwise, and if the program would read another file
//! than this process writes, the snapshot is a file of its own. The new process removes it when the
//! first base of its append-only file or its snapshot file is complete, or after the load if it
//! writes neither. If the new process fails before, the file stays, and the next start names it in
//! the log. That start does not load it, because it may be older than other files.
//!
//! This module is the state. `handover.rs` passes sockets and a path from one process to the next,
//! `program.rs` runs the program, `work.rs` is the sequence above.

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
/// Error of a server that is a part of another program, or whose settings cannot be read again.
pub const NO_PROGRAM: &str = "ERR this process cannot be restarted, because its settings came from standard input or it is a part of another program";

/// How far a restart is.
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
    /// The workers end.
    Ready,
    /// The program is being executed.
    Executing,
}

/// Requested restart.
pub struct Request {
    /// Reason for the log.
    pub cause: String,
    /// Whether the keys are saved to the snapshot file (true) or not at all (false). `None` if the
    /// settings decide.
    pub wants: Option<bool>,
    /// Client that receives an error if the server does not restart.
    pub client: Option<Waiting>,
}

/// Function that performs the restart with this number on a thread of its own. Returns false if
/// there is no thread.
pub type Runner = Box<dyn Fn(u64, Request) -> bool + Send + Sync>;

/// What one lock protects.
#[derive(Default)]
pub struct State {
    /// How far the restart is.
    pub phase: Phase,
    /// Number of restarts that were begun.
    pub number: u64,
    /// Sockets and the path that are passed on.
    pub handover: Handover,
    /// Path of the snapshot that the process before this one has left for it.
    pub inherited: Option<PathBuf>,
}

/// State of restarts.
#[derive(Default)]
pub struct Restart {
    /// The program to execute.
    program: OnceLock<Program>,
    /// What runs a requested restart.
    pub runner: OnceLock<Runner>,
    /// What the lock protects.
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

    /// Changes the phase of the restart with this number. Returns false if it has another phase.
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

    /// Ends the restart with this number, because something has failed.
    pub fn fail(&self, number: u64) {
        let mut state = self.state();
        if state.number == number && state.phase != Phase::Executing {
            state.phase = Phase::None;
            std::mem::take(&mut state.handover).discard();
        }
    }

    /// Declares that the keys of the restart with this number are saved, so that the program can be
    /// executed when the workers have ended. Returns false if the restart was cancelled.
    pub fn commit(&self, number: u64) -> bool {
        self.advance(number, Phase::Saving, Phase::Ready)
    }

    /// Cancels the restart in progress, if there is one. Returns the phase in which it was.
    pub fn cancel(&self) -> Phase {
        let mut state = self.state();
        let phase = state.phase;
        if phase != Phase::Executing {
            state.phase = Phase::None;
            std::mem::take(&mut state.handover).discard();
        }
        phase
    }

    /// Cancels the restart in progress if its keys are not being saved yet. Returns whether there
    /// was one.
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

    /// Adds a socket that the next process inherits, if the workers end for a restart. Returns the
    /// socket otherwise.
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

    /// Begins to execute the program. Returns what the new process inherits; `None` if there is no
    /// restart, or if it was cancelled. A snapshot for the new process replaces the inherited one.
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

    /// Sets the snapshot that the process before this one has left.
    pub fn inherit(&self, path: Option<PathBuf>) {
        self.state().inherited = path;
    }

    /// Returns the snapshot that the process before this one has left, until it is removed.
    pub fn inherited(&self) -> Option<PathBuf> {
        self.state().inherited.clone()
    }

    /// Removes the snapshot that the process before this one has left, because another file has its
    /// keys or none is written.
    pub fn end_inherited(&self) {
        // The removal of a large file takes long, so that it does not hold the lock.
        let inherited = self.state().inherited.take();
        if let Some(path) = inherited {
            remove(&path);
        }
    }
}

/// Removes a snapshot of a restart, which is out of date soon.
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
