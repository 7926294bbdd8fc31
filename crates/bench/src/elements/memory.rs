//! Round 1: bytes per element, with and without TTLs.

use super::data::Data;
use super::{Elements, LeftOut, Round};
use crate::contestant::{Entrant, Settings};
use crate::error::{Error, Result};
use crate::memory::Subject;
use serde::Serialize;
use trace::Random;

/// TTLs in milliseconds, from three hours to a day.
const TTL_MS: std::ops::Range<u64> = 10_000_000..86_400_000;

#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub data: Data,
    pub has_ttls: bool,
    pub server: String,
    pub version: String,
    pub elements: u64,
    /// Increase of `used_memory` over an empty server, per element.
    pub used_per_element: f64,
    pub resident_per_element: f64,
}

/// Measures elements in a server started for the purpose. TTLs are set in a second pass, as in the
/// source.
pub(super) fn measure(
    options: &Elements,
    entrant: &Entrant,
    data: Data,
    has_ttls: bool,
) -> Result<std::result::Result<Row, LeftOut>> {
    let mut subject = Subject::new(entrant.start(&Settings {
        threads: options.threads_of(entrant),
        ..Settings::default()
    })?)?;
    if has_ttls && let Some(command) = data.lacks_expire_at(&mut subject.client)? {
        return Ok(Err(LeftOut::new(
            &subject.server,
            Round::Memory,
            command,
            "memory with TTLs",
        )));
    }
    let count = options.elements;
    data.fill(&subject.server, 0..count)?;
    if has_ttls {
        let now_ms = crate::clock::wall_ms();
        let spread = TTL_MS.end - TTL_MS.start;
        data.expire_at(&subject.server, 0..count, |element| {
            now_ms + TTL_MS.start + Random::of_key(1, element).below(spread)
        })?;
    }
    let taken = subject.settle(options.settle)?;
    let (held, keys) = (subject.client.integer(&["DBSIZE"])?, data.keys(count));
    if held != keys as i64 {
        let text = format!("it holds {held} keys of {keys}");
        return Err(Error::server(&subject.server.label, text));
    }
    Ok(Ok(Row {
        data,
        has_ttls,
        server: subject.server.label.clone(),
        version: subject.server.version.clone(),
        elements: count,
        used_per_element: taken.used / count as f64,
        resident_per_element: taken.resident / count as f64,
    }))
}
