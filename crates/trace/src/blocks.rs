//! Published texts of block requests: MSR Cambridge, Tencent, Alibaba and MQSim.
//!
//! Each line is one request for several blocks. As in [`vscsi`](crate::vscsi), its key is the first
//! block, and its size is the request's. The key has the volume in its upper 24 bits and the number
//! of the 512-byte sector in its lower 40:
//!
//! ```text
//! msr       filetime (100 ns),host,disk,Read|Write,offset in bytes,size in bytes,response time
//! tencent   seconds,offset in sectors,size in sectors,0 read|1 write,volume
//! alibaba   volume,R|W,offset in bytes,size in bytes,µs
//! mqsim     ns device first-sector sectors 0 write|1 read
//! ```
//!
//! Sources: D. Narayanan, A. Donnelly, A. Rowstron, *Write off-loading*, FAST 2008; Y. Zhang et
//! al., *OSCA*, USENIX ATC 2020; J. Li et al., *An in-depth analysis of cloud block storage
//! workloads*, IISWC 2020; A. Tavakkol et al., *MQSim*, FAST 2018.

use crate::entry::{Columns, Entry, Source, Workload};
use crate::error::Fault;
use crate::lines::Lines;
use crate::number::whole;
use crate::request::{Op, Request};
use crate::text_key::key_of_text;
use std::io::Read;

const SECTOR_BYTES: u64 = 512;
/// Bits of a key that hold the sector.
const SECTOR_BITS: u32 = 40;
/// Number of volumes.
const VOLUMES: u64 = 1 << 24;
/// Milliseconds between the beginning of filetime, in 1601, and the beginning of Unix time.
const FILETIME_EPOCH_MS: u64 = 11_644_473_600_000;

macro_rules! entry {
    ($(#[$doc:meta])* $name:ident, $endings:expr, $aliases:expr, $columns:expr, $separator:expr, $parse:expr) => {
        $(#[$doc])*
        pub(crate) static $name: Entry = Entry {
            endings: $endings,
            aliases: $aliases,
            columns: $columns,
            has_next_access: false,
            workload: Workload::Block,
            open: |input, layout| {
                let separator = layout.delimiter.unwrap_or($separator);
                let mut blocks = Blocks { lines: Lines::new(input), separator, parse: $parse };
                for _ in 0..layout.skip_lines {
                    blocks.lines.next()?;
                }
                Ok(Box::new(blocks))
            },
            encode: None,
        };
    };
}

entry!(
    /// Volumes of servers at Microsoft Research Cambridge.
    MSR, &["msr.csv"], &["msr"], Columns::Fixed, b',', msr
);
entry!(
    /// Volumes of Tencent's cloud.
    TENCENT, &["tencent.csv"], &["tencent"], Columns::Fixed, b',', tencent
);
entry!(
    /// Volumes of Alibaba's cloud.
    ALIBABA, &["alibaba.csv"], &["alibaba"], Columns::Fixed, b',', alibaba
);
entry!(
    /// Input of the simulator MQSim.
    MQSIM, &["mqsim"], &[], Columns::None, b' ', mqsim
);

/// Parses the fields of a line. The error says what was expected.
type Parse = fn(&mut Fields<'_>) -> Result<Request, &'static str>;

/// Reader of one request on each line.
struct Blocks<R> {
    lines: Lines<R>,
    separator: u8,
    parse: Parse,
}

impl<R: Read> Source for Blocks<R> {
    fn next(&mut self) -> Result<Option<Request>, Fault> {
        let Some(line) = self.lines.next()? else {
            return Ok(None);
        };
        let mut fields = Fields {
            rest: Some(line.text.trim_ascii()),
            separator: self.separator,
        };
        let request = (self.parse)(&mut fields).and_then(|request| {
            let is_whole = fields.rest.is_none();
            is_whole.then_some(request).ok_or("no more fields")
        });
        request.map(Some).map_err(|expected| line.fault(expected))
    }
}

/// Fields of a line that were not taken yet.
struct Fields<'l> {
    rest: Option<&'l [u8]>,
    separator: u8,
}

impl<'l> Fields<'l> {
    /// Takes the next field. A run of blanks separates as one.
    fn next(&mut self) -> Option<&'l [u8]> {
        let rest = self.rest.take()?;
        let end = rest
            .iter()
            .position(|&byte| byte == self.separator || (self.separator == b' ' && byte == b'\t'));
        let Some(end) = end else {
            return Some(rest.trim_ascii());
        };
        let behind = &rest[end + 1..];
        self.rest = Some(if self.separator == b' ' {
            behind.trim_ascii_start()
        } else {
            behind
        });
        Some(rest[..end].trim_ascii())
    }

    fn number(&mut self, expected: &'static str) -> Result<u64, &'static str> {
        self.next().and_then(whole).ok_or(expected)
    }

    fn op(
        &mut self,
        read: &[u8],
        write: &[u8],
        expected: &'static str,
    ) -> Result<Op, &'static str> {
        match self.next().ok_or(expected)? {
            op if op.eq_ignore_ascii_case(read) => Ok(Op::Get),
            op if op.eq_ignore_ascii_case(write) => Ok(Op::Set),
            _ => Err(expected),
        }
    }
}

/// Returns a request for a place of a volume.
fn request(
    time_ms: u64,
    volume: u64,
    sector: u64,
    bytes: Option<u64>,
    op: Op,
) -> Result<Request, &'static str> {
    if volume >= VOLUMES {
        return Err("a volume below 2^24");
    }
    if sector >> SECTOR_BITS != 0 {
        return Err("an offset below 2^40 sectors of 512 bytes");
    }
    let size = bytes.and_then(|bytes| u32::try_from(bytes).ok());
    let size = size.ok_or("a size below 2^32 bytes")?;
    Ok(Request {
        op,
        ..Request::new(time_ms, volume << SECTOR_BITS | sector, size)
    })
}

const EXPECTED_MSR: &str = "timestamp,host,disk,Read or Write,offset,size,response time";

fn msr(fields: &mut Fields<'_>) -> Result<Request, &'static str> {
    let time = fields.number("100-ns steps since 1601, not negative, as timestamp")?;
    let host = fields.next().filter(|host| !host.is_empty());
    let host = host.ok_or("the name of a host")?;
    let disk = fields.number("the number of a disk")?;
    let op = fields.op(b"Read", b"Write", "Read or Write as type")?;
    let offset = fields.number("a number of bytes as offset")?;
    let bytes = fields.number("a number of bytes as size")?;
    fields.number(EXPECTED_MSR)?;
    // The disks of a host have consecutive volumes.
    let volume = key_of_text(host).wrapping_add(disk) % VOLUMES;
    let time_ms = (time / 10_000).saturating_sub(FILETIME_EPOCH_MS);
    request(time_ms, volume, offset / SECTOR_BYTES, Some(bytes), op)
}

fn tencent(fields: &mut Fields<'_>) -> Result<Request, &'static str> {
    let seconds = fields.number("seconds, not negative, as timestamp")?;
    let sector = fields.number("a number of sectors as offset")?;
    let sectors = fields.number("a number of sectors as size")?;
    let op = fields.op(b"0", b"1", "0 (read) or 1 (write) as type")?;
    let volume = fields.number("the number of a volume")?;
    let time_ms = seconds.checked_mul(1000).ok_or("seconds below 2^54")?;
    request(
        time_ms,
        volume,
        sector,
        sectors.checked_mul(SECTOR_BYTES),
        op,
    )
}

fn alibaba(fields: &mut Fields<'_>) -> Result<Request, &'static str> {
    let volume = fields.number("the number of a volume")?;
    let op = fields.op(b"R", b"W", "R or W as type")?;
    let offset = fields.number("a number of bytes as offset")?;
    let bytes = fields.number("a number of bytes as size")?;
    let micros = fields.number("µs, not negative, as timestamp")?;
    request(
        micros / 1000,
        volume,
        offset / SECTOR_BYTES,
        Some(bytes),
        op,
    )
}

fn mqsim(fields: &mut Fields<'_>) -> Result<Request, &'static str> {
    let nanos = fields.number("ns, not negative, as arrival time")?;
    let device = fields.number("the number of a device")?;
    let sector = fields.number("the number of a sector")?;
    let sectors = fields.number("a number of sectors")?;
    let op = fields.op(b"1", b"0", "0 (write) or 1 (read) as type")?;
    let bytes = sectors.checked_mul(SECTOR_BYTES);
    request(nanos / 1_000_000, device, sector, bytes, op)
}

#[cfg(test)]
mod tests {
    use crate::{Op, Options, Request, open, read};

    fn all(name: &str, text: &str) -> Result<Vec<Request>, String> {
        let requests = read(name, text.as_bytes()).map_err(|error| error.to_string())?;
        let requests: Result<Vec<_>, _> = requests.collect();
        requests.map_err(|error| error.to_string())
    }

    fn request(time_ms: u64, volume: u64, sector: u64, size: u32, op: Op) -> Request {
        Request {
            op,
            ..Request::new(time_ms, volume << 40 | sector, size)
        }
    }

    #[test]
    fn the_published_lines_are_read() {
        let wanted = [request(1_538_323_200_000, 1063, 42, 4096, Op::Set)];
        let tencent = all("t.tencent.csv", "1538323200,42,8,1,1063\n");
        assert_eq!(tencent.as_deref(), Ok(&wanted[..]));
        let wanted = [request(1_577_808_000_046, 419, 10, 4096, Op::Set)];
        let alibaba = all("t.alibaba.csv", "419,W,5120,4096,1577808000046800\n");
        assert_eq!(alibaba.as_deref(), Ok(&wanted[..]));
        let wanted = [
            request(2, 0, 7, 1024, Op::Get),
            request(3, 1, 8, 512, Op::Set),
        ];
        let mqsim = all("t.mqsim", "2000000 0 7 2 1\n 3999999\t1  8 1 0 \r\n");
        assert_eq!(mqsim.as_deref(), Ok(&wanted[..]));
        let msr = "128166372003061629,hm,1,Read,383496192,32768,413\n\
                   128166372016382155,hm,1,Write,383496192,512,1\n";
        let msr = all("t.msr.csv", msr).expect("it is well formed");
        assert_eq!(msr[0].time_ms, 1_172_163_600_306);
        assert_eq!((msr[0].op, msr[0].size), (Op::Get, 32_768));
        assert_eq!((msr[1].op, msr[1].size), (Op::Set, 512));
        assert_eq!(msr[0].key, msr[1].key);
        assert_eq!(msr[0].key & ((1 << 40) - 1), 383_496_192 / 512);
    }

    #[test]
    fn a_wrong_field_is_named_with_its_line() {
        let cases = [
            (
                "t.msr.csv",
                "-5,hm,1,Read,0,512,1",
                "100-ns steps since 1601, not negative",
            ),
            ("t.msr.csv", "5,,1,Read,0,512,1", "the name of a host"),
            ("t.msr.csv", "5,hm,1,Erase,0,512,1", "Read or Write"),
            ("t.msr.csv", "5,hm,1,Read,0,512", "timestamp,host,disk"),
            ("t.msr.csv", "5,hm,1,Read,0,512,1,1", "no more fields"),
            ("t.tencent.csv", "-1,42,8,1,1063", "seconds, not negative"),
            ("t.tencent.csv", "1,42,8388608,1,1063", "a size below 2^32"),
            (
                "t.tencent.csv",
                "1,42,18446744073709551615,1,1063",
                "a size below 2^32",
            ),
            (
                "t.tencent.csv",
                "1,1099511627776,8,1,1063",
                "an offset below 2^40",
            ),
            ("t.tencent.csv", "1,42,8,2,1063", "0 (read) or 1 (write)"),
            ("t.tencent.csv", "1,42,8,1,16777216", "a volume below 2^24"),
            ("t.alibaba.csv", "419,X,5120,4096,1", "R or W"),
            ("t.alibaba.csv", "419,W,5120,4096,-1", "µs, not negative"),
            ("t.mqsim", "2000000 0 7 2", "0 (write) or 1 (read)"),
            ("t.mqsim", "", "ns, not negative"),
        ];
        for (name, line, wanted) in cases {
            let error = all(name, &format!("{line}\n")).expect_err(line);
            let start = format!("{name}:1: expected {wanted}");
            assert!(error.starts_with(&start), "{error}");
        }
    }

    #[test]
    fn a_header_is_skipped_on_request() {
        let options = Options {
            skip_lines: 1,
            ..Options::default()
        };
        let text = "Timestamp,Offset,Size,IOType,VolumeID\n1,2,3,0,4\n";
        let requests = open("t.tencent.csv", text.as_bytes(), &options).expect("it is open");
        assert_eq!(requests.count(), 1);
    }
}
