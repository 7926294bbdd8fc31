//! IDs of stream entries.

/// ID of a stream entry: a time in milliseconds and a sequence number within it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    /// Time in milliseconds since the Unix epoch. Clients may choose other numbers.
    pub ms: u64,
    /// Number of the entry among those with the same time.
    pub seq: u64,
}

impl std::fmt::Display for StreamId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

impl StreamId {
    /// Smallest ID. No entry has it.
    pub const MIN: StreamId = StreamId { ms: 0, seq: 0 };
    /// Largest ID.
    pub const MAX: StreamId = StreamId {
        ms: u64::MAX,
        seq: u64::MAX,
    };

    /// Creates an ID from its two parts.
    pub const fn new(ms: u64, seq: u64) -> StreamId {
        StreamId { ms, seq }
    }

    /// Parses `ms-seq`, or `ms` with the sequence number 0.
    pub fn parse(text: &[u8]) -> Option<StreamId> {
        let number = |text: &[u8]| -> Option<u64> {
            let is_plain = text.first().is_some_and(|first| *first != b'+');
            std::str::from_utf8(text)
                .ok()
                .filter(|_| is_plain)?
                .parse()
                .ok()
        };
        let mut parts = text.splitn(2, |byte| *byte == b'-');
        let ms = number(parts.next()?)?;
        let seq = parts.next().map_or(Some(0), number)?;
        Some(StreamId { ms, seq })
    }

    /// Returns the smallest larger ID; `None` for the largest.
    pub fn next(self) -> Option<StreamId> {
        match (self.seq.checked_add(1), self.ms.checked_add(1)) {
            (Some(seq), _) => Some(StreamId { seq, ..self }),
            (None, Some(ms)) => Some(StreamId { ms, seq: 0 }),
            (None, None) => None,
        }
    }

    /// Returns the largest smaller ID; `None` for the smallest.
    pub fn previous(self) -> Option<StreamId> {
        match (self.seq.checked_sub(1), self.ms.checked_sub(1)) {
            (Some(seq), _) => Some(StreamId { seq, ..self }),
            (None, Some(ms)) => Some(StreamId { ms, seq: u64::MAX }),
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_an_id_cross_the_end_of_a_millisecond() {
        let last = StreamId::new(4, u64::MAX);
        assert_eq!(last.next(), Some(StreamId::new(5, 0)));
        assert_eq!(StreamId::new(5, 0).previous(), Some(last));
        assert_eq!(StreamId::MIN.previous(), None);
        assert_eq!(StreamId::MAX.next(), None);
    }
}
