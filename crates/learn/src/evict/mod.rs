//! Eviction policies that learn, one a file; [`crate::any`] is the list of their names.

pub mod gl_cache;
pub mod lrb;
