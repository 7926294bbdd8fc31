//! Traces of cache requests: readers, and seeded generators of keys and of lifetimes.
//!
//! A reader takes any `Read` and the name it came from: the name's endings tell format and
//! compression, and errors quote it. docs/traces.md describes every format. Nothing here opens a file, reads a clock or draws chance that was
//! not seeded, so that a replay can be repeated bit by bit.
//!
//! Start with [`read`]; [`TtlMix`] gives lifetimes to traces that have none.
#![forbid(unsafe_code)]

mod cdn;
mod compression;
mod csv;
mod days;
mod error;
mod format;
mod generate;
mod keyed;
mod lcs;
mod lines;
mod lists;
mod number;
mod outages;
mod random;
mod reader;
mod records;
mod request;
mod sample;
mod sizes;
mod spool;
mod summary;
mod table;
mod table_writer;
mod text_key;
mod ttl_mix;
mod vscsi;
mod writer;
mod zipf;

pub use cdn::{CDN_LARGEST_BYTES, CDN_REQUESTS_MAX, CDN_REQUESTS_MIN, Cdn, Content, LARGE_BYTES};
pub use error::{Error, Place};
pub use format::{Compression, Format};
pub use generate::{Generator, Mix, OBJECTS_DEFAULT, Recipe};
pub use keyed::Keyed;
pub use outages::{Outage, SERVER_MAX, WINDOW_MS, draw_outages, read_outages};
pub use random::Random;
pub use reader::{Options, Reader, open, open_file, read};
pub use request::{NextAccess, Op, Request};
pub use sample::{FixedSize, Sample};
pub use sizes::Sizes;
pub use spool::Spool;
pub use summary::{Facts, Summary};
pub use text_key::key_of_text;
pub use ttl_mix::{TtlMix, TtlMixError};
pub use writer::{WriteOptions, Writer};
pub use zipf::{Uniform, Zipf};

/// A stream of requests, whatever it was made of. Ends after the first error.
pub type Requests<'a> = Box<dyn Iterator<Item = Result<Request, Error>> + 'a>;
