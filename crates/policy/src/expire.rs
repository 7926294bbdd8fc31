//! Expiry indexes, one file each, which begins with its card.
//!
//! [`wheel`] is the default for keys, and [`ranked`] for elements. [`ordered`] is the plain model,
//! and [`sampled`] is what Redis does. [`buckets`] and [`radix`] were proposed as alternatives,
//! [`crawler`] is memcached's way, and [`lazy`] is no index at all. [`any`] chooses among them by
//! name.

pub mod any;

/// Passes the list of all expiry indexes to another macro.
macro_rules! expiry_indexes {
    ($use:ident) => {
        $use! {
            [mod wheel] Wheel = expire::wheel::Wheel,
            [mod sampled] Sampled = expire::sampled::Sampled,
            [mod buckets] Buckets = expire::buckets::Buckets,
            [mod buckets_auto] BucketsAuto = expire::buckets_auto::BucketsAuto,
            [mod radix] Radix = expire::radix::Radix,
            [mod radix_capped] RadixCapped = expire::radix_capped::RadixCapped,
            [mod ebuckets] Ebuckets = expire::ebuckets::Ebuckets,
            [mod crawler] Crawler = expire::crawler::Crawler,
            [mod lazy] Lazy = expire::lazy::Lazy,
            [mod ordered] Ordered = expire::ordered::Ordered,
            [mod ranked] Ranked = expire::ranked::Ranked,
        }
    };
}
pub(crate) use expiry_indexes;

macro_rules! declare_modules {
    ($([mod $module:ident] $name:ident = $index:ty,)+) => { $(pub mod $module;)+ };
}
expiry_indexes!(declare_modules);
