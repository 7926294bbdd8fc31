//! Lateness of elements' `expired` events and of freeing their memory, among many other elements
//! with TTLs.
//!
//! An event names only the key, so each probe is the last element of its own key.

use super::data::{Data, Layout};
use super::{Elements, LeftOut, Round};
use crate::clock;
use crate::contestant::{Entrant, Settings};
use crate::error::{Error, Result};
use crate::expiry_lag::lateness::Lateness;
use crate::expiry_lag::probes::{self, LAST_DUE_MS, Probes};
use crate::latency::Percentiles;
use crate::noise::Noise;
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// TTLs of the other elements in milliseconds, from three hours to a day.
const TTL_MS: std::ops::Range<u64> = 10_000_000..86_400_000;
/// Time in milliseconds for setting the probes. The first probe is due after that.
const ALLOWANCE_MS: u64 = 500;

#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    /// The other elements.
    pub data: Data,
    pub server: String,
    pub version: String,
    pub others: u64,
    pub events: Lateness,
    pub memory: Lateness,
    /// Delays with which threads sleeping for a millisecond at a time woke during the measurement.
    pub machine: Percentiles,
}

pub(super) fn measure(
    options: &Elements,
    entrant: &Entrant,
    data: Data,
) -> Result<std::result::Result<Row, LeftOut>> {
    let server = entrant.start(&Settings {
        threads: options.threads_of(entrant),
        events: Some(data.kind.event_class()),
        ..Settings::default()
    })?;
    let mut subscriber = server.client()?;
    if let Some(command) = data.lacks_expire_at(&mut subscriber)? {
        return Ok(Err(LeftOut::new(
            &server,
            Round::Lag,
            command,
            "lag of events",
        )));
    }
    subscriber.call(&[
        "SUBSCRIBE",
        &format!("__keyevent@0__:{}", data.kind.event()),
    ])?;
    data.fill(&server, 0..options.elements)?;
    let now_ms = clock::wall_ms();
    data.expire_at(&server, 0..options.elements, |element| {
        now_ms + TTL_MS.start + trace::Random::of_key(1, element).below(TTL_MS.end - TTL_MS.start)
    })?;
    let own = Data {
        layout: Layout::Many,
        ..data
    };
    let mut probes = Probes {
        count: options.probes,
        start_ms: 0,
    };
    own.fill(&server, probes.keys())?;
    probes.start_ms = clock::wall_ms() + ALLOWANCE_MS;
    own.expire_at(&server, probes.keys(), |key| probes.due_ms(key))?;

    let give_up =
        Instant::now() + Duration::from_millis(ALLOWANCE_MS + LAST_DUE_MS) + options.patience;
    let is_over = AtomicBool::new(false);
    let total = data.keys(options.elements) + options.probes;
    let noise = Noise::start(&server.cpus);
    let (events, polls) = std::thread::scope(|scope| {
        let polling =
            scope.spawn(|| probes::poll(&server, total, options.probes, &is_over, give_up));
        let events = probes.collect(&mut subscriber, give_up);
        is_over.store(true, Ordering::Relaxed);
        let polls = polling.join().expect("polling does not panic");
        Ok::<_, Error>((events?, polls?))
    })?;
    let deadlines_ms = probes.keys().map(|key| probes.due_ms(key)).collect();
    Ok(Ok(Row {
        data,
        server: server.label.clone(),
        version: server.version.clone(),
        others: options.elements,
        events: Lateness::new(events, options.probes as usize),
        memory: Lateness::of_memory(deadlines_ms, &polls),
        machine: noise.finish(),
    }))
}
