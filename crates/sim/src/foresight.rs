//! Removal of entries that a replay knows will not be hit, to bound what a policy could save by
//! such knowledge.
//!
//! An entry that is not hit again takes memory that others could use. The oracle knows the next
//! request for each object. After each request, it removes or rejects the object's entry if that
//! entry will not be hit. All other decisions are the policy's, so that replays with and without an
//! oracle differ only by this knowledge. The result bounds what this policy can gain by it;
//! [`belady`](policy::evict::belady) bounds every policy.
//!
//! Part of the gain is not due to deadlines: an entry without another request is useless whether it
//! expires or not. There are therefore two oracles, and their difference is the effect of
//! deadlines.

use crate::rules::{Foresight, Rules};
use crate::{Columns, Error};
use policy::Tick;

/// Knowledge of the next request for each object.
#[derive(Debug)]
pub(crate) struct Oracle<'a> {
    /// For each request, the number of the next request for the same object; `u32::MAX` if there is
    /// none.
    next: &'a [u32],
    /// Time of each request; empty for [`Foresight::Unrequested`].
    times: Vec<Tick>,
}

impl<'a> Oracle<'a> {
    /// Returns the oracle that the rules request, if any.
    ///
    /// # Errors
    /// The trace is a part of another, so that the future requests of its objects are unknown.
    pub(crate) fn new(columns: &'a Columns, rules: &Rules) -> Result<Option<Self>, Error> {
        let Some(foresight) = rules.foresight else {
            return Ok(None);
        };
        let times = match foresight {
            Foresight::Unrequested => Vec::new(),
            Foresight::Expiring => times(columns, rules),
        };
        let next = columns.future()?;
        Ok(Some(Oracle { next, times }))
    }

    /// Whether an entry with this deadline will not be hit after request `index`.
    #[inline]
    pub(crate) fn is_useless(&self, index: usize, deadline: Option<Tick>) -> bool {
        let next = self.next[index];
        if next == u32::MAX {
            return true;
        }
        let time = self.times.get(next as usize);
        matches!((time, deadline), (Some(&time), Some(deadline)) if deadline < time)
    }

    /// Bytes of memory in use, without the columns of the trace.
    pub(crate) fn heap_bytes(&self) -> u64 {
        (self.times.capacity() * size_of::<Tick>()) as u64
    }
}

/// Returns the time of each request under these rules.
fn times(columns: &Columns, rules: &Rules) -> Vec<Tick> {
    let mut now = Tick(0);
    let time = |index| {
        now = rules.time_after(now, index, || columns.gap_ms(index));
        now
    };
    (0..columns.len()).map(time).collect()
}
