//! Pages and plots of every command that writes them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder that is removed at the end of its test.
struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("mayfly-pages-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the folder for temporary files can be written");
        TemporaryFolder(path)
    }

    fn file(&self, name: impl AsRef<OsStr>, text: &str) -> PathBuf {
        let path = self.0.join(name.as_ref());
        std::fs::write(&path, text).expect("it can be written");
        path
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns a thousand requests with times, sizes and TTLs.
fn trace() -> String {
    let row = |n: u64| format!("{n},{},{},{}\n", n * n % 97, 10 + n % 7, 60 + n % 3);
    let rows: String = (0..1000).map(row).collect();
    format!("time,key,size,ttl\n{rows}")
}

fn mayfly(words: &[&str], trace: &Path, more: &[&OsStr]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mayfly"));
    command.args(words).arg(trace).args(more);
    command
        .output()
        .expect("the binary was built for this test")
}

/// Every command with a page, and a text that only its page contains.
const COMMANDS: &[(&[&str], &str)] = &[
    (&["sim", "--size", "10%,20%"], "Miss ratios"),
    (&["sim", "--explain", "--size", "20%"], "Demotion"),
    (&["sim", "curve", "--points", "5"], "Miss ratio curves"),
    (&["sim", "curve", "--compare-ttl"], "With and without TTLs"),
    (&["sim", "advise"], "The recommended policy"),
    (
        &["sim", "advise", "--sample-only", "--memory", "20%"],
        "Advice",
    ),
    (&["trace", "analyze"], "Workload"),
];

#[test]
fn every_command_writes_a_page_and_its_plots() {
    let folder = TemporaryFolder::new("all");
    let trace = folder.file("trace.csv", &trace());
    for (index, (words, heading)) in COMMANDS.iter().enumerate() {
        let [html, svg, png] =
            ["html", "svg", "png"].map(|kind| folder.0.join(format!("{index}.{kind}")));
        let mut more: Vec<PathBuf> =
            vec!["--html".into(), html.clone(), "--svg".into(), svg.clone()];
        if cfg!(feature = "png") {
            more.extend(["--png".into(), png.clone()]);
        }
        let more: Vec<&OsStr> = more.iter().map(|word| word.as_os_str()).collect();
        let output = mayfly(words, &trace, &more);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {errors}");
        let page = std::fs::read_to_string(&html).expect("the page was written");
        assert!(page.contains(heading), "{words:?}");
        assert!(
            page.contains(&format!("mayfly {}", words[0])),
            "the page shows the command"
        );
        assert!(page.len() < 1_500_000, "{words:?}: {} bytes", page.len());
        let stems = |folder: &Path| {
            let files = std::fs::read_dir(folder).expect("the folder was made");
            let paths = files.map(|file| file.expect("it can be read").path());
            let mut stems: Vec<OsString> = paths
                .filter_map(|p| p.file_stem().map(OsString::from))
                .collect();
            stems.sort();
            stems
        };
        assert_eq!(stems(&svg).len(), page.matches("<figure>").count());
        if !cfg!(feature = "png") {
            continue;
        }
        assert_eq!(stems(&svg), stems(&png));
        for stem in stems(&png) {
            let name = png.join(stem).with_extension("png");
            let bytes = std::fs::read(name).expect("it was just listed");
            assert!(bytes.starts_with(b"\x89PNG"));
        }
    }
}

#[test]
#[cfg(not(feature = "png"))]
fn a_build_without_images_refuses_to_draw_them() {
    let folder = TemporaryFolder::new("no-png");
    let png = folder.0.join("png");
    let (words, _) = COMMANDS[0];
    let output = mayfly(
        words,
        Path::new("/nowhere.csv"),
        &["--png".as_ref(), png.as_os_str()],
    );
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(
        errors.contains("build it with `--features png`, or use --svg"),
        "{errors}"
    );
}

/// Regression: a path that was not valid UTF-8 ended the program with a panic.
#[test]
fn names_of_any_bytes_are_shown_as_text() {
    let folder = TemporaryFolder::new("names");
    let name = OsStr::from_bytes(b"it's \"<script>alert(1)<b>&amp;\n\xff.csv");
    let trace = folder.file(name, &trace());
    for (index, (words, _)) in COMMANDS.iter().enumerate() {
        let html = folder.0.join(format!("{index}.html"));
        let output = mayfly(words, &trace, &["--html".as_ref(), html.as_os_str()]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {errors}");
        let page = std::fs::read_to_string(&html).expect("the page is text");
        assert_eq!(page.matches("<script").count(), 1, "only the page's own");
        assert!(!page.contains("<b>"), "{words:?}");
        let shown = "it&#39;s &quot;&lt;script&gt;alert(1)&lt;b&gt;&amp;amp;\n\u{FFFD}";
        assert!(page.contains(shown), "{words:?}");
    }
}

#[test]
fn an_unwritable_page_is_reported_before_the_trace_is_read() {
    let nowhere = Path::new("/nowhere/at.csv");
    for (words, _) in COMMANDS {
        for option in ["--html", "--svg"] {
            let output = mayfly(
                words,
                nowhere,
                &[option.as_ref(), "/proc/nowhere/at".as_ref()],
            );
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success());
            assert!(
                error.contains("/proc/nowhere/at"),
                "{words:?} {option}: {error}"
            );
            assert!(!error.contains("at.csv"), "{words:?} {option}: {error}");
        }
    }
}
