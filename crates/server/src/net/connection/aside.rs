//! Long commands of a connection: taking them out of the input and beginning them.

use super::{Connection, Stop};
use crate::dispatch::long::Begun;
use crate::dispatch::steps::{Stepped, Steps};
use crate::dispatch::{Call, Executor, after_reply};
use session::queue::OwnedCall;
use session::session::ReplyMode;
use wire::{Output, Span};

/// A command that was taken out of the input and is not complete.
pub(super) enum Aside {
    /// A long command that has to wait.
    Waiting(Box<OwnedCall>),
    /// A command that runs in steps.
    InSteps(Box<Steps>),
}

impl Aside {
    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Aside::Waiting(call) => call.heap_bytes(),
            Aside::InSteps(steps) => steps.heap_bytes(),
        }
    }
}

impl Connection {
    /// Begins the long command that was parsed last from an input that is not the connection's own.
    pub(super) fn begin_copied(
        &mut self,
        input: &[u8],
        executor: &mut Executor<'_>,
        output: &mut Output,
    ) -> Stop {
        let (call, spans) = self.take_long_call();
        let bytes = input[call.start..call.start + call.len].to_vec();
        self.begin(owned(&call, bytes, 0, spans), executor, output)
    }

    /// Begins the long command that was parsed last from the connection's own input. The input
    /// keeps the bytes that were not executed. The others are moved, because they may be many.
    pub(super) fn begin_moved(
        &mut self,
        input: &mut Vec<u8>,
        executor: &mut Executor<'_>,
        output: &mut Output,
    ) -> Stop {
        let (call, spans) = self.take_long_call();
        let executed = std::mem::take(&mut self.input.executed);
        let rest = input.split_off(executed);
        let bytes = std::mem::replace(input, rest);
        self.begin(
            owned(&call, bytes, executed - call.len, spans),
            executor,
            output,
        )
    }

    fn take_long_call(&mut self) -> (Call, Vec<Span>) {
        self.long_call.take().expect("a long command was parsed")
    }

    /// Begins a long command, or keeps it until it may begin.
    fn begin(&mut self, call: OwnedCall, executor: &mut Executor<'_>, output: &mut Output) -> Stop {
        match executor.begin_long(&mut self.session, call, output) {
            Begun::Runs => Stop::Blocked,
            Begun::Refused => Stop::Continues,
            Begun::Waits(call) => {
                self.aside = Some(Aside::Waiting(Box::new(call)));
                Stop::Waits
            }
            Begun::InSteps(steps) => {
                self.aside = Some(Aside::InSteps(steps));
                Stop::Continues
            }
        }
    }

    /// Begins a long command that had to wait, or runs the next step of a command.
    pub(super) fn resume(
        &mut self,
        aside: Aside,
        executor: &mut Executor<'_>,
        output: &mut Output,
    ) -> Stop {
        let mut steps = match aside {
            Aside::Waiting(call) => return self.begin(*call, executor, output),
            Aside::InSteps(steps) => steps,
        };
        let stop = match executor.step(&mut self.session, &mut steps) {
            Stepped::Done(reply) => {
                self.add_reply(reply, steps.is_push(), output);
                return Stop::Continues;
            }
            Stepped::More => Stop::Continues,
            Stepped::Part(part) => {
                // CLIENT REPLY does not disable messages, and replies that it disables do not come
                // in parts.
                output.append(&part);
                Stop::Continues
            }
            Stepped::Waits => Stop::Waits,
            Stepped::Held => Stop::Held,
        };
        self.aside = Some(Aside::InSteps(steps));
        stop
    }

    /// Adds a reply to the output. A large reply is moved, not copied.
    fn add_reply(&mut self, reply: Output, is_push: bool, output: &mut Output) {
        if self.session.reply_mode != ReplyMode::On {
            let position = output.len();
            let is_push = is_push && reply.first() != Some(&b'-');
            if is_push {
                output.append(&reply);
            }
            after_reply(&mut self.session, output, position, is_push);
        } else if output.is_empty() && self.replies.sent == 0 && !output.is_cut_off() {
            *output = reply;
        } else {
            output.append(&reply);
        }
    }
}

fn owned(call: &Call, bytes: Vec<u8>, start: usize, spans: Vec<Span>) -> OwnedCall {
    let index = call.index.expect("a long command is in the table");
    OwnedCall::new(index, bytes, start, spans)
}
