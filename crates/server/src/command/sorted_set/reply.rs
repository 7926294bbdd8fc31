//! Replies that contain members and scores.

use store::{Scene, SortedSet};
use wire::{Protocol, Reply};

/// A list of members, optionally with scores: alternating in RESP2, pairs in RESP3.
pub struct Listing<'r, 'o> {
    reply: &'r mut Reply<'o>,
    with_scores: bool,
    is_nested: bool,
}

impl<'r, 'o> Listing<'r, 'o> {
    /// Starts a list of `count` members.
    pub fn new(reply: &'r mut Reply<'o>, count: usize, with_scores: bool) -> Self {
        let is_nested = with_scores && reply.protocol() == Protocol::Resp3;
        let is_flat = with_scores && !is_nested;
        reply.array(if is_flat { count * 2 } else { count });
        Listing {
            reply,
            with_scores,
            is_nested,
        }
    }

    /// Starts a list of `count` pairs of member and score in either protocol.
    pub fn of_pairs(reply: &'r mut Reply<'o>, count: usize) -> Self {
        reply.array(count);
        Listing {
            reply,
            with_scores: true,
            is_nested: true,
        }
    }

    /// Starts a list of one member and its score, alternating in either protocol.
    pub fn of_one(reply: &'r mut Reply<'o>) -> Self {
        reply.array(2);
        Listing {
            reply,
            with_scores: true,
            is_nested: false,
        }
    }

    /// Whether the reply was cut off, so that the rest of the list need not be written.
    pub fn is_full(&self) -> bool {
        self.reply.is_full()
    }

    /// Writes the member of this rank.
    pub fn write_rank(&mut self, set: &SortedSet, scene: &Scene<'_>, rank: usize) {
        set.each(rank..rank + 1, false, scene, |member, score| {
            self.write(member, score);
        });
    }

    /// Writes one member.
    pub fn write(&mut self, member: &[u8], score: f64) {
        if self.is_nested {
            self.reply.array(2);
        }
        self.reply.bulk(member);
        if self.with_scores {
            self.reply.double(score);
        }
    }
}
