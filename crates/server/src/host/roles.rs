//! The role of the server, its fence, the topology and the local copy.

use super::{Host, Message};
use crate::cluster::install::{end_fence, install};
use crate::replication::role;
use crate::state::Server;
use ::cluster::{Instant, Name, Transaction};
use membership::copy::Copy;
use membership::directory::Directory;
use membership::kv::Kv;
use membership::records::address;
use settings::{Id, temporary};
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use wire::{Args, Limits, Parsed, Parser};

/// Shortest time in milliseconds between two local copies.
const SAVE_MS: u64 = 1_000;

/// State of the roles.
#[derive(Debug, Default)]
pub(super) struct Roles {
    /// Shard of this node, once it is known.
    pub(super) shard: Option<Name>,
    /// Newest term in which this node wrote or received a write.
    pub(super) term: u64,
    /// Whether records have changed on which the topology depends.
    pub(super) is_stale: bool,
    /// Instant since which a restarted primary waits for a term.
    pub(super) waits_since: Instant,
    /// Instant until which a campaign that a client has requested precedes those of other replicas.
    pub(super) forced_until: Instant,
    /// Whether the log says that this primary waits for a replica with all writes.
    pub(super) has_warned: bool,
    /// Whether this process has served as the primary and is no replica since.
    was_primary: bool,
    /// Address and term of the primary that is followed.
    following: Option<(String, u64)>,
    /// Last reason why there is no topology, which is logged once.
    problem: String,
    /// Term in the local copy.
    saved_term: u64,
    /// Transaction that begins a term, until the local copy has the term.
    pub(super) resume: Option<Transaction>,
    /// Whether the local copy is older than the records.
    is_unsaved: bool,
    saves_at: Instant,
    is_saving: bool,
}

fn path(server: &Server) -> PathBuf {
    PathBuf::from(server.config.text(Id::Dir)).join(server.config.text(Id::ClusterConfigFile))
}

/// Reads the local copy; `None` if there is none.
pub(super) fn stored(server: &Server) -> Result<Option<Copy>, String> {
    let path = path(server);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("{}: {error}", path.display())),
    };
    let copy = Copy::decode(&bytes).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Some(copy))
}

/// Takes the name and the topology of the local copy.
pub(super) fn prepare(server: &Server) -> Result<(), String> {
    let Some(copy) = stored(server)
        .map_err(|error| format!("{error}; without this file, the node starts as a new one"))?
    else {
        return Ok(());
    };
    // Nothing has requested the name before.
    let _ = server.cluster.node_id.set(copy.node);
    Ok(())
}

/// Returns the records and the state of the local copy, and installs its topology.
pub(super) fn restored(server: &Server, me: Name, copy: Option<Copy>) -> (Directory, Roles) {
    let (mut directory, mut roles) = (Directory::default(), Roles::default());
    if let Some(copy) = copy.filter(|copy| copy.node == me) {
        directory.load(copy.revision, copy.entries);
        (roles.shard, roles.term, roles.saved_term) = (copy.shard, copy.term, copy.term);
        if let Ok(topology) = directory.topology()
            && install(server, topology, me).is_ok()
        {
            log::info!(
                "cluster: records of revision {} from the last run",
                copy.revision
            );
        }
    }
    (directory, roles)
}

impl<K: Kv> Host<K> {
    /// Makes the role of the server, its fence and its topology what the records and the rules say.
    pub(super) fn reconcile(&mut self, now: Instant) {
        let (is_primary, leads, until, epoch, since) = {
            let place = self.server.cluster.seat.place();
            match place.as_ref() {
                None => (false, false, None, 0, None),
                Some(place) => (
                    place.member.is_primary(),
                    place.member.leads(),
                    place.member.serves_until(),
                    place.member.record().value.epoch,
                    place.member.since(),
                ),
            }
        };
        // Slots may have left or arrived before the term began.
        let has_recent_map = since.is_some_and(|since| self.followed >= since);
        if !is_primary {
            self.roles.waits_since = now;
        }
        self.roles.has_warned &= is_primary && !leads;
        let begins = is_primary && leads && has_recent_map;
        if begins {
            self.continue_history();
        }
        let until = until.filter(|_| begins);
        if until.is_none() {
            self.serve_nothing();
        }
        // The topology comes first: the one before may have slots that have left.
        self.publish();
        if let Some(until) = until {
            self.serve(until, epoch);
        }
        if !is_primary {
            self.follow_primary();
        }
    }

    /// Makes the server a primary, which replicas can follow before it serves clients.
    fn continue_history(&mut self) {
        if self.server.replication.is_replica() {
            role::promote(&self.server);
        }
        self.roles.following = None;
        self.roles.was_primary = true;
    }

    fn serve(&mut self, until: Instant, epoch: u64) {
        self.note_term(epoch);
        if self.server.cluster.fence() != until {
            let had_none = self.server.cluster.fence() == Instant::default();
            self.server.cluster.set_fence(until);
            if had_none {
                self.server.workers.wake_all();
            }
        }
    }

    fn serve_nothing(&mut self) {
        if self.server.cluster.fence() != Instant::default() {
            end_fence(&self.server);
        }
    }

    /// Takes a term in which this node writes or receives writes, or which it is about to begin.
    /// The local copy with it is due at once.
    pub(super) fn note_term(&mut self, epoch: u64) {
        let roles = &mut self.roles;
        if roles.term != epoch {
            (roles.term, roles.is_unsaved) = (epoch, true);
            roles.saves_at = Instant::default();
        }
    }

    /// Whether the local copy has a term.
    pub(super) fn has_saved(&self, term: u64) -> bool {
        self.roles.saved_term >= term
    }

    /// Installs the topology if the records have changed.
    fn publish(&mut self) {
        if !std::mem::take(&mut self.roles.is_stale) {
            return;
        }
        self.roles.is_unsaved = true;
        let installed =
            self.directory
                .topology()
                .and_then(|topology| match topology.node(self.me) {
                    Some(_) => install(&self.server, topology, self.me),
                    None => Ok(()),
                });
        if let Err(problem) = installed {
            if self.roles.problem != problem && self.directory.config().is_some() {
                log::warn!("cluster: the topology is not used: {problem}");
            }
            self.roles.problem = problem;
        } else {
            self.roles.problem.clear();
        }
    }

    /// Follows the primary of the shard's record.
    fn follow_primary(&mut self) {
        let shard = self
            .roles
            .shard
            .and_then(|shard| self.directory.shards().get(&shard));
        let Some((record, _)) = shard else {
            return;
        };
        let primary = record.primary.filter(|primary| *primary != self.me);
        let known = primary.and_then(|primary| self.directory.nodes().get(&primary));
        let Some(known) = known else {
            return;
        };
        let wanted = (known.registration.node.inside.clone(), record.epoch);
        let (epoch, position) = (record.epoch, record.position);
        if self.server.replication.is_connected.load(Relaxed)
            && self.server.replication.is_replica()
        {
            self.note_term(epoch);
        }
        if self.roles.following.as_ref() == Some(&wanted) {
            return;
        }
        let Some((host, port)) = address(&wanted.0) else {
            return;
        };
        if std::mem::take(&mut self.roles.was_primary) {
            end_term(&self.server, position);
        }
        role::follow(&self.server, &host, port);
        self.roles.following = Some(wanted);
    }

    /// Returns the local copy that is to be written now, if one is due.
    pub(super) fn copy_to_save(&mut self) -> Option<Copy> {
        let now = self.now();
        let roles = &mut self.roles;
        if !roles.is_unsaved || roles.is_saving || now < roles.saves_at {
            return None;
        }
        (roles.is_unsaved, roles.is_saving, roles.saves_at) = (false, true, now.after(SAVE_MS));
        // The file may have either term until it is known to be written.
        roles.saved_term = roles.saved_term.min(roles.term);
        Some(Copy {
            node: self.me,
            shard: roles.shard,
            term: roles.term,
            revision: self.directory.revision(),
            entries: self.directory.entries(),
        })
    }

    /// Writes the local copy if one is due.
    pub(super) fn save(&mut self) {
        let Some(copy) = self.copy_to_save() else {
            return;
        };
        let path = path(&self.server);
        let task = async move {
            let (term, text) = (copy.term, copy.encode());
            let written = tokio::task::spawn_blocking(move || {
                let written = temporary::replace(&path, text.as_bytes());
                written.map_err(|error| format!("{}: {error}", path.display()))
            });
            let written = written.await.unwrap_or_else(|error| Err(error.to_string()));
            written.map(|()| term)
        };
        self.spawn(task, Message::Saved);
    }

    /// Takes the outcome of a local copy, and its term.
    pub(super) fn saved(&mut self, result: Result<u64, String>) {
        self.roles.is_saving = false;
        match result {
            Ok(term) => self.roles.saved_term = term,
            Err(error) => {
                let waits = match self.roles.resume {
                    Some(_) => "; this primary serves nothing until it is",
                    None => "",
                };
                log::warn!("cluster: the local copy is not written: {error}{waits}");
                self.roles.is_unsaved = true;
            }
        }
    }
}

/// Counts and logs the commands that this former primary has and its successor does not: those
/// after the position at which the new term began. If there are none, what else is there, such as
/// requests to replicas, is dropped, so that this node continues the history without a snapshot.
fn end_term(server: &Server, position: u64) {
    let bytes = server.feed.end().saturating_sub(position);
    let found = match bytes {
        0 => Some(0),
        _ => commands_after(server, position),
    };
    // Without the bytes, their commands are unknown.
    let count = found.unwrap_or(1);
    server.cluster.seat.lost_writes.fetch_add(count, Relaxed);
    match (found, bytes) {
        (Some(0), 0) => log::info!("cluster: the new primary has all writes of this node"),
        (Some(0), _) => {
            log::info!("cluster: the new primary has all writes of this node");
            // The file has the bytes already.
            if !server.persistence.aof.is_on() {
                server.feed.restart_at(position);
            }
        }
        (Some(count), _) => log::warn!(
            "cluster: this node was primary and drops {count} commands ({bytes} bytes) that the new primary does not have"
        ),
        (None, _) => log::warn!(
            "cluster: this node was primary and drops {bytes} bytes of commands that the new primary does not have; they are counted as one, because the backlog no longer has them"
        ),
    }
}

/// Number of commands that change keys in the feed after a position; `None` if they are no longer
/// stored.
fn commands_after(server: &Server, position: u64) -> Option<u64> {
    let reader = server.feed.add_reader(position)?;
    let mut bytes = Vec::new();
    loop {
        let before = bytes.len();
        server.feed.read(reader, &mut bytes, Duration::ZERO);
        if bytes.len() == before {
            break;
        }
    }
    server.feed.remove_reader(reader);
    let (mut parser, mut spans, mut at, mut count) =
        (Parser::new(Limits::of_feed()), Vec::new(), 0, 0);
    while at < bytes.len() {
        spans.clear();
        match parser.parse(&mut bytes[at..], &mut spans) {
            Ok(Parsed::Command { consumed }) => {
                let args = Args::new(&bytes[at..at + consumed], &spans);
                let is_other = ["ping", "replconf", "select", "multi", "exec"];
                count += u64::from(!is_other.iter().any(|word| args.is(0, word)));
                at += consumed;
            }
            Ok(Parsed::Blank { consumed }) => at += consumed,
            Ok(Parsed::Incomplete { .. }) | Err(_) => break,
        }
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::clock::Clock;
    use settings::Config;

    #[test]
    fn lost_commands_are_counted() {
        let server = Server::new(Config::default(), Clock::manual(1)).expect("valid settings");
        let lost = || server.cluster.seat.lost_writes.load(Relaxed);
        server.feed.set_backlog(1 << 20);
        server.feed.append_raw(b"*1\r\n$4\r\nPING\r\n");
        let position = server.feed.end();
        end_term(&server, position);
        assert_eq!(lost(), 0);
        server.feed.append_raw(b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n");
        for _ in 0..3 {
            server.feed.append_raw(b"*2\r\n$4\r\nINCR\r\n$1\r\na\r\n");
        }
        let end = server.feed.end();
        server.feed.append_raw(b"*1\r\n$4\r\nPING\r\n");
        end_term(&server, position);
        assert_eq!(lost(), 3);
        // What has no effect is dropped, so that the history continues.
        end_term(&server, end);
        assert_eq!((lost(), server.feed.end()), (3, end));
        end_term(&server, position);
        assert_eq!(lost(), 4, "the bytes are no longer stored");
    }
}
