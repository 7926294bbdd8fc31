//! The same walk on the segment engine, where nothing is locked.

use super::{Call, Executor, WHOLE_FROM_CALLS};
use crate::command::{self};
use crate::context::{KeyMemo, Spec};
use crate::engine::segment::Hand;
use crate::engine::segment::command::{self as own, Service};
use crate::session::Session;
use crate::spec::SpecIndex;
use segment::Key;
use wire::{Args, Reply, Span};

/// Brings what a batch's first keys will touch into the processor's caches: the lines of the table, then
/// the objects.
pub(super) fn prepare(hand: &Hand<'_>, calls: &mut [Call], input: &[u8], spans: &[Span]) {
    if calls.len() < WHOLE_FROM_CALLS {
        return;
    }
    for call in calls.iter_mut() {
        let Some(bytes) = first_key_of(call, input, spans) else {
            continue;
        };
        let key = hand.key(bytes);
        call.memo = Some(KeyMemo {
            address: bytes.as_ptr() as usize,
            len: bytes.len(),
            db: 0,
            hash: key.hash(),
        });
        hand.cache.prefetch(&key);
    }
    for call in calls.iter() {
        if let Some(memo) = call.memo {
            // The object is found by its hash alone.
            hand.cache.prefetch_object(&Key::hashed(&[], memo.hash));
        }
    }
}

/// The same for requests in memcached's protocol, all of whose keys are hashed.
pub(super) fn prepare_keys<'k>(
    hand: &Hand<'_>,
    keys: impl Iterator<Item = &'k [u8]>,
    hashed: &mut Vec<u64>,
) {
    for bytes in keys {
        let key = hand.key(bytes);
        hashed.push(key.hash());
        hand.cache.prefetch(&key);
    }
    for &hash in hashed.iter() {
        hand.cache.prefetch_object(&Key::hashed(&[], hash));
    }
}

fn first_key_of<'i>(call: &Call, input: &'i [u8], spans: &'i [Span]) -> Option<&'i [u8]> {
    let spec = command::table()[call.index? as usize];
    call.args(input, spans).get(spec.first_key()?)
}

impl Executor<'_> {
    /// Runs or refuses a command on keys; whether it ran. `Err`: it needs none, and runs as on the other engine.
    pub(super) fn run_on_segments<'a>(
        &mut self,
        session: &mut Session,
        spec: &Spec,
        index: SpecIndex,
        args: Args<'_>,
        memo: Option<KeyMemo>,
        mut reply: Reply<'a>,
    ) -> Result<bool, Reply<'a>> {
        let Some(hand) = &mut self.hand else {
            return Err(reply);
        };
        match own::service(index) {
            Service::Common => Err(reply),
            Service::Refused => {
                own::refuse(spec.name, &mut reply);
                Ok(false)
            }
            Service::Own(run) => {
                let mut ctx = own::Ctx {
                    hand,
                    session,
                    reply,
                    memo,
                };
                own::run(&mut ctx, run, args);
                Ok(true)
            }
        }
    }
}
