//! One measurement: one server, one number of other keys, one shape.

use super::{Lateness, Shape};
use crate::client::Client;
use crate::clock;
use crate::contestant::Server;
use crate::error::{Error, Result};
use crate::keys::{self, Template};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use trace::Random;

/// Probes are keys of numbers from here on.
const FIRST_PROBE: u64 = 100_000_000_000;
/// When the first and the last probe is due, after the start.
const FIRST_DUE_MS: u64 = 1500;
const LAST_DUE_MS: u64 = 4500;
const HOUR_MS: u64 = 3_600_000;
/// How many of the others are due in the same second, and when it begins.
const SAME_SECOND_COUNT: u64 = 100_000;
const SAME_SECOND_MS: u64 = 2500;
const POLL_PAUSE: Duration = Duration::from_millis(2);
/// Refreshing is spread over so long, in so many steps.
const REFRESH_MS: u64 = 4000;
const REFRESH_STEP_MS: u64 = 5;

pub(super) struct Cell {
    pub shape: Shape,
    pub others: u64,
    pub probes: u64,
    pub patience: Duration,
}

impl Cell {
    /// The lateness of events and of memory.
    pub(super) fn measure(&self, server: &Server) -> Result<(Lateness, Lateness)> {
        let mut subscriber = server.client()?;
        subscriber.call(&["SUBSCRIBE", "__keyevent@0__:expired"])?;
        let start_ms = clock::wall_ms() + clock::fill_allowance_ms(self.others);
        let template = Template::new(&[b"SET", b"{key}", b"xxx", b"PXAT", b"0000000000000"]);
        let other_due = |key| self.other_due_ms(key, start_ms);
        keys::send_each(server, &template, 0..self.others, other_due)?;
        let late_by = clock::wall_ms().saturating_sub(start_ms);
        if late_by > 0 {
            return Err(Error::server(
                &server.label,
                format!("loading the others took {late_by} ms longer than allowed"),
            ));
        }
        clock::sleep_until_ms(start_ms);
        let probe_due = |key: u64| self.probe_due_ms(key - FIRST_PROBE, start_ms);
        keys::send_each(
            server,
            &template,
            FIRST_PROBE..FIRST_PROBE + self.probes,
            probe_due,
        )?;

        let last_due = start_ms + LAST_DUE_MS;
        let others_due = (0..self.others)
            .map(other_due)
            .filter(|due| *due <= last_due);
        let probes_due = (0..self.probes).map(|probe| self.probe_due_ms(probe, start_ms));
        let deadlines_ms: Vec<u64> = others_due.chain(probes_due).collect();
        let due_count = deadlines_ms.len() as u64;

        let give_up = Instant::now() + Duration::from_millis(LAST_DUE_MS) + self.patience;
        let is_over = AtomicBool::new(false);
        let (events, polls) = std::thread::scope(|scope| {
            let polling = scope.spawn(|| self.poll(server, due_count, &is_over, give_up));
            let refreshing = scope.spawn(|| self.refresh(server, &is_over));
            let events = self.collect(&mut subscriber, start_ms, give_up);
            is_over.store(true, Ordering::Relaxed);
            let polls = polling.join().expect("polling does not panic");
            refreshing.join().expect("refreshing does not panic")?;
            Ok::<_, Error>((events?, polls?))
        })?;
        let events = Lateness::new(events, self.probes as usize);
        let memory = Lateness::of_memory(deadlines_ms, &polls);
        Ok((events, memory))
    }

    fn probe_due_ms(&self, probe: u64, start_ms: u64) -> u64 {
        start_ms + FIRST_DUE_MS + probe * (LAST_DUE_MS - FIRST_DUE_MS) / self.probes
    }

    fn other_due_ms(&self, key: u64, start_ms: u64) -> u64 {
        let mut random = Random::of_key(1, key);
        match self.shape {
            Shape::NextTenMinutes => start_ms + 1000 + random.below(599_000),
            Shape::SameSecond if key < SAME_SECOND_COUNT => {
                start_ms + SAME_SECOND_MS + random.below(1000)
            }
            Shape::Hour | Shape::Refreshed | Shape::SameSecond => {
                start_ms + HOUR_MS + random.below(60_000)
            }
        }
    }

    /// The lateness of each probe's event, until all have come or patience ends.
    fn collect(
        &self,
        subscriber: &mut Client,
        start_ms: u64,
        give_up: Instant,
    ) -> Result<Vec<u64>> {
        let mut late_us = vec![None; self.probes as usize];
        let mut arrived = 0;
        while arrived < self.probes {
            let left = give_up.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let Some(message) = subscriber.receive_within(left)? else {
                break;
            };
            let now_us = clock::wall_us();
            let parts = message.as_list().unwrap_or_default();
            let key = parts.get(2).and_then(|part| part.as_bytes());
            let number = key.and_then(|key| std::str::from_utf8(key.strip_prefix(b"key:")?).ok());
            let number: Option<u64> = number.and_then(|digits| digits.parse().ok());
            let probe = number.and_then(|number| number.checked_sub(FIRST_PROBE));
            let Some(probe) = probe.filter(|probe| *probe < self.probes) else {
                continue;
            };
            let deadline_us = self.probe_due_ms(probe, start_ms) * 1000;
            arrived += u64::from(late_us[probe as usize].is_none());
            late_us[probe as usize].get_or_insert(now_us.saturating_sub(deadline_us));
        }
        Ok(late_us.into_iter().flatten().collect())
    }

    /// How many keys are gone, and when that was known, until events are over and all that was
    /// due is gone, or patience is.
    fn poll(
        &self,
        server: &Server,
        due_count: u64,
        is_over: &AtomicBool,
        give_up: Instant,
    ) -> Result<Vec<(u64, u64)>> {
        let mut client = server.client()?;
        let mut polls = Vec::new();
        let total = self.others + self.probes;
        while Instant::now() < give_up {
            let held = client.integer(&["DBSIZE"])?.max(0) as u64;
            let gone = total.saturating_sub(held);
            polls.push((clock::wall_us(), gone));
            if gone >= due_count && is_over.load(Ordering::Relaxed) {
                break;
            }
            std::thread::sleep(POLL_PAUSE);
        }
        Ok(polls)
    }

    /// Gives each of the others its hour again, evenly over the time in which probes are due.
    fn refresh(&self, server: &Server, is_over: &AtomicBool) -> Result<()> {
        if self.shape != Shape::Refreshed {
            return Ok(());
        }
        let mut client = server.client()?;
        let steps = REFRESH_MS / REFRESH_STEP_MS;
        let start_ms = clock::wall_ms();
        for step in 0..steps {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            clock::sleep_until_ms(start_ms + step * REFRESH_STEP_MS);
            let keys = self.others * step / steps..self.others * (step + 1) / steps;
            for key in keys.clone() {
                client.queue(&[b"EXPIRE", format!("key:{key:012}").as_bytes(), b"3600"]);
            }
            client.flush()?;
            for _ in keys {
                client.receive()?;
            }
        }
        Ok(())
    }
}
