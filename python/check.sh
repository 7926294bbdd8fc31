#!/usr/bin/env bash
# Builds the wheel, installs it into an environment of its own, and runs every check of the package from
# there: types, tests, notebooks, the template of a policy.
#
#   python/check.sh           all checks
#   python/check.sh --wheel   only builds the wheel, in python/target/wheels
#   python/check.sh --ray     only the sweeps on a local cluster of Ray, whose wheel has 79 MB
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

if [ "${1-}" = --ray ]; then
    "$venv/bin/pip" install --quiet --disable-pip-version-check ray==2.60.0
    here=$PWD
    cd target
    MAYFLY_TEST_RAY=1 venv/bin/python -m pytest --config-file "$here/pyproject.toml" --rootdir "$here" \
        -p no:cacheprovider -k ray "$here/tests/test_sweep.py"
    exit
fi

# The template of a policy outside of the repository.
cargo test --quiet --release --locked --package policy-template

# From another folder, so that the installed package is imported and not the sources beside the tests.
here=$PWD
cd target
venv/bin/mypy --config-file "$here/pyproject.toml" --package mayfly
venv/bin/mypy --strict "$here/tests/typed_program.py"
venv/bin/python -m pytest --config-file "$here/pyproject.toml" --rootdir "$here" -p no:cacheprovider "$here/tests"
