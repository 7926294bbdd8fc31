//! Snapshots: [`work`] is the part that workers do, and [`writer`] is the thread. The state is in
//! [`durability::saving`].

pub mod work;
pub mod writer;

#[cfg(test)]
mod tests;
