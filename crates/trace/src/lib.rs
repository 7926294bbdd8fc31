//! Traces of cache requests: readers, and seeded generators of keys and of lifetimes.
//!
//! A reader takes any `Read` and the name it came from: the name's ending tells compression and
//! format, and errors quote it. Nothing here opens a file, reads a clock or draws chance that was
//! not seeded, so that a replay can be repeated bit by bit.
//!
//! Start with [`read`]; [`TtlMix`] gives lifetimes to traces that have none.
#![forbid(unsafe_code)]

mod compression;
mod csv;
mod error;
mod random;
mod request;
mod text_key;
mod ttl_mix;
mod zipf;

pub use csv::CsvReader;
pub use error::Error;
pub use random::Random;
pub use request::{NextAccess, Op, Request};
pub use text_key::key_of_text;
pub use ttl_mix::{TtlMix, TtlMixError};
pub use zipf::{Uniform, Zipf};

use std::io::Read;

/// A stream of requests. Ends after the first error.
pub type Requests<'a> = Box<dyn Iterator<Item = Result<Request, Error>> + 'a>;

/// Reads the trace called `name` from `input`: `.csv`, plain or followed by `.zst` or `.gz`.
///
/// ```
/// let input = "time,key,size\n0,7,100\n".as_bytes();
/// let requests: Result<Vec<_>, _> = trace::read("tiny.csv", input).unwrap().collect();
/// assert_eq!(requests.unwrap()[0].key, 7);
/// ```
///
/// # Errors
/// An ending that names no format known here, or a stream that cannot be read.
pub fn read<'a>(name: &str, input: impl Read + 'a) -> Result<Requests<'a>, Error> {
    let (plain_name, input) = compression::expand(name, input)?;
    if plain_name.ends_with(".csv") {
        return Ok(Box::new(CsvReader::new(name, input)?));
    }
    Err(Error::UnknownFormat { file: name.into() })
}
