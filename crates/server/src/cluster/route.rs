//! Which node executes a command: the slot of its keys, whether this node serves it, and the error
//! that leads a client to the one that does.

use super::{Endpoint, address_of, has_tls, port_of};
use crate::context::{Chosen, Spec, Table};
use crate::routing::{self, How, Refusal, Routes, Standing};
use crate::state::Server;
use ::cluster::Instant;
use session::clients::{ClientInfo, flag as client_flag};
use session::queue::Transaction;
use session::spec::{Channels, Keys, flag};
use session::waiting::Waiter;
use settings::Id;
use std::sync::atomic::Ordering::Relaxed;
use wire::Args;
use wire::slot::slot;

/// Time in milliseconds that a command waits for the end of a hold before TRYAGAIN.
const HOLD_MS_MAX: u64 = 1000;

/// Returns what this node may execute at an instant. `is_fresh` is called only for a read that a
/// replica may serve, because it takes a lock.
#[inline]
pub fn standing(
    server: &Server,
    now: Instant,
    how: How,
    is_fresh: impl FnOnce() -> bool,
) -> Standing {
    let is_replica = server.replication.is_replica();
    Standing {
        is_fenced_in: !is_replica && now < server.cluster.fence(),
        is_fresh: is_replica && how == How::ReadAnywhere && is_fresh(),
    }
}

/// Whether this replica has received something from its primary recently enough for reads.
pub fn is_fresh(server: &Server) -> bool {
    let max_ms = server.config.number(Id::ClusterReplicaMaxStaleness) as u128;
    let state = server.replication.state();
    let primary = state.primary.as_ref();
    primary.is_some_and(|primary| {
        let age_ms = primary.last_byte.elapsed().as_millis();
        primary.is_connected && primary.has_synced && !primary.is_syncing && age_ms <= max_ms
    })
}

/// Slot of the keys of a call that have been examined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found(Option<u16>);

impl Found {
    fn add(&mut self, key: &[u8]) -> Result<(), Refusal> {
        let found = slot(key);
        match self.0.replace(found) {
            Some(before) if before != found => Err(Refusal::CrossSlot),
            _ => Ok(()),
        }
    }

    /// Adds the keys and shard channels of a call.
    ///
    /// # Errors
    /// They are not all in one slot.
    pub fn add_call(&mut self, chosen: &Chosen, args: Args<'_>) -> Result<(), Refusal> {
        let keys = chosen
            .subcommand
            .map_or(chosen.spec.keys, |(_, subcommand)| subcommand.keys);
        let mut result = Ok(());
        keys.each(args, |at| {
            if result.is_ok() {
                result = self.add(&args[at]);
            }
        });
        if is_sharded(chosen.spec) {
            let channels = chosen
                .access()
                .map_or(Channels::None, |access| access.channels);
            let last = if channels == Channels::First {
                2
            } else {
                args.len()
            };
            return args
                .first(last)
                .from(1)
                .iter()
                .try_for_each(|name| self.add(name));
        }
        result
    }

    /// Adds the keys of all commands of a transaction.
    ///
    /// # Errors
    /// They are not all in one slot.
    pub fn add_queued(&mut self, table: &Table, queued: &Transaction) -> Result<(), Refusal> {
        let mut calls = queued.iter();
        calls.try_for_each(|(index, args)| self.add_call(&table.choose(index, args), args))
    }

    /// Returns the slot; `None` if there are no keys.
    pub fn slot(self) -> Option<u16> {
        self.0
    }
}

/// Whether a command sends to or subscribes to shard channels, whose slots count like those of
/// keys. SUNSUBSCRIBE works everywhere.
fn is_sharded(spec: &Spec) -> bool {
    spec.has(flag::PUBSUB) && matches!(spec.name, "ssubscribe" | "spublish")
}

/// Whether a call changes keys of any slot without naming them. INVALIDATE does.
pub fn changes_all(table: &Table, chosen: &Chosen, queued: Option<&Transaction>) -> bool {
    let changes =
        |chosen: &Chosen| chosen.spec.keys == Keys::Whole && chosen.flags() & flag::WRITE != 0;
    match (chosen.spec.keys, queued) {
        (Keys::Queued, Some(queued)) => {
            let mut calls = queued.iter();
            calls.any(|(index, args)| changes(&table.choose(index, args)))
        }
        _ => changes(chosen),
    }
}

/// Returns what a call does with its slot.
pub fn how(
    table: &Table,
    chosen: &Chosen,
    queued: Option<&Transaction>,
    client: &ClientInfo,
) -> How {
    let writes = match (chosen.spec.keys, queued) {
        (Keys::Queued, Some(queued)) => {
            let writes = |(index, args)| table.choose(index, args).flags() & flag::WRITE != 0;
            queued.iter().any(writes)
        }
        _ => chosen.flags() & flag::WRITE != 0,
    };
    if chosen.spec.name == "ssubscribe" {
        How::Subscribe
    } else if writes || chosen.spec.name == "spublish" {
        How::Write
    } else {
        read_by(client)
    }
}

/// Returns how a client reads.
fn read_by(client: &ClientInfo) -> How {
    match client.flags.load(Relaxed) & client_flag::READONLY {
        0 => How::Write,
        _ => How::ReadAnywhere,
    }
}

/// Checks whether this node still executes a blocked command.
///
/// # Errors
/// The reason why not.
pub fn check_waiter(server: &Server, routes: &Routes, waiter: &Waiter) -> Result<(), Refusal> {
    let Some(key) = waiter.keys.first() else {
        return Ok(());
    };
    let how = match waiter.writes {
        true => How::Write,
        false => read_by(&waiter.info),
    };
    let now = routing::now(&server.clock);
    let standing = standing(server, now, how, || is_fresh(server));
    routes.check(slot(key), how, standing)
}

/// Whether a command that was refused for this reason may wait for the end of a hold.
pub fn may_wait(server: &Server, refusal: Refusal) -> bool {
    match refusal {
        Refusal::Held(_, since) => server.clock.moment().since(since) < HOLD_MS_MAX,
        _ => false,
    }
}

/// Returns the error for a client, and counts it.
pub fn text(server: &Server, routes: &Routes, client: &ClientInfo, refusal: Refusal) -> String {
    let counts = &server.cluster.counts;
    let (counter, text) = match refusal {
        Refusal::CrossSlot => (
            &counts.cross_slot,
            "CROSSSLOT Keys in request don't hash to the same slot".to_owned(),
        ),
        Refusal::Moved(slot, shard) => (
            &counts.moved,
            format!("MOVED {slot} {}", address(server, routes, client, shard)),
        ),
        Refusal::Unserved => (&counts.down, "CLUSTERDOWN Hash slot not served".to_owned()),
        // Whether the slot has moved is not known.
        Refusal::Held(..) if !server.cluster.seat.is_connected.load(Relaxed) => {
            (&counts.down, "CLUSTERDOWN The cluster is down".to_owned())
        }
        Refusal::Down => (&counts.down, "CLUSTERDOWN The cluster is down".to_owned()),
        Refusal::Held(slot, _) => (
            &counts.try_again,
            format!("TRYAGAIN Slot {slot} is about to move to another node"),
        ),
        Refusal::HandOver => (
            &counts.try_again,
            "TRYAGAIN Slots of this node are about to move to another node".to_owned(),
        ),
    };
    counter.fetch_add(1, Relaxed);
    text
}

/// Returns the host and the port at which a client connects to the primary of a shard.
pub fn address(server: &Server, routes: &Routes, client: &ClientInfo, shard: usize) -> String {
    let topology = routes.installed.as_ref().map(|(topology, _)| topology);
    let Some(node) = topology.and_then(|topology| topology.primary(shard)) else {
        return String::new();
    };
    let has_tls = has_tls(server, address_of(server, client));
    let host = Endpoint::of(server).host(node).unwrap_or_default();
    format!("{host}:{}", port_of(node, has_tls))
}
