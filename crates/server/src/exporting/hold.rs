//! The hold of leaving slots: no command on them runs while the last keys are sent.
//!
//! A hold has a time limit, a slice. If keys are left at its end, the slots are released for a
//! pause, and held again for a longer slice: the slices grow until commands in the pauses change
//! less than half of what is sent meanwhile, so that a move ends at any rate of writes.
//!
//! If no key is left, the slots stay held, and the host gives a mark. It is sent, and the slots are
//! released when the host has read whether the target owns them.

use super::{CHANGED_MAX, FEED_BYTES, IDLE_PAUSE, READY_KEYS, Sender, has_ended};
use crate::cluster::install;
use crate::effects;
use crate::importing;
use crate::movement::Outcome;
use crate::replica::stream::{line, send, wrong};
use ::cluster::Mark;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use wire::slot::slot;

/// First slice, and the slice from which on the pauses become shorter instead. A command that waits
/// for longer than a second gets an error.
const SLICES: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(320)];
/// Longest slice. Only keys that change hundreds of times as fast as they are sent need it.
const SLICE_MAX: Duration = Duration::from_secs(60);
/// First and shortest pause between two slices.
const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(1)];
/// Time between two comparisons of what is sent with what is left.
const WINDOW: Duration = Duration::from_millis(250);
/// Time limit for the mark of the host, which may have lost its right to serve.
const MARK_TIME: Duration = Duration::from_millis(250);
/// Pause after a hold without a mark, or with a void one.
const VOID_PAUSE: Duration = Duration::from_secs(1);

/// Number of keys that were sent and that are left at an instant.
#[derive(Clone, Copy)]
struct Progress {
    at: Instant,
    sent: u64,
    left: usize,
}

/// When slots are held, and for how long.
pub(super) struct Pace {
    /// The last comparison after the walk.
    compared: Option<Progress>,
    /// Whether keys change about as fast as they are sent.
    is_behind: bool,
    /// The end of the last slice.
    held: Option<Progress>,
    slice: Duration,
    pause: Duration,
    /// Instant from which the slots may be held.
    from: Instant,
}

impl Pace {
    pub fn new() -> Pace {
        Pace {
            compared: None,
            is_behind: false,
            held: None,
            slice: SLICES[0],
            pause: PAUSES[0],
            from: Instant::now(),
        }
    }

    /// Takes the progress after the walk into account.
    fn compare(&mut self, now: Progress) {
        let Some(before) = self.compared else {
            self.compared = Some(now);
            return;
        };
        if now.at.duration_since(before.at) >= WINDOW {
            self.is_behind |= now.left > READY_KEYS && is_undone(before, now);
            self.compared = Some(now);
        }
    }

    /// Takes a slice into account that was too short.
    fn lengthen(&mut self, now: Progress) {
        if self.held.is_some_and(|before| is_undone(before, now)) {
            // The pauses become shorter before a command may wait for long.
            match self.slice >= SLICES[1] && self.pause > PAUSES[1] {
                true => self.pause = (self.pause / 2).max(PAUSES[1]),
                false => self.slice = (self.slice * 2).min(SLICE_MAX),
            }
        }
        self.held = Some(now);
        self.from = now.at + self.pause;
    }
}

/// Whether changes have undone at least half of what was sent between two instants.
fn is_undone(before: Progress, now: Progress) -> bool {
    let gained = before.left.saturating_sub(now.left) as u64;
    gained * 2 <= now.sent - before.sent
}

/// End of a hold.
enum End {
    /// The target owns the slots.
    Committed,
    /// The host gave no mark, or its commit is void.
    Void,
    /// Keys are left.
    TooShort,
    /// The server stops before the outcome is known.
    Unknown,
}

impl Sender<'_> {
    fn progress(&self) -> Progress {
        Progress {
            at: Instant::now(),
            sent: self.sent_keys,
            left: self.left(),
        }
    }

    /// Compares what was sent with what is left, from the end of the walk on.
    pub(super) fn measure(&mut self) {
        let now = self.progress();
        self.pace.is_behind |= self.changed.len() > CHANGED_MAX;
        if self.walk.is_none() {
            self.pace.compare(now);
        }
    }

    /// Whether the slots should be held now.
    pub(super) fn may_hold(&self) -> bool {
        let is_ready = self.walk.is_none() && self.left() <= READY_KEYS;
        // The hold would wait for the end of a long command.
        let uses = |key: &[u8]| self.leaving.has(slot(key));
        let server = self.server;
        (is_ready || self.pace.is_behind)
            && Instant::now() >= self.pace.from
            && server.cluster.seat.is_connected.load(Relaxed)
            && !server.workers.long.uses(uses)
    }

    /// Holds the slots, and sends what is left. Returns whether the move has ended.
    pub(super) fn hold(&mut self) -> io::Result<bool> {
        let (server, leaving) = (self.server, self.leaving);
        let begun = Instant::now();
        install::hold(server, self.holder, &leaving.slots);
        let ended = match self.send_rest(begun + self.pace.slice) {
            Ok(true) => self.conclude(),
            Ok(false) => Ok(End::TooShort),
            Err(error) => Err(error),
        };
        if let Ok(End::Unknown) = ended {
            return Ok(true);
        }
        // After a commit, the topology in force redirects the commands.
        install::release(server, self.holder, &leaving.slots);
        let is_committed = matches!(ended, Ok(End::Committed));
        importing::end_events(server, &leaving.slots, !is_committed);
        let held = begun.elapsed();
        server.cluster.moves.count_hold(leaving, held);
        match ended? {
            End::Committed => {
                log::info!(
                    "cluster: move {}: commands waited {:.1} ms; the target owns the slots",
                    leaving.id,
                    held.as_secs_f64() * 1e3
                );
                return Ok(true);
            }
            End::TooShort => self.pace.lengthen(self.progress()),
            End::Void | End::Unknown => self.pace.from = Instant::now() + VOID_PAUSE,
        }
        Ok(false)
    }

    /// Sends what is left until an instant, at least one batch. Returns whether that was all.
    fn send_rest(&mut self, until: Instant) -> io::Result<bool> {
        let server = self.server;
        {
            let mut view = server.data.keyspace.lock_all(server.clock.now());
            effects::add_all_removals(&server.data.keyspace, &server.feed, &mut view);
        }
        loop {
            let is_all = self.read_feed(FEED_BYTES)?;
            self.fill()?;
            let sent = self.flush()?;
            if is_all && sent == 0 && self.left() == 0 {
                return Ok(self.walk.is_none());
            }
            if has_ended(server, self.leaving) {
                return Err(wrong("the move has ended"));
            }
            if Instant::now() >= until {
                return Ok(false);
            }
            if sent == 0 {
                // A snapshot has borrowed the value.
                self.leaving.wait(IDLE_PAUSE);
            }
        }
    }

    /// Sends a mark of the host, and waits for its outcome. The slots are held, and everything was
    /// sent.
    fn conclude(&mut self) -> io::Result<End> {
        let leaving = self.leaving;
        let Some(mark) = self.await_mark() else {
            return Ok(End::Void);
        };
        let sent = self.send_mark(mark);
        if sent.is_err() {
            leaving.change(|exchange| exchange.wants_void = true);
        }
        let Some(outcome) = self.await_outcome() else {
            return Ok(End::Unknown);
        };
        self.server.cluster.moves.count_outcome(outcome);
        leaving.change(|exchange| {
            (exchange.mark, exchange.outcome) = (None, None);
            exchange.wants_void = false;
        });
        match outcome {
            Outcome::Committed => Ok(End::Committed),
            Outcome::Void => sent.map(|()| End::Void),
        }
    }

    /// Requests a mark of the host. Returns `None` if it gives none in time; then it does not give
    /// one later.
    fn await_mark(&self) -> Option<Mark> {
        let (server, leaving) = (self.server, self.leaving);
        let end = Instant::now() + MARK_TIME;
        leaving.change(|exchange| exchange.wants_mark = true);
        loop {
            {
                let mut exchange = leaving.exchange();
                let gives_up =
                    exchange.is_over || server.lifecycle.stops() || Instant::now() >= end;
                if exchange.mark.is_some() || gives_up {
                    exchange.wants_mark = false;
                    return exchange.mark;
                }
            }
            leaving.wait(IDLE_PAUSE);
        }
    }

    fn send_mark(&mut self, mark: Mark) -> io::Result<()> {
        let revisions = [mark.map, mark.source, mark.movement].map(|at| at.0.to_string());
        let [map, source, movement] = &revisions;
        let words = [
            "CLUSTER",
            "SYNCSLOTS",
            "MARK",
            &self.link,
            map,
            source,
            movement,
        ];
        send(&mut self.connection, &words)?;
        line(&mut self.connection).map(|_| ())
    }

    /// Waits for the outcome of a mark; `None` if the server stops before.
    fn await_outcome(&self) -> Option<Outcome> {
        while !self.server.lifecycle.stops() {
            if let Some(outcome) = self.leaving.exchange().outcome {
                return Some(outcome);
            }
            self.leaving.wait(IDLE_PAUSE);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of keys that are sent per millisecond.
    const RATE: u64 = 20;

    /// Returns the milliseconds until keys that change at a rate are sent, and the longest slice.
    fn time_of_move(keys: usize, changes_per_ms: usize) -> (u64, Duration) {
        let start = Instant::now();
        let (mut pace, mut ms, mut sent, mut left) = (Pace::new(), 0u64, 0, keys);
        let mut send = |left: &mut usize| {
            let count = (*left).min(RATE as usize);
            *left -= count;
            sent += count as u64;
            sent
        };
        loop {
            let (at, is_held) = (start + Duration::from_millis(ms), pace.is_behind);
            if is_held && at >= pace.from {
                let end = at + pace.slice;
                while start + Duration::from_millis(ms) < end && left > 0 {
                    send(&mut left);
                    ms += 1;
                }
                if left == 0 {
                    return (ms, pace.slice);
                }
                let at = start + Duration::from_millis(ms);
                pace.lengthen(Progress {
                    at,
                    sent: send(&mut left),
                    left,
                });
                continue;
            }
            let sent = send(&mut left);
            ms += 1;
            left = (left + changes_per_ms).min(keys);
            pace.compare(Progress { at, sent, left });
            if left <= READY_KEYS {
                return (ms, pace.slice);
            }
            assert!(ms < 1_000_000, "{changes_per_ms}: it does not end: {left}");
        }
    }

    #[test]
    fn a_move_ends_at_any_rate_of_changes() {
        let (alone, slice) = time_of_move(100_000, 0);
        assert_eq!((alone, slice), (4994, SLICES[0]));
        for changes_per_ms in [1, 5, 15, 20, 30, 100, 1_000, 10_000, 100_000] {
            let (ms, slice) = time_of_move(100_000, changes_per_ms);
            assert!(ms < 4 * alone, "{changes_per_ms}: {ms} ms, {slice:?}");
            let is_short = changes_per_ms > 1_000 || slice <= SLICES[1];
            assert!(is_short, "{changes_per_ms}: {slice:?}");
        }
    }
}
