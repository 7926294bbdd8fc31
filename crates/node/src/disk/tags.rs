//! Tags of the records of a segment, for purges by tag.
//!
//! ```text
//! pair: upper half of the tag's hash (4 bytes), offset of the record (4)
//! ```
//!
//! A pair is appended with its record. When the segment is complete, the pairs are sorted and
//! written to its footer, so that a restart reads them without reading the records. Half a hash
//! finds a few records too many, whose descriptions are read and compared.
//!
//! # Bounds
//! There are 8 bytes per URL and tag, in memory and on disk. The pairs of a record stay until its
//! segment is deleted, also if the record itself has left. So the size of the tier bounds them.

/// Tags of the records of a segment.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tags {
    pairs: Vec<(u32, u32)>,
    is_sorted: bool,
}

/// Returns the part of a tag's hash that is kept.
fn half(tag: u64) -> u32 {
    (tag >> 32) as u32
}

impl Tags {
    /// Returns the number of pairs.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Returns the size in memory in bytes.
    pub fn bytes(&self) -> u64 {
        (self.pairs.capacity() * size_of::<(u32, u32)>()) as u64
    }

    /// Adds a tag of the record at an offset, which must be the last one.
    pub fn push(&mut self, tag: u64, offset: u32) {
        debug_assert!(!self.is_sorted);
        self.pairs.push((half(tag), offset));
    }

    /// Sorts the pairs. No pair follows.
    pub fn sort(&mut self) {
        self.pairs.sort_unstable();
        self.pairs.shrink_to_fit();
        self.is_sorted = true;
    }

    /// Returns the offsets of the records that may have a tag, from an offset on, in ascending
    /// order.
    pub fn offsets(&self, tag: u64, from: u32) -> Vec<u32> {
        let wanted = half(tag);
        let is_wanted = |pair: &&(u32, u32)| pair.0 == wanted && pair.1 >= from;
        let start = match self.is_sorted {
            true => self.pairs.partition_point(|pair| *pair < (wanted, from)),
            false => 0,
        };
        let pairs = self.pairs[start..].iter();
        let mut offsets: Vec<u32> = match self.is_sorted {
            true => pairs.take_while(is_wanted).map(|pair| pair.1).collect(),
            false => pairs.filter(is_wanted).map(|pair| pair.1).collect(),
        };
        // Several tags of a record may have the same half.
        offsets.dedup();
        offsets
    }

    /// Appends the encoded pairs.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        for (tag, offset) in &self.pairs {
            bytes.extend_from_slice(&tag.to_le_bytes());
            bytes.extend_from_slice(&offset.to_le_bytes());
        }
    }

    /// Decodes pairs that were sorted and encoded.
    pub fn decode(bytes: &[u8]) -> Self {
        let u32_at = |pair: &[u8], at: usize| {
            u32::from_le_bytes(pair[at..at + 4].try_into().expect("4 bytes"))
        };
        let pairs = bytes.chunks_exact(8);
        let pairs: Vec<(u32, u32)> = pairs
            .map(|pair| (u32_at(pair, 0), u32_at(pair, 4)))
            .collect();
        Tags {
            is_sorted: pairs.is_sorted(),
            pairs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn tags_equal_a_list_of_pairs(
            pairs in prop::collection::vec((0_u64..8, 0_u32..3), 0..60),
            tag in 0_u64..8,
            from in 0_u32..60,
        ) {
            let mut tags = Tags::default();
            let mut model = vec![];
            let mut offset = 0;
            for (number, step) in pairs {
                offset += step;
                // Tags 6 and 7 have the same half.
                let hash = (number.min(6) << 32) | number;
                tags.push(hash, offset);
                model.push((number.min(6), offset));
            }
            let wanted = (tag.min(6) << 32) | 99;
            let mut expected: Vec<u32> = model
                .iter()
                .filter(|pair| pair.0 == tag.min(6) && pair.1 >= from)
                .map(|pair| pair.1)
                .collect();
            expected.dedup();
            prop_assert_eq!(tags.offsets(wanted, from), &expected[..]);
            tags.sort();
            prop_assert_eq!(tags.offsets(wanted, from), &expected[..]);
            let mut bytes = vec![];
            tags.encode(&mut bytes);
            prop_assert_eq!(bytes.len(), 8 * tags.len());
            prop_assert_eq!(Tags::decode(&bytes).offsets(wanted, from), expected);
        }
    }
}
