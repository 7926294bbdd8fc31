//! Redis's commands on the segment engine: which are served, and by what.
//!
//! [`OWN`] is the table: those that work on keys. Commands without keys are the same as ever. All others are
//! refused with an error that names the engine: those on other types; those that must be one step for
//! everybody else and cannot be here, as MULTI and MSETNX; and those that go through all keys, which
//! this engine has in no order.

use super::{Hand, key, number, string, whole};
use crate::command::refusal::{Answer, OUT_OF_MEMORY, Refusal};
use crate::command::{self};
use crate::context::KeyMemo;
use crate::session::Session;
use crate::spec::{Keys, SpecIndex};
use segment::{Key, Refused};
use std::sync::LazyLock;
use wire::{Args, Reply};

/// What a command gets to work with.
pub struct Ctx<'a, 's> {
    /// The engine, in this worker's hand.
    pub hand: &'a mut Hand<'s>,
    /// The client.
    pub session: &'a mut Session,
    /// Where the reply goes: exactly one per command.
    pub reply: Reply<'a>,
    /// The first key's hash, when the batch has computed it already.
    pub memo: Option<KeyMemo>,
}

impl Ctx<'_, '_> {
    /// The key that these bytes name.
    #[inline]
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<&'k [u8]> {
        match self.memo {
            Some(memo) if memo.names(0, bytes) => Key::hashed(bytes, memo.hash),
            _ => self.hand.key(bytes),
        }
    }
}

/// The code of a command.
pub type Run = fn(&mut Ctx<'_, '_>, Args<'_>) -> Answer;

/// Commands on keys.
pub const OWN: &[(&str, Run)] = &[
    ("append", string::append),
    ("get", string::get),
    ("getdel", string::getdel),
    ("getex", string::getex),
    ("getset", string::getset),
    ("mget", string::mget),
    ("mset", string::mset),
    ("psetex", string::psetex),
    ("set", string::set),
    ("setex", string::setex),
    ("setnx", string::setnx),
    ("strlen", string::strlen),
    ("decr", number::decr),
    ("decrby", number::decrby),
    ("incr", number::incr),
    ("incrby", number::incrby),
    ("del", key::del),
    ("exists", key::exists),
    ("expire", key::expire),
    ("expireat", key::expireat),
    ("expiretime", key::expiretime),
    ("persist", key::persist),
    ("pexpire", key::pexpire),
    ("pexpireat", key::pexpireat),
    ("pexpiretime", key::pexpiretime),
    ("pttl", key::pttl),
    ("touch", key::exists),
    ("ttl", key::ttl),
    ("type", key::kind),
    ("unlink", key::del),
    ("dbsize", whole::dbsize),
    ("flushall", whole::flush),
    ("flushdb", whole::flush),
    ("select", whole::select),
];

/// Commands without keys of their own that are refused all the same.
const NOT_HERE: &[&str] = &["multi"];
/// Commands that look at the watched keys, of which there are none.
const HARMLESS: &[&str] = &["reset"];

/// Who serves a command.
#[derive(Clone, Copy)]
pub enum Service {
    /// This code.
    Own(Run),
    /// The same code as on the slab engine.
    Common,
    /// Nobody.
    Refused,
}

static SERVICES: LazyLock<Vec<Service>> = LazyLock::new(|| {
    let service = |spec: &&'static crate::context::Spec| {
        if let Some((_, run)) = OWN.iter().find(|(name, _)| *name == spec.name) {
            return Service::Own(*run);
        }
        let has_no_key = spec.keys == Keys::None && !NOT_HERE.contains(&spec.name);
        match has_no_key || HARMLESS.contains(&spec.name) {
            true => Service::Common,
            false => Service::Refused,
        }
    };
    command::table().iter().map(service).collect()
});

/// Who serves the command at this place of the table.
#[inline]
pub fn service(index: SpecIndex) -> Service {
    SERVICES[index as usize]
}

/// Whether the command at this place of the table is served.
pub fn is_served(index: SpecIndex) -> bool {
    !matches!(service(index), Service::Refused)
}

/// Runs a command. What it had replied before it was refused is taken back.
#[inline]
pub fn run(ctx: &mut Ctx<'_, '_>, run: Run, args: Args<'_>) {
    let start = ctx.reply.position();
    if let Err(refusal) = run(ctx, args) {
        ctx.reply.truncate(start);
        refusal.write(&mut ctx.reply);
    }
}

/// What a client is told of a command that is not served.
pub fn refuse(name: &str, reply: &mut Reply<'_>) {
    let name = name.to_ascii_uppercase();
    reply.error_fmt(format_args!(
        "ERR '{name}' is not served by the segment engine; start with --engine slab"
    ));
}

/// Why a write found no place.
pub(super) fn refusal(key: &[u8], why: Refused) -> Refusal {
    Refusal::Says(match why {
        Refused::TooLarge if key.len() > segment::KEY_MAX => {
            "ERR the key is longer than the 255 bytes that the segment engine takes"
        }
        Refused::TooLarge => "ERR the value is larger than a segment (segment-size)",
        Refused::Full => OUT_OF_MEMORY,
        Refused::IsPresent | Refused::IsAbsent | Refused::IsChanged => {
            "ERR the key was changed by others all the time; try again"
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_commands_once() {
        for (index, (name, _)) in OWN.iter().enumerate() {
            assert!(command::table().lookup(name.as_bytes()).is_some(), "{name}");
            assert!(OWN[..index].iter().all(|(other, _)| other != name));
        }
        for name in NOT_HERE.iter().chain(HARMLESS) {
            assert!(command::table().lookup(name.as_bytes()).is_some(), "{name}");
        }
    }

    #[test]
    fn what_would_need_several_keys_in_one_step_is_refused() {
        for name in ["multi", "exec", "watch", "msetnx", "scan", "rename", "hset"] {
            let index = command::table().lookup(name.as_bytes()).expect("it exists");
            assert!(!is_served(index), "{name}");
        }
        for name in ["ping", "info", "config", "subscribe", "reset", "get"] {
            let index = command::table().lookup(name.as_bytes()).expect("it exists");
            assert!(is_served(index), "{name}");
        }
    }
}
