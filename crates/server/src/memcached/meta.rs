//! The meta commands.
//!
//! Stale and recache, against stampedes: `md … I` leaves an item in place as out of date, and the first
//! client that asks for it afterwards wins (`W`) the right to fetch it anew while the others are told
//! that it is out of date (`X`) and that somebody has won (`Z`). `mg … N` makes an empty item on a miss and
//! lets its asker win; `mg … R` does when less than so many seconds are left.

use super::storing::{
    NoCount, OUT_OF_MEMORY, Stored, Storing, WRONG_TYPE, count, put, store, touch,
};
use super::{Fate, Turn};
use store::{Class, ItemHead, Key, NewDeadline, Tick};
use wire::memcached::meta::{Item, item, letters, status};
use wire::memcached::text::line;
use wire::memcached::{KEY_BYTES_MAX, Mode, Verb};

/// Answers with a status alone.
fn answer(turn: &mut Turn<'_, '_>, word: &str) {
    let key = turn.sent_key(0);
    let stores = turn.request.verb == Verb::MetaSet;
    status(turn.out, word, &turn.request.meta, turn.input, key, stores);
}

/// Answers about an item without its value.
fn answer_of(turn: &mut Turn<'_, '_>, cas: u64, value: &[u8], client_flags: u32, ttl: Option<u64>) {
    let told = Item {
        key: turn.sent_key(0),
        value,
        client_flags,
        cas,
        ttl_seconds: ttl,
        ..Item::default()
    };
    item(turn.out, &turn.request.meta, turn.input, &told);
}

/// Seconds that a key has left, the begun one included; `None`: it stays, or is not there.
fn seconds_left(turn: &mut Turn<'_, '_>, key: &Key<'_>) -> Option<u64> {
    let deadline = turn.view.deadline(key)??;
    Some(deadline.0.saturating_sub(turn.view.now().0).div_ceil(1000))
}

/// The seconds left that a flag sees. Flags are carried out in their order: those before T and N see the
/// lifetime that was.
fn seen_by(turn: &Turn<'_, '_>, flag: u8, was: Option<u64>, is_new: bool) -> Option<u64> {
    let meta = &turn.request.meta;
    let mut left = was;
    for letter in letters(meta, turn.input) {
        match letter {
            letter if letter == flag => break,
            b'T' => left = turn.seconds(turn.request.exptime),
            b'N' if is_new => left = turn.seconds(meta.vivify),
            _ => {}
        }
    }
    left
}

/// The exptime of what is made for a miss: that of N or of T, whichever comes later.
fn new_exptime(turn: &Turn<'_, '_>) -> i64 {
    let meta = &turn.request.meta;
    let last = letters(meta, turn.input)
        .filter(|letter| b"NT".contains(letter))
        .last();
    match last {
        Some(b'T') => turn.request.exptime,
        _ => meta.vivify,
    }
}

pub(super) fn get(turn: &mut Turn<'_, '_>) {
    let mut room = [0; KEY_BYTES_MAX];
    let key = turn.meant(&mut room);
    let meta = turn.request.meta;
    turn.add(|counts| &counts.gets);
    let asks_time = meta.has(b't') || meta.has(b'R');
    let was = asks_time.then(|| seconds_left(turn, &key)).flatten();
    let ttl_seconds = seen_by(turn, b't', was, false);
    let is_late = seen_by(turn, b'R', was, false).is_some_and(|left| (left as i64) < meta.recache);
    let idle_ms = match meta.has(b'l') {
        true => turn.view.facts(&key).and_then(|facts| facts.idle_ms),
        false => None,
    };
    let Ok(Some((head, value))) = turn.view.item(&key) else {
        turn.add(|counts| &counts.get_misses);
        return miss(turn, &key);
    };
    let recaches = meta.has(b'R') && is_late;
    let has_won = (recaches || head.is_stale) && !head.has_winner;
    let marked = ItemHead {
        has_winner: head.has_winner || has_won,
        is_fetched: true,
        cas: if meta.has(b'E') {
            meta.new_cas
        } else {
            head.cas
        },
        ..head
    };
    let told = Item {
        key: &turn.input[turn.keys[0].range()],
        value,
        client_flags: head.client_flags,
        cas: marked.cas,
        ttl_seconds,
        idle_seconds: idle_ms.unwrap_or(0) / 1000,
        was_hit: head.is_fetched,
        has_won,
        is_stale: head.is_stale,
        is_taken: head.has_winner,
    };
    item(turn.out, &meta, turn.input, &told);
    turn.add(|counts| &counts.get_hits);
    if marked != head {
        turn.view.mark_item(&key, &marked);
    }
    if meta.has(b'T') {
        let fate = turn.fate(turn.request.exptime);
        turn.add(|counts| &counts.touches);
        touch(turn, &key, fate);
    }
}

fn miss(turn: &mut Turn<'_, '_>, key: &Key<'_>) {
    let meta = turn.request.meta;
    if !meta.has(b'N') {
        if !meta.has(b'q') {
            answer(turn, "EN");
        }
        return;
    }
    if turn.view.kind(key).is_some() {
        return line(turn.out, WRONG_TYPE);
    }
    if turn.is_full() {
        return line(turn.out, OUT_OF_MEMORY);
    }
    let head = ItemHead {
        cas: if meta.has(b'E') {
            meta.new_cas
        } else {
            turn.view.next_cas(key)
        },
        has_winner: true,
        is_fetched: true,
        ..ItemHead::default()
    };
    let fate = turn.fate(new_exptime(turn));
    put(turn, key, &head, b"", fate);
    let told = Item {
        key: turn.sent_key(0),
        cas: head.cas,
        ttl_seconds: seen_by(turn, b't', None, true),
        has_won: true,
        ..Item::default()
    };
    item(turn.out, &meta, turn.input, &told);
}

pub(super) fn set(turn: &mut Turn<'_, '_>) {
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
        new_cas: meta.has(b'E').then_some(meta.new_cas),
        may_be_stale: meta.has(b'I'),
        vivifies: meta.has(b'N'),
    };
    let word = match store(turn, &key, &what) {
        Stored::Yes(_) if meta.has(b'q') => return,
        Stored::Yes(cas) => return answer_of(turn, cas, what.value, what.client_flags, None),
        Stored::No => "NS",
        Stored::Exists => "EX",
        Stored::NotFound => "NF",
        Stored::Full => return line(turn.out, OUT_OF_MEMORY),
        Stored::WrongType => return line(turn.out, WRONG_TYPE),
    };
    answer(turn, word);
}

pub(super) fn delete(turn: &mut Turn<'_, '_>) {
    let mut room = [0; KEY_BYTES_MAX];
    let key = turn.meant(&mut room);
    let meta = turn.request.meta;
    let (head, value) = match turn.view.peek_item(&key) {
        Ok(Some((head, value))) => (head, value.to_vec()),
        Ok(None) => {
            turn.add(|counts| &counts.delete_misses);
            return answer(turn, "NF");
        }
        Err(_) => return line(turn.out, WRONG_TYPE),
    };
    if meta.has(b'C') && meta.cas != head.cas {
        return answer(turn, "EX");
    }
    turn.add(|counts| &counts.delete_hits);
    if meta.has(b'I') || meta.has(b'x') {
        let cas = match meta.has(b'E') {
            true => meta.new_cas,
            false => turn.view.next_cas(&key),
        };
        let keeps_value = !meta.has(b'x');
        let head = ItemHead {
            client_flags: if keeps_value { head.client_flags } else { 0 },
            cas,
            is_stale: head.is_stale || meta.has(b'I'),
            // The next to ask wins.
            has_winner: head.has_winner && !meta.has(b'I'),
            ..head
        };
        let fate = match meta.has(b'T') {
            true => turn.fate(turn.request.exptime),
            false => Fate::Lives(NewDeadline::Keep),
        };
        put(
            turn,
            &key,
            &head,
            if keeps_value { &value } else { b"" },
            fate,
        );
    } else {
        turn.view.delete(&key);
        turn.view.notify(Class::Generic, "del", &key);
    }
    if !meta.has(b'q') {
        answer(turn, "HD");
    }
}

pub(super) fn arithmetic(turn: &mut Turn<'_, '_>) {
    let mut room = [0; KEY_BYTES_MAX];
    let key = turn.meant(&mut room);
    let meta = turn.request.meta;
    let cas = meta.has(b'C').then_some(meta.cas);
    let new_cas = meta.has(b'E').then_some(meta.new_cas);
    let is_down = meta.mode == Mode::Decrement;
    let was = meta.has(b't').then(|| seconds_left(turn, &key)).flatten();
    let (number, head) = match count(turn, &key, meta.delta, is_down, cas, new_cas) {
        Ok(counted) => counted,
        Err(NoCount::NotFound) => return begin_count(turn, &key),
        Err(NoCount::Exists) => return answer(turn, "EX"),
        Err(NoCount::NoNumber) => {
            let text = "CLIENT_ERROR cannot increment or decrement non-numeric value";
            return line(turn.out, text);
        }
        Err(NoCount::Full) => return line(turn.out, OUT_OF_MEMORY),
        Err(NoCount::WrongType) => return line(turn.out, WRONG_TYPE),
    };
    turn.add(|counts| &counts.count_hits);
    if meta.has(b'T') {
        let fate = turn.fate(turn.request.exptime);
        touch(turn, &key, fate);
    }
    if !meta.has(b'q') {
        told_count(turn, number, &head, seen_by(turn, b't', was, false));
    }
}

/// A number that is not there: made when the client says for how long (`N`), and told of even to those who
/// want no answer (`q`).
fn begin_count(turn: &mut Turn<'_, '_>, key: &Key<'_>) {
    let meta = turn.request.meta;
    turn.add(|counts| &counts.count_misses);
    if !meta.has(b'N') {
        return answer(turn, "NF");
    }
    if turn.is_full() {
        return line(turn.out, OUT_OF_MEMORY);
    }
    let cas = match meta.has(b'E') {
        true => meta.new_cas,
        false => turn.view.next_cas(key),
    };
    let head = ItemHead {
        cas,
        ..ItemHead::default()
    };
    let fate = turn.fate(new_exptime(turn));
    put(turn, key, &head, meta.initial.to_string().as_bytes(), fate);
    told_count(turn, meta.initial, &head, seen_by(turn, b't', None, true));
}

fn told_count(turn: &mut Turn<'_, '_>, number: u64, head: &ItemHead, left: Option<u64>) {
    let text = number.to_string();
    answer_of(turn, head.cas, text.as_bytes(), head.client_flags, left);
}

/// What is known of an item, for people.
pub(super) fn debug(turn: &mut Turn<'_, '_>) {
    let mut room = [0; KEY_BYTES_MAX];
    let key = turn.meant(&mut room);
    let Ok(Some((head, _))) = turn.view.peek_item(&key) else {
        return line(turn.out, "EN");
    };
    let Some(facts) = turn.view.facts(&key) else {
        return line(turn.out, "EN");
    };
    let now = turn.view.now().0;
    let left = |at: Tick| at.0.saturating_sub(now).div_ceil(1000).to_string();
    let text = format!(
        " exp={} la={} cas={} fetch={} cls=1 size={}",
        facts.deadline.map_or_else(|| "-1".to_owned(), left),
        facts.idle_ms.unwrap_or(0) / 1000,
        head.cas,
        if head.is_fetched { "yes" } else { "no" },
        facts.bytes,
    );
    turn.out.extend_from_slice(b"ME ");
    turn.out.extend_from_slice(turn.sent_key(0));
    line(turn.out, &text);
}
