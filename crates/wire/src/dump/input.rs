//! Readers of the parts of a body: bytes, lengths, strings, LZF.

use super::value::DumpError;
use crate::number::push_i64;

/// Result of reading a part.
pub(crate) type Read<T> = Result<T, DumpError>;

/// Unread bytes of a body.
pub(crate) trait Body {
    /// Removes the next bytes and returns them.
    fn bytes(&mut self, count: usize) -> Read<&[u8]>;

    /// Checks that `packed` unread bytes may expand to a total of `whole` bytes.
    fn expand(&mut self, packed: usize, whole: usize) -> Read<()>;

    /// Removes the next `N` bytes and returns them.
    #[inline]
    fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        let bytes = self.bytes(N)?;
        Ok(bytes.try_into().expect("it has the requested length"))
    }

    /// Removes the next byte and returns it.
    #[inline]
    fn byte(&mut self) -> Read<u8> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    /// Reads a length, or another number encoded as one.
    #[inline]
    fn length(&mut self) -> Read<u64> {
        let first = self.byte()?;
        self.length_after(first)
    }

    /// Reads the rest of a length after its first byte.
    #[inline]
    fn length_after(&mut self, first: u8) -> Read<u64> {
        match first {
            0..0x40 => Ok(first.into()),
            0x40..0x80 => Ok(u64::from(first & 0x3F) << 8 | u64::from(self.byte()?)),
            0x80 => Ok(u32::from_be_bytes(self.array()?).into()),
            0x81 => Ok(u64::from_be_bytes(self.array()?)),
            _ => Err(DumpError::Body),
        }
    }

    /// Reads a length that fits the memory.
    fn size(&mut self) -> Read<usize> {
        self.length()?.try_into().map_err(|_| DumpError::Body)
    }

    /// Reads a string: a slice of the body, or expanded into `scratch`.
    fn string<'s>(&'s mut self, scratch: &'s mut Vec<u8>) -> Read<&'s [u8]> {
        scratch.clear();
        match self.byte()? {
            0xC0 => push_i64(scratch, i8::from_le_bytes(self.array()?).into()),
            0xC1 => push_i64(scratch, i16::from_le_bytes(self.array()?).into()),
            0xC2 => push_i64(scratch, i32::from_le_bytes(self.array()?).into()),
            0xC3 => {
                let (packed, whole) = (self.size()?, self.size()?);
                self.expand(packed, whole)?;
                unfold(self.bytes(packed)?, whole, scratch)?;
            }
            first => {
                let count = self.length_after(first)?;
                return self.bytes(count.try_into().map_err(|_| DumpError::Body)?);
            }
        }
        Ok(scratch)
    }

    /// Reads a string and copies it into `text`, for a caller that reads on before it uses the
    /// string. `scratch` is overwritten.
    fn copy_string(&mut self, text: &mut Vec<u8>, scratch: &mut Vec<u8>) -> Read<()> {
        let string = self.string(scratch)?;
        text.clear();
        text.extend_from_slice(string);
        Ok(())
    }
}

/// Unread bytes of a slice.
pub(crate) struct Input<'a> {
    rest: &'a [u8],
    /// Number of bytes that LZF may still expand to.
    room_bytes: usize,
}

impl<'a> Input<'a> {
    pub fn new(body: &'a [u8], room_bytes: usize) -> Self {
        let rest = body;
        Input { rest, room_bytes }
    }

    pub fn len(&self) -> usize {
        self.rest.len()
    }

    pub fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Removes the next bytes and returns them. Unlike [`Body::bytes`], the result may outlive
    /// `self`.
    pub fn slice(&mut self, count: usize) -> Read<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(count).ok_or(DumpError::Body)?;
        self.rest = rest;
        Ok(bytes)
    }
}

impl Body for Input<'_> {
    fn bytes(&mut self, count: usize) -> Read<&[u8]> {
        self.slice(count)
    }

    fn expand(&mut self, _packed: usize, whole: usize) -> Read<()> {
        self.room_bytes = self.room_bytes.checked_sub(whole).ok_or(DumpError::Body)?;
        Ok(())
    }
}

/// Decompresses LZF. A byte below 32 precedes one more literal bytes than its value. Any other byte
/// begins the length (3 bits) and distance (13 bits) of a repeated run. The result must have
/// `whole` bytes.
fn unfold(packed: &[u8], whole: usize, out: &mut Vec<u8>) -> Read<()> {
    let mut input = Input::new(packed, 0);
    while !input.is_at_end() {
        let control = usize::from(input.byte()?);
        let mut count = control >> 5;
        if count == 0 {
            out.extend_from_slice(input.bytes(control + 1)?);
        } else {
            if count == 7 {
                count += usize::from(input.byte()?);
            }
            let back = ((control & 31) << 8 | usize::from(input.byte()?)) + 1;
            repeat(out, count + 2, back)?;
        }
        if out.len() > whole {
            return Err(DumpError::Body);
        }
    }
    (out.len() == whole).then_some(()).ok_or(DumpError::Body)
}

/// Appends `count` bytes that begin `back` before the end. The run may overlap itself.
fn repeat(out: &mut Vec<u8>, mut count: usize, back: usize) -> Read<()> {
    let start = out.len().checked_sub(back).ok_or(DumpError::Body)?;
    while count > 0 {
        let piece = count.min(out.len() - start);
        out.extend_from_within(start..start + piece);
        count -= piece;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_bytes_are_expanded() {
        let unfolded = |packed: &[u8], whole| {
            let mut out = Vec::new();
            unfold(packed, whole, &mut out).map(|()| out)
        };
        assert_eq!(unfolded(b"\x02abc", 3), Ok(b"abc".to_vec()));
        // A run that overlaps itself, and one of the long kind.
        assert_eq!(unfolded(b"\x01ab\x60\x01", 7), Ok(b"abababa".to_vec()));
        assert_eq!(unfolded(b"\x00x\xE0\x05\x00", 15), Ok(vec![b'x'; 15]));
        for (packed, whole) in [
            (&b"\x02abc"[..], 4),
            (b"\x02abc", 2),
            (b"\x02ab", 3),
            (b"\x20\x00", 3),
            (b"\x00x\x20\x01", 4),
            (b"\x00x\xE0", 9),
        ] {
            assert_eq!(unfolded(packed, whole), Err(DumpError::Body), "{packed:?}");
        }
    }
}
