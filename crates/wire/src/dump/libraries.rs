//! Function libraries in the format of FUNCTION DUMP: the codes of all libraries, a version and a
//! checksum.

use super::crc::crc64;
use super::format::version;
use super::input::{Body, Input};
use super::space::push_string;
use super::value::DumpError;

/// Byte before the code of a library.
pub(crate) const LIBRARY: u8 = 245;
/// Version of the snapshot format that first had this byte.
pub(crate) const VERSION: u16 = 10;
/// Maximum number of bytes to which compressed codes may expand.
const ROOM_BYTES: usize = 64 << 20;

/// Returns the payload that contains these codes.
///
/// ```
/// use wire::dump::{read_libraries, write_libraries};
/// let payload = write_libraries([&b"#!lua name=a\n"[..], b"#!lua name=b\n"]);
/// let codes = read_libraries(&payload).expect("it was just written");
/// assert_eq!(codes, [b"#!lua name=a\n".to_vec(), b"#!lua name=b\n".to_vec()]);
/// ```
pub fn write_libraries<'a>(codes: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    for code in codes {
        out.push(LIBRARY);
        push_string(&mut out, code);
    }
    out.extend_from_slice(&VERSION.to_le_bytes());
    let sum = crc64(&out);
    out.extend_from_slice(&sum.to_le_bytes());
    out
}

/// Returns the codes in a payload.
///
/// # Errors
/// See [`DumpError`].
pub fn read_libraries(payload: &[u8]) -> Result<Vec<Vec<u8>>, DumpError> {
    let (rest, sum) = payload.split_last_chunk().ok_or(DumpError::Footer)?;
    let (body, version) = rest.split_last_chunk().ok_or(DumpError::Footer)?;
    let version = u16::from_le_bytes(*version);
    if !(1..=version::MAX).contains(&version) || u64::from_le_bytes(*sum) != crc64(rest) {
        return Err(DumpError::Footer);
    }
    let mut input = Input::new(body, ROOM_BYTES);
    let (mut codes, mut scratch) = (Vec::new(), Vec::new());
    while !input.is_at_end() {
        if input.byte()? != LIBRARY {
            return Err(DumpError::Body);
        }
        codes.push(input.string(&mut scratch)?.to_vec());
    }
    Ok(codes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_of_redis_is_read_and_damage_is_refused() {
        let payload = write_libraries([&b"12"[..], &[b'x'; 300]]);
        assert_eq!(
            read_libraries(&payload),
            Ok(vec![b"12".to_vec(), vec![b'x'; 300]])
        );
        for at in 0..payload.len() {
            let mut damaged = payload.clone();
            damaged[at] ^= 1;
            assert_eq!(
                read_libraries(&damaged),
                Err(DumpError::Footer),
                "byte {at}"
            );
            assert!(read_libraries(&payload[..at]).is_err(), "{at} bytes");
        }
        assert_eq!(read_libraries(&write_libraries([])), Ok(Vec::new()));
    }
}
