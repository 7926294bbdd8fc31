//! Patterns of channels with their subscribers.
//!
//! A pattern begins with literal bytes, which may be none. A message is compared with the patterns
//! whose literal bytes its channel begins with, so that patterns that begin otherwise cost nothing:
//! 300,000 different ones delayed each message by 7 ms while all of them were compared.

use super::Listeners;
use crate::glob;
use std::collections::BTreeMap;
use std::ops::Bound::{Included, Unbounded};
use std::sync::Arc;

/// Number of literal bytes that count. A message is searched once for each number that occurs.
const LITERAL_BYTES_MAX: usize = 128;

/// Patterns with subscribers, by the number of their literal bytes and then in the order of their
/// bytes. Those with the same literal bytes are adjacent.
#[derive(Default)]
pub(super) struct Patterns(BTreeMap<usize, BTreeMap<Arc<[u8]>, Listeners>>);

/// Returns the number of bytes at the start of a pattern that each matching channel begins with.
fn literal_len(pattern: &[u8]) -> usize {
    let is_special = |byte: &u8| matches!(byte, b'*' | b'?' | b'[' | b'\\');
    let len = pattern.iter().position(is_special);
    len.unwrap_or(pattern.len()).min(LITERAL_BYTES_MAX)
}

impl Patterns {
    /// Returns the subscribers of a pattern.
    pub(super) fn get_mut(&mut self, pattern: &[u8]) -> Option<&mut Listeners> {
        self.0.get_mut(&literal_len(pattern))?.get_mut(pattern)
    }

    /// Returns the subscribers of a pattern, which is added if it is missing.
    pub(super) fn entry(&mut self, pattern: &[u8]) -> &mut Listeners {
        let patterns = self.0.entry(literal_len(pattern)).or_default();
        patterns.entry(Arc::from(pattern)).or_default()
    }

    /// Removes a pattern.
    pub(super) fn remove(&mut self, pattern: &[u8]) {
        let len = literal_len(pattern);
        if let Some(patterns) = self.0.get_mut(&len) {
            patterns.remove(pattern);
            if patterns.is_empty() {
                self.0.remove(&len);
            }
        }
    }

    /// Returns the number of patterns.
    pub(super) fn len(&self) -> usize {
        self.0.values().map(BTreeMap::len).sum()
    }

    /// Returns all patterns with their subscribers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<[u8]>, &Listeners)> {
        self.0.values().flatten()
    }

    /// Returns the patterns that match a channel, with their subscribers.
    pub(super) fn matching<'p, 'c>(
        &'p self,
        channel: &'c [u8],
    ) -> impl Iterator<Item = (&'p Arc<[u8]>, &'p Listeners)> + use<'p, 'c> {
        let levels = self.0.range(..=channel.len());
        levels.flat_map(move |(&len, patterns)| {
            let (literal, rest) = channel.split_at(len);
            let from = patterns.range::<[u8], _>((Included(literal), Unbounded));
            let candidates = from.take_while(move |(pattern, _)| pattern.starts_with(literal));
            candidates.filter(move |(pattern, _)| glob::matches(&pattern[len..], rest, false))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Subscriber;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn client(client: u64) -> Subscriber {
        let (worker, slot) = (0, 0);
        Subscriber {
            worker,
            slot,
            client,
        }
    }

    #[test]
    fn literal_bytes_end_at_a_special_one_or_at_their_maximum() {
        let lens: Vec<usize> = [&b"a"[..], b"ab*", b"a?b", b"[ab]", b"a\\*", b"", b"*a"]
            .map(literal_len)
            .to_vec();
        assert_eq!(lens, [1, 2, 1, 0, 1, 0, 0]);
        let long = [b"a".repeat(LITERAL_BYTES_MAX + 5), b"*".to_vec()].concat();
        assert_eq!(literal_len(&long), LITERAL_BYTES_MAX);
        let mut patterns = Patterns::default();
        patterns.entry(&long).push(client(0));
        assert_eq!(patterns.matching(&long).count(), 1);
        assert_eq!(patterns.matching(&long[..LITERAL_BYTES_MAX]).count(), 0);
        patterns.remove(&long);
        assert!(patterns.0.is_empty());
    }

    proptest! {
        #[test]
        fn the_candidates_that_match_are_those_of_a_search_of_all(
            changes in prop::collection::vec((any::<bool>(), "[ab*?\\[\\]\\\\^-]{0,5}"), 1..60),
            channels in prop::collection::vec("[ab*\\\\-]{0,5}", 1..20),
        ) {
            let (mut patterns, mut model) = (Patterns::default(), BTreeSet::new());
            for (adds, pattern) in &changes {
                let pattern = pattern.as_bytes();
                prop_assert_eq!(patterns.get_mut(pattern).is_some(), model.contains(pattern));
                if *adds {
                    patterns.entry(pattern).push(client(model.len() as u64));
                    model.insert(pattern.to_vec());
                } else {
                    patterns.remove(pattern);
                    model.remove(pattern);
                }
            }
            prop_assert_eq!(patterns.len(), model.len());
            let all: BTreeSet<Vec<u8>> = patterns.iter().map(|(pattern, _)| pattern.to_vec()).collect();
            prop_assert_eq!(&all, &model);
            for channel in channels.iter().map(String::as_bytes) {
                let is_match = |pattern: &[u8]| glob::matches(pattern, channel, false);
                let found = patterns.matching(channel).map(|(pattern, _)| pattern.to_vec());
                let found: Vec<Vec<u8>> = found.collect();
                let expected: BTreeSet<Vec<u8>> =
                    model.iter().filter(|pattern| is_match(pattern)).cloned().collect();
                prop_assert_eq!(found.len(), expected.len());
                prop_assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected);
            }
        }
    }
}
