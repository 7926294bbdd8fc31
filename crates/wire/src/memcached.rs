//! memcached's protocols, text, meta and binary, as sans-I/O parsing and encoding.
//!
//! [`Parser`] finds one [`Request`] after another in the input and checks everything that does not
//! depend on stored data. A refusal contains memcached's own error. The first byte of a stream
//! selects the protocol: 0x80 begins a binary request, any other byte a line. [`text`], [`meta`]
//! and [`binary`] write the replies. The source is memcached's `doc/protocol.txt` and the behaviour
//! of version 1.6.
//!
//! Requests refer to keys and values by [`Span`](crate::Span), so that a whole batch can be parsed
//! and the memory of its keys prefetched before the requests run.

pub mod binary;
mod line;
pub mod meta;
mod parser;
mod request;
mod response;
pub mod text;

pub use line::decode_key;
pub use parser::{Complaint, LINE_BYTES_MAX, Limits, Parsed, Parser, Refusal};
pub use request::{KEY_BYTES_MAX, Meta, Mode, Request, Verb};
pub use response::{BadReply, skip_reply};

/// Largest `exptime` that counts from now, in seconds: thirty days. Larger ones count from 1970.
pub const RELATIVE_SECONDS_MAX: i64 = 60 * 60 * 24 * 30;

/// Time at which an item expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiration {
    /// The item does not expire.
    Never,
    /// The item expires at this time, in milliseconds since 1970.
    At(u64),
    /// The item has already expired.
    Past,
}

impl Expiration {
    /// Converts an `exptime` at the time `now_ms`. 0 means never, a negative number is in the past,
    /// up to thirty days count from now, and larger numbers are seconds since 1970. The parser has
    /// narrowed it to 32 bits.
    ///
    /// ```
    /// use wire::memcached::Expiration;
    /// assert_eq!(Expiration::of(0, 5_000), Expiration::Never);
    /// assert_eq!(Expiration::of(10, 5_000), Expiration::At(15_000));
    /// assert_eq!(Expiration::of(-1, 5_000), Expiration::Past);
    /// ```
    pub fn of(exptime: i64, now_ms: u64) -> Expiration {
        let Ok(seconds) = u64::try_from(exptime) else {
            return Expiration::Past;
        };
        if seconds == 0 {
            return Expiration::Never;
        }
        if exptime <= RELATIVE_SECONDS_MAX {
            return Expiration::At(now_ms.saturating_add(seconds * 1000));
        }
        match seconds.saturating_mul(1000) {
            at if at <= now_ms => Expiration::Past,
            at => Expiration::At(at),
        }
    }
}

#[cfg(test)]
mod tests;
