//! The meta commands.
//!
//! Stale and recache, against stampedes: `md … I` leaves an item in place as out of date, and the first
//! client that asks for it afterwards wins (`W`) the right to fetch it anew while the others are told
//! that it is out of date (`X`) and that somebody has won (`Z`). `mg … N` makes an empty item on a miss and
//! lets its asker win; `mg … R` does when less than so many seconds are left.

use super::answers::{NO_NUMBER, OUT_OF_MEMORY, TOO_LARGE, WRONG_TYPE};
use super::turn::Turn;
use crate::command::lifetime::Fate;
use crate::engine::items::{
    Asks, Counting, Items, NoCount, Removed, Removing, Seen, Stored, Storing, Touched,
    seconds_until,
};
use store::{ItemHead, Key, Tick};
use wire::memcached::meta::{Item, item, letters, status};
use wire::memcached::text::line;
use wire::memcached::{Expiration, KEY_BYTES_MAX, Meta, Mode, Request, Verb};
use wire::number::Text;

/// Answers with a status alone.
fn answer<E: Items>(turn: &mut Turn<'_, E>, word: &str) {
    let key = turn.sent_key(0);
    let stores = turn.request.verb == Verb::MetaSet;
    status(turn.out, word, &turn.request.meta, turn.input, key, stores);
}

/// Answers about an item, with its value where that was asked for.
fn answer_of<E: Items>(turn: &mut Turn<'_, E>, told: &Item<'_>, value: &[u8]) {
    let meta = &turn.request.meta;
    item(turn.out, meta, turn.input, told);
    if meta.has(b'v') {
        turn.out.extend_from_slice(value);
        turn.out.extend_from_slice(b"\r\n");
    }
}

/// A request's flags in their order, and what those about time mean.
#[derive(Clone, Copy)]
struct Flags<'a> {
    request: &'a Request,
    input: &'a [u8],
    now: Tick,
    /// The flag that has set a deadline, and the one that is kept: it may be earlier than was asked for.
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

    /// The same, after a flag has set a deadline.
    fn kept(self, by: u8, deadline: Option<Tick>) -> Flags<'a> {
        let kept = Some((by, deadline));
        Flags { kept, ..self }
    }

    /// The seconds that an exptime leaves; `None`: it stays.
    fn seconds(&self, exptime: i64) -> Option<u64> {
        match Expiration::of(exptime, self.now.0) {
            Expiration::Never => None,
            Expiration::At(at) => Some((at - self.now.0).div_ceil(1000)),
            Expiration::Past => Some(0),
        }
    }

    /// The seconds left that a flag sees. Flags are carried out in their order: those before T and N see the
    /// lifetime that was.
    fn seen_by(&self, flag: u8, was: Option<u64>, is_new: bool) -> Option<u64> {
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

    /// The flag that says how long what is made for a miss lives, and its exptime: N or T, whichever comes later.
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

    /// The seconds that t tells of what was made for a miss and is kept until then.
    fn told_of_new(self, deadline: Option<Tick>) -> Option<u64> {
        let by = self.new_exptime().0;
        self.kept(by, deadline).seen_by(b't', None, true)
    }
}

pub(super) fn get<E: Items>(turn: &mut Turn<'_, E>) {
    let mut room = [0; KEY_BYTES_MAX];
    let key = turn.meant(&mut room);
    let meta = turn.request.meta;
    turn.add(|counts| &counts.gets);
    let touched = touch_to_tell(turn, &key);
    loop {
        let read = read(turn, &key, touched);
        if read == Ok(true) {
            break;
        }
        turn.add(|counts| &counts.get_misses);
        if read.is_err() && meta.has(b'N') {
            return line(turn.out, WRONG_TYPE);
        }
        // Where another has made it meanwhile, it is there.
        if miss(turn, &key) {
            return;
        }
    }
    turn.add(|counts| &counts.get_hits);
    if meta.has(b'v') {
        turn.out.extend_from_slice(b"\r\n");
    }
    if meta.has(b'T') {
        turn.add(|counts| &counts.touches);
        if touched.is_none() {
            let fate = turn.fate(turn.request.exptime);
            turn.engine.touch(&key, fate);
        }
    }
}

/// Two deadlines of an item: before it was touched, and since.
#[derive(Clone, Copy)]
struct Deadlines {
    before: Option<Tick>,
    since: Option<Tick>,
}

/// Who asks for a lifetime and is to be told of it gets it first, so that what is told is what is kept. What is over
/// by that is read before.
fn touch_to_tell<E: Items>(turn: &mut Turn<'_, E>, key: &Key<'_>) -> Option<Deadlines> {
    let (meta, fate) = (turn.request.meta, turn.fate(turn.request.exptime));
    if !meta.has(b'T') || !meta.has(b't') || fate == Fate::IsDead {
        return None;
    }
    let before = turn.engine.describe(key)?.0.deadline;
    let since = match turn.engine.touch(key, fate) {
        Touched::Yes(since) => since,
        Touched::Full => before,
        Touched::NotFound => return None,
    };
    Some(Deadlines { before, since })
}

/// Reads and marks: that it was asked for, and that this client has won.
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
    let asks = Asks {
        value: meta.has(b'v'),
        deadline: meta.has(b't') || meta.has(b'R'),
        idle: meta.has(b'l'),
    };
    turn.engine.read(key, asks, turn.out, |out, seen| {
        let head = seen.head;
        let was = match touched {
            Some(touched) => seconds_until(touched.before, flags.now),
            None => seen.seconds_left(flags.now),
        };
        let is_late = |left: u64| (left as i64) < meta.recache;
        let recaches = meta.has(b'R') && flags.seen_by(b'R', was, false).is_some_and(is_late);
        let has_won = (recaches || head.is_stale) && !head.has_winner;
        let marked = ItemHead {
            has_winner: head.has_winner || has_won,
            is_fetched: true,
            cas: new_cas(&meta).unwrap_or(head.cas),
            ..head
        };
        let told = Item {
            key: sent,
            len: seen.len,
            client_flags: head.client_flags,
            cas: marked.cas,
            ttl_seconds: flags.seen_by(b't', was, false),
            idle_seconds: seen.idle_ms.unwrap_or(0) / 1000,
            was_hit: head.is_fetched,
            has_won,
            is_stale: head.is_stale,
            is_taken: head.has_winner,
        };
        item(out, &meta, flags.input, &told);
        marked
    })
}

/// The cas number that the client has chosen.
fn new_cas(meta: &Meta) -> Option<u64> {
    meta.has(b'E').then_some(meta.new_cas)
}

/// Answers a miss, for which an item may be made; false when another has made one meanwhile.
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
        Stored::Yes(cas, deadline) => {
            let told = Item {
                key: turn.sent_key(0),
                cas,
                ttl_seconds: Flags::of(turn).told_of_new(deadline),
                has_won: true,
                ..Item::default()
            };
            answer_of(turn, &told, b"");
        }
        Stored::Full => line(turn.out, OUT_OF_MEMORY),
        Stored::TooLarge => line(turn.out, TOO_LARGE),
        Stored::WrongType => line(turn.out, WRONG_TYPE),
        Stored::No | Stored::Exists | Stored::NotFound => return false,
    }
    true
}

/// Makes what is not there, under the lifetime that the flags say.
fn make<E: Items>(turn: &mut Turn<'_, E>, key: &Key<'_>, value: &[u8], has_winner: bool) -> Stored {
    let what = Storing {
        mode: Mode::Add,
        value,
        client_flags: 0,
        fate: turn.fate(Flags::of(turn).new_exptime().1),
        cas: None,
        new_cas: new_cas(&turn.request.meta),
        may_be_stale: false,
        vivifies: false,
        has_winner,
    };
    turn.engine.store(key, &what)
}

pub(super) fn set<E: Items>(turn: &mut Turn<'_, E>) {
    let mut room = [0; KEY_BYTES_MAX];
    let key = turn.meant(&mut room);
    let meta = turn.request.meta;
    turn.add(|counts| &counts.sets);
    let is_joining = matches!(meta.mode, Mode::Append | Mode::Prepend);
    let exptime = if is_joining && meta.has(b'N') {
        meta.vivify
    } else {
        turn.request.exptime
    };
    let what = Storing {
        mode: meta.mode,
        value: &turn.input[turn.request.value.range()],
        client_flags: turn.request.client_flags,
        fate: turn.fate(exptime),
        cas: meta.has(b'C').then_some(meta.cas),
        new_cas: new_cas(&meta),
        may_be_stale: meta.has(b'I'),
        vivifies: meta.has(b'N'),
        has_winner: false,
    };
    let word = match turn.engine.store(&key, &what) {
        Stored::Yes(..) if meta.has(b'q') => return,
        Stored::Yes(cas, _) => {
            let told = Item {
                key: turn.sent_key(0),
                len: what.value.len(),
                client_flags: what.client_flags,
                cas,
                ..Item::default()
            };
            return answer_of(turn, &told, what.value);
        }
        Stored::No => "NS",
        Stored::Exists => "EX",
        Stored::NotFound => "NF",
        Stored::Full => return line(turn.out, OUT_OF_MEMORY),
        Stored::TooLarge => return line(turn.out, TOO_LARGE),
        Stored::WrongType => return line(turn.out, WRONG_TYPE),
    };
    answer(turn, word);
}

pub(super) fn delete<E: Items>(turn: &mut Turn<'_, E>) {
    let mut room = [0; KEY_BYTES_MAX];
    let key = turn.meant(&mut room);
    let meta = turn.request.meta;
    let how = Removing {
        cas: meta.has(b'C').then_some(meta.cas),
        makes_stale: meta.has(b'I'),
        drops_value: meta.has(b'x'),
        new_cas: new_cas(&meta),
        fate: match meta.has(b'T') {
            true => Some(turn.fate(turn.request.exptime)),
            false => None,
        },
    };
    match turn.engine.remove_if(&key, &how) {
        Removed::Yes => {
            turn.add(|counts| &counts.delete_hits);
            if !meta.has(b'q') {
                answer(turn, "HD");
            }
        }
        Removed::NotFound => {
            turn.add(|counts| &counts.delete_misses);
            answer(turn, "NF");
        }
        Removed::Exists => answer(turn, "EX"),
        Removed::Full => line(turn.out, OUT_OF_MEMORY),
        Removed::WrongType => line(turn.out, WRONG_TYPE),
    }
}

pub(super) fn arithmetic<E: Items>(turn: &mut Turn<'_, E>) {
    let mut room = [0; KEY_BYTES_MAX];
    let key = turn.meant(&mut room);
    let meta = turn.request.meta;
    let how = Counting {
        delta: meta.delta,
        is_down: meta.mode == Mode::Decrement,
        cas: meta.has(b'C').then_some(meta.cas),
        new_cas: new_cas(&meta),
        asks_deadline: meta.has(b't'),
    };
    loop {
        match turn.engine.count(&key, &how) {
            Ok((number, seen)) => return counted(turn, &key, number, &seen),
            Err(NoCount::NotFound) => {
                turn.add(|counts| &counts.count_misses);
                // Where another has made it meanwhile, it is there.
                if begin_count(turn, &key) {
                    return;
                }
            }
            Err(NoCount::Exists) => return answer(turn, "EX"),
            Err(NoCount::NoNumber) => return line(turn.out, NO_NUMBER),
            Err(NoCount::Full) => return line(turn.out, OUT_OF_MEMORY),
            Err(NoCount::WrongType) => return line(turn.out, WRONG_TYPE),
        }
    }
}

fn counted<E: Items>(turn: &mut Turn<'_, E>, key: &Key<'_>, number: u64, seen: &Seen) {
    let meta = turn.request.meta;
    turn.add(|counts| &counts.count_hits);
    let mut flags = Flags::of(turn);
    if meta.has(b'T') {
        let fate = turn.fate(turn.request.exptime);
        flags = match turn.engine.touch(key, fate) {
            Touched::Yes(deadline) => flags.kept(b'T', deadline),
            Touched::Full => flags.kept(b'T', seen.deadline),
            Touched::NotFound => flags,
        };
    }
    if !meta.has(b'q') {
        let left = flags.seen_by(b't', seen.seconds_left(flags.now), false);
        told_count(turn, number, &seen.head, left);
    }
}

/// A number that is not there: made when the client says for how long (`N`), and told of even to those who
/// want no answer (`q`). False when another has made it meanwhile.
fn begin_count<E: Items>(turn: &mut Turn<'_, E>, key: &Key<'_>) -> bool {
    let meta = turn.request.meta;
    if !meta.has(b'N') {
        answer(turn, "NF");
        return true;
    }
    let text = Text::unsigned(meta.initial);
    match make(turn, key, text.as_bytes(), false) {
        Stored::Yes(cas, deadline) => {
            let head = ItemHead {
                cas,
                ..ItemHead::default()
            };
            let left = Flags::of(turn).told_of_new(deadline);
            told_count(turn, meta.initial, &head, left);
        }
        Stored::Full => line(turn.out, OUT_OF_MEMORY),
        Stored::TooLarge => line(turn.out, TOO_LARGE),
        Stored::WrongType => line(turn.out, WRONG_TYPE),
        Stored::No | Stored::Exists | Stored::NotFound => return false,
    }
    true
}

fn told_count<E: Items>(
    turn: &mut Turn<'_, E>,
    number: u64,
    head: &ItemHead,
    ttl_seconds: Option<u64>,
) {
    let text = Text::unsigned(number);
    let told = Item {
        key: turn.sent_key(0),
        len: text.as_bytes().len(),
        client_flags: head.client_flags,
        cas: head.cas,
        ttl_seconds,
        ..Item::default()
    };
    answer_of(turn, &told, text.as_bytes());
}

/// What is known of an item, for people.
pub(super) fn debug<E: Items>(turn: &mut Turn<'_, E>) {
    let mut room = [0; KEY_BYTES_MAX];
    let key = turn.meant(&mut room);
    let Some((seen, size)) = turn.engine.describe(&key) else {
        return line(turn.out, "EN");
    };
    let left = seen.seconds_left(turn.engine.now());
    let text = format!(
        " exp={} la={} cas={} fetch={} cls=1 size={size}",
        left.map_or_else(|| "-1".to_owned(), |left| left.to_string()),
        seen.idle_ms.unwrap_or(0) / 1000,
        seen.head.cas,
        if seen.head.is_fetched { "yes" } else { "no" },
    );
    turn.out.extend_from_slice(b"ME ");
    turn.out.extend_from_slice(turn.sent_key(0));
    line(turn.out, &text);
}
