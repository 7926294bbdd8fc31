//! Long commands of a connection: taking them out of the input and beginning them.

use super::{Connection, Stop};
use crate::dispatch::{Call, Executor, long::Begun};
use crate::queue::OwnedCall;
use wire::{Output, Span};

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
        let executed = std::mem::take(&mut self.executed);
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
    pub(super) fn begin(
        &mut self,
        call: OwnedCall,
        executor: &mut Executor<'_>,
        output: &mut Output,
    ) -> Stop {
        match executor.begin_long(&mut self.session, call, output) {
            Begun::Runs => Stop::Blocked,
            Begun::Waits(call) => {
                self.aside = Some(Box::new(call));
                Stop::Waits
            }
            Begun::Refused => {
                self.is_stalled = !self.input.is_empty();
                Stop::Exhausted
            }
        }
    }
}

fn owned(call: &Call, bytes: Vec<u8>, start: usize, spans: Vec<Span>) -> OwnedCall {
    let index = call.index.expect("a long command is in the table");
    OwnedCall::new(index, bytes, start, spans)
}
