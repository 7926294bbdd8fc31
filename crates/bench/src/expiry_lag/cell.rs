//! One measurement: one server, one number of other keys, one shape.

use super::probes::{self, LAST_DUE_MS, Probes};
use super::{Lateness, Shape};
use crate::clock;
use crate::contestant::Server;
use crate::error::{Error, Result};
use crate::keys::{self, Template};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use trace::Random;

const HOUR_MS: u64 = 3_600_000;
/// Maximum number of other keys that are due in the same second, and the start of that second.
const SAME_SECOND_COUNT: u64 = 100_000;
const SAME_SECOND_MS: u64 = 2500;
/// Span of time and number of steps over which refreshes are spread.
const REFRESH_MS: u64 = 4000;
const REFRESH_STEP_MS: u64 = 5;

pub(super) struct Cell {
    pub shape: Shape,
    pub others: u64,
    pub probes: u64,
    pub patience: Duration,
}

impl Cell {
    /// Measures the lateness of events and of memory.
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
        let probes = Probes {
            count: self.probes,
            start_ms,
        };
        keys::send_each(server, &template, probes.keys(), |key| probes.due_ms(key))?;

        let last_due = start_ms + LAST_DUE_MS;
        let others_due = (0..self.others)
            .map(other_due)
            .filter(|due| *due <= last_due);
        let probes_due = probes.keys().map(|key| probes.due_ms(key));
        let deadlines_ms: Vec<u64> = others_due.chain(probes_due).collect();
        let due_count = deadlines_ms.len() as u64;

        let give_up = Instant::now() + Duration::from_millis(LAST_DUE_MS) + self.patience;
        let total = self.others + self.probes;
        let is_over = AtomicBool::new(false);
        let (events, polls) = std::thread::scope(|scope| {
            let polling = scope.spawn(|| probes::poll(server, total, due_count, &is_over, give_up));
            let refreshing = scope.spawn(|| self.refresh(server, &is_over));
            let events = probes.collect(&mut subscriber, give_up);
            is_over.store(true, Ordering::Relaxed);
            let polls = polling.join().expect("polling does not panic");
            refreshing.join().expect("refreshing does not panic")?;
            Ok::<_, Error>((events?, polls?))
        })?;
        let events = Lateness::new(events, self.probes as usize);
        let memory = Lateness::of_memory(deadlines_ms, &polls);
        Ok((events, memory))
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

    /// Renews the TTL of each of the other keys, evenly spread over the time in which probes are
    /// due.
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
