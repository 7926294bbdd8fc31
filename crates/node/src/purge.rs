//! Purges, and the stored or arriving responses that they concern.
//!
//! A purge removes stored responses immediately. A response whose fetch began before the purge may
//! still have the old content, and must not be stored afterwards. The last purges are therefore
//! recorded, and every fetch checks the purges since its beginning.

use crate::object::tag_hash;
use crate::rules::key::Key;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Maximum number of recorded purges. A response whose fetch began before the oldest one is not
/// stored.
const RECORDED_MAX: usize = 1_024;

/// Target of a purge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// One URL.
    Url(Key),
    /// All URLs with this prefix.
    Prefix(String),
    /// All responses with a tag.
    Tag(u64),
}

impl Target {
    /// Returns the target for all responses with a tag.
    pub fn tag(tag: &str) -> Self {
        Target::Tag(tag_hash(tag.as_bytes()))
    }

    /// Returns true if the target includes a response.
    pub fn concerns(&self, key: &Key, tags: &[u64]) -> bool {
        match self {
            Target::Url(url) => {
                let rest = key.as_str().strip_prefix(url.as_str());
                // The key is the URL itself, or a chunk of it.
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('#'))
            }
            Target::Prefix(prefix) => key.as_str().starts_with(prefix.as_str()),
            Target::Tag(tag) => tags.contains(tag),
        }
    }
}

/// A purge, as nodes send it to each other: `hard` or `soft`, the kind of its target, and the
/// target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Purge {
    /// Responses that are concerned.
    pub target: Target,
    /// Whether their freshness ends, instead of their being removed.
    pub is_soft: bool,
}

impl Purge {
    /// Parses a purge; `None` if the text is invalid.
    pub fn parse(text: &str) -> Option<Self> {
        let (softness, rest) = text.split_once(' ')?;
        let (kind, text) = rest.split_once(' ')?;
        let is_soft = match softness {
            "soft" => true,
            "hard" => false,
            _ => return None,
        };
        let target = match kind {
            "url" => Target::Url(Key::parse(text)?),
            "prefix" => Target::Prefix(text.to_owned()),
            "tag" => Target::Tag(u64::from_str_radix(text, 16).ok()?),
            _ => return None,
        };
        Some(Purge { target, is_soft })
    }
}

impl fmt::Display for Purge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let soft = if self.is_soft { "soft" } else { "hard" };
        match &self.target {
            Target::Url(key) => write!(f, "{soft} url {}", key.as_str()),
            Target::Prefix(prefix) => write!(f, "{soft} prefix {prefix}"),
            Target::Tag(hash) => write!(f, "{soft} tag {hash:x}"),
        }
    }
}

/// The last purges.
#[derive(Debug, Default)]
pub struct Purges {
    count: AtomicU64,
    last: Mutex<VecDeque<(Instant, Target)>>,
}

impl Purges {
    /// Returns the number of purges so far, which a fetch remembers when it begins.
    pub fn count(&self) -> u64 {
        self.count.load(SeqCst)
    }

    /// Records a purge.
    pub fn record(&self, target: Target) {
        let mut last = self
            .last
            .lock()
            .unwrap_or_else(|poison| poison.into_inner());
        if last.len() == RECORDED_MAX {
            last.pop_front();
        }
        last.push_back((Instant::now(), target));
        self.count.fetch_add(1, SeqCst);
    }

    /// Returns true if a purge after the first `count` ones concerns a response.
    pub fn concern(&self, count: u64, key: &Key, tags: &[u64]) -> bool {
        if self.count() == count {
            return false;
        }
        let last = self
            .last
            .lock()
            .unwrap_or_else(|poison| poison.into_inner());
        let since = usize::try_from(self.count() - count).unwrap_or(usize::MAX);
        if since > last.len() {
            return true;
        }
        let newer = last.iter().rev().take(since);
        newer
            .into_iter()
            .any(|(_, target)| target.concerns(key, tags))
    }

    /// Returns true if a purge within the last `time` affects a response whose fetch was begun by
    /// another node that long ago.
    pub fn concern_within(&self, time: Duration, key: &Key, tags: &[u64]) -> bool {
        let last = self
            .last
            .lock()
            .unwrap_or_else(|poison| poison.into_inner());
        let is_within = |at: &Instant| at.elapsed() <= time;
        if last.len() == RECORDED_MAX && last.front().is_some_and(|(at, _)| is_within(at)) {
            return true;
        }
        let newer = last.iter().rev().take_while(|(at, _)| is_within(at));
        newer
            .into_iter()
            .any(|(_, target)| target.concerns(key, tags))
    }
}

/// Returns true if a request has the right token. The comparison takes the same time for all tokens
/// of the same length.
pub(crate) fn is_permitted(token: Option<&str>, headers: &HeaderMap) -> bool {
    let given = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
    let given = given.and_then(|given| given.strip_prefix(b"Bearer "));
    let (Some(token), Some(given)) = (token, given) else {
        return false;
    };
    is_equal(token, given)
}

/// Returns true if a client has given this token. The time does not depend on where they differ.
pub(crate) fn is_equal(token: &str, given: &[u8]) -> bool {
    let bytes = token.bytes().zip(given);
    let differences = bytes.fold(0, |sum, (a, b)| sum | (a ^ b));
    token.len() == given.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purge_concerns_fetches_that_began_before_it() {
        let purges = Purges::default();
        let key = Key::new(false, "a", "/x/y").expect("the input is valid");
        let before = purges.count();
        purges.record(Target::Prefix("http://a/x/".into()));
        assert!(purges.concern(before, &key, &[]));
        assert!(!purges.concern(purges.count(), &key, &[]));
        let other = Key::new(false, "b", "/x/y").expect("the input is valid");
        assert!(!purges.concern(before, &other, &[]));
        let before = purges.count();
        purges.record(Target::tag("t"));
        assert!(purges.concern(before, &other, &[tag_hash(b"t")]));
        assert!(!purges.concern(before, &other, &[tag_hash(b"u")]));
    }

    #[test]
    fn a_purge_concerns_fetches_of_other_nodes_that_began_before_it() {
        let purges = Purges::default();
        let key = Key::new(false, "a", "/x").expect("the input is valid");
        let hour = Duration::from_secs(3_600);
        assert!(!purges.concern_within(hour, &key, &[]));
        purges.record(Target::Url(key.clone()));
        assert!(purges.concern_within(hour, &key, &[]));
        let other = Key::new(false, "a", "/y").expect("the input is valid");
        assert!(!purges.concern_within(hour, &other, &[]));
        for _ in 0..RECORDED_MAX {
            purges.record(Target::tag("t"));
        }
        // The record is full, so that older purges are unknown.
        assert!(purges.concern_within(hour, &other, &[]));
    }

    #[test]
    fn a_purge_of_a_url_concerns_its_chunks() {
        let url = Key::parse("http://a/x").expect("the input is valid");
        let target = Target::Url(url.clone());
        assert!(target.concerns(&url, &[]));
        assert!(target.concerns(&url.chunk(2).expect("it is short"), &[]));
        let longer = Key::parse("http://a/xy").expect("the input is valid");
        assert!(!target.concerns(&longer, &[]));
    }

    #[test]
    fn a_fetch_older_than_the_record_counts_as_purged() {
        let purges = Purges::default();
        let key = Key::new(false, "a", "/").expect("the input is valid");
        for _ in 0..RECORDED_MAX {
            purges.record(Target::tag("t"));
        }
        assert!(!purges.concern(0, &key, &[]));
        purges.record(Target::tag("t"));
        assert!(purges.concern(0, &key, &[]));
    }

    #[test]
    fn a_purge_needs_the_whole_token() {
        let mut headers = HeaderMap::new();
        assert!(!is_permitted(Some("secret"), &headers));
        for (given, expected) in [
            ("Bearer secret", true),
            ("Bearer secre", false),
            ("Bearer secretx", false),
            ("secret", false),
        ] {
            headers.insert(AUTHORIZATION, HeaderValue::from_static(given));
            assert_eq!(is_permitted(Some("secret"), &headers), expected, "{given}");
        }
        assert!(!is_permitted(None, &headers));
    }

    #[test]
    fn purges_of_other_nodes_are_read() {
        let url = Key::parse("http://a/x y").expect("the input is valid");
        for (text, target, is_soft) in [
            ("hard url http://a/x y", Target::Url(url), false),
            (
                "soft prefix http://a/",
                Target::Prefix("http://a/".into()),
                true,
            ),
            ("hard tag ff", Target::Tag(255), false),
        ] {
            let purge = Purge { target, is_soft };
            assert_eq!(purge.to_string(), text);
            assert_eq!(Purge::parse(text), Some(purge));
        }
        for text in [
            "",
            "hard",
            "hard url",
            "hard url x",
            "mild tag 1",
            "hard tag g",
        ] {
            assert_eq!(Purge::parse(text), None, "{text}");
        }
    }
}
