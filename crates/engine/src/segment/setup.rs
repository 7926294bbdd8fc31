//! Creates the segment engine from the settings and applies changes at run time.

use super::file::{Found, SegmentFile};
use super::{Segments, learning};
use segment::{ConfigError, Eviction, Segcache};
use settings::{Config, Id, bytes_for_people};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

/// Memory without `maxmemory`, as in memcached.
const MEMORY_BYTES: i64 = 64 << 20;
/// Settings that the segment engine cannot apply, with the reason and the alternative.
const FOREIGN: [(Id, &str, &str); 3] = [
    (
        Id::MaxMemoryPolicy,
        "noeviction",
        "maxmemory-policy is the slab engine's; use segment-eviction",
    ),
    (
        Id::Expiry,
        "wheel",
        "expiry is the slab engine's: here segments expire as a whole",
    ),
    (
        Id::NotifyKeyspaceEvents,
        "",
        "notify-keyspace-events is the slab engine's: here segments expire as a whole, and no event is published",
    ),
];

impl Segments {
    /// Creates the engine described by the settings.
    ///
    /// # Errors
    /// The settings are incompatible. The message is meant for users.
    pub fn new(
        config: &Config,
        threads: usize,
        hash_key: [u64; 2],
        seed: u64,
    ) -> Result<Segments, String> {
        check_foreign(config)?;
        let sizes = segment::Config {
            seed,
            hash_key,
            ..sizes_of(config, threads)
        };
        if config.number(Id::MaxMemory) == 0 {
            config.put(Id::MaxMemory, &settings::Value::Number(MEMORY_BYTES));
        }
        let path = config.path(Id::SegmentFile);
        let (cache, file) = match path.as_str() {
            "" => (
                Segcache::new(&sizes).map_err(|why| in_words(why, &sizes))?,
                None,
            ),
            path => {
                let (cache, file, hash_key) = in_file(Path::new(path), sizes)?;
                (cache, Some((file, hash_key)))
            }
        };
        let writer = |_| Mutex::new(cache.writer().expect("there are as many as threads"));
        Ok(Segments {
            writers: (0..threads).map(writer).collect(),
            cache,
            file,
            learning: learning::Learning::default(),
            seed,
            expired_seen: AtomicU64::new(0),
            expired_before: AtomicU64::new(0),
            evicted_before: AtomicU64::new(0),
        })
    }

    /// Applies the configured eviction.
    ///
    /// # Errors
    /// There are too few segments for this eviction. The message is meant for users.
    pub(super) fn set_eviction(&self, config: &Config) -> Result<(), String> {
        let eviction = eviction_of(config);
        let set = self.cache.set_eviction(eviction);
        self.learning.ring();
        set.map_err(|_| {
            format!(
                "{} keeps more segments free than there are to spare",
                eviction.name()
            )
        })
    }
}

/// Creates an engine in a file, and continues with the file's contents. Also returns the hash
/// secret.
fn in_file(
    path: &Path,
    mut sizes: segment::Config,
) -> Result<(Segcache, SegmentFile, [u64; 2]), String> {
    let start = Instant::now();
    let file_sizes = <Segcache>::file_sizes(&sizes).map_err(|why| in_words(why, &sizes))?;
    let (file, found) = SegmentFile::open(path, file_sizes, sizes.segment_bytes)?;
    let name = path.display();
    let named = |error: std::io::Error| format!("segment-file {name}: {error}");
    let made = |sizes: &segment::Config, saved: Option<&[u64]>| {
        file.begin(sizes.hash_key)?;
        Segcache::in_file(sizes, file.file(), file.segments_at(), saved).map_err(named)
    };
    let new_key = sizes.hash_key;
    let mut why = None;
    if let Found::Segments { hash_key, saved } = &found {
        sizes.hash_key = *hash_key;
        if let Some(cache) = made(&sizes, Some(saved))? {
            log::info!(
                "segment-file {name}: {} objects are there again, {:.3} s",
                cache.len(),
                start.elapsed().as_secs_f64()
            );
            return Ok((cache, file, sizes.hash_key));
        }
        why = Some("it is damaged".to_owned());
    } else if let Found::Unusable(reason) = found {
        why = Some(reason);
    }
    if let Some(why) = why {
        log::warn!("segment-file {name}: the engine starts empty: {why}");
    }
    sizes.hash_key = new_key;
    let cache = made(&sizes, None)?.ok_or_else(|| format!("segment-file {name}: too small"))?;
    Ok((cache, file, new_key))
}

/// Checks for settings that [`Segments::new`] would refuse, without allocating the engine.
///
/// # Errors
/// The settings are incompatible. The message is meant for users.
pub fn check(config: &Config, threads: usize) -> Result<(), String> {
    check_foreign(config)?;
    let sizes = sizes_of(config, threads);
    <Segcache>::check_config(&sizes).map_err(|why| in_words(why, &sizes))
}

fn check_foreign(config: &Config) -> Result<(), String> {
    if config.is_on(Id::AppendOnly) {
        return Err("appendonly yes: the segment engine has no append-only file".to_owned());
    }
    for (id, only, why) in FOREIGN {
        let is_set = match id {
            Id::NotifyKeyspaceEvents => config.number(id) != 0,
            _ => config.text(id) != only,
        };
        if is_set {
            return Err(format!("engine segment: {why}"));
        }
    }
    Ok(())
}

/// Returns the engine's sizes, without secrets.
fn sizes_of(config: &Config, threads: usize) -> segment::Config {
    let memory_bytes = match config.number(Id::MaxMemory) {
        0 => MEMORY_BYTES as u64,
        _ => config.maxmemory_bytes(),
    };
    segment::Config {
        memory_bytes,
        segment_bytes: config.number(Id::SegmentSize) as usize,
        writers: threads as u16,
        eviction: eviction_of(config),
        merged: config.number(Id::SegmentMerge) as u8,
        ..segment::Config::default()
    }
}

fn eviction_of(config: &Config) -> Eviction {
    Eviction::ALL[config.number(Id::SegmentEviction) as usize]
}

fn in_words(why: ConfigError, sizes: &segment::Config) -> String {
    match why {
        ConfigError::TooSmall { needed_bytes } => format!(
            "engine segment: maxmemory {} is too little for {} data thread{} and segments of {}: {needed_bytes} bytes are the least",
            bytes_for_people(sizes.memory_bytes),
            sizes.writers,
            if sizes.writers == 1 { "" } else { "s" },
            bytes_for_people(sizes.segment_bytes as u64),
        ),
        why => format!("engine segment: {why}"),
    }
}
