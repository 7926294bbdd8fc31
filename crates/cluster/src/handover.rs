//! Hand-over of slots from one shard to another: one range of slots, as seen by one server.
//!
//! The source holds commands on the slots, including reads, and sends a [`Mark`] after the last
//! write. The target commits once it and its in-sync replicas have everything up to the mark. The
//! commit is a single transaction, guarded by the map, the records of both shards and the move, so
//! that it fails if either shard has failed over in the meantime.

use crate::record::Revision;
use crate::rule::Rule;

/// Number of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u32);

/// Contents of the store that concern a range of slots, read at one revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct View {
    /// Revision at which the store was read.
    pub at: Revision,
    /// Shard that the map names as owner.
    pub owner: ShardId,
    /// Revision of the map.
    pub map: Revision,
    /// Revision of the source's record.
    pub source: Revision,
    /// Revision of the move.
    pub movement: Revision,
    /// Whether a move of the slots from the source to the target is under way.
    pub moves: bool,
}

/// Revisions that guard the commit of a move. The source sends them after its last write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mark {
    /// Revision of the map.
    pub map: Revision,
    /// Revision of the source's record.
    pub source: Revision,
    /// Revision of the move.
    pub movement: Revision,
}

impl Mark {
    fn of(view: &View) -> Mark {
        Mark {
            map: view.map,
            source: view.source,
            movement: view.movement,
        }
    }
}

/// A guarded write that ends a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct End {
    /// Revisions that the keys must have.
    pub mark: Mark,
    /// Revision that the target's record must have for a commit; `None` cancels the move.
    pub target: Option<Revision>,
}

/// A range of slots, as seen by a server of one shard.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Slots {
    shard: ShardId,
    view: View,
    hold: Option<Mark>,
    #[cfg(test)]
    pub(crate) without: Option<Rule>,
}

impl Slots {
    /// Creates the state of a server of a shard.
    pub fn new(shard: ShardId, view: View) -> Slots {
        Slots {
            shard,
            view,
            hold: None,
            #[cfg(test)]
            without: None,
        }
    }

    #[cfg(not(test))]
    fn has(&self, _rule: Rule) -> bool {
        true
    }

    #[cfg(test)]
    fn has(&self, rule: Rule) -> bool {
        self.without != Some(rule)
    }

    /// Returns the revision at which the store was last read.
    pub fn read_at(&self) -> Revision {
        self.view.at
    }

    /// Takes a view read from the store, and ignores one that is not newer than the current view. A
    /// hold ends when the move has ended or its commit can no longer apply; until then the hold
    /// remains.
    pub fn read(&mut self, view: View) {
        if view.at <= self.view.at {
            return;
        }
        self.view = view;
        let waits = self.has(Rule::HoldUntilOutcome);
        let is_open = |mark: &Mark| *mark == Mark::of(&view) && view.moves && waits;
        self.hold = self.hold.filter(is_open);
    }

    /// Whether a serving primary whose term began with record revision `since` may execute commands
    /// on the slots. A map that was read before the term began may miss a commit by the former
    /// primary.
    pub fn executes(&self, since: Revision) -> bool {
        let is_fresh = self.view.at >= since || !self.has(Rule::FreshMap);
        self.view.owner == self.shard && is_fresh && self.hold.is_none()
    }

    /// Whether commands on the slots wait.
    pub fn is_held(&self) -> bool {
        self.hold.is_some()
    }

    /// Starts holding commands on the slots. Returns the mark to send after the last write, or
    /// `None` if this server may not execute commands on them or no move is under way.
    pub fn hold(&mut self, since: Revision) -> Option<Mark> {
        if !self.executes(since) || !self.view.moves {
            return None;
        }
        self.hold = Some(Mark::of(&self.view));
        self.hold
    }

    /// Returns the write that voids the commit of a held move, for use when the outcome has not
    /// arrived in time. The hold ends once the store has applied this write and the result was
    /// read.
    pub fn cancel(&self) -> Option<End> {
        self.hold.map(|mark| End { mark, target: None })
    }

    /// Returns the target's commit; the target's record has revision `target`. The caller and all
    /// members of its shard must have applied everything up to the mark, and keep it for as long as
    /// the commit may apply.
    pub fn commit(mark: Mark, target: Revision) -> End {
        End {
            mark,
            target: Some(target),
        }
    }
}

impl End {
    /// Whether the write applies while the store's keys have these revisions.
    pub fn applies(&self, view: &View, target: Revision) -> bool {
        self.mark == Mark::of(view) && view.moves && self.target.is_none_or(|is| is == target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(at: u64, movement: u64, moves: bool) -> View {
        View {
            at: Revision(at),
            owner: ShardId(1),
            map: Revision(1),
            source: Revision(2),
            movement: Revision(movement),
            moves,
        }
    }

    #[test]
    fn a_hold_lasts_as_long_as_the_commit_may_apply() {
        let mut slots = Slots::new(ShardId(1), view(4, 3, true));
        let mark = slots.hold(Revision(2)).expect("it moves");
        assert!(slots.is_held() && !slots.executes(Revision(2)));
        slots.read(view(5, 3, true));
        assert!(slots.is_held(), "nothing has changed");
        let end = slots.cancel().expect("it holds");
        assert_eq!(end.mark, mark);
        slots.read(view(6, 6, false));
        assert!(slots.executes(Revision(2)));
    }

    #[test]
    fn a_map_from_before_the_term_does_not_count() {
        let slots = Slots::new(ShardId(1), view(4, 3, false));
        assert!(slots.executes(Revision(4)) && !slots.executes(Revision(5)));
    }
}
