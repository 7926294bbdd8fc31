//! Deadlines of elements: HEXPIRE and the corresponding commands of every type whose elements may
//! have deadlines, and KeyDB's commands on one member of any such type.
//!
//! A deadline in the past expires the element immediately and publishes the event, as for keys.

pub mod family;
pub mod member;

use store::{Class, Edited, Hash, Key, Kind, Scene, Set, SortedSet, Stream, Tick, View, WrongType};

/// Latest deadline of a field in milliseconds since the epoch, in the year 4199. It is the same as
/// in Redis: a replica that runs Redis refuses a command with a later one, and keeps the field's
/// earlier deadline.
const FIELD_DEADLINE_MAX: i64 = (1 << 46) - 1;

/// Texts that differ between types.
pub struct Words {
    /// The word before the number of elements, in lower case.
    pub counted: &'static str,
    /// Error: that word is missing.
    pub missing: &'static str,
    /// Error: the number is not positive, in commands that set a deadline.
    pub set_none: &'static str,
    /// Error: the number is not positive, in other commands.
    pub none: &'static str,
    /// Error: the number differs from the number of arguments.
    pub uneven: &'static str,
    /// Event for a new deadline.
    pub expire: &'static str,
    /// Event for a removed deadline.
    pub persist: &'static str,
}

/// The texts for a type whose elements are called `$noun` and whose events begin with `$letter`.
macro_rules! words {
    ($noun:literal, $nouns:literal, $camel:literal, $letter:literal) => {
        Words {
            counted: $nouns,
            missing: concat!(
                "ERR Mandatory argument ",
                $camel,
                " is missing or not at the right position"
            ),
            set_none: concat!("ERR Parameter `num", $noun, "s` should be greater than 0"),
            none: concat!("ERR Number of ", $nouns, " must be a positive integer"),
            uneven: concat!(
                "ERR The `num",
                $nouns,
                "` parameter must match the number of arguments"
            ),
            expire: concat!($letter, "expire"),
            persist: concat!($letter, "persist"),
        }
    };
}

/// A collection whose elements may have deadlines.
pub trait Timed: Sized {
    /// Texts of the type.
    const WORDS: Words;
    /// The type.
    const KIND: Kind;
    /// Event class of the type.
    const CLASS: Class;
    /// Latest deadline that commands set, in milliseconds since the epoch.
    const DEADLINE_MAX: i64;

    /// Calls `read` with the collection under a key. Returns `None` if there is none.
    fn read<R>(
        view: &mut View<'_>,
        key: &Key<'_>,
        read: impl FnOnce(&Self, &Scene<'_>) -> R,
    ) -> Result<Option<R>, WrongType>;

    /// Calls `edit` with the collection under a key. `edit` returns `None` if it has changed
    /// nothing.
    fn edit<R>(
        view: &mut View<'_>,
        key: &Key<'_>,
        edit: impl FnOnce(&mut Self, &Scene<'_>) -> Option<R>,
    ) -> Result<Option<Edited<R>>, WrongType>;

    /// Returns the deadline of an element: `None` if there is no such element, `Some(None)` if it
    /// has no deadline.
    fn deadline(&self, name: &[u8], scene: &Scene<'_>) -> Option<Option<Tick>>;

    /// Passes the deadline of an element to `choose` and replaces it by the returned one; `None`
    /// keeps it. Returns whether the element exists.
    fn update_deadline(
        &mut self,
        name: &[u8],
        scene: &Scene<'_>,
        choose: impl FnMut(Option<Tick>) -> Option<Option<Tick>>,
    ) -> bool;
}

/// Implements the trait with the type's methods of the same names and the view's access methods for
/// the type.
macro_rules! timed {
    ($type:ident, $read:ident, $edit:ident, $deadline_max:expr, $words:expr) => {
        impl Timed for $type {
            const WORDS: Words = $words;
            const KIND: Kind = Kind::$type;
            const CLASS: Class = Class::$type;
            const DEADLINE_MAX: i64 = $deadline_max;

            fn read<R>(
                view: &mut View<'_>,
                key: &Key<'_>,
                read: impl FnOnce(&Self, &Scene<'_>) -> R,
            ) -> Result<Option<R>, WrongType> {
                view.$read(key, read)
            }

            fn edit<R>(
                view: &mut View<'_>,
                key: &Key<'_>,
                edit: impl FnOnce(&mut Self, &Scene<'_>) -> Option<R>,
            ) -> Result<Option<Edited<R>>, WrongType> {
                view.$edit(key, false, edit)
            }

            fn deadline(&self, name: &[u8], scene: &Scene<'_>) -> Option<Option<Tick>> {
                $type::deadline(self, name, scene)
            }

            fn update_deadline(
                &mut self,
                name: &[u8],
                scene: &Scene<'_>,
                choose: impl FnMut(Option<Tick>) -> Option<Option<Tick>>,
            ) -> bool {
                $type::update_deadline(self, name, scene, choose)
            }
        }
    };
}

timed!(
    Hash,
    read_hash,
    edit_hash,
    FIELD_DEADLINE_MAX,
    words!("Field", "fields", "FIELDS", "h")
);

timed!(
    Set,
    read_set,
    edit_set,
    Tick::MAX.0 as i64,
    words!("Member", "members", "MEMBERS", "s")
);

timed!(
    SortedSet,
    read_sorted_set,
    edit_sorted_set,
    Tick::MAX.0 as i64,
    words!("Member", "members", "MEMBERS", "z")
);

timed!(
    Stream,
    read_stream,
    edit_stream,
    Tick::MAX.0 as i64,
    words!("Id", "ids", "IDS", "x")
);
