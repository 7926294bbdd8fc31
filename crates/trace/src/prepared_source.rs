//! The prepared form of a trace as a format.

use crate::entry::{Columns, Encoding, Entry, OpenError, Source, Workload};
use crate::error::Fault;
use crate::prepared::{Prepared, Unreadable};
use crate::request::Request;

/// The prepared form.
pub(crate) static PREPARED: Entry = Entry {
    endings: &["prepared"],
    aliases: &[],
    columns: Columns::None,
    has_next_access: false,
    workload: Workload::Web,
    open: |mut input, layout| {
        let prepared = Prepared::read(&mut input, layout.memory_limit)?;
        Ok(Box::new(PreparedSource::new(prepared)))
    },
    encode: Some(|_| Ok(Encoding::Prepared)),
};

impl From<Unreadable> for OpenError {
    fn from(error: Unreadable) -> OpenError {
        match error {
            Unreadable::Fault(fault) => OpenError::Fault(fault),
            Unreadable::TooLarge(reason) => OpenError::Unfit(reason),
        }
    }
}

/// Reader of the requests of a prepared trace.
struct PreparedSource {
    prepared: Prepared,
    row: usize,
    time_ms: u64,
}

impl PreparedSource {
    fn new(prepared: Prepared) -> Self {
        PreparedSource {
            time_ms: prepared.start_ms,
            prepared,
            row: 0,
        }
    }
}

impl Source for PreparedSource {
    fn next(&mut self) -> Result<Option<Request>, Fault> {
        if self.row >= self.prepared.len() {
            return Ok(None);
        }
        let gap_ms = self.prepared.gaps.get(self.row);
        self.time_ms = self.time_ms.saturating_add(gap_ms);
        let request = self.prepared.request(self.row, self.time_ms);
        self.row += 1;
        Ok(Some(request))
    }

    fn take_prepared(&mut self) -> Option<Prepared> {
        if self.row > 0 {
            return None;
        }
        let prepared = std::mem::take(&mut self.prepared);
        Some(prepared)
    }
}
