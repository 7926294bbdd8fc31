//! Number of parts of each object on available servers, and number of objects by number of parts.

use super::scheme::PARTS_MAX;

/// Last class of a histogram. It counts the objects that have more than [`PARTS_MAX`] copies after
/// a change of their servers.
const PARTS_COUNTED: usize = PARTS_MAX + 1;

/// Objects by the number of their parts; `[0]` is not maintained.
pub(super) type Histogram = [u64; PARTS_COUNTED + 1];

/// Servers that hold a part of an object, and a mask of the chunk numbers that they hold.
#[derive(Clone, Copy, Default)]
struct Held {
    servers: u16,
    numbers: u16,
}

impl Held {
    fn parts(self, is_coded: bool) -> usize {
        match is_coded {
            true => self.numbers.count_ones() as usize,
            false => usize::from(self.servers),
        }
    }
}

/// Counts of the parts of all objects. Copies are counted by server. Chunks are counted by number,
/// so that two servers with the same chunk, as after an outage, count as one. Callers report only
/// parts that a request would find.
pub(super) struct Presence {
    by_object: Vec<Held>,
    /// Objects that are kept whole.
    pub(super) whole: Histogram,
    /// Objects that are coded.
    pub(super) coded: Histogram,
}

impl Presence {
    pub(super) fn new(objects: usize) -> Presence {
        Presence {
            by_object: vec![Held::default(); objects],
            whole: [0; PARTS_COUNTED + 1],
            coded: [0; PARTS_COUNTED + 1],
        }
    }

    fn change(&mut self, object: u32, is_coded: bool, held: Held) {
        let before = std::mem::replace(&mut self.by_object[object as usize], held);
        let histogram = match is_coded {
            true => &mut self.coded,
            false => &mut self.whole,
        };
        let (before, now) = (before.parts(is_coded), held.parts(is_coded));
        if before > 0 {
            histogram[before.min(PARTS_COUNTED)] -= 1;
        }
        if now > 0 {
            histogram[now.min(PARTS_COUNTED)] += 1;
        }
    }

    /// Counts one more server that holds a copy, or the chunk of this number.
    pub(super) fn add(&mut self, object: u32, is_coded: bool, number: u8) {
        let mut held = self.by_object[object as usize];
        held.servers += 1;
        held.numbers |= 1 << number;
        self.change(object, is_coded, held);
    }

    /// Whether some chunk may be on more than one server.
    pub(super) fn has_twins(&self, object: u32) -> bool {
        let held = self.by_object[object as usize];
        u32::from(held.servers) > held.numbers.count_ones()
    }

    /// Removes a server's part. `has_twin` is whether another server holds the chunk of the same
    /// number.
    pub(super) fn remove(&mut self, object: u32, is_coded: bool, number: u8, has_twin: bool) {
        let mut held = self.by_object[object as usize];
        let servers = held.servers.checked_sub(1);
        held.servers = servers.expect("the removed part was counted");
        if !has_twin {
            held.numbers &= !(1 << number);
        }
        self.change(object, is_coded, held);
    }

    #[cfg(any(test, debug_assertions))]
    pub(super) fn parts(&self, object: u32, is_coded: bool) -> usize {
        self.by_object[object as usize].parts(is_coded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_counted_by_their_parts() {
        let mut presence = Presence::new(3);
        (0..3).for_each(|number| presence.add(0, true, number));
        presence.add(1, false, 0);
        presence.remove(0, true, 2, false);
        assert_eq!(presence.coded[..4], [0, 0, 1, 0]);
        assert_eq!(presence.whole[..2], [0, 1]);
        (0..40).for_each(|_| presence.add(2, false, 0));
        assert_eq!(presence.whole[PARTS_COUNTED], 1);
        (0..40).for_each(|_| presence.remove(2, false, 0, false));
        assert_eq!(presence.parts(2, false), 0);
        assert_eq!(presence.whole.iter().sum::<u64>(), 1);
    }

    #[test]
    fn a_chunk_on_two_servers_counts_once() {
        let mut presence = Presence::new(1);
        presence.add(0, true, 0);
        presence.add(0, true, 1);
        assert!(!presence.has_twins(0));
        presence.add(0, true, 1);
        assert!(presence.has_twins(0));
        assert_eq!(presence.parts(0, true), 2);
        presence.remove(0, true, 1, true);
        assert_eq!(presence.parts(0, true), 2);
        presence.remove(0, true, 1, false);
        assert_eq!(presence.parts(0, true), 1);
    }
}
