//! Block requests of a virtual machine, as VMware's `vscsiStats` recorded them for the CloudPhysics
//! traces.
//!
//! Source: C. A. Waldspurger, N. Park, A. Garthwaite, I. Ahmad, "Efficient MRC construction with
//! SHARDS", FAST 2015. The authors published the traces and their layout through libCacheSim. All
//! numbers are little-endian:
//!
//! ```text
//! version 1, 32 bytes   serial u32 | bytes u32 | segments u32 | command u16 | version u16
//!                       | block u64 | µs u64
//! version 2, 40 bytes   command u16 | version u16 | serial u32 | bytes u32 | segments u32
//!                       | block u64 | µs u64 | response µs u64
//! ```
//!
//! The high byte of `version` is the version. The first two records determine the layout, and every
//! record is checked against it.

use crate::entry::{Columns, Entry, Source, Workload};
use crate::error::{Fault, Position, hex};
use crate::records::{Records, u16_at, u32_at, u64_at};
use crate::request::{Op, Request};
use std::io::Read;

/// Block requests of a virtual machine, versions 1 and 2.
pub(crate) static VSCSI: Entry = Entry {
    endings: &["vscsi"],
    aliases: &[],
    columns: Columns::None,
    has_next_access: false,
    workload: Workload::Block,
    open: |input, _| Ok(Box::new(Vscsi::new(input)?)),
    encode: None,
};

/// Offsets of the fields in a record.
#[derive(Clone, Copy)]
struct Layout {
    version: u8,
    length: usize,
    command: usize,
    version_high: usize,
    size: usize,
    block: usize,
    time: usize,
}

const VERSION_1: Layout = Layout {
    version: 1,
    length: 32,
    command: 12,
    version_high: 15,
    size: 4,
    block: 16,
    time: 24,
};

const VERSION_2: Layout = Layout {
    version: 2,
    length: 40,
    command: 0,
    version_high: 3,
    size: 8,
    block: 16,
    time: 24,
};

/// SCSI operation codes of WRITE(6), (10), (12) and (16).
const WRITES: [u16; 4] = [0x0A, 0x2A, 0xAA, 0x8A];

const EXPECTED_START: &str =
    "records of version 1 (32 bytes) or 2 (40 bytes), which say so in their 16th or 4th byte";

impl Layout {
    fn fits(self, start: &[u8]) -> bool {
        let mut records = start.chunks_exact(self.length).take(2).peekable();
        records.peek().is_some() && records.all(|record| record[self.version_high] == self.version)
    }
}

/// Reader of block requests. The number of the block is the key.
struct Vscsi<R> {
    records: Records<R>,
    layout: Layout,
}

impl<R: Read> Vscsi<R> {
    /// Determines the version from the first records. An empty stream is an empty trace.
    fn new(input: R) -> Result<Self, Fault> {
        let mut records = Records::new(input);
        let start = records.peek(2 * VERSION_2.length)?;
        let layout = if VERSION_2.fits(start) {
            VERSION_2
        } else if VERSION_1.fits(start) || start.is_empty() {
            VERSION_1
        } else {
            let found = hex(start);
            return Err(Fault::at(Position::START, EXPECTED_START, found));
        };
        Ok(Vscsi { records, layout })
    }
}

impl<R: Read> Source for Vscsi<R> {
    fn next(&mut self) -> Result<Option<Request>, Fault> {
        let layout = self.layout;
        let Some((record, position)) = self.records.next(layout.length)? else {
            return Ok(None);
        };
        let version = record[layout.version_high];
        if version != layout.version {
            let expected = format!("a record of version {}", layout.version);
            return Err(Fault::at(position, expected, format!("version {version}")));
        }
        let is_write = WRITES.contains(&u16_at(record, layout.command));
        Ok(Some(Request {
            op: if is_write { Op::Set } else { Op::Get },
            ..Request::new(
                u64_at(record, layout.time) / 1000,
                u64_at(record, layout.block),
                u32_at(record, layout.size),
            )
        }))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Op, Request};

    fn version_1(command: u16, version: u16, block: u64) -> Vec<u8> {
        let numbers = [0x8000_00F4u32, 4096, 1].map(u32::to_le_bytes).concat();
        let codes = [command, version].map(u16::to_le_bytes).concat();
        let rest = [block, 5_678_901].map(u64::to_le_bytes).concat();
        [numbers, codes, rest].concat()
    }

    fn version_2(command: u16, version: u16, block: u64) -> Vec<u8> {
        let codes = [command, version].map(u16::to_le_bytes).concat();
        let numbers = [7u32, 512, 1].map(u32::to_le_bytes).concat();
        let rest = [block, 2_000_999, 40].map(u64::to_le_bytes).concat();
        [codes, numbers, rest].concat()
    }

    fn read_all(bytes: &[u8]) -> Result<Vec<Request>, String> {
        let requests = crate::read("t.vscsi", bytes).map_err(|error| error.to_string())?;
        let requests: Result<Vec<_>, _> = requests.collect();
        requests.map_err(|error| error.to_string())
    }

    #[test]
    fn the_version_is_found_in_the_records() {
        let bytes = [version_1(0x2A, 0x100, 9), version_1(0x28, 0x100, 8)].concat();
        let write = Request {
            op: Op::Set,
            ..Request::new(5_678, 9, 4096)
        };
        assert_eq!(
            read_all(&bytes),
            Ok(vec![write, Request::new(5_678, 8, 4096)])
        );
        assert_eq!(read_all(&bytes[..32]), Ok(vec![write]));
        let bytes = [version_2(0x88, 0x205, 9), version_2(0x8A, 0x205, 8)].concat();
        let write = Request {
            op: Op::Set,
            ..Request::new(2_000, 8, 512)
        };
        assert_eq!(
            read_all(&bytes),
            Ok(vec![Request::new(2_000, 9, 512), write])
        );
        assert_eq!(read_all(b""), Ok(vec![]));
    }

    #[test]
    fn errors_in_records_have_their_position() {
        let one = version_1(0x2A, 0x100, 9);
        let cases = [
            (
                vec![0; 64],
                "t.vscsi: byte 0: expected records of version 1",
            ),
            (
                one[..31].to_vec(),
                "t.vscsi: byte 0: expected records of version 1",
            ),
            (
                [&one[..], &one, &one[..20]].concat(),
                "t.vscsi: record 3 at byte 64: expected a record of 32 bytes, found 20 bytes and the end",
            ),
            (
                [&one[..], &one, &version_1(0x2A, 0x300, 1)].concat(),
                "t.vscsi: record 3 at byte 64: expected a record of version 1, found version 3",
            ),
        ];
        for (bytes, wanted) in cases {
            let error = read_all(&bytes).expect_err(wanted);
            assert!(error.starts_with(wanted), "{error}");
        }
    }
}
