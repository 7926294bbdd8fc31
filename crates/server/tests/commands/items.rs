//! memcached's items on both engines under a manual clock: the replies of memcached 1.6.18, and
//! random requests with CAS numbers chosen by the client. Both engines must give the same replies,
//! and Redis clients must see the same values.

use crate::memcached::answers_at;
use crate::random::Random;
use server::{Server, exec};
use session::Session;
use session::clock::Clock;
use settings::Config;
use store::Tick;

const NOW: Tick = Tick(1_700_000_000_000);
const ROUNDS: usize = 4000;
const KEYS: &[&str] = &["a", "b", "c", "number"];
/// Chosen CAS numbers whose bytes, stored after a value, look like part of it: blanks and digits.
/// They are far from the numbers that an engine generates.
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
        let param = settings::find(name).expect("a setting of this name");
        config.set(param, value).expect("a value that fits");
    }
    Server::new(config, Clock::manual(NOW.0)).expect("valid settings")
}

fn ask(server: &Server, words: &[&[u8]]) -> String {
    let mut out = vec![];
    exec(server, &mut Session::new(), words, NOW, &mut out);
    String::from_utf8(out).expect("text")
}

/// Removes the CAS numbers that an engine generates from a reply.
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

fn flags(rng: &mut Random, letters: &str) -> String {
    let mut flags = String::new();
    for letter in letters.chars() {
        if rng.below(3) > 0 {
            continue;
        }
        let token = match letter {
            'E' | 'C' => rng.of(CHOSEN),
            'T' | 'N' => rng.of(&["0", "96", "504"]),
            'F' | 'D' | 'J' => rng.of(&["0", "1", "7", "1000"]),
            _ => "",
        };
        flags += &format!(" {letter}{token}");
    }
    flags
}

fn request(rng: &mut Random) -> String {
    let key = rng.of(KEYS);
    let value = rng.of(&["", "5", "10", "18446744073709551615", "text", "7 "]);
    let len = value.len();
    match rng.below(9) {
        0 | 1 => {
            let mode = rng.of(&["", "", " ME", " MA", " MP", " MR"]);
            let flags = flags(rng, "TFCEkcI");
            format!("ms {key} {len}{flags}{mode}\r\n{value}\r\n")
        }
        2 | 3 => format!("mg {key}{}\r\n", flags(rng, "vEcfhksNt")),
        4 => format!("md {key}{}\r\n", flags(rng, "CEITx")),
        5 | 6 => {
            let mode = rng.of(&["", " MD"]);
            format!("ma {key}{}{mode}\r\n", flags(rng, "NJDECvckt"))
        }
        7 => {
            let verb = rng.of(&["set", "append", "prepend", "add"]);
            format!("{verb} {key} 3 96 {len}\r\n{value}\r\n")
        }
        _ => format!(
            "{} {key} {}\r\n",
            rng.of(&["incr", "decr"]),
            rng.of(&["1", "9"])
        ),
    }
}

/// Requests with memcached's own replies.
const ANSWERS: &[(&str, &str)] = &[
    // Reads in any protocol mark an item as fetched. Arithmetic in place keeps the mark; appending
    // removes it.
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
    // Blanks before a number, and a plus sign.
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
    // An encoded key is returned with the marker `b`, even if the request had the marker elsewhere.
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
fn items_get_memcacheds_replies() {
    for engine in ["slab", "segment"] {
        let server = server(engine);
        for (script, wanted) in ANSWERS {
            let answers = answers_at(&server, script.as_bytes(), NOW);
            assert_eq!(answers, *wanted, "{engine}: {script}");
        }
        // A value that a Redis client stored may have no space for the marks.
        ask(&server, &[b"SET", b"plain", b"1"]);
        assert_eq!(
            answers_at(&server, b"get plain\r\nmg plain h\r\n", NOW),
            "VALUE plain 0 1\r\n1\r\nEND\r\nHD h1\r\n"
        );
    }
}

/// Regression: the reply contained the requested TTL although a shorter one was stored.
#[test]
fn the_returned_ttl_is_the_stored_one() {
    for engine in ["slab", "segment"] {
        let server = server(engine);
        for (index, seconds) in [3, 10, 31, 100, 333, 3001].into_iter().enumerate() {
            // Segments that were opened earlier expire earlier.
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
                let reply = ask(&request);
                let key = &request[3..5];
                let kept = ask(&format!("mg {key} t\r\n"));
                let left = |text: &str| {
                    let word = text
                        .split_ascii_whitespace()
                        .find(|word| word.starts_with('t'));
                    word.map(str::to_owned)
                };
                assert_eq!(left(&reply), left(&kept), "{engine}: {request}");
                assert_ne!(left(&reply), Some("t-1".to_owned()), "{engine}: {request}");
            }
            // Flags before T return the previous TTL.
            let reply = ask(&format!(
                "ms c{index} 1 T0\r\nx\r\nmg c{index} t T{seconds}\r\n"
            ));
            assert_eq!(reply, "HD\r\nHD t-1\r\n");
            let reply = ask(&format!("mg c{index} s T-1 t\r\nmg c{index}\r\n"));
            assert_eq!(reply, "HD s1 t0\r\nEN\r\n");
        }
    }
}

#[test]
fn chosen_cas_numbers_are_the_same_on_both_engines() {
    let (slab, segment) = (server("slab"), server("segment"));
    for seed in 0..2 {
        let mut rng = Random::new(seed);
        for round in 0..ROUNDS {
            let request = request(&mut rng);
            let answers = [&slab, &segment].map(|server| {
                let answer = answers_at(server, request.as_bytes(), NOW);
                let mut reply = comparable(&answer);
                for key in KEYS {
                    reply += &answers_at(server, format!("get {key}\r\n").as_bytes(), NOW);
                    reply += &ask(server, &[b"GET", key.as_bytes()]);
                    reply += &ask(server, &[b"STRLEN", key.as_bytes()]);
                }
                reply
            });
            assert_eq!(
                answers[0], answers[1],
                "{request}, seed {seed}, round {round}"
            );
        }
    }
}

/// Regression: arithmetic on a number included the chosen CAS number stored after it, and lost the
/// CAS number.
#[test]
fn a_number_with_a_chosen_cas_number_can_be_incremented() {
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
