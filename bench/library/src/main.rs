//! Compares the library with other caches of Rust: time, memory, miss ratios, expiry.

mod contenders;
mod draws;
mod growth;
mod memory;
mod miss;
mod speed;
mod storm;

use std::time::Duration;

const HELP: &str = "\
all                      all figures but miss ratios, in under 8 minutes
speed [ROUNDS] [NAME…]   CPU time per operation, 95 % reads, with one and two threads
reads [ROUNDS] [NAME…]   the same with reads only
count NAME [PERCENT]     a million operations with that share of writes, for valgrind
memory [NAME]            resident bytes per entry of two u64
growth                   longest insertions while a cache grows to ten million entries
storm                    a million entries on one deadline beside another thread, and lateness
miss TRACE…              miss ratios at 1 and 10 % of a trace's keys, with and without TTLs
export TRACE FILE        the keys of a trace, for caches in other languages";

/// Contenders of `all`. The others are known to be several times as slow, which `speed` shows.
const FAST: [&str; 5] = [
    "mayfly",
    "mayfly-plain",
    "mayfly-sieve",
    "quick_cache",
    "lru",
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let word = |at: usize| arguments.get(at).map(String::as_str);
    let number = |at: usize| word(at).and_then(|number| number.parse().ok());
    let rounds = number(1).unwrap_or(10) as usize;
    let names = arguments.get(2..).unwrap_or_default();
    match word(0) {
        Some("all") => all(),
        Some("speed") => speed::measure(names, rounds, 5),
        Some("reads") => speed::measure(names, rounds, 0),
        Some("count") => speed::count(word(1).unwrap_or("mayfly"), number(2).unwrap_or(5)),
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
        Some("growth") => growth::measure(),
        Some("miss") => miss::measure(&arguments[1..]),
        Some("export") if arguments.len() == 3 => {
            if let Err(error) = miss::export(&arguments[1], &arguments[2]) {
                eprintln!("{error}");
            }
        }
        Some("storm") => storm::measure(),
        _ => println!("{HELP}"),
    }
}

/// Takes every figure that depends on the machine or on memory.
fn all() {
    let fast = FAST.map(String::from);
    println!("speed");
    speed::measure(&fast, 40, 5);
    println!("\nreads only");
    speed::measure(&fast, 40, 0);
    println!("\nmoka, mini-moka and foyer");
    let others = ["mayfly", "moka", "mini-moka", "foyer"].map(String::from);
    speed::measure(&others, 6, 5);
    println!("\nmemory");
    memory::measure_all();
    println!("\ngrowth");
    growth::measure();
    println!("\nexpiry");
    storm::measure();
}
