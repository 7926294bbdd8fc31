//! Compares the library with other caches of Rust: time, memory, miss ratios, expiry.

mod contenders;
mod draws;
mod memory;
mod miss;
mod speed;
mod storm;

use std::time::Duration;

const HELP: &str = "\
speed [ROUNDS] [NAME…]   CPU time per operation, 95 % reads, with one and two threads
reads [ROUNDS] [NAME…]   the same with reads only
memory [NAME]            resident bytes per entry of two u64
miss TRACE…              miss ratios at 1 and 10 % of a trace's keys, without TTLs
storm                    a million entries on one deadline beside another thread, and lateness";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let word = |at: usize| arguments.get(at).map(String::as_str);
    let rounds = word(1).and_then(|rounds| rounds.parse().ok());
    let names = arguments.get(2..).unwrap_or_default();
    match word(0) {
        Some("speed") => speed::measure(names, rounds.unwrap_or(10), 5),
        Some("reads") => speed::measure(names, rounds.unwrap_or(10), 0),
        Some("memory") => match word(1) {
            Some(name) => memory::measure_one(name, None),
            None => memory::measure_all(),
        },
        Some("memory-ttl") => {
            memory::measure_one(
                word(1).unwrap_or("mayfly"),
                Some(Duration::from_secs(3_600)),
            );
        }
        Some("miss") => miss::measure(&arguments[1..]),
        Some("storm") => storm::measure(),
        _ => println!("{HELP}"),
    }
}
