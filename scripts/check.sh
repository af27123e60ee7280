#!/bin/sh
# The tests that need no root, container, Tor or browser, as many programs of tests at once as there are processors and one
# more: many of them wait. The property test of the transaction draws fewer histories than in `make test`.
# Usage: scripts/check.sh [OPTIONS OF CARGO TEST]
set -eu
cargo=${CARGO:-cargo}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export HEAPTRIAL_HISTORIES="${HEAPTRIAL_HISTORIES:-6000}"

# Once for whoever looks at errors, and once for the names of the programs.
"$cargo" test --locked --no-run --quiet "$@"
"$cargo" test --locked --no-run --quiet --message-format=json "$@" |
	sed -n 's|.*"manifest_path":"\([^"]*\)/Cargo.toml".*"profile":{[^}]*"test":true}.*"executable":"\([^"]*\)".*|\1 \2|p' |
	sort -u > "$folder/programs"

# Runs one program where cargo would, and keeps what it said.
cat > "$folder/run" << 'END'
folder=$(dirname "$0")
said="$folder/$(basename "$2")"
cd "$1"
if "$2" --quiet > "$said" 2>&1; then
	grep -h '^test result' "$said" || true
else
	touch "$folder/failed"
	echo "FAILED $2"
	cat "$said"
fi
END
xargs -P "$(($(nproc) + 1))" -L 1 sh "$folder/run" < "$folder/programs" > "$folder/all" 2>&1 || true
grep -v '^test result' "$folder/all" || true
awk '/^test result/ { passed += $4; failed += $6; ignored += $8 } END { print passed " tests passed, " failed " failed, " ignored " need more than this (make test)" }' "$folder/all"
[ ! -e "$folder/failed" ]
