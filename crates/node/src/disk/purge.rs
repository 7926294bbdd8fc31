//! Purges of records on disk: by URL, by prefix and by tag.

use super::record::{Description, key_hash};
use super::removed::Line;
use super::segment::{Entry, Segment};
use super::{Op, Place, Shared};
use crate::object::Head;
use crate::purge::Target;
use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// State of a purge by prefix or tag.
struct Purging<'a> {
    target: &'a Target,
    is_soft: bool,
    /// Number of visited records of each segment, or the offset behind the last one with the tag;
    /// [`usize::MAX`] if all were visited.
    visited: HashMap<u32, usize>,
    /// Hashes of the URLs that the purge affected.
    concerned: HashSet<u64>,
}

impl Shared {
    pub(super) fn purge(
        &self,
        target: &Target,
        is_soft: bool,
        counted: &HashSet<u64>,
    ) -> io::Result<usize> {
        if let Target::Url(key) = target {
            let hash = key_hash(key);
            let mut last = None;
            while let Some(place) = self.index.peek(&hash).filter(|place| last != Some(*place)) {
                // The record is visited again if the writer has moved it meanwhile.
                last = Some(place);
                if !is_soft {
                    self.remove(hash);
                } else if let Some(segment) = self.segments.get(place.segment) {
                    let entry = Entry {
                        hash,
                        deadline_ms: 0,
                        offset: place.offset,
                        length: place.length,
                    };
                    let described = self.describe(&segment, &entry)?;
                    self.soften(&segment, hash, place, described)?;
                }
            }
            let is_new = last.is_some() && !counted.contains(&hash);
            return Ok(usize::from(is_new));
        }
        self.purge_segments(self.segments.all(), target, is_soft, counted)
    }

    /// Purges the records of these segments, and then the records that the writer has meanwhile
    /// moved to other segments.
    pub(super) fn purge_segments(
        &self,
        segments: Vec<Arc<Segment>>,
        target: &Target,
        is_soft: bool,
        counted: &HashSet<u64>,
    ) -> io::Result<usize> {
        let mut purge = Purging {
            target,
            is_soft,
            visited: HashMap::new(),
            concerned: HashSet::new(),
        };
        self.purge_new(&segments, &mut purge)?;
        // A record that was not found at its place had already been appended at another place.
        self.purge_new(&self.segments.all(), &mut purge)?;
        Ok(purge.concerned.difference(counted).count())
    }

    /// Purges the records of segments that have not been visited yet.
    fn purge_new(&self, segments: &[Arc<Segment>], purge: &mut Purging<'_>) -> io::Result<()> {
        for segment in segments {
            let visited = purge.visited.get(&segment.number).copied();
            let visited = visited.unwrap_or_default();
            if visited == usize::MAX {
                continue;
            }
            let is_sealed = segment.is_sealed();
            if let Target::Tag(tag) = purge.target
                && let Some(offsets) = segment.tagged(*tag, u32::try_from(visited).unwrap_or(0))
            {
                let end = offsets.last().map_or(visited, |last| *last as usize + 1);
                let now = if is_sealed { usize::MAX } else { end };
                purge.visited.insert(segment.number, now);
                for offset in offsets {
                    // A record with a damaged header is not returned to anyone.
                    if let Some(entry) = segment.entry_at(offset)? {
                        self.purge_entry(segment, &entry, purge)?;
                    }
                }
                continue;
            }
            let entries = segment.entries()?;
            let now = if is_sealed { usize::MAX } else { entries.len() };
            purge.visited.insert(segment.number, now);
            for entry in entries.iter().skip(visited) {
                self.purge_entry(segment, entry, purge)?;
            }
        }
        Ok(())
    }

    fn purge_entry(
        &self,
        segment: &Segment,
        entry: &Entry,
        purge: &mut Purging<'_>,
    ) -> io::Result<()> {
        let place = entry.place(segment.number);
        if self.index.peek(&entry.hash) != Some(place) {
            return Ok(());
        }
        self.counts.purge_reads.fetch_add(1, Relaxed);
        let described = self.describe(segment, entry)?;
        let concerns = described.as_ref().is_none_or(|described| {
            let mut heads = described.variants.iter();
            heads.any(|(head, _)| purge.target.concerns(&described.key, &head.tags))
        });
        if !concerns {
            return Ok(());
        }
        if purge.is_soft && described.is_some() {
            self.soften(segment, entry.hash, place, described)?;
        } else if self.take(entry.hash, place) {
            self.log(&[Line::removal(place)])?;
        }
        purge.concerned.insert(entry.hash);
        Ok(())
    }

    /// Ends the freshness of a record, and changes its deadline accordingly.
    pub(super) fn soften(
        &self,
        segment: &Segment,
        hash: u64,
        place: Place,
        described: Option<Description>,
    ) -> io::Result<()> {
        let now_ms = self.clock.now_ms();
        segment.soften(place.offset, now_ms);
        self.log(&[Line::softening(place, now_ms)])?;
        let usable_ms = softened_usable_ms(described.as_ref(), now_ms, now_ms);
        segment.revive(place.length);
        let has_changed = self.index.compute(hash, |present| match present {
            Some(present) if *present == place && usable_ms > 0 => {
                Op::PutWithTtl(place, Duration::from_millis(usable_ms))
            }
            Some(present) if *present == place => Op::Remove,
            _ => Op::Keep,
        });
        // The index's listener subtracts the record as replaced or removed.
        if (!has_changed || usable_ms == 0) && segment.bury(place.length) {
            self.segments.remove(segment.number);
            segment.delete()?;
        }
        Ok(())
    }
}

/// Returns the remaining usable time of a record whose freshness ended at `at_ms`.
pub(super) fn softened_usable_ms(described: Option<&Description>, at_ms: u64, now_ms: u64) -> u64 {
    let usable = |head: &Head| {
        let mut terms = head.terms;
        terms.end_freshness(at_ms);
        terms.usable_ms(now_ms)
    };
    let heads = described.iter().flat_map(|described| &described.variants);
    heads.map(|(head, _)| usable(head)).max().unwrap_or(0)
}
