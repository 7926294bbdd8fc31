//! Eviction policies, one file each, and the one list of them.
//!
//! A new policy is a file in this folder, which begins with its card, and a line in
//! `eviction_policies!` below. The line declares the module and gives the policy its name in
//! [`PolicySpec`](crate::any::PolicySpec), its place in [`AnyPolicy`](crate::any::AnyPolicy), its
//! row in [`POLICIES`](crate::any::POLICIES), its run through the conformance suite, and its rows
//! in the golden table and in `docs/reference/policies.md`, which two commands write:
//!
//! ```text
//! UPDATE=1 cargo test -p mayfly-cache-policy --test reference golden
//! UPDATE_DOCS=1 cargo test -p mayfly-server --test docs
//! ```
//!
//! `cargo fmt` does not follow modules that a macro declares: `rustfmt crates/policy/src/*/*.rs`
//! formats them, and `./test fmt` checks them.
//!
//! Start with [`fifo`], the plainest policy, and [`lru`], the plainest that reorders on a hit.

/// Passes the list to another macro. *Served* policies keep at most 64 bits in an entry;
/// *simulated* ones keep more or need the future. `[mod …]` is at the first policy of a file.
macro_rules! eviction_policies {
    ($use:ident) => {
        $use! {
            served {
                [mod fifo] Fifo = evict::fifo::Fifo,
                [mod lru] Lru = evict::lru::Lru,
                [mod clock] Clock = evict::clock::Clock,
                [mod sieve] Sieve = evict::sieve::Sieve,
                [mod s3fifo] S3Fifo = evict::s3fifo::S3Fifo,
                [mod s3fifo_d] S3FifoD = evict::s3fifo_d::S3FifoD,
                [mod s3fifo_w] S3FifoW = evict::s3fifo_w::S3FifoW,
                [mod clock2q_plus] Clock2QPlus = evict::clock2q_plus::Clock2QPlus,
                [mod s3_sieve] S3Sieve = evict::s3_sieve::S3Sieve,
                [mod random] Random = evict::random::Random,
                [mod sampled_lru] SampledLru = evict::sampled_lru::SampledLru,
                [mod sampled] Sampled = evict::sampled::Sampled,
                [mod sampled_ttl] SampledTtl = evict::sampled_ttl::SampledTtl,
                [mod arc] Arc = evict::arc::Arc,
                [mod slru] Slru = evict::slru::Slru,
                [mod twoq] TwoQ = evict::twoq::TwoQ,
                [mod w_tinylfu] WTinyLfu = evict::w_tinylfu::WTinyLfu,
                [mod w_tinylfu_adaptive] WTinyLfuAdaptive = evict::w_tinylfu_adaptive::WTinyLfuAdaptive,
                [mod fifo_merge] FifoMerge = evict::fifo_merge::FifoMerge,
                [mod qd] QdLpFifo = evict::qd::Qd<evict::clock::Clock>,
                [mod hyperbolic] Hyperbolic = evict::hyperbolic::Hyperbolic,
                [mod lecar] Lecar = evict::lecar::Lecar,
                [mod lecar_sieve] LecarSieve = evict::lecar_sieve::LecarSieve,
                [mod lhd] Lhd = evict::lhd::Lhd,
                [mod cacheus] Cacheus = evict::cacheus::Cacheus,
                QdLecar = evict::qd::Qd<evict::lecar::Lecar>,
                QdCacheus = evict::qd::Qd<evict::cacheus::Cacheus>,
                [mod lfu] Lfu = evict::lfu::Lfu,
                [mod lirs] Lirs = evict::lirs::Lirs,
                [mod lru_k] LruK = evict::lru_k::LruK,
                [mod slab] SlabLru = evict::slab::Slabs<evict::slab::Used>,
                SlabLrc = evict::slab::Slabs<evict::slab::Created>,
                SlabRandom = evict::slab::Slabs<evict::slab::Drawn>,
                [mod memcached_lru] MemcachedLru = evict::memcached_lru::MemcachedLru,
                [mod gdsf] Gdsf = evict::gdsf::Gdsf,
                [mod lfuda] Lfuda = evict::lfuda::Lfuda,
                [mod mq] Mq = evict::mq::Mq,
                [mod car] Car = evict::car::Car,
                [mod cart] Cart = evict::cart::Cart,
                [mod clock_pro] ClockPro = evict::clock_pro::ClockPro,
                ClockProPlus = evict::clock_pro::ClockPro<true>,
                ArcSieve = evict::arc::Arc<crate::parts::shelf::SieveShelf>,
                ArcFifoReinsertion = evict::arc::Arc<crate::parts::shelf::ReinsertionShelf>,
                TwoQSieve = evict::twoq::TwoQ<crate::parts::shelf::SieveShelf>,
                QdLirs = evict::qd::Qd<evict::lirs::Lirs>,
            }
            simulated {
                [mod belady] Belady = evict::belady::Belady,
                [mod lrm] Lrm = evict::lrm::Lrm,
                [mod b_lru] BLru = evict::b_lru::BLru,
                [mod belady_size] BeladySize = evict::belady_size::BeladySize,
                QdArc = evict::qd::Qd<evict::arc::Arc>,
                QdLru = evict::qd::Qd<evict::lru::Lru>,
                QdLhd = evict::qd::Qd<evict::lhd::Lhd>,
            }
        }
    };
}
pub(crate) use eviction_policies;

/// Defines methods of [`Policy`](crate::Policy) that call the same method of the policy in a field:
/// for a policy that adds a rule to another.
macro_rules! forward {
    ($inner:tt: $meta:ty, $($method:ident)+) => { $(forward!(@$method $inner, $meta);)+ };
    (@insert $inner:tt, $meta:ty) => {
        #[inline]
        fn insert(&mut self, cells: &mut impl crate::Cells<$meta>, slot: crate::Slot) {
            self.$inner.insert(cells, slot);
        }
    };
    (@reorder $inner:tt, $meta:ty) => {
        #[inline]
        fn reorder(&mut self, cells: &mut impl crate::Cells<$meta>, slot: crate::Slot) {
            self.$inner.reorder(cells, slot);
        }
    };
    (@reweigh $inner:tt, $meta:ty) => {
        fn reweigh(
            &mut self,
            cells: &mut impl crate::Cells<$meta>,
            slot: crate::Slot,
            old_weight: u32,
        ) {
            self.$inner.reweigh(cells, slot, old_weight);
        }
    };
    (@moved $inner:tt, $meta:ty) => {
        fn moved(
            &mut self,
            cells: &mut impl crate::Cells<$meta>,
            old: crate::Slot,
            new: crate::Slot,
        ) {
            self.$inner.moved(cells, old, new);
        }
    };
    (@remove $inner:tt, $meta:ty) => {
        fn remove(&mut self, cells: &mut impl crate::Cells<$meta>, slot: crate::Slot) {
            self.$inner.remove(cells, slot);
        }
    };
    (@evict $inner:tt, $meta:ty) => {
        #[inline]
        fn evict(
            &mut self,
            cells: &mut impl crate::Cells<$meta>,
            budget: &mut crate::Budget,
        ) -> crate::Eviction {
            self.$inner.evict(cells, budget)
        }
    };
    (@usage $inner:tt, $meta:ty) => {
        fn usage(
            &self,
            cells: &impl crate::Cells<$meta>,
            slot: crate::Slot,
        ) -> (Option<u64>, Option<u32>) {
            self.$inner.usage(cells, slot)
        }
    };
    (@heap_bytes_ahead $inner:tt, $meta:ty) => {
        fn heap_bytes_ahead(&self) -> usize {
            self.$inner.heap_bytes_ahead()
        }
    };
}

/// Defines [`Policy::mark`](crate::Policy::mark) as the rule that `Policy::marker` returns.
macro_rules! mark_by_marker {
    ($meta:ty) => {
        #[inline]
        fn mark(&self, facts: &impl crate::Facts, _: crate::Slot, meta: $meta) -> Option<$meta> {
            self.marker().mark_meta(meta, facts.requests())
        }
    };
}

macro_rules! declare_modules {
    (served { $($([mod $module:ident])? $name:ident = $policy:ty,)+ }
     simulated { $($([mod $wide_module:ident])? $wide_name:ident = $wide:ty,)* }) => {
        $($(pub mod $module;)?)+
        $($(pub mod $wide_module;)?)*
    };
}
eviction_policies!(declare_modules);

#[cfg(test)]
mod models;
#[cfg(test)]
mod promises;
#[cfg(test)]
mod tests;
