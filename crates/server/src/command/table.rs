//! Macros for the tables of commands, so that a table has two lines per command.

/// Defines a table of [`Spec`](crate::context::Spec)s: per command its name, arity, flags, keys,
/// the version that introduced it and its code, then its summary. `in` sets the group of the
/// commands that follow.
macro_rules! commands {
    ($(in $group:literal: $($name:literal $arity:literal, $flags:expr, $keys:expr, $since:literal,
        $run:expr, $summary:literal;)*)*) => {
        &[$($($crate::context::Spec {
            name: $name,
            arity: $arity,
            flags: $flags,
            keys: $keys,
            group: $group,
            since: $since,
            summary: $summary,
            run: $run,
        },)*)*]
    };
}

/// Code of a command that only the slab engine serves, from a function that may refuse it.
macro_rules! on_slab {
    ($work:expr) => {
        $crate::context::Run::slab(|ctx, args| $crate::context::settle(ctx, args, $work))
    };
}

pub(crate) use {commands, on_slab};
