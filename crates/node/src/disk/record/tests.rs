use super::*;
use crate::object::Object;
use proptest::prelude::*;

fn key() -> Key {
    Key::new(true, "a", "/x?y").expect("the input is valid")
}

fn head(text: &'static str) -> Head {
    let mut headers = HeaderMap::new();
    headers.append("x", HeaderValue::from_static(text));
    headers.append("x", HeaderValue::from_static("second"));
    headers.insert("vary", HeaderValue::from_static("accept, b"));
    let mut request = HeaderMap::new();
    request.insert("b", HeaderValue::from_static("c"));
    Head {
        status: StatusCode::PARTIAL_CONTENT,
        selection: Selection::of(&request, &headers).expect("the input is valid"),
        headers,
        terms: Terms {
            received_ms: 1,
            initial_age_ms: 2,
            fresh_ms: 3,
            revalidate_ms: 4,
            error_ms: 5,
            keep_ms: 6,
            is_always_validated: true,
            must_revalidate: false,
        },
        part: Some((Range { start: 4, end: 9 }, 10)),
        tags: [7, 8].into(),
        coded: Some(Coded {
            version: 9,
            length: 10,
        }),
    }
}

fn sample(lengths: &[usize]) -> Resource {
    let object = |&length: &usize| {
        let half = Bytes::from(vec![5; length / 2]);
        let rest = Bytes::from(vec![6; length - length / 2]);
        Object::new(Arc::new(head("text")), vec![half, rest])
    };
    Resource {
        variants: lengths.iter().map(object).collect(),
        place: None,
        tagged: None,
    }
}

fn header(description: &[u8], content_bytes: u64) -> Header {
    Header {
        hash: key_hash(&key()),
        deadline_ms: 9,
        segment: 1,
        offset: 2,
        description_bytes: description.len() as u32,
        content_bytes,
        description_checksum: checksum(description),
    }
}

#[test]
fn what_was_encoded_is_read() {
    let resource = sample(&[10, 200_000, 0]);
    let bytes = describe(&key(), &resource);
    let header = header(&bytes, 200_010);
    assert_eq!(Header::decode(&header.encode()), Some(header));
    let read = read_description(&header, &bytes).expect("the input is valid");
    assert_eq!(read.key, key());
    assert_eq!(read.variants.len(), 3);
    for ((head, length), object) in read.variants.iter().zip(&resource.variants) {
        assert_eq!(format!("{head:?}"), format!("{:?}", object.head));
        assert_eq!(*length, object.length);
    }
    let content = contents(&resource).flat_map(|chunk| chunk.to_vec());
    let content: Vec<u8> = content.collect();
    assert_eq!(read.blocks.len(), 4);
    assert!(is_intact(&read.blocks, 0, &content));
    assert!(is_intact(&read.blocks, 65_536, &content[65_536..131_072]));
    assert!(!is_intact(&read.blocks, 65_536, &content[65_537..131_073]));
    let mut damaged = content.clone();
    damaged[150_000] ^= 1;
    assert!(!is_intact(&read.blocks, 0, &damaged));
    assert!(is_intact(&read.blocks, 0, &damaged[..131_072]));
}

#[test]
fn a_changed_bit_is_found() {
    let bytes = describe(&key(), &sample(&[10]));
    let header = header(&bytes, 10);
    let encoded = header.encode();
    for bit in 0..HEADER_BYTES * 8 {
        let mut damaged = encoded;
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(Header::decode(&damaged), None, "bit {bit}");
    }
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(read_description(&header, &damaged).is_none(), "bit {bit}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        content_bytes in any::<u64>(),
    ) {
        let _ = Header::decode(&bytes);
        let _ = read_description(&header(&bytes, content_bytes), &bytes);
    }

    #[test]
    fn a_description_with_other_bytes_is_read_without_a_panic(
        at in 0_usize..1_000,
        with in proptest::collection::vec(any::<u8>(), 1..6),
    ) {
        let mut bytes = describe(&key(), &sample(&[10, 3]));
        let at = at % bytes.len();
        let end = (at + with.len()).min(bytes.len());
        bytes[at..end].copy_from_slice(&with[..end - at]);
        let _ = read_description(&header(&bytes, 13), &bytes);
    }
}
