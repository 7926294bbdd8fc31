//! The macro for the tables of commands. One row states everything about a command.

/// Defines a table of [`Spec`](crate::context::Spec)s. Each row is one command:
///
/// ```text
/// "name" arity [category …], FLAGS => Form, Keys => Access, "since", code,
///     "syntax",
///     "Summary.";
/// ```
///
/// - `category` is an ACL category that follows from neither the flags nor the group. Such
///   categories are rare, and the brackets are left out if there are none.
/// - `=> Form` is the form of the effect in the feed. A command that may write has it and others
///   do not.
/// - `=> Access` says how the command uses its keys or channels. A command that has some has it and
///   others do not.
/// - `since` is the version of Redis that introduced the command, or the server that has it.
/// - `syntax` lists the arguments for COMMAND DOCS; its notation is described in `syntax.rs`.
///
/// A container has the rows of its subcommands, without code, in braces after its summary. They
/// have the forms and the accesses; the row of the container has none.
///
/// `in "group" [category …]:` sets the group of the rows that follow, and ACL categories of them.
/// A row with a missing or a superfluous part does not compile.
macro_rules! commands {
    ($(in $group:literal $family:tt: $(
        $name:literal $arity:literal $([$($category:ident)*])?, $flags:expr $(=> $form:expr)?,
        $keys:expr $(=> $access:expr)?, $since:literal, $run:expr, $syntax:literal, $summary:literal
        $({$(
            $word:literal $own_arity:literal, $own_flags:expr $(=> $own_form:expr)?,
            $own_keys:expr $(=> $own_access:expr)?, $own_since:literal, $own_syntax:literal,
            $own_summary:literal;
        )*})?;
    )*)*) => {
        &[$($($crate::context::Spec {
            name: $name,
            arity: $arity,
            flags: $crate::command::table::checked!(
                $name, $flags, $keys, [$($form)?], [$($access)?]
            ),
            keys: $keys,
            access: $crate::command::table::option!($($access)?),
            form: $crate::command::table::option!($($form)?),
            group: $group,
            categories: $crate::command::table::categories!($family)
                | $crate::command::table::categories!([$($($category)*)?]),
            since: $since,
            run: $run,
            syntax: $syntax,
            summary: $summary,
            subcommands: {
                const ALL: &[session::spec::Subcommand] = &[$($(session::spec::Subcommand {
                    name: concat!($name, "|", $word),
                    arity: $own_arity,
                    flags: $crate::command::table::checked!(
                        concat!($name, "|", $word),
                        $own_flags, $own_keys, [$($own_form)?], [$($own_access)?]
                    ),
                    keys: $own_keys,
                    access: $crate::command::table::option!($($own_access)?),
                    form: $crate::command::table::option!($($own_form)?),
                    since: $own_since,
                    syntax: $own_syntax,
                    summary: $own_summary,
                },)*)?];
                assert!(
                    ALL.is_empty() == ($flags & session::spec::flag::CONTAINER == 0),
                    concat!("'", $name, "': a row has CONTAINER if it has subcommands")
                );
                ALL
            },
        },)*)*]
    };
}

/// Evaluates to the flags of a row. Does not compile if the form or the access is missing or
/// superfluous.
macro_rules! checked {
    ($name:expr, $flags:expr, $keys:expr, [$($form:expr)?], [$($access:expr)?]) => {{
        const FORM: Option<session::spec::Form> = $crate::command::table::option!($($form)?);
        const ACCESS: Option<session::spec::Access> = $crate::command::table::option!($($access)?);
        assert!(
            FORM.is_some() == session::spec::needs_form($flags),
            concat!("'", $name, "': the flags have `=> Form` if the command may write")
        );
        assert!(
            ACCESS.is_some() == session::spec::needs_access($flags, $keys),
            concat!("'", $name, "': the keys have `=> Access` if the command uses keys or channels")
        );
        $flags
    }};
}

/// Evaluates to an optional part of a row.
macro_rules! option {
    () => {
        None
    };
    ($some:expr) => {
        Some($some)
    };
}

/// Evaluates to a set of ACL categories. Does not compile if one does not exist.
macro_rules! categories {
    ([$($category:ident)*]) => {
        0 $(| session::acl::catalog::bit(stringify!($category)))*
    };
}

/// Code of a command that only the slab engine serves, from a function that may refuse it.
macro_rules! on_slab {
    ($work:expr) => {
        $crate::context::Run::slab(|ctx, args| $crate::context::settle(ctx, args, $work))
    };
}

pub(crate) use {categories, checked, commands, on_slab, option};
