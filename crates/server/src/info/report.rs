//! Buffer for the text of INFO, to which the sections write, and the source of facts about keys.

use crate::context::Table;
use crate::state::Server;
use std::fmt::Write as _;
use store::{Census, Counters, DbFacts, ExpiryFacts, MemoryFacts, TTL_BINS, Tick};

/// Buffer that a section writes its fields to.
///
/// Facts about the keyspace are those of a census if there is one. Otherwise they are read when a
/// section needs them, which waits for the locks of all shards.
pub struct Report<'a> {
    pub(crate) server: &'a Server,
    pub(crate) table: &'static Table,
    pub(crate) now_us: u64,
    pub(super) text: String,
    pub(super) census: Option<&'a Census>,
}

const LINE_BREAKS: [char; 2] = ['\r', '\n'];

impl<'a> Report<'a> {
    /// Creates an empty report.
    pub(super) fn new(
        server: &'a Server,
        table: &'static Table,
        census: Option<&'a Census>,
    ) -> Report<'a> {
        Report {
            server,
            table,
            now_us: server.clock.now_us(),
            text: String::new(),
            census,
        }
    }

    /// Writes a line `name:value`. Line breaks in the value, such as in the name of a primary,
    /// become blanks, so that they do not begin another field.
    pub(crate) fn field(&mut self, name: &str, value: impl std::fmt::Display) {
        let start = self.text.len();
        let _ = write!(self.text, "{name}:{value}");
        if self.text[start..].contains(LINE_BREAKS) {
            let line = self.text.split_off(start).replace(LINE_BREAKS, " ");
            self.text.push_str(&line);
        }
        self.text.push_str("\r\n");
    }

    fn now(&self) -> Tick {
        Tick(self.now_us / 1000)
    }

    /// The census, unless the keys are in the segment engine.
    fn census(&self) -> Option<&Census> {
        self.census.filter(|_| self.server.segments.is_none())
    }

    pub(super) fn memory_facts(&self) -> MemoryFacts {
        let engine = || self.server.engine().memory_facts();
        self.census().map_or_else(engine, |census| census.memory)
    }

    pub(super) fn used_bytes(&self) -> u64 {
        let clients = self.server.client_bytes();
        match self.census() {
            Some(census) => census.memory.used_bytes + clients,
            None => self.server.used_bytes(),
        }
    }

    pub(super) fn counters(&self) -> Counters {
        let server = self.server;
        let engine = || server.engine().counters(&server.stats);
        self.census().map_or_else(engine, |census| census.counters)
    }

    pub(super) fn db_facts(&self, db: u8) -> DbFacts {
        match self.census() {
            Some(census) => census.db_facts(db),
            None => self.server.engine().db_facts(db, self.now()),
        }
    }

    pub(super) fn expiry_facts(&self) -> ExpiryFacts {
        let keyspace = || self.server.keyspace.expiry_facts(self.now());
        self.census().map_or_else(keyspace, |census| census.expiry)
    }

    pub(super) fn ttl_histogram(&self) -> [u64; TTL_BINS] {
        let keyspace = || self.server.keyspace.ttl_histogram(self.now());
        self.census().map_or_else(keyspace, Census::ttl_histogram)
    }

    pub(super) fn waited_keys(&self) -> usize {
        let keyspace = || self.server.keyspace.waited_keys();
        self.census
            .map_or_else(keyspace, |census| census.waited_keys)
    }

    pub(super) fn tracked_counts(&self) -> (usize, usize) {
        let keyspace = || self.server.keyspace.tracked_counts();
        self.census.map_or_else(keyspace, |census| census.tracked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::command;
    use crate::config::Config;

    #[test]
    fn a_value_with_line_breaks_is_one_field() {
        // Regression: REPLICAOF and REPLCONF could add fields to INFO by line breaks in a host.
        let server = Server::new(Config::default(), Clock::manual(1)).expect("valid settings");
        let mut report = Report::new(&server, command::table(), None);
        report.field("master_host", "a\r\nrole:master\nb");
        report.field("port", 1);
        assert_eq!(report.text, "master_host:a  role:master b\r\nport:1\r\n");
    }
}
