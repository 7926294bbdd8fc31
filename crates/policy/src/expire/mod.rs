//! Expiry indexes: one file each, opened by its card.
//!
//! [`wheel`] is the default, [`ordered`] the plain model, [`sampled`] what Redis does, [`buckets`]
//! what was proposed instead; [`crawler`] is memcached's way, and [`lazy`] none at all. [`any`] lists
//! them by name.

pub mod any;
pub mod buckets;
pub mod crawler;
pub mod lazy;
pub mod ordered;
pub mod sampled;
pub mod wheel;
