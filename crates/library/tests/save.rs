//! Saving by formats that need the number of entries before the first one.
#![cfg(feature = "serde")]

use mayfly::{Cache, Clock, ManualClock};
use serde::Serialize;
use serde::ser::{Error as _, Impossible, SerializeSeq, Serializer};
use std::time::Duration;

type Error = serde_json::Error;

/// Format that writes a sequence as its length and its elements in JSON.
struct Counted;

struct Elements(Vec<String>);

impl SerializeSeq for Elements {
    type Ok = Vec<String>;
    type Error = Error;
    fn serialize_element<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), Error> {
        self.0.push(serde_json::to_string(value)?);
        Ok(())
    }
    fn end(self) -> Result<Vec<String>, Error> {
        Ok(self.0)
    }
}

/// Defines the methods of a format that supports only sequences.
macro_rules! refuse {
    ($($name:ident($($argument:ty),*) -> $ok:ty;)*) => {
        $(fn $name(self, $(_: $argument),*) -> Result<$ok, Error> {
            Err(Error::custom("expected a sequence"))
        })*
    };
}

impl Serializer for Counted {
    type Ok = Vec<String>;
    type Error = Error;
    type SerializeSeq = Elements;
    type SerializeTuple = Impossible<Vec<String>, Error>;
    type SerializeTupleStruct = Impossible<Vec<String>, Error>;
    type SerializeTupleVariant = Impossible<Vec<String>, Error>;
    type SerializeMap = Impossible<Vec<String>, Error>;
    type SerializeStruct = Impossible<Vec<String>, Error>;
    type SerializeStructVariant = Impossible<Vec<String>, Error>;

    fn serialize_seq(self, length: Option<usize>) -> Result<Elements, Error> {
        let length = length.ok_or_else(|| Error::custom("the length is unknown"))?;
        Ok(Elements(vec![length.to_string()]))
    }
    fn serialize_some<T: ?Sized + Serialize>(self, _: &T) -> Result<Vec<String>, Error> {
        Err(Error::custom("expected a sequence"))
    }
    fn serialize_newtype_struct<T: ?Sized + Serialize>(
        self,
        _: &'static str,
        _: &T,
    ) -> Result<Vec<String>, Error> {
        Err(Error::custom("expected a sequence"))
    }
    fn serialize_newtype_variant<T: ?Sized + Serialize>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<Vec<String>, Error> {
        Err(Error::custom("expected a sequence"))
    }
    refuse! {
        serialize_bool(bool) -> Vec<String>;
        serialize_i8(i8) -> Vec<String>;
        serialize_i16(i16) -> Vec<String>;
        serialize_i32(i32) -> Vec<String>;
        serialize_i64(i64) -> Vec<String>;
        serialize_u8(u8) -> Vec<String>;
        serialize_u16(u16) -> Vec<String>;
        serialize_u32(u32) -> Vec<String>;
        serialize_u64(u64) -> Vec<String>;
        serialize_f32(f32) -> Vec<String>;
        serialize_f64(f64) -> Vec<String>;
        serialize_char(char) -> Vec<String>;
        serialize_str(&str) -> Vec<String>;
        serialize_bytes(&[u8]) -> Vec<String>;
        serialize_none() -> Vec<String>;
        serialize_unit() -> Vec<String>;
        serialize_unit_struct(&'static str) -> Vec<String>;
        serialize_unit_variant(&'static str, u32, &'static str) -> Vec<String>;
        serialize_tuple(usize) -> Self::SerializeTuple;
        serialize_tuple_struct(&'static str, usize) -> Self::SerializeTupleStruct;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> Self::SerializeTupleVariant;
        serialize_map(Option<usize>) -> Self::SerializeMap;
        serialize_struct(&'static str, usize) -> Self::SerializeStruct;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> Self::SerializeStructVariant;
    }
}

/// A value without `Clone`.
struct Value(u32);

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(self.0)
    }
}

#[test]
fn the_number_of_entries_precedes_them() {
    let cache: Cache<u32, Value> = Cache::builder(100_000).shards(3).build().expect("valid");
    (0..1_000).for_each(|key| cache.insert(key, Value(key + 1)));
    let written = cache.saved().serialize(Counted).expect("it is a sequence");
    assert_eq!((written[0].as_str(), written.len()), ("1000", 1_001));
    assert!(written.contains(&"[7,8,null]".to_string()));
}

#[test]
fn remaining_times_to_live_are_kept_and_idle_times_begin_again() {
    let clock = ManualClock::new();
    let built = || {
        Cache::<u32, u32>::builder(100)
            .tti(Duration::from_secs(10))
            .clock(Clock::Manual(clock.clone()))
            .build()
            .expect("the settings are valid")
    };
    let cache = built();
    cache.insert(1, 1);
    cache.insert_with_ttl(2, 2, Duration::from_secs(5));
    cache.insert_with_ttl(3, 3, Duration::from_secs(1));
    clock.advance(Duration::from_secs(2));
    let text = serde_json::to_string(&cache.saved()).expect("numbers");
    let other = built();
    let count = other.load(&mut serde_json::Deserializer::from_str(&text));
    assert_eq!(count.expect("what was written is read"), 2);
    assert_eq!(other.time_to_live(&2), Some(Duration::from_secs(3)));
    clock.advance(Duration::from_secs(9));
    assert_eq!(
        (other.get(&1), other.get(&2), other.get(&3)),
        (Some(1), None, None)
    );
    assert!(
        other
            .load(&mut serde_json::Deserializer::from_str("[[1,"))
            .is_err()
    );
}
