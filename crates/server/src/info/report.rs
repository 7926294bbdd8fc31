//! Buffer for the text of INFO, to which the sections write.

use crate::context::Table;
use crate::state::Server;
use std::fmt::Write as _;

/// Buffer that a section writes its fields to.
pub struct Report<'a> {
    pub(crate) server: &'a Server,
    pub(crate) table: &'static Table,
    pub(crate) now_us: u64,
    pub(super) text: String,
}

impl Report<'_> {
    /// Writes a line `name:value`.
    pub(crate) fn field(&mut self, name: &str, value: impl std::fmt::Display) {
        let _ = write!(self.text, "{name}:{value}\r\n");
    }
}
