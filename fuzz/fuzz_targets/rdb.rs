#![no_main]

#[path = "../bodies/dump.rs"]
mod dump;
#[path = "../bodies/rdb.rs"]
mod rdb;

libfuzzer_sys::fuzz_target!(|data: &[u8]| rdb::run(data));
