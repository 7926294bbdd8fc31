//! Segments in the order in which they were last gone through: new ones, and those that merges have made.

use crate::storage::heap::SegmentId;

/// Whether what is in a segment has been gone through before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Age {
    /// As it was written.
    #[default]
    Young,
    /// A merge has kept it.
    Old,
}

#[derive(Clone, Copy, Debug, Default)]
struct Place {
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

/// Two queues, linked through the segments' places.
#[derive(Debug)]
pub(crate) struct Ages {
    /// By segment; the first stands for none.
    places: Box<[Place]>,
    queues: [Queue; 2],
}

impl Ages {
    pub(crate) fn new(count: u32) -> Self {
        Ages {
            places: vec![Place::default(); count as usize + 1].into(),
            queues: [Queue::default(); 2],
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.places.len() * size_of::<Place>()
    }

    pub(crate) fn of(&self, id: SegmentId) -> Age {
        self.places[id.0 as usize].age
    }

    pub(crate) fn count(&self, age: Age) -> u32 {
        self.queues[age as usize].length
    }

    /// Those of an age, the one that waits longest first.
    pub(crate) fn queue(&self, age: Age) -> impl Iterator<Item = SegmentId> + '_ {
        self.after(self.queues[age as usize].first)
    }

    /// This one, and those of its age that wait behind it.
    pub(crate) fn after(&self, first: SegmentId) -> impl Iterator<Item = SegmentId> + '_ {
        let some = |id: SegmentId| id.is_some().then_some(id);
        std::iter::successors(some(first), move |id| {
            some(self.places[id.0 as usize].after)
        })
    }

    /// Behind all of its age.
    pub(crate) fn push(&mut self, id: SegmentId, age: Age) {
        let queue = &mut self.queues[age as usize];
        let before = std::mem::replace(&mut queue.last, id);
        match before {
            SegmentId::NONE => queue.first = id,
            before => self.places[before.0 as usize].after = id,
        }
        queue.length += 1;
        self.places[id.0 as usize] = Place {
            before,
            after: SegmentId::NONE,
            age,
        };
    }

    pub(crate) fn remove(&mut self, id: SegmentId) {
        let Place { before, after, age } = self.places[id.0 as usize];
        let queue = &mut self.queues[age as usize];
        match before {
            SegmentId::NONE => queue.first = after,
            before => self.places[before.0 as usize].after = after,
        }
        match after {
            SegmentId::NONE => queue.last = before,
            after => self.places[after.0 as usize].before = before,
        }
        queue.length -= 1;
    }

    /// Panics where a queue contradicts itself; tells how many there are in all.
    pub(crate) fn check(&self) -> usize {
        let mut all = 0;
        for age in [Age::Young, Age::Old] {
            let mut before = SegmentId::NONE;
            for id in self.queue(age) {
                assert_eq!(self.places[id.0 as usize].before, before);
                assert_eq!(self.of(id), age);
                before = id;
                all += 1;
            }
            assert_eq!(self.queues[age as usize].last, before);
        }
        assert_eq!(
            all,
            (self.count(Age::Young) + self.count(Age::Old)) as usize
        );
        all
    }
}
