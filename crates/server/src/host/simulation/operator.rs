//! What an operator of the simulated cluster does: moves of slots, cancellations, and changes of
//! records. Also what the records say of moves.

use super::{CLUSTER, KEYS, World, config, name};
use ::cluster::Name;
use membership::directory::Directory;
use membership::kv::Write;
use membership::moves::{MOVES, State, owner, ranges_of};
use membership::plan;
use membership::records::{CONFIG, MAP};
use wire::slot::slot;

/// Maximum number of moves that are open at once.
const OPEN_MAX: usize = 2;

impl World {
    /// Returns all records.
    pub fn directory(&self) -> Directory {
        let mut directory = Directory::default();
        let (revision, entries) = self.store.all();
        directory.load(revision, entries);
        directory
    }

    /// Does what an operator does now and then, with records that may be old.
    pub fn operate(&mut self) {
        let reader = self.random.below(2 * self.nodes.len() as u64) as usize;
        let directory = match self.nodes.get(reader) {
            Some(node) => node.host.directory.clone(),
            None => self.directory(),
        };
        let open = directory
            .moves()
            .iter()
            .filter(|(_, (one, _))| one.is_open());
        let open: Vec<Name> = open.map(|(id, _)| *id).collect();
        let chosen = match open.len() as u64 {
            0 => None,
            count => open.get(self.random.below(count) as usize).copied(),
        };
        match (self.random.below(16), chosen) {
            (0, Some(id)) => {
                self.note(format!("move {id} is cancelled"));
                let change = plan::end(&directory, id, State::Cancelled, "", 0);
                let change = change.expect("it is open");
                self.store.commit(&change.guards, &change.writes);
            }
            (1, Some(id)) => {
                self.note(format!("the record of move {id} is removed"));
                self.store
                    .commit(&[], &[Write::Delete(format!("{MOVES}{id}"))]);
            }
            (2, Some(id)) => {
                self.note(format!("the record of move {id} is damaged"));
                self.store.put(&format!("{MOVES}{id}"), "{".to_owned());
            }
            (3, _) => {
                let config = config(self.layout);
                self.store.put(CONFIG, config.encode());
            }
            (4, _) => {
                let value = self.store.value(MAP).expect("there is a map");
                let value = String::from_utf8(value).expect("it is text");
                self.store.put(MAP, value);
            }
            _ if open.len() < OPEN_MAX => self.create_move(&directory),
            _ => {}
        }
    }

    /// Begins a move of one key or of all keys of a shard to another one.
    pub fn create_move(&mut self, directory: &Directory) {
        let shards: Vec<Name> = directory.shards().keys().copied().collect();
        let to = shards.get(self.random.below(self.layout.shards as u64) as usize);
        let (Some(to), Some((map, _))) = (to.copied(), directory.map()) else {
            return;
        };
        let mut slots: Vec<u16> = KEYS.iter().map(|key| slot(key.as_bytes())).collect();
        slots.retain(|slot| owner(map, &[(*slot, *slot)]).is_some_and(|owner| owner != to));
        if slots.is_empty() {
            return;
        }
        if !self.random.is_one_in(3) {
            let at = self.random.below(slots.len() as u64) as usize;
            slots = vec![slots[at]];
        }
        self.move_count += 1;
        let id = name(1_000 + self.move_count);
        // Some of the slots may be part of another move.
        if let Ok(change) = plan::create(directory, &[(id, ranges_of(slots), to)], 0) {
            self.note(format!("move {id} to {to} is created"));
            self.store.commit(&change.guards, &change.writes);
        }
    }

    /// Slots change their owner by a move that is done, and by nothing else.
    pub fn check_moves(&mut self) -> Result<(), String> {
        let revision = self.store.newest(&[MOVES, MAP]);
        if std::mem::replace(&mut self.moves_at, revision) == revision {
            return Ok(());
        }
        let directory = self.directory();
        for (id, (one, _)) in directory.moves() {
            if one.state == State::Open || !self.ended.insert(*id) {
                continue;
            }
            self.note(format!("move {id} is {}: {}", one.state.word(), one.why));
            if one.state != State::Done {
                continue;
            }
            for (key, owner) in KEYS.into_iter().zip(&mut self.owners) {
                if one.has(slot(key.as_bytes())) {
                    *owner = one.to;
                }
            }
        }
        let (map, _) = directory.map().ok_or("there is no map")?;
        for (key, expected) in KEYS.into_iter().zip(self.owners) {
            let slot = slot(key.as_bytes());
            let found = owner(map, &[(slot, slot)]);
            if found != Some(expected) {
                return Err(format!(
                    "slot {slot} has the owner {found:?}: expected {expected}"
                ));
            }
        }
        Ok(())
    }

    /// Whether moves are open.
    pub fn has_moves(&self) -> bool {
        let directory = self.directory();
        directory.moves().values().any(|(one, _)| one.is_open())
    }

    /// Returns the owners of the keys according to the map.
    pub fn owners(&self) -> [Name; KEYS.len()] {
        let directory = self.directory();
        let (map, _) = directory.map().expect("there is a map");
        KEYS.map(|key| {
            let slot = slot(key.as_bytes());
            owner(map, &[(slot, slot)]).expect("it has an owner")
        })
    }

    /// Name of the simulated cluster.
    pub fn cluster() -> Name {
        name(CLUSTER)
    }
}
