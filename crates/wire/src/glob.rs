//! Glob patterns of KEYS, SCAN MATCH, PSUBSCRIBE and CONFIG GET.
//!
//! A pattern is matched byte by byte, and after a mismatch only the last `*` is extended. In the
//! worst case, this costs the product of both lengths. The steps are therefore counted, and a match
//! that takes many continues with `segments`, which searches each part between two `*` in bounded
//! time.

mod segments;

/// Number of steps per byte of pattern and text after which a match continues with `segments`.
const STEPS_PER_BYTE: usize = 16;

/// Whether `text` matches `pattern`: `*` matches any bytes, `?` one byte, `[a-c]` one byte of a
/// class, `[^a-c]` one byte outside the class, and `\` makes the next byte literal.
///
/// The cost grows with the sum of both lengths. Parts of a pattern between two `*` that are longer
/// than 64 elements and contain `?` or a class cost up to 2^24 steps more; a part that would cost
/// more matches nothing.
pub fn matches(pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    let mut steps = STEPS_PER_BYTE * (pattern.len() + text.len());
    loop {
        if p < pattern.len() && pattern[p] == b'*' {
            p += 1;
            star = Some((p, t));
            continue;
        }
        if t == text.len() {
            return p == pattern.len();
        }
        let (is_match, len) = one(&pattern[p..], text[t], ignore_case);
        if is_match {
            p += len;
            t += 1;
            continue;
        }
        let Some((after, from)) = star else {
            return false;
        };
        let tried = t - from + len + 1;
        if tried > steps {
            // What stands before the last star is settled.
            return segments::matches(&pattern[after..], &text[from..], ignore_case);
        }
        steps -= tried;
        (p, t) = (after, from + 1);
        star = Some((after, from + 1));
    }
}

/// Matches one byte against the first element of `pattern`, which is not `*`. Returns whether it
/// matches, and the length of the element; 0 at the end of the pattern.
fn one(pattern: &[u8], byte: u8, ignore_case: bool) -> (bool, usize) {
    let fold = |byte: u8| fold(byte, ignore_case);
    match pattern.first() {
        None => (false, 0),
        Some(b'?') => (true, 1),
        Some(b'[') => {
            let mut is_member = false;
            let byte = fold(byte);
            let (len, is_inverted) = class(pattern, |low, high| {
                let (low, high) = (fold(low), fold(high));
                is_member |= (low.min(high)..=low.max(high)).contains(&byte);
            });
            (is_member != is_inverted, len)
        }
        Some(b'\\') if pattern.len() > 1 => (fold(pattern[1]) == fold(byte), 2),
        Some(other) => (fold(*other) == fold(byte), 1),
    }
}

fn fold(byte: u8, ignore_case: bool) -> u8 {
    if ignore_case {
        byte.to_ascii_lowercase()
    } else {
        byte
    }
}

/// Passes the ranges of a class in brackets to `each`. Returns the length of the class in the
/// pattern and whether it is inverted. An unclosed class extends to the end of the pattern.
fn class(pattern: &[u8], mut each: impl FnMut(u8, u8)) -> (usize, bool) {
    let mut at = 1;
    let is_inverted = pattern.get(at) == Some(&b'^');
    at += usize::from(is_inverted);
    loop {
        match pattern.get(at) {
            None => break,
            Some(b']') => {
                at += 1;
                break;
            }
            Some(b'\\') if at + 1 < pattern.len() => {
                each(pattern[at + 1], pattern[at + 1]);
                at += 2;
            }
            Some(&low) if pattern.get(at + 1) == Some(&b'-') && at + 2 < pattern.len() => {
                each(low, pattern[at + 2]);
                at += 3;
            }
            Some(&other) => {
                each(other, other);
                at += 1;
            }
        }
    }
    (at, is_inverted)
}

#[cfg(test)]
mod tests;
