"""Checks the tree of dependencies: licences, sources and duplicates against deny.toml, and the minimum
Rust of each against ours.

The same table as cargo-deny reads, without the minutes that building cargo-deny takes.
Advisories need a database from the network and are not checked here.
"""

import json
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def is_allowed(expression: str, allowed: set[str]) -> bool:
    """Evaluates an SPDX expression; `/` is the old way to write OR."""
    text = expression.replace("/", " OR ")
    tokens = re.findall(r"\(|\)|[^\s()]+", text)
    position = 0

    def term() -> bool:
        nonlocal position
        token = tokens[position]
        position += 1
        if token == "(":
            result = either()
            position += 1
            return result
        if position + 1 < len(tokens) and tokens[position] == "WITH":
            token = f"{token} WITH {tokens[position + 1]}"
            position += 2
        return token in allowed

    def both() -> bool:
        nonlocal position
        result = term()
        while position < len(tokens) and tokens[position] == "AND":
            position += 1
            result = term() and result
        return result

    def either() -> bool:
        nonlocal position
        result = both()
        while position < len(tokens) and tokens[position] == "OR":
            position += 1
            result = both() or result
        return result

    return either()


def self_check() -> None:
    allowed = {"MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"}
    for expression, expected in [
        ("MIT", True),
        ("MIT/Apache-2.0", True),
        ("GPL-3.0 OR MIT", True),
        ("GPL-3.0 AND MIT", False),
        ("(GPL-3.0 OR MIT) AND Apache-2.0", True),
        ("Apache-2.0 WITH LLVM-exception OR GPL-2.0", True),
        ("GPL-2.0 WITH Classpath-exception-2.0", False),
    ]:
        assert is_allowed(expression, allowed) == expected, expression
    ours = {"license": None, "license_file": "LICENSE", "manifest_path": str(ROOT / "Cargo.toml")}
    assert licence_of(ours) == "Apache-2.0"
    assert licence_of(ours | {"license_file": "deny.toml"}) == "none"


def words(licence: str) -> list[str]:
    """A licence's words, without the line that tells whose it is."""
    return [word for line in licence.splitlines() if not line.lstrip().startswith("Copyright ") for word in line.split()]


def licence_of(package: dict) -> str:
    """A package that names a file instead of a licence has ours, if the file says what ours says."""
    if package["license"] is None and package["license_file"] is not None:
        text = (Path(package["manifest_path"]).parent / package["license_file"]).read_text()
        if words(text) == words((ROOT / "LICENSE").read_text()):
            return "Apache-2.0"
    return package["license"] or "none"


def is_newer(needed: str | None, minimum: str) -> bool:
    def parts(version: str) -> list[int]:
        return [int(part) for part in version.split(".")]

    return needed is not None and parts(needed)[:2] > parts(minimum)[:2]


def reached(metadata: dict) -> set[str]:
    """Packages that the workspace builds, its tests apart."""
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    todo = list(metadata["workspace_members"])
    seen = set(todo)
    while todo:
        for dependency in nodes[todo.pop()]["deps"]:
            is_built = any(kind["kind"] != "dev" for kind in dependency["dep_kinds"])
            if is_built and dependency["pkg"] not in seen:
                seen.add(dependency["pkg"])
                todo.append(dependency["pkg"])
    return seen


def main() -> int:
    self_check()
    rules = tomllib.loads((ROOT / "deny.toml").read_text())
    allowed = set(rules["licenses"]["allow"])
    skipped = {entry["crate"].split("@")[0] for entry in rules["bans"]["skip"]}
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    for target in rules["graph"]["targets"]:
        command += ["--filter-platform", target]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    built = reached(metadata)
    minimum = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["rust-version"]
    faults = []
    versions = defaultdict(set)
    for package in metadata["packages"]:
        name = f"{package['name']} {package['version']}"
        source = package["source"]
        if source is not None and not source.startswith("registry+"):
            faults.append(f"{name}: source {source}; expected the registry")
        licence = licence_of(package)
        if not is_allowed(licence, allowed):
            faults.append(f"{name}: licence {licence}; expected one that deny.toml allows")
        if package["id"] in built and is_newer(package.get("rust_version"), minimum):
            faults.append(f"{name}: needs Rust {package['rust_version']}; expected at most {minimum}")
        if package["id"] in built:
            versions[package["name"]].add(package["version"])
    for name, found in sorted(versions.items()):
        if len(found) > 1 and name not in skipped:
            faults.append(f"{name}: versions {', '.join(sorted(found))}; expected one, or a reason in deny.toml")
    for fault in faults:
        print(fault)
    print(f"licences: {len(metadata['packages'])} packages, {len(built)} of them built, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
