//! Commands that add entries, and that trim streams: XADD, XTRIM.

use super::arguments::{integer, plain_id, references};
use super::reply;
use crate::command::element_ttl::family::{instant_of, stored_deadline};
use crate::context::Ctx;
use engine::lifetime::{Base, Unit};
use engine::refusal::{Answer, Refusal};
use store::stream::{References, StreamId, Trim, TrimTo, Trimmed};
use store::{Class, Instants, Scene, Stream, Tick};
use wire::Args;
use wire::number::parse_i64;

const TWO_STRATEGIES: Refusal = Refusal::Message(
    "ERR syntax error, MAXLEN and MINID options at the same time are not compatible",
);
const TWO_MESSAGES: Refusal =
    Refusal::Message("ERR syntax error, IDMP/IDMPAUTO specified multiple times");
const TOO_SMALL: Refusal = Refusal::Message(
    "ERR The ID specified in XADD is equal or smaller than the target stream top item",
);
const EXHAUSTED: Refusal =
    Refusal::Message("ERR The stream has exhausted the last possible ID, unable to add more items");
const TOO_OLD: Refusal = Refusal::Message(
    "ERR The time in the ID specified in XADD is older than the maximum age of the stream",
);
const WRONG_AGE: &str =
    "ERR invalid maximum age: expected milliseconds between 1 and 281474976710655";
/// Numbers of entries that a trim with `~` removes at most: by default a hundred blocks, and the
/// range of that number.
const BLOCKS_PER_TRIM: i64 = 100;
const TRIM_DEFAULT: u64 = 10_000;
const TRIM_MAX: u64 = 1_000_000;

/// Parses a maximum age in milliseconds.
pub(super) fn max_age(text: &[u8]) -> Result<u64, Refusal> {
    let age = parse_i64(text).and_then(|age| u64::try_from(age).ok());
    let age = age.filter(|age| (1..=Tick::MAX.0).contains(age));
    age.ok_or(Refusal::Message(WRONG_AGE))
}

/// ID of a new entry in the arguments.
#[derive(Clone, Copy)]
enum NewId {
    /// `*`
    Next,
    /// `ms-*`
    NextWithin(u64),
    Given(StreamId),
}

/// A producer and, unless it must be derived from the fields, its message.
type Message<'a> = (&'a [u8], Option<&'a [u8]>);

/// Options of XADD and XTRIM.
struct Options<'a> {
    to: Option<TrimTo>,
    is_approximate: bool,
    limit: Option<u64>,
    references: Option<References>,
    may_create: bool,
    message: Option<Message<'a>>,
    max_age_ms: Option<u64>,
    /// Unit, base and number of the entry's own deadline.
    deadline: Option<(Unit, Base, &'a [u8])>,
}

impl<'a> Options<'a> {
    fn new() -> Options<'a> {
        Options {
            to: None,
            is_approximate: false,
            limit: None,
            references: None,
            may_create: true,
            message: None,
            max_age_ms: None,
            deadline: None,
        }
    }

    /// Parses an option that both commands have. Returns the number of its arguments, or 0 for any
    /// other option.
    fn take(&mut self, args: Args<'a>, index: usize) -> Result<usize, Refusal> {
        let word = &args[index];
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        let more = args.len() - index - 1;
        if (is("MAXLEN") || is("MINID")) && more > 0 {
            return self.take_strategy(args, index, is("MAXLEN"));
        }
        if is("LIMIT") && more > 0 {
            let limit = u64::try_from(integer(&args[index + 1])?);
            let limit =
                limit.map_err(|_| Refusal::Message("ERR The LIMIT argument must be >= 0."))?;
            self.limit = Some(limit);
            return Ok(2);
        }
        match references(word) {
            Some(references) if self.references.is_none() => {
                self.references = Some(references);
                Ok(1)
            }
            _ => Ok(0),
        }
    }

    fn take_strategy(
        &mut self,
        args: Args<'a>,
        index: usize,
        is_length: bool,
    ) -> Result<usize, Refusal> {
        if self.to.is_some() {
            return Err(TWO_STRATEGIES);
        }
        let has_sign = args.len() > index + 2 && matches!(&args[index + 1], b"~" | b"=");
        self.is_approximate = has_sign && &args[index + 1] == b"~";
        let at = index + 1 + usize::from(has_sign);
        self.to = Some(if is_length {
            let max = u64::try_from(integer(&args[at])?);
            TrimTo::Length(
                max.map_err(|_| Refusal::Message("ERR The MAXLEN argument must be >= 0."))?,
            )
        } else {
            TrimTo::Id(plain_id(&args[at])?)
        });
        Ok(at + 1 - index)
    }

    /// Parses an option of XADD only. Returns the number of its arguments, 0 for other words.
    fn take_of_add(&mut self, args: Args<'a>, index: usize) -> Result<usize, Refusal> {
        let word = &args[index];
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        let next = args.get(index + 1);
        let until = match word {
            _ if is("NOMKSTREAM") => {
                self.may_create = false;
                return Ok(1);
            }
            _ if is("EX") => Some((Unit::Seconds, Base::Now)),
            _ if is("PX") => Some((Unit::Milliseconds, Base::Now)),
            _ if is("EXAT") => Some((Unit::Seconds, Base::Epoch)),
            _ if is("PXAT") => Some((Unit::Milliseconds, Base::Epoch)),
            _ => None,
        };
        match (until, next) {
            (Some((unit, base)), Some(number)) => {
                if self.deadline.is_some() {
                    return Err(Refusal::Syntax);
                }
                self.deadline = Some((unit, base, number));
                Ok(2)
            }
            (None, Some(age)) if is("MAXAGE") => {
                self.max_age_ms = Some(max_age(age)?);
                Ok(2)
            }
            (None, Some(producer)) if is("IDMPAUTO") || is("IDMP") => self.take_message(
                producer,
                args.get(index + 2).filter(|_| is("IDMP")),
                is("IDMP"),
            ),
            _ => Ok(0),
        }
    }

    fn take_message(
        &mut self,
        producer: &'a [u8],
        message: Option<&'a [u8]>,
        is_explicit: bool,
    ) -> Result<usize, Refusal> {
        if is_explicit && message.is_none() {
            return Ok(0);
        }
        if self.message.is_some() {
            return Err(TWO_MESSAGES);
        }
        if producer.is_empty() {
            return Err(Refusal::Message(match is_explicit {
                true => "ERR syntax error, IDMP requires a non-empty producer ID",
                false => "ERR syntax error, IDMPAUTO requires a non-empty producer ID",
            }));
        }
        if message.is_some_and(<[u8]>::is_empty) {
            return Err(Refusal::Message(
                "ERR syntax error, IDMP requires a non-empty idempotent ID",
            ));
        }
        self.message = Some((producer, message));
        Ok(2 + usize::from(is_explicit))
    }

    /// Returns the trim that the options describe.
    fn trim(&self, block_entries: i64) -> Result<Option<Trim>, Refusal> {
        let Some(to) = self.to else {
            return match self.limit {
                None | Some(0) => Ok(None),
                Some(_) => Err(Refusal::Message(
                    "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy",
                )),
            };
        };
        let limit = match self.limit {
            Some(_) if !self.is_approximate => {
                return Err(Refusal::Message(
                    "ERR syntax error, LIMIT cannot be used without the special ~ option",
                ));
            }
            Some(limit) => Some(limit).filter(|limit| *limit > 0),
            None if self.is_approximate => {
                let limit = u64::try_from(block_entries.saturating_mul(BLOCKS_PER_TRIM));
                let limit = limit.ok().filter(|limit| *limit > 0);
                Some(limit.unwrap_or(TRIM_DEFAULT).min(TRIM_MAX))
            }
            None => None,
        };
        Ok(Some(Trim {
            to,
            is_approximate: self.is_approximate,
            limit,
            references: self.references.unwrap_or_default(),
        }))
    }
}

/// Parsed arguments of XADD.
struct AddRequest<'a> {
    options: Options<'a>,
    id: NewId,
    trim: Option<Trim>,
    fields: Args<'a>,
    deadline: Option<Tick>,
}

impl<'a> AddRequest<'a> {
    fn parse(
        args: Args<'a>,
        instants: Instants,
        block_entries: i64,
    ) -> Result<AddRequest<'a>, Refusal> {
        let (mut options, mut index, mut id) = (Options::new(), 2, NewId::Next);
        while let Some(word) = args.get(index) {
            if word == b"*" {
                break;
            }
            let taken = match options.take(args, index)? {
                0 => options.take_of_add(args, index)?,
                taken => taken,
            };
            if taken == 0 {
                id = new_id(word)?;
                if options.message.is_some() {
                    return Err(Refusal::Message(
                        "ERR syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs",
                    ));
                }
                break;
            }
            index += taken;
        }
        let trim = options.trim(block_entries)?;
        let fields = args.from(index + 1);
        if fields.len() < 2 || fields.len() % 2 == 1 {
            return Err(Refusal::Arity("xadd"));
        }
        if let NewId::Given(StreamId::MIN) = id {
            return Err(Refusal::Message(
                "ERR The ID specified in XADD must be greater than 0-0",
            ));
        }
        let when = options
            .deadline
            .map(|(unit, base, text)| instant_of(text, unit, base, instants.now, "xadd"));
        let deadline = when
            .transpose()?
            .map(|when| stored_deadline(when, instants.horizon));
        Ok(AddRequest {
            options,
            id,
            trim,
            fields,
            deadline,
        })
    }

    /// Returns the fields with their values.
    fn pairs(&self) -> impl ExactSizeIterator<Item = (&'a [u8], &'a [u8])> + Clone + use<'a> {
        let fields = self.fields;
        let pair = move |n: usize| (fields.get(2 * n), fields.get(2 * n + 1));
        (0..fields.len() / 2).map(move |n| match pair(n) {
            (Some(name), Some(value)) => (name, value),
            _ => unreachable!("the number of arguments is even"),
        })
    }

    /// Returns the ID of the new entry in a stream.
    fn id_in(&self, stream: &Stream, scene: &Scene<'_>) -> Result<StreamId, Refusal> {
        let last = stream.facts().last_id;
        let next = stream.next_id(scene).ok_or(EXHAUSTED)?;
        let id = match self.id {
            NewId::Next => next,
            NewId::NextWithin(ms) if ms == last.ms => {
                StreamId::new(ms, last.seq.checked_add(1).ok_or(TOO_SMALL)?)
            }
            NewId::NextWithin(ms) => StreamId::new(ms, 0),
            NewId::Given(id) => id,
        };
        if id <= last {
            return Err(TOO_SMALL);
        }
        if stream.is_too_old(id, scene) {
            return Err(TOO_OLD);
        }
        Ok(id)
    }

    /// Adds the entry, unless the message was already sent.
    fn add(&self, stream: &mut Stream, scene: &Scene<'_>) -> Result<Added, Refusal> {
        let derived;
        let message = match self.options.message {
            Some((producer, Some(message))) => Some((producer, message)),
            Some((producer, None)) => {
                derived = scene.fingerprint(self.pairs());
                Some((producer, &derived[..]))
            }
            None => None,
        };
        let sent = message.and_then(|(producer, text)| stream.find_message(producer, text, scene));
        if let Some(id) = sent {
            stream.count_duplicate();
            return Ok(Added::Before(id));
        }
        let id = self.id_in(stream, scene)?;
        if let Some(age) = self.options.max_age_ms {
            // The age is set only if the entry can be added.
            if id.ms < scene.horizon.0.saturating_sub(age) {
                return Err(TOO_OLD);
            }
            if age != stream.facts().max_age_ms {
                stream.set_max_age(age, scene);
            }
        }
        stream.add(id, self.deadline, self.pairs(), scene);
        if let Some((producer, text)) = message {
            stream.add_message(producer, text, id);
        }
        let trimmed = self
            .trim
            .as_ref()
            .map_or(0, |trim| stream.trim_to(trim, scene).entries);
        Ok(Added::New { id, trimmed })
    }
}

/// Result of an addition.
enum Added {
    /// The entry was added, and some were trimmed.
    New { id: StreamId, trimmed: u64 },
    /// The message had already become this entry.
    Before(StreamId),
}

/// Parses the ID of a new entry.
fn new_id(text: &[u8]) -> Result<NewId, Refusal> {
    match text.strip_suffix(b"-*") {
        Some(ms) if !ms.is_empty() => Ok(NewId::NextWithin(plain_id(ms)?.ms)),
        _ => Ok(NewId::Given(plain_id(text)?)),
    }
}

/// `XADD key [NOMKSTREAM] [KEEPREF | DELREF | ACKED] [IDMPAUTO producer | IDMP producer message]
/// [MAXLEN | MINID [= | ~] threshold [LIMIT count]] [MAXAGE milliseconds] [EX seconds | PX
/// milliseconds | EXAT seconds | PXAT milliseconds] * | id field value …`
pub fn xadd(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let scene = ctx.view.scene();
    let request = AddRequest::parse(args, ctx.view.instants(), scene.limits.stream_entries())?;
    let key = ctx.key(&args[1]);
    let (mut refusal, mut before) = (None, None);
    let edit = |stream: &mut Stream, scene: &Scene<'_>| match request.add(stream, scene) {
        Ok(Added::New { id, trimmed }) => Some((id, trimmed)),
        Ok(Added::Before(id)) => {
            before = Some(id);
            None
        }
        Err(error) => {
            refusal = Some(error);
            None
        }
    };
    let edited = ctx
        .view
        .edit_stream(&key, request.options.may_create, edit)?;
    if let Some(refusal) = refusal {
        return Err(refusal);
    }
    if let Some(edited) = &edited {
        ctx.edited(&key, edited, Class::Stream, "xadd");
        if edited.result.1 > 0 {
            ctx.view.notify(Class::Stream, "xtrim", &key);
        }
    }
    match edited.map(|edited| edited.result.0).or(before) {
        Some(id) => reply::id(&mut ctx.reply, id),
        None => ctx.reply.null(),
    }
    Ok(())
}

/// `XTRIM key MAXLEN | MINID [= | ~] threshold [LIMIT count] [KEEPREF | DELREF | ACKED]`
pub fn xtrim(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let (mut options, mut index) = (Options::new(), 2);
    while index < args.len() {
        index += match options.take(args, index)? {
            0 => return Err(Refusal::Syntax),
            taken => taken,
        };
    }
    let block_entries = ctx.view.scene().limits.stream_entries();
    let trim = options.trim(block_entries)?.ok_or(Refusal::Message(
        "ERR syntax error, XTRIM must be called with a trimming strategy",
    ))?;
    let key = ctx.key(&args[1]);
    let edited = ctx.view.edit_stream(&key, false, |stream, scene| {
        Some(stream.trim_to(&trim, scene)).filter(|trimmed| !trimmed.is_empty())
    })?;
    let trimmed: Trimmed = edited.map(|edited| edited.result).unwrap_or_default();
    let count = trimmed.entries;
    if count > 0 {
        ctx.view.notify(Class::Stream, "xtrim", &key);
    }
    ctx.reply.integer(count as i64);
    Ok(())
}
