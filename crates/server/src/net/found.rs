//! A request in memcached's protocol, as found in the input.

use wire::memcached::{Refusal, Request};

/// What stands at a place of the input.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    pub at: usize,
    pub what: What,
}

#[derive(Clone, Copy)]
pub(crate) enum What {
    Request(Request),
    Refused(Refusal),
}
