//! Runs one command without a connection, for tests.

use super::long::{Begun, run_job};
use super::steps::Stepped;
use super::{Call, Executor, Outcome};
use crate::command;
use crate::saving::{work as saving, writer};
use crate::state::Server;
use session::long::Task;
use session::message::Message;
use session::queue::OwnedCall;
use session::session::Session;
use session::waiting::BlockingState;
use std::time::Duration;
use store::Tick;
use wire::{Args, Output, Span};

/// Runs one command without a connection, for tests.
pub fn exec(server: &Server, session: &mut Session, args: &[&[u8]], now: Tick, out: &mut Vec<u8>) {
    let mut input = Vec::new();
    let mut spans = Vec::new();
    for arg in args {
        spans.push(Span {
            start: input.len() as u32,
            len: arg.len() as u32,
        });
        input.extend_from_slice(arg);
    }
    if args.is_empty() {
        return;
    }
    let args = Args::new(&input, &spans);
    let call = Call {
        start: 0,
        len: input.len(),
        first: 0,
        count: args.len(),
        index: command::table().lookup(args.name()),
        memo: None,
    };
    let mut executor = Executor::new(server, 0, now);
    let mut output = Output::from(std::mem::take(out));
    if executor.run(session, args, &call, &mut output) == Outcome::IsLong
        && let Some(index) = call.index
    {
        let call = OwnedCall::new(index, input, 0, spans);
        if let Begun::InSteps(mut steps) = executor.begin_long(session, call, &mut output) {
            let mut stepped = Stepped::More;
            while let Stepped::More | Stepped::Part(_) = stepped {
                stepped = executor.step(session, &mut steps);
                if let Stepped::Part(reply) = &stepped {
                    output.append(reply);
                }
            }
            if let Stepped::Done(reply) = stepped {
                output.append(&reply);
            }
        }
        executor.finish();
        while let Some(Task::Run(mut job)) = server.workers.long.try_next() {
            run_job(server, &mut job);
            let (_, _, reply) = executor.finish_long(job);
            session.end_wait();
            session.blocking_state = BlockingState::MustReply;
            executor.reply_late(session, None, &reply, &mut output);
        }
    }
    executor.finish();
    if server.persistence.saving.has_request() {
        save(server, session, &mut executor, &mut output);
    }
    *out = output.take_bytes();
    executor.finish();
}

/// Completes the snapshot that a command has requested.
fn save(server: &Server, session: &mut Session, executor: &mut Executor<'_>, output: &mut Output) {
    let now = executor.now();
    let (mut file, mut messages, mut answers) = (None, Vec::new(), Vec::new());
    while server.persistence.saving.is_busy() && !server.lifecycle.stops() {
        saving::begin(server, now);
        (0..server.workers.count)
            .for_each(|worker| saving::walk(server, worker, Duration::ZERO, now));
        while let Some((task, _)) = server.persistence.saving.queue.try_next() {
            writer::perform(server, &mut file, task);
        }
        server.workers.inboxes[0].take(&mut messages);
        for message in messages.drain(..) {
            match message {
                Message::Returned(loan) => executor.take_back(*loan),
                Message::Saved(epoch, result) => saving::end(server, epoch, result),
                Message::Answer(_, _, reply) => answers.push(reply),
                _ => {}
            }
        }
    }
    server.workers.inboxes[0].take(&mut messages);
    answers.extend(messages.into_iter().filter_map(|message| match message {
        Message::Answer(_, _, reply) => Some(reply),
        _ => None,
    }));
    for reply in answers {
        session.end_wait();
        session.blocking_state = BlockingState::MustReply;
        executor.reply_late(session, None, &reply, output);
    }
}
