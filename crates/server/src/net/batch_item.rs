//! One parsed element in a batch of memcached input.

use wire::memcached::{Refusal, Request};

/// A parsed request or error, and its offset in the input.
#[derive(Clone, Copy)]
pub(crate) struct BatchItem {
    pub at: usize,
    pub content: Content,
}

#[derive(Clone, Copy)]
pub(crate) enum Content {
    Request(Request),
    Refused(Refusal),
}

impl Content {
    /// Returns the request, unless it is refused.
    pub fn request(&self) -> Option<&Request> {
        match self {
            Content::Request(request) => Some(request),
            Content::Refused(_) => None,
        }
    }
}
