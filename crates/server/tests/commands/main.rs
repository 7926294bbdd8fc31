//! Tests of commands on keys without sockets: tables of commands and replies under a manual clock,
//! and comparisons with Redis.

mod changed_elements;
mod effects;
mod files;
mod full_memory;
mod hidden;
mod items;
mod leases;
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
mod renamed;
mod script;
mod segment;
mod tables;
mod unchanged;
