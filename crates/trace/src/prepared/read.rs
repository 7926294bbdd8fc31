//! Reads the file of a prepared trace.
//!
//! Memory grows with the bytes that arrive, regardless of what a header promises: the ids are read
//! first, and no other column has more rows.

use super::column::{Column, Gaps, Number, ShortTtl};
use super::kinds::{self, KINDS, Kind, Rows};
use super::{ALIGNMENT, HEADER_BYTES, MAGIC, ROW_BYTES, SECTION_BYTES};
use super::{Prepared, REQUESTS_MAX, VERSION};
use crate::error::{Fault, Position, hex};
use crate::records::{u16_at, u32_at, u64_at};
use crate::request::Op;
use std::borrow::Cow;
use std::io::{ErrorKind, Read};

/// Bytes read, checked and converted at a time, so that they stay in the processor's cache.
const BLOCK_BYTES: usize = 12 << 12;
/// Maximum number of items for which memory is reserved before any is read.
const RESERVED_MAX: usize = 1 << 24;

/// Reason why a file was refused.
pub(crate) enum Unreadable {
    /// The file is malformed or cannot be read.
    Fault(Fault),
    /// The file takes more memory than allowed; the text says how much.
    TooLarge(String),
}

impl From<Fault> for Unreadable {
    fn from(fault: Fault) -> Unreadable {
        Unreadable::Fault(fault)
    }
}

/// Reads a whole file.
pub(super) fn read(
    input: &mut impl Read,
    memory_limit: Option<u64>,
) -> Result<Prepared, Unreadable> {
    let mut bytes = Bytes {
        input,
        offset: 0,
        block: vec![0; BLOCK_BYTES],
    };
    let File {
        mut prepared,
        requests,
        objects,
        sections,
    } = header(&mut bytes)?;
    let limit = memory_limit.unwrap_or(u64::MAX);
    check_memory(requests, &sections, limit)?;
    for section in &sections {
        bytes.skip_to_alignment()?;
        section.read(&mut bytes, &mut prepared, objects)?;
    }
    bytes.end()?;
    Ok(prepared)
}

/// Refuses a file whose columns would take more memory than allowed.
fn check_memory(requests: u64, sections: &[Section], limit: u64) -> Result<(), Unreadable> {
    let needed = sections.iter().map(|section| {
        let rows = match section.kind.rows {
            Rows::Requests if section.is_sparse => requests,
            _ => section.items,
        };
        rows.saturating_mul(section.kind.memory_bytes)
    });
    let needed = needed.fold(0, u64::saturating_add);
    if needed <= limit {
        return Ok(());
    }
    Err(Unreadable::TooLarge(format!(
        "{requests} requests need {} MiB of memory, but {} MiB are allowed: raise --memory-limit, \
         or prepare a part or a sample of the trace",
        needed.div_ceil(1 << 20),
        limit >> 20
    )))
}

/// Content of the header and of the table.
struct File {
    prepared: Prepared,
    requests: u64,
    objects: u64,
    sections: Vec<Section>,
}

/// A row of the table of sections.
struct Section {
    kind: &'static Kind,
    width: usize,
    is_sparse: bool,
    checksum: u32,
    items: u64,
}

/// Reads header and table.
fn header<R: Read>(bytes: &mut Bytes<'_, R>) -> Result<File, Fault> {
    let header = bytes.array::<HEADER_BYTES>("the header of a prepared trace, 48 bytes")?;
    if header[..8] != *MAGIC {
        return Err(refused(
            0,
            "a prepared trace, which begins with mayflytr",
            hex(&header[..8]),
        ));
    }
    let version = u32_at(&header, 8);
    if version != VERSION {
        let expected = format!("version {VERSION}: prepare the trace again with this program");
        return Err(refused(8, expected, format!("version {version}")));
    }
    let [requests, objects, start_ms] = [16, 24, 32].map(|at| u64_at(&header, at));
    let count = u32_at(&header, 40) as usize;
    if count > KINDS.len() {
        let expected = format!("at most {} sections", KINDS.len());
        return Err(refused(40, expected, count.to_string()));
    }
    let mut checked = crc32fast::Hasher::new();
    checked.update(&header[..44]);
    let mut table = Vec::new();
    for _ in 0..count {
        table.push(bytes.array::<SECTION_BYTES>("a row of the table of sections, 16 bytes")?);
    }
    table.iter().for_each(|row| checked.update(row));
    check_sum(44, checked, u32_at(&header, 44))?;
    if requests > REQUESTS_MAX as u64 || objects > requests {
        let expected = "fewer than 2^32 − 1 requests, and no more objects than requests";
        let found = format!("{requests} requests and {objects} objects");
        return Err(refused(16, expected, found));
    }
    let sections = sections(&table, requests, objects)?;
    let prepared = Prepared {
        start_ms,
        is_part: u32_at(&header, 12) & 1 != 0,
        ..Prepared::default()
    };
    Ok(File {
        prepared,
        requests,
        objects,
        sections,
    })
}

fn sections(
    table: &[[u8; SECTION_BYTES]],
    requests: u64,
    objects: u64,
) -> Result<Vec<Section>, Fault> {
    let mut sections: Vec<Section> = Vec::new();
    for (row, at) in table.iter().zip((HEADER_BYTES..).step_by(SECTION_BYTES)) {
        let kind = KINDS.iter().find(|kind| kind.number == u16_at(row, 0));
        let last = sections.last().map_or(0, |section| section.kind.number);
        let Some(kind) = kind.filter(|kind| kind.number > last) else {
            let expected = format!("a kind of section from {} to {}", last + 1, KINDS.len());
            return Err(refused(at, expected, u16_at(row, 0).to_string()));
        };
        let (width, coding, items) = (usize::from(row[2]), row[3], u64_at(row, 8));
        if !matches!(width, 1 | 2 | 4 | 8) || width > kind.width_max {
            let expected = format!("a width of at most {} bytes", kind.width_max);
            return Err(refused(at + 2, expected, width.to_string()));
        }
        if coding > 1 || kind.is_complete && coding != 0 {
            let expected = "coding 0 (dense), or 1 (sparse) for a column with defaults";
            return Err(refused(at + 3, expected, coding.to_string()));
        }
        let rows = match kind.rows {
            Rows::Requests => requests,
            Rows::Objects => objects,
        };
        if items > rows || kind.is_complete && items != rows {
            let expected = format!("{rows} items of {}", kind.name);
            return Err(refused(at + 8, expected, items.to_string()));
        }
        sections.push(Section {
            kind,
            width,
            is_sparse: coding == 1,
            checksum: u32_at(row, 4),
            items,
        });
    }
    for kind in KINDS.iter().filter(|kind| kind.is_complete) {
        if !sections
            .iter()
            .any(|section| section.kind.number == kind.number)
        {
            let expected = format!("a section of {}", kind.name);
            return Err(refused(HEADER_BYTES, expected, "none"));
        }
    }
    Ok(sections)
}

impl Section {
    /// Reads the section into its column. The ids come first, then the keys.
    fn read<R: Read>(
        &self,
        bytes: &mut Bytes<'_, R>,
        prepared: &mut Prepared,
        objects: u64,
    ) -> Result<(), Fault> {
        let any = |_: u32| true;
        let requests = prepared.ids.len();
        match self.kind.number {
            kinds::IDS => prepared.ids = self.ids(bytes, objects)?,
            kinds::KEYS => prepared.keys = self.values(bytes, 0, "a key", |_: u64| true)?,
            kinds::SIZES => {
                let is_size = |size: u32| size > 0;
                prepared.sizes.first = self.values(bytes, 0, "a size of at least 1", is_size)?;
            }
            kinds::NEW_SIZES => {
                let changed = self.values(bytes, requests, "a size", any)?;
                prepared.sizes.changed = Column::of(changed);
            }
            kinds::GAPS => {
                let mut sum = prepared.start_ms;
                let is_in_range = |gap_ms: u64| {
                    let next = sum.checked_add(gap_ms);
                    sum = next.unwrap_or(sum);
                    next.is_some()
                };
                let expected = "times below 2^64 ms";
                prepared.gaps = self.gaps(bytes, requests, expected, is_in_range)?;
            }
            kinds::OPS => {
                let is_op = |op: u8| usize::from(op) < Op::ALL.len();
                let expected = "the number of an operation, 0 to 10";
                prepared.ops = Column::of(self.values(bytes, requests, expected, is_op)?);
            }
            kinds::TTLS => {
                prepared.ttls =
                    Column::of(self.values(bytes, requests, "a TTL", |_: ShortTtl| true)?);
            }
            kinds::KEY_SIZES => {
                let first: Vec<u32> = self.values(bytes, prepared.keys.len(), "a size", any)?;
                prepared.key_sizes.first = first;
            }
            kinds::NEW_KEY_SIZES => {
                let changed = self.values(bytes, requests, "a size", any)?;
                prepared.key_sizes.changed = Column::of(changed);
            }
            _ => prepared.clients = Column::of(self.values(bytes, requests, "a client", any)?),
        }
        Ok(())
    }

    /// Reads the ids, which are numbered in the order of the first requests.
    fn ids<R: Read>(&self, bytes: &mut Bytes<'_, R>, objects: u64) -> Result<Vec<u32>, Fault> {
        let mut known = 0u64;
        let is_id = |id: u32| {
            let id = u64::from(id);
            known += u64::from(id == known);
            id < known && id < objects
        };
        let expected = "the id of an earlier object or the next new one";
        let start = bytes.offset;
        let ids = self.values(bytes, 0, expected, is_id)?;
        if known == objects {
            return Ok(ids);
        }
        let expected = format!("ids of {objects} objects, as the header says");
        Err(refused(start, expected, known.to_string()))
    }

    /// Reads gaps. Only the gaps that do not fit in 32 bits are kept in full.
    fn gaps<R: Read>(
        &self,
        bytes: &mut Bytes<'_, R>,
        rows: usize,
        expected: &str,
        mut is_valid: impl FnMut(u64) -> bool,
    ) -> Result<Gaps, Fault> {
        if self.width < u64::WIDTH {
            let is_valid = |gap_ms: u32| is_valid(gap_ms.into());
            let gaps = self.values(bytes, rows, expected, is_valid)?;
            return Ok(Gaps::of_short(gaps));
        }
        let gaps: Vec<u64> = self.values(bytes, rows, expected, is_valid)?;
        Ok(Gaps::of(&gaps))
    }

    /// Reads the values of a column and checks each. Sparse ones are expanded.
    fn values<T: Number, R: Read>(
        &self,
        bytes: &mut Bytes<'_, R>,
        rows: usize,
        expected: &str,
        mut is_valid: impl FnMut(T) -> bool,
    ) -> Result<Vec<T>, Fault> {
        let item_bytes = self.width + if self.is_sparse { ROW_BYTES } else { 0 };
        let mut values: Vec<T> = Vec::new();
        values.reserve_exact((self.items as usize).min(RESERVED_MAX));
        let mut checked = crc32fast::Hasher::new();
        let start = bytes.offset;
        let mut left = self.items as usize;
        while left > 0 {
            let offset = bytes.offset;
            let count = left.min(BLOCK_BYTES / item_bytes);
            let block = bytes.block(count * item_bytes, self.kind.name)?;
            checked.update(block);
            let from = values.len();
            if self.is_sparse {
                expand(block, self.width, rows, &mut values).map_err(|at| {
                    let expected = format!("ascending rows below {rows}");
                    refused(offset + at * item_bytes, expected, "another row")
                })?;
            } else {
                decode(block, self.width, &mut values);
            }
            let wrong = values[from..].iter().position(|&value| !is_valid(value));
            if let Some(at) = wrong {
                let found = values[from + at].bits().to_string();
                let at = if self.is_sparse { 0 } else { at };
                return Err(refused(
                    offset + at * item_bytes,
                    expected.to_owned(),
                    found,
                ));
            }
            left -= count;
        }
        check_sum(start, checked, self.checksum)?;
        Ok(values)
    }
}

/// Appends the numbers of a dense block.
fn decode<T: Number>(block: &[u8], width: usize, values: &mut Vec<T>) {
    let wide = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        T::of_bits(u64::from_le_bytes(word))
    };
    match width {
        1 => values.extend(block.iter().map(|&byte| T::of_bits(byte.into()))),
        2 => values.extend(
            block
                .chunks_exact(2)
                .map(|b| T::of_bits(u16_at(b, 0).into())),
        ),
        4 => values.extend(
            block
                .chunks_exact(4)
                .map(|b| T::of_bits(u32_at(b, 0).into())),
        ),
        _ => values.extend(block.chunks_exact(8).map(wide)),
    }
}

/// Appends the numbers of a sparse block and the zeros in front of each. The error is the number of
/// the item whose row is wrong.
fn expand<T: Number>(
    block: &[u8],
    width: usize,
    rows: usize,
    values: &mut Vec<T>,
) -> Result<(), usize> {
    let items = block.chunks_exact(ROW_BYTES + width);
    for (number, item) in items.enumerate() {
        let row = u32_at(item, 0) as usize;
        if row >= rows || row < values.len() {
            return Err(number);
        }
        values.resize(row, T::default());
        decode(&item[ROW_BYTES..], width, values);
    }
    Ok(())
}

fn check_sum(at: usize, checked: crc32fast::Hasher, wanted: u32) -> Result<(), Fault> {
    let found = checked.finalize();
    if found == wanted {
        return Ok(());
    }
    let expected = format!("bytes with the checksum {wanted:08x}");
    Err(refused(
        at,
        expected,
        format!("{found:08x}: the file is damaged"),
    ))
}

#[cold]
fn refused(at: usize, expected: impl Into<Cow<'static, str>>, found: impl Into<String>) -> Fault {
    let position = Position::Record {
        number: 0,
        offset: at as u64,
    };
    Fault::at(position, expected, found)
}

/// The stream and the position in it.
struct Bytes<'i, R> {
    input: &'i mut R,
    offset: usize,
    block: Vec<u8>,
}

impl<R: Read> Bytes<'_, R> {
    /// Reads the next `length` bytes, at most a block.
    fn block(&mut self, length: usize, what: &'static str) -> Result<&[u8], Fault> {
        let have = self.fill(length)?;
        if have < length {
            let found = format!("the end after {have} of {length} bytes");
            let expected = format!("all of {what}; the file is truncated");
            return Err(refused(self.offset, expected, found));
        }
        self.offset += length;
        Ok(&self.block[..length])
    }

    /// Reads up to `length` bytes to the front of the block; fewer only at the end.
    fn fill(&mut self, length: usize) -> Result<usize, Fault> {
        let mut have = 0;
        while have < length {
            match self.input.read(&mut self.block[have..length]) {
                Ok(0) => break,
                Ok(read) => have += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => {
                    let position = Position::Record {
                        number: 0,
                        offset: (self.offset + have) as u64,
                    };
                    return Err(Fault::Unreadable { position, source });
                }
            }
        }
        Ok(have)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Fault> {
        let bytes = self.block(N, what)?;
        Ok(bytes.try_into().expect("the block has the length"))
    }

    /// Reads the zeros up to the beginning of the next section.
    fn skip_to_alignment(&mut self) -> Result<(), Fault> {
        let at = self.offset;
        let length = at.next_multiple_of(ALIGNMENT) - at;
        let zeros = self.block(length, "the zeros between two sections")?;
        if zeros.iter().all(|&byte| byte == 0) {
            return Ok(());
        }
        let found = hex(zeros);
        Err(refused(at, "zeros between two sections", found))
    }

    fn end(&mut self) -> Result<(), Fault> {
        match self.fill(1)? {
            0 => Ok(()),
            _ => Err(refused(self.offset, "the end of the file", "more bytes")),
        }
    }
}
