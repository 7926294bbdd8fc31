//! Matcher for Lua patterns that counts its work.
//!
//! Lua's own matcher is a single C call that nothing can interrupt, and a pattern with several
//! repetitions takes time that grows as a power of the subject's length. It is used only while the
//! product of both is small ([`subject_max`]). Longer subjects are matched here, with the same
//! results. Every step is counted, so that the host can end the script.

use crate::failure::raise;
use crate::state::State;
use memchr::memmem;
use mlua::{Lua, LuaString, MultiValue, Table, Value};
use std::rc::Rc;

/// Maximum number of captures, as in Lua.
const CAPTURES_MAX: usize = 32;

/// Adds the native functions that the prelude needs.
pub fn add_natives(lua: &Lua, state: &Rc<State>, native: &Table) -> mlua::Result<()> {
    let shared = Rc::clone(state);
    let max = lua.create_function(move |_, pattern: LuaString| {
        Ok(subject_max(&pattern.as_bytes(), shared.steps_max.get()))
    })?;
    native.raw_set("subject_max", max)?;
    let shared = Rc::clone(state);
    native.raw_set(
        "search",
        lua.create_function(
            move |lua, (text, pattern, from, is_anchor): (LuaString, LuaString, f64, bool)| {
                search(lua, &shared, &text, &pattern, (from, is_anchor))
            },
        )?,
    )?;
    let shared = Rc::clone(state);
    native.raw_set(
        "find_plain",
        lua.create_function(move |_, (text, part, from): (LuaString, LuaString, f64)| {
            let (text, part) = (text.as_bytes(), part.as_bytes());
            shared.work(text.len() / 8)?;
            let from = position(from, text.len());
            let found = memmem::find(&text[from..], &part).map(|at| from + at);
            Ok(found.map_or((None, None), |at| (Some(at + 1), Some(at + part.len()))))
        })?,
    )
}

/// Converts a position, which counts from 1, or from the end if negative, to an index.
fn position(from: f64, len: usize) -> usize {
    let from = from as i64;
    let from = if from < 0 {
        from.saturating_add(len as i64 + 1)
    } else {
        from
    };
    usize::try_from(from.max(1) - 1).unwrap_or(len).min(len)
}

/// Returns the first and last position of the match, followed by the captures, or by the whole
/// match if there are none.
fn search(
    lua: &Lua,
    state: &State,
    text: &LuaString,
    pattern: &LuaString,
    (from, is_anchor): (f64, bool),
) -> mlua::Result<MultiValue> {
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    // As in C, a zero byte ends a pattern.
    let end = pattern.iter().position(|byte| *byte == 0);
    let pattern = &pattern[..end.unwrap_or(pattern.len())];
    let (pattern, is_anchored) = match pattern.strip_prefix(b"^") {
        Some(rest) if is_anchor => (rest, true),
        _ => (pattern, false),
    };
    let mut matcher = Matcher {
        lua,
        state,
        text: &text,
        pattern,
        level: 0,
        captures: [(0, Capture::Open); CAPTURES_MAX],
    };
    let mut start = position(from, text.len());
    loop {
        matcher.level = 0;
        if let Some(end) = matcher.matches(start, 0)? {
            return matcher.found(start, end);
        }
        start += 1;
        if is_anchored || start > text.len() {
            return Ok(MultiValue::new());
        }
    }
}

/// Length of a capture.
#[derive(Clone, Copy)]
enum Capture {
    Open,
    Position,
    Len(usize),
}

struct Matcher<'a> {
    lua: &'a Lua,
    state: &'a State,
    text: &'a [u8],
    pattern: &'a [u8],
    /// Number of captures begun so far.
    level: usize,
    captures: [(usize, Capture); CAPTURES_MAX],
}

impl Matcher<'_> {
    fn refuse<T>(&self, text: &str) -> mlua::Result<T> {
        Err(raise(self.lua, text))
    }

    fn found(&self, start: usize, end: usize) -> mlua::Result<MultiValue> {
        let mut values = MultiValue::with_capacity(self.level + 2);
        values.push_back(Value::Number(start as f64 + 1.0));
        values.push_back(Value::Number(end as f64));
        for (at, len) in &self.captures[..self.level] {
            values.push_back(match len {
                Capture::Open => return self.refuse("unfinished capture"),
                Capture::Position => Value::Number(*at as f64 + 1.0),
                Capture::Len(len) => {
                    let text = &self.text[*at..*at + *len];
                    Value::String(self.lua.create_string(text)?)
                }
            });
        }
        Ok(values)
    }

    /// Matches the pattern from `at` against the text from `here`. Returns the end of the match.
    fn matches(&mut self, mut here: usize, mut at: usize) -> mlua::Result<Option<usize>> {
        self.state.check_stack(self.lua)?;
        loop {
            self.state.work(1)?;
            let Some(&item) = self.pattern.get(at) else {
                return Ok(Some(here));
            };
            let second = self.pattern.get(at + 1).copied();
            match (item, second) {
                (b'(', Some(b')')) => return self.open(here, at + 2, Capture::Position),
                (b'(', _) => return self.open(here, at + 1, Capture::Open),
                (b')', _) => return self.close(here, at + 1),
                (b'$', None) => return Ok((here == self.text.len()).then_some(here)),
                (b'%', Some(b'b')) => {
                    let Some(end) = self.balanced(here, at + 2)? else {
                        return Ok(None);
                    };
                    (here, at) = (end, at + 4);
                    continue;
                }
                (b'%', Some(b'f')) => {
                    let Some(next) = self.frontier(here, at + 2)? else {
                        return Ok(None);
                    };
                    at = next;
                    continue;
                }
                (b'%', Some(digit @ b'0'..=b'9')) => {
                    let Some(end) = self.repeated(here, digit)? else {
                        return Ok(None);
                    };
                    (here, at) = (end, at + 2);
                    continue;
                }
                _ => {}
            }
            let end = self.class_end(at)?;
            let is_one = self.is_one(here, at, end)?;
            match self.pattern.get(end) {
                Some(b'?') => {
                    if is_one && let Some(last) = self.matches(here + 1, end + 1)? {
                        return Ok(Some(last));
                    }
                    at = end + 1;
                }
                Some(b'*') => return self.longest(here, at, end),
                Some(b'+') if is_one => return self.longest(here + 1, at, end),
                Some(b'-') => return self.shortest(here, at, end),
                Some(b'+') => return Ok(None),
                _ if is_one => (here, at) = (here + 1, end),
                _ => return Ok(None),
            }
        }
    }

    /// Returns the end of the single-character item at `at`, or an error if the item is malformed.
    fn class_end(&self, at: usize) -> mlua::Result<usize> {
        let Some(end) = class_end(self.pattern, at) else {
            let is_set = self.pattern[at] == b'[';
            return self.refuse(match is_set {
                true => "malformed pattern (missing ']')",
                false => "malformed pattern (ends with '%')",
            });
        };
        Ok(end)
    }

    /// Whether the character at `here` matches the item in `at..end`.
    fn is_one(&self, here: usize, at: usize, end: usize) -> mlua::Result<bool> {
        let Some(&byte) = self.text.get(here) else {
            return Ok(false);
        };
        Ok(match self.pattern[at] {
            b'.' => true,
            b'%' => is_in_class(byte, self.pattern[at + 1]),
            b'[' => {
                self.state.work((end - at) / 8)?;
                is_in_set(byte, &self.pattern[at + 1..end - 1])
            }
            literal => literal == byte,
        })
    }

    /// Matches as many characters as possible, then the rest.
    fn longest(&mut self, here: usize, at: usize, end: usize) -> mlua::Result<Option<usize>> {
        let mut count = 0;
        while self.is_one(here + count, at, end)? {
            count += 1;
            self.state.work(1)?;
        }
        loop {
            if let Some(last) = self.matches(here + count, end + 1)? {
                return Ok(Some(last));
            }
            if count == 0 {
                return Ok(None);
            }
            count -= 1;
        }
    }

    /// Matches as few characters as possible, then the rest.
    fn shortest(&mut self, mut here: usize, at: usize, end: usize) -> mlua::Result<Option<usize>> {
        loop {
            if let Some(last) = self.matches(here, end + 1)? {
                return Ok(Some(last));
            }
            if !self.is_one(here, at, end)? {
                return Ok(None);
            }
            here += 1;
        }
    }

    fn open(&mut self, here: usize, at: usize, kind: Capture) -> mlua::Result<Option<usize>> {
        if self.level >= CAPTURES_MAX {
            return self.refuse("too many captures");
        }
        self.captures[self.level] = (here, kind);
        self.level += 1;
        let last = self.matches(here, at)?;
        if last.is_none() {
            self.level -= 1;
        }
        Ok(last)
    }

    fn close(&mut self, here: usize, at: usize) -> mlua::Result<Option<usize>> {
        let is_open = |capture: &(usize, Capture)| matches!(capture.1, Capture::Open);
        let Some(index) = self.captures[..self.level].iter().rposition(is_open) else {
            return self.refuse("invalid pattern capture");
        };
        self.captures[index].1 = Capture::Len(here - self.captures[index].0);
        let last = self.matches(here, at)?;
        if last.is_none() {
            self.captures[index].1 = Capture::Open;
        }
        Ok(last)
    }

    /// Matches the text of an earlier capture again. Returns the end.
    fn repeated(&self, here: usize, digit: u8) -> mlua::Result<Option<usize>> {
        let index = usize::from(digit).wrapping_sub(usize::from(b'1'));
        let (start, len) = match self.captures[..self.level].get(index) {
            None | Some((_, Capture::Open)) => return self.refuse("invalid capture index"),
            Some((_, Capture::Position)) => return Ok(None),
            Some((start, Capture::Len(len))) => (*start, *len),
        };
        self.state.work(len / 8)?;
        let is_same = self.text[here..].starts_with(&self.text[start..start + len]);
        Ok(is_same.then_some(here + len))
    }

    /// Matches from an opening character to the closing one that balances it. Returns the end.
    fn balanced(&self, here: usize, at: usize) -> mlua::Result<Option<usize>> {
        let Some(&[first, last]) = self.pattern.get(at..at + 2) else {
            return self.refuse("unbalanced pattern");
        };
        if self.text.get(here) != Some(&first) {
            return Ok(None);
        }
        let mut depth = 1;
        for (index, byte) in self.text.iter().enumerate().skip(here + 1) {
            self.state.work(1)?;
            if *byte == last {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(index + 1));
                }
            } else if *byte == first {
                depth += 1;
            }
        }
        Ok(None)
    }

    /// Matches a boundary between a character outside and one inside a set. Returns the position of
    /// the next item.
    fn frontier(&self, here: usize, at: usize) -> mlua::Result<Option<usize>> {
        if self.pattern.get(at) != Some(&b'[') {
            return self.refuse("missing '[' after '%f' in pattern");
        }
        let end = self.class_end(at)?;
        self.state.work((end - at) / 8)?;
        let set = &self.pattern[at + 1..end - 1];
        let before = here.checked_sub(1).map_or(0, |index| self.text[index]);
        let after = self.text.get(here).copied().unwrap_or(0);
        Ok((!is_in_set(before, set) && is_in_set(after, set)).then_some(end))
    }
}

/// Returns the end of the single-character item at `at`, or `None` if the item is malformed.
fn class_end(pattern: &[u8], mut at: usize) -> Option<usize> {
    match pattern[at] {
        b'%' => (at + 1 < pattern.len()).then_some(at + 2),
        b'[' => {
            at += 1;
            if pattern.get(at) == Some(&b'^') {
                at += 1;
            }
            // The first character is one of the set even if it is a bracket.
            loop {
                let escapes = *pattern.get(at)? == b'%';
                at += 1;
                if escapes && at < pattern.len() {
                    at += 1;
                }
                if *pattern.get(at)? == b']' {
                    return Some(at + 1);
                }
            }
        }
        _ => Some(at + 1),
    }
}

/// Whether a character is in a set, given without its brackets.
fn is_in_set(byte: u8, set: &[u8]) -> bool {
    let (mut rest, is_in) = match set.strip_prefix(b"^") {
        Some(rest) => (rest, false),
        None => (set, true),
    };
    loop {
        rest = match rest {
            [] => return !is_in,
            [b'%', class, after @ ..] => {
                if is_in_class(byte, *class) {
                    return is_in;
                }
                after
            }
            [low, b'-', high, after @ ..] => {
                if (*low..=*high).contains(&byte) {
                    return is_in;
                }
                after
            }
            [one, after @ ..] => {
                if *one == byte {
                    return is_in;
                }
                after
            }
        };
    }
}

/// Whether a character belongs to the class named by a letter.
fn is_in_class(byte: u8, class: u8) -> bool {
    let is_in = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => matches!(byte, b' ' | 9..=13),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is_in != class.is_ascii_uppercase()
}

/// Returns the maximum length of a subject for Lua's own matcher.
///
/// A match may start at any position, and each repetition that is not at the pattern's end may try
/// any position. A repetition at the end succeeds at once. An optional item doubles the number of
/// attempts, and each attempt may walk the whole pattern.
fn subject_max(pattern: &[u8], steps_max: f64) -> f64 {
    let end = pattern.iter().position(|byte| *byte == 0);
    let pattern = &pattern[..end.unwrap_or(pattern.len())];
    let is_anchored = pattern.first() == Some(&b'^');
    let (mut at, mut power) = (usize::from(is_anchored), i32::from(!is_anchored));
    let mut steps = 1.0 + pattern.len() as f64;
    while at < pattern.len() {
        match (pattern[at], pattern.get(at + 1)) {
            (b'(' | b')', _) => at += 1,
            (b'%', Some(b'b')) => (at, power) = (at + 4, power + 1),
            (b'%', Some(b'f')) => at += 2,
            (b'%', Some(b'0'..=b'9')) => (at, power) = (at + 2, power + 1),
            _ => {
                let Some(end) = class_end(pattern, at) else {
                    return 0.0;
                };
                at = end;
                match pattern.get(end) {
                    Some(b'?') => (at, steps) = (end + 1, steps * 2.0),
                    Some(b'*' | b'+' | b'-') => {
                        at = end + 1;
                        let is_last = pattern[at..].iter().all(|byte| *byte == b')');
                        power += i32::from(!is_last);
                    }
                    _ => {}
                }
            }
        }
    }
    if steps > steps_max {
        return 0.0;
    }
    (steps_max / steps)
        .powf(1.0 / f64::from(power.max(1)))
        .floor()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_of_a_pattern_bounds_its_subjects() {
        let max = |pattern: &str| subject_max(pattern.as_bytes(), 1e8) as usize;
        // No repetition, or one at the end, is linear.
        assert!(max("abc") >= 10_000_000 && max("[^,]+") >= 10_000_000 && max("^(%d+)$") >= 100);
        assert!(max("(%w+)=(%w*)") < 10_000 && max("(%w+)=(%w*)") > 1_000);
        assert!(max("^%s*(.-)%s*$") < 500 && max("^%s*(.-)%s*$") > 100);
        assert!(max("%b()%b()") < 500 && max("(.-)%1") < 1_000);
        assert_eq!(max(&"a?".repeat(40)), 0);
        assert_eq!((max("[a"), max("a%")), (0, 0));
    }
}
