//! Access to the sorted set under a key.

use crate::context::Ctx;
use engine::refusal::Refusal;
use store::{Class, Key, Scene, SortedSet};

/// Calls `read` with the sorted set under a key. Publishes a miss and returns `None` if there is
/// none.
pub fn read<R>(
    ctx: &mut Ctx<'_, '_>,
    key: &Key<'_>,
    work: impl FnOnce(&SortedSet, &Scene<'_>) -> R,
) -> Result<Option<R>, Refusal> {
    let result = ctx.view.read_sorted_set(key, work)?;
    if result.is_none() {
        ctx.missed(key);
    }
    Ok(result)
}

/// Calls a function with the sorted set under a key, if there is one, and publishes `event` if the
/// function changes the set.
pub(super) fn change<R>(
    ctx: &mut Ctx<'_, '_>,
    key: &Key<'_>,
    event: &'static str,
    work: impl FnOnce(&mut SortedSet, &Scene<'_>) -> Option<R>,
) -> Result<Option<R>, Refusal> {
    let Some(edited) = ctx.view.edit_sorted_set(key, false, work)? else {
        return Ok(None);
    };
    ctx.edited(key, &edited, Class::SortedSet, event);
    Ok(Some(edited.result))
}
