//! The elements of collections: packed into one allocation while they are few and short, in pages of
//! their own when they are many.

pub(crate) mod packed;
