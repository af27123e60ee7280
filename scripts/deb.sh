#!/bin/sh
# Makes Heaptrial's Debian package of a program that is built: `deb.sh PROGRAM FOLDER [OPTION...]`, with options of
# cargo-deb. Prints the package's path.
# Man pages, completions and the agent's unit are asked of the program itself.
set -eu

if [ $# -lt 2 ]; then
    echo "usage: $0 PROGRAM FOLDER [OPTION...]" >&2
    exit 2
fi
program=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
shift 2
cd "$(dirname "$0")/.."
if ! cargo deb --version >/dev/null 2>&1; then
    echo "cargo-deb is missing: \`make setup-test\` installs it" >&2
    exit 3
fi

# cargo-deb looks for `target/release` of Cargo.toml below the target folder: a new one, so that nothing is built.
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
files=$stage/release
mkdir -p "$files/completions"
strip -o "$files/heaptrial" "$program"
"$program" man "$files/man"
gzip -9 -n "$files"/man/*.1
"$program" completions bash >"$files/completions/heaptrial"
"$program" completions zsh >"$files/completions/_heaptrial"
"$program" completions fish >"$files/completions/heaptrial.fish"
"$program" agent --print-unit >"$files/heaptrial-agent.service"

version=$("$program" --version | cut -d ' ' -f 2)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
gzip -9 -n >"$files/changelog.Debian.gz" <<CHANGELOG
heaptrial ($version-1) unstable; urgency=medium

  * Version $version; /usr/share/doc/heaptrial/changelog.gz tells what changed.

 -- The Heaptrial developers <nobody@heaptrial.invalid>  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
CHANGELOG
gzip -9 -n -c CHANGELOG.md >"$files/changelog.gz"

CARGO_TARGET_DIR=$stage cargo deb --locked --quiet --package heaptrial --no-build --no-strip --output "$out" "$@"
