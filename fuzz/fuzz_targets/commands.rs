#![no_main]

#[path = "../bodies/commands.rs"]
mod commands;
#[path = "../bodies/model.rs"]
mod model;

libfuzzer_sys::fuzz_target!(|data: &[u8]| commands::run(data));
