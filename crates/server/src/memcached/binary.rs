//! Commands of the binary protocol. They differ from the text protocol's in their replies, and in
//! that each may name the CAS number that the item must have.

use super::VERSION;
use super::turn::Turn;
use crate::command::connection::{Login, log_in};
use engine::items::{
    CountError, CountRequest, Items, RemoveOutcome, RemoveRequest, StoreOutcome, StoreRequest,
    TouchOutcome,
};
use wire::memcached::binary::{Header, Status, miss, refuse, reply};
use wire::memcached::{Mode, Verb};
use wire::number::Text;

/// Executes one request. A quiet request is answered only if it fails, or if it reads an item that
/// exists.
pub(super) fn run<E: Items>(turn: &mut Turn<'_, E>, header: Header) {
    let result = match turn.request.verb {
        Verb::Get => return get(turn, header, false),
        Verb::Gat => return get(turn, header, true),
        Verb::Touch => return touch(turn, header),
        Verb::Set => store(turn, Mode::Plain),
        Verb::Add => store(turn, Mode::Add),
        Verb::Replace => store(turn, Mode::Replace),
        Verb::Append => store(turn, Mode::Append),
        Verb::Prepend => store(turn, Mode::Prepend),
        Verb::Delete => delete(turn),
        Verb::Incr => return count(turn, header, false),
        Verb::Decr => return count(turn, header, true),
        Verb::FlushAll => match turn.flush() {
            true => Ok(0),
            false => Err(Status::TemporaryFailure),
        },
        Verb::Version => return answer(turn, header, VERSION.as_bytes()),
        Verb::SaslList => return mechanisms(turn, header),
        Verb::SaslAuth => return authenticate(turn, header),
        Verb::Quit => {
            turn.session.is_closing = true;
            Ok(0)
        }
        _ => Ok(0),
    };
    match result {
        Ok(_) if turn.request.is_noreply => {}
        Ok(cas) => reply(turn.out, header, &[], &[], 0, cas),
        Err(status) => refuse(turn.out, header, status),
    }
}

/// Appends a reply with a value.
fn answer<E: Items>(turn: &mut Turn<'_, E>, header: Header, value: &[u8]) {
    reply(turn.out, header, &[], &[], value.len(), 0);
    turn.out.extend_from_slice(value);
}

/// Returns the CAS number that the item must have.
fn wanted_cas<E>(turn: &Turn<'_, E>) -> Option<u64> {
    Some(turn.request.meta.cas).filter(|&cas| cas != 0)
}

fn get<E: Items>(turn: &mut Turn<'_, E>, header: Header, touches: bool) {
    let key = turn.key(0);
    let shown = if header.repeats_key() { key.bytes } else { &[] };
    let expiration = touches.then(|| turn.deadline_change(turn.request.exptime));
    let is_there = turn.fetch(&key, expiration, |out, facts| {
        let flags = facts.head.client_flags.to_be_bytes();
        reply(out, header, &flags, shown, facts.len, facts.head.cas);
    });
    if is_there || turn.request.is_noreply {
        return;
    }
    match header.repeats_key() {
        true => miss(turn.out, header, key.bytes),
        false => refuse(turn.out, header, Status::NotFound),
    }
}

fn touch<E: Items>(turn: &mut Turn<'_, E>, header: Header) {
    let key = turn.key(0);
    // The reply contains the item's flags.
    let facts = turn.engine.describe(&key).map(|(facts, _)| facts);
    match (turn.touch(), facts) {
        (TouchOutcome::Yes(_), Some(facts)) => {
            let flags = facts.head.client_flags.to_be_bytes();
            reply(turn.out, header, &flags, &[], 0, facts.head.cas);
        }
        (TouchOutcome::Full, _) => refuse(turn.out, header, Status::NoMemory),
        _ => refuse(turn.out, header, Status::NotFound),
    }
}

/// Stores the value and returns its CAS number. As in memcached, a CAS number makes `add` and
/// `replace` a `set` under this condition.
fn store<E: Items>(turn: &mut Turn<'_, E>, mode: Mode) -> Result<u64, Status> {
    let cas = wanted_cas(turn);
    let is_joining = matches!(mode, Mode::Append | Mode::Prepend);
    let used = match cas.is_some() && !is_joining {
        true => Mode::Plain,
        false => mode,
    };
    match turn.store(used, cas) {
        StoreOutcome::Yes(stored) => Ok(stored.cas),
        StoreOutcome::No => Err(match mode {
            Mode::Add => Status::Exists,
            Mode::Replace => Status::NotFound,
            _ => Status::NotStored,
        }),
        StoreOutcome::Exists => Err(Status::Exists),
        StoreOutcome::NotFound => Err(Status::NotFound),
        StoreOutcome::Full => Err(Status::NoMemory),
        StoreOutcome::TooLarge => Err(Status::TooLarge),
        StoreOutcome::WrongType => Err(Status::WrongType),
    }
}

fn delete<E: Items>(turn: &mut Turn<'_, E>) -> Result<u64, Status> {
    let key = turn.key(0);
    let outcome = match wanted_cas(turn) {
        None if turn.engine.remove(&key) => RemoveOutcome::Yes,
        None => RemoveOutcome::NotFound,
        cas => {
            let request = RemoveRequest {
                cas,
                ..RemoveRequest::default()
            };
            turn.engine.remove_if(&key, &request)
        }
    };
    turn.count_delete(&key, outcome);
    match outcome {
        RemoveOutcome::Yes => Ok(0),
        RemoveOutcome::NotFound => Err(Status::NotFound),
        RemoveOutcome::Exists => Err(Status::Exists),
        RemoveOutcome::Full => Err(Status::NoMemory),
        RemoveOutcome::WrongType => Err(Status::WrongType),
    }
}

fn count<E: Items>(turn: &mut Turn<'_, E>, header: Header, is_down: bool) {
    let request = CountRequest {
        delta: turn.request.number,
        is_down,
        cas: wanted_cas(turn),
        new_cas: None,
        asks_deadline: false,
    };
    let key = turn.key(0);
    let result = loop {
        match turn.count(&key, &request) {
            Ok((number, facts)) => break Ok((number, facts.head.cas)),
            Err(CountError::NotFound) if turn.request.exptime != -1 => {
                // If another client has created the item in the meantime, it is counted.
                if let Some(created) = create_count(turn) {
                    break created;
                }
            }
            Err(CountError::NotFound) => break Err(Status::NotFound),
            Err(CountError::NoNumber) => break Err(Status::NoNumber),
            Err(CountError::Exists) => break Err(Status::Exists),
            Err(CountError::Full) => break Err(Status::NoMemory),
            Err(CountError::WrongType) => break Err(Status::WrongType),
        }
    };
    match result {
        Ok(_) if turn.request.is_noreply => {}
        Ok((number, cas)) => {
            let number = number.to_be_bytes();
            reply(turn.out, header, &[], &[], number.len(), cas);
            turn.out.extend_from_slice(&number);
        }
        Err(status) => refuse(turn.out, header, status),
    }
}

/// Creates a missing number; `None` if another client has created one in the meantime.
fn create_count<E: Items>(turn: &mut Turn<'_, E>) -> Option<Result<(u64, u64), Status>> {
    let initial = turn.request.meta.initial;
    let text = Text::unsigned(initial);
    let request = StoreRequest {
        mode: Mode::Add,
        expiration: turn.deadline_change(turn.request.exptime),
        ..StoreRequest::plain(text.as_bytes())
    };
    match turn.engine.store(&turn.key(0), &request) {
        StoreOutcome::Yes(stored) => Some(Ok((initial, stored.cas))),
        StoreOutcome::Full | StoreOutcome::TooLarge => Some(Err(Status::NoMemory)),
        StoreOutcome::WrongType => Some(Err(Status::WrongType)),
        StoreOutcome::No | StoreOutcome::Exists | StoreOutcome::NotFound => None,
    }
}

/// Lists the authentication mechanisms. Without a password there are none, and the command is
/// unknown, as in memcached.
fn mechanisms<E: Items>(turn: &mut Turn<'_, E>, header: Header) {
    match turn.server.auth.acl.needs_login() {
        true => answer(turn, header, b"PLAIN"),
        false => refuse(turn.out, header, Status::UnknownCommand),
    }
}

/// Authenticates the client by the mechanism PLAIN: an identity that is ignored, the name of a
/// user, and a password, separated by zero bytes.
fn authenticate<E: Items>(turn: &mut Turn<'_, E>, header: Header) {
    if !turn.server.auth.acl.needs_login() {
        return refuse(turn.out, header, Status::UnknownCommand);
    }
    let data = &turn.input[turn.request.value.range()];
    let mut parts = data.splitn(3, |&byte| byte == 0).skip(1);
    let (user, password) = (parts.next(), parts.next());
    let is_right = turn.sent_key(0) == b"PLAIN"
        && user.zip(password).is_some_and(|(user, password)| {
            log_in(turn.server, turn.session, b"sasl", user, password) == Login::Done
        })
        && turn.session.user.is_unrestricted();
    turn.add(|counts| &counts.auths);
    if is_right {
        return answer(turn, header, b"Authenticated");
    }
    turn.add(|counts| &counts.auth_errors);
    refuse(turn.out, header, Status::AuthFailed);
}
