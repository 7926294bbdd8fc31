//! Positions of a command's keys among its arguments.

use wire::Args;

/// Positions of a command's keys among its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// No keys. The command concerns the server or the session.
    None,
    /// No named keys, but the command reads or changes the whole keyspace and therefore locks all
    /// shards.
    Whole,
    /// As `Whole` if the first argument is one of these words, and otherwise as `None` (CLUSTER).
    WholeIf(&'static [&'static str]),
    /// The argument after the first one, if the first is one of these words (DEBUG).
    After(&'static [&'static str]),
    /// As `After` if the first argument is one of these words, and otherwise as `Whole` (BLESS).
    AfterOrWhole(&'static [&'static str]),
    /// Every `step`-th argument from index `first` to index `last`, in the order `first`, `last`,
    /// `step` of the COMMAND reply. A negative `last` counts from the end.
    Range(i16, i16, i16),
    /// The argument at this index is the number of keys that follow it.
    Counted(i16),
    /// Like `Counted`, but for a script, which may access further keys.
    Script(i16),
    /// The first argument and further keys, whose number is the argument at this index
    /// (ZUNIONSTORE).
    FirstAndCounted(i16),
    /// Like `Counted`, but the keys are every n-th argument after the number. The second value is n
    /// (MSETEX).
    CountedStep(i16, i16),
    /// The first half of the arguments after STREAMS, which is searched from this index on (XREAD).
    Streams(i16),
    /// The first argument and the one after STORE. A pattern among the options may refer to any
    /// key, so that all shards are locked (SORT).
    Sort,
    /// The first argument and those after STORE and STOREDIST, which may follow from this index on
    /// (GEORADIUS).
    FirstAndStored(i16),
    /// The keys of the queued commands and the watched keys, none of which are arguments (EXEC).
    Queued,
    /// No keys among the arguments, but the watched keys (UNWATCH, DISCARD, RESET).
    Watched,
}

impl Keys {
    /// The first argument.
    pub const ONE: Keys = Keys::Range(1, 1, 1);

    /// Whether some of the arguments may be keys.
    pub const fn are_named(&self) -> bool {
        !matches!(
            self,
            Keys::None | Keys::Whole | Keys::WholeIf(_) | Keys::Queued | Keys::Watched
        )
    }

    /// Returns the number of keys in `args`.
    pub fn count(&self, args: Args<'_>) -> usize {
        let mut count = 0;
        self.each(args, |_| count += 1);
        count
    }

    /// Calls `each` with the index of every key in `args`. A count that is too large is reduced to
    /// the number of arguments.
    pub fn each(&self, args: Args<'_>, mut each: impl FnMut(usize)) {
        let len = args.len() as i64;
        let (first, last, step) = match *self {
            Keys::None | Keys::Whole | Keys::WholeIf(_) | Keys::Queued | Keys::Watched => return,
            Keys::Range(first, last, step) => {
                let last = i64::from(last);
                let last = if last < 0 { len + last } else { last };
                (i64::from(first), last, i64::from(step))
            }
            Keys::After(words) | Keys::AfterOrWhole(words) => {
                if args.len() > 2 && words.iter().any(|word| args.is(1, word)) {
                    each(2);
                }
                return;
            }
            Keys::Counted(at) | Keys::Script(at) => counted(args, at, 1),
            Keys::FirstAndCounted(at) => {
                each(1);
                counted(args, at, 1)
            }
            Keys::CountedStep(at, step) => counted(args, at, step),
            Keys::FirstAndStored(from) => {
                let is_store = |at: &usize| {
                    ["store", "storedist"]
                        .iter()
                        .any(|word| args.is(at - 1, word))
                };
                let from = from as usize + 1;
                (from..args.len()).filter(is_store).for_each(&mut each);
                (1, 1, 1)
            }
            Keys::Streams(at) => {
                let mut words = at as usize..args.len();
                let Some(first) = words.find(|&index| args.is(index, "streams")) else {
                    return;
                };
                let count = (len - first as i64 - 1) / 2;
                (first as i64 + 1, first as i64 + count, 1)
            }
            Keys::Sort => {
                let is_store = |index: &usize| args.is(index - 1, "store");
                (3..args.len()).filter(is_store).for_each(&mut each);
                (1, 1, 1)
            }
        };
        let mut index = first;
        while index <= last && index < len {
            each(index as usize);
            index += step.max(1);
        }
    }

    /// Whether the command may access keys that are not among its arguments, so that it must lock
    /// all shards.
    pub fn reach_beyond(&self, args: Args<'_>) -> bool {
        let has_star = |arg: &[u8]| arg.contains(&b'*');
        match *self {
            Keys::Whole | Keys::Script(_) => true,
            Keys::WholeIf(words) => words.iter().any(|word| args.is(1, word)),
            Keys::AfterOrWhole(words) => !words.iter().any(|word| args.is(1, word)),
            Keys::Sort => args.from(2).iter().any(has_star),
            _ => false,
        }
    }
}

/// Returns the first index, last index and step of keys whose number is the argument at `at`.
pub(super) fn counted(args: Args<'_>, at: i16, step: i16) -> (i64, i64, i64) {
    let count = args
        .get(at as usize)
        .and_then(|text| std::str::from_utf8(text).ok())
        .and_then(|text| text.parse::<i64>().ok())
        .unwrap_or(0)
        .clamp(0, args.len() as i64);
    let (at, step) = (i64::from(at), i64::from(step));
    (at + 1, at + count * step, step)
}
