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
use session::spec::flag::{BLOCKING, DENYOOM, FAST, MOVABLE_KEYS, READONLY, WRITE};
use session::spec::{Access, Form, Keys};

/// Table of this family's commands.
pub const TABLE: &[Spec] = commands! {
    in "list" [list]:
    "blmove" 6, WRITE | DENYOOM | BLOCKING => Form::Without("LMOVE", 5),
        Keys::Range(1, 2, 1) => Access::TAKE.then(Access::INSERT), "6.2.0", on_slab!(block::blmove),
        "source destination (LEFT | RIGHT) (LEFT | RIGHT) timeout",
        "Moves an element from an end of one list to an end of another. Blocks until there is one.";
    "blmovem" -6, WRITE | DENYOOM | BLOCKING => Form::Without("LMOVEM", 5),
        Keys::Range(1, 2, 1) => Access::TAKE.then(Access::INSERT), "8.10.0", on_slab!(move_many::blmovem),
        "source destination (LEFT | RIGHT) (LEFT | RIGHT) timeout [(COUNT count | EXACTLY count) (OBO | BULK)]",
        "Moves elements from an end of one list to an end of another. Blocks until there are enough.";
    "blmpop" -5, WRITE | BLOCKING | MOVABLE_KEYS => Form::ServedMany, Keys::Counted(2) => Access::TAKE, "7.0.0",
        on_slab!(block::blmpop),
        "timeout numkeys key... (LEFT | RIGHT) [COUNT count]",
        "Removes and returns elements from the first non-empty list. Blocks until there is one.";
    "blpop" -3, WRITE | BLOCKING => Form::ServedBy("LPOP"), Keys::Range(1, -2, 1) => Access::TAKE, "2.0.0",
        on_slab!(block::blpop),
        "key... timeout",
        "Removes and returns the first element of the first non-empty list. Blocks until there is one.";
    "brpop" -3, WRITE | BLOCKING => Form::ServedBy("RPOP"), Keys::Range(1, -2, 1) => Access::TAKE, "2.0.0",
        on_slab!(block::brpop),
        "key... timeout",
        "Removes and returns the last element of the first non-empty list. Blocks until there is one.";
    "brpoplpush" 4, WRITE | DENYOOM | BLOCKING => Form::Without("RPOPLPUSH", 3),
        Keys::Range(1, 2, 1) => Access::TAKE.then(Access::INSERT), "2.2.0", on_slab!(block::brpoplpush),
        "source destination timeout",
        "Moves the last element of a list to the front of another. Blocks until there is one.";
    "lindex" 3, READONLY, Keys::ONE => Access::READ, "1.0.0", on_slab!(read::lindex).by_arguments(),
        "key index", "Returns an element by its index.";
    "linsert" 5, WRITE | DENYOOM => Form::Same, Keys::ONE => Access::INSERT, "2.2.0",
        on_slab!(write::linsert).estimated(work::whole),
        "key (BEFORE | AFTER) pivot element",
        "Inserts an element before or after the first element equal to a given one.";
    "llen" 2, READONLY | FAST, Keys::ONE => Access::INSPECT, "1.0.0", on_slab!(read::llen),
        "key", "Returns the number of elements of a list.";
    "lmove" 5, WRITE | DENYOOM => Form::Same, Keys::Range(1, 2, 1) => Access::TAKE.then(Access::INSERT), "6.2.0",
        on_slab!(pop::lmove),
        "source destination (LEFT | RIGHT) (LEFT | RIGHT)",
        "Moves an element from an end of one list to an end of another and returns it.";
    "lmovem" -5, WRITE | DENYOOM => Form::Same,
        Keys::Range(1, 2, 1) => Access::TAKE.then(Access::INSERT), "8.10.0", on_slab!(move_many::lmovem),
        "source destination (LEFT | RIGHT) (LEFT | RIGHT) [(COUNT count | EXACTLY count) (OBO | BULK)]",
        "Moves elements from an end of one list to an end of another and returns them.";
    "lmpop" -4, WRITE | MOVABLE_KEYS => Form::ServedMany, Keys::Counted(1) => Access::TAKE, "7.0.0",
        on_slab!(pop::lmpop).estimated(work::popped),
        "numkeys key... (LEFT | RIGHT) [COUNT count]",
        "Removes and returns elements from the first non-empty list.";
    "lpop" -2, WRITE | FAST => Form::Same, Keys::ONE => Access::TAKE, "1.0.0",
        on_slab!(pop::lpop).estimated(work::counted),
        "key [count]",
        "Removes and returns the first elements of a list. Deletes the key when no element remains.";
    "lpos" -3, READONLY, Keys::ONE => Access::READ, "6.0.6", on_slab!(read::lpos).estimated(work::whole),
        "key element [RANK rank] [COUNT num-matches] [MAXLEN len]",
        "Returns the indexes of elements equal to a value.";
    "lpush" -3, WRITE | DENYOOM | FAST => Form::Same, Keys::ONE => Access::INSERT, "1.0.0",
        on_slab!(write::lpush).by_arguments(),
        "key element...", "Inserts elements at the front of a list. Creates the list if needed.";
    "lpushx" -3, WRITE | DENYOOM | FAST => Form::Same, Keys::ONE => Access::INSERT, "2.2.0",
        on_slab!(write::lpushx).by_arguments(),
        "key element...", "Inserts elements at the front of a list only if the list exists.";
    "lrange" 4, READONLY, Keys::ONE => Access::READ, "1.0.0",
        on_slab!(read::lrange).estimated(work::list_range),
        "key start stop", "Returns a range of elements.";
    "lrem" 4, WRITE => Form::Same, Keys::ONE => Access::DELETE, "1.0.0",
        on_slab!(write::lrem).estimated(work::whole),
        "key count element", "Removes elements equal to a value.";
    "lset" 4, WRITE | DENYOOM => Form::Same, Keys::ONE => Access::CHANGE, "1.0.0",
        on_slab!(write::lset).by_arguments(),
        "key index element", "Replaces an element by its index.";
    "ltrim" 4, WRITE => Form::Same, Keys::ONE => Access::DELETE, "1.0.0", on_slab!(write::ltrim),
        "key start stop", "Removes all elements outside a range.";
    "rpop" -2, WRITE | FAST => Form::Same, Keys::ONE => Access::TAKE, "1.0.0",
        on_slab!(pop::rpop).estimated(work::counted),
        "key [count]",
        "Removes and returns the last elements of a list. Deletes the key when no element remains.";
    "rpoplpush" 3, WRITE | DENYOOM => Form::Same,
        Keys::Range(1, 2, 1) => Access::TAKE.then(Access::INSERT), "1.2.0", on_slab!(pop::rpoplpush),
        "source destination", "Moves the last element of a list to the front of another and returns it.";
    "rpush" -3, WRITE | DENYOOM | FAST => Form::Same, Keys::ONE => Access::INSERT, "1.0.0",
        on_slab!(write::rpush).by_arguments(),
        "key element...", "Appends elements to a list. Creates the list if needed.";
    "rpushx" -3, WRITE | DENYOOM | FAST => Form::Same, Keys::ONE => Access::INSERT, "2.2.0",
        on_slab!(write::rpushx).by_arguments(),
        "key element...", "Appends elements to a list only if the list exists.";
};
