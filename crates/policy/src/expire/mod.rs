//! Expiry indexes: one file each, opened by its card.
//!
//! [`wheel`] is the default, [`ordered`] the plain model, [`sampled`]
//! what Redis does. [`any`] lists them by name.

pub mod any;
pub mod ordered;
pub mod sampled;
pub mod wheel;
