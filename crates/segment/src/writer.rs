//! State of a writing thread.

use crate::eviction::Job;
use crate::storage::OpenSegments;

/// State of one writing thread: the segments that it fills, and the eviction that it has begun.
#[derive(Debug)]
pub struct Writer {
    pub(crate) id: u16,
    pub(crate) open: OpenSegments,
    pub(crate) job: Option<Job>,
    /// Buffer for values that are read in order to be written again.
    pub(crate) scratch: Vec<u8>,
    /// Value of the directory's change counter at the last attempt to evict ahead that found
    /// nothing to evict. No other attempt is made while the counter has this value.
    pub(crate) found_none_at: Option<u32>,
    /// Number of objects written since the writer last opened a segment.
    pub(crate) writes: u64,
}

impl Writer {
    pub(crate) fn new(id: u16, open_max: usize) -> Self {
        Writer {
            id,
            open: OpenSegments::new(open_max),
            job: None,
            scratch: Vec::new(),
            found_none_at: None,
            writes: 0,
        }
    }
}
