//! Stored responses.

use crate::budget::{Budget, Charge};
use crate::coded::Coded;
use crate::rules::conditional::permits_range;
use crate::rules::fields::Lines;
use crate::rules::freshness::Terms;
use crate::rules::key::Key;
use crate::rules::ranges::{Range, Requested};
use crate::rules::vary::Selection;
use crate::tags::{PAIR_BYTES, Tagged, URL_BYTES};
use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::HeaderMap;
use std::fmt::Debug;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use twox_hash::XxHash3_64;

/// Maximum number of responses under one URL. A further response replaces the oldest one.
pub const VARIANTS_MAX: usize = 32;
/// Minimum length of content that stays in the chunks in which it arrived. Shorter content is
/// copied into one.
const CONCATENATED_BYTES: u64 = 16 << 10;

/// Head of a stored response, with everything that is needed to use the response.
#[derive(Clone, Debug)]
pub struct Head {
    /// Status.
    pub status: StatusCode,
    /// Header fields, without fields of a single connection.
    pub headers: HeaderMap,
    /// Times that determine freshness and use.
    pub terms: Terms,
    /// Request fields by which the response was selected (Vary).
    pub selection: Selection,
    /// Part of the representation that the response contains, and the length of the whole; `None`
    /// if it contains the whole.
    pub part: Option<(Range, u64)>,
    /// Hashes of the response's tags, for purges.
    pub tags: Box<[u64]>,
    /// Identity of the coded object, if the content is stored in chunks on the cluster's nodes.
    pub coded: Option<Coded>,
}

impl Head {
    /// Returns the estimated size of the head in memory, in bytes.
    fn bytes(&self) -> usize {
        let field = |(name, value): (&hyper::header::HeaderName, &hyper::header::HeaderValue)| {
            96 + name.as_str().len() + value.len()
        };
        let fields: usize = self.headers.iter().map(field).sum();
        size_of::<Self>() + fields + self.selection.bytes() + self.tags.len() * 8
    }
}

/// Place of a URL's responses in the disk tier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Number of the segment.
    pub segment: u32,
    /// Offset in the segment.
    pub offset: u32,
    /// Size of the record in bytes.
    pub length: u32,
}

const _: () = assert!(size_of::<Place>() == 12);

/// Content that is not in memory.
pub trait Extent: Debug + Send + Sync {
    /// Begins to read a range.
    fn read(&self, range: Range) -> Box<dyn Pieces>;
}

/// Content that is read piece by piece.
pub trait Pieces: Send + Sync {
    /// Returns the next bytes; `None` at the end.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>>;
}

/// Reads all pieces.
///
/// # Errors
/// Returns an error if a piece cannot be read or is damaged.
pub async fn read_all(mut pieces: Box<dyn Pieces>) -> io::Result<Vec<Bytes>> {
    let mut chunks = vec![];
    while let Some(chunk) = poll_fn(|context| pieces.poll(context)).await {
        chunks.push(chunk?);
    }
    Ok(chunks)
}

/// A stored response.
#[derive(Clone, Debug)]
pub struct Object {
    /// Head.
    pub head: Arc<Head>,
    /// Content in the chunks in which it arrived; empty if the content is on disk.
    pub chunks: Arc<[Bytes]>,
    /// Content on disk. An object with such content is never in the store.
    pub extent: Option<Arc<dyn Extent>>,
    /// Number of bytes of the content.
    pub length: u64,
    /// Whether the object is a copy of a response that another node owns. Copies are not written to
    /// disk.
    pub is_copy: bool,
    /// Entry of the content in the account of memory, if it is long.
    pub charge: Option<Arc<Charge>>,
}

impl Object {
    /// Creates an object from a head and its content.
    pub fn new(head: Arc<Head>, chunks: Vec<Bytes>) -> Self {
        let length = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        // A chunk may be a small part of a large buffer, which it would keep in memory.
        let chunks = match chunks.len() {
            0 => Arc::default(),
            _ if length < CONCATENATED_BYTES => {
                Arc::new([Bytes::from(chunks.concat())]) as Arc<[Bytes]>
            }
            _ => chunks.into(),
        };
        Object {
            head,
            chunks,
            extent: None,
            length,
            is_copy: false,
            charge: None,
        }
    }

    /// Creates an object from content that is counted. Short content is copied, and so leaves the
    /// account.
    pub fn charged(head: Arc<Head>, chunks: Vec<Bytes>, charge: &Arc<Charge>) -> Self {
        let object = Object::new(head, chunks);
        let is_copied = object.length < CONCATENATED_BYTES;
        Object {
            charge: (!is_copied).then(|| charge.clone()),
            ..object
        }
    }

    /// Returns the object with content that is counted, unless it is short or counted already.
    pub fn counted(mut self, budget: &Arc<Budget>) -> Self {
        if self.charge.is_none() && self.length >= CONCATENATED_BYTES {
            let charge = Charge::new(budget);
            let chunks = self.chunks.iter();
            self.chunks = chunks
                .map(|chunk| charge.count_as_is(chunk.clone()))
                .collect();
            self.charge = Some(charge);
        }
        self
    }

    /// Creates a copy of a response that another node owns.
    pub fn copy(head: Arc<Head>, content: Bytes) -> Self {
        Object {
            is_copy: true,
            ..Object::new(head, vec![content])
        }
    }

    /// Creates an object whose content is on disk.
    pub fn on_disk(head: Arc<Head>, extent: Arc<dyn Extent>, length: u64) -> Self {
        Object {
            head,
            chunks: Arc::default(),
            extent: Some(extent),
            length,
            is_copy: false,
            charge: None,
        }
    }

    /// Creates the stub of an object whose content is in chunks: only its head.
    pub fn stub(head: Arc<Head>) -> Self {
        debug_assert!(head.coded.is_some());
        Object::new(head, vec![])
    }

    /// Returns true if the object is a stub, which the store has for content in chunks. Chunks
    /// themselves have content.
    pub fn is_stub(&self) -> bool {
        self.head.coded.is_some() && self.length == 0
    }

    /// Returns the object in its stored form: without content if the content is in chunks.
    pub fn stored(&self) -> Self {
        match self.head.coded {
            Some(_) => Object::stub(self.head.clone()),
            None => self.clone(),
        }
    }

    /// Returns the estimated size in memory, in bytes.
    pub fn bytes(&self) -> usize {
        let content = usize::try_from(self.length).unwrap_or(usize::MAX);
        content + self.head.bytes() + self.chunks.len() * size_of::<Bytes>()
    }

    /// Returns a range of the content as chunks.
    pub fn slice(&self, range: Range) -> Vec<Bytes> {
        let mut parts = vec![];
        let mut start = 0;
        for chunk in self.chunks.iter() {
            let end = start + chunk.len() as u64;
            let from = range.start.max(start);
            let to = range.end.min(end);
            if from < to {
                parts.push(chunk.slice((from - start) as usize..(to - start) as usize));
            }
            start = end;
        }
        parts
    }
}

/// All stored responses of one URL, newest first.
#[derive(Clone, Debug, Default)]
pub struct Resource {
    /// The responses.
    pub variants: Vec<Object>,
    /// Place of the same responses in the disk tier.
    pub place: Option<Place>,
    /// Registration of their tags, if they are in memory and have tags.
    pub tagged: Option<Arc<Tagged>>,
}

/// Result of [`Resource::select`].
#[derive(Clone, Debug)]
pub enum Found<O = Object> {
    /// A response that can answer the request.
    Object(O),
    /// Only parts that do not contain the requested range are stored.
    OtherPart,
    /// Only responses to other values of the request fields are stored.
    OtherVariant,
}

impl Resource {
    /// Selects the newest response for a request. A part is selected if it contains the single
    /// requested range and has the version that If-Range names; if the version differs, the request
    /// is for the whole.
    pub fn select(&self, request: &impl Lines, wanted: Option<&Requested>) -> Found {
        match self.find(request, wanted) {
            Found::Object(object) => Found::Object(object.clone()),
            Found::OtherPart => Found::OtherPart,
            Found::OtherVariant => Found::OtherVariant,
        }
    }

    /// Selects a response like [`Resource::select`], but returns a reference.
    pub fn find(&self, request: &impl Lines, wanted: Option<&Requested>) -> Found<&Object> {
        let mut found = Found::OtherVariant;
        for object in &self.variants {
            if !object.head.selection.matches(request) {
                continue;
            }
            let Some((part, whole)) = object.head.part else {
                return Found::Object(object);
            };
            if wanted.is_some_and(|wanted| wanted.is_within(part, whole))
                && permits_range(request, &object.head.headers)
            {
                return Found::Object(object);
            }
            found = Found::OtherPart;
        }
        found
    }

    /// Returns a copy of the resource with an object, which replaces its older version.
    pub fn with(&self, object: Object) -> Self {
        let is_whole = object.head.part.is_none();
        let part = object.head.part;
        let is_other = |old: &&Object| {
            old.head.selection != object.head.selection || (!is_whole && old.head.part != part)
        };
        let others = self.variants.iter().filter(is_other).take(VARIANTS_MAX - 1);
        let variants = std::iter::once(&object).chain(others).cloned().collect();
        Resource {
            variants,
            place: None,
            tagged: None,
        }
    }

    /// Returns true if a response is stored that was received after `object` and would be replaced
    /// by it.
    pub fn has_newer(&self, object: &Object) -> bool {
        let head = &object.head;
        self.variants.iter().any(|old| {
            old.head.selection == head.selection
                && old.head.terms.received_ms > head.terms.received_ms
        })
    }

    /// Returns a copy of the resource with a chunk. The chunk of the previous version stays,
    /// because it may be being read; older versions leave.
    pub fn with_chunk(&self, chunk: Object) -> Self {
        let mut others: Vec<&Object> = vec![];
        for old in &self.variants {
            let is_newer_of = |other: &&Object| other.head.selection == old.head.selection;
            let is_same = old.head.coded == chunk.head.coded;
            if !is_same && !others.iter().any(is_newer_of) {
                others.push(old);
            }
        }
        others.truncate(VARIANTS_MAX - 1);
        Resource {
            variants: std::iter::once(&chunk).chain(others).cloned().collect(),
            place: None,
            tagged: None,
        }
    }

    /// Returns the chunk of a version.
    pub fn chunk(&self, version: u64) -> Option<&Object> {
        let is_version = |object: &&Object| {
            let coded = object.head.coded;
            coded.is_some_and(|coded| coded.version == version)
        };
        self.variants.iter().find(is_version)
    }

    /// Returns the estimated size in memory, in bytes.
    pub fn bytes(&self, key: &Key) -> u32 {
        let variants: usize = self.variants.iter().map(Object::bytes).sum();
        let tags = match self.tags().count() {
            0 => 0,
            count => count * PAIR_BYTES + URL_BYTES + key.as_str().len(),
        };
        u32::try_from(variants + key.as_str().len() + 96 + tags).unwrap_or(u32::MAX)
    }

    /// Returns the estimated size of copies in memory, in bytes.
    pub fn copy_bytes(&self) -> usize {
        let copies = self.variants.iter().filter(|object| object.is_copy);
        copies.map(Object::bytes).sum()
    }

    /// Moves the content to the store's account of memory, which these responses enter.
    pub fn enter_store(&self) {
        for object in &self.variants {
            if let Some(charge) = &object.charge {
                charge.enter_store(object.length);
            }
        }
    }

    /// Moves the content back from the store's account, which these responses have left.
    pub fn leave_store(&self) {
        for object in &self.variants {
            if let Some(charge) = &object.charge {
                charge.leave_store(object.length);
            }
        }
    }

    /// Returns the hashes of the tags of all responses.
    pub fn tags(&self) -> impl Iterator<Item = u64> {
        let heads = self.variants.iter();
        heads.flat_map(|object| object.head.tags.iter().copied())
    }

    /// Returns the responses that are not copies; `None` if there are none.
    pub fn without_copies(self: &Arc<Self>) -> Option<Arc<Self>> {
        let is_own = |object: &&Object| !object.is_copy;
        if self.variants.iter().all(|object| is_own(&object)) {
            return Some(self.clone());
        }
        let variants: Vec<Object> = self.variants.iter().filter(is_own).cloned().collect();
        (!variants.is_empty()).then(|| {
            Arc::new(Resource {
                variants,
                place: None,
                tagged: None,
            })
        })
    }

    /// Returns the time in milliseconds for which any of the responses remains usable.
    pub fn usable_ms(&self, now_ms: u64) -> u64 {
        let usable = |object: &Object| object.head.terms.usable_ms(now_ms);
        self.variants.iter().map(usable).max().unwrap_or(0)
    }
}

/// Removes the fields with tags (`Surrogate-Key`, separated by spaces, and `Cache-Tag`, separated
/// by commas) and returns the hashes of the tags. The size limit of a head bounds their number.
pub fn take_tags(headers: &mut HeaderMap) -> Box<[u64]> {
    let mut tags = vec![];
    for (name, separator) in [("surrogate-key", b' '), ("cache-tag", b',')] {
        for line in headers.get_all(name) {
            let words = line.as_bytes().split(|&byte| byte == separator);
            let words = words
                .map(<[u8]>::trim_ascii)
                .filter(|word| !word.is_empty());
            tags.extend(words.map(tag_hash));
        }
        headers.remove(name);
    }
    tags.sort_unstable();
    tags.dedup();
    tags.into()
}

/// Returns the hash of a tag, which is also stored on disk. If another tag has the same hash, a
/// purge removes too much, which costs a fetch.
pub fn tag_hash(tag: &[u8]) -> u64 {
    XxHash3_64::oneshot(tag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn chunk(version: u64, language: &'static str) -> Object {
        let mut request = HeaderMap::new();
        request.insert("accept-language", HeaderValue::from_static(language));
        let mut headers = HeaderMap::new();
        headers.insert("vary", HeaderValue::from_static("accept-language"));
        let selection = Selection::of(&request, &headers);
        let head = Head {
            status: StatusCode::OK,
            headers,
            terms: Terms {
                received_ms: 0,
                initial_age_ms: 0,
                fresh_ms: 1,
                revalidate_ms: 0,
                error_ms: 0,
                keep_ms: 0,
                is_always_validated: false,
                must_revalidate: false,
            },
            selection: selection.expect("the input is valid"),
            part: None,
            tags: [].into(),
            coded: Some(Coded { version, length: 9 }),
        };
        Object::new(Arc::new(head), vec![])
    }

    #[test]
    fn an_older_response_is_one_that_was_received_before_another_of_the_same_selection() {
        let at = |received_ms, language| {
            let mut object = chunk(1, language);
            Arc::make_mut(&mut object.head).terms.received_ms = received_ms;
            object
        };
        let resource = Resource::default().with(at(5, "en"));
        assert!(resource.has_newer(&at(4, "en")));
        assert!(!resource.has_newer(&at(5, "en")));
        assert!(!resource.has_newer(&at(4, "de")));
        assert!(!Resource::default().has_newer(&at(4, "en")));
    }

    #[test]
    fn the_last_two_versions_of_a_chunk_are_kept_for_each_selection() {
        let mut resource = Resource::default();
        for (version, language) in [(1, "en"), (2, "de"), (3, "en"), (4, "en"), (4, "en")] {
            resource = resource.with_chunk(chunk(version, language));
        }
        let has = |version| resource.chunk(version).is_some();
        assert_eq!([1, 2, 3, 4].map(has), [false, true, true, true]);
        assert_eq!(resource.variants.len(), 3);
        for version in 10..100 {
            let language = ["en", "de", "fr"][version % 3];
            resource = resource.with_chunk(chunk(version as u64, language));
            assert!(resource.variants.len() <= 6);
        }
    }
}
