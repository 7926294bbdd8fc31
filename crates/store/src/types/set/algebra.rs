//! Operations on several sets: intersection, union and difference.

use super::Set;
use crate::collection::Scene;

impl Set {
    /// Passes the members that are in all sets to `each` until it returns false. A missing set
    /// counts as empty.
    pub fn intersect(sets: &[Option<&Set>], scene: &Scene<'_>, each: impl FnMut(&[u8]) -> bool) {
        let Some(mut sets) = sets.iter().copied().collect::<Option<Vec<&Set>>>() else {
            return;
        };
        // Looks up each member of the smallest set in the others, beginning with the next smallest,
        // because a member is most likely to be missing there.
        sets.sort_by_cached_key(|set| set.len(scene));
        let Some((first, others)) = sets.split_first() else {
            return;
        };
        let mut each = each;
        first.all(scene, |member| {
            !others.iter().all(|other| other.contains(member, scene)) || each(member)
        });
    }

    /// Returns the members that are in any set.
    pub fn union(sets: &[Option<&Set>], scene: &Scene<'_>) -> Set {
        let mut union = Set::default();
        for set in sets.iter().flatten() {
            set.each(scene, |member| {
                union.add(member, scene);
            });
        }
        union
    }

    /// Passes the members of the first set that are in no other set to `each`.
    pub fn subtract(sets: &[Option<&Set>], scene: &Scene<'_>, mut each: impl FnMut(&[u8])) {
        let Some((Some(first), others)) = sets.split_first() else {
            return;
        };
        // Begins with the largest set, because a member is most likely to be found there.
        let mut others: Vec<&Set> = others.iter().copied().flatten().collect();
        others.sort_by_cached_key(|set| std::cmp::Reverse(set.len(scene)));
        first.each(scene, |member| {
            if !others.iter().any(|other| other.contains(member, scene)) {
                each(member);
            }
        });
    }

    /// Returns a set of the members that `pass` produces.
    pub fn collect(scene: &Scene<'_>, pass: impl FnOnce(&mut dyn FnMut(&[u8]))) -> Set {
        let mut set = Set::default();
        pass(&mut |member| {
            set.add(member, scene);
        });
        set
    }
}
