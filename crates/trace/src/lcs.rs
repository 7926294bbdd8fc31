//! libCacheSim's binary formats: oracleGeneral, which consists of records only, and lcs, which has
//! a header before the records.
//!
//! Source: libCacheSim, <https://github.com/1a1a11a/libCacheSim>,
//! `traceReader/customizedReader/lcs.h`. All numbers are little-endian. Versions 4 to 8 add
//! features to version 3, which are ignored:
//!
//! ```text
//! header, 8,192 bytes        magic u64 | version u64 | statistics, 8,000 | 168 unused | magic u64
//!   statistics               version, requests, objects, bytes requested, bytes of objects,
//!                            first second, last second, reads, writes, deletes,
//!                            smallest size, largest size, each i64 | more
//! oracleGeneral, version 1   second u32 | object u64 | bytes u32 | next i64
//! version 2                  second u32 | object u64 | bytes u32 | op u8, tenant u24 | next i64
//! version 3                  second u32 | object u64 | bytes i64 | op u8, tenant u24 | ttl u32
//!                            | next i64
//! version 4, 5, 6, 7, 8      version 3 | 1, 2, 4, 8, 16 features u32
//! ```
//!
//! `next` is the number of the object's next request, where the first request has number 1. −1 and
//! 2^63 − 1 mean never, and 0 means unknown.

use crate::entry::{Columns, Encoding, Entry, Misfit, Source, Workload};
use crate::error::{Fault, Position, hex};
use crate::records::{Records, u32_at, u64_at};
use crate::request::{NextAccess, Op, Request};
use crate::summary::Statistics;
use std::io::Read;

const HEADER_BYTES: usize = 8192;
const MAGIC: u64 = 0x1234_5678_9ABC_DEF0;
/// Offset of the second magic number in the header.
const MAGIC_END_AT: usize = HEADER_BYTES - 8;
/// Offset of the number of requests in the header.
const COUNT_AT: usize = 24;
/// Version of the statistics in the header, which is independent of the version of the records.
const STATISTICS_VERSION: u64 = 1;

/// libCacheSim's records of 24 bytes, each with the next access.
pub(crate) static ORACLE_GENERAL: Entry = Entry {
    endings: &["oracleGeneral.bin", "oracleGeneral"],
    aliases: &[],
    columns: Columns::None,
    has_next_access: true,
    workload: Workload::Web,
    open: |input, _| Ok(Box::new(Lcs::oracle_general(input))),
    encode: Some(|_| {
        Ok(Encoding::Rows {
            header: Vec::new(),
            encode: Box::new(oracle_record),
        })
    }),
};

/// libCacheSim's own format: a header and records, versions 1 to 8.
pub(crate) static LCS: Entry = Entry {
    endings: &["lcs"],
    aliases: &[],
    columns: Columns::None,
    has_next_access: true,
    workload: Workload::Web,
    open: |input, _| Ok(Box::new(Lcs::with_header(input)?)),
    encode: Some(|info| {
        Ok(Encoding::Rows {
            header: header(info.statistics),
            encode: Box::new(lcs_record),
        })
    }),
};

const EXPECTED_HEADER: &str = "lcs's header of 8,192 bytes between its magic numbers";

/// Operations by their numbers. Read, write and update correspond to get, set and replace of
/// key-value caches; 0 means that the format has no operation.
const OPS: [Op; 15] = [
    Op::Get,
    Op::Get,
    Op::Gets,
    Op::Set,
    Op::Add,
    Op::Cas,
    Op::Replace,
    Op::Append,
    Op::Prepend,
    Op::Delete,
    Op::Incr,
    Op::Decr,
    Op::Get,
    Op::Set,
    Op::Replace,
];
/// Number of an invalid operation.
const OP_INVALID: u32 = 255;

/// Returns the number of an operation.
fn op_number(op: Op) -> u8 {
    let at = OPS.iter().skip(1).position(|known| *known == op);
    1 + at.expect("the table has every operation") as u8
}

/// Returns the header of version 3 with the trace's statistics, if they are known.
fn header(statistics: Option<&Statistics>) -> Vec<u8> {
    let mut numbers = vec![MAGIC, 3];
    if let Some(statistics) = statistics {
        let of_ops = |is_wanted: fn(Op) -> bool| -> u64 {
            let ops = Op::ALL.into_iter().zip(statistics.ops);
            ops.filter(|(op, _)| is_wanted(*op))
                .map(|(_, count)| count)
                .sum()
        };
        let reads = of_ops(Op::is_read);
        let deletes = of_ops(|op| op == Op::Delete);
        numbers.extend([
            STATISTICS_VERSION,
            statistics.requests,
            statistics.objects,
            statistics.request_bytes,
            statistics.object_bytes,
            statistics.first_ms / 1000,
            statistics.last_ms / 1000,
            reads,
            statistics.requests - reads - deletes,
            deletes,
            statistics.size_min.into(),
            statistics.size_max.into(),
        ]);
    }
    let mut header: Vec<u8> = numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    header.resize(MAGIC_END_AT, 0);
    header.extend(MAGIC.to_le_bytes());
    header
}

/// Fields of a record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    Version1,
    Version2,
    Version3,
}

/// Reader of records of one version.
struct Lcs<R> {
    records: Records<R>,
    layout: Layout,
    record_bytes: usize,
    /// Number of requests that the header states.
    promised: Option<u64>,
}

impl<R: Read> Lcs<R> {
    /// Reads records without a header.
    fn oracle_general(input: R) -> Self {
        Lcs {
            records: Records::new(input),
            layout: Layout::Version1,
            record_bytes: 24,
            promised: None,
        }
    }

    /// Reads the header and then records.
    fn with_header(input: R) -> Result<Self, Fault> {
        let mut records = Records::new(input);
        let Some(header) = records.header(HEADER_BYTES)? else {
            let found = "a shorter stream";
            return Err(Fault::at(Position::START, EXPECTED_HEADER, found));
        };
        if u64_at(header, 0) != MAGIC || u64_at(header, MAGIC_END_AT) != MAGIC {
            return Err(Fault::at(
                Position::START,
                EXPECTED_HEADER,
                hex(&header[..16]),
            ));
        }
        let (layout, record_bytes) = match u64_at(header, 8) {
            1 => (Layout::Version1, 24),
            2 => (Layout::Version2, 28),
            3 => (Layout::Version3, 36),
            version @ 4..=8 => (Layout::Version3, 36 + 4 * (1 << (version - 4))),
            version => {
                let found = format!("version {version}");
                return Err(Fault::at(Position::START, "version 1 to 8 of lcs", found));
            }
        };
        let count = u64_at(header, COUNT_AT);
        if count > i64::MAX as u64 {
            let found = format!("{}", count as i64);
            return Err(Fault::at(
                Position::START,
                "the number of requests in the header",
                found,
            ));
        }
        Ok(Lcs {
            records,
            layout,
            record_bytes,
            promised: (count > 0).then_some(count),
        })
    }

    fn check_count(&mut self) -> Result<(), Fault> {
        let (count, promised) = (self.records.count(), self.promised.take());
        if promised.is_none_or(|promised| promised == count) {
            return Ok(());
        }
        let expected = format!("{} requests, as the header says", promised.unwrap_or(0));
        Err(Fault::at(
            self.records.position(),
            expected,
            format!("{count}"),
        ))
    }
}

impl<R: Read> Source for Lcs<R> {
    fn next(&mut self) -> Result<Option<Request>, Fault> {
        let Some((record, position)) = self.records.next(self.record_bytes)? else {
            self.check_count()?;
            return Ok(None);
        };
        let mut request = Request::new(
            u64::from(u32_at(record, 0)) * 1000,
            u64_at(record, 4),
            u32_at(record, 12),
        );
        let mut at = 16;
        if self.layout == Layout::Version3 {
            let size = u64_at(record, 12);
            request.size = u32::try_from(size).map_err(|_| {
                let found = format!("{}", size as i64);
                Fault::at(position, "a size below 2^32", found)
            })?;
            request.value_size = request.size;
            at = 20;
        }
        if self.layout != Layout::Version1 {
            let word = u32_at(record, at);
            request.op = op(word & 0xFF).ok_or_else(|| {
                let found = format!("{}", word & 0xFF);
                Fault::at(position, "an operation from 0 to 14, or 255", found)
            })?;
            request.client = word >> 8;
            at += 4;
        }
        if self.layout == Layout::Version3 {
            // The reference implementation stores a signed number, in which −1 means no TTL.
            let ttl = u32_at(record, at);
            if ttl <= i32::MAX as u32 {
                request.ttl_ms = u64::from(ttl) * 1000;
            }
            at += 4;
        }
        request.next_access = next_access(u64_at(record, at) as i64, position)?;
        Ok(Some(request))
    }
}

fn op(number: u32) -> Option<Op> {
    if number == OP_INVALID {
        return Some(Op::Get);
    }
    OPS.get(number as usize).copied()
}

/// Parses the next access. It is the only field of a record of 24 bytes that can be recognised as
/// wrong.
#[inline]
fn next_access(next: i64, position: Position) -> Result<NextAccess, Fault> {
    let own = match position {
        Position::Record { number, .. } => number,
        Position::Line(_) | Position::Row(_) => 0,
    };
    match next {
        -1 | i64::MAX => Ok(NextAccess::Never),
        0 => Ok(NextAccess::Unknown),
        _ if next > 0 && next as u64 > own => Ok(NextAccess::At(next as u64 - 1)),
        // Some writers count from 0, which shows where an object is requested twice in a row. All
        // other numbers are then one too small, in the same order.
        _ if next > 0 && next as u64 == own => Ok(NextAccess::At(next as u64)),
        _ => {
            let expected = "the number of a later request, -1 or 0 as next access";
            Err(Fault::at(position, expected, next.to_string()))
        }
    }
}

fn time(request: &Request) -> Result<u32, Misfit> {
    let seconds = request.time_ms / 1000;
    u32::try_from(seconds).map_err(|_| ("a time below 2^32 seconds", seconds))
}

fn next(request: &Request) -> i64 {
    match request.next_access {
        NextAccess::Unknown => 0,
        NextAccess::Never => -1,
        NextAccess::At(number) => number as i64 + 1,
    }
}

fn oracle_record(request: &Request, out: &mut Vec<u8>) -> Result<(), Misfit> {
    let time = time(request)?;
    out.extend_from_slice(&time.to_le_bytes());
    out.extend_from_slice(&request.key.to_le_bytes());
    out.extend_from_slice(&request.size.to_le_bytes());
    out.extend_from_slice(&next(request).to_le_bytes());
    Ok(())
}

/// Appends a record of version 3.
fn lcs_record(request: &Request, out: &mut Vec<u8>) -> Result<(), Misfit> {
    let time = time(request)?;
    if request.client >= 1 << 24 {
        return Err(("a client below 2^24", request.client.into()));
    }
    let ttl = request.ttl_ms.div_ceil(1000);
    if ttl > i32::MAX as u64 {
        return Err(("a TTL below 2^31 seconds", ttl));
    }
    out.extend_from_slice(&time.to_le_bytes());
    out.extend_from_slice(&request.key.to_le_bytes());
    out.extend_from_slice(&i64::from(request.size).to_le_bytes());
    let op = u32::from(op_number(request.op));
    out.extend_from_slice(&(op | request.client << 8).to_le_bytes());
    out.extend_from_slice(&(ttl as u32).to_le_bytes());
    out.extend_from_slice(&next(request).to_le_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record_1(second: u32, object: u64, size: u32, next: i64) -> Vec<u8> {
        let mut bytes = second.to_le_bytes().to_vec();
        bytes.extend(object.to_le_bytes());
        bytes.extend(size.to_le_bytes());
        bytes.extend(next.to_le_bytes());
        bytes
    }

    fn header(version: u64, count: u64) -> Vec<u8> {
        let mut header = vec![0; HEADER_BYTES];
        for (at, number) in [
            (0, MAGIC),
            (8, version),
            (COUNT_AT, count),
            (MAGIC_END_AT, MAGIC),
        ] {
            header[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        header
    }

    fn record_3(size: i64, op: u8, tenant: u32, ttl: u32, next: i64, features: usize) -> Vec<u8> {
        let mut bytes = 5u32.to_le_bytes().to_vec();
        bytes.extend(77u64.to_le_bytes());
        bytes.extend(size.to_le_bytes());
        bytes.extend((u32::from(op) | tenant << 8).to_le_bytes());
        bytes.extend(ttl.to_le_bytes());
        bytes.extend(next.to_le_bytes());
        bytes.extend(vec![0xEE; 4 * features]);
        bytes
    }

    fn read_all(name: &str, bytes: &[u8]) -> Result<Vec<Request>, String> {
        let requests = crate::read(name, bytes).map_err(|error| error.to_string())?;
        let requests: Result<Vec<_>, _> = requests.collect();
        requests.map_err(|error| error.to_string())
    }

    #[test]
    fn oracle_general_has_the_next_access() {
        let bytes = [
            record_1(3, 7, 100, 3),
            record_1(4, 8, 0, i64::MAX),
            record_1(4, 7, 100, -1),
            record_1(5, 9, 1, 0),
        ]
        .concat();
        let futures = [
            NextAccess::At(2),
            NextAccess::Never,
            NextAccess::Never,
            NextAccess::Unknown,
        ];
        let plain = [
            (3_000, 7, 100),
            (4_000, 8, 0),
            (4_000, 7, 100),
            (5_000, 9, 1),
        ];
        let wanted = plain
            .iter()
            .zip(futures)
            .map(|(&(time, key, size), next_access)| Request {
                next_access,
                ..Request::new(time, key, size)
            });
        assert_eq!(
            read_all("t.oracleGeneral.bin", &bytes),
            Ok(wanted.collect())
        );
    }

    #[test]
    fn next_accesses_that_count_from_0_are_read() {
        let records = [(7, 1), (7, 2), (7, -1)];
        let bytes = records
            .map(|(key, next)| record_1(3, key, 100, next))
            .concat();
        let requests = read_all("t.oracleGeneral", &bytes).expect("it is well formed");
        let next: Vec<NextAccess> = requests.iter().map(|request| request.next_access).collect();
        assert_eq!(
            next,
            [NextAccess::At(1), NextAccess::At(2), NextAccess::Never]
        );
    }

    #[test]
    fn errors_in_records_have_their_position() {
        let one = record_1(3, 7, 100, -1);
        let name = "t.oracleGeneral";
        for (next, found) in [(1, "1"), (-2, "-2"), (i64::MIN, "-9223372036854775808")] {
            let error = read_all(name, &[one.clone(), record_1(3, 7, 100, next)].concat());
            let wanted = format!(
                "{name}: record 2 at byte 24: expected the number of a later request, -1 or 0 as next access, found {found}"
            );
            assert_eq!(error, Err(wanted));
        }
        let error = read_all(name, &[&one[..], &one[..23]].concat());
        let wanted = format!(
            "{name}: record 2 at byte 24: expected a record of 24 bytes, found 23 bytes and the end"
        );
        assert_eq!(error, Err(wanted));
    }

    #[test]
    fn every_version_of_lcs_is_read() {
        let record_2 = {
            let mut bytes = record_1(5, 77, 300, -1);
            bytes.splice(16..16, (9u32 | 5 << 8).to_le_bytes());
            bytes
        };
        let plain = Request {
            next_access: NextAccess::Never,
            ..Request::new(5_000, 77, 300)
        };
        let deletion = Request {
            op: Op::Delete,
            client: 5,
            ..plain
        };
        let with_ttl = Request {
            ttl_ms: 60_000,
            ..deletion
        };
        let one = [header(1, 1), record_1(5, 77, 300, -1)].concat();
        assert_eq!(read_all("t.lcs", &one), Ok(vec![plain]));
        let two = [header(2, 0), record_2.clone(), record_2].concat();
        assert_eq!(read_all("t.lcs", &two), Ok(vec![deletion; 2]));
        for (version, features) in [(3, 0), (4, 1), (5, 2), (6, 4), (7, 8), (8, 16)] {
            let record = record_3(300, 9, 5, 60, -1, features);
            let bytes = [header(version, 2), record.clone(), record].concat();
            assert_eq!(
                read_all("t.lcs", &bytes),
                Ok(vec![with_ttl; 2]),
                "{version}"
            );
        }
        let without = [header(3, 1), record_3(300, 255, 0, u32::MAX, -1, 0)].concat();
        assert_eq!(read_all("t.lcs", &without), Ok(vec![plain]));
    }

    #[test]
    fn broken_lcs_is_refused() {
        let cases = [
            (vec![], "t.lcs: byte 0: expected lcs's header"),
            (
                header(1, 0)[..8191].to_vec(),
                "t.lcs: byte 0: expected lcs's header",
            ),
            (vec![0; 9000], "t.lcs: byte 0: expected lcs's header"),
            (
                header(0, 0),
                "t.lcs: byte 0: expected version 1 to 8 of lcs, found version 0",
            ),
            (
                header(9, 0),
                "t.lcs: byte 0: expected version 1 to 8 of lcs, found version 9",
            ),
            (
                header(1, u64::MAX),
                "t.lcs: byte 0: expected the number of requests in the header, found -1",
            ),
            (
                [header(1, 2), record_1(5, 7, 3, -1)].concat(),
                "t.lcs: record 1 at byte 8216: expected 2 requests, as the header says, found 1",
            ),
            (
                [header(3, 0), record_3(-1, 1, 0, 0, -1, 0)].concat(),
                "t.lcs: record 1 at byte 8192: expected a size below 2^32, found -1",
            ),
            (
                [header(3, 0), record_3(1, 15, 0, 0, -1, 0)].concat(),
                "t.lcs: record 1 at byte 8192: expected an operation from 0 to 14",
            ),
        ];
        for (bytes, wanted) in cases {
            let error = read_all("t.lcs", &bytes).expect_err(wanted);
            assert!(error.starts_with(wanted), "{error}");
        }
    }
}
