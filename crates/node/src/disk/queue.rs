//! Queue of work for the thread that writes segments, bounded in bytes.

use crate::object::Resource;
use crate::rules::key::Key;
use std::collections::VecDeque;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// Maximum size of responses that wait, in bytes. Further ones are dropped and counted.
const BYTES_MAX: usize = 64 << 20;

/// Responses that have left memory.
pub struct Victim {
    /// URL of the responses.
    pub key: Key,
    /// The responses.
    pub resource: Arc<Resource>,
    /// Number of purges so far when the responses left memory.
    pub purge_count: u64,
    /// Entry in the store's account of memory, unless the responses are still in the store. The
    /// queue has its own limit, and must not make the store smaller.
    pub left: Option<Left>,
}

/// Responses that have left the store, and stay in its account of memory until this is dropped.
pub struct Left(pub Arc<Resource>);

impl Drop for Left {
    fn drop(&mut self) {
        self.0.leave_store();
    }
}

/// Work for the thread.
pub enum Job {
    /// Write responses to the current segment.
    Write(Victim),
    /// Delete a segment without any records in the index.
    Free(u32),
    /// Report that all earlier work is done. With `true`, the segment is completed first.
    Flush(bool, SyncSender<()>),
    /// End the thread.
    Stop,
}

/// Queue of jobs with a limit on waiting bytes.
#[derive(Default)]
pub struct Queue {
    state: Mutex<State>,
    change: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    bytes: usize,
    dropped: u64,
}

fn bytes(job: &Job) -> usize {
    match job {
        Job::Write(victim) => victim.resource.bytes(&victim.key) as usize,
        _ => 0,
    }
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }

    /// Adds a job without waiting. Responses are dropped if too many wait.
    pub fn offer(&self, job: Job) {
        let more = bytes(&job);
        let mut state = self.state();
        if more > 0 && state.bytes + more > BYTES_MAX {
            state.dropped += 1;
            return;
        }
        state.bytes += more;
        state.jobs.push_back(job);
        drop(state);
        self.change.notify_all();
    }

    /// Adds a job, and waits first if too many responses wait.
    pub fn push(&self, job: Job) {
        let more = bytes(&job);
        let mut state = self.state();
        while state.bytes > 0 && state.bytes + more > BYTES_MAX {
            state = self
                .change
                .wait(state)
                .unwrap_or_else(|poison| poison.into_inner());
        }
        state.bytes += more;
        state.jobs.push_back(job);
        drop(state);
        self.change.notify_all();
    }

    /// Removes the oldest job, waiting for one if there is none.
    pub fn pop(&self) -> Job {
        let mut state = self.state();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                state.bytes -= bytes(&job);
                drop(state);
                self.change.notify_all();
                return job;
            }
            state = self
                .change
                .wait(state)
                .unwrap_or_else(|poison| poison.into_inner());
        }
    }

    /// Counts a URL that was removed from the queue but could not be written.
    pub fn note_dropped(&self) {
        self.state().dropped += 1;
    }

    /// Returns the number of URLs that were dropped.
    pub fn dropped(&self) -> u64 {
        self.state().dropped
    }
}
