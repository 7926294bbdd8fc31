//! Writes the file of a prepared trace.

use super::column::{Column, Number};
use super::kinds::{self};
use super::{ALIGNMENT, HEADER_BYTES, MAGIC, Prepared, ROW_BYTES, SECTION_BYTES, VERSION};
use std::io;

/// Bytes encoded at a time.
const BLOCK_BYTES: usize = 1 << 16;

/// Sink for the bytes of the file, in order.
type Sink<'s> = dyn FnMut(&[u8]) -> io::Result<()> + 's;

/// Writes the file. Columns are encoded twice: once for the checksums in the table, and once for
/// writing.
pub(super) fn write(prepared: &Prepared, sink: &mut Sink<'_>) -> io::Result<()> {
    let sections = sections(prepared);
    let mut head = Vec::with_capacity(HEADER_BYTES + sections.len() * SECTION_BYTES);
    head.extend(MAGIC);
    head.extend(VERSION.to_le_bytes());
    head.extend(u32::from(prepared.is_part).to_le_bytes());
    head.extend((prepared.len() as u64).to_le_bytes());
    head.extend((prepared.objects() as u64).to_le_bytes());
    head.extend(prepared.start_ms.to_le_bytes());
    head.extend((sections.len() as u32).to_le_bytes());
    let checksum_at = head.len();
    head.extend([0; 4]);
    for section in &sections {
        head.extend(section.number.to_le_bytes());
        head.extend([section.width as u8, u8::from(section.is_sparse)]);
        head.extend(section.checksum().to_le_bytes());
        head.extend(section.items.to_le_bytes());
    }
    let mut checked = crc32fast::Hasher::new();
    checked.update(&head[..checksum_at]);
    checked.update(&head[HEADER_BYTES..]);
    let checksum = checked.finalize().to_le_bytes();
    head[checksum_at..HEADER_BYTES].copy_from_slice(&checksum);
    sink(&head)?;
    let mut offset = head.len();
    for section in &sections {
        let zeros = offset.next_multiple_of(ALIGNMENT) - offset;
        sink(&[0; ALIGNMENT][..zeros])?;
        section.encode(sink)?;
        offset += zeros + section.len_bytes();
    }
    Ok(())
}

/// A column and how it is encoded.
struct Section<'p> {
    number: u16,
    rows: usize,
    value: Box<dyn Fn(usize) -> u64 + 'p>,
    width: usize,
    is_sparse: bool,
    items: u64,
}

/// Returns the columns that have values, in the order of their kinds.
fn sections(prepared: &Prepared) -> Vec<Section<'_>> {
    let ids = &prepared.ids;
    let keys = &prepared.keys;
    let gaps = &prepared.gaps;
    let all = [
        Section::new(kinds::IDS, ids.len(), |row| ids[row].into()),
        Section::new(kinds::KEYS, keys.len(), |row| keys[row]),
        Section::of_values(kinds::SIZES, &prepared.sizes.first),
        Section::of_column(kinds::NEW_SIZES, &prepared.sizes.changed),
        Section::new(kinds::GAPS, gaps.len(), |row| gaps.get(row)),
        Section::of_column(kinds::OPS, &prepared.ops),
        Section::of_column(kinds::TTLS, &prepared.ttls),
        Section::of_values(kinds::KEY_SIZES, &prepared.key_sizes.first),
        Section::of_column(kinds::NEW_KEY_SIZES, &prepared.key_sizes.changed),
        Section::of_column(kinds::CLIENTS, &prepared.clients),
    ];
    let is_written = |section: &Section<'_>| section.number <= kinds::SIZES || section.items > 0;
    all.into_iter().filter(is_written).collect()
}

impl<'p> Section<'p> {
    fn of_values(number: u16, values: &'p [u32]) -> Self {
        Section::new(number, values.len(), |row| values[row].into())
    }

    fn of_column<T: Number>(number: u16, column: &'p Column<T>) -> Self {
        let values = column.values();
        Section::new(number, values.len(), |row| values[row].bits())
    }

    /// Chooses the shorter encoding.
    fn new(number: u16, rows: usize, value: impl Fn(usize) -> u64 + 'p) -> Self {
        let largest = (0..rows).map(&value).max().unwrap_or(0);
        let set_count = (0..rows).filter(|&row| value(row) != 0).count();
        let width = match largest {
            0..=0xff => 1,
            0x100..=0xffff => 2,
            0x1_0000..=0xffff_ffff => 4,
            _ => 8,
        };
        let is_complete = number <= kinds::SIZES;
        let is_sparse = !is_complete && set_count * (ROW_BYTES + width) < rows * width;
        Section {
            number,
            rows: if set_count == 0 && !is_complete {
                0
            } else {
                rows
            },
            value: Box::new(value),
            width,
            is_sparse,
            items: match (is_sparse, is_complete || set_count > 0) {
                (true, _) => set_count as u64,
                (false, true) => rows as u64,
                (false, false) => 0,
            },
        }
    }

    fn len_bytes(&self) -> usize {
        let row_bytes = if self.is_sparse { ROW_BYTES } else { 0 };
        self.items as usize * (self.width + row_bytes)
    }

    fn encode(&self, sink: &mut Sink<'_>) -> io::Result<()> {
        let mut block = Vec::with_capacity(BLOCK_BYTES + ROW_BYTES + 8);
        for row in 0..self.rows {
            let value = (self.value)(row);
            if self.is_sparse {
                if value == 0 {
                    continue;
                }
                block.extend((row as u32).to_le_bytes());
            }
            block.extend(&value.to_le_bytes()[..self.width]);
            if block.len() >= BLOCK_BYTES {
                sink(&block)?;
                block.clear();
            }
        }
        sink(&block)
    }

    fn checksum(&self) -> u32 {
        let mut checked = crc32fast::Hasher::new();
        let encoded = self.encode(&mut |bytes| {
            checked.update(bytes);
            Ok(())
        });
        encoded.expect("a checksum takes every byte");
        checked.finalize()
    }
}
