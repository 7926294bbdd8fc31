use super::{matches, segments};

#[test]
fn patterns_match_as_in_the_table() {
    let table: &[(&str, &str, bool)] = &[
        ("", "", true),
        ("", "a", false),
        ("*", "", true),
        ("*", "anything", true),
        ("h?llo", "hello", true),
        ("h?llo", "hllo", false),
        ("h*llo", "heeeello", true),
        ("h[ae]llo", "hello", true),
        ("h[ae]llo", "hillo", false),
        ("h[^e]llo", "hallo", true),
        ("h[^e]llo", "hello", false),
        ("h[a-c]llo", "hbllo", true),
        ("h[c-a]llo", "hbllo", true),
        ("h[a-c]llo", "hdllo", false),
        ("a\\*b", "a*b", true),
        ("a\\*b", "axb", false),
        ("[\\]]", "]", true),
        ("*a*b*c", "xxaxxbxxc", true),
        ("*a*b*c", "xxaxxbxx", false),
        ("a**b", "ab", true),
        ("[abc", "b", true),
        ("a\\", "a\\", true),
        ("foo", "FOO", false),
    ];
    for (pattern, text, expected) in table {
        assert_eq!(
            matches(pattern.as_bytes(), text.as_bytes(), false),
            *expected,
            "{pattern} {text}"
        );
    }
    assert!(matches(b"f[A-Z]o*", b"FOObar", true));
}

#[test]
fn a_costly_pattern_terminates() {
    let pattern = b"*a".repeat(50);
    let text = vec![b'a'; 5_000];
    assert!(matches(&pattern, &text, false));
    let mut other = text;
    other.push(b'b');
    assert!(!matches(&pattern, &other, false));
}

/// Matches by recursion on the definition.
fn model(pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
    match pattern.first() {
        None => text.is_empty(),
        Some(b'*') => {
            (0..=text.len()).any(|skipped| model(&pattern[1..], &text[skipped..], ignore_case))
        }
        Some(_) => text.first().is_some_and(|byte| {
            let (is_match, len) = super::one(pattern, *byte, ignore_case);
            is_match && model(&pattern[len..], &text[1..], ignore_case)
        }),
    }
}

/// Generator SplitMix64 (Steele, Lea and Flood, 2014).
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % limit
    }
}

fn random_bytes(chance: &mut Chance, from: &[u8], len_max: u64) -> Vec<u8> {
    let len = chance.below(len_max + 1);
    let mut byte = |_| from[chance.below(from.len() as u64) as usize];
    (0..len).map(&mut byte).collect()
}

#[test]
fn random_patterns_match_as_the_model_does() {
    for seed in 0..20_000 {
        let mut chance = Chance(seed);
        let pattern = random_bytes(&mut chance, b"aabb**?[]^\\-", 12);
        let text = random_bytes(&mut chance, b"abB", 10);
        let ignore_case = chance.below(2) == 0;
        let shown = || String::from_utf8_lossy(&pattern).into_owned();
        let expected = model(&pattern, &text, ignore_case);
        let found = matches(&pattern, &text, ignore_case);
        assert_eq!(found, expected, "seed {seed}, {} on {text:?}", shown());
        let expected = model(&[b"*", &pattern[..]].concat(), &text, ignore_case);
        let found = segments::matches(&pattern, &text, ignore_case);
        assert_eq!(found, expected, "seed {seed}, *{} on {text:?}", shown());
    }
}

#[test]
fn long_parts_match_as_the_model_does() {
    for seed in 0..2_000 {
        let mut chance = Chance(seed);
        let mut part = random_bytes(&mut chance, b"ab", 20);
        part.extend(vec![b'a'; 66]);
        part.extend(random_bytes(&mut chance, b"ab", 80));
        let before = random_bytes(&mut chance, b"ab", 100);
        let text = [&before, &part, &random_bytes(&mut chance, b"ab", 6)[..]].concat();
        if chance.below(2) == 0 {
            let at = chance.below(part.len() as u64) as usize;
            part[at] ^= 3;
        }
        let mut with_blank = part.clone();
        let at = chance.below(part.len() as u64) as usize;
        with_blank[at] = b'?';
        for part in [part, with_blank] {
            let is_here = |window: &[u8]| {
                let mut pairs = part.iter().zip(window);
                pairs.all(|(part, byte)| *part == b'?' || part == byte)
            };
            let expected = text.windows(part.len()).any(is_here);
            let pattern = [&part[..], b"*"].concat();
            let found = segments::matches(&pattern, &text, false);
            assert_eq!(found, expected, "seed {seed}");
        }
    }
}

#[test]
fn a_long_pattern_takes_no_product_of_the_lengths() {
    // Regression: 50,000 bytes after a star took seconds for one key of 100,000 bytes.
    let text = vec![b'a'; 100_000];
    let mut pattern = b"*".to_vec();
    pattern.resize(50_001, b'a');
    assert!(matches(&pattern, &text, false));
    pattern.push(b'b');
    assert!(!matches(&pattern, &text, false));
    pattern.push(b'*');
    assert!(!matches(&pattern, &text, false));
    // A class of 50,000 bytes, which each byte of the text is compared with.
    let class = [b"*[", &[b'x'; 50_000][..], b"]"].concat();
    assert!(!matches(&class, &text, false));
    // A long part with a class is searched by bits.
    let part = [b"*[ab]", &[b'a'; 500][..], b"b*"].concat();
    assert!(!matches(&part, &text, false));
    let text = [&text[..], b"b"].concat();
    assert!(matches(&part, &text, false));
}
