//! The cache of scripts, which all threads share.
//!
//! Scripts known only from EVAL are evicted in order of last use, as in Redis. Scripts loaded by
//! SCRIPT LOAD stay until SCRIPT FLUSH; a limit on the total size bounds them.

use crate::header::{Flags, Header, HeaderError, Unreadable};
use crate::sha1::{hex, sha1};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// SHA-1 digest of a script.
pub type Digest = [u8; 20];

/// Maximum number of scripts known only from EVAL.
const EVALUATED_MAX: usize = 500;
/// Maximum size of all scripts in bytes.
pub const CACHE_BYTES_MAX: usize = 64 << 20;
/// Memory of a script in addition to its text, in bytes.
const OVERHEAD_BYTES: usize = 200;

/// A script.
#[derive(Debug)]
pub struct Script {
    body: Arc<[u8]>,
    digest: Digest,
    /// Length of the first line, if it is a header.
    header_len: usize,
    flags: Flags,
    is_loaded: AtomicBool,
    is_cached: AtomicBool,
    /// Sequence number of the last use.
    used: AtomicU64,
}

impl Script {
    /// Parses a script's first line. An engine compiles the code itself.
    ///
    /// # Errors
    /// The first line is invalid.
    pub fn parse(body: &[u8]) -> Result<Script, HeaderError> {
        let header = Header::parse(body).map_err(|why| match why {
            Unreadable::NoEnd => "ERR Invalid script shebang",
            Unreadable::Quotes => "ERR Invalid engine in script shebang",
        })?;
        let flags = match &header {
            Some(header) => header.script_flags()?,
            None => Flags::COMPATIBLE,
        };
        Ok(Script {
            digest: sha1(body),
            body: body.into(),
            header_len: header.map_or(0, |header| header.len),
            flags,
            is_loaded: AtomicBool::new(false),
            is_cached: AtomicBool::new(true),
            used: AtomicU64::new(0),
        })
    }

    /// Returns the text.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    pub(crate) fn shared_body(&self) -> Arc<[u8]> {
        Arc::clone(&self.body)
    }

    /// Returns the code: the text after the header, including the header's line end.
    pub fn code(&self) -> &[u8] {
        &self.body[self.header_len..]
    }

    /// Returns the digest.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// Returns the digest in hexadecimal digits.
    pub fn hex(&self) -> [u8; 40] {
        hex(&self.digest)
    }

    /// Returns the flags.
    pub fn flags(&self) -> Flags {
        self.flags
    }

    /// Whether the script is still in the cache.
    pub fn is_cached(&self) -> bool {
        self.is_cached.load(Relaxed)
    }

    fn bytes(&self) -> usize {
        self.body.len() + OVERHEAD_BYTES
    }
}

/// Facts about the cache for INFO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheFacts {
    /// Number of scripts.
    pub count: usize,
    /// Memory of the scripts in bytes.
    pub bytes: usize,
    /// Number of scripts evicted since the start.
    pub evicted: u64,
}

#[derive(Default)]
struct Inner {
    by_digest: HashMap<Digest, Arc<Script>>,
    /// Number of scripts that may be evicted.
    evaluated: usize,
    bytes: usize,
    evicted: u64,
}

/// The cache.
#[derive(Default)]
pub struct Scripts {
    inner: Mutex<Inner>,
    uses: AtomicU64,
}

impl Scripts {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the script with this digest.
    pub fn get(&self, digest: &Digest) -> Option<Arc<Script>> {
        self.inner().by_digest.get(digest).cloned()
    }

    /// Records a use, which delays the script's eviction.
    pub fn touch(&self, script: &Script) {
        if script.used.load(Relaxed) != self.uses.load(Relaxed) {
            script
                .used
                .store(self.uses.fetch_add(1, Relaxed) + 1, Relaxed);
        }
    }

    /// Adds a script and returns it, or returns an equal one that is already cached. `is_loaded`
    /// protects it from eviction.
    ///
    /// # Errors
    /// The cache is full.
    pub fn add(&self, script: Script, is_loaded: bool) -> Result<Arc<Script>, &'static str> {
        let mut inner = self.inner();
        if let Some(found) = inner.by_digest.get(&script.digest).cloned() {
            if is_loaded && !found.is_loaded.swap(true, Relaxed) {
                inner.evaluated -= 1;
            }
            return Ok(found);
        }
        while inner.evaluated > 0
            && (inner.bytes + script.bytes() > CACHE_BYTES_MAX
                || !is_loaded && inner.evaluated >= EVALUATED_MAX)
        {
            inner.evict();
        }
        if inner.bytes + script.bytes() > CACHE_BYTES_MAX {
            return Err("the cache of scripts is full (64 MB); SCRIPT FLUSH empties it");
        }
        script.is_loaded.store(is_loaded, Relaxed);
        script
            .used
            .store(self.uses.fetch_add(1, Relaxed) + 1, Relaxed);
        inner.bytes += script.bytes();
        inner.evaluated += usize::from(!is_loaded);
        let script = Arc::new(script);
        inner.by_digest.insert(script.digest, Arc::clone(&script));
        Ok(script)
    }

    /// Removes all scripts.
    pub fn flush(&self) {
        let mut inner = self.inner();
        for script in inner.by_digest.values() {
            script.is_cached.store(false, Relaxed);
        }
        inner.by_digest = HashMap::new();
        inner.evaluated = 0;
        inner.bytes = 0;
    }

    /// Returns facts for INFO.
    pub fn facts(&self) -> CacheFacts {
        let inner = self.inner();
        CacheFacts {
            count: inner.by_digest.len(),
            bytes: inner.bytes,
            evicted: inner.evicted,
        }
    }
}

impl Inner {
    /// Evicts the least recently used script. It visits all scripts, because adding a script is
    /// rare and using one is frequent.
    fn evict(&mut self) {
        let evaluated = self
            .by_digest
            .values()
            .filter(|script| !script.is_loaded.load(Relaxed));
        let oldest = evaluated
            .min_by_key(|script| script.used.load(Relaxed))
            .map(Arc::clone);
        let Some(oldest) = oldest else {
            self.evaluated = 0;
            return;
        };
        oldest.is_cached.store(false, Relaxed);
        self.by_digest.remove(&oldest.digest);
        self.evaluated -= 1;
        self.bytes -= oldest.bytes();
        self.evicted += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(text: &str) -> Script {
        Script::parse(text.as_bytes()).expect("valid")
    }

    #[test]
    fn the_script_used_least_recently_is_evicted_and_loaded_ones_stay() {
        let scripts = Scripts::default();
        let loaded = scripts.add(script("return 'loaded'"), true).expect("room");
        let first = scripts.add(script("return 0"), false).expect("room");
        for number in 1..EVALUATED_MAX {
            scripts
                .add(script(&format!("return {number}")), false)
                .expect("room");
        }
        scripts.touch(&first);
        let second = sha1(b"return 1");
        assert!(scripts.get(&second).is_some());
        scripts.add(script("return 'new'"), false).expect("room");
        assert!(scripts.get(&second).is_none());
        assert!(first.is_cached() && loaded.is_cached());
        assert_eq!(scripts.facts().count, EVALUATED_MAX + 1);
        assert_eq!(scripts.facts().evicted, 1);
        scripts.flush();
        assert!(!first.is_cached() && !loaded.is_cached());
        assert_eq!(
            scripts.facts(),
            CacheFacts {
                evicted: 1,
                ..CacheFacts::default()
            }
        );
    }

    #[test]
    fn loaded_scripts_are_bounded_by_bytes() {
        let scripts = Scripts::default();
        let large = "-".repeat(40 << 20);
        scripts
            .add(script(&format!("-- a{large}")), false)
            .expect("room");
        scripts
            .add(script(&format!("-- b{large}")), true)
            .expect("the first is evicted");
        assert_eq!(scripts.facts().count, 1);
        assert!(scripts.add(script(&format!("-- c{large}")), true).is_err());
        assert!(
            scripts.add(script(&format!("-- b{large}")), true).is_ok(),
            "it is there"
        );
    }

    #[test]
    fn the_code_begins_with_the_end_of_the_header() {
        assert_eq!(script("#!lua\nreturn 1").code(), b"\nreturn 1");
        assert_eq!(script("return 1").code(), b"return 1");
    }
}
