//! memcached's items on both engines at a simulated time: what memcached 1.6.18 answers, and random requests with cas
//! numbers of the clients' own choice, whose answers are the same and whose values Redis's clients see.

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

/// Each script's answers are memcached's own.
const ANSWERS: &[(&str, &str)] = &[
    // Reads in any language mark what was asked for; counting in place keeps the mark, and joining does not.
    (
        "set h 0 0 1\r\n5\r\nmg h h\r\nmg h h\r\n",
        "STORED\r\nHD h0\r\nHD h1\r\n",
    ),
    (
        "set h 0 0 1\r\n5\r\nget h\r\nmg h h\r\n",
        "STORED\r\nVALUE h 0 1\r\n5\r\nEND\r\nHD h1\r\n",
    ),
    (
        "set h 0 0 1\r\n5\r\ngat 96 h\r\nmg h h\r\n",
        "STORED\r\nVALUE h 0 1\r\n5\r\nEND\r\nHD h1\r\n",
    ),
    (
        "set h 0 0 1\r\n5\r\ntouch h 96\r\nmg h h\r\n",
        "STORED\r\nTOUCHED\r\nHD h1\r\n",
    ),
    (
        "set h 0 0 1\r\n5\r\nincr h 1\r\nmg h h\r\n",
        "STORED\r\n6\r\nHD h0\r\n",
    ),
    (
        "set h 0 0 1\r\n5\r\ntouch h 0\r\nincr h 1\r\nmg h h\r\n",
        "STORED\r\nTOUCHED\r\n6\r\nHD h1\r\n",
    ),
    ("append h 0 0 1\r\n5\r\nmg h h\r\n", "STORED\r\nHD h0\r\n"),
    // Blanks before a number, and a plus.
    ("set n 0 0 2\r\n 5\r\nincr n 1\r\n", "STORED\r\n6\r\n"),
    ("set n 0 0 5\r\n\t +5 \r\nincr n 1\r\n", "STORED\r\n6\r\n"),
    ("set n 0 0 3\r\n010\r\nincr n 1\r\n", "STORED\r\n11\r\n"),
    (
        "set n 0 0 2\r\n-5\r\nincr n 1\r\n",
        "STORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
    ),
    (
        "set n 0 0 1\r\n \r\nincr n 1\r\n",
        "STORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
    ),
    (
        "set n 0 0 2\r\n5x\r\nincr n 1\r\n",
        "STORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
    ),
    // An encoded key is told to be one behind it, wherever that was said.
    (
        "mg AA== b v k\r\nms AA== 1 b k Oq\r\nx\r\n",
        "EN kAA== b\r\nHD kAA== b Oq\r\n",
    ),
    (
        "mg AA== b v k Oq\r\nmg AA== k s b\r\n",
        "VA 1 kAA== b Oq\r\nx\r\nHD kAA== b s1\r\n",
    ),
    (
        "mg AA== b s\r\nmd AA== Oq b k\r\n",
        "HD s1\r\nHD Oq kAA== b\r\n",
    ),
    ("ma AA== N0 b Oq k v\r\n", "VA 1 Oq kAA== b\r\n0\r\n"),
];

#[test]
fn items_are_answered_for_as_by_memcached() {
    for engine in ["slab", "segment"] {
        let server = server(engine);
        for (script, wanted) in ANSWERS {
            let answers = answers_at(&server, script.as_bytes(), NOW);
            assert_eq!(answers, *wanted, "{engine}: {script}");
        }
        // What a client of Redis stored may have no room for marks.
        ask(&server, &[b"SET", b"plain", b"1"]);
        assert_eq!(
            answers_at(&server, b"get plain\r\nmg plain h\r\n", NOW),
            "VALUE plain 0 1\r\n1\r\nEND\r\nHD h1\r\n"
        );
    }
}

/// The lifetime that was wished for was once told, where a shorter one was kept.
#[test]
fn the_lifetime_that_is_told_is_the_one_that_is_kept() {
    for engine in ["slab", "segment"] {
        let server = server(engine);
        for (index, seconds) in [3, 10, 31, 100, 333, 3001].into_iter().enumerate() {
            // Segments that were opened a while ago end earlier.
            let now = Tick(NOW.0 + 900 * index as u64);
            server.clock.set_ms(now.0);
            let ask = |request: &str| answers_at(&server, request.as_bytes(), now);
            for request in [
                format!("mg a{index} q N{seconds} t v\r\n"),
                format!("mg a{index} T{seconds} t v\r\n"),
                format!("ma b{index} N{seconds} t v\r\n"),
                format!("ma b{index} T{seconds} t v\r\n"),
                format!("ma b{index} t v\r\n"),
            ] {
                let told = ask(&request);
                let key = &request[3..5];
                let kept = ask(&format!("mg {key} t\r\n"));
                let left = |text: &str| {
                    let word = text
                        .split_ascii_whitespace()
                        .find(|word| word.starts_with('t'));
                    word.map(str::to_owned)
                };
                assert_eq!(left(&told), left(&kept), "{engine}: {request}");
                assert_ne!(left(&told), Some("t-1".to_owned()), "{engine}: {request}");
            }
            // Flags before T see the lifetime that was.
            let told = ask(&format!(
                "ms c{index} 1 T0\r\nx\r\nmg c{index} t T{seconds}\r\n"
            ));
            assert_eq!(told, "HD\r\nHD t-1\r\n");
            let told = ask(&format!("mg c{index} s T-1 t\r\nmg c{index}\r\n"));
            assert_eq!(told, "HD s1 t0\r\nEN\r\n");
        }
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
