//! Commands on many keys that run in steps: DEL or WATCH of a hundred thousand keys, KEYS. Each
//! step is a short command of its own; between two of them the worker serves other clients.
//!
//! Such a command is not one step for other clients. Commands on few keys are.

use super::{Call, Engine, Executor, Step};
use crate::command;
use crate::command::key::scan::list_names;
use crate::context::Work;
use crate::queue::OwnedCall;
use crate::session::Session;
use std::time::Instant;
use wire::{Args, Output, Reply};

/// Maximum number of keys in a step. A command on at most this many keys runs at once.
pub const KEYS_PER_STEP: usize = 1024;
/// Number of bytes before the names that KEYS has found, for the header of the array.
const HEADER_BYTES: usize = 24;

/// A command that runs in steps.
#[derive(Debug)]
pub struct Steps {
    call: OwnedCall,
    progress: Progress,
    nanos: u64,
}

#[derive(Debug)]
enum Progress {
    /// Index of the next key, and the sum of the replies if they are integers.
    Keys(usize, i64),
    /// Position of the scan, and the names found so far behind the space for their header.
    Names(u64, Output, usize),
}

/// Result of a step.
#[derive(Debug)]
pub enum Stepped {
    /// There are more steps.
    More,
    /// The reply is complete. The bytes before the given offset are not part of it.
    Done(Output, usize),
    /// A long command works on one of the keys.
    Waits,
    /// CLIENT PAUSE.
    Held,
}

impl Steps {
    /// Prepares a command; `None` if it does not run in steps.
    pub fn new(work: Work, call: OwnedCall, bytes_max: usize) -> Result<Steps, OwnedCall> {
        let progress = match work {
            Work::InSteps => Progress::Keys(1, 0),
            Work::Names => {
                let mut found = Output::new(bytes_max);
                found.extend_from_slice(&[0; HEADER_BYTES]);
                Progress::Names(0, found, 0)
            }
            _ => return Err(call),
        };
        Ok(Steps {
            call,
            progress,
            nanos: 0,
        })
    }

    /// Returns the size on the heap in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.call.heap_bytes()
            + match &self.progress {
                Progress::Keys(..) => 0,
                Progress::Names(_, found, _) => found.capacity(),
            }
    }
}

impl Executor<'_> {
    /// Runs the next step of a command.
    pub fn step(&mut self, session: &mut Session, steps: &mut Steps) -> Stepped {
        let start = Instant::now();
        let stepped = match &mut steps.progress {
            Progress::Keys(next, sum) => self.add_step(session, &steps.call, next, sum),
            Progress::Names(cursor, found, count) => {
                self.list_step(session, steps.call.args(), cursor, found, count);
                match *cursor {
                    0 => {
                        let found = std::mem::take(found);
                        with_header(session, found, *count)
                    }
                    _ => Stepped::More,
                }
            }
        };
        steps.nanos += start.elapsed().as_nanos() as u64;
        if let Stepped::Done(reply, from) = &stepped {
            let (index, args) = (steps.call.index, steps.call.args());
            self.timing
                .count_blocked(index, &session.info, args, steps.nanos, self.now);
            if reply.get(*from) == Some(&b'-') {
                self.server.stats.count_error(&reply[*from..]);
                self.timing.count_failed(index, true);
            }
        }
        stepped
    }

    /// Runs a command on its next keys and adds its reply, an integer, or expects OK.
    fn add_step(
        &mut self,
        session: &mut Session,
        call: &OwnedCall,
        next: &mut usize,
        sum: &mut i64,
    ) -> Stepped {
        let end = (*next + KEYS_PER_STEP).min(call.args().len());
        let (bytes, spans) = call.part(*next..end);
        let args = Args::new(bytes, &spans);
        let mut reply = Output::default();
        let chosen = command::table().choose(call.index, args);
        // The arguments are in memory already, so that their length does not matter.
        let part = Call {
            start: 0,
            len: 0,
            first: 0,
            count: args.len(),
            index: Some(call.index),
            memo: None,
        };
        match self.dispatch(session, &chosen, &args, &part, &mut reply) {
            Step::Ran => {}
            Step::Waits => return Stepped::Waits,
            Step::Held => return Stepped::Held,
            Step::Queued | Step::Refused | Step::IsLong => return Stepped::Done(reply, 0),
        }
        let number = reply
            .strip_prefix(b":")
            .and_then(|rest| rest.strip_suffix(b"\r\n"))
            .and_then(wire::number::parse_i64);
        *sum += number.unwrap_or(0);
        *next = end;
        if end < call.args().len() && !reply.starts_with(b"-") {
            return Stepped::More;
        }
        if number.is_none() {
            return Stepped::Done(reply, 0);
        }
        let mut reply = Output::default();
        Reply::new(&mut reply, session.protocol).integer(*sum);
        Stepped::Done(reply, 0)
    }

    /// Lists the names of the next keys that match the pattern of KEYS.
    fn list_step(
        &mut self,
        session: &Session,
        args: Args<'_>,
        cursor: &mut u64,
        found: &mut Output,
        count: &mut usize,
    ) {
        let (server, now) = (self.server, self.now);
        let mut list = Reply::new(found, session.protocol);
        let Engine::Slab(held) = &mut self.engine else {
            return;
        };
        let mut locked;
        let view = match held.whole.as_mut() {
            Some(view) => view,
            None => {
                locked = server.keyspace.lock_all(now);
                &mut locked
            }
        };
        let (next, more) = list_names(view, session.db, *cursor, &args[1], &mut list);
        *cursor = next;
        *count += more;
    }
}

/// Completes the reply of KEYS: writes the header directly before the names.
fn with_header(session: &Session, mut found: Output, count: usize) -> Stepped {
    let mut header = Output::default();
    Reply::new(&mut header, session.protocol).array(count);
    if found.len() < HEADER_BYTES {
        // It was cut off.
        return Stepped::Done(found, 0);
    }
    let from = HEADER_BYTES - header.len();
    found.from_mut(from)[..header.len()].copy_from_slice(&header);
    Stepped::Done(found, from)
}
