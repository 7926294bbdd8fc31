//! SORT and SORT_RO: sort the elements of a list, set or sorted set by themselves or by the values
//! of other keys.

mod request;

use super::table::{commands, on_slab};
use super::work;
use crate::context::{Ctx, Spec};
use crate::permission::may_read_all;
use engine::refusal::{Answer, OUT_OF_MEMORY, Refusal};
use request::Request;
use session::spec::flag::{DENYOOM, MOVABLE_KEYS, READONLY, WRITE};
use session::spec::{Access, Form, Keys};
use std::cmp::Ordering;
use store::{AnyCollection, Class, End, Key, Kind, List, Scene, View};
use wire::Args;
use wire::number::parse_f64;
use wire::output::OUTPUT_BYTES_MAX;
use wire::slot::{slot, slot_of_pattern};

/// Table of this family's commands.
pub const TABLE: &[Spec] = commands! {
    in "generic" []:
    "sort" -2 [set sortedset list dangerous], WRITE | DENYOOM | MOVABLE_KEYS => Form::Stored,
        Keys::Sort => Access::READ.then(Access::OVERWRITE), "1.0.0",
        on_slab!(|ctx, args| sort(ctx, args, true)).estimated(work::sorted),
        "key [BY pattern] [LIMIT offset count] [GET pattern]... [ASC | DESC] [ALPHA] [STORE destination]",
        "Sorts the elements of a list, set or sorted set, and returns or stores them.";
    "sort_ro" -2 [set sortedset list dangerous], READONLY | MOVABLE_KEYS, Keys::Sort => Access::READ, "7.0.0",
        on_slab!(|ctx, args| sort(ctx, args, false)).estimated(work::sorted),
        "key [BY pattern] [LIMIT offset count] [GET pattern]... [ASC | DESC] [ALPHA]",
        "Sorts the elements of a list, set or sorted set and returns them.";
};

/// An element with its sort key.
struct Item {
    element: Vec<u8>,
    by: By,
}

/// Sort key of an element.
enum By {
    Number(f64),
    /// The element's own bytes.
    Itself,
    /// The value of another key, if it exists.
    Text(Option<Vec<u8>>),
}

impl Item {
    /// Compares by sort key. Elements with equal keys compare by their own bytes, so that the order
    /// is deterministic.
    fn compare(&self, other: &Item) -> Ordering {
        let order = match (&self.by, &other.by) {
            (By::Number(one), By::Number(other)) => one.total_cmp(other),
            (By::Text(one), By::Text(other)) => one.cmp(other),
            _ => Ordering::Equal,
        };
        order.then_with(|| self.element.cmp(&other.element))
    }
}

/// `SORT key [BY pattern] [LIMIT offset count] [GET pattern …] [ASC | DESC] [ALPHA] [STORE
/// destination]`
fn sort(ctx: &mut Ctx<'_, '_>, args: Args<'_>, may_store: bool) -> Answer {
    let request = Request::parse(args.from(2), may_store)?;
    check_patterns(ctx, args, &request)?;
    check_slots(ctx, &args[1], &request)?;
    let (kind, elements) = elements(ctx, &args[1], &request)?;
    let elements = in_order(ctx, elements, kind, &request)?;
    match request.destination {
        Some(destination) => store(ctx, destination, &elements, &request.gets),
        None => reply(ctx, &elements, &request.gets),
    }
}

/// Refuses patterns that name other keys unless the user may read all keys.
fn check_patterns(ctx: &Ctx<'_, '_>, args: Args<'_>, request: &Request<'_>) -> Answer {
    let by = request.sorts && request.by.is_some();
    if !by && request.gets.is_empty() || ctx.session.has_all_rights(&ctx.server.auth.acl) {
        return Ok(());
    }
    let chosen = ctx.table.lookup(args.name());
    let chosen = chosen.map(|index| ctx.table.choose(index, args));
    match chosen.is_some_and(|chosen| may_read_all(&ctx.session.user, chosen, args)) {
        true => Ok(()),
        false if by => Err(Refusal::Message(
            "ERR BY option of SORT denied due to insufficient ACL permissions.",
        )),
        false => Err(Refusal::Message(
            "ERR GET option of SORT denied due to insufficient ACL permissions.",
        )),
    }
}

/// Refuses patterns whose keys may be in other slots of a cluster than the sorted key.
fn check_slots(ctx: &Ctx<'_, '_>, key: &[u8], request: &Request<'_>) -> Answer {
    if !ctx.server.cluster.is_routed() || ctx.session.is_of_feed() {
        return Ok(());
    }
    let own = Some(slot(key));
    if request.sorts && request.by.is_some_and(|by| slot_of_pattern(by) != own) {
        return Err(Refusal::Message(
            "ERR BY option of SORT denied in cluster mode when keys formed by the pattern may be in different slots.",
        ));
    }
    let mut names = request.gets.iter().filter(|pattern| **pattern != b"#");
    match names.any(|pattern| slot_of_pattern(pattern) != own) {
        true => Err(Refusal::Message(
            "ERR GET option of SORT denied in cluster mode when keys formed by the pattern may be in different slots.",
        )),
        false => Ok(()),
    }
}

/// Replies with the values of the elements, one for each pattern in turn. Without patterns, these
/// are the elements themselves.
fn reply(ctx: &mut Ctx<'_, '_>, elements: &[Vec<u8>], gets: &[&[u8]]) -> Answer {
    ctx.reply.array(elements.len() * gets.len().max(1));
    for element in elements {
        if gets.is_empty() {
            ctx.reply.bulk(element);
        }
        for pattern in gets {
            match look_up(ctx, pattern, element)? {
                Some(value) => ctx.reply.bulk(&value),
                None => ctx.reply.null(),
            }
            if ctx.reply.is_full() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Returns the elements in their stored order, or in reverse if the request is descending.
fn elements(
    ctx: &mut Ctx<'_, '_>,
    name: &[u8],
    request: &Request<'_>,
) -> Result<(Option<Kind>, Vec<Vec<u8>>), Refusal> {
    let key = ctx.key(name);
    let mut elements = Vec::new();
    let mut push = |element: &[u8]| elements.push(element.to_vec());
    let is_backward = !request.sorts && request.is_descending;
    let kind = ctx.view.kind(&key);
    match kind {
        None => ctx.missed(&key),
        Some(Kind::List) => {
            let end = if is_backward { End::Right } else { End::Left };
            ctx.view.read_list(&key, |list, _| {
                let first = if is_backward {
                    list.len().saturating_sub(1)
                } else {
                    0
                };
                list.iter(end, first).for_each(&mut push);
            })?;
        }
        Some(Kind::Set) => {
            ctx.view
                .read_set(&key, |set, scene| set.each(scene, &mut push))?;
        }
        Some(Kind::SortedSet) => {
            ctx.view.read_sorted_set(&key, |set, scene| {
                set.each(0..usize::MAX, is_backward, scene, |member, _| push(member));
            })?;
        }
        Some(_) => return Err(Refusal::WrongType),
    }
    Ok((kind, elements))
}

/// Returns the requested elements in the requested order.
fn in_order(
    ctx: &mut Ctx<'_, '_>,
    mut elements: Vec<Vec<u8>>,
    kind: Option<Kind>,
    request: &Request<'_>,
) -> Result<Vec<Vec<u8>>, Refusal> {
    let range = request.range(elements.len());
    // A set is sorted before it is stored and for a script even without an order, so that the
    // result is deterministic.
    let needs_order = request.destination.is_some() || ctx.session.runs_script;
    let is_forced = !request.sorts && kind == Some(Kind::Set) && needs_order;
    if !request.sorts && !is_forced {
        elements.truncate(range.end);
        elements.drain(..range.start);
        return Ok(elements);
    }
    let (by, is_alpha) = match is_forced {
        true => (None, true),
        false => (request.by, request.is_alpha),
    };
    let mut items = Vec::with_capacity(elements.len());
    for element in elements {
        let other = match by {
            Some(pattern) => look_up(ctx, pattern, &element)?,
            None => None,
        };
        let by = match (is_alpha, by) {
            (true, None) => By::Itself,
            (true, Some(_)) => By::Text(other),
            (false, None) => By::Number(number(&element)?),
            (false, Some(_)) => By::Number(other.map_or(Ok(0.0), |text| number(&text))?),
        };
        items.push(Item { element, by });
    }
    let compare = |one: &Item, other: &Item| match request.is_descending {
        false => one.compare(other),
        true => other.compare(one),
    };
    // Elements after the range need not be sorted.
    if (1..items.len()).contains(&range.end) {
        items.select_nth_unstable_by(range.end - 1, compare);
    }
    items.truncate(range.end);
    items.sort_unstable_by(compare);
    Ok(items
        .drain(range.start..)
        .map(|item| item.element)
        .collect())
}

/// Parses a text as a sort key; an empty text is 0.
fn number(text: &[u8]) -> Result<f64, Refusal> {
    if text.is_empty() {
        return Ok(0.0);
    }
    parse_f64(text)
        .map(|number| number + 0.0)
        .ok_or(Refusal::Message(
            "ERR One or more scores can't be converted into double",
        ))
}

/// Returns the value that a pattern names for an element: `#` is the element itself, `*` in a key's
/// name stands for the element, and `->field` at the end names a field of a hash.
fn look_up(
    ctx: &mut Ctx<'_, '_>,
    pattern: &[u8],
    element: &[u8],
) -> Result<Option<Vec<u8>>, Refusal> {
    if pattern == b"#" {
        return Ok(Some(element.to_vec()));
    }
    let Some(star) = pattern.iter().position(|&byte| byte == b'*') else {
        return Ok(None);
    };
    let (before, behind) = (&pattern[..star], &pattern[star + 1..]);
    let arrow = behind.windows(2).position(|pair| pair == b"->");
    let arrow = arrow.filter(|arrow| arrow + 2 < behind.len());
    let (behind, field) = match arrow {
        Some(arrow) => (&behind[..arrow], Some(&behind[arrow + 2..])),
        None => (behind, None),
    };
    let name = [before, element, behind].concat();
    let key = ctx.key(&name);
    let space = &ctx.server.data.keyspace;
    // A long SORT runs in a keyspace that contains only the list and the destination. Other keys
    // are read where they are, each under the lock of its shard.
    let is_elsewhere = !std::ptr::eq(ctx.view.space, space)
        && !ctx.server.workers.long.blocks(|is_leased| is_leased(&name));
    if is_elsewhere {
        let mut view = space.lock_one(space.shard_of(&key), ctx.view.now());
        read_value(&mut view, &key, field)
    } else {
        read_value(&mut ctx.view, &key, field)
    }
}

/// Returns the string of a key, or the value of a field of a hash.
fn read_value(
    view: &mut View<'_>,
    key: &Key<'_>,
    field: Option<&[u8]>,
) -> Result<Option<Vec<u8>>, Refusal> {
    // A key of another type counts as missing.
    let found = match (view.kind(key), field) {
        (None, _) => {
            view.touch(key);
            view.notify(Class::KeyMiss, "keymiss", key);
            None
        }
        (Some(Kind::String), None) => view.get(key)?.map(<[u8]>::to_vec),
        (Some(Kind::Hash), Some(field)) => {
            let read = view.read_hash(key, |hash, scene| {
                hash.get(field, scene).map(<[u8]>::to_vec)
            })?;
            read.flatten()
        }
        _ => None,
    };
    Ok(found)
}

/// Replaces the destination by a list of the values. Without values the destination is deleted.
///
/// # Errors
/// The list takes more than `maxmemory`, or more than the largest reply.
fn store(
    ctx: &mut Ctx<'_, '_>,
    destination: &[u8],
    elements: &[Vec<u8>],
    gets: &[&[u8]],
) -> Answer {
    let bytes_max = match ctx.server.config.maxmemory_bytes() as usize {
        0 => OUTPUT_BYTES_MAX,
        max => max.min(OUTPUT_BYTES_MAX),
    };
    let mut list = List::default();
    let (mut bytes, mut count) = (0, 0);
    let mut push = |value: &[u8], scene: &Scene<'_>| {
        list.push(End::Right, value, scene);
        // An element has at least a byte of length at both ends.
        bytes += value.len() + 2;
        count += 1;
        match bytes > bytes_max {
            true => Err(Refusal::Message(OUT_OF_MEMORY)),
            false => Ok(()),
        }
    };
    for element in elements {
        if gets.is_empty() {
            push(element, &ctx.view.scene())?;
        }
        for pattern in gets {
            let value = look_up(ctx, pattern, element)?;
            push(value.as_deref().unwrap_or(&[]), &ctx.view.scene())?;
        }
    }
    let key = ctx.key(destination);
    if count == 0 {
        if ctx.view.delete(&key) {
            ctx.view.notify(Class::Generic, "del", &key);
        }
    } else {
        let old = ctx.replaced_kind(&key);
        ctx.view.store(&key, AnyCollection::List(list), None);
        ctx.view.notify_stored(&key, old);
        ctx.view.notify(Class::List, "sortstore", &key);
    }
    ctx.reply.integer(count);
    Ok(())
}
