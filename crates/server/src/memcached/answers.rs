//! Answers that both of memcached's languages share.

/// What the line for another type says, in both languages.
pub(super) const WRONG_TYPE: &str = "SERVER_ERROR the key holds another type than a string";
/// What the line for a full memory says.
pub(super) const OUT_OF_MEMORY: &str = "SERVER_ERROR out of memory storing object";
/// What the line for a value says that never finds room.
pub(super) const TOO_LARGE: &str = "SERVER_ERROR object too large for cache";
/// What the line for something else than a number says.
pub(super) const NO_NUMBER: &str = "CLIENT_ERROR cannot increment or decrement non-numeric value";
