//! `cargo xtask dist`: makes the packages of a release from one build of the program.
//!
//! | file | contents |
//! |---|---|
//! | `mayfly-VERSION-linux-ARCH.tar.gz` | program, man pages, completions, examples, licences |
//! | `mayfly-VERSION-linux-ARCH-debug.tar.gz` | debug information |
//! | `mayfly_VERSION_ARCH.deb` | Debian package with a systemd unit (`deb.rs`) |
//! | `mayfly-VERSION-oci-ARCH.tar` | container image (`image.rs`) |
//! | `mayfly-VERSION.cdx.json` | bill of materials (`materials.rs`) |
//! | `SHA256SUMS` | checksums of the files above |
//!
//! The formats are written by the system's own programs (`tar`, `gzip`, `dpkg-deb`, `objcopy`). The
//! only date in the packages is the commit's, so that the same program always gives the same bytes.
//! `SOURCE_DATE_EPOCH` replaces it.

mod archive;
mod deb;
mod image;
mod materials;
mod stage;
mod tools;

use archive::Packer;
use stage::Stage;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Usage of this chore.
pub const USAGE: &str = "cargo xtask dist [--profile NAME | --binary PATH] [--out FOLDER]";

/// A failure, described for the person who runs the chore.
pub type Result<T> = std::result::Result<T, String>;

/// Options of the command line.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    /// Cargo profile to build with. Unused if `binary` is given.
    profile: String,
    /// Program that is packed instead of a new build.
    binary: Option<PathBuf>,
    /// Folder of the packages.
    out: PathBuf,
}

impl Options {
    fn parse(root: &Path, words: &[String]) -> Result<Options> {
        let mut options = Options {
            profile: "dist".into(),
            binary: None,
            out: root.join("target/packages"),
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let value = words.next().ok_or_else(|| {
                format!("{word}: expected an option with a value; usage: {USAGE}")
            })?;
            match word.as_str() {
                "--profile" => options.profile.clone_from(value),
                "--binary" => options.binary = Some(value.into()),
                "--out" => options.out = value.into(),
                _ => return Err(format!("{word}: unknown option; usage: {USAGE}")),
            }
        }
        Ok(options)
    }
}

/// Data shared by all packages of one release.
struct Release {
    /// Root of the repository.
    root: PathBuf,
    /// Folder of the packages.
    out: PathBuf,
    /// Version in `Cargo.toml`.
    version: String,
    /// Debian's and OCI's name of the processor, which are the same.
    arch: &'static str,
    /// Time of the commit in seconds since 1970; the only time in the packages.
    epoch: String,
    packer: Packer,
}

/// Files that the packages are made of.
struct Parts {
    /// Program without debug information. Names of functions are kept for backtraces.
    program: PathBuf,
    /// The debug information of `program`.
    debug: PathBuf,
    /// Folder with the man pages and completions, which the program writes.
    manual: PathBuf,
    /// Licences of the libraries in the program.
    notices: PathBuf,
    /// Bill of materials.
    materials: PathBuf,
}

impl Parts {
    /// Returns the man pages, in the order of their names.
    fn pages(&self) -> Result<Vec<PathBuf>> {
        let folder = self.manual.join("man");
        let entries = fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let mut pages: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        pages.sort();
        Ok(pages)
    }
}

/// Makes all packages and returns their paths.
pub fn run(root: &Path, words: &[String]) -> Result<Vec<PathBuf>> {
    let options = Options::parse(root, words)?;
    tools::require()?;
    let release = Release::new(root, options.out)?;
    let built = match options.binary {
        Some(path) => path,
        None => release.build(&options.profile)?,
    };
    let work = Stage::new(&release.out.join("work"))?;
    let parts = release.parts(&built, &work)?;
    let mut made = vec![
        release.archive(&parts, &work)?,
        release.debug_archive(&parts, &work)?,
        deb::make(&release, &parts, &work)?,
        image::make(&release, &parts, &work)?,
    ];
    let bill = release
        .out
        .join(format!("mayfly-{}.cdx.json", release.version));
    tools::copy(&parts.materials, &bill)?;
    made.push(bill);
    work.remove()?;
    made.push(release.checksums(&made)?);
    Ok(made)
}

impl Release {
    fn new(root: &Path, out: PathBuf) -> Result<Release> {
        fs::create_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()))?;
        let manifest = root.join("Cargo.toml");
        let manifest = fs::read_to_string(&manifest).map_err(|error| error.to_string())?;
        let version = manifest
            .lines()
            .find_map(|line| line.strip_prefix("version = "))
            .ok_or("Cargo.toml: no line with the version")?;
        let arch = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => return Err(format!("{other}: packages are made on x86_64 and aarch64")),
        };
        let epoch = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(epoch) => epoch,
            Err(_) => git(root, &["log", "-1", "--format=%ct"])?,
        };
        epoch.parse::<u64>().map_err(|_| {
            format!("SOURCE_DATE_EPOCH '{epoch}': expected a number of seconds since 1970")
        })?;
        Ok(Release {
            root: root.to_path_buf(),
            out,
            version: version.trim_matches('"').to_owned(),
            arch,
            packer: Packer::new(&epoch),
            epoch,
        })
    }

    /// Builds the program. This machine's paths are removed from it, so that backtraces show the
    /// paths of the sources and two machines build the same program.
    fn build(&self, profile: &str) -> Result<PathBuf> {
        let cargo_home = match std::env::var("CARGO_HOME") {
            Ok(folder) => folder,
            Err(_) => format!("{}/.cargo", std::env::var("HOME").unwrap_or_default()),
        };
        let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
        let root = self.root.display();
        let flags = format!(
            "{flags} --remap-path-prefix={cargo_home}/registry/src=cargo --remap-path-prefix={root}=mayfly"
        );
        // A folder of its own: the flags differ from those of every other build.
        let target = self.root.join("target/dist-build");
        let commit = git(&self.root, &["rev-parse", "--short=12", "HEAD"])?;
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        cargo
            .current_dir(&self.root)
            .args([
                "build",
                "--locked",
                "--package",
                "mayfly",
                "--profile",
                profile,
            ])
            .arg("--target-dir")
            .arg(&target)
            .env("RUSTFLAGS", flags.trim())
            .env("MAYFLY_COMMIT", commit)
            .env("SOURCE_DATE_EPOCH", &self.epoch);
        tools::run(&mut cargo)?;
        let folder = if profile == "dev" { "debug" } else { profile };
        Ok(target.join(folder).join("mayfly"))
    }

    /// Separates the program from its debug information, and collects the files that accompany it.
    fn parts(&self, built: &Path, work: &Stage) -> Result<Parts> {
        let materials = materials::collect(self)?;
        let parts = Parts {
            program: work.path("mayfly"),
            debug: work.path("mayfly.debug"),
            manual: work.path("manual"),
            notices: work.path("THIRD-PARTY.txt"),
            materials: work.path("mayfly.cdx.json"),
        };
        tools::write(&parts.notices, &materials.notices)?;
        tools::write(&parts.materials, &materials.bill)?;
        let split = ["--only-keep-debug", "--compress-debug-sections"];
        tools::run(
            Command::new("objcopy")
                .args(split)
                .arg(built)
                .arg(&parts.debug),
        )?;
        // The link is the name of the file without its folder, and a checksum.
        let link = format!("--add-gnu-debuglink={}", parts.debug.display());
        tools::run(
            Command::new("objcopy")
                .args(["--strip-debug", "--remove-section=.gnu_debuglink", &link])
                .arg(built)
                .arg(&parts.program),
        )?;
        tools::run(
            Command::new(&parts.program)
                .arg("manual")
                .arg(&parts.manual),
        )?;
        Ok(parts)
    }

    /// Name of a package, without its ending.
    fn name(&self, kind: &str) -> String {
        format!("mayfly-{}-{kind}-{}", self.version, self.arch)
    }

    /// Makes the archive for systems without packages.
    fn archive(&self, parts: &Parts, work: &Stage) -> Result<PathBuf> {
        let name = self.name("linux");
        let tree = work.below("archive")?;
        let at = |path: &str| format!("{name}/{path}");
        tree.program(&parts.program, &at("bin/mayfly"))?;
        tree.file(&parts.notices, &at("THIRD-PARTY.txt"))?;
        tree.file(&parts.materials, &at("mayfly.cdx.json"))?;
        for file in ["LICENSE", "CHANGELOG.md"] {
            tree.file(&self.root.join(file), &at(file))?;
        }
        for page in parts.pages()? {
            let section = page.extension().unwrap_or_default().to_string_lossy();
            let file = tools::name(&page);
            tree.file(&page, &at(&format!("share/man/man{section}/{file}")))?;
        }
        for (shell, target) in COMPLETIONS {
            let source = parts.manual.join("completions").join(shell);
            tree.file(&source, &at(&format!("share/{target}")))?;
        }
        for file in [
            "systemd/mayfly.service",
            "systemd/mayfly.conf",
            "compose/compose.yaml",
        ] {
            let source = self.root.join("contrib").join(file);
            tree.file(&source, &at(&format!("contrib/{file}")))?;
        }
        let archive = self.out.join(format!("{name}.tar.gz"));
        self.packer.tar_gz(&tree, &archive)?;
        Ok(archive)
    }

    fn debug_archive(&self, parts: &Parts, work: &Stage) -> Result<PathBuf> {
        let name = format!("{}-debug", self.name("linux"));
        let tree = work.below("debug")?;
        tree.file(&parts.debug, &format!("{name}/mayfly.debug"))?;
        let archive = self.out.join(format!("{name}.tar.gz"));
        self.packer.tar_gz(&tree, &archive)?;
        Ok(archive)
    }

    /// Writes the checksums of the packages.
    fn checksums(&self, made: &[PathBuf]) -> Result<PathBuf> {
        let mut lines = String::new();
        for path in made {
            lines += &format!("{}  {}\n", tools::sha256(path)?, tools::name(path));
        }
        let path = self.out.join("SHA256SUMS");
        tools::write(&path, lines.as_bytes())?;
        Ok(path)
    }
}

/// Completions that the program writes, and their places below `share`.
const COMPLETIONS: [(&str, &str); 3] = [
    ("mayfly.bash", "bash-completion/completions/mayfly"),
    ("_mayfly", "zsh/vendor-completions/_mayfly"),
    ("mayfly.fish", "fish/vendor_completions.d/mayfly.fish"),
];

/// Runs git and returns the first line of its output.
fn git(root: &Path, words: &[&str]) -> Result<String> {
    let text = tools::run(Command::new("git").current_dir(root).args(words))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Options::parse(Path::new("/r"), &words)
    }

    #[test]
    fn options_have_values_and_unknown_ones_are_refused() {
        let default = parse("").expect("no options");
        assert_eq!(default.profile, "dist");
        assert_eq!(default.out, Path::new("/r/target/packages"));
        let given = parse("--binary b --out o").expect("valid options");
        assert_eq!(given.binary.as_deref(), Some(Path::new("b")));
        assert!(parse("--out").is_err_and(|error| error.contains("--out")));
        assert!(parse("--what 1").is_err_and(|error| error.contains("--what")));
    }
}
