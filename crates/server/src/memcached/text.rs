//! Commands of memcached's text protocol.

use super::VERSION;
use super::answers::{NO_NUMBER, OUT_OF_MEMORY, TOO_LARGE, WRONG_TYPE};
use super::turn::{Progress, Turn};
use engine::items::{CountError, CountRequest, Items, RemoveOutcome, StoreOutcome, TouchOutcome};
use engine::lifetime::DeadlineChange;
use wire::memcached::text::{line, number, value_head};
use wire::memcached::{Mode, Verb};

/// Bytes of a reply to `get` after which the remaining keys wait until the client has taken it. A
/// reply thus needs this much memory plus one value, regardless of how many keys the line lists.
const REPLY_PART_BYTES: usize = 256 << 10;
/// Number of keys of a `get` after which other clients are served. Missing keys have no part in the
/// reply, so that its length does not bound them.
const KEYS_PART_MAX: usize = 1024;

pub(super) fn run<E: Items>(turn: &mut Turn<'_, E>) -> Progress {
    match turn.request.verb {
        Verb::Get | Verb::Gets => return get(turn, None),
        Verb::Gat | Verb::Gats => {
            let expiration = turn.deadline_change(turn.request.exptime);
            return get(turn, Some(expiration));
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
        Verb::FlushAll => match turn.flush() {
            true => line(turn.out, "OK"),
            false => line(
                turn.out,
                "SERVER_ERROR slots are moving to or from this node",
            ),
        },
        Verb::Version => {
            turn.out.extend_from_slice(b"VERSION ");
            line(turn.out, VERSION);
        }
        Verb::Verbosity => line(turn.out, "OK"),
        Verb::Quit => turn.session.is_closing = true,
        _ => unreachable!("stats and the meta commands are carried out elsewhere"),
    }
    Progress::Done
}

/// Reads the keys of a request, until the reply is so long that the client must take it first.
fn get<E: Items>(turn: &mut Turn<'_, E>, expiration: Option<DeadlineChange>) -> Progress {
    let wants_cas = matches!(turn.request.verb, Verb::Gets | Verb::Gats);
    let begin = turn.out.len();
    for index in 0..turn.keys.len() {
        // A reply that was cut off is not sent. Deadlines are still set.
        if turn.out.is_cut_off() && expiration.is_none() {
            return Progress::Done;
        }
        if turn.out.len().saturating_sub(begin) > REPLY_PART_BYTES || index == KEYS_PART_MAX {
            return Progress::Partial(turn.request.number + index as u64);
        }
        let key = turn.key(index);
        let is_there = turn.fetch(&key, expiration, |out, facts| {
            let cas = wants_cas.then_some(facts.head.cas);
            value_head(out, key.bytes, facts.head.client_flags, facts.len, cas);
        });
        if is_there {
            turn.out.extend_from_slice(b"\r\n");
        }
    }
    if !turn.request.has_more {
        line(turn.out, "END");
    }
    Progress::Done
}

fn set<E: Items>(turn: &mut Turn<'_, E>, mode: Mode, cas: Option<u64>) {
    let answer = match turn.store(mode, cas) {
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
    let (outcome, answer) = match turn.engine.remove(&key) {
        true => (RemoveOutcome::Yes, "DELETED"),
        false => (RemoveOutcome::NotFound, "NOT_FOUND"),
    };
    turn.count_delete(&key, outcome);
    line(turn.out, answer);
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
    match turn.count(&key, &request) {
        Ok((result, _)) => number(turn.out, result),
        Err(why) => line(turn.out, why_not(why)),
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
    let answer = match turn.touch() {
        TouchOutcome::Yes(_) => "TOUCHED",
        TouchOutcome::NotFound => "NOT_FOUND",
        TouchOutcome::Full => OUT_OF_MEMORY,
    };
    line(turn.out, answer);
}
