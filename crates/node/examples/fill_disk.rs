//! Fills the folder of a disk tier with small responses, faster than HTTP can, for
//! `tests/measure/edge_disk.py`.
//!
//! ```text
//! cargo run --release -p mayfly-node --example fill_disk -- FOLDER COUNT CONTENT-BYTES DISK-BYTES
//! ```
//!
//! The responses are those of `http://a/NUMBER`, and are fresh for a day.

use hyper::StatusCode;
use hyper::header::{HeaderMap, HeaderValue};
use node::budget::Budget;
use node::disk::{Disk, Victim};
use node::object::{Head, Object, Resource};
use node::rules::freshness::Terms;
use node::rules::key::Key;
use node::rules::vary::Selection;
use node::{Clock, Config, DiskConfig};
use std::path::PathBuf;
use std::sync::Arc;

type Failure = Box<dyn std::error::Error>;

fn head(now_ms: u64) -> Head {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("text/plain"));
    headers.insert("cache-control", HeaderValue::from_static("max-age=86400"));
    Head {
        status: StatusCode::OK,
        headers,
        terms: Terms {
            received_ms: now_ms,
            initial_age_ms: 0,
            fresh_ms: 86_400_000,
            revalidate_ms: 0,
            error_ms: 0,
            keep_ms: 0,
            is_always_validated: false,
            must_revalidate: false,
        },
        selection: Selection::default(),
        part: None,
        tags: [].into(),
        coded: None,
    }
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, count, bytes, disk_bytes] = &arguments[..] else {
        return Err("expected FOLDER COUNT CONTENT-BYTES DISK-BYTES".into());
    };
    let (count, bytes): (u64, usize) = (count.parse()?, bytes.parse()?);
    let settings = DiskConfig {
        folder: PathBuf::from(folder),
        bytes: disk_bytes.parse()?,
    };
    let config = Config::default();
    let disk = Disk::open(
        &config,
        &settings,
        &Budget::new(config.memory_bytes),
        Arc::default(),
        Box::new(|_| false),
    )?;
    let head = Arc::new(head(Clock::System.now_ms()));
    let content = bytes::Bytes::from(vec![b'x'; bytes]);
    let victims = (0..count).filter_map(|number| {
        Some(Victim {
            key: Key::new(false, "a", &format!("/{number}")).ok()?,
            resource: Arc::new(Resource {
                variants: vec![Object::new(head.clone(), vec![content.clone()])],
                place: None,
                tagged: None,
            }),
            purge_count: 0,
            left: None,
        })
    });
    disk.save(victims);
    let stats = disk.stats();
    println!(
        "{} URLs, {} bytes of files, {} bytes of the index",
        stats.urls, stats.bytes, stats.index_bytes
    );
    Ok(())
}
