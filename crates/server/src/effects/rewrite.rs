//! The effect of one command in its form.

mod stream;

use super::replies::Value;
use super::{NAMES_PER_COMMAND, Ran, ReplyAt, add_marks};
use crate::context::Ctx;
use durability::dump::payload_of;
use session::feed::{Batch, named};
use session::spec::{Form, Keys};
use settings::Id;
use std::collections::BTreeMap;
use store::{Hash, Key, Kind, Lost, Removed, Tick};
use wire::Args;
use wire::dump::may_have_deadlines;
use wire::number::{Text, parse_i64};

/// A command whose effect is added to a batch.
pub struct Rewrite<'c, 'a, 'v> {
    ctx: &'c mut Ctx<'a, 'v>,
    ran: Ran<'c>,
    args: Args<'c>,
    db: u8,
    batch: &'c mut Batch,
    /// Keys and elements that have expired by the end of the command. Their deletions are in the
    /// batch.
    removed: &'c [Removed],
}

/// Deadline of an element: absent, none, or an instant.
type ElementDeadline = Option<Option<Tick>>;

/// Names of the commands that set, remove and delete elements of a type, and their word before the
/// number of elements.
struct ElementCommands {
    expire: &'static [u8],
    persist: &'static [u8],
    delete: &'static [u8],
    word: &'static [u8],
}

fn commands_of(kind: Kind) -> Option<ElementCommands> {
    let (expire, persist, delete, word): (&[u8], &[u8], &[u8], &[u8]) = match kind {
        Kind::Hash => (b"HPEXPIREAT", b"HPERSIST", b"HDEL", b"FIELDS"),
        Kind::Set => (b"SPEXPIREAT", b"SPERSIST", b"SREM", b"MEMBERS"),
        Kind::SortedSet => (b"ZPEXPIREAT", b"ZPERSIST", b"ZREM", b"MEMBERS"),
        Kind::Stream => (b"XPEXPIREAT", b"XPERSIST", b"XDEL", b"IDS"),
        _ => return None,
    };
    Some(ElementCommands {
        expire,
        persist,
        delete,
        word,
    })
}

impl<'c, 'a, 'v> Rewrite<'c, 'a, 'v> {
    /// Creates the rewriting of a command.
    pub fn new(
        ctx: &'c mut Ctx<'a, 'v>,
        ran: Ran<'c>,
        batch: &'c mut Batch,
        removed: &'c [Removed],
    ) -> Self {
        let db = ctx.session.db;
        Rewrite {
            ctx,
            ran,
            args: ran.args,
            db,
            batch,
            removed,
        }
    }

    fn reply(&self) -> Vec<u8> {
        match self.ran.reply {
            ReplyAt::Position(at) => self.ctx.reply.written(at).to_vec(),
            ReplyAt::Bytes(bytes) => bytes.to_vec(),
        }
    }

    /// Returns the name of the command in the table, which `rename-command` does not change.
    fn command(&self) -> &'static str {
        self.ctx.table.name(self.ran.index)
    }

    /// Returns the argument at an index that every call of the command has.
    fn arg(&self, index: usize) -> &'c [u8] {
        let args = self.args;
        args.get(index).unwrap_or_default()
    }

    fn add(&mut self, args: &[&[u8]]) {
        self.batch.add(self.db, args);
    }

    /// Adds the deletion of an absent key, unless it expired because of this command, in which case
    /// its deletion is already there.
    fn add_deleted(&mut self, name: &[u8]) {
        let is_key = |one: &&Removed| one.db == self.db && *one.key == *name;
        let mut removed = self.removed.iter().filter(is_key);
        if !removed.any(|one| !matches!(one.lost, Lost::Elements(..))) {
            self.add(&[b"DEL", name]);
        }
    }

    /// Whether absent elements of a key may be present for a reader of the feed. Expired elements
    /// are deleted there, except in a large collection that a snapshot has not saved.
    fn may_hold_absent(&mut self, key: &Key<'_>) -> bool {
        self.ctx.view.is_unsaved_large(key)
    }

    /// Adds the effect. A form that needs a reply that was cut off falls back to the state of the
    /// keys.
    pub fn write(&mut self, form: Form) {
        if self.try_write(form).is_none() {
            self.state();
        }
    }

    fn try_write(&mut self, form: Form) -> Option<()> {
        let args = self.args;
        match form {
            Form::Same | Form::Library => self.same(),
            Form::Inner => {}
            Form::Set | Form::String => self.string(&args[1]),
            Form::Strings => self.strings(),
            Form::Deadline => self.deadline(),
            Form::Deleted => self.add(&[b"DEL", &args[1]]),
            Form::FieldsDeleted => {
                let fields = self.counted(2)?;
                let reply = self.reply();
                let reply = Value::parse(&reply)?;
                let values = reply.elements().iter();
                let found = fields
                    .iter()
                    .zip(values)
                    .filter(|(_, value)| **value != Value::Null);
                let found: Vec<&[u8]> = found.map(|(field, _)| field).collect();
                self.in_parts(&[b"HDEL", &args[1]], &found, &[]);
            }
            Form::State => return None,
            Form::Stored => {
                // An option's argument may be the word STORE, too: one of these keys was changed.
                let mut stored = Vec::new();
                let keys = self.ctx.table[self.ran.index as usize].keys;
                keys.each(args, |at| stored.extend((at > 1).then_some(at)));
                if stored.is_empty() {
                    return None;
                }
                stored.iter().for_each(|at| self.state_of(&args[*at]));
            }
            Form::StateOf(index) => self.state_of(&args[index]),
            Form::Restored => self.restored(),
            Form::ElementDeadlines => {
                let at = if self.command() == "hgetex" { 2 } else { 3 };
                let names = self.counted(at)?;
                self.element_deadlines(names)?;
            }
            Form::MemberDeadline => self.element_deadlines(args.from(2).first(1))?,
            Form::Fields => self.fields()?,
            Form::Members => self.members()?,
            Form::Popped => self.popped()?,
            Form::ServedBy(name) => {
                let reply = self.reply();
                let reply = Value::parse(&reply)?;
                let key = reply.elements().first()?.text();
                self.add(&[name.as_bytes(), key]);
            }
            Form::ServedMany => self.served_many()?,
            Form::Without(name, index) => {
                let mut kept: Vec<&[u8]> = args.iter().collect();
                kept.remove(index);
                kept[0] = name.as_bytes();
                self.add(&kept);
            }
            Form::Added => self.added()?,
            Form::Trimmed => self.trim(args.from(2))?,
            Form::Bits => self.string(&args[2]),
            Form::EntriesDeleted => self.entries_deleted()?,
            Form::GroupNumbered => self.group_numbered()?,
            Form::Delivered => self.delivered()?,
            Form::Invalidated => self.invalidated()?,
        }
        Some(())
    }

    fn same(&mut self) {
        let spec = self.ctx.table[self.ran.index as usize];
        self.batch.add_iter(self.db, named(spec.name, self.args));
    }

    /// Adds INVALIDATE, which has succeeded, with the end of SOFT as an instant.
    fn invalidated(&mut self) -> Option<()> {
        let args = self.args;
        let tags = usize::try_from(parse_i64(&args[1])?).ok()?;
        let Some(ms) = args.get(3 + tags).filter(|_| args.is(2 + tags, "soft")) else {
            self.same();
            return Some(());
        };
        let ms = u64::try_from(parse_i64(ms)?).ok()?;
        let until = self.ctx.view.now().0.saturating_add(ms).min(Tick::MAX.0);
        let text = Text::unsigned(until);
        let mut words: Vec<&[u8]> = vec![b"INVALIDATE", &args[1]];
        words.extend(args.from(2).first(tags).iter());
        words.extend([&b"SOFTAT"[..], text.as_bytes()]);
        self.add(&words);
        Some(())
    }

    /// Adds commands with at most [`NAMES_PER_COMMAND`] names each. There may be more names than a
    /// client may send in one command.
    fn in_parts(&mut self, head: &[&[u8]], names: &[&[u8]], tail: &[&[u8]]) {
        for names in names.chunks(NAMES_PER_COMMAND) {
            self.add(&[head, names, tail].concat());
        }
    }

    /// Returns the names after `WORD number`, which is searched from an index on.
    fn counted(&self, from: usize) -> Option<Args<'c>> {
        let args = self.args;
        let words = ["fields", "members", "ids"];
        let is_word = |at: &usize| words.iter().any(|word| args.is(*at, word));
        let at = (from..args.len()).find(is_word)?;
        let count = std::str::from_utf8(args.get(at + 1)?).ok()?.parse().ok()?;
        Some(args.from(at + 2).first(count))
    }

    /// Adds the tags, the freshness and the protection of a key whose value was added.
    fn marks(&mut self, key: &Key<'_>) {
        add_marks(self.batch, self.ctx.view.view, self.db, key);
    }

    fn string(&mut self, name: &[u8]) {
        let key = self.ctx.key(name);
        let deadline = self.ctx.view.deadline(&key).flatten();
        let deadline = deadline.map(|deadline| Text::unsigned(deadline.0));
        let Ok(Some(value)) = self.ctx.view.peek(&key) else {
            return self.add_deleted(name);
        };
        match &deadline {
            Some(text) => {
                let args = [b"SET", name, value, b"PXAT", text.as_bytes()];
                self.batch.add(self.db, &args);
            }
            None => self.batch.add(self.db, &[b"SET", name, value]),
        }
        self.marks(&key);
    }

    fn strings(&mut self) {
        let args = self.args;
        let mut names = Vec::new();
        let spec = self.ctx.table[self.ran.index as usize];
        spec.keys.each(args, |index| names.push(&args[index]));
        names.into_iter().for_each(|name| self.string(name));
    }

    fn deadline(&mut self) {
        let name = self.arg(1);
        let key = self.ctx.key(name);
        match self.ctx.view.deadline(&key) {
            None => self.add_deleted(name),
            Some(None) => self.add(&[b"PERSIST", name]),
            Some(Some(deadline)) => {
                let text = Text::unsigned(deadline.0);
                self.add(&[b"PEXPIREAT", name, text.as_bytes()]);
            }
        }
    }

    fn restored(&mut self) {
        let (name, payload) = (self.arg(1), self.arg(3));
        let key = self.ctx.key(name);
        let Some(deadline) = self.ctx.view.deadline(&key) else {
            return self.add(&[b"DEL", name]);
        };
        if may_have_deadlines(payload) {
            // Elements that had expired were left out.
            return self.state_of(name);
        }
        let text = Text::unsigned(deadline.map_or(0, |deadline| deadline.0));
        let args = [b"RESTORE", name, text.as_bytes(), payload, b"REPLACE"];
        match deadline {
            None => self.add(&args),
            Some(_) => self.add(&[&args[..], &[b"ABSTTL"]].concat()),
        }
        self.marks(&key);
    }

    /// Adds the current state of all keys of the command.
    fn state(&mut self) {
        let args = self.args;
        let spec = self.ctx.table[self.ran.index as usize];
        let mut names: Vec<&[u8]> = Vec::new();
        if spec.keys != Keys::None {
            spec.keys.each(args, |index| names.push(&args[index]));
        }
        names.into_iter().for_each(|name| self.state_of(name));
    }

    fn state_of(&mut self, name: &[u8]) {
        let key = self.ctx.key(name);
        let deadline = self.ctx.view.deadline(&key).flatten();
        let is_valkey = self.ctx.server.config.number(Id::DumpHashFormat) == 1;
        let Ok(Some(payload)) = payload_of(&mut self.ctx.view, &key, is_valkey) else {
            return self.add(&[b"DEL", name]);
        };
        let text = Text::unsigned(deadline.map_or(0, |deadline| deadline.0));
        let args = [b"RESTORE", name, text.as_bytes(), &payload, b"REPLACE"];
        match deadline {
            None => self.add(&args),
            Some(_) => self.add(&[&args[..], &[b"ABSTTL"]].concat()),
        }
        self.marks(&key);
    }

    /// Adds the current deadlines of elements.
    fn element_deadlines(&mut self, names: Args<'_>) -> Option<()> {
        let name = self.arg(1);
        let key = self.ctx.key(name);
        let Some(kind) = self.ctx.view.kind(&key) else {
            self.add_deleted(name);
            return Some(());
        };
        let deadlines = self.deadlines_of(&key, kind, names)?;
        let commands = commands_of(kind)?;
        self.write_deadlines(&key, &commands, &deadlines, names);
        Some(())
    }

    fn deadlines_of(
        &mut self,
        key: &Key<'_>,
        kind: Kind,
        names: Args<'_>,
    ) -> Option<Vec<ElementDeadline>> {
        let (view, names) = (&mut self.ctx.view, names.iter());
        let found = match kind {
            Kind::Hash => view.read_hash(key, |hash, scene| {
                names.map(|name| hash.deadline(name, scene)).collect()
            }),
            Kind::Set => view.read_set(key, |set, scene| {
                names.map(|name| set.deadline(name, scene)).collect()
            }),
            Kind::SortedSet => view.read_sorted_set(key, |set, scene| {
                names.map(|name| set.deadline(name, scene)).collect()
            }),
            Kind::Stream => view.read_stream(key, |stream, scene| {
                names.map(|name| stream.deadline(name, scene)).collect()
            }),
            _ => return None,
        };
        found.ok()?
    }

    fn write_deadlines(
        &mut self,
        key: &Key<'_>,
        commands: &ElementCommands,
        deadlines: &[ElementDeadline],
        names: Args<'_>,
    ) {
        let mut groups: BTreeMap<ElementDeadline, Vec<&[u8]>> = BTreeMap::new();
        for (name, deadline) in names.iter().zip(deadlines) {
            groups.entry(*deadline).or_default().push(name);
        }
        if !self.may_hold_absent(key) {
            groups.remove(&None);
        }
        let key = self.arg(1);
        for (deadline, names) in groups {
            let count = Text::unsigned(names.len() as u64);
            let at = Text::unsigned(deadline.flatten().map_or(0, |deadline| deadline.0));
            let mut args: Vec<&[u8]> = match deadline {
                None => vec![commands.delete, key],
                Some(None) => vec![commands.persist, key, commands.word, count.as_bytes()],
                Some(Some(_)) => {
                    let word = commands.word;
                    vec![commands.expire, key, at.as_bytes(), word, count.as_bytes()]
                }
            };
            args.extend(names);
            self.add(&args);
        }
    }

    /// Adds the fields of HSETEX and HINCRBYFLOAT.
    fn fields(&mut self) -> Option<()> {
        let args = self.args;
        let names: Vec<&[u8]> = match self.command() == "hsetex" {
            true => {
                let at = (2..args.len()).find(|at| args.is(*at, "fields"))?;
                args.from(at + 2).iter().step_by(2).collect()
            }
            false => vec![&args[2]],
        };
        let name = &args[1];
        let key = self.ctx.key(name);
        let read = |hash: &Hash, scene: &store::Scene<'_>| {
            let one = |field: &&[u8]| {
                let value = hash.get(field, scene)?.to_vec();
                Some((value, hash.deadline(field, scene).flatten()))
            };
            names.iter().map(one).collect::<Vec<_>>()
        };
        let Ok(Some(values)) = self.ctx.view.read_hash(&key, read) else {
            self.add_deleted(name);
            return Some(());
        };
        let may_hold_absent = self.may_hold_absent(&key);
        let mut set: Vec<&[u8]> = vec![b"HSET", name];
        let mut deadlines: BTreeMap<Tick, Vec<&[u8]>> = BTreeMap::new();
        let mut gone: Vec<&[u8]> = vec![b"HDEL", name];
        for (field, value) in names.iter().zip(&values) {
            match value {
                Some((value, deadline)) => {
                    set.extend([field, &value[..]]);
                    if let Some(deadline) = deadline {
                        deadlines.entry(*deadline).or_default().push(field);
                    }
                }
                None if may_hold_absent => gone.push(field),
                None => {}
            }
        }
        for command in [set, gone] {
            if command.len() > 2 {
                self.add(&command);
            }
        }
        for (deadline, fields) in deadlines {
            let at = Text::unsigned(deadline.0);
            let count = Text::unsigned(fields.len() as u64);
            let mut args: Vec<&[u8]> = vec![b"HPEXPIREAT", name, at.as_bytes(), b"FIELDS"];
            args.push(count.as_bytes());
            args.extend(fields);
            self.add(&args);
        }
        Some(())
    }

    /// Adds the members of SADDEX. A member that exists in the end was there or was added.
    fn members(&mut self) -> Option<()> {
        let args = self.args;
        let names = match self.counted(2) {
            Some(names) => names,
            None if args.is(2, "keepttl") => args.from(4),
            None => args.from(3),
        };
        let key = self.ctx.key(&args[1]);
        let Some(deadlines) = self.deadlines_of(&key, Kind::Set, names) else {
            self.add_deleted(&args[1]);
            return Some(());
        };
        let mut present: Vec<&[u8]> = vec![b"SADD", &args[1]];
        let all = names.iter().zip(&deadlines);
        present.extend(all.filter(|(_, at)| at.is_some()).map(|(name, _)| name));
        if present.len() > 2 {
            self.add(&present);
        }
        self.write_deadlines(&key, &commands_of(Kind::Set)?, &deadlines, names);
        Some(())
    }

    fn popped(&mut self) -> Option<()> {
        let reply = self.reply();
        let reply = Value::parse(&reply)?;
        let members: Vec<&[u8]> = match &reply {
            Value::Text(member) => vec![member],
            members => members.elements().iter().map(Value::text).collect(),
        };
        self.in_parts(&[b"SREM", self.arg(1)], &members, &[]);
        Some(())
    }

    /// Adds the removal of what LMPOP, ZMPOP or their blocking forms have returned.
    fn served_many(&mut self) -> Option<()> {
        let args = self.args;
        let at = usize::from(self.command().starts_with('b')) + 1;
        let reply = self.reply();
        let reply = Value::parse(&reply)?;
        let [key, elements] = reply.elements() else {
            return None;
        };
        let words = [
            ("left", "LPOP"),
            ("right", "RPOP"),
            ("min", "ZPOPMIN"),
            ("max", "ZPOPMAX"),
        ];
        let command = words.iter().find_map(|(word, command)| {
            let count: usize = std::str::from_utf8(&args[at]).ok()?.parse().ok()?;
            args.is(at + 1 + count, word).then_some(command)
        })?;
        let count = Text::unsigned(elements.elements().len() as u64);
        self.add(&[command.as_bytes(), key.text(), count.as_bytes()]);
        Some(())
    }
}
