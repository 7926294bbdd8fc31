//! Runs one command without a connection, for tests.

use super::long::{Begun, run_job};
use super::steps::Stepped;
use super::{Call, Executor, Outcome};
use crate::command;
use crate::long::Task;
use crate::queue::OwnedCall;
use crate::session::Session;
use crate::state::Server;
use crate::waiting::BlockingState;
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
            while let Stepped::More = stepped {
                stepped = executor.step(session, &mut steps);
            }
            if let Stepped::Done(reply, from) = stepped {
                output.extend_from_slice(&reply[from..]);
            }
        }
        executor.finish();
        while let Some(Task::Run(mut job)) = server.long.try_next() {
            run_job(server, &mut job);
            let (_, _, reply) = executor.finish_long(job);
            session.end_wait();
            session.blocking_state = BlockingState::MustReply;
            executor.reply_late(session, None, &reply, &mut output);
        }
    }
    *out = output.take_bytes();
    executor.finish();
}
