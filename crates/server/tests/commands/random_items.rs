//! Random requests of memcached's clients, with cas numbers of their own choice, on both engines at a simulated
//! time: the answers are the same, and Redis's clients see the same values.

use crate::memcached::answers_at;
use crate::random::Chance;
use server::clock::Clock;
use server::config::{self, Config};
use server::{Server, Session, exec};
use store::Tick;

const NOW: Tick = Tick(1_700_000_000_000);
const ROUNDS: usize = 4000;
const KEYS: &[&str] = &["a", "b", "c", "number"];
/// Chosen cas numbers whose bytes, where they stand behind a value, look like a part of it: blanks and digits. They
/// are far from those that an engine gives.
const CHOSEN: &[&str] = &[
    "4294967305",
    "8589934602",
    "4294967309",
    "4294967328",
    "3544952156018063160",
    "18446744073709551615",
];

fn server(engine: &str) -> Server {
    let config = Config::default();
    for (name, value) in [("engine", engine), ("threads", "1")] {
        let param = config::find(name).expect("a setting of this name");
        config.set(param, value).expect("a value that fits");
    }
    Server::new(config, Clock::manual(NOW.0)).expect("valid settings")
}

fn ask(server: &Server, words: &[&[u8]]) -> String {
    let mut out = vec![];
    exec(server, &mut Session::new(), words, NOW, &mut out);
    String::from_utf8(out).expect("text")
}

/// An answer without the cas numbers that an engine gives.
fn comparable(answer: &str) -> String {
    let is_given = |word: &str| {
        let number = word.strip_prefix('c');
        number.is_some_and(|number| number.parse::<u64>().is_ok() && !CHOSEN.contains(&number))
    };
    let words = answer.split(' ').map(|word| {
        let (word, end) = word.split_at(word.find('\r').unwrap_or(word.len()));
        format!("{}{end}", if is_given(word) { "c" } else { word })
    });
    words.collect::<Vec<_>>().join(" ")
}

fn flags(chance: &mut Chance, letters: &str) -> String {
    let mut flags = String::new();
    for letter in letters.chars() {
        if chance.below(3) > 0 {
            continue;
        }
        let token = match letter {
            'E' | 'C' => chance.of(CHOSEN),
            'T' | 'N' => chance.of(&["0", "96", "504"]),
            'F' | 'D' | 'J' => chance.of(&["0", "1", "7", "1000"]),
            _ => "",
        };
        flags += &format!(" {letter}{token}");
    }
    flags
}

fn request(chance: &mut Chance) -> String {
    let key = chance.of(KEYS);
    let value = chance.of(&["", "5", "10", "18446744073709551615", "text", "7 "]);
    let len = value.len();
    match chance.below(9) {
        0 | 1 => {
            let mode = chance.of(&["", "", " ME", " MA", " MP", " MR"]);
            let flags = flags(chance, "TFCEkcI");
            format!("ms {key} {len}{flags}{mode}\r\n{value}\r\n")
        }
        2 | 3 => format!("mg {key}{}\r\n", flags(chance, "vEcfhksNt")),
        4 => format!("md {key}{}\r\n", flags(chance, "CEITx")),
        5 | 6 => {
            let mode = chance.of(&["", " MD"]);
            format!("ma {key}{}{mode}\r\n", flags(chance, "NJDECvckt"))
        }
        7 => {
            let verb = chance.of(&["set", "append", "prepend", "add"]);
            format!("{verb} {key} 3 96 {len}\r\n{value}\r\n")
        }
        _ => format!(
            "{} {key} {}\r\n",
            chance.of(&["incr", "decr"]),
            chance.of(&["1", "9"])
        ),
    }
}

#[test]
fn chosen_cas_numbers_are_the_same_on_both_engines() {
    let (slab, segment) = (server("slab"), server("segment"));
    for seed in 0..2 {
        let mut chance = Chance::new(seed);
        for round in 0..ROUNDS {
            let request = request(&mut chance);
            let answers = [&slab, &segment].map(|server| {
                let answer = answers_at(server, request.as_bytes(), NOW);
                let mut told = comparable(&answer);
                for key in KEYS {
                    told += &answers_at(server, format!("get {key}\r\n").as_bytes(), NOW);
                    told += &ask(server, &[b"GET", key.as_bytes()]);
                    told += &ask(server, &[b"STRLEN", key.as_bytes()]);
                }
                told
            });
            assert_eq!(
                answers[0], answers[1],
                "{request}, seed {seed}, round {round}"
            );
        }
    }
}

/// A number with such a cas number behind it was once counted with that, and lost it.
#[test]
fn a_number_with_a_chosen_cas_number_is_counted() {
    for engine in ["slab", "segment"] {
        for cas in ["9", "10", "13", "32"].iter().chain(CHOSEN) {
            let server = server(engine);
            let script = format!(
                "ms k 1 E{cas} c\r\n5\r\nincr k 1\r\nget k\r\nmg k v s\r\nappend k 0 0 1\r\nx\r\nget k\r\n"
            );
            let wanted = format!(
                "HD c{cas}\r\n6\r\nVALUE k 0 1\r\n6\r\nEND\r\nVA 1 s1\r\n6\r\nSTORED\r\nVALUE k 0 2\r\n6x\r\nEND\r\n"
            );
            assert_eq!(answers_at(&server, script.as_bytes(), NOW), wanted, "{cas}");
            answers_at(&server, format!("ms n 1 E{cas}\r\n5\r\n").as_bytes(), NOW);
            assert_eq!(ask(&server, &[b"INCRBY", b"n", b"10"]), ":15\r\n", "{cas}");
            assert_eq!(ask(&server, &[b"STRLEN", b"n"]), ":2\r\n", "{cas}");
            assert_eq!(ask(&server, &[b"DECRBY", b"n", b"16"]), ":-1\r\n", "{cas}");
            assert_eq!(ask(&server, &[b"GET", b"n"]), "$2\r\n-1\r\n", "{cas}");
        }
    }
}
