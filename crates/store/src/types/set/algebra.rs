//! Several sets together: what all have, what any has, what only the first has.

use super::Set;
use crate::collection::Scene;

impl Set {
    /// Tells the members that are in all sets until `each` says false. A key without a set counts as an
    /// empty one.
    pub fn intersect(sets: &[Option<&Set>], scene: &Scene<'_>, each: impl FnMut(&[u8]) -> bool) {
        let Some(mut sets) = sets.iter().copied().collect::<Option<Vec<&Set>>>() else {
            return;
        };
        // From the smallest on, every member is looked for in the others, where it is missed soonest.
        sets.sort_by_cached_key(|set| set.len(scene));
        let Some((first, others)) = sets.split_first() else {
            return;
        };
        let mut each = each;
        first.all(scene, |member| {
            !others.iter().all(|other| other.contains(member, scene)) || each(member)
        });
    }

    /// The members that are in any set.
    pub fn union(sets: &[Option<&Set>], scene: &Scene<'_>) -> Set {
        let mut union = Set::default();
        for set in sets.iter().flatten() {
            set.each(scene, |member| {
                union.add(member, scene);
            });
        }
        union
    }

    /// Tells the members of the first set that no other has.
    pub fn subtract(sets: &[Option<&Set>], scene: &Scene<'_>, mut each: impl FnMut(&[u8])) {
        let Some((Some(first), others)) = sets.split_first() else {
            return;
        };
        // Where most are, most are found.
        let mut others: Vec<&Set> = others.iter().copied().flatten().collect();
        others.sort_by_cached_key(|set| std::cmp::Reverse(set.len(scene)));
        first.each(scene, |member| {
            if !others.iter().any(|other| other.contains(member, scene)) {
                each(member);
            }
        });
    }

    /// A set of these members.
    pub fn collect(scene: &Scene<'_>, tell: impl FnOnce(&mut dyn FnMut(&[u8]))) -> Set {
        let mut set = Set::default();
        tell(&mut |member| {
            set.add(member, scene);
        });
        set
    }
}
