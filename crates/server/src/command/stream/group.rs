//! Commands on consumer groups and on the numbers of a stream: XGROUP, XSETID.

use super::arguments::{id, id_or_end, integer, plain_id};
use super::reply::no_group;
use crate::command::subcommand::{help, refuse_subcommand};
use crate::context::Ctx;
use engine::refusal::{Answer, Refusal};
use store::stream::{StreamFacts, StreamId};
use store::{AnyCollection, Class, Key};
use wire::Args;

/// Text of XGROUP HELP.
const HELP: &[&str] = &[
    "CREATE <key> <groupname> <id|$> [option]",
    "    Create a new consumer group. Options are:",
    "    * MKSTREAM",
    "      Create the empty stream if it does not exist.",
    "    * ENTRIESREAD entries_read",
    "      Set the group's entries_read counter (internal use).",
    "CREATECONSUMER <key> <groupname> <consumer>",
    "    Create a new consumer in the specified group.",
    "DELCONSUMER <key> <groupname> <consumer>",
    "    Remove the specified consumer.",
    "DESTROY <key> <groupname>",
    "    Remove the specified group.",
    "SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
    "    Set the current group ID and entries_read counter.",
];

const NO_KEY: Refusal = Refusal::Message(
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.",
);

/// Options of CREATE and SETID.
#[derive(Default)]
struct Options {
    may_create: bool,
    entries_read: Option<u64>,
}

impl Options {
    /// Parses the options; `None` if one is unknown.
    fn parse(args: Args<'_>, may_create: bool) -> Result<Option<Options>, Refusal> {
        let (mut options, mut index) = (Options::default(), 5);
        while index < args.len() {
            if may_create && args.is(index, "mkstream") {
                options.may_create = true;
                index += 1;
            } else if args.is(index, "entriesread") && index + 1 < args.len() {
                options.entries_read = match integer(&args[index + 1])? {
                    -1 => None,
                    read => Some(u64::try_from(read).map_err(|_| {
                        Refusal::Message("ERR value for ENTRIESREAD must be positive or -1")
                    })?),
                };
                index += 2;
            } else {
                return Ok(None);
            }
        }
        Ok(Some(options))
    }
}

/// `XGROUP CREATE | SETID | DESTROY | CREATECONSUMER | DELCONSUMER | HELP …`
pub fn xgroup(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let word = args[1].to_ascii_lowercase();
    match (&word[..], args.len()) {
        (b"help", 2) => help(ctx, "XGROUP", HELP),
        (b"create", 5..=8) => return create(ctx, args),
        (b"setid", 5 | 7) => return set_id(ctx, args),
        (b"destroy", 4) => return destroy(ctx, args),
        (b"createconsumer", 5) => return create_consumer(ctx, args),
        (b"delconsumer", 5) => return delete_consumer(ctx, args),
        _ => refuse_subcommand(ctx, args, HELP),
    }
    Ok(())
}

/// Refuses a key without a stream. Returns whether the stream has the group.
fn has_group(ctx: &mut Ctx<'_, '_>, key: &Key<'_>, group: &[u8]) -> Result<bool, Refusal> {
    let found = ctx
        .view
        .read_stream(key, |stream, _| stream.group(group).is_some())?;
    found.ok_or(NO_KEY)
}

fn create(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let Some(options) = Options::parse(args, true)? else {
        refuse_subcommand(ctx, args, HELP);
        return Ok(());
    };
    let (key, name) = (ctx.key(&args[2]), &args[3]);
    let exists = ctx.view.read_stream(&key, |_, _| ())?.is_some();
    if !exists && !options.may_create {
        return Err(NO_KEY);
    }
    let given = match &args[4] {
        b"$" => None,
        text => Some(plain_id(text)?),
    };
    let edited = ctx.view.edit_stream(&key, true, |stream, _| {
        let last = given.unwrap_or(stream.facts().last_id);
        stream
            .create_group(name, last, options.entries_read)
            .then_some(())
    })?;
    let Some(edited) = edited else {
        return Err(Refusal::Message(
            "BUSYGROUP Consumer Group name already exists",
        ));
    };
    ctx.edited(&key, &edited, Class::Stream, "xgroup-create");
    ctx.reply.ok();
    Ok(())
}

fn set_id(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let Some(options) = Options::parse(args, false)? else {
        refuse_subcommand(ctx, args, HELP);
        return Ok(());
    };
    let (key, name) = (ctx.key(&args[2]), &args[3]);
    if !has_group(ctx, &key, name)? {
        return no_group(ctx, &args[2], name);
    }
    let given = match &args[4] {
        b"$" => None,
        text => Some(id_or_end(text, 0)?),
    };
    ctx.view.edit_stream(&key, false, |stream, _| {
        let last = given.unwrap_or(stream.facts().last_id);
        stream
            .set_group(name, last, options.entries_read)
            .then_some(())
    })?;
    // As in Redis, also if the group had this ID before.
    ctx.view.notify(Class::Stream, "xgroup-setid", &key);
    ctx.reply.ok();
    Ok(())
}

fn destroy(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let (key, name) = (ctx.key(&args[2]), &args[3]);
    has_group(ctx, &key, name)?;
    let edited = ctx
        .view
        .edit_stream(&key, false, |stream, _| stream.destroy_group(name))?;
    let is_done = edited.is_some();
    if let Some(edited) = edited {
        ctx.view
            .defer_drop(&key, AnyCollection::Stream(edited.result));
        ctx.view.notify(Class::Stream, "xgroup-destroy", &key);
    }
    ctx.reply.integer(i64::from(is_done));
    Ok(())
}

fn create_consumer(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let (key, name) = (ctx.key(&args[2]), &args[3]);
    if !has_group(ctx, &key, name)? {
        return no_group(ctx, &args[2], name);
    }
    let edited = ctx.view.edit_stream(&key, false, |stream, scene| {
        stream.add_consumer(name, &args[4], scene).flatten()
    })?;
    if edited.is_some() {
        ctx.view
            .notify(Class::Stream, "xgroup-createconsumer", &key);
    }
    ctx.reply.integer(i64::from(edited.is_some()));
    Ok(())
}

fn delete_consumer(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let (key, name) = (ctx.key(&args[2]), &args[3]);
    if !has_group(ctx, &key, name)? {
        return no_group(ctx, &args[2], name);
    }
    let edited = ctx.view.edit_stream(&key, false, |stream, scene| {
        stream.remove_consumer(name, &args[4], scene).flatten()
    })?;
    if edited.is_some() {
        ctx.view.notify(Class::Stream, "xgroup-delconsumer", &key);
    }
    let pending = edited.map_or(0, |edited| edited.result);
    ctx.reply.integer(pending as i64);
    Ok(())
}

/// Numbers that XSETID sets.
struct Numbers {
    last_id: StreamId,
    entries_added: Option<u64>,
    max_deleted_id: Option<StreamId>,
}

impl Numbers {
    fn parse(args: Args<'_>) -> Result<Numbers, Refusal> {
        let mut numbers = Numbers {
            last_id: plain_id(&args[2])?,
            entries_added: None,
            max_deleted_id: None,
        };
        let mut index = 3;
        while index < args.len() {
            let value = args.get(index + 1).ok_or(Refusal::Syntax)?;
            if args.is(index, "entriesadded") {
                let added = u64::try_from(integer(value)?);
                let added =
                    added.map_err(|_| Refusal::Message("ERR entries_added must be positive"))?;
                numbers.entries_added = Some(added);
            } else if args.is(index, "maxdeletedid") {
                let deleted = id(value, 0)?;
                if numbers.last_id < deleted {
                    return Err(Refusal::Message(
                        "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
                    ));
                }
                numbers.max_deleted_id = Some(deleted).filter(|id| *id > StreamId::MIN);
            } else {
                return Err(Refusal::Syntax);
            }
            index += 2;
        }
        Ok(numbers)
    }
}

/// `XSETID key id [ENTRIESADDED number] [MAXDELETEDID id]`
pub fn xsetid(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let numbers = Numbers::parse(args)?;
    let key = ctx.key(&args[1]);
    let mut refusal = Some("ERR no such key");
    ctx.view.edit_stream(&key, false, |stream, scene| {
        let facts = stream.facts();
        let top = stream.last_entry_id(scene);
        let len = stream.len(scene) as u64;
        refusal = if numbers.last_id < facts.max_deleted_id {
            Some("ERR The ID specified in XSETID is smaller than current max_deleted_entry_id")
        } else if top.is_some_and(|top| numbers.last_id < top) {
            Some("ERR The ID specified in XSETID is smaller than the target stream top item")
        } else if numbers.entries_added.is_some_and(|added| len > added) {
            Some("ERR The entries_added specified in XSETID is smaller than the target stream length")
        } else {
            None
        };
        if refusal.is_some() {
            return None;
        }
        let new = StreamFacts {
            last_id: numbers.last_id,
            max_deleted_id: numbers.max_deleted_id.unwrap_or(facts.max_deleted_id),
            entries_added: numbers.entries_added.unwrap_or(facts.entries_added),
            ..facts
        };
        (new != facts).then(|| stream.set_facts(new))
    })?;
    if let Some(text) = refusal {
        return Err(Refusal::Message(text));
    }
    // As in Redis, also if the stream had this ID before.
    ctx.view.notify(Class::Stream, "xsetid", &key);
    ctx.reply.ok();
    Ok(())
}
