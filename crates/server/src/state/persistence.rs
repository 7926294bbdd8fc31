//! Files that keep the keys across runs.

use durability::aof::AppendOnly;
use durability::loading::Loading;
use durability::saving::Saving;

/// Files that keep the keys across runs.
pub struct Persistence {
    /// Append-only file.
    pub aof: AppendOnly,
    /// Snapshots.
    pub saving: Saving,
    /// Loading of a snapshot file.
    pub loading: Loading,
}
