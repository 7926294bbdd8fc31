//! The decoder of `cjson`.

use super::{DEPTH_MAX, Settings};
use crate::failure::raise;
use crate::number::read_double;
use mlua::{Lua, Value};

/// Decodes a JSON text.
pub fn decode(lua: &Lua, settings: &Settings, text: &[u8]) -> mlua::Result<Value> {
    if text.len() >= 2 && (text[0] == 0 || text[1] == 0) {
        return Err(raise(lua, "JSON parser does not support UTF-16 or UTF-32"));
    }
    let mut decoder = Decoder {
        lua,
        settings,
        text,
        at: 0,
        buffer: Vec::new(),
        depth: 0,
    };
    let first = decoder.token();
    let value = decoder.value(first)?;
    let end = decoder.token();
    if !matches!(end.kind, Kind::End) {
        return Err(decoder.unexpected("the end", &end));
    }
    Ok(value)
}

/// Kind of a token. A string is in the decoder's buffer.
#[derive(Clone, Copy)]
enum Kind {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    String,
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Error(&'static str),
}

impl Kind {
    /// Returns the name in error messages.
    fn name(self) -> &'static str {
        match self {
            Kind::ObjectBegin => "T_OBJ_BEGIN",
            Kind::ObjectEnd => "T_OBJ_END",
            Kind::ArrayBegin => "T_ARR_BEGIN",
            Kind::ArrayEnd => "T_ARR_END",
            Kind::String => "T_STRING",
            Kind::Number(_) => "T_NUMBER",
            Kind::Boolean(_) => "T_BOOLEAN",
            Kind::Null => "T_NULL",
            Kind::Colon => "T_COLON",
            Kind::Comma => "T_COMMA",
            Kind::End => "T_END",
            Kind::Error(text) => text,
        }
    }
}

struct Token {
    kind: Kind,
    /// Position in the text, counted from 0.
    at: usize,
}

struct Decoder<'a> {
    lua: &'a Lua,
    settings: &'a Settings,
    text: &'a [u8],
    at: usize,
    buffer: Vec<u8>,
    depth: i32,
}

impl Decoder<'_> {
    fn unexpected(&self, expected: &str, token: &Token) -> mlua::Error {
        let (found, at) = (token.kind.name(), token.at + 1);
        let text = format_args!("Expected {expected} but found {found} at character {at}");
        raise(self.lua, text)
    }

    /// Reads the next token. The end of the text reads as a zero byte, as in C.
    fn token(&mut self) -> Token {
        while matches!(self.text.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        let at = self.at;
        let single = match self.text.get(at) {
            None => Some(Kind::End),
            Some(0) if at == self.text.len() => Some(Kind::End),
            Some(b'{') => Some(Kind::ObjectBegin),
            Some(b'}') => Some(Kind::ObjectEnd),
            Some(b'[') => Some(Kind::ArrayBegin),
            Some(b']') => Some(Kind::ArrayEnd),
            Some(b':') => Some(Kind::Colon),
            Some(b',') => Some(Kind::Comma),
            _ => None,
        };
        if let Some(kind) = single {
            self.at += 1;
            return Token { kind, at };
        }
        let rest = &self.text[at..];
        if rest[0] == b'"' {
            return self.string();
        }
        let is_allowed = self.settings.decode_invalid.get();
        let kind = match rest[0] {
            b'-' | b'0'..=b'9' if !is_allowed && is_invalid_number(rest) => {
                Kind::Error("invalid number")
            }
            b'-' | b'0'..=b'9' => self.number(),
            _ if rest.starts_with(b"true") => self.word(4, Kind::Boolean(true)),
            _ if rest.starts_with(b"false") => self.word(5, Kind::Boolean(false)),
            _ if rest.starts_with(b"null") => self.word(4, Kind::Null),
            b'f' | b'i' | b'I' | b'n' | b'N' | b't' | b'+'
                if is_allowed && is_invalid_number(rest) =>
            {
                self.number()
            }
            _ => Kind::Error("invalid token"),
        };
        Token { kind, at }
    }

    fn word(&mut self, len: usize, kind: Kind) -> Kind {
        self.at += len;
        kind
    }

    fn number(&mut self) -> Kind {
        let (number, len) = read_double(&self.text[self.at..]);
        if len == 0 {
            return Kind::Error("invalid number");
        }
        self.at += len;
        Kind::Number(number)
    }

    /// Reads a string into the buffer.
    fn string(&mut self) -> Token {
        let start = self.at;
        self.at += 1;
        self.buffer.clear();
        loop {
            let at = self.at;
            let error = |text| Token {
                kind: Kind::Error(text),
                at,
            };
            match self.text.get(self.at) {
                None | Some(0) => return error("unexpected end of string"),
                Some(b'"') => {
                    self.at += 1;
                    return Token {
                        kind: Kind::String,
                        at: start,
                    };
                }
                Some(b'\\') => {
                    if let Err(text) = self.escape() {
                        return error(text);
                    }
                }
                Some(byte) => {
                    self.buffer.push(*byte);
                    self.at += 1;
                }
            }
        }
    }

    fn escape(&mut self) -> Result<(), &'static str> {
        let byte = match self.text.get(self.at + 1) {
            Some(b'u') => return self.unicode(),
            Some(b'b') => 8,
            Some(b't') => 9,
            Some(b'n') => 10,
            Some(b'f') => 12,
            Some(b'r') => 13,
            Some(byte @ (b'"' | b'\\' | b'/')) => *byte,
            _ => return Err("invalid escape code"),
        };
        self.buffer.push(byte);
        self.at += 2;
        Ok(())
    }

    /// Reads four hexadecimal digits at a position.
    fn digits(&self, at: usize) -> Option<u32> {
        let digits = self.text.get(at..at + 4)?;
        let digit = |byte: &u8| char::from(*byte).to_digit(16);
        digits
            .iter()
            .try_fold(0, |sum, byte| Some(sum << 4 | digit(byte)?))
    }

    fn unicode(&mut self) -> Result<(), &'static str> {
        const INVALID: &str = "invalid unicode escape code";
        let mut code = self.digits(self.at + 2).ok_or(INVALID)?;
        let mut len = 6;
        if code & 0xF800 == 0xD800 {
            if code & 0x400 != 0 || self.text.get(self.at + 6..self.at + 8) != Some(b"\\u") {
                return Err(INVALID);
            }
            let low = self.digits(self.at + 8).ok_or(INVALID)?;
            if low & 0xFC00 != 0xDC00 {
                return Err(INVALID);
            }
            code = (((code & 0x3FF) << 10) | (low & 0x3FF)) + 0x1_0000;
            len = 12;
        }
        let letter = char::from_u32(code).ok_or(INVALID)?;
        let mut bytes = [0; 4];
        self.buffer
            .extend_from_slice(letter.encode_utf8(&mut bytes).as_bytes());
        self.at += len;
        Ok(())
    }

    fn value(&mut self, token: Token) -> mlua::Result<Value> {
        // The position moves by a byte at least, and the texts of strings are copied once more.
        self.settings.state.work(4 + self.at - token.at)?;
        Ok(match token.kind {
            Kind::String => Value::String(self.lua.create_string(&self.buffer)?),
            Kind::Number(number) => Value::Number(number),
            Kind::Boolean(is_true) => Value::Boolean(is_true),
            Kind::Null => Value::NULL,
            Kind::ObjectBegin => return self.object(),
            Kind::ArrayBegin => return self.array(),
            _ => return Err(self.unexpected("value", &token)),
        })
    }

    fn descend(&mut self) -> mlua::Result<()> {
        self.settings.state.check_stack(self.lua)?;
        self.depth += 1;
        let depth = self.depth;
        if depth > self.settings.decode_depth_max.get().min(DEPTH_MAX) {
            let at = self.at;
            let text =
                format_args!("Found too many nested data structures ({depth}) at character {at}");
            return Err(raise(self.lua, text));
        }
        Ok(())
    }

    fn object(&mut self) -> mlua::Result<Value> {
        self.descend()?;
        let table = self.lua.create_table()?;
        let mut token = self.token();
        if !matches!(token.kind, Kind::ObjectEnd) {
            loop {
                if !matches!(token.kind, Kind::String) {
                    return Err(self.unexpected("object key string", &token));
                }
                let key = self.lua.create_string(&self.buffer)?;
                let colon = self.token();
                if !matches!(colon.kind, Kind::Colon) {
                    return Err(self.unexpected("colon", &colon));
                }
                let first = self.token();
                let value = self.value(first)?;
                table.raw_set(key, value)?;
                let next = self.token();
                match next.kind {
                    Kind::ObjectEnd => break,
                    Kind::Comma => token = self.token(),
                    _ => return Err(self.unexpected("comma or object end", &next)),
                }
            }
        }
        self.depth -= 1;
        Ok(Value::Table(table))
    }

    fn array(&mut self) -> mlua::Result<Value> {
        self.descend()?;
        let table = self.lua.create_table()?;
        if self.settings.marks_arrays.get() {
            table.set_metatable(Some(self.settings.array_metatable.clone()))?;
        }
        let mut token = self.token();
        if !matches!(token.kind, Kind::ArrayEnd) {
            for index in 1usize.. {
                let value = self.value(token)?;
                table.raw_seti(index, value)?;
                let next = self.token();
                match next.kind {
                    Kind::ArrayEnd => break,
                    Kind::Comma => token = self.token(),
                    _ => return Err(self.unexpected("comma or array end", &next)),
                }
            }
        }
        self.depth -= 1;
        Ok(Value::Table(table))
    }
}

/// Whether `strtod` accepts, or may accept, a number here that JSON does not allow.
fn is_invalid_number(text: &[u8]) -> bool {
    if text.first() == Some(&b'+') {
        return true;
    }
    let text = text.strip_prefix(b"-").unwrap_or(text);
    match text.first() {
        Some(b'0') => matches!(text.get(1), Some(b'x' | b'X' | b'0'..=b'9')),
        Some(byte) if *byte <= b'9' => false,
        _ => {
            let head = text.get(..3).unwrap_or_default();
            head.eq_ignore_ascii_case(b"inf") || head.eq_ignore_ascii_case(b"nan")
        }
    }
}
