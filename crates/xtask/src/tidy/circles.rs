//! Import circles between the modules of one crate: between files, and between sibling modules,
//! each with everything below it.
//!
//! The check draws an arrow from a file to each file that defines what it imports, by `use` or by a
//! path such as `crate::a::b` or `child::f`. It draws no arrow for:
//!
//! - Test code.
//! - A declaration (`mod a;`).
//! - A re-export (`pub use`). An import of the name is resolved to the file that defines it.
//! - An import from an ancestor. A child module is a part of its parent, sees the parent's private
//!   items by the rules of the language, and may use the types that the parent defines for its
//!   parts.

use super::{Finding, Repository, module_folder};
use crate::source::{Source, line_of, words};
use std::collections::{BTreeMap, BTreeSet};

const WHY: &str =
    "a module can be read, tested and changed alone only if what it imports does not import it";

/// Runs this check.
pub fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = vec![];
    for name in repository.crates() {
        let files = Modules::new(repository, name).arrows();
        let of_files = circles(&files);
        findings.extend(of_files.iter().map(|circle| finding(circle, &files)));
        // A circle of files is one of their folders, too.
        if of_files.is_empty() {
            let folders = between_siblings(&files);
            let of_folders = circles(&folders);
            findings.extend(of_folders.iter().map(|circle| finding(circle, &folders)));
        }
    }
    findings
}

/// Line of a file, from 0.
#[derive(Clone)]
struct Place {
    path: String,
    line: usize,
}

/// Arrows between modules, by path, with the place of the first import.
type Arrows = BTreeMap<String, BTreeMap<String, Place>>;

/// Returns the arrows between sibling modules that follow from those between files.
fn between_siblings(files: &Arrows) -> Arrows {
    let mut arrows = Arrows::new();
    for (from, targets) in files {
        for (to, place) in targets {
            let Some((from, to)) = siblings(from, to) else {
                continue;
            };
            arrows.entry(to.clone()).or_default();
            let targets = arrows.entry(from).or_default();
            targets.entry(to).or_insert_with(|| place.clone());
        }
    }
    arrows
}

/// Returns the paths of the two sibling modules that contain two files, or `None` if one file is an
/// ancestor of the other.
fn siblings(one: &str, other: &str) -> Option<(String, String)> {
    let (one, other) = (module_folder(one), module_folder(other));
    let shared = one.split('/').zip(other.split('/'));
    let depth = shared.take_while(|(a, b)| a == b).count();
    let ancestor = |path: &str| {
        let parts: Vec<&str> = path.trim_end_matches('/').split('/').collect();
        parts.get(..=depth).map(|parts| parts.join("/"))
    };
    Some((ancestor(&one)?, ancestor(&other)?))
}

fn finding(circle: &BTreeSet<String>, arrows: &Arrows) -> Finding {
    let first = circle.first().expect("a circle has members");
    let route = shortest_route(first, circle, arrows);
    let place = &arrows[first][&route[1]];
    let names: Vec<&str> = route.iter().map(|path| short_name(path)).collect();
    Finding {
        path: place.path.clone(),
        line: place.line + 1,
        found: format!(
            "a circle of {} modules, for example {}",
            circle.len(),
            names.join(" -> ")
        ),
        expected: "imports that point one way".into(),
        why: WHY,
    }
}

/// Returns a path without `crates/NAME/src/` and `.rs`.
fn short_name(path: &str) -> &str {
    let inside = path.split_once("/src/").map_or(path, |(_, rest)| rest);
    inside.strip_suffix(".rs").unwrap_or(inside)
}

/// Returns the shortest path from a member of a circle back to itself, by breadth-first search.
fn shortest_route(start: &str, circle: &BTreeSet<String>, arrows: &Arrows) -> Vec<String> {
    let mut routes = vec![vec![start.to_string()]];
    let mut seen = BTreeSet::new();
    while !routes.is_empty() {
        let mut longer = vec![];
        for route in routes {
            let last = route.last().expect("a route has a start");
            for next in arrows[last].keys().filter(|next| circle.contains(*next)) {
                let mut further = route.clone();
                further.push(next.clone());
                if next == start {
                    return further;
                }
                if seen.insert(next.clone()) {
                    longer.push(further);
                }
            }
        }
        routes = longer;
    }
    unreachable!("every member of a circle reaches itself")
}

/// The modules of one crate by path (`["net", "worker"]`), with the re-exports of each.
struct Modules<'h> {
    sources: BTreeMap<Vec<String>, (&'h String, &'h Source)>,
    /// For each module, the names that it re-exports and the full paths that they stand for.
    exports: BTreeMap<Vec<String>, BTreeMap<String, Vec<String>>>,
}

/// Maximum number of re-exports that are followed from one name. A longer chain ends at the module
/// that was reached.
const EXPORTS_FOLLOWED_MAX: usize = 8;

impl<'h> Modules<'h> {
    fn new(repository: &'h Repository, name: &str) -> Self {
        let prefix = format!("crates/{name}/src/");
        let mut sources = BTreeMap::new();
        for (path, source) in repository.sources_of(name) {
            let folder = module_folder(path);
            let Some(folder) = folder.strip_prefix(&prefix) else {
                continue;
            };
            let parts: Vec<String> = folder
                .split('/')
                .filter(|part| !part.is_empty())
                .map(str::to_string)
                .collect();
            sources.insert(parts, (path, source));
        }
        let mut modules = Modules {
            sources,
            exports: BTreeMap::new(),
        };
        let mut exports: BTreeMap<Vec<String>, BTreeMap<String, Vec<String>>> = BTreeMap::new();
        for (at, (_, source)) in &modules.sources {
            for import in source.imports() {
                let Some(path) = modules.absolute(at, &import.path) else {
                    continue;
                };
                if import.is_public {
                    exports
                        .entry(at.clone())
                        .or_default()
                        .insert(import.name, path);
                }
            }
        }
        modules.exports = exports;
        modules
    }

    /// Resolves a path as written in the module `at` to a path from the crate's root; `None` if it
    /// leads to another crate.
    fn absolute(&self, at: &[String], written: &str) -> Option<Vec<String>> {
        let mut parts = written.split("::").map(str::trim).peekable();
        let mut path: Vec<String> = match parts.peek() {
            Some(&"crate") => {
                parts.next();
                vec![]
            }
            Some(&"self") => {
                parts.next();
                at.to_vec()
            }
            Some(&"super") => at.to_vec(),
            Some(first) if self.sources.contains_key(&child(at, first)) => at.to_vec(),
            _ => return None,
        };
        while parts.peek() == Some(&"super") {
            parts.next();
            path.pop();
        }
        path.extend(parts.map(str::to_string));
        Some(path)
    }

    /// Returns the module that defines the item at a path from the root.
    fn definer(&self, path: &[String]) -> Option<Vec<String>> {
        let mut path = path.to_vec();
        for _ in 0..EXPORTS_FOLLOWED_MAX {
            let depth = (0..=path.len())
                .rev()
                .find(|depth| self.sources.contains_key(&path[..*depth]))?;
            let (module, rest) = path.split_at(depth);
            let target = rest
                .first()
                .and_then(|name| self.exports.get(module)?.get(name));
            match target {
                Some(target) if target[..] != path[..] => {
                    path = target.iter().chain(&rest[1..]).cloned().collect();
                }
                _ => return Some(module.to_vec()),
            }
        }
        None
    }

    fn arrows(&self) -> Arrows {
        let mut arrows = Arrows::new();
        for (at, (path, source)) in &self.sources {
            let targets = arrows.entry((*path).clone()).or_default();
            for (line, written) in source.module_paths() {
                if source.is_test.get(line).copied().unwrap_or(false) {
                    continue;
                }
                let target = self
                    .absolute(at, &written)
                    .and_then(|path| self.definer(&path));
                if let Some(target) = target
                    && !at.starts_with(&target)
                {
                    let (to, _) = self.sources[&target];
                    let path = (*path).clone();
                    targets.entry(to.clone()).or_insert(Place { path, line });
                }
            }
        }
        arrows
    }
}

fn child(at: &[String], name: &str) -> Vec<String> {
    let mut path = at.to_vec();
    path.push(name.to_string());
    path
}

/// Returns the groups of two or more modules that all reach each other.
fn circles(arrows: &Arrows) -> Vec<BTreeSet<String>> {
    let reach: BTreeMap<&String, BTreeSet<&String>> = arrows
        .keys()
        .map(|start| (start, reachable(start, arrows)))
        .collect();
    let mut found: Vec<BTreeSet<String>> = vec![];
    for (start, reached) in &reach {
        if !reached.contains(start) || found.iter().any(|circle| circle.contains(*start)) {
            continue;
        }
        let circle = reached
            .iter()
            .filter(|other| reach[*other].contains(start))
            .map(|other| (*other).clone());
        found.push(circle.collect());
    }
    found
}

fn reachable<'a>(start: &String, arrows: &'a Arrows) -> BTreeSet<&'a String> {
    let mut seen = BTreeSet::new();
    let mut open: Vec<&String> = arrows[start].keys().collect();
    while let Some(next) = open.pop() {
        if seen.insert(next) {
            open.extend(arrows[next].keys());
        }
    }
    seen
}

/// A name imported by `use`.
struct Import {
    /// The path as written, without `as NAME`.
    path: String,
    /// The local name.
    name: String,
    /// Whether the import is a re-export.
    is_public: bool,
}

impl Source {
    /// Returns all names imported by `use`, outside of test code.
    fn imports(&self) -> Vec<Import> {
        let uses = self.renamed_uses().into_iter();
        uses.filter(|(line, ..)| !self.is_test.get(*line).copied().unwrap_or(false))
            .map(|(_, path, name, is_public)| Import {
                path,
                name,
                is_public,
            })
            .collect()
    }

    /// Returns paths that may lead to modules of the same crate, with their lines: private `use`
    /// declarations, and paths of two or more parts in the code.
    fn module_paths(&self) -> Vec<(usize, String)> {
        let mut found: Vec<(usize, String)> = vec![];
        let mut declared: Vec<(usize, usize)> = vec![];
        for (line, path, _, is_public) in self.renamed_uses() {
            if !is_public {
                found.push((line, path));
            }
        }
        for (at, word) in words(&self.code) {
            if word == "use" {
                let end = self.code[at..]
                    .find(';')
                    .map_or(self.code.len(), |n| at + n);
                declared.push((at, end));
            }
        }
        let mut until = 0;
        for (at, _) in words(&self.code) {
            let is_declared = declared.iter().any(|(from, to)| (*from..*to).contains(&at));
            if at < until || is_declared {
                continue;
            }
            let path: String = self.code[at..]
                .chars()
                .take_while(|c| c.is_alphanumeric() || matches!(c, '_' | ':'))
                .collect();
            until = at + path.len();
            if path.contains("::") {
                let path = path.trim_end_matches(':').to_string();
                found.push((line_of(&self.code, at), path));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let manifest = ("crates/a/Cargo.toml", "");
        let files: Vec<_> = files.iter().copied().chain([manifest]).collect();
        let repository = Repository::of(&files);
        check(&repository).into_iter().map(|f| f.found).collect()
    }

    #[test]
    fn imports_that_point_one_way_pass() {
        let files = [
            ("crates/a/src/lib.rs", "mod b;\nmod c;\npub struct Base;"),
            (
                "crates/a/src/b.rs",
                "use crate::c::{self, D};\nuse crate::Base;",
            ),
            (
                "crates/a/src/c.rs",
                "mod d;\nfn f() { d::g(); }\nuse std::fmt;",
            ),
            ("crates/a/src/c/d.rs", "pub fn g() {}"),
        ];
        assert_eq!(found(&files), [""; 0]);
    }

    #[test]
    fn two_modules_that_import_each_other_are_reported() {
        let files = [
            ("crates/a/src/lib.rs", "mod b;\nmod c;"),
            ("crates/a/src/b.rs", "use crate::c::D;"),
            ("crates/a/src/c.rs", "fn f() { super::b::g(); }"),
        ];
        let expected = "a circle of 2 modules, for example b -> c -> b";
        assert_eq!(found(&files), [expected]);
    }

    #[test]
    fn a_child_may_use_what_its_parent_defines() {
        let files = [
            ("crates/a/src/lib.rs", "mod b;"),
            (
                "crates/a/src/b.rs",
                "mod c;\npub struct B;\nfn g() { c::f(); }",
            ),
            ("crates/a/src/b/c.rs", "use super::B;\npub fn f() {}"),
        ];
        assert_eq!(found(&files), [""; 0]);
    }

    #[test]
    fn two_folders_whose_files_import_each_other_are_reported() {
        let files = [
            ("crates/a/src/lib.rs", "mod b;\nmod c;"),
            ("crates/a/src/b.rs", "mod d;\nmod e;"),
            ("crates/a/src/b/d.rs", "use crate::c::f::F;"),
            ("crates/a/src/b/e.rs", "pub struct E;"),
            ("crates/a/src/c.rs", "mod f;\nmod g;"),
            ("crates/a/src/c/f.rs", "pub struct F;"),
            ("crates/a/src/c/g.rs", "use crate::b::e::E;"),
        ];
        let expected = "a circle of 2 modules, for example b -> c -> b";
        assert_eq!(found(&files), [expected]);
    }

    #[test]
    fn a_re_export_stands_for_the_module_that_defines_the_name() {
        let files = [
            ("crates/a/src/lib.rs", "mod b;\nmod c;\npub use c::D;"),
            ("crates/a/src/b.rs", "use crate::D;\npub fn f() {}"),
            (
                "crates/a/src/c.rs",
                "pub struct D;\nfn g() { crate::b::f(); }",
            ),
        ];
        assert_eq!(found(&files).len(), 1);
    }

    #[test]
    fn tests_draw_no_arrows() {
        let files = [
            ("crates/a/src/lib.rs", "mod b;\nmod c;"),
            ("crates/a/src/b.rs", "use crate::c::D;"),
            (
                "crates/a/src/c.rs",
                "pub struct D;\n#[cfg(test)]\nmod tests { use crate::b; }",
            ),
        ];
        assert_eq!(found(&files), [""; 0]);
    }
}
