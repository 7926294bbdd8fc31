//! Patterns of channels with their subscribers.
//!
//! A pattern begins with literal bytes, possibly none. A message is compared only with the patterns
//! whose literal bytes its channel begins with, so that other patterns cost nothing: 300,000
//! different ones delayed each message by 7 ms while all of them were compared.
//!
//! Comparing with a long channel takes time proportional to its length. The work for one message is
//! therefore bounded, as the sum over all patterns; see [`Patterns::is_too_long`].

use super::Listeners;
use std::collections::BTreeMap;
use std::ops::Bound::{Included, Unbounded};
use std::sync::Arc;
use wire::glob;

/// Number of literal bytes that count. A message is searched once for each number that occurs.
const LITERAL_BYTES_MAX: usize = 128;
/// Maximum length in bytes of a channel that is compared with any number of patterns.
const SHORT_CHANNEL_BYTES: usize = 256;
/// Maximum work for comparing a longer channel: its length times the sum of [`work_per_byte`] over
/// the patterns.
const WORK_MAX: usize = 1 << 24;
/// Work per byte of a channel in addition to the work for a pattern's elements.
const WORK_MIN: usize = 8;
/// Maximum number of bytes of a pattern that a byte of a channel is compared with.
const COMPARED_BYTES_MAX: usize = 80;

/// Patterns with subscribers, ordered by the number of their literal bytes and then by their bytes.
/// Those with the same literal bytes are adjacent.
#[derive(Default)]
pub(super) struct Patterns(BTreeMap<usize, BTreeMap<Arc<[u8]>, Listeners>>);

/// Returns the number of bytes at the start of a pattern that every matching channel begins with.
fn literal_len(pattern: &[u8]) -> usize {
    let is_special = |byte: &u8| matches!(byte, b'*' | b'?' | b'[' | b'\\');
    let len = pattern.iter().position(is_special);
    len.unwrap_or(pattern.len()).min(LITERAL_BYTES_MAX)
}

/// Returns the work of a comparison per byte of the channel. `rest` is the part of the pattern
/// after the literal bytes.
fn work_per_byte(rest: &[u8]) -> usize {
    match rest {
        // The length of the channel does not matter.
        b"" | b"*" => 0,
        _ => WORK_MIN + rest.len().min(COMPARED_BYTES_MAX),
    }
}

impl Patterns {
    /// Returns the subscribers of a pattern.
    pub(super) fn get_mut(&mut self, pattern: &[u8]) -> Option<&mut Listeners> {
        self.0.get_mut(&literal_len(pattern))?.get_mut(pattern)
    }

    /// Returns a pattern's subscribers, adding the pattern if it is missing.
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

    /// Returns the patterns whose literal bytes a channel begins with: the number of literal bytes,
    /// the pattern, and its subscribers.
    fn candidates<'p, 'c>(
        &'p self,
        channel: &'c [u8],
    ) -> impl Iterator<Item = (usize, &'p Arc<[u8]>, &'p Listeners)> + use<'p, 'c> {
        let levels = self.0.range(..=channel.len());
        levels.flat_map(move |(&len, patterns)| {
            let literal = &channel[..len];
            let from = patterns.range::<[u8], _>((Included(literal), Unbounded));
            let candidates = from.take_while(move |(pattern, _)| pattern.starts_with(literal));
            candidates.map(move |(pattern, listeners)| (len, pattern, listeners))
        })
    }

    /// Whether a channel is too long to be compared with the patterns.
    pub(super) fn is_too_long(&self, channel: &[u8]) -> bool {
        if channel.len() <= SHORT_CHANNEL_BYTES {
            return false;
        }
        let work = |(len, pattern, _): (usize, &Arc<[u8]>, _)| work_per_byte(&pattern[len..]);
        let mut left = WORK_MAX / channel.len();
        let mut works = self.candidates(channel).map(work);
        works.any(|work| match left.checked_sub(work) {
            Some(rest) => {
                left = rest;
                false
            }
            None => true,
        })
    }

    /// Returns the patterns that match a channel, with their subscribers; none if the channel is
    /// too long.
    pub(super) fn matching<'p, 'c>(
        &'p self,
        channel: &'c [u8],
    ) -> impl Iterator<Item = (&'p Arc<[u8]>, &'p Listeners)> + use<'p, 'c> {
        let candidates = (!self.is_too_long(channel)).then(|| self.candidates(channel));
        let matching = |(len, pattern, _): &(usize, &Arc<[u8]>, _)| {
            glob::matches(&pattern[*len..], &channel[*len..], false)
        };
        let matching = candidates.into_iter().flatten().filter(matching);
        matching.map(|(_, pattern, listeners)| (pattern, listeners))
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

    #[test]
    fn the_work_for_one_channel_is_bounded() {
        // Regression: a channel of 1 MB was compared with 500 patterns for two seconds.
        let mut patterns = Patterns::default();
        let name = |number| format!("*-{number}-*y").into_bytes();
        (0..500).for_each(|number| patterns.entry(&name(number)).push(client(number)));
        patterns.entry(b"x*").push(client(500));
        let channel = |len: usize| [b"x".repeat(len), b"-7-y".to_vec()].concat();
        let matching = |patterns: &Patterns, len| patterns.matching(&channel(len)).count();
        let found: Vec<usize> = [1, 1000, 1 << 20]
            .map(|len| matching(&patterns, len))
            .to_vec();
        assert_eq!(found, [2, 2, 0]);
        assert!(patterns.is_too_long(&channel(1 << 20)));
        // Other literal bytes are not compared, and a prefix costs nothing.
        let other = [b"y".repeat(1 << 20), b"-7-y".to_vec()].concat();
        assert!(patterns.is_too_long(&other));
        (0..500).for_each(|number| patterns.remove(&name(number)));
        let name = |number| format!("z-{number}-*y").into_bytes();
        (0..500).for_each(|number| patterns.entry(&name(number)).push(client(number)));
        assert_eq!(matching(&patterns, 1 << 20), 1);
        // A short channel is compared with any number.
        for number in 0..100_000 {
            patterns
                .entry(format!("*{number}*-7-y").as_bytes())
                .push(client(number));
        }
        assert!(!patterns.is_too_long(&channel(200)));
        assert!(patterns.is_too_long(&channel(300)));
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
