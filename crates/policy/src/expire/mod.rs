//! Expiry indexes: one file each, opened by its card.
//!
//! [`wheel`] is the default of keys, [`ranked`] that of elements, [`ordered`] the plain model, [`sampled`] what Redis does, [`buckets`]
//! and [`radix`] what was proposed instead; [`crawler`] is memcached's way, and [`lazy`] none at all. [`any`] lists
//! them by name.

pub mod any;
pub mod buckets;
pub mod buckets_auto;
pub mod crawler;
pub mod ebuckets;
pub mod lazy;
pub mod ordered;
pub mod radix;
pub mod radix_capped;
pub mod ranked;
pub mod sampled;
pub mod wheel;
