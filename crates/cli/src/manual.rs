//! Man pages and shell completions in `contrib/`, generated from the argument parser. The page
//! mayfly.conf(5) is generated with the other pages of settings, by the tests of `server`.
//!
//! They are files of the repository, so that packages are made without running the program, and
//! this module is compiled for tests only, so that the program does not contain their generators.
//! `UPDATE_DOCS=1 cargo test -p mayfly --bin mayfly manual` writes them.

use crate::CommandLine;
use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;
use std::collections::BTreeMap;
use std::path::Path;

const HOW: &str = "UPDATE_DOCS=1 cargo test -p mayfly --bin mayfly manual";

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

/// Returns the content of all files, by their paths in the repository.
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
        files.insert(format!("contrib/completions/{name}"), text);
    }
    // `mayfly help` has no page of its own.
    let mut program = program.disable_help_subcommand(true);
    program.build();
    add_pages(&program, "mayfly", &mut files);
    let top = files.get_mut("contrib/man/mayfly.1");
    top.expect("the program has a page").extend(MORE.as_bytes());
    files
}

/// Adds the page of a command, and those of its subcommands.
fn add_pages(command: &clap::Command, name: &str, files: &mut BTreeMap<String, Vec<u8>>) {
    let mut page = vec![];
    let man = Man::new(command.clone())
        .title(name)
        .source("mayfly")
        .manual("Mayfly");
    man.render(&mut page).expect("memory can be written");
    files.insert(format!("contrib/man/{name}.1"), page);
    for below in command.get_subcommands() {
        if !below.is_hide_set() {
            add_pages(below, &format!("{name}-{}", below.get_name()), files);
        }
    }
}

#[test]
fn man_pages_and_completions_are_those_of_the_arguments() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let is_update = std::env::var_os("UPDATE_DOCS").is_some();
    let mut outdated = vec![];
    let files = files();
    for (path, text) in &files {
        let place = root.join(path);
        if std::fs::read(&place).ok().as_ref() == Some(text) {
            continue;
        }
        if is_update {
            std::fs::create_dir_all(place.parent().expect("it is in a folder")).expect("writable");
            std::fs::write(&place, text).expect("the repository is writable");
        } else {
            outdated.push(path.clone());
        }
    }
    // Pages of commands that no longer exist are outdated, too.
    for entry in std::fs::read_dir(root.join("contrib/man")).expect("the folder of pages") {
        let name = entry.expect("an entry").file_name();
        let path = format!("contrib/man/{}", name.to_string_lossy());
        if path.ends_with(".1") && !files.contains_key(&path) {
            outdated.push(path);
        }
    }
    assert!(outdated.is_empty(), "not current: {outdated:?}; run {HOW}");
}
