//! A small fuzzer without coverage for the ordinary tests: seeded mutations of valid inputs.

/// Runs `body` on `cases` mutations of `samples`. An input that panics is reduced, and printed with
/// its seed before the test fails.
///
/// With `MAYFLY_FUZZ_SECONDS` in the environment, more cases follow for this time.
pub fn run(seed: u64, cases: u64, samples: &[&[u8]], words: &[&[u8]], body: fn(&[u8])) {
    for sample in samples {
        check(sample, "a sample", body);
    }
    let seconds = std::env::var("MAYFLY_FUZZ_SECONDS").ok();
    let seconds = seconds.and_then(|text| text.parse().ok());
    let end =
        seconds.map(|seconds| std::time::Instant::now() + std::time::Duration::from_secs(seconds));
    let mut count = 0;
    for case in 0.. {
        if case >= cases && end.is_none_or(|end| std::time::Instant::now() >= end) {
            break;
        }
        count += 1;
        let case_seed = seed.wrapping_add(case);
        let mut random = Random::new(case_seed);
        let mut input = samples[random.below(samples.len())].to_vec();
        for _ in 0..random.below(6) {
            mutate(&mut input, words, samples, &mut random);
        }
        check(&input, &format!("seed {case_seed}"), body);
    }
    if let Some(seconds) = seconds {
        eprintln!("{count} cases in {seconds} s");
    }
}

fn check(input: &[u8], name: &str, body: fn(&[u8])) {
    if fails(input, body) {
        let input = shrink(input.to_vec(), body);
        eprintln!("{name}, shrunk to b\"{}\"", input.escape_ascii());
        body(&input);
    }
}

fn fails(input: &[u8], body: fn(&[u8])) -> bool {
    std::panic::catch_unwind(|| body(input)).is_err()
}

/// Removes all parts of an input that are not needed for the panic, in decreasing sizes, and zeroes
/// what can be zero.
fn shrink(mut input: Vec<u8>, body: fn(&[u8])) -> Vec<u8> {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut piece = input.len().div_ceil(2).max(1);
    loop {
        let mut at = 0;
        while at < input.len() {
            let mut shorter = input.clone();
            shorter.drain(at..input.len().min(at + piece));
            if fails(&shorter, body) {
                input = shorter;
            } else {
                at += piece;
            }
        }
        if piece == 1 {
            break;
        }
        piece = piece.div_ceil(2);
    }
    for at in 0..input.len() {
        let old = std::mem::replace(&mut input[at], 0);
        if !fails(&input, body) {
            input[at] = old;
        }
    }
    std::panic::set_hook(hook);
    input
}

fn mutate(input: &mut Vec<u8>, words: &[&[u8]], samples: &[&[u8]], random: &mut Random) {
    let at = random.below(input.len() + 1);
    match random.below(8) {
        0 => input.truncate(at),
        1 => {
            let len = random.below(8).min(input.len() - at);
            input.drain(at..at + len);
        }
        2 => {
            let word = words[random.below(words.len())];
            input.splice(at..at, word.iter().copied());
        }
        3 => {
            let word = words[random.below(words.len())];
            let len = word.len().min(input.len() - at);
            input[at..at + len].copy_from_slice(&word[..len]);
        }
        4 => input.insert(at, random.next() as u8),
        5 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        6 => {
            let other = samples[random.below(samples.len())];
            input.truncate(at);
            input.extend_from_slice(&other[random.below(other.len() + 1)..]);
        }
        _ => {
            let piece = input[at..input.len().min(at + 16)].to_vec();
            input.extend_from_slice(&piece);
        }
    }
}

/// SplitMix64 (Steele, Lea and Flood: Fast splittable pseudorandom number generators, OOPSLA 2014).
pub struct Random(u64);

impl Random {
    /// Creates the stream of a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }
    /// Returns the next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
    /// Returns a number below `bound`, which must not be zero.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}
