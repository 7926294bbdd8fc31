//! Snapshots: [`work`] is what workers do, [`writer`] the thread. The state is
//! [`durability::saving`].

mod encode;
pub mod work;
pub mod writer;

#[cfg(test)]
mod tests;
