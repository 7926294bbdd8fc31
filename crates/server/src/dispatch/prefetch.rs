//! Prefetching for a batch of commands, so that their memory accesses overlap.

use super::{BATCH_CALLS_MAX, Call, Engine, Executor, WHOLE_FROM_CALLS, segment};
use crate::command::{self};
use crate::context::{KeyMemo, Spec};
use store::{Keyspace, Tick, View};
use wire::{Args, Span};

impl Executor<'_> {
    /// Prefetches the data of a batch's first keys: the buckets of all keys, then the entries, then
    /// elements of large collections.
    pub fn prepare(&mut self, calls: &mut [Call], input: &[u8], spans: &[Span], db: u8) {
        if calls.len() < WHOLE_FROM_CALLS {
            return;
        }
        let server = self.server;
        let held = match &mut self.engine {
            Engine::Slab(held) => held,
            Engine::Segment(handle) => return segment::prepare(handle, calls, input, spans),
        };
        held.lock_whole(&server.data, &server.workers, self.now);
        let mut has_collections = false;
        for call in calls.iter_mut() {
            let Some(index) = call.index else { continue };
            let spec = command::table()[index as usize];
            has_collections |= is_on_collections(spec);
            let args = call.args(input, spans);
            let Some(bytes) = spec.first_key().and_then(|first| args.get(first)) else {
                continue;
            };
            let key = server.data.keyspace.key(db, bytes);
            call.memo = Some(KeyMemo::of(&key));
            match &held.whole {
                Some(view) => view.prefetch_bucket(&key),
                None => server.data.keyspace.prefetch_bucket(&key),
            }
        }
        for memo in calls.iter().filter_map(|call| call.memo.as_ref()) {
            // The hash is enough to find the entry.
            let key = memo.key(&[]);
            match &held.whole {
                Some(view) => view.prefetch_entry(&key),
                None => server.data.keyspace.prefetch_entry(&key),
            }
        }
        match &held.whole {
            _ if !has_collections => {}
            Some(view) => prefetch_elements(view, calls, input, spans),
            None => prefetch_elements_of_one(&server.data.keyspace, self.now, calls, input, spans),
        }
    }
}

/// Prefetches elements without holding all shards. It locks the shard of the first command that
/// names an element, unless another worker holds it, and prefetches the elements in this shard.
/// Most commands of such a batch name the same key.
fn prefetch_elements_of_one(
    keyspace: &Keyspace,
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
    let space = keyspace;
    let shard = space.shard_of(&memo.key(&[]));
    if calls_on_elements.count() + 1 >= WHOLE_FROM_CALLS
        && let Some(view) = space.try_lock_one(shard, now)
    {
        prefetch_elements(&view, calls, input, spans);
    }
}

/// Whether a command works on collections with elements that can be prefetched.
fn is_on_collections(spec: &Spec) -> bool {
    matches!(spec.group, "hash" | "set" | "sorted-set")
}

/// Returns the position of the first element that a command on a collection names, without parsing
/// its options: where its row says, after `FIELDS n` or `MEMBERS n`, or after the key.
fn first_element(spec: &Spec, args: Args<'_>) -> Option<usize> {
    if !is_on_collections(spec) {
        return None;
    }
    let counts = |at: usize| args.is(at, "fields") || args.is(at, "members");
    Some(match spec.run.element {
        Some(at) => at.into(),
        None if counts(2) => 4,
        None if counts(3) => 5,
        None => 2,
    })
}

/// Prefetches the elements that a batch names in large collections: the handles of their pages,
/// then the pages, then the elements.
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
