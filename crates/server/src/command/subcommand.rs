//! Replies that are common to commands with subcommands.

use crate::context::Ctx;
use wire::Args;

/// Replies to HELP with a list of the subcommands in Redis's format.
pub(super) fn help(ctx: &mut Ctx<'_, '_>, name: &str, lines: &[&str]) {
    ctx.reply.array(lines.len() + 3);
    ctx.reply.simple(&format!(
        "{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"
    ));
    for line in lines.iter().chain(&["HELP", "    Print this help."]) {
        ctx.reply.simple(line);
    }
}

/// Refuses an unknown subcommand, or a known one with a wrong number of arguments.
pub(super) fn refuse_subcommand(ctx: &mut Ctx<'_, '_>, args: Args<'_>, lines: &[&str]) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(128)]).into_owned();
    // `rename-command` may have given it another name.
    let name = ctx.table.lookup(args.name());
    let name = name.map_or("", |index| ctx.table.name(index));
    let word = text(&args[1]);
    let is_known = |line: &&str| {
        let first = line.split(' ').next().unwrap_or_default();
        !first.is_empty() && first.eq_ignore_ascii_case(&word)
    };
    if lines.iter().any(is_known) || word.eq_ignore_ascii_case("help") {
        let full = format!("{name}|{word}").to_ascii_lowercase();
        ctx.reply.error(&format!(
            "ERR wrong number of arguments for '{full}' command"
        ));
    } else {
        let name = name.to_ascii_uppercase();
        ctx.reply.error(&format!(
            "ERR unknown subcommand '{word}'. Try {name} HELP."
        ));
    }
}
