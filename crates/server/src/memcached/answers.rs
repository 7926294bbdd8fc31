//! Error replies that the text and the meta commands share.

/// The key holds another type.
pub(super) const WRONG_TYPE: &str = "SERVER_ERROR the key holds a type other than a string";
/// Memory is full.
pub(super) const OUT_OF_MEMORY: &str = "SERVER_ERROR out of memory storing object";
/// The value is larger than the engine can store.
pub(super) const TOO_LARGE: &str = "SERVER_ERROR object too large for cache";
/// The value is not a number.
pub(super) const NO_NUMBER: &str = "CLIENT_ERROR cannot increment or decrement non-numeric value";
