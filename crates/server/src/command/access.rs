//! The keys of a call, for COMMAND GETKEYSANDFLAGS.

use crate::context::Spec;
use session::spec::{Keys, Subcommand, Use};
use wire::Args;

/// One key of a call: its index among the arguments, and how the command accesses it.
pub(super) type Used = (usize, Use);

/// Returns the keys of a call, in the order of COMMAND GETKEYS. `None` if a number of keys among
/// the arguments is not valid.
pub(super) fn of_call(
    spec: &Spec,
    subcommand: Option<&Subcommand>,
    args: Args<'_>,
) -> Option<Vec<Used>> {
    let keys = subcommand.map_or(spec.keys, |subcommand| subcommand.keys);
    let access = subcommand.map_or(spec.access, |subcommand| subcommand.access);
    let access = access?.of_call(args);
    if !has_valid_count(keys, args) {
        return None;
    }
    let mut indexes = Vec::new();
    keys.each(args, |index| indexes.push(index));
    match keys {
        Keys::Sort => {
            // The key comes first. Only the last STORE takes effect.
            let store = indexes.iter().copied().filter(|index| *index > 1).max();
            indexes = std::iter::once(1).chain(store).collect();
        }
        // The key comes first here, too.
        Keys::FirstAndStored(_) => indexes.sort_unstable(),
        _ => {}
    }
    let flags = |place: usize| match access.further {
        Some(further) if place > 0 => further,
        _ => access.first,
    };
    let used = indexes.into_iter().enumerate();
    Some(used.map(|(place, index)| (index, flags(place))).collect())
}

/// Whether the arguments contain as many keys as they announce. EVAL may announce more, as in
/// Redis.
fn has_valid_count(keys: Keys, args: Args<'_>) -> bool {
    let (at, step) = match keys {
        Keys::Counted(at) | Keys::FirstAndCounted(at) => (at as usize, 1),
        Keys::CountedStep(at, step) => (at as usize, step as usize),
        _ => return true,
    };
    let count = args.get(at).and_then(wire::number::parse_i64);
    let room = args.len().saturating_sub(at + 1);
    count.is_some_and(|count| {
        usize::try_from(count).is_ok_and(|count| count >= 1 && count <= room.div_ceil(step))
    })
}
