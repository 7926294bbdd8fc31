//! Temporary storage of a trace, so that it can be read backward to find each object's next
//! request, in memory that does not grow with the trace.
//!
//! The caller provides the storage, such as a temporary file. A pass reads backward, with a table
//! of the request that followed for each object. When the table is full, the objects with larger
//! hashes are left to a further pass, so that every pass has the same bound. A record is
//! little-endian:
//!
//! ```text
//! ms u64 | key u64 | ttl ms u64 | size u32 | key size u32 | value size u32 | client u32
//! | op u64 | next u64
//! ```
//!
//! `next` is the number of the next request plus 1, 0 for unknown, 2^64 − 1 for never.

use crate::records::{u32_at, u64_at};
use crate::request::{NextAccess, Op, Request};
use crate::sampled_map::SampledMap;
use std::io::{self, Read, Seek, SeekFrom, Write};

const RECORD_BYTES: usize = 56;
const NEXT_AT: usize = 48;
/// Number of records read or written at a time.
const BLOCK_RECORDS: u64 = 4096;
const NEVER: u64 = u64::MAX;
const SEED: u64 = 0;

/// Requests in temporary storage.
pub struct Spool<S> {
    storage: S,
    count: u64,
    /// Records that are not written yet.
    block: Vec<u8>,
}

impl<S: Read + Write + Seek> Spool<S> {
    /// Creates a spool in an empty storage, positioned at its start.
    pub fn new(storage: S) -> Self {
        Spool {
            storage,
            count: 0,
            block: Vec::new(),
        }
    }

    /// Appends a request.
    ///
    /// # Errors
    /// The storage cannot be written.
    pub fn push(&mut self, request: &Request) -> io::Result<()> {
        encode(request, &mut self.block);
        self.count += 1;
        if self.block.len() >= BLOCK_RECORDS as usize * RECORD_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.storage.write_all(&self.block)?;
        self.block.clear();
        Ok(())
    }

    /// Sets the next access of every request, with a table of up to twice `objects_max` ≥ 1
    /// objects. Returns the number of passes.
    ///
    /// # Errors
    /// The storage cannot be read or written.
    pub fn annotate(&mut self, objects_max: usize) -> io::Result<u32> {
        self.flush()?;
        let mut passes = 0;
        let mut first = Some(0);
        while let Some(from) = first {
            let mut coming = SampledMap::new(objects_max, from, SEED);
            let mut end = self.count;
            while end > 0 {
                let start = end.saturating_sub(BLOCK_RECORDS);
                self.annotate_block(start, end, &mut coming)?;
                end = start;
            }
            passes += 1;
            first = coming.last().checked_add(1);
        }
        Ok(passes)
    }

    /// Annotates the requests from `start` to before `end`, backward.
    fn annotate_block(
        &mut self,
        start: u64,
        end: u64,
        coming: &mut SampledMap<u64>,
    ) -> io::Result<()> {
        let at = SeekFrom::Start(start * RECORD_BYTES as u64);
        let mut block = vec![0; (end - start) as usize * RECORD_BYTES];
        self.storage.seek(at)?;
        self.storage.read_exact(&mut block)?;
        let numbers = (start..end).rev();
        for (record, number) in block.chunks_exact_mut(RECORD_BYTES).rev().zip(numbers) {
            // A key that the table drops in this pass is annotated in another, from its last
            // request on.
            if let Some(next) = coming.entry(u64_at(record, 8), || NEVER) {
                record[NEXT_AT..].copy_from_slice(&next.to_le_bytes());
                *next = number + 1;
            }
        }
        self.storage.seek(at)?;
        self.storage.write_all(&block)
    }

    /// Returns all requests in order.
    ///
    /// # Errors
    /// The storage cannot be read.
    pub fn requests(&mut self) -> io::Result<impl Iterator<Item = io::Result<Request>>> {
        self.flush()?;
        self.storage.seek(SeekFrom::Start(0))?;
        let mut input = io::BufReader::with_capacity(1 << 18, &mut self.storage);
        Ok((0..self.count).map(move |_| {
            let mut record = [0; RECORD_BYTES];
            input.read_exact(&mut record)?;
            Ok(decode(&record))
        }))
    }
}

fn encode(request: &Request, out: &mut Vec<u8>) {
    let next = match request.next_access {
        NextAccess::Unknown => 0,
        NextAccess::Never => NEVER,
        NextAccess::At(number) => number + 1,
    };
    let words = [request.time_ms, request.key, request.ttl_ms];
    let sizes = [
        request.size,
        request.key_size,
        request.value_size,
        request.client,
    ];
    out.extend_from_slice(words.map(u64::to_le_bytes).as_flattened());
    out.extend_from_slice(sizes.map(u32::to_le_bytes).as_flattened());
    out.extend_from_slice(
        [request.op as u64, next]
            .map(u64::to_le_bytes)
            .as_flattened(),
    );
}

fn decode(record: &[u8; RECORD_BYTES]) -> Request {
    Request {
        time_ms: u64_at(record, 0),
        key: u64_at(record, 8),
        ttl_ms: u64_at(record, 16),
        size: u32_at(record, 24),
        key_size: u32_at(record, 28),
        value_size: u32_at(record, 32),
        client: u32_at(record, 36),
        op: Op::ALL[record[40] as usize],
        next_access: match u64_at(record, NEXT_AT) {
            0 => NextAccess::Unknown,
            NEVER => NextAccess::Never,
            next => NextAccess::At(next - 1),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Zipf;
    use std::collections::HashMap;
    use std::io::Cursor;

    /// A simple algorithm that finds each next access, for comparison.
    fn futures(keys: &[u64]) -> Vec<NextAccess> {
        let mut coming = HashMap::new();
        let mut futures: Vec<NextAccess> = keys
            .iter()
            .enumerate()
            .rev()
            .map(|(number, key)| {
                let next = coming.insert(*key, number as u64);
                next.map_or(NextAccess::Never, NextAccess::At)
            })
            .collect();
        futures.reverse();
        futures
    }

    #[test]
    fn every_next_access_is_found_with_a_table_of_any_size() {
        let keys: Vec<u64> = Zipf::new(2_000, 0.8, 5).take(20_000).collect();
        let wanted = futures(&keys);
        for (objects_max, passes_min) in [(1_000_000, 1), (300, 4), (37, 20)] {
            let mut spool = Spool::new(Cursor::new(Vec::new()));
            for (number, key) in keys.iter().enumerate() {
                let request = Request::new(number as u64, *key, 10);
                spool.push(&request).expect("memory is there");
            }
            let passes = spool.annotate(objects_max).expect("memory is there");
            assert!(
                passes >= passes_min && passes < 2 * passes_min + 50,
                "{passes}"
            );
            let requests = spool.requests().expect("memory is there");
            let found: Vec<NextAccess> = requests
                .map(|request| request.expect("memory is there").next_access)
                .collect();
            assert!(found == wanted, "a table of {objects_max}");
        }
    }

    #[test]
    fn every_field_of_a_request_is_stored() {
        let request = Request {
            time_ms: u64::MAX,
            key: 1 << 63,
            ttl_ms: 5,
            size: 6,
            key_size: 7,
            value_size: 8,
            client: u32::MAX,
            op: Op::Decr,
            next_access: NextAccess::At(0),
        };
        let mut spool = Spool::new(Cursor::new(Vec::new()));
        spool.push(&request).expect("memory is there");
        let mut requests = spool.requests().expect("memory is there");
        assert_eq!(requests.next().and_then(Result::ok), Some(request));
        assert!(requests.next().is_none());
    }

    #[test]
    fn an_empty_spool_has_no_requests() {
        let mut spool = Spool::new(Cursor::new(Vec::new()));
        assert_eq!(spool.annotate(1).expect("memory is there"), 1);
        assert_eq!(spool.requests().expect("memory is there").count(), 0);
    }
}
