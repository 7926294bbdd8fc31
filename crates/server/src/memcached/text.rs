//! The text commands.

use super::storing::{NoCount, OUT_OF_MEMORY, Stored, Storing, WRONG_TYPE, count, store, touch};
use super::{DATABASE, Fate, Turn, show_stats};
use std::sync::atomic::Ordering::Relaxed;
use store::Class;
use wire::memcached::text::{line, number, value};
use wire::memcached::{Mode, Verb};

pub(super) fn run(turn: &mut Turn<'_, '_>) {
    match turn.request.verb {
        Verb::Get | Verb::Gets => get(turn, None),
        Verb::Gat | Verb::Gats => {
            let fate = turn.fate(turn.request.exptime);
            get(turn, Some(fate));
        }
        Verb::Set => set(turn, Mode::Plain, None),
        Verb::Add => set(turn, Mode::Add, None),
        Verb::Replace => set(turn, Mode::Replace, None),
        Verb::Append => set(turn, Mode::Append, None),
        Verb::Prepend => set(turn, Mode::Prepend, None),
        Verb::Cas => set(turn, Mode::Plain, Some(turn.request.number)),
        Verb::Delete => delete(turn),
        Verb::Incr => counting(turn, false),
        Verb::Decr => counting(turn, true),
        Verb::Touch => touching(turn),
        Verb::FlushAll => flush_all(turn),
        Verb::Version => line(turn.out, concat!("VERSION ", env!("CARGO_PKG_VERSION"))),
        Verb::Verbosity => line(turn.out, "OK"),
        Verb::Stats => show_stats(turn.server, turn.sent_key(0), turn.out),
        Verb::Quit => turn.session.is_closing = true,
        _ => unreachable!("the meta commands are carried out elsewhere"),
    }
}

fn get(turn: &mut Turn<'_, '_>, fate: Option<Fate>) {
    let wants_cas = matches!(turn.request.verb, Verb::Gets | Verb::Gats);
    for index in 0..turn.keys.len() {
        let key = turn.key(index);
        turn.add(|counts| &counts.gets);
        if fate.is_some() {
            turn.add(|counts| &counts.touches);
        }
        let Ok(Some((head, found))) = turn.view.item(&key) else {
            turn.add(|counts| &counts.get_misses);
            continue;
        };
        let cas = wants_cas.then_some(head.cas);
        value(turn.out, key.bytes, head.client_flags, found, cas);
        turn.add(|counts| &counts.get_hits);
        if let Some(fate) = fate {
            touch(turn, &key, fate);
        }
    }
    line(turn.out, "END");
}

fn set(turn: &mut Turn<'_, '_>, mode: Mode, cas: Option<u64>) {
    turn.add(|counts| &counts.sets);
    let key = turn.key(0);
    let what = Storing {
        mode,
        value: &turn.input[turn.request.value.range()],
        client_flags: turn.request.client_flags,
        fate: turn.fate(turn.request.exptime),
        cas,
        new_cas: None,
        may_be_stale: false,
        vivifies: false,
    };
    let answer = match store(turn, &key, &what) {
        Stored::Yes(_) => "STORED",
        Stored::No => "NOT_STORED",
        Stored::Exists => "EXISTS",
        Stored::NotFound => "NOT_FOUND",
        Stored::Full => OUT_OF_MEMORY,
        Stored::WrongType => WRONG_TYPE,
    };
    line(turn.out, answer);
}

fn delete(turn: &mut Turn<'_, '_>) {
    let key = turn.key(0);
    if turn.view.delete(&key) {
        turn.view.notify(Class::Generic, "del", &key);
        turn.add(|counts| &counts.delete_hits);
        line(turn.out, "DELETED");
    } else {
        turn.add(|counts| &counts.delete_misses);
        line(turn.out, "NOT_FOUND");
    }
}

fn counting(turn: &mut Turn<'_, '_>, is_down: bool) {
    let key = turn.key(0);
    let delta = turn.request.number;
    match count(turn, &key, delta, is_down, None, None) {
        Ok((result, _)) => {
            turn.add(|counts| &counts.count_hits);
            number(turn.out, result);
        }
        Err(why) => {
            if why == NoCount::NotFound {
                turn.add(|counts| &counts.count_misses);
            }
            line(turn.out, why_not(why));
        }
    }
}

fn why_not(why: NoCount) -> &'static str {
    match why {
        NoCount::NotFound => "NOT_FOUND",
        NoCount::NoNumber => "CLIENT_ERROR cannot increment or decrement non-numeric value",
        NoCount::Exists => "EXISTS",
        NoCount::Full => OUT_OF_MEMORY,
        NoCount::WrongType => WRONG_TYPE,
    }
}

fn touching(turn: &mut Turn<'_, '_>) {
    turn.add(|counts| &counts.touches);
    let key = turn.key(0);
    let fate = turn.fate(turn.request.exptime);
    if touch(turn, &key, fate) {
        turn.add(|counts| &counts.touch_hits);
        line(turn.out, "TOUCHED");
    } else {
        line(turn.out, "NOT_FOUND");
    }
}

fn flush_all(turn: &mut Turn<'_, '_>) {
    turn.add(|counts| &counts.flushes);
    match turn.fate(turn.request.exptime) {
        Fate::Lives(store::NewDeadline::At(at)) => {
            turn.server.flush_at_ms.store(at.0, Relaxed);
        }
        _ => {
            turn.server.flush_at_ms.store(0, Relaxed);
            turn.view.flush(DATABASE);
        }
    }
    line(turn.out, "OK");
}
