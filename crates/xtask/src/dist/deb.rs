//! The Debian package: program, unit, configuration, man pages and completions. Its scripts are in
//! `contrib/debian`.

use super::{COMPLETIONS, Parts, Release, Result, Stage, tools};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Scripts that dpkg runs.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];
/// The configuration. dpkg keeps changes of the administrator when the package is upgraded.
const CONFIGURATION: &str = "etc/mayfly/mayfly.conf";

/// Makes the package.
pub fn make(release: &Release, parts: &Parts, work: &Stage) -> Result<PathBuf> {
    let contrib = release.root.join("contrib");
    let tree = work.below("deb")?;
    tree.program(&parts.program, "usr/bin/mayfly")?;
    tree.file(&contrib.join("systemd/mayfly.conf"), CONFIGURATION)?;
    let unit = "usr/lib/systemd/system/mayfly.service";
    tree.file(&contrib.join("systemd/mayfly.service"), unit)?;
    for (shell, target) in COMPLETIONS {
        let source = parts.manual.join("completions").join(shell);
        tree.file(&source, &format!("usr/share/{target}"))?;
    }
    for page in parts.pages()? {
        let section = page.extension().unwrap_or_default().to_string_lossy();
        let target = format!("usr/share/man/man{section}/{}", tools::name(&page));
        tree.file(&page, &target)?;
        release.packer.gzip(&tree.path(&target))?;
    }
    documents(release, parts, &tree)?;
    control(release, &tree, work)?;
    let package = format!("mayfly_{}_{}.deb", version(release), release.arch);
    let package = release.out.join(package);
    tools::run(
        Command::new("dpkg-deb")
            .env("SOURCE_DATE_EPOCH", &release.epoch)
            .args(["--root-owner-group", "-Zxz", "--build"])
            .arg(tree.root())
            .arg(&package),
    )?;
    Ok(package)
}

/// Version in Debian's order: a pre-release such as `1.0.0~rc.1` precedes the release.
fn version(release: &Release) -> String {
    release.version.replacen('-', "~", 1)
}

/// Adds the files of `/usr/share/doc`.
fn documents(release: &Release, parts: &Parts, tree: &Stage) -> Result<()> {
    let folder = "usr/share/doc/mayfly";
    let files = [
        (release.root.join("CHANGELOG.md"), "changelog"),
        (parts.notices.clone(), "THIRD-PARTY.txt"),
        (parts.materials.clone(), "mayfly.cdx.json"),
    ];
    for (source, name) in files {
        let target = format!("{folder}/{name}");
        tree.file(&source, &target)?;
        release.packer.gzip(&tree.path(&target))?;
    }
    let copyright = release.root.join("contrib/debian/copyright");
    tree.file(&copyright, &format!("{folder}/copyright"))
}

/// Adds the folder `DEBIAN`.
fn control(release: &Release, tree: &Stage, work: &Stage) -> Result<()> {
    let debian = release.root.join("contrib/debian");
    // dpkg-shlibdeps recognizes the root of a package by this folder.
    tree.folder("DEBIAN", 0o755)?;
    let size = files_below(tree.root())?.iter().try_fold(0, |sum, path| {
        let size = fs::metadata(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok::<u64, String>(sum + size.len().div_ceil(1024))
    })?;
    let control = tools::read(&debian.join("control"))?
        .replace("@VERSION@", &version(release))
        .replace("@ARCH@", release.arch)
        .replace("@SIZE@", &size.to_string())
        .replace("@LIBRARIES@", &libraries(tree, work)?);
    let mut sums = String::new();
    for path in files_below(tree.root())? {
        let inside = path.strip_prefix(tree.root()).unwrap_or(&path);
        if inside != Path::new(CONFIGURATION) {
            let line = tools::run(Command::new("md5sum").arg(&path))?;
            let digits = line.split_whitespace().next().unwrap_or_default();
            sums += &format!("{digits}  {}\n", inside.display());
        }
    }
    tree.text(&control, "DEBIAN/control")?;
    tree.text(&sums, "DEBIAN/md5sums")?;
    tree.text(&format!("/{CONFIGURATION}\n"), "DEBIAN/conffiles")?;
    for script in SCRIPTS {
        tree.program(&debian.join(script), &format!("DEBIAN/{script}"))?;
    }
    Ok(())
}

/// Returns the packages of the shared libraries that the program needs, with their minimum
/// versions. dpkg-shlibdeps expects a file `debian/control` in its folder.
fn libraries(tree: &Stage, work: &Stage) -> Result<String> {
    let folder = work.below("shlibdeps")?;
    folder.text(
        "Source: mayfly\n\nPackage: mayfly\nArchitecture: any\n",
        "debian/control",
    )?;
    let program = format!("-e{}", tree.path("usr/bin/mayfly").display());
    let mut command = Command::new("dpkg-shlibdeps");
    let text = tools::run(command.current_dir(folder.root()).args(["-O", &program]))?;
    let found = text
        .lines()
        .find_map(|line| line.strip_prefix("shlibs:Depends="));
    found
        .map(str::to_owned)
        .ok_or_else(|| format!("dpkg-shlibdeps printed {text:?}"))
}

/// Returns the files below a folder, in order.
fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut files = vec![];
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            files.extend(files_below(&path)?);
        } else {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
