//! SHA-1, by which clients identify scripts. It serves as a name, not as protection.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

/// Returns the SHA-1 digest of `input`.
///
/// ```
/// let digest = script::sha1(b"return 1");
/// assert_eq!(&script::hex(&digest), b"e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
/// ```
pub fn sha1(input: &[u8]) -> [u8; 20] {
    let digest = digest(&SHA1_FOR_LEGACY_USE_ONLY, input);
    digest.as_ref().try_into().expect("a digest has 20 bytes")
}

/// Returns a digest in lower-case hexadecimal digits.
pub fn hex(digest: &[u8; 20]) -> [u8; 40] {
    let mut text = [0; 40];
    for (pair, byte) in text.chunks_exact_mut(2).zip(digest) {
        pair[0] = b"0123456789abcdef"[usize::from(byte >> 4)];
        pair[1] = b"0123456789abcdef"[usize::from(byte & 15)];
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_the_standard() {
        let text = |input: &[u8]| String::from_utf8(hex(&sha1(input)).to_vec()).expect("digits");
        assert_eq!(text(b""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
        assert_eq!(text(b"abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
        assert_eq!(
            text(b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1"
        );
        assert_eq!(
            text(&[b'a'; 1_000_000]),
            "34aa973cd4c4daa4f61eeb2bdbad27316534016f"
        );
    }
}
