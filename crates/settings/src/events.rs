//! Classes of keyspace events: the letters of `notify-keyspace-events` and their bits.

use store::Class;

/// Publish to `__keyspace@<db>__:<key>` channels.
pub const KEYSPACE: u32 = 1;
/// Publish to `__keyevent@<db>__:<event>` channels.
pub const KEYEVENT: u32 = 1 << 1;
const GENERIC: u32 = 1 << 2;
const STRING: u32 = 1 << 3;
const LIST: u32 = 1 << 4;
const SET: u32 = 1 << 5;
const HASH: u32 = 1 << 6;
const SORTED_SET: u32 = 1 << 7;
const EXPIRED: u32 = 1 << 8;
const EVICTED: u32 = 1 << 9;
const STREAM: u32 = 1 << 10;
const MODULE: u32 = 1 << 11;
const KEY_MISS: u32 = 1 << 12;
const NEW: u32 = 1 << 13;
const OVERWRITTEN: u32 = 1 << 14;
const TYPE_CHANGED: u32 = 1 << 15;
/// Publish changed elements to `__subkeyspace@<db>__:<key>` channels.
pub const SUBKEYSPACE: u32 = 1 << 16;
/// Publish changed elements to `__subkeyevent@<db>__:<event>` channels.
pub const SUBKEYEVENT: u32 = 1 << 17;
/// Publish each changed element to a `__subkeyspaceitem@<db>__:<key>\n<element>` channel.
pub const SUBKEYSPACEITEM: u32 = 1 << 18;
/// Publish changed elements to `__subkeyspaceevent@<db>__:<event>|<key>` channels.
pub const SUBKEYSPACEEVENT: u32 = 1 << 19;
const INVALIDATED: u32 = 1 << 20;
/// All channel kinds that publish changed elements.
const SUBKEYS: u32 = SUBKEYSPACE | SUBKEYEVENT | SUBKEYSPACEITEM | SUBKEYSPACEEVENT;
const CHANNELS: u32 = KEYSPACE | KEYEVENT | SUBKEYS;
const ALL: u32 =
    GENERIC | STRING | LIST | SET | HASH | SORTED_SET | EXPIRED | EVICTED | STREAM | MODULE;

/// Letters in the order used by CONFIG GET.
const LETTERS: &[(u8, u32)] = &[
    (b'g', GENERIC),
    (b'$', STRING),
    (b'l', LIST),
    (b's', SET),
    (b'h', HASH),
    (b'z', SORTED_SET),
    (b'x', EXPIRED),
    (b'e', EVICTED),
    (b't', STREAM),
    (b'd', MODULE),
    (b'i', INVALIDATED),
    (b'n', NEW),
    (b'o', OVERWRITTEN),
    (b'c', TYPE_CHANGED),
    (b'K', KEYSPACE),
    (b'E', KEYEVENT),
    (b'm', KEY_MISS),
    (b'S', SUBKEYSPACE),
    (b'T', SUBKEYEVENT),
    (b'I', SUBKEYSPACEITEM),
    (b'V', SUBKEYSPACEEVENT),
];

/// Returns the bits for the letters, or `None` if a letter is unknown.
pub fn parse(letters: &[u8]) -> Option<u32> {
    let mut bits = 0;
    for letter in letters {
        bits |= match LETTERS.iter().find(|(known, _)| known == letter) {
            Some((_, bit)) => *bit,
            None if *letter == b'A' => ALL,
            None => return None,
        };
    }
    Some(bits)
}

/// Formats bits as letters, with `A` for all the classes it includes.
pub fn show(bits: u32) -> String {
    let mut text = String::new();
    let has_all = bits & ALL == ALL;
    if has_all {
        text.push('A');
    }
    for (letter, bit) in LETTERS {
        if bits & bit != 0 && !(has_all && ALL & bit != 0) {
            text.push(char::from(*letter));
        }
    }
    text
}

/// Whether the bits enable any publication: at least one channel kind and one event class.
pub fn is_on(bits: u32) -> bool {
    bits & CHANNELS != 0 && bits & !CHANNELS != 0
}

/// Whether the bits enable a channel that names changed elements.
pub fn names_elements(bits: u32) -> bool {
    bits & SUBKEYS != 0
}

/// Returns the bit of a class.
pub fn bit_of(class: Class) -> u32 {
    match class {
        Class::Generic => GENERIC,
        Class::String => STRING,
        Class::List => LIST,
        Class::Set => SET,
        Class::Hash => HASH,
        Class::SortedSet => SORTED_SET,
        Class::Expired => EXPIRED,
        Class::Evicted => EVICTED,
        Class::Invalidated => INVALIDATED,
        Class::Stream => STREAM,
        Class::Module => MODULE,
        Class::KeyMiss => KEY_MISS,
        Class::New => NEW,
        Class::Overwritten => OVERWRITTEN,
        Class::TypeChanged => TYPE_CHANGED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_letters_and_bits_convert_both_ways() {
        for (letters, shown) in [
            ("", ""),
            ("KEA", "AKE"),
            ("Ex", "xE"),
            ("AKEm", "AKEm"),
            ("Kg$lshzxetd", "AK"),
            ("nE", "nE"),
            ("EAi", "AiE"),
            ("cKoE", "ocKE"),
            ("AocEK", "AocKE"),
            ("VITSh", "hSTIV"),
        ] {
            let bits = parse(letters.as_bytes()).expect("known letters");
            assert_eq!(show(bits), shown);
            assert_eq!(parse(shown.as_bytes()), Some(bits));
        }
        assert_eq!(parse(b"Kq"), None);
        assert!(is_on(parse(b"Ex").expect("known")));
        assert!(!is_on(parse(b"KE").expect("known")));
        assert!(!is_on(parse(b"STIV").expect("known")));
        assert!(is_on(parse(b"hI").expect("known")));
        assert!(!is_on(parse(b"xe").expect("known")));
    }
}
