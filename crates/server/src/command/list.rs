//! Commands on lists. The submodules implement the commands of this table.

mod arguments;
mod block;
mod move_many;
mod pop;
mod read;
mod write;

use super::table::{commands, on_slab};
use super::work;
use crate::context::Spec;
use session::spec::Keys;
use session::spec::flag::{BLOCKING, DENYOOM, FAST, MOVABLE_KEYS, READONLY, WRITE};

/// Table of this family's commands.
pub const TABLE: &[Spec] = commands! {
    in "list":
    "blmove" 6, WRITE | DENYOOM | BLOCKING, Keys::Range(1, 2, 1), "6.2.0", on_slab!(block::blmove),
        "Moves an element from an end of one list to an end of another. Blocks until there is one.";
    "blmovem" -6, WRITE | DENYOOM | BLOCKING, Keys::Range(1, 2, 1), "8.10.0",
        on_slab!(move_many::blmovem),
        "Moves elements from an end of one list to an end of another. Blocks until there are enough.";
    "blmpop" -5, WRITE | BLOCKING | MOVABLE_KEYS, Keys::Counted(2), "7.0.0", on_slab!(block::blmpop),
        "Removes and returns elements from the first non-empty list. Blocks until there is one.";
    "blpop" -3, WRITE | BLOCKING, Keys::Range(1, -2, 1), "2.0.0", on_slab!(block::blpop),
        "Removes and returns the first element of the first non-empty list. Blocks until there is one.";
    "brpop" -3, WRITE | BLOCKING, Keys::Range(1, -2, 1), "2.0.0", on_slab!(block::brpop),
        "Removes and returns the last element of the first non-empty list. Blocks until there is one.";
    "brpoplpush" 4, WRITE | DENYOOM | BLOCKING, Keys::Range(1, 2, 1), "2.2.0",
        on_slab!(block::brpoplpush),
        "Moves the last element of a list to the front of another. Blocks until there is one.";
    "lindex" 3, READONLY, Keys::Range(1, 1, 1), "1.0.0", on_slab!(read::lindex).by_arguments(),
        "Returns an element by its index.";
    "linsert" 5, WRITE | DENYOOM, Keys::Range(1, 1, 1), "2.2.0", on_slab!(write::linsert).estimated(work::whole),
        "Inserts an element before or after the first element equal to a given one.";
    "llen" 2, READONLY | FAST, Keys::Range(1, 1, 1), "1.0.0", on_slab!(read::llen),
        "Returns the number of elements of a list.";
    "lmove" 5, WRITE | DENYOOM, Keys::Range(1, 2, 1), "6.2.0", on_slab!(pop::lmove),
        "Moves an element from an end of one list to an end of another and returns it.";
    "lmovem" -5, WRITE | DENYOOM, Keys::Range(1, 2, 1), "8.10.0", on_slab!(move_many::lmovem),
        "Moves elements from an end of one list to an end of another and returns them.";
    "lmpop" -4, WRITE | MOVABLE_KEYS, Keys::Counted(1), "7.0.0", on_slab!(pop::lmpop).estimated(work::popped),
        "Removes and returns elements from the first non-empty list.";
    "lpop" -2, WRITE | FAST, Keys::Range(1, 1, 1), "1.0.0", on_slab!(pop::lpop).estimated(work::counted),
        "Removes and returns the first elements of a list. Deletes the key when no element remains.";
    "lpos" -3, READONLY, Keys::Range(1, 1, 1), "6.0.6", on_slab!(read::lpos).estimated(work::whole),
        "Returns the indexes of elements equal to a value.";
    "lpush" -3, WRITE | DENYOOM | FAST, Keys::Range(1, 1, 1), "1.0.0", on_slab!(write::lpush).by_arguments(),
        "Inserts elements at the front of a list. Creates the list if needed.";
    "lpushx" -3, WRITE | DENYOOM | FAST, Keys::Range(1, 1, 1), "2.2.0", on_slab!(write::lpushx).by_arguments(),
        "Inserts elements at the front of a list only if the list exists.";
    "lrange" 4, READONLY, Keys::Range(1, 1, 1), "1.0.0", on_slab!(read::lrange).estimated(work::list_range),
        "Returns a range of elements.";
    "lrem" 4, WRITE, Keys::Range(1, 1, 1), "1.0.0", on_slab!(write::lrem).estimated(work::whole),
        "Removes elements equal to a value.";
    "lset" 4, WRITE | DENYOOM, Keys::Range(1, 1, 1), "1.0.0", on_slab!(write::lset).by_arguments(),
        "Replaces an element by its index.";
    "ltrim" 4, WRITE, Keys::Range(1, 1, 1), "1.0.0", on_slab!(write::ltrim),
        "Removes all elements outside a range.";
    "rpop" -2, WRITE | FAST, Keys::Range(1, 1, 1), "1.0.0", on_slab!(pop::rpop).estimated(work::counted),
        "Removes and returns the last elements of a list. Deletes the key when no element remains.";
    "rpoplpush" 3, WRITE | DENYOOM, Keys::Range(1, 2, 1), "1.2.0", on_slab!(pop::rpoplpush),
        "Moves the last element of a list to the front of another and returns it.";
    "rpush" -3, WRITE | DENYOOM | FAST, Keys::Range(1, 1, 1), "1.0.0", on_slab!(write::rpush).by_arguments(),
        "Appends elements to a list. Creates the list if needed.";
    "rpushx" -3, WRITE | DENYOOM | FAST, Keys::Range(1, 1, 1), "2.2.0", on_slab!(write::rpushx).by_arguments(),
        "Appends elements to a list only if the list exists.";
};
