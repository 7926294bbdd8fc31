#!/usr/bin/env bash
# Builds the wheel, installs it into an environment of its own, and runs every check of the package from
# there: types, tests, notebooks, the template of a policy.
#
#   python/check.sh           all checks
#   python/check.sh --wheel   only builds the wheel, in python/target/wheels
set -eu
cd "$(dirname "$0")"
venv=target/venv

if ! cmp -s requirements.txt "$venv/requirements.txt"; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --requirement requirements.txt
    cp requirements.txt "$venv/requirements.txt"
fi
rm -f target/wheels/*.whl
"$venv/bin/maturin" build --quiet --release --locked --out target/wheels
ls -l target/wheels/*.whl
[ "${1-}" != --wheel ] || exit 0
"$venv/bin/pip" install --quiet --disable-pip-version-check --force-reinstall --no-deps target/wheels/*.whl

# The template of a policy outside of the repository.
cargo test --quiet --release --locked --package policy-template

# From another folder, so that the installed package is imported and not the sources beside the tests.
here=$PWD
cd target
venv/bin/mypy --config-file "$here/pyproject.toml" --package mayfly
venv/bin/python -m pytest --config-file "$here/pyproject.toml" --rootdir "$here" -p no:cacheprovider "$here/tests"
