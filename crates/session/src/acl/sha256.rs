//! SHA-256, for passwords.

use aws_lc_rs::digest::{SHA256, digest};

/// A digest.
pub type Digest = [u8; 32];

/// Returns the digest of a text.
pub fn sha256(text: &[u8]) -> Digest {
    let digest = digest(&SHA256, text);
    digest.as_ref().try_into().expect("a digest has 32 bytes")
}

/// Formats a digest as 64 hexadecimal digits.
pub fn hex(digest: &Digest) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Parses 64 hexadecimal digits in lower case.
pub fn from_hex(text: &[u8]) -> Option<Digest> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut digest = [0; 32];
    if text.len() != 2 * digest.len() {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(digest)
}

/// Whether two digests are equal. The time does not depend on where they differ.
pub fn is_equal(one: &Digest, other: &Digest) -> bool {
    let differing = one.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b));
    std::hint::black_box(differing) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_agree_with_the_examples_of_the_standard() {
        for (text, expected) in [
            (
                &b""[..],
                "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            ),
            (
                b"abc",
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            ),
            (
                b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
            ),
            (
                &[b'a'; 1_000_000],
                "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0",
            ),
        ] {
            let digest = sha256(text);
            assert_eq!(hex(&digest), expected);
            assert_eq!(from_hex(expected.as_bytes()), Some(digest));
        }
        for wrong in ["", "e3", &"E3".repeat(32), &"zz".repeat(32)] {
            assert_eq!(from_hex(wrong.as_bytes()), None);
        }
    }

    #[test]
    fn digests_are_compared() {
        let (one, other) = (sha256(b"one"), sha256(b"other"));
        assert!(is_equal(&one, &one) && !is_equal(&one, &other));
    }
}
