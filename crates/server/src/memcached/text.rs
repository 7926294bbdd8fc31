//! Commands of memcached's text protocol.

use super::answers::{NO_NUMBER, OUT_OF_MEMORY, TOO_LARGE, WRONG_TYPE};
use super::turn::{DATABASE, Turn};
use crate::command::lifetime::DeadlineChange;
use crate::engine::items::{
    CountError, CountRequest, Items, ReadFields, StoreOutcome, StoreRequest, TouchOutcome,
};
use std::sync::atomic::Ordering::Relaxed;
use store::{ItemHead, NewDeadline};
use wire::memcached::text::{line, number, value_head};
use wire::memcached::{Mode, Verb};

pub(super) fn run<E: Items>(turn: &mut Turn<'_, E>) {
    match turn.request.verb {
        Verb::Get | Verb::Gets => get(turn, None),
        Verb::Gat | Verb::Gats => {
            let expiration = turn.deadline_change(turn.request.exptime);
            get(turn, Some(expiration));
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
        Verb::Quit => turn.session.is_closing = true,
        _ => unreachable!("stats and the meta commands are carried out elsewhere"),
    }
}

fn get<E: Items>(turn: &mut Turn<'_, E>, expiration: Option<DeadlineChange>) {
    let wants_cas = matches!(turn.request.verb, Verb::Gets | Verb::Gats);
    let fields = ReadFields {
        value: true,
        ..ReadFields::default()
    };
    for index in 0..turn.keys.len() {
        // A reply that was cut off is not sent. Deadlines are still set.
        if turn.out.is_cut_off() && expiration.is_none() {
            return;
        }
        let key = turn.key(index);
        turn.add(|counts| &counts.gets);
        if expiration.is_some() {
            turn.add(|counts| &counts.touches);
        }
        let read = turn.engine.read(&key, fields, turn.out, |out, facts| {
            let cas = wants_cas.then_some(facts.head.cas);
            value_head(out, key.bytes, facts.head.client_flags, facts.len, cas);
            ItemHead {
                is_fetched: true,
                ..facts.head
            }
        });
        if read != Ok(true) {
            turn.add(|counts| &counts.get_misses);
            continue;
        }
        turn.out.extend_from_slice(b"\r\n");
        turn.add(|counts| &counts.get_hits);
        if let Some(expiration) = expiration {
            turn.engine.touch(&key, expiration);
        }
    }
    line(turn.out, "END");
}

fn set<E: Items>(turn: &mut Turn<'_, E>, mode: Mode, cas: Option<u64>) {
    turn.add(|counts| &counts.sets);
    let key = turn.key(0);
    let request = StoreRequest {
        mode,
        value: &turn.input[turn.request.value.range()],
        client_flags: turn.request.client_flags,
        expiration: turn.deadline_change(turn.request.exptime),
        cas,
        new_cas: None,
        may_be_stale: false,
        vivifies: false,
        has_winner: false,
    };
    let answer = match turn.engine.store(&key, &request) {
        StoreOutcome::Yes(..) => "STORED",
        StoreOutcome::No => "NOT_STORED",
        StoreOutcome::Exists => "EXISTS",
        StoreOutcome::NotFound => "NOT_FOUND",
        StoreOutcome::Full => OUT_OF_MEMORY,
        StoreOutcome::TooLarge => TOO_LARGE,
        StoreOutcome::WrongType => WRONG_TYPE,
    };
    line(turn.out, answer);
}

fn delete<E: Items>(turn: &mut Turn<'_, E>) {
    let key = turn.key(0);
    if turn.engine.remove(&key) {
        turn.add(|counts| &counts.delete_hits);
        line(turn.out, "DELETED");
    } else {
        turn.add(|counts| &counts.delete_misses);
        line(turn.out, "NOT_FOUND");
    }
}

fn counting<E: Items>(turn: &mut Turn<'_, E>, is_down: bool) {
    let key = turn.key(0);
    let request = CountRequest {
        delta: turn.request.number,
        is_down,
        cas: None,
        new_cas: None,
        asks_deadline: false,
    };
    match turn.engine.count(&key, &request) {
        Ok((result, _)) => {
            turn.add(|counts| &counts.count_hits);
            number(turn.out, result);
        }
        Err(why) => {
            if why == CountError::NotFound {
                turn.add(|counts| &counts.count_misses);
            }
            line(turn.out, why_not(why));
        }
    }
}

fn why_not(why: CountError) -> &'static str {
    match why {
        CountError::NotFound => "NOT_FOUND",
        CountError::NoNumber => NO_NUMBER,
        CountError::Exists => "EXISTS",
        CountError::Full => OUT_OF_MEMORY,
        CountError::WrongType => WRONG_TYPE,
    }
}

fn touching<E: Items>(turn: &mut Turn<'_, E>) {
    turn.add(|counts| &counts.touches);
    let key = turn.key(0);
    let expiration = turn.deadline_change(turn.request.exptime);
    let answer = match turn.engine.touch(&key, expiration) {
        TouchOutcome::Yes(_) => {
            turn.engine.mark_fetched(&key);
            turn.add(|counts| &counts.touch_hits);
            "TOUCHED"
        }
        TouchOutcome::NotFound => "NOT_FOUND",
        TouchOutcome::Full => OUT_OF_MEMORY,
    };
    line(turn.out, answer);
}

fn flush_all<E: Items>(turn: &mut Turn<'_, E>) {
    turn.add(|counts| &counts.flushes);
    match turn.deadline_change(turn.request.exptime) {
        DeadlineChange::To(NewDeadline::At(at)) => turn.flush_at_ms.store(at.0, Relaxed),
        _ => {
            turn.flush_at_ms.store(0, Relaxed);
            turn.engine.flush(DATABASE);
        }
    }
    line(turn.out, "OK");
}
