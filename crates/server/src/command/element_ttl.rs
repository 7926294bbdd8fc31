//! Deadlines of elements: what HEXPIRE and its kin do, for every type whose elements may have some, and
//! KeyDB's commands that name one member of any such type.
//!
//! A deadline in the past lets the element expire at once; listeners hear that, as with keys.

pub mod family;
pub mod member;

use store::{Class, Edited, Hash, Key, Kind, Scene, Set, SortedSet, Tick, View, WrongType};

/// The words that differ from type to type.
pub struct Words {
    /// The word before the number of elements, in lower case.
    pub counted: &'static str,
    /// It is missing.
    pub missing: &'static str,
    /// The number is no positive one, where a deadline is set.
    pub set_none: &'static str,
    /// The number is no positive one elsewhere.
    pub none: &'static str,
    /// The number is not that of the arguments.
    pub uneven: &'static str,
    /// The event of a new deadline.
    pub expire: &'static str,
    /// The event of a deadline that went.
    pub persist: &'static str,
}

/// The words of a type that counts `$noun`s behind the word `$counted` and whose events begin with
/// `$letter`.
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
    /// Its words.
    const WORDS: Words;
    /// Its type.
    const KIND: Kind;
    /// Its class of events.
    const CLASS: Class;

    /// Lends the one under a key.
    fn read<R>(
        view: &mut View<'_>,
        key: &Key<'_>,
        read: impl FnOnce(&Self, &Scene<'_>) -> R,
    ) -> Result<Option<R>, WrongType>;

    /// Lends the one under a key to be changed; `None` from `edit`: it has not been.
    fn edit<R>(
        view: &mut View<'_>,
        key: &Key<'_>,
        edit: impl FnOnce(&mut Self, &Scene<'_>) -> Option<R>,
    ) -> Result<Option<Edited<R>>, WrongType>;

    /// When an element dies. `None`: there is none; `Some(None)`: it has no deadline.
    fn deadline(&self, name: &[u8], scene: &Scene<'_>) -> Option<Option<Tick>>;

    /// Asks `choose`, which is told when an element dies, for another deadline or none; `None` leaves it as it
    /// is. False when there is no such element.
    fn update_deadline(
        &mut self,
        name: &[u8],
        scene: &Scene<'_>,
        choose: impl FnMut(Option<Tick>) -> Option<Option<Tick>>,
    ) -> bool;
}

/// Hands the trait's methods on to those of the same name of a type, and the verbs of the view for it.
macro_rules! timed {
    ($type:ident, $read:ident, $edit:ident, $words:expr) => {
        impl Timed for $type {
            const WORDS: Words = $words;
            const KIND: Kind = Kind::$type;
            const CLASS: Class = Class::$type;

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
    words!("Field", "fields", "FIELDS", "h")
);

timed!(
    Set,
    read_set,
    edit_set,
    words!("Member", "members", "MEMBERS", "s")
);

timed!(
    SortedSet,
    read_sorted_set,
    edit_sorted_set,
    words!("Member", "members", "MEMBERS", "z")
);
