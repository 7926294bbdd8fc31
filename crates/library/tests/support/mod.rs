//! Values that count their owners.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};

/// Number of values that exist.
#[derive(Clone, Default)]
pub struct Census(Arc<AtomicI64>);

impl Census {
    /// Creates a value.
    pub fn value(&self, number: u64) -> Counted {
        self.0.fetch_add(1, SeqCst);
        Counted {
            number,
            census: self.clone(),
        }
    }

    /// Returns the number of values that were created and not dropped.
    pub fn count(&self) -> i64 {
        self.0.load(SeqCst)
    }
}

/// A value that counts itself.
pub struct Counted {
    /// Number that distinguishes the value.
    pub number: u64,
    census: Census,
}

impl Clone for Counted {
    fn clone(&self) -> Self {
        self.census.value(self.number)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let before = self.census.0.fetch_sub(1, SeqCst);
        assert!(before > 0, "a value is dropped twice");
    }
}
