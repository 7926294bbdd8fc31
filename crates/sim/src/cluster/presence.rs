//! How many parts of each object available servers hold, and how many objects have how many.

use super::scheme::PARTS_MAX;

/// A histogram reaches so far; an object with more parts, after its servers changed, counts there.
const PARTS_COUNTED: usize = PARTS_MAX + 1;

/// Objects by the number of their parts: `[0]` is not kept.
pub(super) type Histogram = [u64; PARTS_COUNTED + 1];

/// See the module text. Parts are counted by the servers that hold them: two servers that hold the
/// same chunk, as after an outage, count as two.
pub(super) struct Presence {
    by_object: Vec<u16>,
    /// Of objects that are kept whole.
    pub(super) whole: Histogram,
    /// Of objects that are coded.
    pub(super) coded: Histogram,
}

impl Presence {
    pub(super) fn new(objects: usize) -> Presence {
        Presence {
            by_object: vec![0; objects],
            whole: [0; PARTS_COUNTED + 1],
            coded: [0; PARTS_COUNTED + 1],
        }
    }

    fn of(&mut self, is_coded: bool) -> &mut Histogram {
        match is_coded {
            true => &mut self.coded,
            false => &mut self.whole,
        }
    }

    fn change(&mut self, object: u32, is_coded: bool, parts: u16) {
        let before = std::mem::replace(&mut self.by_object[object as usize], parts);
        let histogram = self.of(is_coded);
        if before > 0 {
            histogram[usize::from(before).min(PARTS_COUNTED)] -= 1;
        }
        if parts > 0 {
            histogram[usize::from(parts).min(PARTS_COUNTED)] += 1;
        }
    }

    /// A server holds a part of it, one more.
    pub(super) fn came(&mut self, object: u32, is_coded: bool) {
        let parts = self.by_object[object as usize] + 1;
        self.change(object, is_coded, parts);
    }

    /// A server holds none of it any more.
    pub(super) fn went(&mut self, object: u32, is_coded: bool) {
        let parts = self.by_object[object as usize].checked_sub(1);
        self.change(object, is_coded, parts.expect("what goes was there"));
    }

    pub(super) fn parts(&self, object: u32) -> u16 {
        self.by_object[object as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_counted_by_their_parts() {
        let mut presence = Presence::new(3);
        (0..3).for_each(|_| presence.came(0, true));
        presence.came(1, false);
        presence.went(0, true);
        assert_eq!(presence.coded[..4], [0, 0, 1, 0]);
        assert_eq!(presence.whole[..2], [0, 1]);
        (0..40).for_each(|_| presence.came(2, true));
        assert_eq!(presence.coded[PARTS_COUNTED], 1);
        (0..40).for_each(|_| presence.went(2, true));
        assert_eq!(presence.parts(2), 0);
        assert_eq!(presence.coded.iter().sum::<u64>(), 1);
    }
}
