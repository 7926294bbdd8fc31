//! Wrappers between a host and an algorithm, which present cells of one type as cells of another.

use crate::{Cells, Facts, Meta, Slot};

/// Writes the methods of [`Facts`](crate::Facts) for a wrapper whose field answers them:
/// `delegate_facts!(0)` writes all, `delegate_facts!(0: now weight)` those that are named.
#[macro_export]
macro_rules! delegate_facts {
    (@now $field:tt) => {
        #[inline]
        fn now(&self) -> $crate::Tick {
            self.$field.now()
        }
    };
    (@requests $field:tt) => {
        #[inline]
        fn requests(&self) -> u64 {
            self.$field.requests()
        }
    };
    (@is_live $field:tt) => {
        #[inline]
        fn is_live(&self, slot: $crate::Slot) -> bool {
            self.$field.is_live(slot)
        }
    };
    (@weight $field:tt) => {
        #[inline]
        fn weight(&self, slot: $crate::Slot) -> u32 {
            self.$field.weight(slot)
        }
    };
    (@key_hash $field:tt) => {
        #[inline]
        fn key_hash(&self, slot: $crate::Slot) -> u64 {
            self.$field.key_hash(slot)
        }
    };
    (@deadline $field:tt) => {
        #[inline]
        fn deadline(&self, slot: $crate::Slot) -> Option<$crate::Tick> {
            self.$field.deadline(slot)
        }
    };
    (@len $field:tt) => {
        #[inline]
        fn len(&self) -> usize {
            self.$field.len()
        }
    };
    (@sample $field:tt) => {
        #[inline]
        fn sample(&self, random: u64) -> Option<$crate::Slot> {
            self.$field.sample(random)
        }
    };
    (@next_access $field:tt) => {
        #[inline]
        fn next_access(&self, slot: $crate::Slot) -> Option<u64> {
            self.$field.next_access(slot)
        }
    };
    ($field:tt: $($method:ident)+) => {
        $($crate::delegate_facts!(@$method $field);)+
    };
    ($field:tt) => {
        $crate::delegate_facts!(
            $field: now requests is_live weight key_hash deadline len sample next_access
        );
    };
}

/// A host's `u64` cells as the typed cells that a policy uses.
pub(crate) struct Packed<'a, C>(pub(crate) &'a mut C);

impl<C: Cells<u64>> Facts for Packed<'_, C> {
    crate::delegate_facts!(0);
}

impl<M: Meta, C: Cells<u64>> Cells<M> for Packed<'_, C> {
    #[inline]
    fn get(&self, slot: Slot) -> M {
        M::unpack(self.0.get(slot))
    }
    #[inline]
    fn set(&mut self, slot: Slot, meta: M) {
        self.0.set(slot, meta.pack());
    }
}

/// Like [`Packed`], but read-only.
pub(crate) struct PackedView<'a, C>(pub(crate) &'a C);

impl<C: Cells<u64>> Facts for PackedView<'_, C> {
    crate::delegate_facts!(0);
}

impl<M: Meta, C: Cells<u64>> Cells<M> for PackedView<'_, C> {
    fn get(&self, slot: Slot) -> M {
        M::unpack(self.0.get(slot))
    }
    fn set(&mut self, _slot: Slot, _meta: M) {
        unreachable!("a check only reads: it has the cells by shared reference");
    }
}
