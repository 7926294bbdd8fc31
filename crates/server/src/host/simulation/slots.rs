//! The threads that send the keys of moves, with simulated connections. The host, the rules, the
//! hold of slots and the side of the target are the real ones; the real thread is `exporting.rs`.
//! Keys are compared with what was sent, in place of reading the feed.

use super::{KEYS, World};
use crate::cluster::install;
use crate::exporting::state::state_of;
use crate::importing;
use crate::movement::{Leaving, Outcome};
use crate::state::Server;
use ::cluster::Mark;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use wire::slot::slot;
use wire::{Args, Span};

/// Longest delay of a message or of a reply in milliseconds.
const DELAY_MS: u64 = 30;
/// Time limit for a reply in milliseconds.
const REPLY_MS: u64 = 2_000;
/// Pause before another attempt, and before another hold after one without a commit.
const PAUSE_MS: u64 = 100;
const VOID_PAUSE_MS: u64 = 300;
/// Longest time for which slots are held while keys are left, and time limit for a mark.
const SLICE_MS: u64 = 100;
const MARK_MS: u64 = 250;

/// A message whose reply is awaited. The reply is whether keys may be sent.
struct Flight {
    words: Vec<Vec<u8>>,
    /// Number of the process that the connection reaches.
    process: u64,
    arrives_at: u64,
    fails_at: u64,
    reply: Option<(u64, Result<bool, String>)>,
    /// Key and value that the message has.
    sends: Option<(usize, u64)>,
}

/// What the thread does next.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// It begins another attempt at an instant.
    Pauses(u64),
    /// It waits until keys may be sent.
    Starts,
    /// It sends keys, and may hold the slots from an instant on.
    Sends(u64),
    /// It sends keys and holds the slots until an instant.
    Holds(u64),
    /// It waits for the host's mark until an instant.
    AwaitsMark(u64),
    /// It sends the mark.
    SendsMark,
    /// It waits for the outcome of the mark, which it has sent or not.
    AwaitsOutcome(bool),
}

/// A thread.
pub struct Sending {
    source: usize,
    target: usize,
    leaving: Arc<Leaving>,
    link: u64,
    step: Step,
    sent: super::node::Values,
    flight: Option<Flight>,
}

/// Carries a message out as the worker of the target does.
fn receive(server: &Server, words: &[Vec<u8>]) -> Result<bool, String> {
    let text = |at: usize| String::from_utf8_lossy(&words[at]).into_owned();
    if text(0) == "start" {
        let link = text(2).parse().expect("a number");
        return importing::start(server, &words[1], link).map_err(str::to_owned);
    }
    let (input, mut at) = (words.concat(), 0);
    let spans: Vec<Span> = words
        .iter()
        .map(|word| {
            at += word.len();
            Span {
                start: (at - word.len()) as u32,
                len: word.len() as u32,
            }
        })
        .collect();
    importing::receive(server, Args::new(&input, &spans)).map(|()| true)
}

/// Returns the message with the state of a key.
fn message(server: &Server, link: u64, key: &str) -> Vec<Vec<u8>> {
    let space = &server.data.keyspace;
    let named = space.key(0, key.as_bytes());
    let mut view = space.lock_all(server.clock.now());
    let link = link.to_string().into_bytes();
    let key = key.as_bytes().to_vec();
    match state_of(&mut view, &named) {
        None => vec![b"del".to_vec(), link, b"0".to_vec(), key],
        Some(state) => vec![
            b"key".to_vec(),
            link,
            b"0".to_vec(),
            key,
            state.deadline.to_string().into_bytes(),
            state.payload,
            state.head,
            b"0".to_vec(),
            state.labels,
        ],
    }
}

impl World {
    /// Returns a source that sends a mark.
    pub fn committing(&self) -> Option<usize> {
        let mut all = self.sendings.iter();
        let found = all.find(|one| matches!(one.step, Step::SendsMark));
        found.map(|one| one.source)
    }

    /// Takes the moves for which a host needs threads.
    pub fn take_moves(&mut self, source: usize) {
        for leaving in std::mem::take(&mut self.nodes[source].host.moving.new) {
            self.sendings.push(Sending {
                source,
                target: usize::from(leaving.target.1) - 7_000,
                leaving,
                link: 0,
                step: Step::Pauses(self.now),
                sent: [0; KEYS.len()],
                flight: None,
            });
        }
    }

    /// Ends the threads of a process.
    pub fn end_sendings(&mut self, source: usize) {
        self.sendings.retain(|sending| sending.source != source);
    }

    /// Moves messages and replies, and lets each thread do something.
    pub fn move_slots(&mut self) {
        let sendings = std::mem::take(&mut self.sendings);
        for mut sending in sendings {
            self.deliver(&mut sending);
            let is_paused = self.nodes[sending.source].paused_until > self.now;
            if is_paused || self.act(&mut sending) {
                self.sendings.push(sending);
            }
        }
    }

    fn deliver(&mut self, sending: &mut Sending) {
        let (source, target) = (sending.source, sending.target);
        let is_cut = self.now < self.links_cut_until[source][target];
        let node = &self.nodes[target];
        let Some(flight) = &mut sending.flight else {
            return;
        };
        let arrives = self.now >= flight.arrives_at && node.paused_until <= self.now && !is_cut;
        if flight.reply.is_some() {
            return;
        }
        if node.process != flight.process || self.now >= flight.fails_at {
            flight.reply = Some((self.now, Err("the connection has ended".to_owned())));
        } else if arrives {
            let result = receive(&node.server, &flight.words);
            let at = self.now + self.random.below(DELAY_MS);
            flight.reply = Some((at, result));
        }
    }

    fn send(&mut self, sending: &mut Sending, words: Vec<Vec<u8>>, sends: Option<(usize, u64)>) {
        sending.flight = Some(Flight {
            words,
            process: self.nodes[sending.target].process,
            arrives_at: self.now + self.random.below(DELAY_MS),
            fails_at: self.now + REPLY_MS,
            reply: None,
            sends,
        });
    }

    /// Begins an attempt, with a new connection.
    fn begin(&mut self, sending: &mut Sending) {
        self.last_link += 1;
        (sending.link, sending.step) = (self.last_link, Step::Starts);
        sending.sent = [0; KEYS.len()];
        self.send_start(sending);
    }

    fn send_start(&mut self, sending: &mut Sending) {
        let (id, link) = (sending.leaving.id.to_string(), sending.link.to_string());
        let words = ["start".to_owned(), id, link].map(String::into_bytes);
        self.send(sending, words.to_vec(), None);
    }

    /// Returns a key that has changed since it was sent.
    fn unsent(&self, sending: &Sending) -> Option<usize> {
        let values = self.nodes[sending.source].values();
        let mut all = 0..KEYS.len();
        all.find(|at| {
            sending.leaving.has(slot(KEYS[*at].as_bytes())) && values[*at] != sending.sent[*at]
        })
    }

    fn send_key(&mut self, sending: &mut Sending, at: usize) {
        let node = &self.nodes[sending.source];
        let value = node.value(KEYS[at]);
        let words = message(&node.server, sending.link, KEYS[at]);
        self.send(sending, words, Some((at, value)));
    }

    /// Does the next step of a thread. Returns false if the thread has ended.
    fn act(&mut self, sending: &mut Sending) -> bool {
        let now = self.now;
        let reply = sending
            .flight
            .take_if(|flight| matches!(flight.reply, Some((at, _)) if at <= now));
        if sending.flight.is_some() {
            return true;
        }
        let sends = reply.as_ref().and_then(|flight| flight.sends);
        let result = reply
            .and_then(|flight| flight.reply)
            .map(|(_, reply)| reply);
        if let (Some((at, value)), Some(Ok(_))) = (sends, &result) {
            sending.sent[at] = value;
        }
        let is_over = sending.leaving.exchange().is_over;
        let server = Arc::clone(&self.nodes[sending.source].server);
        let is_connected = server.cluster.seat.is_connected.load(Relaxed);
        match (sending.step, result) {
            (Step::Pauses(_) | Step::Starts | Step::Sends(_), _) if is_over => return false,
            (Step::Pauses(until), _) if now >= until => self.begin(sending),
            (Step::Pauses(_), _) => {}
            (Step::Starts | Step::Sends(_), Some(Err(_))) => {
                sending.step = Step::Pauses(now + PAUSE_MS);
            }
            (Step::Starts, Some(Ok(true))) => sending.step = Step::Sends(now),
            (Step::Starts, _) => self.send_start(sending),
            (Step::Sends(from), _) => {
                let unsent = self.unsent(sending);
                let is_near = unsent.is_none() || self.random.is_one_in(4);
                if is_near && now >= from && is_connected {
                    install::hold(&server, sending.link, &sending.leaving.slots);
                    sending.step = Step::Holds(now + SLICE_MS);
                } else if let Some(at) = unsent {
                    self.send_key(sending, at);
                }
            }
            (Step::Holds(until), result) => {
                let is_failed = matches!(result, Some(Err(_)));
                let unsent = self.unsent(sending);
                if is_over || is_failed || unsent.is_some() && now >= until {
                    release(&server, sending, Outcome::Void);
                    sending.step = match is_failed {
                        true => Step::Pauses(now + PAUSE_MS),
                        false => Step::Sends(now + PAUSE_MS),
                    };
                    return !is_over;
                }
                match unsent {
                    Some(at) => self.send_key(sending, at),
                    None => {
                        sending
                            .leaving
                            .change(|exchange| exchange.wants_mark = true);
                        sending.step = Step::AwaitsMark(now + MARK_MS);
                    }
                }
            }
            (Step::AwaitsMark(until), _) => self.await_mark(sending, is_over || now >= until),
            (Step::SendsMark, result) => {
                let is_sent = matches!(result, Some(Ok(_)));
                if !is_sent {
                    sending
                        .leaving
                        .change(|exchange| exchange.wants_void = true);
                }
                sending.step = Step::AwaitsOutcome(is_sent);
            }
            (Step::AwaitsOutcome(is_sent), _) => return self.conclude(sending, is_sent),
        }
        true
    }

    fn await_mark(&mut self, sending: &mut Sending, gives_up: bool) {
        let mark = {
            let mut exchange = sending.leaving.exchange();
            if exchange.mark.is_none() && !gives_up {
                return;
            }
            exchange.wants_mark = false;
            exchange.mark
        };
        match mark {
            None => {
                let server = Arc::clone(&self.nodes[sending.source].server);
                release(&server, sending, Outcome::Void);
                sending.step = Step::Sends(self.now + VOID_PAUSE_MS);
            }
            Some(mark) => {
                let Mark {
                    map,
                    source,
                    movement,
                } = mark;
                let numbers = [sending.link, map.0, source.0, movement.0];
                let words = numbers.map(|number| number.to_string().into_bytes());
                let words = [b"mark".to_vec()].into_iter().chain(words).collect();
                sending.step = Step::SendsMark;
                self.send(sending, words, None);
            }
        }
    }

    /// Takes the outcome of a mark. Returns false if the thread has ended.
    fn conclude(&mut self, sending: &mut Sending, is_sent: bool) -> bool {
        let Some(outcome) = sending.leaving.exchange().outcome else {
            return true;
        };
        sending.leaving.change(|exchange| {
            (exchange.mark, exchange.outcome) = (None, None);
            exchange.wants_void = false;
        });
        let server = Arc::clone(&self.nodes[sending.source].server);
        release(&server, sending, outcome);
        self.outcomes[usize::from(outcome == Outcome::Committed)] += 1;
        sending.step = match is_sent {
            true => Step::Sends(self.now + VOID_PAUSE_MS),
            false => Step::Pauses(self.now + PAUSE_MS),
        };
        outcome == Outcome::Void
    }
}

fn release(server: &Server, sending: &Sending, outcome: Outcome) {
    let slots = &sending.leaving.slots;
    install::release(server, sending.link, slots);
    importing::end_events(server, slots, outcome == Outcome::Void);
}
