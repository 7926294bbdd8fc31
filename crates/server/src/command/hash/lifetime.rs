//! Commands that read or write fields together with their deadlines: HGETEX, HSETEX, HGETDEL.
//!
//! [`crate::command::element_ttl`] has the nine commands on deadlines alone, for every type.

use crate::command::element_ttl::Timed;
use crate::command::element_ttl::family::{
    Outcome, instant_of, publish_expiration, stored_deadline,
};
use crate::context::Ctx;
use engine::lifetime::{Lifetime, When, is_past};
use engine::refusal::{Answer, Refusal};
use store::{Class, Hash, Instants, Scene, Tick};
use wire::Args;
use wire::number::parse_i64;

/// Options before and after the fields.
#[derive(Default)]
struct Options<'a> {
    lifetime: Lifetime<'a>,
    /// FNX (false): none of the fields may exist; FXX (true): all must exist.
    fields: Option<bool>,
    /// NX (false): the key must not exist; XX (true): it must exist.
    key: Option<bool>,
    /// Index of the first argument after FIELDS and the number of arguments in the list.
    names: Option<(usize, usize)>,
}

impl<'a> Options<'a> {
    /// Parses all arguments after the key. `per_field` is the number of arguments per field: 1, or
    /// 2 with values. `may_set` enables the conditions of HSETEX.
    fn parse(args: Args<'a>, per_field: usize, may_set: bool) -> Result<Options<'a>, Refusal> {
        let mut options = Options::default();
        let mut index = 2;
        while let Some(word) = args.get(index) {
            let taken = options.lifetime.take(word, args.get(index + 1))?;
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            index += match word {
                _ if taken > 0 => taken,
                _ if is("FIELDS") && options.names.is_none() => {
                    let words = Hash::WORDS;
                    let count = args.get(index + 1).and_then(parse_i64);
                    let count = count.filter(|&count| count > 0);
                    let count = count.ok_or(Refusal::Message(words.none))? as usize;
                    let len = count.saturating_mul(per_field);
                    if len > args.len().saturating_sub(index + 2) {
                        return Err(Refusal::Message(words.uneven));
                    }
                    options.names = Some((index + 2, len));
                    2 + len
                }
                _ if may_set && (is("FNX") || is("FXX")) => {
                    let wanted = is("FXX");
                    if options.fields.is_some_and(|other| other != wanted) {
                        return Err(Refusal::Syntax);
                    }
                    options.fields = Some(wanted);
                    1
                }
                _ if may_set && (is("NX") || is("XX")) => {
                    let wanted = is("XX");
                    if options.key.is_some_and(|other| other != wanted) {
                        return Err(Refusal::Syntax);
                    }
                    options.key = Some(wanted);
                    1
                }
                // There are more fields than the number states, or the word is not an option.
                _ if options.names.is_some_and(|(at, len)| index == at + len) => {
                    return Err(Refusal::Message(Hash::WORDS.uneven));
                }
                _ => return Err(Refusal::Syntax),
            };
        }
        if options.names.is_none() {
            return Err(Refusal::Message(Hash::WORDS.missing));
        }
        Ok(options)
    }

    /// Returns the indexes of the arguments in the list of fields.
    fn names(&self) -> std::ops::Range<usize> {
        let (at, len) = self.names.expect("it was parsed");
        at..at + len
    }

    /// Returns the requested expiration time, if any.
    fn when(&self, now: Tick, command: &'static str) -> Result<Option<When>, Refusal> {
        match self.lifetime {
            Lifetime::Until(unit, base, text) => {
                let when = instant_of(text, unit, base, now, command)?;
                Ok(Some(when.min(Hash::DEADLINE_MAX)))
            }
            _ => Ok(None),
        }
    }
}

/// `HGETEX key [EX seconds | PX milliseconds | EXAT seconds | PXAT milliseconds | PERSIST] FIELDS n
/// field …`: a deadline in the past expires the fields after they are read.
pub fn hgetex(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let options = Options::parse(args, 1, false)?;
    if options.lifetime == Lifetime::Keep {
        return Err(Refusal::Syntax);
    }
    let Instants { now, horizon } = ctx.view.instants();
    let when = options.when(now, "hgetex")?;
    let key = ctx.key(&args[1]);
    ctx.reply.array(options.names().len());
    let (reply, mut replied) = (&mut ctx.reply, 0);
    let mut reply_value = |hash: &Hash, field: &[u8], scene: &Scene<'_>| {
        match hash.get(field, scene) {
            Some(value) => reply.bulk(value),
            None => reply.null(),
        }
        replied += 1;
    };
    let changes = when.is_some() || options.lifetime == Lifetime::Persist;
    let deadline = when.map(|when| stored_deadline(when, horizon));
    let mut edited = None;
    if changes {
        // Counts a hit or a miss.
        ctx.view.touch(&key);
        // A field that occurs twice and has expired at its first occurrence does not exist at the
        // second.
        edited = ctx.view.edit_hash(&key, false, |hash, scene| {
            let mut has_changed = false;
            for field in options.names().map(|index| &args[index]) {
                reply_value(hash, field, scene);
                let old = hash.deadline(field, scene);
                if old.is_some_and(|old| deadline.is_some() || old.is_some()) {
                    hash.set_deadline(field, deadline, scene);
                    has_changed = true;
                }
            }
            has_changed.then_some(())
        })?;
    } else {
        ctx.view.read_hash(&key, |hash, scene| {
            for field in options.names().map(|index| &args[index]) {
                reply_value(hash, field, scene);
            }
        })?;
    }
    if replied == 0 {
        options.names().for_each(|_| ctx.reply.null());
        ctx.missed(&key);
    }
    if edited.is_some() {
        match when {
            None => ctx.view.notify(Class::Hash, Hash::WORDS.persist, &key),
            Some(when) => {
                let is_past = is_past(when, horizon);
                let is_set = !is_past;
                publish_expiration::<Hash>(ctx, &key, Outcome { is_set, is_past });
            }
        }
    }
    Ok(())
}

/// `HSETEX key [NX | XX] [FNX | FXX] [EX seconds | PX milliseconds | EXAT seconds | PXAT
/// milliseconds | KEEPTTL] FIELDS n field value …`: replies 1 if the conditions hold and all fields
/// are set, else 0. With a deadline in the past the fields are set and expire at once; both events
/// are published.
pub fn hsetex(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let options = Options::parse(args, 2, true)?;
    if options.lifetime == Lifetime::Persist {
        return Err(Refusal::Syntax);
    }
    let Instants { now, horizon } = ctx.view.instants();
    let when = options.when(now, "hsetex")?;
    let deadline = when.map(|when| stored_deadline(when, horizon));
    let key = ctx.key(&args[1]);
    let is_there = options.key.map(|_| ctx.view.kind(&key).is_some());
    let may_set = options.key == is_there;
    let keeps = options.lifetime == Lifetime::Keep;
    let edited = ctx.view.edit_hash(&key, true, |hash, scene| {
        let mut fields = options.names().step_by(2).map(|index| &args[index]);
        let holds = options
            .fields
            .is_none_or(|wanted| fields.all(|field| hash.get(field, scene).is_some() == wanted));
        if !holds || !may_set {
            return None;
        }
        for index in options.names().step_by(2) {
            let (field, value) = (&args[index], &args[index + 1]);
            if keeps || deadline.is_some() {
                hash.set_keeping(field, value, scene);
            } else {
                hash.set(field, value, scene);
            }
            // An expired field that occurs twice in the list is set twice and has its deadline set
            // again.
            if deadline.is_some() {
                hash.set_deadline(field, deadline, scene);
            }
        }
        Some(())
    })?;
    if let Some(edited) = &edited {
        ctx.edited(&key, edited, Class::Hash, "hset");
        let is_past = when.is_some_and(|when| is_past(when, horizon));
        let is_set = when.is_some();
        publish_expiration::<Hash>(ctx, &key, Outcome { is_set, is_past });
    }
    ctx.reply.integer(i64::from(edited.is_some()));
    Ok(())
}

/// `HGETDEL key FIELDS n field …`
pub fn hgetdel(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let words = Hash::WORDS;
    if !args.is(2, words.counted) {
        return Err(Refusal::Message(words.missing));
    }
    let count = parse_i64(&args[3]).filter(|&count| count > 0);
    let count = count.ok_or(Refusal::Message(words.none))?;
    let fields = args.from(4);
    if usize::try_from(count) != Ok(fields.len()) {
        return Err(Refusal::Message(words.uneven));
    }
    let key = ctx.key(&args[1]);
    ctx.reply.array(fields.len());
    let (reply, mut replied) = (&mut ctx.reply, 0);
    let edited = ctx.view.edit_hash(&key, false, |hash, scene| {
        let mut has_changed = false;
        for field in fields.iter() {
            match hash.get(field, scene) {
                Some(value) => reply.bulk(value),
                None => reply.null(),
            }
            replied += 1;
            has_changed |= hash.remove(field, scene);
        }
        has_changed.then_some(())
    })?;
    if replied == 0 {
        fields.iter().for_each(|_| ctx.reply.null());
        ctx.missed(&key);
    }
    if let Some(edited) = &edited {
        ctx.edited(&key, edited, Class::Hash, "hdel");
    }
    Ok(())
}
