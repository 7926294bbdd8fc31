//! Rust source without a parser: the text with comments and literals blanked out, functions with
//! their lines, and the lines that are test code.
//!
//! It recognises tokens and brackets but no grammar, which is enough for every check of `tidy`. No
//! function here returns an error. Misread source causes at worst a wrong finding, which a person
//! then judges.

/// One Rust file, prepared for checks.
pub struct Source {
    /// The text of the file.
    pub text: String,
    /// Source text with comments and the insides of strings and characters replaced by spaces.
    /// Lines and byte columns are unchanged.
    pub code: String,
    /// For each line (0-based), whether it is test code.
    pub is_test: Vec<bool>,
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    pub name: String,
    /// The line of `fn`, 0-based.
    pub first: usize,
    /// The line of the closing brace, 0-based.
    pub last: usize,
}

impl Source {
    /// Prepares a file. `is_test_file` marks all of it as test code.
    pub fn new(text: String, is_test_file: bool) -> Source {
        let code = blank(&text);
        let line_count = text.lines().count();
        let mut is_test = vec![is_test_file; line_count];
        if !is_test_file {
            for (first, last) in test_regions(&code) {
                for mark in is_test.iter_mut().take(last + 1).skip(first) {
                    *mark = true;
                }
            }
        }
        Source {
            text,
            code,
            is_test,
        }
    }

    /// Returns the lines of code that are not test code, numbered from 0.
    pub fn own_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let marks = &self.is_test;
        self.code.lines().enumerate().filter(|(n, _)| !marks[*n])
    }

    /// Returns all functions that have a body.
    pub fn functions(&self) -> Vec<Function> {
        functions(&self.code)
    }

    /// Returns flat paths of all `use` declarations with their lines: `use a::{b, c::d};` gives
    /// `a::b` and `a::c::d`.
    pub fn uses(&self) -> Vec<(usize, String)> {
        let uses = self.renamed_uses().into_iter();
        uses.map(|(line, path, ..)| (line, path)).collect()
    }

    /// Returns the results of [`Source::uses`], with the name that each path gets and whether it is
    /// a re-export (`pub use`, also `pub(crate) use`).
    pub fn renamed_uses(&self) -> Vec<(usize, String, String, bool)> {
        let mut found = vec![];
        for (at, word) in words(&self.code) {
            if word != "use" {
                continue;
            }
            let rest = &self.code[at + word.len()..];
            let tree: String = rest
                .chars()
                .take_while(|c| *c != ';')
                .filter(|c| !c.is_whitespace() || *c == ' ')
                .collect();
            let before = self.code[..at].trim_end();
            let start = before.rfind([';', '}', '\n']).map_or(0, |n| n + 1);
            let is_public = before[start..].trim_start().starts_with("pub");
            let line = line_of(&self.code, at);
            flatten(tree.trim(), "", &mut |path| {
                let (path, renamed) = path.split_once(" as ").unwrap_or((path, ""));
                let path = path.trim().trim_end_matches("::self").to_string();
                let last = path.rsplit("::").next().unwrap_or(&path).to_string();
                let name = if renamed.is_empty() {
                    last
                } else {
                    renamed.trim().to_string()
                };
                found.push((line, path, name, is_public));
            });
        }
        found
    }

    /// Returns the first and last lines, 0-based, of the bodies of `macro_rules!`.
    pub fn macros(&self) -> Vec<(usize, usize)> {
        let starts = self.code.match_indices("macro_rules!").map(|(at, _)| at);
        starts
            .filter_map(|at| {
                let end = closing(&self.code, body_open(&self.code, at)?)?;
                Some((line_of(&self.code, at), line_of(&self.code, end - 1)))
            })
            .collect()
    }

    /// Returns the names of modules declared as `#[cfg(test)] mod name;`. Their files are test
    /// code.
    pub fn test_modules(&self) -> Vec<String> {
        let mut names = vec![];
        for at in cfg_tests(&self.code) {
            let rest = after_attributes(&self.code, at);
            let item: String = rest
                .chars()
                .take_while(|c| !matches!(c, ';' | '{'))
                .collect();
            let is_declaration = rest[item.len()..].starts_with(';');
            let mut parts = item.split_whitespace().skip_while(|w| *w != "mod").skip(1);
            if let (true, Some(name)) = (is_declaration, parts.next()) {
                names.push(name.to_string());
            }
        }
        names
    }
}

/// Expands one `use` tree.
fn flatten(tree: &str, prefix: &str, each: &mut impl FnMut(&str)) {
    let Some(open) = tree.find('{') else {
        let path = tree.trim().trim_start_matches("::");
        if !path.is_empty() {
            each(&format!("{prefix}{path}"));
        }
        return;
    };
    let head = format!("{prefix}{}", tree[..open].trim().trim_start_matches("::"));
    let end = closing(tree, open).map_or(tree.len(), |end| end - 1);
    let inside = &tree[open + 1..end];
    let (mut depth, mut start) = (0usize, 0usize);
    for (i, c) in inside.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                flatten(inside[start..i].trim(), &head, each);
                start = i + 1;
            }
            _ => {}
        }
    }
    flatten(inside[start..].trim(), &head, each);
}

/// State of the blanking at one byte.
#[derive(Clone, Copy, PartialEq)]
enum State {
    Code,
    LineComment,
    BlockComment(u32),
    /// A string. Escapes are recognised unless it is `raw`.
    Text {
        raw: bool,
        hashes: usize,
    },
}

/// Blanks comments and literals, keeping lines and byte columns.
pub fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut state = State::Code;
    let mut i = 0;
    while i < bytes.len() {
        let (next, length, shown) = step(bytes, i, state);
        for &byte in &bytes[i..i + length] {
            out.push(if shown || byte == b'\n' { byte } else { b' ' });
        }
        i += length;
        state = next;
    }
    String::from_utf8(out).expect("whole characters are shown or blanked byte by byte")
}

/// Advances the blanking by one token. Returns the next state, the number of bytes, and whether
/// they are kept.
fn step(bytes: &[u8], i: usize, state: State) -> (State, usize, bool) {
    let rest = &bytes[i..];
    match state {
        State::Code => step_code(bytes, i),
        State::LineComment if rest[0] == b'\n' => (State::Code, 1, true),
        State::LineComment => (state, 1, false),
        State::BlockComment(depth) if rest.starts_with(b"/*") => {
            (State::BlockComment(depth + 1), 2, false)
        }
        State::BlockComment(1) if rest.starts_with(b"*/") => (State::Code, 2, false),
        State::BlockComment(depth) if rest.starts_with(b"*/") => {
            (State::BlockComment(depth - 1), 2, false)
        }
        State::BlockComment(_) => (state, 1, false),
        State::Text { raw: false, .. } if rest[0] == b'\\' && rest.len() > 1 => (state, 2, false),
        State::Text { hashes, .. } if rest[0] == b'"' && hashes_after(rest) >= hashes => {
            (State::Code, 1, true)
        }
        State::Text { .. } => (state, 1, false),
    }
}

fn hashes_after(quote: &[u8]) -> usize {
    quote[1..].iter().take_while(|b| **b == b'#').count()
}

fn step_code(bytes: &[u8], i: usize) -> (State, usize, bool) {
    let rest = &bytes[i..];
    if rest.starts_with(b"//") {
        return (State::LineComment, 2, false);
    }
    if rest.starts_with(b"/*") {
        return (State::BlockComment(1), 2, false);
    }
    if rest[0] == b'"' {
        let (raw, hashes) = raw_prefix(&bytes[..i]);
        return (State::Text { raw, hashes }, 1, true);
    }
    if rest[0] == b'\''
        && let Some(length) = char_literal(rest)
    {
        return (State::Code, length, false);
    }
    (State::Code, 1, true)
}

/// Returns whether a quote after `before` opens a raw string, and the number of its hashes.
fn raw_prefix(before: &[u8]) -> (bool, usize) {
    let hashes = before.iter().rev().take_while(|b| **b == b'#').count();
    let mut word = &before[..before.len() - hashes];
    if word.last() != Some(&b'r') {
        return (false, 0);
    }
    word = &word[..word.len() - 1];
    if matches!(word.last(), Some(b'b' | b'c')) {
        word = &word[..word.len() - 1];
    }
    let is_prefix = !word.last().is_some_and(|b| is_word_byte(*b));
    (is_prefix, if is_prefix { hashes } else { 0 })
}

/// Returns the length of a character literal that starts here; `None` for a lifetime.
fn char_literal(rest: &[u8]) -> Option<usize> {
    if rest.get(1) == Some(&b'\\') {
        let close = rest.iter().skip(3).position(|b| *b == b'\'')?;
        return Some(close + 4);
    }
    // A character literal is one character of at most four bytes, then the quote.
    let first = *rest.get(1)?;
    let width = match first {
        0..=0x7f => 1,
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        _ => 4,
    };
    (rest.get(1 + width) == Some(&b'\'')).then_some(width + 2)
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Returns the identifiers and keywords of blanked code with their byte offsets.
pub fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let bytes = code.as_bytes();
    let mut i = 0;
    std::iter::from_fn(move || {
        while i < bytes.len() && !is_word_byte(bytes[i]) {
            i += 1;
        }
        let start = i;
        while i < bytes.len() && is_word_byte(bytes[i]) {
            i += 1;
        }
        (start < i).then(|| (start, &code[start..i]))
    })
}

/// Returns the line of a byte offset, from 0.
pub fn line_of(text: &str, at: usize) -> usize {
    text[..at].bytes().filter(|b| *b == b'\n').count()
}

/// Returns the offset after the bracket that closes the one at `open`.
fn closing(code: &str, open: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (i, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(i + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// Returns the offset of the `{` that opens an item's body; `None` if a `;` ends the item first.
fn body_open(code: &str, from: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (i, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            b'{' if depth == 0 => return Some(i),
            b';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

fn functions(code: &str) -> Vec<Function> {
    let mut found = vec![];
    let mut previous: Option<(usize, &str)> = None;
    for (at, word) in words(code) {
        let is_named = previous.is_some_and(|(before, keyword)| {
            keyword == "fn" && code[before + 2..at].trim().is_empty()
        });
        if let (true, Some((start, _))) = (is_named, previous) {
            let end = body_open(code, at).and_then(|open| closing(code, open));
            if let Some(end) = end {
                found.push(Function {
                    name: word.to_string(),
                    first: line_of(code, start),
                    last: line_of(code, end - 1),
                });
            }
        }
        previous = Some((at, word));
    }
    found
}

/// Returns the offsets of `#[cfg(…test…)]` and `#[test]`-like attributes (not `not(test)`).
fn cfg_tests(code: &str) -> Vec<usize> {
    let mut found = vec![];
    for (at, _) in code.match_indices("#[") {
        let Some(end) = closing(code, at + 1) else {
            continue;
        };
        let inside = &code[at + 2..end - 1];
        let mut parts = words(inside).map(|(_, w)| w);
        let is_test = match parts.next() {
            Some("test") => true,
            Some("cfg") => {
                let rest: Vec<_> = parts.collect();
                rest.starts_with(&["all", "test"])
                    || rest.contains(&"test") && !rest.contains(&"not")
            }
            _ => false,
        };
        if is_test {
            found.push(at);
        }
    }
    found
}

/// Returns the code after the attribute at `at` and after any that follow it.
fn after_attributes(code: &str, at: usize) -> &str {
    let mut i = at;
    loop {
        let rest = code[i..].trim_start();
        i = code.len() - rest.len();
        if !rest.starts_with("#[") {
            return rest;
        }
        match closing(code, i + 1) {
            Some(end) => i = end,
            None => return "",
        }
    }
}

/// Returns the first and last lines of the items that are compiled for tests only.
fn test_regions(code: &str) -> Vec<(usize, usize)> {
    let mut regions = vec![];
    for at in cfg_tests(code) {
        let item = code.len() - after_attributes(code, at).len();
        let end = match body_open(code, item) {
            Some(open) => closing(code, open).unwrap_or(code.len()),
            None => code[item..].find(';').map_or(code.len(), |n| item + n + 1),
        };
        regions.push((line_of(code, at), line_of(code, end.saturating_sub(1))));
    }
    regions
}

#[cfg(test)]
mod tests;
