//! The container image: an OCI layout in one archive, made without a daemon. `docker load`,
//! `podman load` and `skopeo` read it.
//!
//! It contains the program, the shared libraries that it needs, a configuration and a user, and
//! nothing else: no shell, no package manager, no CA certificates.

use super::{Parts, Release, Result, Stage, tools};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// User and group of the server.
const USER: u32 = 65532;
/// Folder of snapshot files, which belongs to the server's user.
const DATA: &str = "data";
/// Configuration inside the image, which a user may mount another file over.
const CONFIGURATION: &str = "/etc/mayfly/mayfly.conf";
/// Debian packages of the libraries, whose copyright files are included.
const LIBRARY_PACKAGES: [&str; 2] = ["libc6", "libgcc-s1"];

const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// A file that is named by its checksum.
struct Blob {
    digest: String,
    bytes: u64,
}

impl Blob {
    /// Returns the descriptor that refers to this blob.
    fn descriptor(&self, kind: &str, more: &str) -> String {
        let Blob { digest, bytes } = self;
        format!(r#"{{"mediaType":"{kind}","digest":"sha256:{digest}","size":{bytes}{more}}}"#)
    }
}

/// Makes the image.
pub fn make(release: &Release, parts: &Parts, work: &Stage) -> Result<PathBuf> {
    let root = work.below("image-root")?;
    fill(release, parts, &root)?;
    let plain = work.path("layer.tar");
    let (data, others): (Vec<String>, _) =
        root.entries()?.into_iter().partition(|name| name == DATA);
    release.packer.add(&root, &others, 0, &plain)?;
    release.packer.add(&root, &data, USER, &plain)?;
    let contents = tools::sha256(&plain)?;
    release.packer.gzip(&plain)?;

    let layout = work.below("image")?;
    let layer = store(&layout, &work.path("layer.tar.gz"))?;
    let created = format!("@{}", release.epoch);
    let format = "+%Y-%m-%dT%H:%M:%SZ";
    let created = tools::run(Command::new("date").args(["--utc", "--date", &created, format]))?;
    let text = config(release, created.trim(), &contents);
    let config = store(&layout, &work.text(&text, "config.json")?)?;
    let text = format!(
        r#"{{"schemaVersion":2,"mediaType":"{MANIFEST}","config":{},"layers":[{}]}}"#,
        config.descriptor(CONFIG, ""),
        layer.descriptor(LAYER, "")
    );
    let manifest = store(&layout, &work.text(&text, "manifest.json")?)?;
    let version = &release.version;
    let more = format!(
        r#","annotations":{{"io.containerd.image.name":"docker.io/library/mayfly:{version}","org.opencontainers.image.ref.name":"{version}"}},"platform":{{"architecture":"{}","os":"linux"}}"#,
        release.arch
    );
    let index = format!(
        r#"{{"schemaVersion":2,"mediaType":"{INDEX}","manifests":[{}]}}"#,
        manifest.descriptor(MANIFEST, &more)
    );
    layout.text(&index, "index.json")?;
    layout.text(r#"{"imageLayoutVersion":"1.0.0"}"#, "oci-layout")?;
    // Versions of Docker before 25 read this list instead of the index.
    let docker = format!(
        r#"[{{"Config":"blobs/sha256/{}","RepoTags":["mayfly:{version}"],"Layers":["blobs/sha256/{}"]}}]"#,
        config.digest, layer.digest
    );
    layout.text(&docker, "manifest.json")?;
    let image = release.out.join(format!("{}.tar", release.name("oci")));
    let _ = fs::remove_file(&image);
    release.packer.add(&layout, &layout.entries()?, 0, &image)?;
    Ok(image)
}

/// Copies a file into the layout, under its checksum.
fn store(layout: &Stage, path: &Path) -> Result<Blob> {
    let digest = tools::sha256(path)?;
    layout.file(path, &format!("blobs/sha256/{digest}"))?;
    let size = fs::metadata(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Blob {
        digest,
        bytes: size.len(),
    })
}

/// Fills the root of the container.
fn fill(release: &Release, parts: &Parts, root: &Stage) -> Result<()> {
    root.program(&parts.program, "usr/bin/mayfly")?;
    for library in libraries(&parts.program)? {
        let target = library.display().to_string();
        root.program(&library, target.trim_start_matches('/'))?;
    }
    let settings = release.root.join("contrib/oci/mayfly.conf");
    root.file(&settings, CONFIGURATION.trim_start_matches('/'))?;
    let user = format!("mayfly:x:{USER}:{USER}:Mayfly:/{DATA}:/nonexistent\n");
    root.text(
        &format!("root:x:0:0:root:/:/nonexistent\n{user}"),
        "etc/passwd",
    )?;
    root.text(&format!("root:x:0:\nmayfly:x:{USER}:\n"), "etc/group")?;
    root.text("hosts: files dns\n", "etc/nsswitch.conf")?;
    root.file(
        &release.root.join("LICENSE"),
        "usr/share/doc/mayfly/LICENSE",
    )?;
    root.file(&parts.notices, "usr/share/doc/mayfly/THIRD-PARTY.txt")?;
    root.file(&parts.materials, "usr/share/doc/mayfly/mayfly.cdx.json")?;
    for package in LIBRARY_PACKAGES {
        let file = format!("usr/share/doc/{package}/copyright");
        let source = Path::new("/").join(&file);
        if source.exists() {
            root.file(&source, &file)?;
        }
    }
    root.folder(DATA, 0o750)
}

/// Returns the shared libraries that a program needs, and the loader.
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let text = tools::run(Command::new("ldd").arg(program))?;
    Ok(parse_libraries(&text))
}

/// Reads lines such as `libc.so.6 => /lib/libc.so.6 (0x7f…)` and `/lib64/ld-linux.so.2 (0x7f…)`.
fn parse_libraries(text: &str) -> Vec<PathBuf> {
    let line = |line: &str| {
        line.split_whitespace()
            .find(|word| word.starts_with('/'))
            .map(PathBuf::from)
    };
    text.lines().filter_map(line).collect()
}

/// Returns the configuration of the image.
fn config(release: &Release, created: &str, contents: &str) -> String {
    let (arch, version) = (release.arch, &release.version);
    let repository = "https://github.com/mayfly-cache/mayfly";
    // Seconds are written as nanoseconds, as Docker does.
    let second = 1_000_000_000_u64;
    let health = format!(
        r#"{{"Test":["CMD","/usr/bin/mayfly","ping"],"Interval":{},"Timeout":{},"StartPeriod":{},"Retries":3}}"#,
        30 * second,
        5 * second,
        60 * second
    );
    let labels = format!(
        r#"{{"org.opencontainers.image.title":"mayfly","org.opencontainers.image.version":"{version}","org.opencontainers.image.licenses":"Apache-2.0","org.opencontainers.image.source":"{repository}"}}"#
    );
    let process = format!(
        r#"{{"User":"{USER}:{USER}","ExposedPorts":{{"6379/tcp":{{}}}},"Env":["PATH=/usr/bin","MAYFLY_CONFIG={CONFIGURATION}"],"Entrypoint":["/usr/bin/mayfly"],"Cmd":["serve"],"WorkingDir":"/{DATA}","Volumes":{{"/{DATA}":{{}}}},"StopSignal":"SIGTERM","Healthcheck":{health},"Labels":{labels}}}"#
    );
    format!(
        r#"{{"created":"{created}","architecture":"{arch}","os":"linux","config":{process},"rootfs":{{"type":"layers","diff_ids":["sha256:{contents}"]}},"history":[{{"created":"{created}","created_by":"cargo xtask dist"}}]}}"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loader_and_the_libraries_are_found_and_the_kernels_is_not() {
        let text = "\tlinux-vdso.so.1 (0x7ffd)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x7f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x7f)\n";
        let expected = ["/lib/x/libc.so.6", "/lib64/ld-linux-x86-64.so.2"];
        assert_eq!(parse_libraries(text), expected.map(PathBuf::from));
    }
}
