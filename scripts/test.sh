#!/bin/sh
# Runs tests: those of the binary one program after the other, since lab runs of a second find no processor beside others; of the other
# crates as many programs at once as there are processors.
#
#   scripts/test.sh few [OPTIONS OF CARGO TEST]   those that need no root, container, Tor or browser: what to run while working. The
#                                                 property test of the transaction draws fewer histories.
#   scripts/test.sh all [OPTIONS OF CARGO TEST]   all. Lists at the end which were skipped, because the harness counts those as
#                                                 passed; with HEAPTRIAL_REQUIRE_ALL=1 a test that would be skipped fails.
#
# Tests that look for rare faults run a part of their cases, chosen by HEAPTRIAL_DRAW (default: the commit's hash); with
# HEAPTRIAL_DRAW=all they run whole, as `make reliability` does.
set -eu
cargo=${CARGO:-cargo}
which=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export HEAPTRIAL_SKIPPED="$folder/skipped" HEAPTRIAL_NOT_DRAWN="$folder/not-drawn"
: > "$HEAPTRIAL_SKIPPED"
: > "$HEAPTRIAL_NOT_DRAWN"
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-$(($(nproc) + 2))}"
: "${HEAPTRIAL_DRAW:=$(git rev-parse --short=7 HEAD 2>/dev/null || echo 0)}"
export HEAPTRIAL_DRAW
case $which in
few)
	options=--quiet
	export HEAPTRIAL_HISTORIES="${HEAPTRIAL_HISTORIES:-6000}"
	;;
all)
	options=--include-ignored
	if [ "$HEAPTRIAL_DRAW" != all ]; then
		export HEAPTRIAL_HISTORIES="${HEAPTRIAL_HISTORIES:-5000}" HEAPTRIAL_HISTORIES_FROM="$((0x$HEAPTRIAL_DRAW))"
	fi
	;;
*)
	echo "usage: scripts/test.sh few|all [OPTIONS OF CARGO TEST]" >&2
	exit 2
	;;
esac

targets="--lib --bins --tests"
# Programs that tests start, by name; tests once for whoever looks at errors, and once for the names of the programs.
begun=$(date +%s)
"$cargo" build --locked --quiet --example probe --example churn_service --example private_directory --example systemd_jobs --example preflight_cases "$@"
# shellcheck disable=SC2086 # a list of words
"$cargo" test --locked --no-run --quiet $targets "$@"
# shellcheck disable=SC2086
"$cargo" test --locked --no-run --quiet --message-format=json $targets "$@" |
	sed -n 's|.*"manifest_path":"\([^"]*\)/Cargo.toml".*"profile":{[^}]*"test":true}.*"executable":"\([^"]*\)".*|\1 \2|p' |
	sort -u > "$folder/every"
grep '/crates/heaptrial ' "$folder/every" > "$folder/alone" || true
grep -v '/crates/heaptrial ' "$folder/every" > "$folder/beside" || true
echo "built in $(($(date +%s) - begun)) s; cases that are drawn: $HEAPTRIAL_DRAW"

# Runs one program where cargo would, and prints all of its output at once. Tests of hosts mostly wait: more of them go on at once.
cat > "$folder/run" << 'END'
folder=$(dirname "$0")
said="$folder/$(basename "$3")"
cd "$2"
code=0
begun=$(date +%s)
case "$3" in */host-*) export RUST_TEST_THREADS="${HEAPTRIAL_HOST_THREADS:-6}" ;; esac
"$3" "$1" > "$said" 2>&1 || code=$?
echo "$(($(date +%s) - begun)) s $(basename "$3")" >> "$folder/times"
[ "$code" = 0 ] || echo "FAILED $(basename "$3")" >> "$folder/failed"
if [ "$code" != 0 ] || [ "$1" != --quiet ]; then
	echo "== $(basename "$3")"
	cat "$said"
fi
grep -h '^test result' "$said" >> "$folder/results" || true
END
begun=$(date +%s)
xargs -P 1 -L 1 sh "$folder/run" "$options" < "$folder/alone" || true
xargs -P "$(nproc)" -L 1 sh "$folder/run" "$options" < "$folder/beside" || true

awk '{ passed += $4; failed += $6; ignored += $8 } END { print passed " tests passed, " failed " failed, " ignored " need more than this (make test)" }' "$folder/results"
echo "in $(($(date +%s) - begun)) s; the programs that took longest:"
sort -rn "$folder/times" | head -n 12
if [ -s "$HEAPTRIAL_NOT_DRAWN" ]; then
	echo "$(wc -l < "$HEAPTRIAL_NOT_DRAWN") tests for rare faults were not drawn this time (make reliability runs all):"
	sort "$HEAPTRIAL_NOT_DRAWN"
fi
code=0
if [ -s "$HEAPTRIAL_SKIPPED" ]; then
	sort -u -o "$HEAPTRIAL_SKIPPED" "$HEAPTRIAL_SKIPPED"
	echo "$(wc -l < "$HEAPTRIAL_SKIPPED") tests were SKIPPED; the counts of passed tests above include them:"
	cat "$HEAPTRIAL_SKIPPED"
	[ "${HEAPTRIAL_REQUIRE_ALL:-}" = 1 ] && code=1
elif [ "$which" = all ]; then
	echo "no test was skipped"
fi
if [ -e "$folder/failed" ]; then
	cat "$folder/failed"
	code=1
fi
exit "$code"
