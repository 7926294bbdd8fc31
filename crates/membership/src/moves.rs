//! Records of moves of slots from one shard to another, as JSON.
//!
//! ```text
//! moves/M   slots, source, target, their terms, state    (operator; then both primaries)
//! plan      the write to it counts: it orders the creation of moves
//! ```
//!
//! A move is open until its state is final. The transaction that gives the slots to the target
//! writes the map and the final state together.

use crate::records::{self, Map, Refusal, name, parse, text};
use cluster::{Name, SLOTS};
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// Beginning of the names of the records of moves.
pub const MOVES: &str = "moves/";
/// Name of the record that each creation of a move writes.
pub const PLAN: &str = "plan";
/// Maximum number of ranges of a move.
const RANGES_MAX: usize = 1024;

/// State of a move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// The source sends keys to the target.
    Open,
    /// The target owns the slots.
    Done,
    /// An operator has ended the move; the source owns the slots.
    Cancelled,
    /// The move could not go on; the source owns the slots.
    Failed,
}

impl State {
    const ALL: [State; 4] = [State::Open, State::Done, State::Cancelled, State::Failed];

    /// Returns the word for the state.
    pub fn word(self) -> &'static str {
        match self {
            State::Open => "open",
            State::Done => "done",
            State::Cancelled => "cancelled",
            State::Failed => "failed",
        }
    }
}

/// A move of slots from one shard to another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Move {
    /// Ranges of slots, in ascending order.
    pub slots: Vec<(u16, u16)>,
    /// Shard that owns the slots before the move.
    pub from: Name,
    /// Shard that owns the slots after the move.
    pub to: Name,
    /// Terms of both shards' primaries at the creation. A failover of either voids the move.
    pub epochs: (u64, u64),
    /// State.
    pub state: State,
    /// Reason of a failure.
    pub why: String,
    /// Number of commits that the source has voided, because they came too late.
    pub attempts: u64,
    /// Time of the creation, in seconds since 1970.
    pub created: u64,
    /// Time of the end, in seconds since 1970; 0 while the move is open.
    pub ended: u64,
}

#[derive(Serialize, Deserialize)]
struct MoveText {
    format: u32,
    cluster: String,
    slots: Vec<(u16, u16)>,
    from: String,
    to: String,
    epochs: (u64, u64),
    state: String,
    #[serde(default)]
    why: String,
    #[serde(default)]
    attempts: u64,
    created: u64,
    #[serde(default)]
    ended: u64,
}

impl Move {
    /// Whether the move has not ended.
    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// Returns the slots as ranges.
    pub fn ranges(&self) -> Vec<RangeInclusive<u16>> {
        self.slots
            .iter()
            .map(|(first, last)| *first..=*last)
            .collect()
    }

    /// Whether a slot moves.
    pub fn has(&self, slot: u16) -> bool {
        self.slots
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&slot))
    }

    /// Returns the move after its end.
    #[must_use]
    pub fn ended(&self, state: State, why: &str, now: u64) -> Move {
        Move {
            state,
            why: why.to_owned(),
            ended: now,
            ..self.clone()
        }
    }

    /// Encodes the record.
    pub fn encode(&self, cluster: Name) -> String {
        text(&MoveText {
            format: records::FORMAT,
            cluster: cluster.to_string(),
            slots: self.slots.clone(),
            from: self.from.to_string(),
            to: self.to.to_string(),
            epochs: self.epochs,
            state: self.state.word().to_owned(),
            why: self.why.clone(),
            attempts: self.attempts,
            created: self.created,
            ended: self.ended,
        })
    }

    /// Decodes a record.
    ///
    /// # Errors
    /// It cannot be used.
    pub fn decode(value: &[u8], cluster: Name) -> Result<Move, Refusal> {
        let text: MoveText = parse(value, Some(cluster))?;
        let mut states = State::ALL.into_iter();
        let state = states.find(|state| state.word() == text.state);
        let found = text.state;
        let wrong = || {
            Refusal::Value(format!(
                "state '{found}': expected open, done, cancelled or failed"
            ))
        };
        let moved = Move {
            slots: checked(text.slots)?,
            from: name("from", &text.from)?,
            to: name("to", &text.to)?,
            epochs: text.epochs,
            state: state.ok_or_else(wrong)?,
            why: text.why,
            attempts: text.attempts,
            created: text.created,
            ended: text.ended,
        };
        match moved.from == moved.to {
            true => Err(Refusal::Value("from and to: expected two shards".into())),
            false => Ok(moved),
        }
    }
}

/// Returns ranges of slots if they are in ascending order and there is at least one.
pub(crate) fn checked(slots: Vec<(u16, u16)>) -> Result<Vec<(u16, u16)>, Refusal> {
    let count = slots.len();
    if count == 0 || count > RANGES_MAX {
        let expected = format!("{count} ranges of slots: expected 1 to {RANGES_MAX}");
        return Err(Refusal::Value(expected));
    }
    let mut next = 0;
    for (first, last) in &slots {
        if *first < next || first > last || *last >= SLOTS {
            return Err(Refusal::Value(format!(
                "slots {first}-{last}: expected {next} <= first <= last < {SLOTS}"
            )));
        }
        next = last + 1;
    }
    Ok(slots)
}

/// Returns slots as ranges in ascending order, of which no two are adjacent.
pub fn ranges_of(mut slots: Vec<u16>) -> Vec<(u16, u16)> {
    slots.sort_unstable();
    let mut ranges: Vec<(u16, u16)> = Vec::new();
    for slot in slots {
        match ranges.last_mut() {
            Some((_, last)) if slot <= last.saturating_add(1) => *last = slot,
            _ => ranges.push((slot, slot)),
        }
    }
    ranges
}

/// Returns the owner of each slot, by number.
pub(crate) fn owners(map: &Map) -> Vec<Option<Name>> {
    let mut owners = vec![None; usize::from(SLOTS)];
    for (first, last, shard) in map {
        owners[usize::from(*first)..=usize::from(*last)].fill(Some(*shard));
    }
    owners
}

/// Returns the shard that owns all slots of some ranges; `None` if there is no such shard.
pub fn owner(map: &Map, slots: &[(u16, u16)]) -> Option<Name> {
    let owners = owners(map);
    let mut all = slots.iter().flat_map(|(first, last)| *first..=*last);
    let found = owners[usize::from(all.next()?)]?;
    all.all(|slot| owners[usize::from(slot)] == Some(found))
        .then_some(found)
}

/// Returns the map in which a shard owns some slots.
pub fn reassigned(map: &Map, slots: &[(u16, u16)], to: Name) -> Map {
    let mut owners = owners(map);
    for (first, last) in slots {
        owners[usize::from(*first)..=usize::from(*last)].fill(Some(to));
    }
    let mut changed: Map = Map::new();
    for (slot, owner) in (0..SLOTS).zip(owners) {
        let Some(owner) = owner else { continue };
        match changed.last_mut() {
            Some((_, last, shard)) if *shard == owner && *last + 1 == slot => *last = slot,
            _ => changed.push((slot, slot, owner)),
        }
    }
    changed
}
