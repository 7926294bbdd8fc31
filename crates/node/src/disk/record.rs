//! Encoding of the responses of one URL as a record of a segment, with checksums.
//!
//! ```text
//! offset  bytes  header
//!      0      4  magic
//!      4      4  version
//!      8      8  hash of the key
//!     16      8  end of the usable time, in milliseconds since the Unix epoch
//!     24      4  number of the segment
//!     28      4  offset in the segment
//!     32      4  bytes of the description
//!     36      4  zero
//!     40      8  bytes of the content
//!     48      8  checksum of the description
//!     56      8  checksum of the 56 bytes before
//!     64         description: key, heads, a checksum for each 64 KiB of content
//!                content of all responses, one after the other
//! ```
//!
//! Numbers are little-endian. The content has a checksum per block, so that a range can be verified
//! without reading the rest. A record names its own place, so that bytes from another place are not
//! mistaken for it.

use crate::coded::Coded;
use crate::object::{Head, Place, Resource};
use crate::rules::freshness::Terms;
use crate::rules::key::Key;
use crate::rules::ranges::Range;
use crate::rules::vary::Selection;
use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use std::sync::Arc;
use twox_hash::XxHash3_64;

/// Size of a header in bytes.
pub const HEADER_BYTES: usize = 64;
/// Size in bytes of the content blocks, each of which has a checksum.
pub const BLOCK_BYTES: usize = 64 << 10;

const MAGIC: u32 = 0x3166_796d;
const VERSION: u32 = 1;
/// Seed of the hashes of keys.
const KEY_SEED: u64 = 0x6d61_7966_6c79_0001;

/// Returns the hash under which a key's record is found.
pub fn key_hash(key: &Key) -> u64 {
    XxHash3_64::oneshot_with_seed(KEY_SEED, key.as_str().as_bytes())
}

/// Returns the checksum of bytes other than content.
pub fn checksum(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

/// Returns the checksum of a block of content.
pub fn block_checksum(block: &[u8]) -> u32 {
    XxHash3_64::oneshot(block) as u32
}

/// Header of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Hash of the key.
    pub hash: u64,
    /// End of the usable time, in milliseconds since the Unix epoch.
    pub deadline_ms: u64,
    /// Number of the segment.
    pub segment: u32,
    /// Offset in the segment.
    pub offset: u32,
    /// Bytes of the description.
    pub description_bytes: u32,
    /// Bytes of the content.
    pub content_bytes: u64,
    /// Checksum of the description.
    pub description_checksum: u64,
}

impl Header {
    /// Returns the size of the whole record in bytes; `None` if it does not fit in 64 bits.
    pub fn record_bytes(&self) -> Option<u64> {
        let head = HEADER_BYTES as u64 + u64::from(self.description_bytes);
        head.checked_add(self.content_bytes)
    }

    /// Encodes the header.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[4..8].copy_from_slice(&VERSION.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.hash.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.deadline_ms.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.segment.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.offset.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.description_bytes.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.content_bytes.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.description_checksum.to_le_bytes());
        let sum = checksum(&bytes[..56]);
        bytes[56..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Decodes the header of a key's record at a place; `None` if the bytes are something else.
    pub fn at(hash: u64, place: Place, bytes: &[u8]) -> Option<Self> {
        Header::decode(bytes).filter(|header| {
            header.hash == hash
                && (header.segment, header.offset) == (place.segment, place.offset)
                && header.record_bytes() == Some(place.length.into())
        })
    }

    /// Decodes a header; `None` if the bytes are not an intact header.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..HEADER_BYTES)?;
        let mut reader = Reader(bytes);
        let is_known = reader.u32()? == MAGIC && reader.u32()? == VERSION;
        let hash = reader.u64()?;
        let deadline_ms = reader.u64()?;
        let segment = reader.u32()?;
        let offset = reader.u32()?;
        let description_bytes = reader.u32()?;
        let is_known = is_known && reader.u32()? == 0;
        let content_bytes = reader.u64()?;
        let description_checksum = reader.u64()?;
        let is_intact = reader.u64()? == checksum(&bytes[..56]);
        (is_known && is_intact).then_some(Header {
            hash,
            deadline_ms,
            segment,
            offset,
            description_bytes,
            content_bytes,
            description_checksum,
        })
    }
}

/// Description of a record.
pub struct Description {
    /// Key.
    pub key: Key,
    /// Heads of the responses and lengths of their content, newest first.
    pub variants: Vec<(Arc<Head>, u64)>,
    /// Checksums of the blocks of the content.
    pub blocks: Arc<[u32]>,
}

impl Description {
    /// Returns the hashes of the tags of all responses.
    pub fn tags(&self) -> impl Iterator<Item = u64> {
        let heads = self.variants.iter();
        heads.flat_map(|(head, _)| head.tags.iter().copied())
    }
}

/// Encodes the description of a URL's responses.
pub fn describe(key: &Key, resource: &Resource) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1_024);
    bytes.push(u8::from(key.is_tls()));
    put_bytes(&mut bytes, key.host().as_bytes());
    put_bytes(&mut bytes, key.target().as_bytes());
    put_u32(&mut bytes, resource.variants.len());
    for object in &resource.variants {
        put_head(&mut bytes, &object.head);
        bytes.extend_from_slice(&object.length.to_le_bytes());
    }
    let blocks = block_checksums(contents(resource));
    put_u32(&mut bytes, blocks.len());
    for block in blocks {
        bytes.extend_from_slice(&block.to_le_bytes());
    }
    bytes
}

/// Returns the content of all responses, in the order of the record.
pub fn contents(resource: &Resource) -> impl Iterator<Item = &Bytes> {
    resource
        .variants
        .iter()
        .flat_map(|object| object.chunks.iter())
}

/// Decodes a description; `None` if the bytes are not one. The lengths come from the header.
pub fn read_description(header: &Header, bytes: &[u8]) -> Option<Description> {
    if checksum(bytes) != header.description_checksum {
        return None;
    }
    let mut reader = Reader(bytes);
    let is_tls = reader.u8()? != 0;
    let host = std::str::from_utf8(reader.bytes()?).ok()?;
    let target = std::str::from_utf8(reader.bytes()?).ok()?;
    let key = Key::new(is_tls, host, target).ok()?;
    let count = reader.u32()?;
    let mut variants = vec![];
    let mut sum = 0_u64;
    for _ in 0..count {
        let head = reader.head()?;
        let length = reader.u64()?;
        sum = sum.checked_add(length)?;
        variants.push((Arc::new(head), length));
    }
    let count = reader.u32()?;
    let is_right = sum == header.content_bytes
        && u64::from(count) == header.content_bytes.div_ceil(BLOCK_BYTES as u64);
    if !is_right || reader.0.len() != count as usize * 4 {
        return None;
    }
    let blocks = (0..count).map_while(|_| reader.u32()).collect();
    Some(Description {
        key,
        variants,
        blocks,
    })
}

/// Returns true if bytes of the content match their checksums. They must begin at the start of a
/// block and end at the end of a block or of the content.
pub fn is_intact(blocks: &[u32], start: u64, bytes: &[u8]) -> bool {
    let first = (start / BLOCK_BYTES as u64) as usize;
    debug_assert_eq!(start % BLOCK_BYTES as u64, 0);
    let mut chunks = bytes.chunks(BLOCK_BYTES).enumerate();
    chunks.all(|(index, block)| blocks.get(first + index) == Some(&block_checksum(block)))
}

/// Returns the block checksums of content in pieces.
fn block_checksums<'a>(chunks: impl Iterator<Item = &'a Bytes>) -> Vec<u32> {
    let mut sums = vec![];
    let mut partial: Vec<u8> = vec![];
    for chunk in chunks {
        let mut rest = &chunk[..];
        while !rest.is_empty() {
            if partial.is_empty() && rest.len() >= BLOCK_BYTES {
                let (block, after) = rest.split_at(BLOCK_BYTES);
                sums.push(block_checksum(block));
                rest = after;
                continue;
            }
            let (part, after) = rest.split_at(rest.len().min(BLOCK_BYTES - partial.len()));
            partial.extend_from_slice(part);
            rest = after;
            if partial.len() == BLOCK_BYTES {
                sums.push(block_checksum(&partial));
                partial.clear();
            }
        }
    }
    if !partial.is_empty() {
        sums.push(block_checksum(&partial));
    }
    sums
}

fn put_u32(bytes: &mut Vec<u8>, number: usize) {
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    bytes.extend_from_slice(&number.to_le_bytes());
}

fn put_bytes(bytes: &mut Vec<u8>, text: &[u8]) {
    put_u32(bytes, text.len());
    bytes.extend_from_slice(text);
}

/// Appends an encoded head.
pub fn put_head(bytes: &mut Vec<u8>, head: &Head) {
    bytes.extend_from_slice(&head.status.as_u16().to_le_bytes());
    put_u32(bytes, head.headers.len());
    for (name, value) in &head.headers {
        put_bytes(bytes, name.as_str().as_bytes());
        put_bytes(bytes, value.as_bytes());
    }
    let terms = &head.terms;
    for number in [
        terms.received_ms,
        terms.initial_age_ms,
        terms.fresh_ms,
        terms.revalidate_ms,
        terms.error_ms,
        terms.keep_ms,
    ] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    let flags = u8::from(terms.is_always_validated) | u8::from(terms.must_revalidate) << 1;
    let flags = flags | u8::from(head.part.is_some()) << 2;
    bytes.push(flags | u8::from(head.coded.is_some()) << 3);
    if let Some((part, whole)) = head.part {
        for number in [part.start, part.end, whole] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
    }
    if let Some(coded) = head.coded {
        bytes.extend_from_slice(&coded.version.to_le_bytes());
        bytes.extend_from_slice(&coded.length.to_le_bytes());
    }
    put_u32(bytes, head.selection.fields().len());
    for (name, value) in head.selection.fields() {
        put_bytes(bytes, name.as_str().as_bytes());
        bytes.push(u8::from(value.is_some()));
        put_bytes(bytes, value.as_deref().unwrap_or_default());
    }
    put_u32(bytes, head.tags.len());
    for tag in &head.tags {
        bytes.extend_from_slice(&tag.to_le_bytes());
    }
}

/// Reader of the bytes that remain to be decoded.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// Reads `count` bytes.
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// Reads one byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    /// Reads a 32-bit number.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Reads a 64-bit number.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let count = self.u32()? as usize;
        self.take(count)
    }

    /// Reads a head written by [`put_head`]; `None` if the bytes are not a head.
    pub fn head(&mut self) -> Option<Head> {
        let status = self.array().map(u16::from_le_bytes)?;
        let status = StatusCode::from_u16(status).ok()?;
        let mut headers = HeaderMap::new();
        for _ in 0..self.u32()? {
            let name = HeaderName::from_bytes(self.bytes()?).ok()?;
            let value = HeaderValue::from_bytes(self.bytes()?).ok()?;
            headers.try_append(name, value).ok()?;
        }
        let mut terms = Terms {
            received_ms: self.u64()?,
            initial_age_ms: self.u64()?,
            fresh_ms: self.u64()?,
            revalidate_ms: self.u64()?,
            error_ms: self.u64()?,
            keep_ms: self.u64()?,
            is_always_validated: false,
            must_revalidate: false,
        };
        let flags = self.u8()?;
        terms.is_always_validated = flags & 1 != 0;
        terms.must_revalidate = flags & 2 != 0;
        let mut part = None;
        if flags & 4 != 0 {
            let (start, end, whole) = (self.u64()?, self.u64()?, self.u64()?);
            if start >= end || end > whole {
                return None;
            }
            part = Some((Range { start, end }, whole));
        }
        let mut coded = None;
        if flags & 8 != 0 {
            coded = Some(Coded {
                version: self.u64()?,
                length: self.u64()?,
            });
        }
        let mut fields = vec![];
        for _ in 0..self.u32()? {
            let name = HeaderName::from_bytes(self.bytes()?).ok()?;
            let is_present = self.u8()? != 0;
            let value = self.bytes()?;
            fields.push((name, is_present.then(|| value.to_vec())));
        }
        let mut tags = vec![];
        for _ in 0..self.u32()? {
            tags.push(self.u64()?);
        }
        Some(Head {
            status,
            headers,
            terms,
            selection: Selection::from_fields(fields),
            part,
            tags: tags.into(),
            coded,
        })
    }
}

#[cfg(test)]
mod tests;
