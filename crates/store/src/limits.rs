//! Limits below which a collection is packed into one byte array.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

macro_rules! limits {
    ($($name:ident = $default:literal, $what:literal;)*) => {
        /// Limits under their names in Redis. All workers read them with every command.
        #[derive(Debug)]
        pub struct Limits {
            $($name: AtomicI64,)*
        }

        impl Default for Limits {
            fn default() -> Limits {
                Limits { $($name: AtomicI64::new($default),)* }
            }
        }

        impl Clone for Limits {
            fn clone(&self) -> Limits {
                Limits { $($name: AtomicI64::new(self.$name()),)* }
            }
        }

        impl Limits {
            $(
                #[doc = $what]
                #[inline]
                pub fn $name(&self) -> i64 {
                    self.$name.load(Relaxed)
                }
            )*

            /// Sets the limit of this name. Returns false if there is none.
            pub fn set(&self, name: &str, value: i64) -> bool {
                match name {
                    $(stringify!($name) => self.$name.store(value, Relaxed),)*
                    _ => return false,
                }
                true
            }
        }
    };
}

limits! {
    hash_entries = 512, "Fields of a packed hash.";
    hash_value = 64, "Bytes of a field or a value in a packed hash.";
    set_intset_entries = 512, "Members of a set of integers.";
    set_entries = 128, "Members of a packed set.";
    set_value = 64, "Bytes of a member of a packed set.";
    zset_entries = 128, "Members of a packed sorted set.";
    zset_value = 64, "Bytes of a member of a packed sorted set.";
    stream_entries = 100, "Entries of a block of a stream; 0 for the largest possible number.";
    stream_bytes = 4096, "Bytes of a block of a stream; 0 for the largest possible number.";
    stream_idmp_seconds = 100, "Seconds for which a new stream recognizes messages that are sent again.";
    stream_idmp_size = 100, "Messages of each producer that a new stream recognizes.";
    list_size = -2, "Elements of a piece of a list; −1 to −5: its bytes, 4 to 64 KiB.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_set_by_its_name() {
        let limits = Limits::default();
        assert!(limits.set("hash_entries", 7));
        assert_eq!((limits.hash_entries(), limits.hash_value()), (7, 64));
        assert!(!limits.set("nothing", 7));
    }
}
