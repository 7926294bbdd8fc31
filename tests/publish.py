"""Checks that the libraries which are published on crates.io can be: their metadata, and `cargo package`.

    python3 tests/publish.py             metadata and contents
    python3 tests/publish.py --verify    also builds each package from its archive

A package is published unless its manifest has `publish = false`.
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The names mayfly and mayfly-* belong to another project on crates.io.
PREFIX = "mayfly-cache"
# Limits of crates.io.
KEYWORDS_MAX, KEYWORD_LENGTH_MAX, CATEGORIES_MAX = 5, 20, 5
FIELDS = ["description", "license", "repository", "documentation", "readme"]


def faults_of(package: dict, published: set[str]) -> list[str]:
    """What crates.io, or a reader of its page, would miss."""
    faults = [f"no {field}" for field in FIELDS if not package[field]]
    if not (package["name"] == PREFIX or package["name"].startswith(PREFIX + "-")):
        faults.append(f"expected a name that begins with {PREFIX}")
    if not 0 < len(package["keywords"]) <= KEYWORDS_MAX or any(len(word) > KEYWORD_LENGTH_MAX for word in package["keywords"]):
        faults.append(f"keywords {package['keywords']}: expected 1 to {KEYWORDS_MAX} of at most {KEYWORD_LENGTH_MAX} characters")
    if not 0 < len(package["categories"]) <= CATEGORIES_MAX:
        faults.append(f"categories {package['categories']}: expected 1 to {CATEGORIES_MAX}")
    folder = Path(package["manifest_path"]).parent
    if package["readme"]:
        if "```" not in (folder / package["readme"]).read_text():
            faults.append("the README needs an example")
    if not (folder / "LICENSE").exists():
        faults.append("no LICENSE")
    for dependency in package["dependencies"]:
        if "path" not in dependency or dependency["kind"] == "dev":
            continue
        if dependency["name"] not in published:
            faults.append(f"depends on {dependency['name']}, which is not published")
        if dependency["req"] == "*":
            faults.append(f"depends on {dependency['name']} without a version")
    return faults


def main() -> int:
    verify = "--verify" in sys.argv[1:]
    command = ["cargo", "metadata", "--locked", "--no-deps", "--format-version", "1"]
    packages = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)["packages"]
    packages = [package for package in packages if package["publish"] != []]
    published = {package["name"] for package in packages}
    count = 0
    for package in packages:
        for fault in faults_of(package, published):
            count += 1
            print(f"{package['name']}: {fault}")
    chosen = [word for name in sorted(published) for word in ("--package", name)]
    # The working tree may have changes that are not committed; what is packed is the same.
    command = ["cargo", "package", "--locked", "--allow-dirty", "--target-dir", "target/publish", *chosen]
    if not verify:
        command.append("--no-verify")
    done = subprocess.run(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        print(done.stderr)
        count += 1
    print(f"publish: {len(published)} packages ({', '.join(sorted(published))}), {count} faults")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
