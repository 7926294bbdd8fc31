//! The bill of materials in CycloneDX's format, and the licences of the libraries in the program.
//!
//! `cargo tree` resolves exactly the packages and features that are compiled into the program, and
//! its plain lines need no JSON parser. Checksums come from `Cargo.lock`.

use super::{Release, Result, tools};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Both documents.
pub struct Materials {
    pub bill: String,
    pub notices: String,
}

/// A package as `cargo tree` prints it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Package {
    name: String,
    version: String,
    licence: String,
    repository: String,
}

impl Package {
    /// Package URL, which names it across formats.
    fn url(&self) -> String {
        format!("pkg:cargo/{}@{}", self.name, self.version)
    }

    /// Whether the package belongs to this project.
    fn is_ours(&self) -> bool {
        self.name == "mayfly" || self.name.starts_with("mayfly-")
    }
}

/// Packages and the dependencies of each.
type Graph = BTreeMap<Package, BTreeSet<Package>>;

/// Start of the lines that `cargo tree` prints for a package, after its depth.
const FORMAT: &str = "|{p}|{l}|{r}";
/// Beginnings of the names of files that contain licences.
const LICENCE_FILES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "COPYRIGHT"];

/// Collects both documents for the program as built on this machine.
pub fn collect(release: &Release) -> Result<Materials> {
    let linked = tree(release, "normal,no-proc-macro")?;
    let all = tree(release, "normal,build")?;
    let clarified = clarified(&tools::read(&release.root.join("deny.toml"))?);
    let checksums = checksums(&tools::read(&release.root.join("Cargo.lock"))?);
    Ok(Materials {
        bill: bill(release, &all, &linked, &clarified, &checksums)?,
        notices: notices(&all, &clarified)?,
    })
}

fn tree(release: &Release, edges: &str) -> Result<Graph> {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo
        .current_dir(&release.root)
        .args([
            "tree",
            "--locked",
            "--package",
            "mayfly",
            "--prefix",
            "depth",
        ])
        .args(["--charset", "ascii", "--edges", edges])
        .args(["--target", &target, "--format", FORMAT]);
    parse(&tools::run(&mut cargo)?)
}

/// Reads lines such as `2|serde v1.0.0|MIT|https://…`. The number is the depth; a line's parent is
/// the closest line above it with a smaller depth.
fn parse(text: &str) -> Result<Graph> {
    let mut graph = Graph::new();
    let mut path: Vec<Package> = vec![];
    for line in text.lines().filter(|line| !line.is_empty()) {
        let (depth, package) =
            parse_line(line).ok_or_else(|| format!("cargo tree printed {line:?}"))?;
        path.truncate(depth);
        if let Some(parent) = path.last() {
            graph
                .entry(parent.clone())
                .or_default()
                .insert(package.clone());
        }
        graph.entry(package.clone()).or_default();
        path.push(package);
    }
    Ok(graph)
}

fn parse_line(line: &str) -> Option<(usize, Package)> {
    let mut fields = line.split('|');
    let depth = fields.next()?.parse().ok()?;
    let mut identity = fields.next()?.split_whitespace();
    let package = Package {
        name: identity.next()?.to_owned(),
        version: identity.next()?.strip_prefix('v')?.to_owned(),
        licence: fields.next()?.replace('/', " OR "),
        // A package that was printed before has a mark at the end.
        repository: fields.next()?.trim_end_matches(" (*)").to_owned(),
    };
    Some((depth, package))
}

/// Returns the licences that `deny.toml` states for packages without an identifier.
fn clarified(rules: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut name = None;
    for line in rules.lines() {
        let value = |key: &str| {
            let rest = line.strip_prefix(key)?.trim_start().strip_prefix('=')?;
            Some(rest.trim().trim_matches('"').to_owned())
        };
        if line.starts_with('[') {
            name = None;
        }
        name = value("crate").or(name);
        if let (Some(name), Some(expression)) = (&name, value("expression")) {
            found.insert(name.clone(), expression);
        }
    }
    found
}

/// Returns the checksums in `Cargo.lock` by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let mut found = BTreeMap::new();
    for block in lock.split("[[package]]") {
        let value = |key: &str| {
            let line = block.lines().find_map(|line| line.strip_prefix(key))?;
            Some(line.trim_matches([' ', '=', '"']).to_owned())
        };
        if let (Some(name), Some(version), Some(sum)) =
            (value("name ="), value("version ="), value("checksum ="))
        {
            found.insert((name, version), sum);
        }
    }
    found
}

fn licence_of(package: &Package, clarified: &BTreeMap<String, String>) -> Result<String> {
    if !package.licence.is_empty() {
        return Ok(package.licence.clone());
    }
    let known = clarified.get(&package.name).cloned();
    known.ok_or_else(|| format!("{}: no licence, and deny.toml clarifies none", package.name))
}

/// Returns a string of JSON.
fn json(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            character if character < ' ' => {
                let _ = write!(quoted, "\\u{:04x}", character as u32);
            }
            character => quoted.push(character),
        }
    }
    quoted + "\""
}

/// Writes the bill of materials. Packages that only take part in the build have the scope
/// `excluded`.
fn bill(
    release: &Release,
    all: &Graph,
    linked: &Graph,
    clarified: &BTreeMap<String, String>,
    checksums: &BTreeMap<(String, String), String>,
) -> Result<String> {
    let mut components = vec![];
    let mut dependencies = vec![];
    let mut program = String::new();
    for (package, below) in all {
        let url = json(&package.url());
        let on: Vec<String> = below.iter().map(|package| json(&package.url())).collect();
        dependencies.push(format!(r#"{{"ref":{url},"dependsOn":[{}]}}"#, on.join(",")));
        let kind = if package.name == "mayfly" {
            "application"
        } else {
            "library"
        };
        let scope = if linked.contains_key(package) {
            "required"
        } else {
            "excluded"
        };
        let mut component = format!(
            r#"{{"type":"{kind}","bom-ref":{url},"name":{},"version":{},"scope":"{scope}","licenses":[{{"expression":{}}}],"purl":{url}"#,
            json(&package.name),
            json(&package.version),
            json(&licence_of(package, clarified)?),
        );
        let identity = (package.name.clone(), package.version.clone());
        if let Some(sum) = checksums.get(&identity) {
            component += &format!(r#","hashes":[{{"alg":"SHA-256","content":"{sum}"}}]"#);
        } else if !package.is_ours() {
            return Err(format!("{}: Cargo.lock has no checksum", package.name));
        }
        if !package.repository.is_empty() {
            let place = json(&package.repository);
            component += &format!(r#","externalReferences":[{{"type":"vcs","url":{place}}}]"#);
        }
        component.push('}');
        if kind == "application" {
            program = component;
        } else {
            components.push(component);
        }
    }
    let created = format!("@{}", release.epoch);
    let created = tools::run(Command::new("date").args([
        "--utc",
        "--date",
        &created,
        "+%Y-%m-%dT%H:%M:%SZ",
    ]))?;
    Ok(format!(
        "{{\"bomFormat\":\"CycloneDX\",\"specVersion\":\"1.5\",\"version\":1,\"metadata\":{{\"timestamp\":\"{}\",\"component\":{program}}},\n\"components\":[\n{}\n],\n\"dependencies\":[\n{}\n]}}\n",
        created.trim(),
        components.join(",\n"),
        dependencies.join(",\n")
    ))
}

/// Writes the licences of all packages, each text once, below the packages that have it. Packages
/// that only take part in the build are included, because some of them contain C sources of
/// libraries.
fn notices(all: &Graph, clarified: &BTreeMap<String, String>) -> Result<String> {
    let folders = registries()?;
    let mut list = String::new();
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in all.keys().filter(|package| !package.is_ours()) {
        let title = format!("{} {}", package.name, package.version);
        let licence = licence_of(package, clarified)?;
        let _ = writeln!(list, "{title}: {licence}; {}", package.repository);
        let name = format!("{}-{}", package.name, package.version);
        let folder = folders
            .iter()
            .map(|folder| folder.join(&name))
            .find(|path| path.exists());
        let folder = folder
            .ok_or_else(|| format!("{name}: its sources are not in the registry's folder"))?;
        for text in licences(&folder)? {
            texts.entry(text).or_default().push(title.clone());
        }
    }
    let mut notices = format!(
        "Mayfly contains, or is built with, these libraries under these licences. The texts that accompany them follow.\n\n{list}"
    );
    let mut texts: Vec<(Vec<String>, String)> =
        texts.into_iter().map(|(text, of)| (of, text)).collect();
    texts.sort();
    for (packages, text) in texts {
        let line = "-".repeat(80);
        let _ = write!(
            notices,
            "\n{line}\n{}\n\n{}\n",
            packages.join(", "),
            text.trim_end()
        );
    }
    Ok(notices)
}

/// Returns the folders with the sources of registries.
fn registries() -> Result<Vec<PathBuf>> {
    let home = match std::env::var_os("CARGO_HOME") {
        Some(home) => PathBuf::from(home),
        None => PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cargo"),
    };
    let folder = home.join("registry/src");
    let entries =
        fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(entries.flatten().map(|entry| entry.path()).collect())
}

/// Returns the texts of the licence files of a package: those in its top folder, and those one
/// level below, where C libraries have theirs.
fn licences(folder: &Path) -> Result<Vec<String>> {
    let (mut files, folders) = listed(folder)?;
    for below in folders {
        files.extend(listed(&below)?.0);
    }
    files.retain(|path| {
        let name = tools::name(path).to_uppercase();
        LICENCE_FILES.iter().any(|start| name.starts_with(start))
    });
    files.sort();
    let texts = files.iter().map(|path| {
        fs::read(path)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .map_err(|error| format!("{}: {error}", path.display()))
    });
    texts.collect()
}

/// Returns the files and the folders in a folder.
fn listed(folder: &Path) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(entries
        .flatten()
        .map(|entry| entry.path())
        .partition(|path| path.is_file()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_read_from_depths_and_repeated_packages_keep_theirs() {
        let text = "0|mayfly v0.1.0 (/r)|Apache-2.0|/r\n1|a v1.0.0|MIT/Apache-2.0|\n\
                    2|b v2.0.0|MIT|/b\n1|c v3.0.0 (proc-macro)||\n2|b v2.0.0|MIT|/b (*)\n";
        let graph = parse(text).expect("lines of cargo tree");
        let below = |name: &str| {
            let (_, on) = graph
                .iter()
                .find(|(package, _)| package.name == name)
                .expect("it is there");
            on.iter()
                .map(|package| package.name.as_str())
                .collect::<Vec<_>>()
        };
        assert_eq!(below("mayfly"), ["a", "c"]);
        assert_eq!(below("a"), ["b"]);
        assert_eq!(below("c"), ["b"]);
        assert_eq!(graph.len(), 4);
        assert!(
            graph
                .keys()
                .any(|package| package.licence == "MIT OR Apache-2.0")
        );
        assert!(parse("what is this").is_err());
    }

    #[test]
    fn a_licence_is_stated_by_the_package_or_by_the_rules() {
        let rules = "[[licenses.clarify]]\ncrate = \"c\"\nexpression = \"MIT\"\n[bans]\nexpression = \"x\"\n";
        let clarified = clarified(rules);
        assert_eq!(clarified.len(), 1);
        let (_, package) = parse_line("1|c v3.0.0||").expect("a line");
        assert_eq!(licence_of(&package, &clarified).as_deref(), Ok("MIT"));
        let (_, package) = parse_line("1|d v3.0.0||").expect("a line");
        assert!(licence_of(&package, &clarified).is_err_and(|error| error.contains('d')));
    }

    #[test]
    fn checksums_are_those_of_the_lock_file() {
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0\"\nchecksum = \"ff\"\n\n[[package]]\nname = \"b\"\n";
        let sums = checksums(lock);
        assert_eq!(sums.len(), 1);
        assert_eq!(sums[&("a".to_owned(), "1.0".to_owned())], "ff");
    }

    #[test]
    fn strings_of_json_are_escaped() {
        assert_eq!(json("a\"b\\c\n"), "\"a\\\"b\\\\c\\u000a\"");
    }
}
