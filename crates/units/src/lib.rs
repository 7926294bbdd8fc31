//! Bytes, counts and spans of time as people write and read them.
//!
//! One notation serves all settings and all subcommands. [`bytes`], [`count`] and [`span`] parse
//! it, [`show`] formats numbers for people.
//!
//! | kind | units |
//! |---|---|
//! | bytes | `k` `m` `g` `t`: powers of 1000, as in Redis |
//! | bytes | `kb` `mb` `gb` `tb`, also `kib` …: powers of 1024; `b` or none: bytes |
//! | count | `k` `m` `g`: powers of 1000 |
//! | span | `ms` `s` `m` `h` `d`; none: seconds |
//!
//! Units ignore case. Numbers may have decimals where the result is a whole number: `1.5kb`.
//!
//! Deliberately absent: negative numbers, exponents, sums such as `1h30m`.
//!
//! ```
//! assert_eq!(units::bytes("64mb"), Ok(64 << 20));
//! assert_eq!(units::bytes("64m"), Ok(64_000_000));
//! assert_eq!(units::count("1.5m"), Ok(1_500_000));
//! assert_eq!(units::span_ms("2m"), Ok(120_000));
//! let error = units::bytes("12q").unwrap_err();
//! assert_eq!(error.to_string(), "size '12q': expected a number of bytes such as 64mb");
//! ```
#![forbid(unsafe_code)]

mod read;
pub mod show;

pub use read::{BadQuantity, bytes, count, fraction, span, span_ms};
