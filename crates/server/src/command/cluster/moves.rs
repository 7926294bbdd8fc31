//! Subcommands of CLUSTER about moves of slots: those of Valkey 9 and of Redis 8.4, and SYNCSLOTS,
//! by which a source sends keys.

use crate::cluster::View;
use crate::context::Ctx;
use crate::importing;
use crate::movement::{Answer, Leaving, Request, Wish};
use crate::replication::primary::new_id;
use ::cluster::{Name, Role};
use durability::saving::Waiting;
use membership::moves::{Move, State, ranges_of};
use membership::plan::{OPEN_MAX, Wanted};
use session::message::Subscriber;
use session::waiting::BlockingState;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use wire::Args;
use wire::number::{parse_i64, parse_u64};
use wire::slot::SLOTS;

const SYNTAX: &str = "ERR syntax error";
const NOT_PRIMARY: &str = "ERR Slot migration can only be used on primary nodes.";

/// `CLUSTER SYNCSLOTS START move link` and `CLUSTER SYNCSLOTS word link argument …`.
pub(super) fn synchronize(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    if !args.is(2, "start") {
        let received = ctx.unlocked(|server| importing::receive(server, args.from(2)));
        return match received {
            Ok(()) => ctx.reply.ok(),
            Err(error) => ctx.reply.error(&error),
        };
    }
    let link = args.get(4).and_then(parse_u64).filter(|link| *link > 0);
    let (Some(link), 5) = (link, args.len()) else {
        return ctx.reply.error(SYNTAX);
    };
    match ctx.unlocked(|server| importing::start(server, &args[3], link)) {
        Ok(true) => ctx.reply.ok(),
        Ok(false) => ctx.reply.simple("CLEARING"),
        Err(error) => ctx.reply.error(error),
    }
}

/// Reads pairs of a first and a last slot.
fn slots(args: Args<'_>) -> Result<Vec<(u16, u16)>, String> {
    if args.is_empty() || !args.len().is_multiple_of(2) {
        return Err(SYNTAX.to_owned());
    }
    let mut all = vec![false; usize::from(SLOTS)];
    for at in (0..args.len()).step_by(2) {
        let slot = |at| {
            args.get(at)
                .and_then(parse_i64)
                .filter(|slot| (0..i64::from(SLOTS)).contains(slot))
        };
        let (first, last) = slot(at)
            .zip(slot(at + 1))
            .ok_or("ERR Invalid or out of range slot")?;
        if first > last {
            return Err(format!(
                "ERR start slot number {first} is greater than end slot number {last}"
            ));
        }
        // An overlap ends the loop, so that it takes at most one step per slot.
        for slot in first..=last {
            if std::mem::replace(&mut all[slot as usize], true) {
                return Err("ERR Slot ranges overlap".to_owned());
            }
        }
    }
    let given = (0..SLOTS).filter(|slot| all[usize::from(*slot)]);
    Ok(ranges_of(given.collect()))
}

fn new_name() -> Name {
    Name::parse(new_id().as_bytes()).expect("an identifier has 40 hexadecimal digits")
}

/// Passes a request to the host, which replies when the records are written.
fn request(ctx: &mut Ctx<'_, '_>, wish: Wish, answer: Answer) {
    if !matches!(ctx.session.blocking_state, BlockingState::MayBlock) {
        let error = "ERR slots cannot be moved from a transaction or a script";
        return ctx.reply.error(error);
    }
    let waiting = Waiting {
        client: Subscriber::of(&ctx.session.info),
        protocol: ctx.session.protocol,
    };
    let request = Request {
        wish,
        waiting,
        answer,
    };
    match ctx.server.cluster.moves.request(request) {
        true => ctx.session.blocking_state = BlockingState::RunsLong,
        false => ctx
            .reply
            .error("TRYAGAIN too many requests wait for the records"),
    }
}

/// `CLUSTER MIGRATESLOTS SLOTSRANGE first last [first last …] NODE node-id […]`, sent to the
/// source.
pub(super) fn migrate(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    match wanted(ctx, args.from(2)) {
        Ok(wanted) => request(ctx, Wish::Create(wanted), Answer::Ok),
        Err(error) => ctx.reply.error(&error),
    }
}

fn wanted(ctx: &Ctx<'_, '_>, args: Args<'_>) -> Result<Vec<Wanted>, String> {
    let view = View::of(ctx.server, ctx.session);
    let routes = ctx.server.cluster.routes();
    if !matches!(routes.role, Role::Primary(_)) {
        return Err(NOT_PRIMARY.to_owned());
    }
    let mut all = Vec::new();
    let mut at = 0;
    while at < args.len() {
        if !args.is(at, "slotsrange") {
            return Err(SYNTAX.to_owned());
        }
        if all.len() == OPEN_MAX {
            return Err(format!("ERR expected at most {OPEN_MAX} moves"));
        }
        let node = (at + 1..args.len()).find(|at| args.is(*at, "node"));
        let (node, id) = node
            .and_then(|node| Some((node, args.get(node + 1)?)))
            .ok_or(SYNTAX)?;
        let ranges = slots(args.from(at + 1).first(node - at - 1))?;
        let mut each = ranges.iter().flat_map(|(first, last)| *first..=*last);
        if each.any(|slot| !routes.is_own(slot)) {
            return Err("ERR Slots are not served by this node".to_owned());
        }
        let unknown = || {
            let shown = String::from_utf8_lossy(&id[..id.len().min(128)]);
            format!("ERR Unknown node {shown}")
        };
        let target = view.find(id).ok_or_else(unknown)?;
        let shard = view
            .shard_of(target.id)
            .filter(|shard| shard.primary == target.id);
        let shard = shard.ok_or("ERR Target node is not a primary")?;
        all.push((new_name(), ranges, shard.id));
        at = node + 2;
    }
    match all.is_empty() {
        true => Err(SYNTAX.to_owned()),
        false => Ok(all),
    }
}

/// Moves in which this node's shard takes part.
fn own_moves(ctx: &Ctx<'_, '_>) -> (Name, Vec<(Name, Move)>) {
    let shard = View::of(ctx.server, ctx.session).shard_id();
    let listed = ctx.server.cluster.moves.listed();
    let own = listed
        .iter()
        .filter(|(_, one)| one.from == shard || one.to == shard);
    (shard, own.cloned().collect())
}

/// `CLUSTER CANCELSLOTMIGRATIONS`
pub(super) fn cancel_all(ctx: &mut Ctx<'_, '_>) {
    let (shard, all) = own_moves(ctx);
    let open = all
        .into_iter()
        .filter(|(_, one)| one.is_open() && one.from == shard);
    let ids: Vec<Name> = open.map(|(id, _)| id).collect();
    match ids.is_empty() {
        true => ctx.reply.error("ERR No migrations ongoing"),
        false => request(ctx, Wish::Cancel(ids), Answer::Ok),
    }
}

/// `CLUSTER MIGRATION IMPORT first last […] | STATUS [ID move | ALL] | CANCEL (ID move | ALL)`,
/// sent to the target.
pub(super) fn migration(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    if args.is(2, "import") {
        return import(ctx, args.from(3));
    }
    let id = match args.len() {
        3 if args.is(2, "status") => None,
        4 if args.is(3, "all") => None,
        5 if args.is(3, "id") => Some(&args[4]),
        _ => return ctx.reply.error(SYNTAX),
    };
    let (shard, mut all) = own_moves(ctx);
    if let Some(id) = id {
        all.retain(|(one, _)| one.as_bytes() == id);
    }
    if args.is(2, "status") {
        all.reverse();
        return status(ctx, shard, &all);
    }
    if !args.is(2, "cancel") {
        return ctx.reply.error(SYNTAX);
    }
    let open = all.into_iter().filter(|(_, one)| one.is_open());
    let ids: Vec<Name> = open.map(|(id, _)| id).collect();
    let count = ids.len() as i64;
    match count {
        0 => ctx.reply.integer(0),
        _ => request(ctx, Wish::Cancel(ids), Answer::Count(count)),
    }
}

fn import(ctx: &mut Ctx<'_, '_>, args: Args<'_>) {
    let view = View::of(ctx.server, ctx.session);
    let is_primary = matches!(ctx.server.cluster.routes().role, Role::Primary(_));
    let Some(shard) = view.shard_of(view.me).filter(|_| is_primary) else {
        return ctx.reply.error(NOT_PRIMARY);
    };
    let to = shard.id;
    match slots(args) {
        Ok(slots) => {
            let id = new_name();
            let wish = Wish::Create(vec![(id, slots, to)]);
            request(ctx, wish, Answer::Name(id));
        }
        Err(error) => ctx.reply.error(&error),
    }
}

/// Returns the identifier of the primary of a shard; empty if there is none.
fn primary_of(view: &View, shard: Name) -> String {
    let found = view.topology.shards().iter().find(|one| one.id == shard);
    found.map_or_else(String::new, |shard| shard.primary.to_string())
}

fn text_of(slots: &[(u16, u16)], separator: &str) -> String {
    let part = |(first, last): &(u16, u16)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    slots.iter().map(part).collect::<Vec<_>>().join(separator)
}

fn leaving(ctx: &Ctx<'_, '_>, id: Name) -> Option<Arc<Leaving>> {
    ctx.server.cluster.moves.leaving().get(&id).cloned()
}

/// Replies with the moves as Redis does.
fn status(ctx: &mut Ctx<'_, '_>, shard: Name, all: &[(Name, Move)]) {
    let view = View::of(ctx.server, ctx.session);
    ctx.reply.array(all.len());
    for (id, one) in all {
        let hold_ms = leaving(ctx, *id).map_or(0, |leaving| leaving.hold_us.load(Relaxed) / 1000);
        let state = match one.state {
            State::Open => "in-progress",
            State::Done => "completed",
            State::Cancelled => "canceled",
            State::Failed => "failed",
        };
        let texts = [
            ("id", id.to_string()),
            ("slots", text_of(&one.slots, " ")),
            ("source", primary_of(&view, one.from)),
            ("dest", primary_of(&view, one.to)),
            (
                "operation",
                if one.to == shard { "import" } else { "migrate" }.to_owned(),
            ),
            ("state", state.to_owned()),
            ("last_error", one.why.clone()),
        ];
        let numbers = [
            ("retries", one.attempts),
            ("create_time", one.created * 1000),
            ("start_time", one.created * 1000),
            ("end_time", one.ended * 1000),
            ("write_pause_ms", hold_ms),
        ];
        reply_map(ctx, &texts, &numbers);
    }
}

fn reply_map(ctx: &mut Ctx<'_, '_>, texts: &[(&str, String)], numbers: &[(&str, u64)]) {
    ctx.reply.map(texts.len() + numbers.len());
    for (name, text) in texts {
        ctx.reply.bulk(name.as_bytes());
        ctx.reply.bulk(text.as_bytes());
    }
    for (name, number) in numbers {
        ctx.reply.bulk(name.as_bytes());
        ctx.reply.integer(*number as i64);
    }
}

/// `CLUSTER GETSLOTMIGRATIONS`: replies with the moves as Valkey does, the newest first.
pub(super) fn list(ctx: &mut Ctx<'_, '_>) {
    let view = View::of(ctx.server, ctx.session);
    let (shard, all) = own_moves(ctx);
    ctx.reply.array(all.len());
    for (id, one) in all.iter().rev() {
        let leaving = leaving(ctx, *id);
        let is_walked = leaving
            .as_ref()
            .is_some_and(|one| one.walked_percent.load(Relaxed) == 100);
        let state = match one.state {
            State::Open if one.to == shard => "receiving-snapshot",
            State::Open if is_walked => "replicating",
            State::Open => "snapshotting",
            State::Done => "success",
            State::Cancelled => "cancelled",
            State::Failed => "failed",
        };
        let texts = [
            ("name", id.to_string()),
            (
                "operation",
                if one.to == shard { "IMPORT" } else { "EXPORT" }.to_owned(),
            ),
            ("slot_ranges", text_of(&one.slots, " ")),
            ("target_node", primary_of(&view, one.to)),
            ("source_node", primary_of(&view, one.from)),
            ("state", state.to_owned()),
            ("message", one.why.clone()),
        ];
        let left = leaving.map_or(0, |one| one.left_keys.load(Relaxed));
        let updated = one.ended.max(one.created);
        let numbers = [
            ("create_time", one.created),
            ("last_update_time", updated),
            ("last_ack_time", updated),
            ("cow_size", 0),
            ("remaining_repl_size", left),
        ];
        reply_map(ctx, &texts, &numbers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Span;

    #[test]
    fn ranges_of_slots_may_not_overlap() {
        let read = |words: &[&str]| {
            let (mut input, mut spans) = (Vec::new(), Vec::new());
            for word in words {
                let (start, len) = (input.len() as u32, word.len() as u32);
                spans.push(Span { start, len });
                input.extend_from_slice(word.as_bytes());
            }
            slots(Args::new(&input, &spans))
        };
        assert_eq!(read(&["7", "9", "0", "5", "6", "6"]), Ok(vec![(0, 9)]));
        assert_eq!(read(&["0", "16383"]), Ok(vec![(0, 16_383)]));
        let overlap = Err("ERR Slot ranges overlap".to_owned());
        assert_eq!(read(&["0", "16383", "16383", "16383"]), overlap);
        // Regression: each range was written out before the comparison, some gigabytes here.
        let many = ["0", "16383"].repeat(100_000);
        assert_eq!(read(&many), overlap);
        for words in [&["0", "16384"][..], &["-1", "2"], &["3", "2"], &["1"], &[]] {
            assert!(read(words).is_err(), "{words:?}");
        }
    }
}
