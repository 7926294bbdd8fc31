//! HIMPORT: hashes with the same fields, whose names are sent only once.

use crate::command::subcommand::{help, refuse_subcommand};
use crate::context::Ctx;
use engine::refusal::{Answer, Refusal};
use session::fieldsets::Flaw;
use store::{AnyCollection, Class, Hash, Kind};
use wire::Args;

/// Text of HIMPORT HELP.
const HELP: &[&str] = &[
    "PREPARE <fieldset> <field> [<field> ...]",
    "    Name the fields of the hashes that this connection is going to store.",
    "SET <key> <fieldset> <value> [<value> ...]",
    "    Store a hash whose fields have these values, in the order of the names.",
    "DISCARD <fieldset>",
    "    Remove a fieldset from this connection.",
    "DISCARDALL",
    "    Remove all fieldsets from this connection.",
];

/// `HIMPORT PREPARE | SET | DISCARD | DISCARDALL …`
pub fn himport(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let word = args[1].to_ascii_lowercase();
    let fieldsets = &mut ctx.session.fieldsets;
    match (&word[..], args.len()) {
        (b"prepare", 4..) => {
            let fields = args.from(3).iter().map(<[u8]>::to_vec).collect();
            let prepared = fieldsets.get_or_insert_default().prepare(&args[2], fields);
            prepared.map_err(|flaw| {
                Refusal::Message(match flaw {
                    Flaw::Duplicate => "ERR duplicate field name in fieldset",
                    Flaw::TooLarge => "ERR the fieldsets of this connection take too much memory",
                })
            })?;
            ctx.reply.ok();
        }
        (b"set", 5..) => return set(ctx, args),
        (b"discard", 3) => {
            let is_removed = fieldsets.as_mut().is_some_and(|all| all.discard(&args[2]));
            ctx.reply.integer(i64::from(is_removed));
        }
        (b"discardall", 2) => {
            let count = fieldsets.take().map_or(0, |all| all.len());
            ctx.reply.integer(count as i64);
        }
        (b"help", 2) => help(ctx, "HIMPORT", HELP),
        _ => refuse_subcommand(ctx, args, HELP),
    }
    Ok(())
}

fn set(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[2]);
    let fieldsets = ctx.session.fieldsets.as_deref();
    let fields = fieldsets.and_then(|all| all.get(&args[3]));
    let fields = fields.ok_or(Refusal::Message("ERR no such fieldset"))?;
    let values = args.from(4);
    if fields.len() != values.len() {
        let text = "ERR value count does not match the fieldset";
        return Err(Refusal::Message(text));
    }
    let old = ctx.view.kind(&key);
    if old.is_some_and(|kind| kind != Kind::Hash) {
        return Err(Refusal::WrongType);
    }
    let mut hash = Hash::default();
    let scene = ctx.view.scene();
    for (field, value) in fields.iter().zip(values.iter()) {
        hash.set(field, value, &scene);
    }
    ctx.view.store(&key, AnyCollection::Hash(hash), None);
    ctx.view.notify_stored(&key, old);
    ctx.view.notify(Class::Hash, "hset", &key);
    ctx.reply.ok();
    Ok(())
}
