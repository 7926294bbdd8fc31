//! Commands on keys, table by table: without a socket at a simulated time, and beside Redis.

mod crowded;
mod items;
mod memcached;
mod random;
mod random_bits;
mod random_dumps;
mod random_lists;
mod random_members;
mod random_sets;
mod random_sort;
mod random_sorted_sets;
mod redis;
mod script;
mod segment;
mod tables;
