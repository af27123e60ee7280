#!/bin/sh
# Lints the Ansible collection at its own profile (production), with ansible-lint in a folder of its own, and runs the tests of its modules.
set -eu
cd "$(dirname "$0")/.."
# Other versions have other rules.
VERSION=26.10.1
VENV=target/ansible-lint
if [ ! -x "$VENV/bin/ansible-lint" ]; then
	python3 -m venv "$VENV"
	"$VENV/bin/pip" install --quiet --disable-pip-version-check "ansible-lint==$VERSION"
fi
# Modules import each other by the collection's name.
COLLECTIONS=target/ansible/ansible_collections/heaptrial
mkdir -p "$COLLECTIONS"
ln -sfn "$PWD/ansible" "$COLLECTIONS/fleet"
cd ansible
PYTHONPATH="$PWD/../target/ansible" "../$VENV/bin/python" -B -m unittest discover -q -s tests/unit
PATH="$PWD/../$VENV/bin:$PATH" ANSIBLE_COLLECTIONS_PATH="$PWD/../target/ansible" ansible-lint --offline --nocolor
