//! The keys of leaving slots that change while they are sent, as the feed names them.

use super::{CHANGED_LIMIT, Sender};
use crate::changed::{self, Changed, Tagged};
use crate::effects;
use crate::replica::stream::wrong;
use crate::replication::primary::backlog_bytes;
use session::feed::{ReaderId, Taken};
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use wire::slot::slot;
use wire::{Args, Limits, Parsed, Parser, Span};

/// A reader of the feed.
pub(super) struct Changes {
    /// Number of the reader; 0 before it is added.
    pub reader: ReaderId,
    /// Bytes that were not examined.
    bytes: Vec<u8>,
    parser: Parser,
    spans: Vec<Span>,
    /// Database that is selected.
    db: u8,
}

impl Default for Changes {
    fn default() -> Self {
        Changes {
            reader: 0,
            bytes: Vec::new(),
            parser: Parser::new(Limits::of_feed()),
            spans: Vec::new(),
            db: 0,
        }
    }
}

impl Sender<'_> {
    /// Begins to read the feed, which is kept from now on.
    pub(super) fn follow_feed(&mut self) -> io::Result<()> {
        let server = self.server;
        let mut view = server.data.keyspace.lock_all(server.clock.now());
        if server.replication.is_replica() {
            return Err(wrong("this node is not the primary any more"));
        }
        if server.feed.is_on() {
            effects::add_all_removals(&server.data.keyspace, &server.feed, &mut view);
        } else {
            effects::set_feed(server, &mut view, true);
            server.feed.set_backlog(backlog_bytes(&server.config));
            let mut state = server.replication.state();
            state.no_replicas_since.get_or_insert_with(Instant::now);
        }
        let reader = server.feed.add_reader(server.feed.cut());
        self.changes.reader = reader.ok_or_else(|| wrong("the feed has no end"))?;
        self.leaving.reader.store(self.changes.reader, Relaxed);
        Ok(())
    }

    /// Examines about a number of bytes of the feed. Returns whether that was all of it.
    pub(super) fn read_feed(&mut self, bytes_max: usize) -> io::Result<bool> {
        let mut examined = 0;
        while examined < bytes_max {
            let (reader, bytes) = (self.changes.reader, &mut self.changes.bytes);
            let before = bytes.len();
            match self.server.feed.read(reader, bytes, Duration::ZERO) {
                Taken::Bytes(_) => {}
                Taken::Nothing => return Ok(true),
                Taken::Ended => return Err(wrong("the feed has ended, or it was read too slowly")),
            }
            examined += self.changes.bytes.len() - before;
            self.examine()?;
            if self.changed.len() > CHANGED_LIMIT {
                return Err(wrong(
                    "more keys have changed than are remembered while slots cannot be held",
                ));
            }
        }
        Ok(false)
    }

    fn examine(&mut self) -> io::Result<()> {
        let changes = &mut self.changes;
        let mut bytes = std::mem::take(&mut changes.bytes);
        let mut spans = std::mem::take(&mut changes.spans);
        let mut at = 0;
        while at < bytes.len() {
            spans.clear();
            match self.changes.parser.parse(&mut bytes[at..], &mut spans) {
                Ok(Parsed::Command { consumed }) => {
                    self.note(Args::new(&bytes[at..at + consumed], &spans))?;
                    at += consumed;
                }
                Ok(Parsed::Blank { consumed }) => at += consumed,
                Ok(Parsed::Incomplete { .. }) => break,
                Err(error) => return Err(wrong(&format!("the feed: {error}"))),
            }
        }
        bytes.drain(..at);
        (self.changes.bytes, self.changes.spans) = (bytes, spans);
        Ok(())
    }

    /// Takes note of the keys that a command of the feed has changed.
    fn note(&mut self, args: Args<'_>) -> io::Result<()> {
        let noted = changed::by(args).map_err(|why| wrong(&format!("the feed: {why}")))?;
        match noted {
            Changed::Nothing | Changed::Unknown => Ok(()),
            Changed::Selected(db) => {
                self.changes.db = u8::try_from(db).unwrap_or_default();
                Ok(())
            }
            Changed::Emptied | Changed::Exchanged => Err(wrong("the databases were emptied")),
            Changed::Tagged(tags, Tagged::Stale) => {
                self.note_tagged(tags);
                Ok(())
            }
            Changed::Tagged(tags, Tagged::Removed) => {
                self.add("TAGS", self.changes.db, tags.iter());
                Ok(())
            }
            Changed::Named(keys, other) => {
                let other = other.and_then(|db| u8::try_from(db).ok());
                keys.each(args, |at| {
                    let name = &args[at];
                    if self.leaving.has(slot(name)) {
                        let all = other.into_iter().chain([self.changes.db]);
                        self.changed.extend(all.map(|db| (db, Box::from(name))));
                    }
                });
                Ok(())
            }
        }
    }

    /// Takes note of the keys with some tags, which have become stale: their freshness is a part of
    /// the states that were sent.
    fn note_tagged(&mut self, tags: Args<'_>) {
        let (space, db) = (&self.server.data.keyspace, self.changes.db);
        let (leaving, changed) = (self.leaving, &mut self.changed);
        let mut view = space.lock_all(self.server.clock.now());
        for tag in tags.iter() {
            view.each_tagged(db, tag, usize::MAX, &mut |name| {
                if leaving.has(slot(name)) {
                    changed.insert((db, Box::from(name)));
                }
            });
        }
    }
}
