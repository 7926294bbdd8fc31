//! Before a batch runs: what its commands will touch is asked for from memory, so that the waits overlap.

use super::{BATCH_CALLS_MAX, Call, Engine, Executor, WHOLE_FROM_CALLS, segment};
use crate::command::{self};
use crate::context::{KeyMemo, Spec};
use crate::state::Server;
use store::{Tick, View};
use wire::{Args, Span};

impl Executor<'_> {
    /// Before a client's batch: brings what its keys will touch into the processor's caches, the
    /// buckets of all keys first, then the entries.
    pub fn prepare(&mut self, calls: &mut [Call], input: &[u8], spans: &[Span], db: u8) {
        if calls.len() < WHOLE_FROM_CALLS {
            return;
        }
        let server = self.server;
        let held = match &mut self.engine {
            Engine::Slab(held) => held,
            Engine::Segment(hand) => return segment::prepare(hand, calls, input, spans),
        };
        held.lock_whole(server, self.now);
        for call in calls.iter_mut() {
            let Some(index) = call.index else { continue };
            let spec = command::table()[index as usize];
            let args = call.args(input, spans);
            let Some(bytes) = spec.first_key().and_then(|first| args.get(first)) else {
                continue;
            };
            let key = server.keyspace.key(db, bytes);
            call.memo = Some(KeyMemo::of(&key));
            match &held.whole {
                Some(view) => view.prefetch_bucket(&key),
                None => server.keyspace.prefetch_bucket(&key),
            }
        }
        for call in calls.iter() {
            let Some((memo, index)) = call.memo.zip(call.index) else {
                continue;
            };
            let first = command::table()[index as usize].first_key();
            let bytes = first.and_then(|first| call.args(input, spans).get(first));
            if let Some(bytes) = bytes {
                let key = memo.key(bytes);
                match &held.whole {
                    Some(view) => view.prefetch_entry(&key),
                    None => server.keyspace.prefetch_entry(&key),
                }
            }
        }
        match &held.whole {
            Some(view) => prefetch_elements(view, calls, input, spans),
            None => prefetch_elements_of_one(server, self.now, calls, input, spans),
        }
    }
}

/// Without all shards: brings the elements near that the batch names in the shard of the first key which
/// may be a collection's, if nobody else is in it. Where many commands are on elements, most are of
/// one key.
fn prefetch_elements_of_one(
    server: &Server,
    now: Tick,
    calls: &[Call],
    input: &[u8],
    spans: &[Span],
) {
    let names_element = |call: &&Call| {
        let spec = call.index.map(|index| command::table()[index as usize]);
        spec.is_some_and(|spec| first_element(spec, call.args(input, spans)).is_some())
    };
    let mut calls_on_elements = calls.iter().filter(names_element);
    let Some(memo) = calls_on_elements.next().and_then(|call| call.memo) else {
        return;
    };
    let space = &server.keyspace;
    let shard = space.shard_of(&memo.key(&[]));
    if calls_on_elements.count() + 1 >= WHOLE_FROM_CALLS
        && let Some(view) = space.try_lock_one(shard, now)
    {
        prefetch_elements(&view, calls, input, spans);
    }
}

/// Where a command on a collection names its first element, as near as can be told without reading its
/// options: behind `FIELDS n` or `MEMBERS n`, or behind the key, and behind the score of ZADD.
fn first_element(spec: &Spec, args: Args<'_>) -> Option<usize> {
    if !matches!(spec.group, "hash" | "set" | "sorted-set") {
        return None;
    }
    let counts = |at: usize| args.is(at, "fields") || args.is(at, "members");
    Some(match spec.name {
        "zadd" | "zincrby" => 3,
        _ if counts(2) => 4,
        _ if counts(3) => 5,
        _ => 2,
    })
}

/// Brings the elements near that a batch's commands name in large collections: their pages' handles, then
/// the pages, then what those hold of them.
fn prefetch_elements(view: &View<'_>, calls: &[Call], input: &[u8], spans: &[Span]) {
    let named = |call: &Call| {
        let spec = command::table()[call.index? as usize];
        let args = call.args(input, spans);
        let element = args.get(first_element(spec, args)?)?;
        let key = call.memo?.key(args.get(spec.first_key()?)?);
        let pages = view.pages(&key)?;
        Some((pages, pages.prefetch_handle(element)))
    };
    let mut found = [None; BATCH_CALLS_MAX];
    for (call, found) in calls.iter().zip(&mut found) {
        *found = named(call);
    }
    for (pages, hash) in found.iter().flatten() {
        pages.prefetch_page(*hash);
    }
    for (pages, hash) in found.iter().flatten() {
        pages.prefetch_element(*hash);
    }
}
