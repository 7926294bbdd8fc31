//! Storing the results of commands that compute a sorted set.

use crate::context::Ctx;
use store::{AnyCollection, Class, SortedSet};

/// Members with their scores.
pub type Entries = Vec<(Vec<u8>, f64)>;

/// Replaces the destination by a sorted set of the entries and replies with their number. Without
/// entries the destination is deleted.
pub fn store(ctx: &mut Ctx<'_, '_>, destination: &[u8], entries: &Entries, event: &'static str) {
    let key = ctx.key(destination);
    let mut set = SortedSet::default();
    let scene = ctx.view.scene();
    for (member, score) in entries {
        set.set(member, *score, &scene);
    }
    if !entries.is_empty() {
        let old = ctx.replaced_kind(&key);
        ctx.view.store(&key, AnyCollection::SortedSet(set), None);
        ctx.view.notify_stored(&key, old);
        ctx.view.notify(Class::SortedSet, event, &key);
    } else if ctx.view.delete(&key) {
        ctx.view.notify(Class::Generic, "del", &key);
    }
    ctx.reply.integer(entries.len() as i64);
}
