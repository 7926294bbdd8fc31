//! Fuzz target of DUMP payloads. Reading ends, and returns no more than the payload contains and
//! compression may expand to. What was read can be written and read again. The first byte is the
//! version; the checksum is corrected.

use wire::dump::{DumpError, Element, Encoding, Sink, ValueType, Writer, read};

/// Maximum size to which compression may expand.
const ROOM: usize = 1 << 16;

/// Name, value, score, deadline.
type Own = (Vec<u8>, Vec<u8>, f64, Option<u64>);

#[derive(Debug, Default, PartialEq)]
struct Received {
    kind: Option<ValueType>,
    elements: Vec<Own>,
}

impl Sink for Received {
    fn begin(&mut self, kind: ValueType) {
        assert_eq!(self.kind.replace(kind), None);
    }

    fn element(&mut self, element: &Element<'_>) {
        let Element {
            name,
            value,
            score,
            deadline,
        } = *element;
        assert!(!score.is_nan());
        self.elements
            .push((name.to_vec(), value.to_vec(), score, deadline));
    }
}

pub fn run(data: &[u8]) {
    // Without the correction the checksum is nearly always wrong.
    let _ = read(data, ROOM, &mut Received::default());
    let Some((&version, body)) = data.split_first() else {
        return;
    };
    let mut payload = body.to_vec();
    payload.extend_from_slice(&[version, 0]);
    let sum = crc64(&payload);
    payload.extend_from_slice(&sum.to_le_bytes());
    let mut received = Received::default();
    let outcome = read(&payload, ROOM, &mut received);
    // The text of a number is at most four times as long as its encoding, and a packed entry takes
    // a byte.
    let received_bytes: usize = received
        .elements
        .iter()
        .map(|e| e.0.len() + e.1.len())
        .sum();
    assert!(received_bytes <= 4 * (ROOM + data.len()));
    assert_eq!(outcome == Err(DumpError::Footer), version == 0);
    if outcome == Ok(()) {
        for is_valkey in [false, true] {
            let mut again = Received::default();
            assert_eq!(
                read(&written(&received, is_valkey), ROOM, &mut again),
                Ok(())
            );
            assert_eq!(again, received);
        }
    }
}

fn written(received: &Received, is_valkey: bool) -> Vec<u8> {
    let first = received
        .elements
        .iter()
        .filter_map(|element| element.3)
        .min();
    let form = match (received.kind.expect("it began"), first) {
        (ValueType::String, _) => Encoding::String,
        (ValueType::List, _) => Encoding::List,
        (ValueType::Set, None) => Encoding::Set,
        (ValueType::Set, Some(_)) => Encoding::SetWithDeadlines,
        (ValueType::SortedSet, None) => Encoding::SortedSet,
        (ValueType::SortedSet, Some(_)) => Encoding::SortedSetWithDeadlines,
        (ValueType::Hash, None) => Encoding::Hash,
        (ValueType::Hash, Some(_)) if is_valkey => Encoding::ValkeyHash,
        (ValueType::Hash, Some(first)) => Encoding::RedisHash { first },
    };
    let mut writer = Writer::new(form, received.elements.len());
    for (name, value, score, deadline) in &received.elements {
        writer.put(&Element {
            name,
            value,
            score: *score,
            deadline: *deadline,
        });
    }
    writer.finish()
}

/// Computes the checksum bit by bit.
fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, &byte| {
        (0..8).fold(sum ^ u64::from(byte), |sum, _| {
            (sum >> 1) ^ (0x95AC_9329_AC4B_C9B5 * (sum & 1))
        })
    })
}
