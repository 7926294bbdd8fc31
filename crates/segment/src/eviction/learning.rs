//! State that the engine and the learner of the experimental eviction `gl-cache` exchange.

use super::watch::Watch;
use crate::storage::{SegmentId, SharedRates};
// Estimates for a learner: no reader relies on their order, so Loom need not explore them.
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Name of a segment. It becomes invalid when the segment is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentName {
    pub(super) id: SegmentId,
    pub(super) generation: u64,
}

/// Segments in the order of eviction.
#[derive(Debug, Default)]
pub(crate) struct Ranking {
    /// Names in reverse order: the next victim is the last.
    pub(super) names: Vec<SegmentName>,
    /// Number of segments that are evicted before another ranking is requested.
    pub(super) quota: usize,
}

/// State that the engine and the learner exchange.
#[derive(Debug)]
pub(crate) struct Learning {
    pub(crate) watch: Watch,
    /// Current rates. A segment stores the rates at the time when it is opened.
    pub(crate) rates: SharedRates,
    pub(super) wants_ranking: AtomicBool,
    /// Number of segments opened so far.
    pub(crate) opened: AtomicU64,
    /// Number of objects written so far, not counting open segments.
    pub(crate) writes: AtomicU64,
    /// Number of segments evicted by a ranking, including the segments with which they were merged.
    pub(crate) evicted: AtomicU64,
}

impl Ranking {
    pub(super) fn heap_bytes(&self) -> usize {
        self.names.capacity() * size_of::<SegmentName>()
    }
}

impl Learning {
    pub(crate) fn new() -> Self {
        Learning {
            watch: Watch::new(),
            rates: SharedRates::default(),
            wants_ranking: AtomicBool::new(true),
            opened: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
        }
    }
}
