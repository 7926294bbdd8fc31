//! memcached's protocol, text and meta, as sans-I/O parsing and encoding.
//!
//! [`Parser`] finds one [`Request`] after the other in the input and checks all that can be checked
//! without knowing what is stored; what it refuses comes with memcached's own line. [`text`] and
//! [`meta`] write the replies. The source is memcached's `doc/protocol.txt` and the behaviour of
//! version 1.6.
//!
//! Requests name keys and values by [`Span`](crate::Span), so that a whole batch can be parsed, its
//! keys asked for from memory, and only then carried out.

mod line;
pub mod meta;
mod parser;
mod request;
mod response;
pub mod text;

pub use line::decode_key;
pub use parser::{LINE_BYTES_MAX, Limits, Parsed, Parser, Refusal};
pub use request::{KEY_BYTES_MAX, Meta, Mode, Request, Verb};
pub use response::{BadReply, skip_reply};

/// Times up to here are spans from now, above it they are instants since 1970.
pub const RELATIVE_SECONDS_MAX: i64 = 60 * 60 * 24 * 30;

/// When an item dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiration {
    /// It stays.
    Never,
    /// At this millisecond since 1970.
    At(u64),
    /// It is dead already.
    Past,
}

impl Expiration {
    /// What an `exptime` means at `now_ms`: 0 is for ever, a negative one is past, up to thirty days
    /// count from now, and more is an instant in seconds since 1970.
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
