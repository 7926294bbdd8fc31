//! Groups of entries, in the order in which they were written.

use super::entry::{EntryState, LEAVING};
use policy::groups::Rates;
use policy::{Cells, Slot, Tick};

/// Group number that means "no group".
pub(super) const NONE: u32 = LEAVING;

/// Time and rates at a group's creation. A merged group gets the means of its sources.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Birth {
    pub(super) at: Tick,
    /// Number of the request at which the group was created.
    pub(super) request: u64,
    pub(super) rates: Rates,
}

impl Birth {
    /// Returns the mean of several births. There must be at least one.
    pub(super) fn mean(births: &[Birth]) -> Birth {
        let count = births.len() as u64;
        let mean = |of: fn(&Birth) -> u64| {
            let sum: u128 = births.iter().map(|birth| u128::from(of(birth))).sum();
            (sum / u128::from(count)) as u64
        };
        let share = |of: fn(&Rates) -> f32| {
            births.iter().map(|birth| of(&birth.rates)).sum::<f32>() / count as f32
        };
        Birth {
            at: Tick(mean(|birth| birth.at.0)),
            request: mean(|birth| birth.request),
            rates: Rates {
                requests: share(|rates| rates.requests),
                writes: share(|rates| rates.writes),
                misses: share(|rates| rates.misses),
            },
        }
    }
}

/// Group of entries. A vacant one has serial number 0.
#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    pub(super) members: Vec<Slot>,
    /// Total weight of the members.
    pub(super) weight: u64,
    /// Serial number, which distinguishes the group from earlier ones with the same index.
    pub(super) serial: u64,
    pub(super) previous: u32,
    pub(super) next: u32,
    pub(super) birth: Birth,
    /// Number of requests for members, as a feature. It saturates at 16 million.
    pub(super) requests: f32,
    /// Number of members that were requested, as a feature. It saturates at 16 million.
    pub(super) requested: f32,
    /// Number of the request at which the group was begun or made by a merge.
    pub(super) made_at: u64,
    /// Number of members requested since `made_at`.
    pub(super) requested_here: f32,
    /// Number of the group's last sample; 0 before the first one.
    pub(super) sample: u64,
    /// Tag of the entries counted by the last sample; 0 before the first one.
    pub(super) tag: u8,
    /// Whether the group is being merged or is the target of a merge. Such a group is neither
    /// ranked nor removed.
    pub(super) is_merging: bool,
}

/// All groups of a cache.
#[derive(Clone, Debug)]
pub(super) struct Groups {
    all: Vec<Group>,
    vacant: Vec<u32>,
    oldest: u32,
    youngest: u32,
    serial: u64,
    /// Total capacity of all groups for references to entries.
    references: usize,
}

impl Groups {
    pub(super) fn new() -> Groups {
        Groups {
            all: Vec::new(),
            vacant: Vec::new(),
            oldest: NONE,
            youngest: NONE,
            serial: 0,
            references: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len() - self.vacant.len()
    }

    /// Returns an upper bound on the group numbers.
    pub(super) fn ids(&self) -> usize {
        self.all.len()
    }

    /// Returns true if two more groups can be created: one to be written, and one as the target of
    /// a merge.
    pub(super) fn has_room(&self) -> bool {
        self.len() + 2 < NONE as usize
    }

    pub(super) fn oldest(&self) -> u32 {
        self.oldest
    }

    pub(super) fn at(&self, id: u32) -> &Group {
        &self.all[id as usize]
    }

    #[inline]
    pub(super) fn at_mut(&mut self, id: u32) -> &mut Group {
        &mut self.all[id as usize]
    }

    /// Returns the group with this number, if it exists.
    pub(super) fn get(&self, id: u32) -> Option<&Group> {
        self.all.get(id as usize).filter(|group| group.serial > 0)
    }

    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut Group> {
        let group = self.all.get_mut(id as usize);
        group.filter(|group| group.serial > 0)
    }

    /// Returns the number of members of each group.
    pub(super) fn lens(&self) -> impl Iterator<Item = usize> {
        self.all.iter().map(|group| group.members.len())
    }

    /// Creates an empty group that is older than `next` and younger than all groups before it. If
    /// `next` is [`NONE`], the group is the youngest.
    pub(super) fn add(&mut self, next: u32, room: usize) -> u32 {
        assert!(self.len() < NONE as usize);
        let id = self.vacant.pop().unwrap_or_else(|| {
            self.all.push(Group::default());
            self.all.len() as u32 - 1
        });
        let previous = match next {
            NONE => self.youngest,
            next => self.at(next).previous,
        };
        self.serial += 1;
        *self.at_mut(id) = Group {
            members: Vec::with_capacity(room),
            serial: self.serial,
            previous,
            next,
            sample: u64::MAX,
            ..Group::default()
        };
        self.references += self.at(id).members.capacity();
        self.link(previous, id, next);
        id
    }

    fn link(&mut self, previous: u32, id: u32, next: u32) {
        match previous {
            NONE => self.oldest = id,
            previous => self.at_mut(previous).next = id,
        }
        match next {
            NONE => self.youngest = id,
            next => self.at_mut(next).previous = id,
        }
    }

    /// Removes an empty group.
    pub(super) fn remove(&mut self, id: u32) {
        let group = core::mem::take(self.at_mut(id));
        assert!(group.members.is_empty());
        self.references -= group.members.capacity();
        match group.previous {
            NONE => self.oldest = group.next,
            previous => self.at_mut(previous).next = group.next,
        }
        match group.next {
            NONE => self.youngest = group.previous,
            next => self.at_mut(next).previous = group.previous,
        }
        self.vacant.push(id);
    }

    pub(super) fn push(&mut self, id: u32, slot: Slot, weight: u32) {
        self.resize(id, |members| members.push(slot));
        self.at_mut(id).weight += u64::from(weight);
    }

    /// Removes a member. A group that has lost most of its members frees their memory.
    pub(super) fn take(&mut self, id: u32, slot: Slot, weight: u32) {
        self.resize(id, |members| {
            let at = members.iter().position(|member| *member == slot);
            members.swap_remove(at.expect("an entry is a member of its group"));
            if members.len() * 4 < members.capacity() {
                members.shrink_to(members.len() * 2);
            }
        });
        self.at_mut(id).weight -= u64::from(weight);
    }

    /// Removes and returns the youngest member.
    pub(super) fn pop(&mut self, id: u32) -> Option<Slot> {
        self.at_mut(id).members.pop()
    }

    fn resize(&mut self, id: u32, change: impl FnOnce(&mut Vec<Slot>)) {
        let members = &mut self.all[id as usize].members;
        let before = members.capacity();
        change(members);
        self.references = self.references - before + members.capacity();
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.all.capacity() * size_of::<Group>()
            + self.vacant.capacity() * size_of::<u32>()
            + self.references * size_of::<Slot>()
    }

    /// Returns the memory in bytes for the features and samples of groups.
    pub(super) fn feature_bytes(&self) -> usize {
        let birth = size_of::<Birth>();
        let counts = 3 * size_of::<f32>() + size_of::<u64>();
        let sample = size_of::<u64>() + size_of::<u8>();
        self.all.capacity() * (birth + counts + sample)
    }

    pub(super) fn check(&self, cells: &impl Cells<EntryState>) {
        let mut previous = NONE;
        let mut id = self.oldest;
        let mut count = 0;
        while id != NONE {
            let group = self.at(id);
            assert!(group.serial > 0);
            assert_eq!(group.previous, previous);
            let weights = group.members.iter().map(|slot| {
                assert!(cells.is_live(*slot));
                assert_eq!(cells.get(*slot).group(), id, "{slot:?}");
                u64::from(cells.weight(*slot))
            });
            let weight: u64 = weights.sum();
            assert!(group.is_merging || weight == group.weight);
            count += 1;
            (previous, id) = (id, group.next);
        }
        assert_eq!(previous, self.youngest);
        assert_eq!(count, self.len());
        let references: usize = self.all.iter().map(|group| group.members.capacity()).sum();
        assert_eq!(references, self.references);
    }
}
