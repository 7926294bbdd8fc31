//! Queues of segments in the order in which they were last filled, by writers or by merges.

use crate::storage::{Age, SegmentId};

/// The neighbours of a segment in its queue.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    before: SegmentId,
    after: SegmentId,
    age: Age,
}

#[derive(Clone, Copy, Debug, Default)]
struct Queue {
    first: SegmentId,
    last: SegmentId,
    length: u32,
}

/// One queue for each [`Age`], linked through an array by segment.
#[derive(Debug)]
pub(super) struct Ages {
    /// Links by segment number; index 0 is unused.
    links: Box<[Link]>,
    queues: [Queue; 2],
}

impl Ages {
    pub(super) fn new(count: u32) -> Self {
        Ages {
            links: vec![Link::default(); count as usize + 1].into(),
            queues: [Queue::default(); 2],
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.links)
    }

    pub(super) fn of(&self, id: SegmentId) -> Age {
        self.links[id.0 as usize].age
    }

    /// Returns the number of segments of an age.
    pub(super) fn count(&self, age: Age) -> u32 {
        self.queues[age as usize].length
    }

    /// Returns the segments of an age, longest filled first.
    pub(super) fn queue(&self, age: Age) -> impl Iterator<Item = SegmentId> + '_ {
        self.after(self.queues[age as usize].first)
    }

    /// Returns `first` and the segments after it in its queue.
    pub(super) fn after(&self, first: SegmentId) -> impl Iterator<Item = SegmentId> + '_ {
        let some = |id: SegmentId| id.is_some().then_some(id);
        std::iter::successors(some(first), move |id| some(self.links[id.0 as usize].after))
    }

    /// Appends a segment to the queue of its age.
    pub(super) fn push(&mut self, id: SegmentId, age: Age) {
        let queue = &mut self.queues[age as usize];
        let before = std::mem::replace(&mut queue.last, id);
        match before {
            SegmentId::NONE => queue.first = id,
            before => self.links[before.0 as usize].after = id,
        }
        queue.length += 1;
        self.links[id.0 as usize] = Link {
            before,
            after: SegmentId::NONE,
            age,
        };
    }

    pub(super) fn remove(&mut self, id: SegmentId) {
        let Link { before, after, age } = self.links[id.0 as usize];
        let queue = &mut self.queues[age as usize];
        match before {
            SegmentId::NONE => queue.first = after,
            before => self.links[before.0 as usize].after = after,
        }
        match after {
            SegmentId::NONE => queue.last = before,
            after => self.links[after.0 as usize].before = before,
        }
        queue.length -= 1;
    }

    /// Panics if a queue is inconsistent. Returns the number of segments in both queues.
    pub(super) fn check(&self) -> usize {
        let mut all = 0;
        for age in [Age::Young, Age::Old] {
            let mut before = SegmentId::NONE;
            let mut length = 0;
            for id in self.queue(age) {
                assert_eq!(self.links[id.0 as usize].before, before);
                assert_eq!(self.of(id), age);
                before = id;
                length += 1;
            }
            assert_eq!(self.queues[age as usize].last, before);
            assert_eq!(self.count(age), length);
            all += length as usize;
        }
        all
    }
}
