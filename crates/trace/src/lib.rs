//! Traces of cache requests: readers and writers of every format, and seeded generators of
//! requests, sizes and TTLs.
//!
//! A reader takes any `Read` and the name that it came from. The endings of the name determine
//! format and compression, and errors quote the name. docs/reference/traces.md describes every
//! format. Nothing in this crate opens a file or reads a clock, and random numbers come from a
//! seed, so that a replay can be repeated exactly.
//!
//! Start with [`read`]; [`TtlMix`] gives TTLs to traces that have none.
#![forbid(unsafe_code)]

/// The example of the README, compiled and run as a test of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod blocks;
mod buffer;
mod cdn;
mod compression;
mod csv;
mod days;
mod entry;
mod error;
mod format;
mod generate;
mod jsonl;
mod lcs;
mod lifetimes;
mod lines;
mod lists;
mod number;
mod outages;
#[cfg(not(feature = "parquet"))]
mod parquet_absent;
#[cfg(feature = "parquet")]
mod parquet_reader;
#[cfg(feature = "parquet")]
mod parquet_writer;
pub mod prepared;
mod prepared_source;
mod random;
mod reader;
mod records;
mod request;
mod sample;
mod sampled_map;
mod sizes;
mod spool;
mod summary;
mod text_key;
mod ttl_mix;
mod vscsi;
mod writer;
mod zipf;

pub use cdn::{CDN_LARGEST_BYTES, CDN_REQUESTS_MAX, CDN_REQUESTS_MIN, Cdn, Content, LARGE_BYTES};
pub use entry::Workload;
pub use error::{Error, Position};
pub use format::{Compression, Format};
pub use generate::{Generator, GeneratorOptions, OBJECTS_DEFAULT, PatternMix};
pub use lifetimes::Lifetimes;
pub use number::key as key_of_field;
pub use outages::{Outage, SERVER_MAX, WINDOW_MS, draw_outages, read_outages};
pub use random::Random;
pub use reader::{Options, Reader, open, open_file, read, read_prepared};
pub use request::{NextAccess, Op, Request};
pub use sample::{FixedSizeSample, Sample};
pub use sampled_map::SampledMap;
pub use sizes::Sizes;
pub use spool::Spool;
pub use summary::{Statistics, Summary};
pub use text_key::key_of_text;
pub use ttl_mix::{TtlMix, TtlMixError};
pub use writer::{WriteOptions, Writer};
pub use zipf::{Uniform, Zipf};

/// Stream of requests from any source. It ends after the first error.
pub type Requests<'a> = Box<dyn Iterator<Item = Result<Request, Error>> + 'a>;
