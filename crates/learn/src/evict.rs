//! Eviction policies that learn, one per file. [`crate::any`] lists their names.

pub mod gl_cache;
pub mod lrb;
pub mod three_l_cache;
