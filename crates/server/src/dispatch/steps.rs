//! Commands on many keys or channels that run in steps: DEL or WATCH of a hundred thousand keys,
//! KEYS, SUBSCRIBE. Each step is a separate short command; between two steps, the worker serves
//! other clients.
//!
//! Such a command is not atomic for other clients. Commands on few keys are. On the segment engine,
//! MGET and MSET run in steps, too, and their steps are also limited in bytes.
//!
//! The rights to all names are checked before the first name is used, and in steps as well, because
//! each name may be compared with a thousand patterns.

mod pieces;

use self::pieces::Pieces;
use super::{Call, Engine, Executor, Step};
use crate::command;
use crate::command::cluster::slots::Walk;
use crate::command::key::scan::{Visible, list_names};
use crate::context::{SegmentSteps, Spec, Work};
use crate::permission::check_rights;
use engine::STEP_BYTES;
use session::acl::log::Context;
use session::pubsub::{self, Space};
use session::queue::OwnedCall;
use session::session::{ReplyMode, Session};
use std::ops::Range;
use std::time::Instant;
use store::View;
use wire::{Args, Output, Reply, Span};

/// Maximum number of keys in a step. A command on at most this many keys runs at once.
pub const KEYS_PER_STEP: usize = 1024;
/// Minimum size in bytes of a command that runs in steps on the segment engine.
const LARGE_BYTES: usize = 1 << 20;
/// Maximum number of bytes of the header of an array.
const HEADER_BYTES: usize = 24;

/// A command that runs in steps.
#[derive(Debug)]
pub struct Steps {
    call: OwnedCall,
    progress: Progress,
    /// Index of the next argument to be checked against the user's rights.
    unchecked: usize,
    nanos: u64,
}

#[derive(Debug)]
enum Progress {
    /// Index of the next key, and the sum of the replies if they are integers.
    Keys(usize, i64),
    /// Index of the next key, and the reply so far: an array with an element for each key.
    Values(usize, Pieces),
    /// Position of the scan, the names found so far, and their number.
    Names(u64, Pieces, usize),
    /// Position of the scan, what was found so far, and the names among it.
    Slots(u64, Walk, Pieces),
    /// A complete reply that is sent.
    Sends(Pieces),
    /// Index of the next name, which is confirmed by a separate message.
    Confirmed(usize),
    /// All subscriptions of a namespace, which messages confirm.
    Unsubscribes(Space),
    /// All subscriptions, and then the command itself.
    Resets,
}

/// First step of a command whose reply turned out to be long.
#[derive(Debug)]
pub(super) struct FirstStep {
    /// Index of the next argument.
    next: usize,
    reply: Output,
}

impl FirstStep {
    /// Moves the begin of a reply out of `out`, from `position` on.
    pub fn take(next: usize, out: &mut Output, position: usize) -> FirstStep {
        let mut reply = Output::default();
        reply.extend_from_slice(&out[position..]);
        out.truncate(position);
        FirstStep { next, reply }
    }
}

/// Result of a step.
#[derive(Debug)]
pub enum Stepped {
    /// There are more steps.
    More,
    /// There are more steps. This part of the reply can be sent immediately.
    Part(Output),
    /// The rest of the reply.
    Done(Output),
    /// A long command works on one of the keys.
    Waits,
    /// CLIENT PAUSE holds the command.
    Held,
}

/// Whether a command with this number of arguments and bytes runs in steps from its start.
#[inline]
pub(super) fn runs_in_steps(
    session: &Session,
    spec: &Spec,
    (args_len, bytes_len): (usize, usize),
    is_on_segment: bool,
) -> bool {
    let is_large = args_len > KEYS_PER_STEP + 1 || bytes_len > LARGE_BYTES;
    if is_large && is_on_segment && runs_in_steps_on_segment(spec, args_len) {
        return true;
    }
    let subscriptions = || session.subscriptions.as_deref();
    match spec.run.work {
        Work::InSteps => args_len > KEYS_PER_STEP + 1,
        Work::Confirmed => args_len > pubsub::AT_ONCE_MAX + 1,
        Work::Unsubscribes(space) if args_len == 1 => {
            subscriptions().is_some_and(|all| all.names(space).len() > pubsub::AT_ONCE_MAX)
        }
        Work::Unsubscribes(_) => args_len > pubsub::AT_ONCE_MAX + 1,
        Work::Resets => subscriptions().is_some_and(|all| all.len() > pubsub::AT_ONCE_MAX),
        _ => false,
    }
}

/// Whether the segment engine, which has no transactions, runs a command on many keys or with many
/// bytes in steps. MSET with a key without a value is refused as a whole.
fn runs_in_steps_on_segment(spec: &Spec, args_len: usize) -> bool {
    match spec.run.segment_steps {
        Some(SegmentSteps::Read) => true,
        Some(SegmentSteps::Write) => !args_len.is_multiple_of(2),
        None => false,
    }
}

/// Returns the arguments to be checked against a user's rights before a command runs or is queued.
/// If it runs in steps, the others are checked in steps. If MULTI would queue it, it is refused.
#[inline]
pub(super) fn checked_at_once<'a>(spec: &Spec, args: Args<'a>) -> Args<'a> {
    let count = match spec.run.work {
        Work::InSteps => KEYS_PER_STEP,
        Work::Confirmed => pubsub::QUEUED_MAX,
        _ => return args,
    };
    args.first(count + 1)
}

impl Steps {
    /// Prepares a command whose first step may have run. Returns the command if it does not run in
    /// steps.
    pub(super) fn new(
        spec: &Spec,
        call: OwnedCall,
        (bytes_max, begun): (usize, Option<FirstStep>),
        (session, is_on_segment): (&Session, bool),
    ) -> Result<Steps, OwnedCall> {
        let len = call.args().len();
        let mut unchecked = 1;
        let segment_steps = spec.run.segment_steps.filter(|_| is_on_segment);
        let progress = match spec.run.work {
            _ if segment_steps == Some(SegmentSteps::Write) => Progress::Keys(1, 0),
            _ if segment_steps == Some(SegmentSteps::Read) => {
                let mut found = Pieces::new(bytes_max);
                let next = match begun {
                    Some(first) => {
                        found.open().append(&first.reply);
                        found.close_full();
                        first.next
                    }
                    None => {
                        Reply::new(found.open(), session.protocol).array(len - 1);
                        1
                    }
                };
                Progress::Values(next, found)
            }
            Work::InSteps => Progress::Keys(1, 0),
            Work::Unsubscribes(space) if call.args().len() == 1 => Progress::Unsubscribes(space),
            Work::Confirmed | Work::Unsubscribes(_) => Progress::Confirmed(1),
            Work::Resets => Progress::Resets,
            Work::Names => {
                unchecked = len;
                Progress::Names(0, Pieces::new(bytes_max), 0)
            }
            Work::Slots => match Walk::parse(call.args()) {
                Ok(walk) => Progress::Slots(0, walk, Pieces::new(bytes_max)),
                Err(_) => return Err(call),
            },
            _ => return Err(call),
        };
        Ok(Steps {
            call,
            progress,
            unchecked,
            nanos: 0,
        })
    }

    /// Whether the reply consists of messages to a subscriber.
    pub fn is_push(&self) -> bool {
        matches!(
            self.progress,
            Progress::Confirmed(_) | Progress::Unsubscribes(_)
        )
    }

    /// Returns the size on the heap in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.call.heap_bytes()
            + match &self.progress {
                Progress::Names(_, found, _)
                | Progress::Values(_, found)
                | Progress::Sends(found) => found.heap_bytes(),
                Progress::Slots(_, walk, found) => walk.heap_bytes() + found.heap_bytes(),
                _ => 0,
            }
    }
}

impl Executor<'_> {
    /// Runs the next step of a command.
    pub fn step(&mut self, session: &mut Session, steps: &mut Steps) -> Stepped {
        let start = Instant::now();
        let stepped = match self.check_step(session, &steps.call, &mut steps.unchecked) {
            Some(stepped) => stepped,
            None => self.work_step(session, steps),
        };
        steps.nanos += start.elapsed().as_nanos() as u64;
        if let Stepped::Done(reply) = &stepped {
            let (index, args) = (steps.call.index, steps.call.args());
            self.timing
                .count_blocked(index, &session.info, args, steps.nanos, self.now);
            if reply.first() == Some(&b'-') {
                self.server.observability.stats.count_error(reply);
                self.timing.count_failed(index, true);
            }
        }
        stepped
    }

    fn work_step(&mut self, session: &mut Session, steps: &mut Steps) -> Stepped {
        let stepped = match &mut steps.progress {
            Progress::Values(next, found) => self.value_step(session, &steps.call, next, found),
            Progress::Names(cursor, found, count) => {
                self.list_step(session, steps.call.args(), cursor, found, count)
            }
            Progress::Slots(cursor, walk, found) => self.slot_step(session, cursor, walk, found),
            Progress::Keys(next, sum) => return self.add_step(session, &steps.call, next, sum),
            Progress::Confirmed(next) => return self.confirm_step(session, &steps.call, next),
            Progress::Unsubscribes(space) => {
                return self.unsubscribe_step(session, &steps.call, *space);
            }
            Progress::Resets => return self.reset_step(session, &steps.call),
            Progress::Sends(found) => return send(session, found),
        };
        if let Some(stepped) = stepped {
            return stepped;
        }
        if let Progress::Values(_, found)
        | Progress::Names(_, found, _)
        | Progress::Slots(_, _, found) = &mut steps.progress
        {
            let found = std::mem::replace(found, Pieces::new(0));
            steps.progress = Progress::Sends(found);
        }
        Stepped::More
    }

    /// Checks the rights to the next names. Returns `None` if all were already checked.
    fn check_step(
        &self,
        session: &mut Session,
        call: &OwnedCall,
        next: &mut usize,
    ) -> Option<Stepped> {
        let len = call.args().len();
        if *next >= len || session.has_all_rights(&self.server.auth.acl) {
            return None;
        }
        let end = (*next + KEYS_PER_STEP).min(len);
        let (bytes, spans) = call.part(*next..end);
        let args = Args::new(bytes, &spans);
        let table = command::table();
        let chosen = table.choose(call.index, args);
        *next = end;
        match check_rights(table, self.server, session, chosen, args, Context::TopLevel) {
            Ok(()) if session.has_all_rights(&self.server.auth.acl) => None,
            Ok(()) => Some(Stepped::More),
            Err(why) => {
                let mut reply = Output::default();
                Reply::new(&mut reply, session.protocol).error(&why);
                Some(Stepped::Done(reply))
            }
        }
    }

    /// Runs a command on its next keys and adds the elements of its reply, an array. Returns `None`
    /// when the reply is complete.
    fn value_step(
        &mut self,
        session: &mut Session,
        call: &OwnedCall,
        next: &mut usize,
        found: &mut Pieces,
    ) -> Option<Stepped> {
        let len = call.args().len();
        let end = (*next + KEYS_PER_STEP).min(len);
        let part = Output::new(found.open().room().saturating_add(HEADER_BYTES));
        let (reply, end) = match self.run_part(session, call, *next..end, part) {
            Ok(done) => done,
            Err(stepped) => return Some(stepped),
        };
        if reply.first() == Some(&b'-') {
            return Some(Stepped::Done(reply));
        }
        let body = reply.iter().position(|byte| *byte == b'\n');
        let elements = &reply[body.map_or(0, |at| at + 1)..];
        match reply.cut_off() {
            Some(why) => found.open().cut(why),
            None => found.open().extend_from_slice(elements),
        }
        found.close_full();
        *next = end;
        (end < len && found.cut_off().is_none()).then_some(Stepped::More)
    }

    /// Runs a command on its next keys and adds its reply, an integer, or expects OK.
    fn add_step(
        &mut self,
        session: &mut Session,
        call: &OwnedCall,
        next: &mut usize,
        sum: &mut i64,
    ) -> Stepped {
        let end = end_of_step(call.args(), *next);
        let (reply, end) = match self.run_part(session, call, *next..end, Output::default()) {
            Ok(done) => done,
            Err(stepped) => return stepped,
        };
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
            return Stepped::Done(reply);
        }
        let mut reply = Output::default();
        Reply::new(&mut reply, session.protocol).integer(*sum);
        Stepped::Done(reply)
    }

    /// Runs a command with some of its arguments. Returns its reply and the index of the next
    /// argument, or what ends the step.
    fn run_part(
        &mut self,
        session: &mut Session,
        call: &OwnedCall,
        arguments: Range<usize>,
        mut reply: Output,
    ) -> Result<(Output, usize), Stepped> {
        let (bytes, spans) = call.part(arguments.clone());
        let args = Args::new(bytes, &spans);
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
            Step::Ran => Ok((reply, arguments.end)),
            Step::Stopped(next) => Ok((reply, arguments.start + next - 1)),
            Step::Waits => Err(Stepped::Waits),
            Step::Held => Err(Stepped::Held),
            Step::Queued | Step::Refused | Step::IsLong => Err(Stepped::Done(reply)),
        }
    }

    /// Runs a command on its next names, each of which gets a separate message.
    fn confirm_step(
        &mut self,
        session: &mut Session,
        call: &OwnedCall,
        next: &mut usize,
    ) -> Stepped {
        let all = call.args().len();
        let end = (*next + pubsub::AT_ONCE_MAX).min(all);
        match self.run_part(session, call, *next..end, Output::default()) {
            Ok((reply, _)) if end == all => Stepped::Done(reply),
            Ok((reply, _)) => {
                *next = end;
                Stepped::Part(reply)
            }
            Err(stepped) => stepped,
        }
    }

    /// Removes the next subscriptions of a namespace, each of which gets a separate message.
    fn unsubscribe_step(
        &mut self,
        session: &mut Session,
        call: &OwnedCall,
        space: Space,
    ) -> Stepped {
        let (mut bytes, mut spans) = (Vec::new(), Vec::new());
        let mut add = |word: &[u8]| {
            let (start, len) = (bytes.len() as u32, word.len() as u32);
            spans.push(Span { start, len });
            bytes.extend_from_slice(word);
        };
        add(call.args().name());
        let subscriptions = session.subscriptions.as_deref();
        let names = subscriptions.into_iter().flat_map(|all| all.names(space));
        names.take(pubsub::AT_ONCE_MAX).for_each(|name| add(name));
        let count = spans.len();
        let part = OwnedCall::new(call.index, bytes, 0, spans);
        match self.run_part(session, &part, 1..count, Output::default()) {
            Ok((reply, _)) if session.subscription_len(space) == 0 => Stepped::Done(reply),
            Ok((reply, _)) => Stepped::Part(reply),
            Err(stepped) => stepped,
        }
    }

    /// Removes the next subscriptions, and runs the command once none is left.
    fn reset_step(&mut self, session: &mut Session, call: &OwnedCall) -> Stepped {
        if !session.unsubscribe_some(&self.server.clients.pubsub) {
            return Stepped::More;
        }
        match self.run_part(session, call, 1..1, Output::default()) {
            Ok((reply, _)) => Stepped::Done(reply),
            Err(stepped) => stepped,
        }
    }

    /// Calls `work` with all shards locked. Returns `None` on the segment engine, which has no
    /// shards.
    fn on_all<R>(&mut self, work: impl FnOnce(&mut View<'_>) -> R) -> Option<R> {
        let Engine::Slab(held) = &mut self.engine else {
            return None;
        };
        Some(match held.whole.as_mut() {
            Some(view) => work(view),
            None => work(&mut self.server.data.keyspace.lock_all(self.now)),
        })
    }

    /// Examines the next keys for CLUSTER. Returns `None` when the reply is complete.
    fn slot_step(
        &mut self,
        session: &Session,
        cursor: &mut u64,
        walk: &mut Walk,
        found: &mut Pieces,
    ) -> Option<Stepped> {
        let mut list = Reply::new(found.open(), session.protocol);
        *cursor = self.on_all(|view| walk.step(view, (session.db, *cursor), &mut list))?;
        found.close_full();
        if *cursor > 0 && found.cut_off().is_none() {
            return Some(Stepped::More);
        }
        let mut header = Output::default();
        walk.begin_reply(&mut Reply::new(&mut header, session.protocol));
        found.push_front(header);
        None
    }

    /// Lists the names of the next keys that match the pattern of KEYS. Returns `None` when the
    /// reply is complete.
    fn list_step(
        &mut self,
        session: &Session,
        args: Args<'_>,
        cursor: &mut u64,
        found: &mut Pieces,
        count: &mut usize,
    ) -> Option<Stepped> {
        let mut list = Reply::new(found.open(), session.protocol);
        let (at, visible) = ((session.db, *cursor), Visible::of(self.server));
        let (next, more) =
            self.on_all(|view| list_names(view, at, &visible, &args[1], &mut list))?;
        *cursor = next;
        *count += more;
        found.close_full();
        if *cursor > 0 && found.cut_off().is_none() {
            return Some(Stepped::More);
        }
        let mut header = Output::default();
        Reply::new(&mut header, session.protocol).array(*count);
        found.push_front(header);
        None
    }
}

/// Returns the index after the arguments of a step, which are pairs if the command has pairs: an
/// even number of arguments, exceeding [`STEP_BYTES`] by at most one pair.
fn end_of_step(args: Args<'_>, next: usize) -> usize {
    let (mut end, last) = (next, (next + KEYS_PER_STEP).min(args.len()));
    let mut bytes = 0;
    while end < last && bytes <= STEP_BYTES {
        let pair = end..last.min(end + 2);
        bytes += pair.clone().map(|index| args[index].len()).sum::<usize>();
        end = pair.end;
    }
    end
}

/// Returns the next piece of a complete reply.
fn send(session: &Session, found: &mut Pieces) -> Stepped {
    if let Some(why) = found.cut_off() {
        let mut reply = Output::default();
        reply.cut(why);
        return Stepped::Done(reply);
    }
    match found.pop() {
        // CLIENT REPLY disables the whole reply.
        (piece, is_last) if is_last || session.reply_mode != ReplyMode::On => Stepped::Done(piece),
        (piece, _) => Stepped::Part(piece),
    }
}
