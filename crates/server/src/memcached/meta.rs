//! The meta commands.
//!
//! Marks against stampedes: `md … I` leaves an item in place as stale. The first client that reads
//! it afterwards wins (`W`) the right to recache it; other clients are informed that it is stale
//! (`X`) and that another client has won (`Z`). `mg … N` creates an empty item on a miss and lets
//! the requesting client win. `mg … R` does so if the remaining TTL is below the given number of
//! seconds.

use super::answers::{NO_NUMBER, OUT_OF_MEMORY, TOO_LARGE, WRONG_TYPE};
use super::turn::Turn;
use engine::items::{
    CountError, CountRequest, ItemFacts, Items, ReadFields, RemoveOutcome, RemoveRequest,
    StoreOutcome, StoreRequest, TouchOutcome, seconds_until,
};
use engine::lifetime::DeadlineChange;
use store::{ItemHead, Key, Tick};
use wire::memcached::meta::{Item, OF_ARITHMETIC, OF_GET, item, letters, status};
use wire::memcached::text::line;
use wire::memcached::{Expiration, KEY_BYTES_MAX, Meta, Mode, Request, Verb};
use wire::number::Text;

/// Writes a status line with the given return code.
fn answer<E: Items>(turn: &mut Turn<'_, E>, word: &str) {
    let stores = turn.request.verb == Verb::MetaSet;
    let stored = stores.then(|| (0, turn.request.value.range().len()));
    answer_stored(turn, word, stored);
}

/// Writes a status line with the CAS number and the size of a stored value.
fn answer_stored<E: Items>(turn: &mut Turn<'_, E>, word: &str, stored: Option<(u64, usize)>) {
    let key = turn.sent_key(0);
    status(turn.out, word, &turn.request.meta, turn.input, key, stored);
}

/// Writes the reply about an item, with its value if it was requested.
fn answer_of<E: Items>(turn: &mut Turn<'_, E>, shown: &Item<'_>, value: &[u8]) {
    let meta = &turn.request.meta;
    let letters = match turn.request.verb {
        Verb::MetaGet => OF_GET,
        _ => OF_ARITHMETIC,
    };
    item(turn.out, meta, turn.input, letters, shown);
    if shown.has_value {
        turn.out.extend_from_slice(value);
        turn.out.extend_from_slice(b"\r\n");
    }
}

/// Flags of a request in their order, and the time that their exptimes are relative to.
#[derive(Clone, Copy)]
struct Flags<'a> {
    request: &'a Request,
    input: &'a [u8],
    now: Tick,
    /// The flag that has set a deadline, and the stored deadline, which may be earlier than
    /// requested.
    kept: Option<(u8, Option<Tick>)>,
}

impl<'a> Flags<'a> {
    fn of<E: Items>(turn: &Turn<'a, E>) -> Flags<'a> {
        Flags {
            request: turn.request,
            input: turn.input,
            now: turn.engine.now(),
            kept: None,
        }
    }

    /// Returns the flags with the information that flag `by` has set this deadline.
    fn kept(self, by: u8, deadline: Option<Tick>) -> Flags<'a> {
        let kept = Some((by, deadline));
        Flags { kept, ..self }
    }

    /// Remaining seconds for an exptime; `None` without a deadline.
    fn seconds(&self, exptime: i64) -> Option<u64> {
        match Expiration::of(exptime, self.now.0) {
            Expiration::Never => None,
            Expiration::At(at) => Some((at - self.now.0).div_ceil(1000)),
            Expiration::Past => Some(0),
        }
    }

    /// Remaining seconds that a flag reports. Flags apply in their order: those before T and N
    /// report the old TTL.
    fn ttl_before(&self, flag: u8, was: Option<u64>, is_new: bool) -> Option<u64> {
        let meta = &self.request.meta;
        let mut left = was;
        for letter in letters(meta, self.input) {
            let wish = match letter {
                letter if letter == flag => break,
                b'T' => self.seconds(self.request.exptime),
                b'N' if is_new => self.seconds(meta.vivify),
                _ => continue,
            };
            left = match self.kept {
                Some((by, deadline)) if by == letter => seconds_until(deadline, self.now),
                _ => wish,
            };
        }
        left
    }

    /// The flag that sets the TTL of an item created on a miss, and its exptime: the last of N and
    /// T.
    fn new_exptime(&self) -> (u8, i64) {
        let meta = &self.request.meta;
        let last = letters(meta, self.input)
            .filter(|letter| b"NT".contains(letter))
            .last();
        match last {
            Some(b'T') => (b'T', self.request.exptime),
            _ => (b'N', meta.vivify),
        }
    }

    /// Remaining seconds that flag t reports of an item created on a miss with this deadline.
    fn ttl_of_new(self, deadline: Option<Tick>) -> Option<u64> {
        let by = self.new_exptime().0;
        self.kept(by, deadline).ttl_before(b't', None, true)
    }
}

pub(super) fn get<E: Items>(turn: &mut Turn<'_, E>) {
    let mut room = [0; KEY_BYTES_MAX];
    let key = turn.meant(&mut room);
    let meta = turn.request.meta;
    let touched = touch_first(turn, &key);
    loop {
        let read = read(turn, &key, touched);
        if read == Ok(true) {
            break;
        }
        if read.is_err() && meta.has(b'N') {
            turn.count_get(false);
            return line(turn.out, WRONG_TYPE);
        }
        // If another client has created the item in the meantime, it is read.
        if miss(turn, &key) {
            return turn.count_get(false);
        }
    }
    match meta.has(b'T') {
        true => turn.count_touch(true),
        false => turn.count_get(true),
    }
    if meta.has(b'T') && touched.is_none() {
        let expiration = turn.deadline_change(turn.request.exptime);
        turn.engine.touch(&key, expiration);
    }
}

/// Deadlines of an item before and after it was touched.
#[derive(Clone, Copy)]
struct Deadlines {
    before: Option<Tick>,
    since: Option<Tick>,
}

/// Sets the requested TTL before the item is read if the reply reports it, so that the reply
/// reports the stored deadline. A TTL that deletes the item is applied after the read.
fn touch_first<E: Items>(turn: &mut Turn<'_, E>, key: &Key<'_>) -> Option<Deadlines> {
    let (meta, expiration) = (
        turn.request.meta,
        turn.deadline_change(turn.request.exptime),
    );
    if !meta.has(b'T') || !meta.has(b't') || expiration == DeadlineChange::Past {
        return None;
    }
    let before = turn.engine.describe(key)?.0.deadline;
    let since = match turn.engine.touch(key, expiration) {
        TouchOutcome::Yes(since) => since,
        TouchOutcome::Full => before,
        TouchOutcome::NotFound => return None,
    };
    Some(Deadlines { before, since })
}

/// Whether the reply to `mg` contains the value of an item with this CAS number. With the number of
/// flag C, the client has that value already.
fn sends_value(meta: &Meta, cas: u64) -> bool {
    meta.has(b'v') && !(meta.has(b'C') && meta.cas == cas)
}

/// Reads an item and marks it: as fetched, and with a winner if this client wins.
fn read<E: Items>(
    turn: &mut Turn<'_, E>,
    key: &Key<'_>,
    touched: Option<Deadlines>,
) -> Result<bool, store::WrongType> {
    let (mut flags, sent) = (Flags::of(turn), turn.sent_key(0));
    if let Some(touched) = touched {
        flags = flags.kept(b'T', touched.since);
    }
    let meta = turn.request.meta;
    let fields = ReadFields {
        value: meta.has(b'v'),
        value_bytes_max: turn.read_bytes_max(),
        deadline: meta.has(b't') || meta.has(b'R'),
        idle: meta.has(b'l'),
        is_peek: meta.has(b'u'),
    };
    let (mut is_sent, mut value_at) = (false, 0);
    let is_there = turn.engine.read(key, fields, turn.out, |out, facts| {
        let head = facts.head;
        is_sent = sends_value(&meta, head.cas);
        let was = match touched {
            Some(touched) => seconds_until(touched.before, flags.now),
            None => facts.seconds_left(flags.now),
        };
        let is_late = |left: u64| (left as i64) < meta.recache;
        let recaches = meta.has(b'R') && flags.ttl_before(b'R', was, false).is_some_and(is_late);
        let has_won = (recaches || head.is_stale) && !head.has_winner;
        let marked = ItemHead {
            has_winner: head.has_winner || has_won,
            is_fetched: head.is_fetched || !meta.has(b'u'),
            ..head
        };
        let shown = Item {
            key: sent,
            len: facts.len,
            has_value: is_sent,
            client_flags: head.client_flags,
            cas: head.cas,
            ttl_seconds: flags.ttl_before(b't', was, false),
            idle_seconds: facts.idle_ms.unwrap_or(0) / 1000,
            was_hit: head.is_fetched,
            has_won,
            is_stale: head.is_stale,
            is_taken: head.has_winner,
        };
        item(out, &meta, flags.input, OF_GET, &shown);
        value_at = out.len();
        marked
    })?;
    match is_sent {
        true => turn.out.extend_from_slice(b"\r\n"),
        // The engine has appended the value before its cas number could be compared.
        false if is_there => turn.out.truncate(value_at),
        false => {}
    }
    Ok(is_there)
}

/// Returns the CAS number that the client has chosen.
fn new_cas(meta: &Meta) -> Option<u64> {
    meta.has(b'E').then_some(meta.new_cas)
}

/// Answers a miss, for which an item may be created. Returns false if another client has created
/// one in the meantime.
fn miss<E: Items>(turn: &mut Turn<'_, E>, key: &Key<'_>) -> bool {
    let meta = turn.request.meta;
    if !meta.has(b'N') {
        if !meta.has(b'q') {
            answer(turn, "EN");
        }
        return true;
    }
    let made = make(turn, key, b"", true);
    match made {
        StoreOutcome::Yes(stored) => {
            let shown = Item {
                key: turn.sent_key(0),
                has_value: sends_value(&meta, stored.cas),
                cas: stored.cas,
                ttl_seconds: Flags::of(turn).ttl_of_new(stored.deadline),
                has_won: true,
                ..Item::default()
            };
            answer_of(turn, &shown, b"");
        }
        StoreOutcome::Full => line(turn.out, OUT_OF_MEMORY),
        StoreOutcome::TooLarge => line(turn.out, TOO_LARGE),
        StoreOutcome::WrongType => line(turn.out, WRONG_TYPE),
        StoreOutcome::No | StoreOutcome::Exists | StoreOutcome::NotFound => return false,
    }
    true
}

/// Creates a missing item with the TTL that the flags state.
fn make<E: Items>(
    turn: &mut Turn<'_, E>,
    key: &Key<'_>,
    value: &[u8],
    has_winner: bool,
) -> StoreOutcome {
    let request = StoreRequest {
        mode: Mode::Add,
        expiration: turn.deadline_change(Flags::of(turn).new_exptime().1),
        new_cas: new_cas(&turn.request.meta),
        has_winner,
        is_fetched: has_winner && !turn.request.meta.has(b'u'),
        ..StoreRequest::plain(value)
    };
    let outcome = turn.engine.store(key, &request);
    if matches!(outcome, StoreOutcome::Yes(_)) {
        turn.add(|counts| &counts.stored);
    }
    outcome
}

pub(super) fn set<E: Items>(turn: &mut Turn<'_, E>) {
    let mut room = [0; KEY_BYTES_MAX];
    let key = turn.meant(&mut room);
    let meta = turn.request.meta;
    let is_joining = matches!(meta.mode, Mode::Append | Mode::Prepend);
    let exptime = if is_joining && meta.has(b'N') {
        meta.vivify
    } else {
        turn.request.exptime
    };
    let request = StoreRequest {
        mode: meta.mode,
        client_flags: turn.request.client_flags,
        expiration: turn.deadline_change(exptime),
        cas: meta.has(b'C').then_some(meta.cas),
        new_cas: new_cas(&meta),
        may_be_stale: meta.has(b'I'),
        value_bytes_max: turn.item_bytes_max(),
        vivifies: meta.has(b'N'),
        ..StoreRequest::plain(&turn.input[turn.request.value.range()])
    };
    let outcome = turn.engine.store(&key, &request);
    turn.count_store(outcome, request.cas.is_some());
    let word = match outcome {
        StoreOutcome::Yes(_) if meta.has(b'q') => return,
        StoreOutcome::Yes(stored) => {
            return answer_stored(turn, "HD", Some((stored.cas, stored.len)));
        }
        StoreOutcome::No => "NS",
        StoreOutcome::Exists => "EX",
        StoreOutcome::NotFound => "NF",
        StoreOutcome::Full => return line(turn.out, OUT_OF_MEMORY),
        StoreOutcome::TooLarge => return line(turn.out, TOO_LARGE),
        StoreOutcome::WrongType => return line(turn.out, WRONG_TYPE),
    };
    answer(turn, word);
}

pub(super) fn delete<E: Items>(turn: &mut Turn<'_, E>) {
    let mut room = [0; KEY_BYTES_MAX];
    let key = turn.meant(&mut room);
    let meta = turn.request.meta;
    let request = RemoveRequest {
        cas: meta.has(b'C').then_some(meta.cas),
        makes_stale: meta.has(b'I'),
        drops_value: meta.has(b'x'),
        new_cas: new_cas(&meta),
        expiration: match meta.has(b'T') {
            true => Some(turn.deadline_change(turn.request.exptime)),
            false => None,
        },
    };
    let outcome = turn.engine.remove_if(&key, &request);
    turn.count_delete(&key, outcome);
    match outcome {
        RemoveOutcome::Yes if meta.has(b'q') => {}
        RemoveOutcome::Yes => answer(turn, "HD"),
        RemoveOutcome::NotFound => answer(turn, "NF"),
        RemoveOutcome::Exists => answer(turn, "EX"),
        RemoveOutcome::Full => line(turn.out, OUT_OF_MEMORY),
        RemoveOutcome::WrongType => line(turn.out, WRONG_TYPE),
    }
}

pub(super) fn arithmetic<E: Items>(turn: &mut Turn<'_, E>) {
    let mut room = [0; KEY_BYTES_MAX];
    let key = turn.meant(&mut room);
    let meta = turn.request.meta;
    let request = CountRequest {
        delta: meta.delta,
        is_down: meta.mode == Mode::Decrement,
        cas: meta.has(b'C').then_some(meta.cas),
        new_cas: new_cas(&meta),
        asks_deadline: meta.has(b't'),
    };
    loop {
        match turn.count(&key, &request) {
            Ok((number, facts)) => return counted(turn, &key, number, &facts),
            Err(CountError::NotFound) => {
                // If another client has created the item in the meantime, it is counted.
                if begin_count(turn, &key) {
                    return;
                }
            }
            Err(CountError::Exists) => return answer(turn, "EX"),
            Err(CountError::NoNumber) => return line(turn.out, NO_NUMBER),
            Err(CountError::Full) => return line(turn.out, OUT_OF_MEMORY),
            Err(CountError::WrongType) => return line(turn.out, WRONG_TYPE),
        }
    }
}

fn counted<E: Items>(turn: &mut Turn<'_, E>, key: &Key<'_>, number: u64, facts: &ItemFacts) {
    let meta = turn.request.meta;
    let mut flags = Flags::of(turn);
    if meta.has(b'T') {
        let expiration = turn.deadline_change(turn.request.exptime);
        flags = match turn.engine.touch(key, expiration) {
            TouchOutcome::Yes(deadline) => flags.kept(b'T', deadline),
            TouchOutcome::Full => flags.kept(b'T', facts.deadline),
            TouchOutcome::NotFound => flags,
        };
    }
    if !meta.has(b'q') {
        let left = flags.ttl_before(b't', facts.seconds_left(flags.now), false);
        reply_count(turn, number, &facts.head, left);
    }
}

/// Handles a missing number: creates it if flag N gives a TTL, and reports it even in quiet mode
/// (`q`). Returns false if another client has created one in the meantime.
fn begin_count<E: Items>(turn: &mut Turn<'_, E>, key: &Key<'_>) -> bool {
    let meta = turn.request.meta;
    if !meta.has(b'N') {
        answer(turn, "NF");
        return true;
    }
    let text = Text::unsigned(meta.initial);
    match make(turn, key, text.as_bytes(), false) {
        StoreOutcome::Yes(stored) => {
            let head = ItemHead {
                cas: stored.cas,
                ..ItemHead::default()
            };
            let left = Flags::of(turn).ttl_of_new(stored.deadline);
            reply_count(turn, meta.initial, &head, left);
        }
        StoreOutcome::Full => line(turn.out, OUT_OF_MEMORY),
        StoreOutcome::TooLarge => line(turn.out, TOO_LARGE),
        StoreOutcome::WrongType => line(turn.out, WRONG_TYPE),
        StoreOutcome::No | StoreOutcome::Exists | StoreOutcome::NotFound => return false,
    }
    true
}

fn reply_count<E: Items>(
    turn: &mut Turn<'_, E>,
    number: u64,
    head: &ItemHead,
    ttl_seconds: Option<u64>,
) {
    let text = Text::unsigned(number);
    let shown = Item {
        key: turn.sent_key(0),
        len: text.as_bytes().len(),
        has_value: turn.request.meta.has(b'v'),
        client_flags: head.client_flags,
        cas: head.cas,
        ttl_seconds,
        ..Item::default()
    };
    answer_of(turn, &shown, text.as_bytes());
}

/// Writes the facts of an item as readable text, for `me`.
pub(super) fn debug<E: Items>(turn: &mut Turn<'_, E>) {
    let mut room = [0; KEY_BYTES_MAX];
    let key = turn.meant(&mut room);
    let Some((facts, size)) = turn.engine.describe(&key) else {
        return line(turn.out, "EN");
    };
    let left = facts.seconds_left(turn.engine.now());
    let text = format!(
        " exp={} la={} cas={} fetch={} cls=1 size={size}",
        left.map_or_else(|| "-1".to_owned(), |left| left.to_string()),
        facts.idle_ms.unwrap_or(0) / 1000,
        facts.head.cas,
        if facts.head.is_fetched { "yes" } else { "no" },
    );
    turn.out.extend_from_slice(b"ME ");
    turn.out.extend_from_slice(turn.sent_key(0));
    line(turn.out, &text);
}
