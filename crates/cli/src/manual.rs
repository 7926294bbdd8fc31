//! `mayfly manual`: writes the man pages and the completions for shells, which packages contain.
//!
//! They are generated from the argument parser and the table of settings, so that they describe the
//! program that writes them.

use crate::CommandLine;
use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;
use settings::TABLE;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Arguments of `mayfly manual`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Folder in which to write the folders `man` and `completions`
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Sections of mayfly(1) that the parser does not provide.
const MORE: &str = r#".SH FILES
.TP
\fI/etc/mayfly/mayfly.conf\fR
Settings of the server that the package installs.
.TP
\fI/var/lib/mayfly\fR
Snapshots and append-only files of that server.
.SH ENVIRONMENT
.TP
\fBMAYFLY_CONFIG\fR
Config file, if the command line names none.
.TP
\fBMAYFLY_\fINAME\fR
The setting \fINAME\fR, with underscores instead of hyphens: \fBMAYFLY_MAXMEMORY_POLICY\fR.
.SH SIGNALS
.TP
\fBSIGTERM\fR, \fBSIGINT\fR
Stop after the current commands, and after a snapshot if save points are set. A second signal ends the process at once.
.TP
\fBSIGHUP\fR
Read certificates and the file of users again.
.SH "EXIT STATUS"
.TP
\fB0\fR
Success; the server was stopped as requested.
.TP
\fB1\fR
Failure, which standard error describes.
.TP
\fB2\fR
The command line is invalid.
.SH "SEE ALSO"
\fBmayfly.conf\fR(5), \fBredis\-cli\fR(1)
"#;

/// Writes the files.
///
/// # Errors
/// The folder is not writable.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    for (path, text) in files() {
        let path = arguments.folder.join(path);
        path.parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| std::fs::write(&path, text))
            .with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// Returns the content of all files, by their paths in the folder.
fn files() -> BTreeMap<String, Vec<u8>> {
    // The version without commit and features, which differ between builds.
    let program = CommandLine::command()
        .version(env!("CARGO_PKG_VERSION"))
        .long_version(None);
    let mut files = BTreeMap::new();
    for (shell, name) in [
        (Shell::Bash, "mayfly.bash"),
        (Shell::Zsh, "_mayfly"),
        (Shell::Fish, "mayfly.fish"),
    ] {
        let mut text = vec![];
        clap_complete::generate(shell, &mut program.clone(), "mayfly", &mut text);
        files.insert(format!("completions/{name}"), text);
    }
    // `mayfly help` has no page of its own.
    let mut program = program.disable_help_subcommand(true);
    program.build();
    add_pages(&program, "mayfly", &mut files);
    let top = files.get_mut("man/mayfly.1");
    top.expect("the program has a page").extend(MORE.as_bytes());
    files.insert("man/mayfly.conf.5".into(), settings().into_bytes());
    files
}

/// Adds the page of a command and the pages of its subcommands.
fn add_pages(command: &clap::Command, name: &str, files: &mut BTreeMap<String, Vec<u8>>) {
    let mut page = vec![];
    let man = Man::new(command.clone())
        .title(name)
        .source("mayfly")
        .manual("Mayfly");
    man.render(&mut page).expect("memory can be written");
    files.insert(format!("man/{name}.1"), page);
    for below in command.get_subcommands() {
        if !below.is_hide_set() {
            add_pages(below, &format!("{name}-{}", below.get_name()), files);
        }
    }
}

/// Returns mayfly.conf(5), the page of the settings.
fn settings() -> String {
    let mut page = String::from(
        ".TH mayfly.conf 5 \"\" mayfly Mayfly\n.SH NAME\nmayfly.conf \\- settings of the Mayfly server\n.SH DESCRIPTION\n\
         Each line is a \\fIname\\fR and a \\fIvalue\\fR, in the format of redis.conf. Lines that begin with # are comments. \
         \\fBinclude\\fR reads other files. \\fBmayfly \\-\\-check\\-config\\fR \\fIFILE\\fR reports errors.\n.PP\n\
         Sizes have the suffixes k, m, g (powers of 1,000) and kb, mb, gb (powers of 1,024). \
         CONFIG SET changes a setting at run time unless it is marked as fixed.\n.SH SETTINGS\n",
    );
    for param in TABLE {
        let default = match param.default {
            "" => "empty".into(),
            text => roff(text),
        };
        let fixed = if param.is_mutable() { "" } else { ", fixed" };
        let (name, help) = (roff(param.name), roff(&without_links(param.help)));
        let _ = writeln!(
            page,
            ".TP\n\\fB{name}\\fR (default: {default}{fixed})\n{help}"
        );
    }
    page += ".SH \"SEE ALSO\"\n\\fBmayfly\\fR(1)\n";
    page
}

/// Removes the targets of links, and backticks.
fn without_links(markdown: &str) -> String {
    let mut text = String::new();
    let mut rest = markdown;
    while let Some(at) = rest.find("](") {
        text.push_str(&rest[..at]);
        let tail = &rest[at..];
        rest = tail.find(')').map_or("", |end| &tail[end + 1..]);
    }
    text.push_str(rest);
    text.replace(['`', '['], "")
}

/// Escapes what roff would interpret.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('-', "\\-");
    if text.starts_with(['.', '\'']) {
        format!("\\&{text}")
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text<'a>(files: &'a BTreeMap<String, Vec<u8>>, path: &str) -> &'a str {
        let text = files.get(path).unwrap_or_else(|| panic!("no {path}"));
        std::str::from_utf8(text).expect("the files are text")
    }

    #[test]
    fn each_visible_command_has_a_page_and_completions() {
        let files = files();
        for command in CommandLine::command().get_subcommands() {
            let name = command.get_name();
            let page = format!("man/mayfly-{name}.1");
            assert_eq!(files.contains_key(&page), !command.is_hide_set(), "{page}");
            if !command.is_hide_set() {
                for shell in ["mayfly.bash", "_mayfly", "mayfly.fish"] {
                    let completions = text(&files, &format!("completions/{shell}"));
                    assert!(completions.contains(name), "{shell}: {name}");
                }
            }
        }
        assert!(text(&files, "man/mayfly.1").contains(".SH SIGNALS"));
        assert!(text(&files, "man/mayfly-sim-curve.1").contains("mayfly\\-sim\\-curve"));
    }

    #[test]
    fn the_page_of_settings_has_each_setting_without_markup_of_the_web() {
        let files = files();
        let page = text(&files, "man/mayfly.conf.5");
        for param in TABLE {
            let title = format!("\n\\fB{}\\fR (default: ", roff(param.name));
            assert!(page.contains(&title), "{title:?}");
        }
        assert!(!page.contains("](") && !page.contains('`'));
        assert_eq!(without_links("See [`a`](b.md#c), `d`."), "See a, d.");
        assert_eq!(roff(".a-b\\"), "\\&.a\\-b\\\\");
    }
}
