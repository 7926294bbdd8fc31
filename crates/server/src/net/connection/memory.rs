//! Memory of a connection: growth of its input, limits of its output, and the account of both.

use super::{Connection, Scratch};
use crate::dispatch::Executor;
use crate::state::Observability;
use session::clients::ClientInfo;
use session::clock::{Clock, Moment};
use session::freeing;
use session::notices::Kind;
use session::queue::Transaction;
use settings::Config;
use std::sync::atomic::Ordering::Relaxed;
use wire::CutOff;
use wire::output::{OUTPUT_BYTES_MAX, can_allocate};

/// Bytes that a connection takes without buffers: the connection with its session, and the record
/// that other workers read.
const CONNECTION_BYTES: usize = size_of::<Connection>() + size_of::<ClientInfo>();
/// Minimum growth of an input buffer, in bytes.
const GROWTH_BYTES_MIN: usize = 1024;

/// Sums of a connection.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// Number of bytes that the connection holds, as counted last.
    pub(super) held_bytes: usize,
    pub(super) received_bytes: u64,
    pub(super) sent_bytes: u64,
    pub(super) command_count: u64,
}

impl Connection {
    /// Appends bytes to the input that was received but not executed yet. The buffer grows by half,
    /// with the bytes that have arrived instead of those that the client has announced. Returns
    /// false if there is no memory; the connection must then be closed.
    pub(super) fn keep_input(
        &mut self,
        bytes: &[u8],
        observability: &Observability,
        clock: &Clock,
    ) -> bool {
        let free = self.input.bytes.capacity() - self.input.bytes.len();
        if bytes.len() > free {
            let more = bytes
                .len()
                .max(GROWTH_BYTES_MIN.min(self.input.bytes.len()));
            let more = more.max(self.input.bytes.len() / 2);
            let is_there = can_allocate(self.input.bytes.len() + more)
                && self.input.bytes.try_reserve_exact(more).is_ok();
            if !is_there {
                let stats = &observability.stats;
                stats
                    .allocation_failure_disconnections
                    .fetch_add(1, Relaxed);
                let why = "there is no memory for its input";
                self.warn_of_closing(observability, clock, Kind::Closed, why);
                return false;
            }
        }
        self.input.bytes.extend_from_slice(bytes);
        true
    }

    /// Bounds the pending output by the hard limit of the client's class.
    pub fn bound_output(&mut self, config: &Config) {
        let unsent_max = config.output_max(self.session.class());
        self.replies
            .output
            .set_max(unsent_max.saturating_add(self.replies.sent));
    }

    /// Whether the unsent replies exceed the limits of the client's class, or a reply was cut off.
    /// The connection must then be closed.
    pub fn is_over_limit(&mut self, config: &Config, now: Moment) -> bool {
        if self.replies.output.is_cut_off() {
            return true;
        }
        let pending = self.pending_bytes() as u64;
        if pending == 0 {
            self.replies.over_since = None;
            return false;
        }
        let class = self.session.class();
        if pending >= config.output_max(class) as u64 {
            return true;
        }
        let limit = config.output_limit(class);
        if limit.soft_bytes == 0 || pending < limit.soft_bytes {
            self.replies.over_since = None;
            return false;
        }
        let since = *self.replies.over_since.get_or_insert(now);
        now.since(since) > limit.soft_seconds.saturating_mul(1000)
    }

    /// Counts and logs that the connection is closed because of its output.
    pub fn report_excess(&self, observability: &Observability, clock: &Clock) {
        let counter = match self.replies.output.cut_off() {
            Some(CutOff::Memory) => &observability.stats.allocation_failure_disconnections,
            _ => &observability.stats.output_limit_disconnections,
        };
        counter.fetch_add(1, Relaxed);
        let pending = self.pending_bytes();
        let why = match self.replies.output.cut_off() {
            Some(CutOff::Memory) => "there is no memory for its reply".to_owned(),
            Some(CutOff::Limit) => {
                format!("its reply exceeds client-output-buffer-limit or {OUTPUT_BYTES_MAX} bytes")
            }
            None => format!("{pending} pending output bytes exceed client-output-buffer-limit"),
        };
        self.warn_of_closing(observability, clock, Kind::Closed, &why);
    }

    /// Updates the number of bytes that this connection holds.
    pub fn account(&mut self, scratch: &mut Scratch) {
        let input = self.input.bytes.capacity();
        let output = self.replies.output.capacity() + self.replies.backlog.held_bytes();
        let arguments = self.dialect.heap_bytes();
        let aside = self.aside.as_ref().map_or(0, super::Aside::heap_bytes);
        let tls = self.tls.as_ref().map_or(0, |tls| tls.heap_bytes());
        let held =
            CONNECTION_BYTES + input + output + arguments + aside + tls + self.session.heap_bytes();
        let info = &self.session.info;
        info.output_bytes
            .store(self.pending_bytes() as u64, Relaxed);
        if held != self.account.held_bytes {
            scratch.traffic.held_bytes += held as i64 - self.account.held_bytes as i64;
            self.account.held_bytes = held;
            let transaction = self.session.transaction.as_deref();
            let queued = transaction.map_or(0, Transaction::heap_bytes);
            for (record, bytes) in [
                (&info.input_capacity, input),
                (&info.output_capacity, output),
                (&info.argument_bytes, arguments),
                (&info.transaction_bytes, queued),
                (&info.memory_bytes, held),
            ] {
                record.store(bytes as u64, Relaxed);
            }
        }
    }

    /// Removes the connection and its state from the sums before it is dropped.
    pub fn release(&mut self, executor: &Executor<'_>, scratch: &mut Scratch) {
        self.note_held(false, executor);
        self.close_records(scratch);
        scratch.traffic.held_bytes -= self.account.held_bytes as i64;
        self.account.held_bytes = 0;
        self.session.info.memory_bytes.store(0, Relaxed);
        freeing::free(std::mem::take(&mut self.input.bytes));
        freeing::free(self.replies.output.take_bytes());
    }
}
