//! Replies of this server, read back.

use wire::number::parse_i64;

/// Maximum depth of arrays.
const DEPTH_MAX: usize = 8;

/// A reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// A string or a number as text.
    Text(&'a [u8]),
    /// An array, a set, a push, or the keys and values of a map.
    Array(Vec<Value<'a>>),
    /// Null.
    Null,
}

impl<'a> Value<'a> {
    /// Parses one reply. Returns `None` if it is incomplete or of another kind.
    pub fn parse(bytes: &'a [u8]) -> Option<Value<'a>> {
        Reader { bytes }.value(DEPTH_MAX)
    }

    /// Returns the text; an empty one for other values.
    pub fn text(&self) -> &'a [u8] {
        match self {
            Value::Text(text) => text,
            _ => &[],
        }
    }

    /// Returns the elements; none for other values.
    pub fn elements(&self) -> &[Value<'a>] {
        match self {
            Value::Array(elements) => elements,
            _ => &[],
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    fn line(&mut self) -> Option<&'a [u8]> {
        let end = self.bytes.windows(2).position(|pair| pair == b"\r\n")?;
        let (line, rest) = self.bytes.split_at(end);
        self.bytes = &rest[2..];
        Some(line)
    }

    fn value(&mut self, depth: usize) -> Option<Value<'a>> {
        let (mark, text) = self.line()?.split_first()?;
        let count = || usize::try_from(parse_i64(text)?).ok();
        Some(match mark {
            b'+' | b':' | b',' | b'#' | b'(' => Value::Text(text),
            b'_' => Value::Null,
            b'$' | b'=' => {
                let Some(len) = count() else {
                    return Some(Value::Null);
                };
                let text = self.bytes.get(..len)?;
                self.bytes = self.bytes.get(len + 2..)?;
                Value::Text(text)
            }
            b'*' | b'~' | b'>' | b'%' => {
                let Some(count) = count() else {
                    return Some(Value::Null);
                };
                let count = if *mark == b'%' { 2 * count } else { count };
                let depth = depth.checked_sub(1)?;
                let mut elements = Vec::new();
                for _ in 0..count {
                    elements.push(self.value(depth)?);
                }
                Value::Array(elements)
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_of_both_protocols_are_read() {
        let text = |text| Value::Text(text);
        let reply = b"*2\r\n$1\r\nk\r\n*2\r\n:5\r\n$-1\r\n";
        let inner = Value::Array(vec![text(b"5"), Value::Null]);
        let expected = Value::Array(vec![text(b"k"), inner]);
        assert_eq!(Value::parse(reply), Some(expected));
        let map = Value::Array(vec![text(b"k"), text(b"2.5")]);
        assert_eq!(Value::parse(b"%1\r\n$1\r\nk\r\n,2.5\r\n"), Some(map));
        for bad in [&b"*2\r\n$1\r\nk\r\n"[..], b"$5\r\nab\r\n", b"", b"?\r\n"] {
            assert_eq!(Value::parse(bad), None);
        }
        assert_eq!(Value::parse(&b"*1\r\n".repeat(20)), None);
    }
}
