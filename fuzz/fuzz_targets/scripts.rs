#![no_main]

#[path = "../bodies/scripts.rs"]
mod scripts;

libfuzzer_sys::fuzz_target!(|data: &[u8]| scripts::run(data));
