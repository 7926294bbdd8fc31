//! Knobs of policies, filters and indexes: how a name with knobs is read and written.
//!
//! A specification is a name and knobs after colons: `lru`, `clock:2`, `s3fifo:small=0.2`. Knobs
//! are given in their order or by name. The registries (`any.rs`, `admit/any.rs`, `expire/any.rs`)
//! find the name; [`read_knobs`] reads the rest.

use crate::names;
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// A knob of a policy, filter or index.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Knob {
    /// Name in a specification.
    pub name: &'static str,
    /// Default value.
    pub default: &'static str,
    /// Accepted values, as text for users.
    pub range: &'static str,
}

/// Knobs of a policy, filter or index, by name. Implemented by [`knobs!`](macro@crate::knobs).
pub trait Knobs: Default {
    /// All knobs, in the order in which they may be given without their names.
    const KNOBS: &'static [Knob];
    /// Sets a knob to the value that the text gives. Returns false if the knob does not exist or
    /// the value is not accepted.
    fn set(&mut self, name: &str, value: &str) -> bool;
    /// Returns the value of a knob as [`Knobs::set`] accepts it.
    fn show(&self, name: &str) -> String;
    /// Whether every value is in its range.
    fn is_valid(&self) -> bool;
}

impl Knobs for () {
    const KNOBS: &'static [Knob] = &[];
    fn set(&mut self, _name: &str, _value: &str) -> bool {
        false
    }
    fn show(&self, _name: &str) -> String {
        String::new()
    }
    fn is_valid(&self) -> bool {
        true
    }
}

/// Defines a config of numbers with defaults and inclusive ranges: `pub struct C { /** doc */ bits:
/// u8 = 1, 1 => 3; }`.
#[macro_export]
macro_rules! knobs {
    ($(#[$doc:meta])* pub struct $config:ident {
        $($(#[$field_doc:meta])* $field:ident : $type:ty = $default:literal, $low:literal => $high:literal;)+
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $config {
            $($(#[$field_doc])* pub $field: $type,)+
        }

        impl Default for $config {
            fn default() -> Self {
                $config { $($field: $default,)+ }
            }
        }

        impl $crate::knobs::Knobs for $config {
            const KNOBS: &'static [$crate::knobs::Knob] = &[$($crate::knobs::Knob {
                name: stringify!($field),
                default: concat!($default),
                range: concat!($low, " to ", $high),
            },)+];

            fn set(&mut self, name: &str, value: &str) -> bool {
                match name {
                    $(stringify!($field) => match value.parse::<$type>() {
                        Ok(value) if ($low..=$high).contains(&value) => {
                            self.$field = value;
                            true
                        }
                        _ => false,
                    },)+
                    _ => false,
                }
            }

            fn show(&self, name: &str) -> $crate::alloc::string::String {
                match name {
                    $(stringify!($field) => $crate::alloc::string::ToString::to_string(&self.$field),)+
                    _ => $crate::alloc::string::String::new(),
                }
            }

            fn is_valid(&self) -> bool {
                $(($low..=$high).contains(&self.$field))&&+
            }
        }
    };
}

impl Eq for Knob {}

/// Reason why a text does not specify a policy, an admission filter or an expiry index.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SpecError {
    /// Nothing of this kind has the given name.
    UnknownName {
        /// Kind of the name that was looked up, such as `eviction policy`.
        kind: &'static str,
        /// The name that was given.
        given: String,
        /// The names that are most similar to it, the best ones only.
        near: Vec<&'static str>,
    },
    /// The policy, filter or index has no such knob, or has fewer knobs than values were given.
    UnknownKnob {
        /// Name of the policy, filter or index.
        policy: &'static str,
        /// The part that names no knob.
        given: String,
        /// The knobs that it has.
        knobs: &'static [Knob],
    },
    /// A knob is given more than once.
    RepeatedKnob {
        /// Name of the policy, filter or index.
        policy: &'static str,
        /// Name of the knob.
        knob: &'static str,
    },
    /// The value is outside of the knob's range or not of its type.
    BadValue {
        /// Name of the policy, filter or index.
        policy: &'static str,
        /// The knob.
        knob: Knob,
        /// The value that was given.
        given: String,
    },
}

impl SpecError {
    /// Returns the error for a name that equals none of `names`. The most similar of them are
    /// suggested.
    pub fn unknown_name(
        kind: &'static str,
        given: &str,
        names: impl IntoIterator<Item = &'static str>,
    ) -> SpecError {
        SpecError::UnknownName {
            kind,
            given: given.to_owned(),
            near: names::near(given, names),
        }
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpecError::UnknownName { kind, given, near } => {
                let suggestion = names::suggestion(near);
                let space = if near.is_empty() { "" } else { " " };
                write!(
                    f,
                    "no {kind} is called '{given}': {suggestion}{space}docs/reference/policies.md lists all names"
                )
            }
            SpecError::UnknownKnob {
                policy,
                given,
                knobs,
            } => {
                write!(f, "{policy} has no knob for '{given}'; expected ")?;
                match knobs {
                    [] => write!(f, "no knobs after the name"),
                    _ => knobs.iter().enumerate().try_for_each(|(index, knob)| {
                        let comma = if index > 0 { ", " } else { "" };
                        write!(f, "{comma}{}={}", knob.name, knob.default)
                    }),
                }
            }
            SpecError::RepeatedKnob { policy, knob } => {
                write!(f, "{policy}: the knob '{knob}' is given twice")
            }
            SpecError::BadValue {
                policy,
                knob,
                given,
            } => {
                write!(
                    f,
                    "{policy}: {}={given}: expected {}",
                    knob.name, knob.range
                )
            }
        }
    }
}

impl core::error::Error for SpecError {}

/// Sets knobs from the parts that follow the name, `value` or `knob=value`.
pub fn read_knobs<C: Knobs>(
    name: &'static str,
    parts: core::str::Split<'_, char>,
) -> Result<C, SpecError> {
    let mut config = C::default();
    let mut given: Vec<&'static str> = Vec::new();
    for (index, part) in parts.enumerate() {
        let (given_name, value) = match part.split_once('=') {
            Some((name, value)) => (Some(name), value),
            None => (None, part),
        };
        let knob = match given_name {
            Some(given) => C::KNOBS.iter().find(|knob| knob.name == given),
            None => C::KNOBS.get(index),
        };
        let unknown = || SpecError::UnknownKnob {
            policy: name,
            given: part.to_owned(),
            knobs: C::KNOBS,
        };
        let knob = *knob.ok_or_else(unknown)?;
        if given.contains(&knob.name) {
            let knob = knob.name;
            return Err(SpecError::RepeatedKnob { policy: name, knob });
        }
        given.push(knob.name);
        if !config.set(knob.name, value) {
            return Err(SpecError::BadValue {
                policy: name,
                knob,
                given: value.to_owned(),
            });
        }
    }
    Ok(config)
}

/// Writes the knobs that are not at their default.
pub fn write_knobs<C: Knobs>(f: &mut fmt::Formatter<'_>, config: &C) -> fmt::Result {
    let default = C::default();
    for knob in C::KNOBS {
        let value = config.show(knob.name);
        if value != default.show(knob.name) {
            write!(f, ":{}={value}", knob.name)?;
        }
    }
    Ok(())
}
