//! The target's side of a move of slots: it stores the states of keys that the source sends, and
//! removes keys whose slots are not this node's.
//!
//! What is stored is hidden from clients by its slot: commands on it are redirected, and lists of
//! keys leave it out. It is in the feed like any other change, so that replicas and the file have
//! it. Events of its expiry and eviction are withheld: the source publishes them until its mark,
//! and this node publishes those after the mark with the commit.

use crate::effects;
use crate::movement::{Arriving, Phase};
use crate::routing::Routes;
use crate::state::Server;
use ::cluster::{Mark, Name, Revision, Role};
use durability::dump::Restored;
use durability::replication::EARLIEST;
use engine::refusal::refuse_full;
use session::feed::Batch;
use session::locks::{Locks, Room, make_room};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use store::{ItemHead, Key, NewDeadline, Tick, View, decode_labels};
use wire::number::{Text, parse_u64};
use wire::slot::slot;
use wire::{Args, dump};

/// Number of keys that one step of a walk examines.
const KEYS_PER_STEP: usize = 512;
/// Error for the messages of a move that has ended, or of an earlier connection.
const NOT_EXPECTED: &str = "ERR no keys of this move are expected on this connection";

/// Error while writes are held. The source begins again later.
const HELD: &str = "TRYAGAIN writes are held";

/// Begins an attempt of a move over a new connection. Returns whether keys may be sent: there are
/// none of an earlier attempt.
///
/// # Errors
/// This node is not the target of such a move. The message is a reply.
pub fn start(server: &Server, id: &[u8], link: u64) -> Result<bool, &'static str> {
    let moves = &server.cluster.moves;
    let id = Name::parse(id).ok_or("ERR expected the name of a move")?;
    // No message of an earlier connection has an effect from now on.
    let _receiving = moves.receiving();
    let mut arriving = moves.arriving();
    let one = arriving
        .get_mut(&id)
        .ok_or("ERR no such move arrives at this node")?;
    if one.link != link {
        (one.link, one.phase, one.mark) = (link, Phase::Clearing, None);
        moves.wants_sweep.store(true, Relaxed);
    }
    Ok(one.phase == Phase::Receiving)
}

/// Whether writes are held, for a stop or a change of the primary for example. The keys must not
/// change then. While a shard is locked, the result is not true if writes were held before.
pub fn holds_writes(server: &Server) -> bool {
    server.data.pause.holds(true, server.clock.moment())
}

/// Returns the move over a connection that may send keys.
fn expected(moves: &mut BTreeMap<Name, Arriving>, link: u64) -> Result<&mut Arriving, String> {
    let mut moves = moves.values_mut();
    let found = moves.find(|one| one.link == link && one.phase == Phase::Receiving);
    found.ok_or_else(|| NOT_EXPECTED.to_owned())
}

/// Handles a message of a source after the first one: `word link argument …`.
///
/// # Errors
/// It cannot be carried out. The message is a reply.
pub fn receive(server: &Server, args: Args<'_>) -> Result<(), String> {
    let number = |at: usize| args.get(at).and_then(parse_u64);
    let wrong = || "ERR syntax error".to_owned();
    let link = number(1).filter(|link| *link > 0).ok_or_else(wrong)?;
    // Until the end, so that the message is complete before the state of the move changes further.
    let _receiving = server.cluster.moves.receiving();
    if holds_writes(server) {
        return Err(HELD.to_owned());
    }
    let slots = {
        let mut arriving = server.cluster.moves.arriving();
        let one = expected(&mut arriving, link)?;
        if args.is(0, "mark") {
            let revision = |at| number(at).map(Revision).ok_or_else(wrong);
            let mark = Mark {
                map: revision(2)?,
                source: revision(3)?,
                movement: revision(4)?,
            };
            one.mark = Some((mark, server.feed.end()));
            return Ok(());
        }
        one.mark = None;
        Arc::clone(&one.slots)
    };
    let db = number(2).and_then(|db| u8::try_from(db).ok());
    let db = db.filter(|db| usize::from(*db) < server.data.keyspace.databases());
    let db = db.ok_or_else(|| "ERR DB index is out of range".to_owned())?;
    if args.is(0, "tags") {
        return invalidate(server, &slots, db, args.from(3));
    }
    let name = args.get(3).ok_or_else(wrong)?;
    if !has(&slots, slot(name)) || server.cluster.routes().is_own(slot(name)) {
        return Err("ERR the key is not in a slot of the move".to_owned());
    }
    let key = server.data.keyspace.key(db, name);
    if args.is(0, "del") {
        return remove(server, &[key]);
    }
    let (true, Some(deadline)) = (args.is(0, "key"), number(4)) else {
        return Err(wrong());
    };
    server.cluster.moves.received_keys.fetch_add(1, Relaxed);
    store(
        server,
        &key,
        Some(Tick(deadline)).filter(|at| at.0 > 0),
        args.from(5),
    )
}

/// Stores the state of a key: payload, head of a memcached item, whether it is protected from
/// eviction, tags.
fn store(
    server: &Server,
    key: &Key<'_>,
    deadline: Option<Tick>,
    state: Args<'_>,
) -> Result<(), String> {
    let space = &server.data.keyspace;
    let (Some(payload), Some(head), Some(protection)) = (state.get(0), state.get(1), state.get(2))
    else {
        return Err("ERR syntax error".to_owned());
    };
    let labels = state.get(3).and_then(decode_labels);
    let labels = labels.ok_or_else(|| "ERR Bad data format".to_owned())?;
    // Whatever has expired was removed by the source, or will be: its clock decides.
    let mut restored = Restored::new(space.scene(EARLIEST));
    let read = dump::read(payload, usize::MAX, &mut restored);
    if read.is_err() || restored.is_empty() || !restored.is_sound() {
        return Err("ERR Bad data format".to_owned());
    }
    let locks = Locks::Some(vec![space.shard_of(key)]);
    let mut view = space.lock_one(space.shard_of(key), server.clock.now());
    if let Room::None(full) = make_room(space, &mut view, &locks, key.db) {
        return Err(refuse_full(space, key.db, full).into_owned());
    }
    if server.replication.is_replica() {
        return Err(NOT_EXPECTED.to_owned());
    }
    if holds_writes(server) {
        return Err(HELD.to_owned());
    }
    view.set_horizon(EARLIEST);
    add_removals(server, &mut view);
    forget_events(&mut view, key);
    match (ItemHead::decode(head), restored.string()) {
        (Some(head), Some(value)) => {
            let deadline = deadline.map_or(NewDeadline::Clear, NewDeadline::At);
            view.put_item(key, &head, value, deadline);
            view.pass_cas(key, head.cas);
        }
        _ => restored.store(&mut view, key, deadline),
    }
    let ends_protection = protection != b"1" && view.protect(key, false) == Some(true);
    if protection == b"1" {
        view.protect(key, true);
    }
    if !labels.is_empty() {
        view.set_labels(key, &labels);
    }
    if server.feed.is_on() {
        let mut batch = Batch::default();
        add_state(&mut batch, key, deadline, payload);
        effects::add_marks(&mut batch, &mut view, key.db, key);
        if ends_protection {
            batch.add(key.db, &[b"BLESS", b"CLEAR", key.bytes, b"NO-EVICT"]);
        }
        if ItemHead::decode(head).is_some() {
            batch.add(key.db, &[b"ECHO", &effects::item_message(head, key.bytes)]);
        }
        server.feed.append_batch(&mut batch);
    }
    // What was evicted for it, possibly the key itself.
    add_removals(server, &mut view);
    Ok(())
}

/// Adds the commands that give readers of the feed the state of a key.
fn add_state(batch: &mut Batch, key: &Key<'_>, deadline: Option<Tick>, payload: &[u8]) {
    let text = Text::unsigned(deadline.map_or(0, |deadline| deadline.0));
    let args = [b"RESTORE", key.bytes, text.as_bytes(), payload, b"REPLACE"];
    match deadline {
        None => batch.add(key.db, &args),
        Some(_) => batch.add(key.db, &[&args[..], &[b"ABSTTL"]].concat()),
    }
}

fn add_removals(server: &Server, view: &mut View<'_>) {
    if server.feed.is_on() {
        effects::add_all_removals(&server.data.keyspace, &server.feed, view);
    }
}

/// Forgets the withheld events of a key: the source has published them.
fn forget_events(view: &mut View<'_>, key: &Key<'_>) {
    view.take_withheld(|db, name| db == key.db && name == key.bytes);
}

/// Removes keys of one database without events, and their withheld events.
fn remove(server: &Server, keys: &[Key<'_>]) -> Result<(), String> {
    let space = &server.data.keyspace;
    for key in keys {
        let mut view = space.lock_one(space.shard_of(key), server.clock.now());
        if !delete(server, &mut view, key) {
            return Err(HELD.to_owned());
        }
    }
    Ok(())
}

/// Returns false if writes are held, so that the key stays.
fn delete(server: &Server, view: &mut View<'_>, key: &Key<'_>) -> bool {
    // The history of a replica is its primary's.
    if server.replication.is_replica() {
        return true;
    }
    if holds_writes(server) {
        return false;
    }
    view.set_horizon(EARLIEST);
    add_removals(server, view);
    forget_events(view, key);
    if view.delete(key) && server.feed.is_on() {
        server
            .feed
            .append(key.db, [&b"DEL"[..], key.bytes].into_iter());
    }
    true
}

/// Removes the arriving keys that have any of some tags, which the source has invalidated.
fn invalidate(
    server: &Server,
    slots: &[RangeInclusive<u16>],
    db: u8,
    tags: Args<'_>,
) -> Result<(), String> {
    let space = &server.data.keyspace;
    let mut names: Vec<Box<[u8]>> = Vec::new();
    let mut view = space.lock_all(server.clock.now());
    view.set_horizon(EARLIEST);
    for tag in tags.iter() {
        view.each_tagged(db, tag, usize::MAX, &mut |name| {
            names.extend(has(slots, slot(name)).then(|| Box::from(name)));
        });
    }
    drop(view);
    let keys: Vec<Key<'_>> = names.iter().map(|name| space.key(db, name)).collect();
    remove(server, &keys)
}

/// Publishes the withheld events of slots, or forgets them.
pub fn end_events(server: &Server, slots: &[RangeInclusive<u16>], is_published: bool) {
    let mut events = {
        let mut view = server.data.keyspace.lock_all(server.clock.now());
        view.take_withheld(|_, name| has(slots, slot(name)))
    };
    if is_published {
        crate::notify::publish(server, &mut events);
    }
}

/// Whether a node with these routes may remove a key of a slot: it is a primary, another shard owns
/// the slot, and no keys of it are received.
fn is_foreign(
    server: &Server,
    routes: &Routes,
    receiving: &[RangeInclusive<u16>],
    slot: u16,
) -> bool {
    matches!(routes.role, Role::Primary(_))
        && routes.installed.is_some()
        && !routes.is_own(slot)
        && !server.replication.is_replica()
        && !has(receiving, slot)
}

fn has(slots: &[RangeInclusive<u16>], slot: u16) -> bool {
    slots.iter().any(|range| range.contains(&slot))
}

/// Removes all keys whose slots are not this node's, in steps, and then lets the moves that waited
/// for it send keys. The host calls it while this node serves and its map is recent: a map from
/// before the term could lack a move to this node.
pub fn sweep(server: &Server) {
    let moves = &server.cluster.moves;
    let (clearing, receiving) = {
        let arriving = moves.arriving();
        let is_receiving = |one: &&Arriving| one.phase == Phase::Receiving;
        let slots = arriving.values().filter(is_receiving);
        let receiving: Vec<_> = slots.flat_map(|one| one.slots.iter().cloned()).collect();
        let clearing: Vec<_> = arriving
            .iter()
            .filter(|(_, one)| one.phase == Phase::Clearing && one.link > 0)
            .map(|(id, one)| (*id, one.link))
            .collect();
        (clearing, receiving)
    };
    // What a message of an ended attempt still stores, the sweep removes.
    drop(moves.receiving());
    let routes = server.cluster.routes();
    if !matches!(routes.role, Role::Primary(_)) {
        return;
    }
    for db in 0..server.data.keyspace.databases() {
        if !sweep_db(server, &receiving, db as u8) {
            moves.wants_sweep.store(true, Relaxed);
            return;
        }
    }
    forget_foreign_events(server, &receiving);
    if server.replication.is_replica() || server.lifecycle.stops() {
        return;
    }
    let mut arriving = moves.arriving();
    for (id, link) in clearing {
        if let Some(one) = arriving.get_mut(&id).filter(|one| one.link == link) {
            one.phase = Phase::Receiving;
        }
    }
}

/// Returns false if writes are held, so that keys may be left.
fn sweep_db(server: &Server, receiving: &[RangeInclusive<u16>], db: u8) -> bool {
    let space = &server.data.keyspace;
    let mut cursor = 0;
    loop {
        let routes = server.cluster.routes();
        let mut names: Vec<Box<[u8]>> = Vec::new();
        {
            let mut view = space.lock_all(server.clock.now());
            view.set_horizon(EARLIEST);
            cursor = view.scan(db, cursor, KEYS_PER_STEP, &mut |name, _| {
                let is_foreign = is_foreign(server, &routes, receiving, slot(name));
                names.extend(is_foreign.then(|| Box::from(name)));
            });
        }
        for name in &names {
            let key = space.key(db, name);
            let mut view = space.lock_one(space.shard_of(&key), server.clock.now());
            // The routes may have changed. They do not change again before the lock ends.
            let routes = server.cluster.routes();
            if is_foreign(server, &routes, receiving, slot(name)) {
                if !delete(server, &mut view, &key) {
                    return false;
                }
                server.cluster.moves.swept_keys.fetch_add(1, Relaxed);
            }
        }
        if cursor == 0 || server.lifecycle.stops() {
            return true;
        }
    }
}

fn forget_foreign_events(server: &Server, receiving: &[RangeInclusive<u16>]) {
    let routes = server.cluster.routes();
    let mut view = server.data.keyspace.lock_all(server.clock.now());
    view.take_withheld(|_, name| is_foreign(server, &routes, receiving, slot(name)));
}

#[cfg(test)]
mod tests;
