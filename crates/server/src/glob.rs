//! Glob patterns of KEYS, SCAN MATCH, PSUBSCRIBE and CONFIG GET.

/// Whether `text` matches `pattern`: `*` matches any bytes, `?` one byte, `[a-c]` one byte of a
/// class, `[^a-c]` one byte outside the class, and `\` makes the next byte literal.
///
/// After a mismatch only the last `*` is extended by one byte. Therefore the cost is at most the
/// product of both lengths, for any pattern, and there is no recursion.
pub fn matches(pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        if p < pattern.len() && pattern[p] == b'*' {
            p += 1;
            star = Some((p, t));
            continue;
        }
        if t == text.len() {
            return p == pattern.len();
        }
        match one(&pattern[p..], text[t], ignore_case) {
            Some(len) => {
                p += len;
                t += 1;
            }
            None => match star {
                Some((after, from)) => {
                    p = after;
                    t = from + 1;
                    star = Some((after, from + 1));
                }
                None => return false,
            },
        }
    }
}

/// Matches one byte against the first element of `pattern`, which is not `*`. Returns the element's
/// length if it matches.
fn one(pattern: &[u8], byte: u8, ignore_case: bool) -> Option<usize> {
    let fold = |byte: u8| {
        if ignore_case {
            byte.to_ascii_lowercase()
        } else {
            byte
        }
    };
    match *pattern.first()? {
        b'?' => Some(1),
        b'[' => class(pattern, fold(byte), fold),
        b'\\' if pattern.len() > 1 => (fold(pattern[1]) == fold(byte)).then_some(2),
        other => (fold(other) == fold(byte)).then_some(1),
    }
}

/// Matches one byte against a class in brackets. An unclosed class extends to the end of the
/// pattern.
fn class(pattern: &[u8], byte: u8, fold: impl Fn(u8) -> u8) -> Option<usize> {
    let mut at = 1;
    let is_inverted = pattern.get(at) == Some(&b'^');
    at += usize::from(is_inverted);
    let mut is_member = false;
    loop {
        match pattern.get(at) {
            None => break,
            Some(b']') => {
                at += 1;
                break;
            }
            Some(b'\\') if at + 1 < pattern.len() => {
                is_member |= fold(pattern[at + 1]) == byte;
                at += 2;
            }
            Some(&low) if pattern.get(at + 1) == Some(&b'-') && at + 2 < pattern.len() => {
                let (low, high) = (fold(low), fold(pattern[at + 2]));
                is_member |= (low.min(high)..=low.max(high)).contains(&byte);
                at += 3;
            }
            Some(&other) => {
                is_member |= fold(other) == byte;
                at += 1;
            }
        }
    }
    (is_member != is_inverted).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::matches;

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
}
