//! Eviction policies, one file each. Every file opens with its card.
//!
//! Start with [`fifo`], the plainest, and [`lru`], the plainest that reorders on a hit. The list of
//! names is in `any.rs`.

pub mod arc;
pub mod b_lru;
pub mod belady;
pub mod belady_size;
pub mod cacheus;
pub mod car;
pub mod clock;
pub mod clock_pro;
pub mod fifo;
pub mod fifo_merge;
pub mod gdsf;
pub mod hyperbolic;
pub mod lecar;
pub mod lecar_sieve;
pub mod lfu;
pub mod lfuda;
pub mod lhd;
pub mod lirs;
pub mod lru;
pub mod lru_k;
pub mod memcached_lru;
pub mod mq;
pub mod qd;
pub mod random;
pub mod s3_sieve;
pub mod s3fifo;
pub mod s3fifo_d;
pub mod s3fifo_tuned;
pub mod sampled;
pub mod sampled_lru;
pub mod sampled_ttl;
pub mod sieve;
pub mod slab;
pub mod slru;
pub mod twoq;
pub mod w_tinylfu;

#[cfg(test)]
mod models;
#[cfg(test)]
mod promises;
#[cfg(test)]
mod tests;
