//! The local copy of the records, from which a node starts without etcd.
//!
//! ```text
//! mayfly-cluster 1 4c5cf6b2a1e08d17
//! {"node":"…","shard":"…","term":3,"revision":87,"records":[["config","…",0],…]}
//! ```
//!
//! The first line has the number of the format and the XXH3 hash of the rest, so that a damaged
//! file is recognized.

use crate::kv::Entry;
use cluster::Name;
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

const TITLE: &str = "mayfly-cluster";
/// Number of the format that this release reads and writes.
const FORMAT: &str = "1";

/// Content of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Copy {
    /// Name of the node, which it keeps across restarts.
    pub node: Name,
    /// Shard of the node.
    pub shard: Option<Name>,
    /// Newest term in which the node wrote or received a write; 0 if there was none.
    pub term: u64,
    /// Revision of the newest record.
    pub revision: i64,
    /// All records except beats.
    pub entries: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
struct Text {
    node: String,
    shard: Option<String>,
    term: u64,
    revision: i64,
    records: Vec<(String, String, i64)>,
}

impl Copy {
    /// Encodes the file.
    pub fn encode(&self) -> String {
        let record = |entry: &Entry| {
            let value = String::from_utf8_lossy(&entry.value).into_owned();
            (entry.key.clone(), value, entry.revision)
        };
        let text = Text {
            node: self.node.to_string(),
            shard: self.shard.map(|shard| shard.to_string()),
            term: self.term,
            revision: self.revision,
            records: self.entries.iter().map(record).collect(),
        };
        let text = serde_json::to_string(&text).expect("names of members are texts");
        let hash = XxHash3_64::oneshot(text.as_bytes());
        format!("{TITLE} {FORMAT} {hash:016x}\n{text}\n")
    }

    /// Decodes the file.
    ///
    /// # Errors
    /// Returns a description of what was expected.
    pub fn decode(bytes: &[u8]) -> Result<Copy, String> {
        let text = std::str::from_utf8(bytes).map_err(|error| format!("expected text: {error}"))?;
        let (head, rest) = text
            .split_once('\n')
            .ok_or("expected two lines, found one")?;
        let words: Vec<&str> = head.split(' ').collect();
        let hash = match words[..] {
            [TITLE, FORMAT, hash] => hash,
            [TITLE, format, _] => {
                return Err(format!(
                    "format '{format}': expected {FORMAT}; another release has written it"
                ));
            }
            _ => return Err(format!("line 1: expected '{TITLE} {FORMAT} HASH'")),
        };
        let rest = rest.strip_suffix('\n').ok_or("line 2 is cut")?;
        let found = format!("{:016x}", XxHash3_64::oneshot(rest.as_bytes()));
        if found != hash {
            return Err(format!("line 2: its hash is {found}, expected {hash}"));
        }
        let text: Text = serde_json::from_str(rest).map_err(|error| format!("line 2: {error}"))?;
        let name = |text: &str| {
            let expected = || format!("'{text}': expected 40 hexadecimal digits");
            Name::parse(text.as_bytes()).ok_or_else(expected)
        };
        let entry = |(key, value, revision): (String, String, i64)| Entry {
            key,
            value: value.into_bytes(),
            created: revision,
            revision,
        };
        Ok(Copy {
            node: name(&text.node)?,
            shard: text.shard.as_deref().map(name).transpose()?,
            term: text.term,
            revision: text.revision,
            entries: text.records.into_iter().map(entry).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy() -> Copy {
        let name = |digit: &str| Name::parse(digit.repeat(40).as_bytes()).expect("40 digits");
        Copy {
            node: name("a"),
            shard: Some(name("b")),
            term: 3,
            revision: 87,
            entries: vec![Entry {
                key: "config".into(),
                value: b"{\"a\":\"\\n\"}".to_vec(),
                created: 5,
                revision: 5,
            }],
        }
    }

    #[test]
    fn what_was_encoded_is_decoded() {
        assert_eq!(Copy::decode(copy().encode().as_bytes()), Ok(copy()));
        let copy = Copy {
            shard: None,
            ..copy()
        };
        assert_eq!(Copy::decode(copy.encode().as_bytes()), Ok(copy));
    }

    #[test]
    fn every_cut_and_every_changed_byte_is_refused() {
        let text = copy().encode();
        for at in 0..text.len() {
            assert!(Copy::decode(&text.as_bytes()[..at]).is_err(), "cut at {at}");
            let mut changed = text.clone().into_bytes();
            changed[at] ^= 1;
            assert!(Copy::decode(&changed).is_err(), "changed at {at}");
        }
    }

    #[test]
    fn a_refusal_says_what_was_expected() {
        let later = copy().encode().replacen(" 1 ", " 2 ", 1);
        let hash = XxHash3_64::oneshot(b"{}");
        let empty = format!("{TITLE} {FORMAT} {hash:016x}\n{{}}\n");
        for (text, expected) in [
            (
                "vars currentEpoch 0\n",
                "line 1: expected 'mayfly-cluster 1 HASH'",
            ),
            (later.as_str(), "format '2': expected 1"),
            ("mayfly-cluster 1 x\n{}\n", "line 2: its hash is"),
            (empty.as_str(), "missing field `node`"),
        ] {
            let error = Copy::decode(text.as_bytes()).expect_err(expected);
            assert!(error.contains(expected), "{error}");
        }
    }
}
