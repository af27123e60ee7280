#!/bin/sh
# Runs tests, as many programs of them at once as there are processors, since most of them wait for something.
#
#   scripts/test.sh few [OPTIONS OF CARGO TEST]   those that need no root, container, Tor or browser: what to run while working. The
#                                                 property test of the transaction draws fewer histories.
#   scripts/test.sh all [OPTIONS OF CARGO TEST]   all. Tells at the end which were skipped, because the harness counts those as
#                                                 passed; with HEAPTRIAL_REQUIRE_ALL=1 a test that would be skipped fails.
set -eu
cargo=${CARGO:-cargo}
which=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export HEAPTRIAL_SKIPPED="$folder/skipped"
: > "$HEAPTRIAL_SKIPPED"
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-$(($(nproc) + 1))}"
case $which in
few)
	options=--quiet
	export HEAPTRIAL_HISTORIES="${HEAPTRIAL_HISTORIES:-6000}"
	;;
all) options=--include-ignored ;;
*)
	echo "usage: scripts/test.sh few|all [OPTIONS OF CARGO TEST]" >&2
	exit 2
	;;
esac

# Once for whoever looks at errors, and once for the names of the programs. Those of the binary itself come first: they last longest.
"$cargo" test --locked --no-run --quiet "$@"
"$cargo" test --locked --no-run --quiet --message-format=json "$@" |
	sed -n 's|.*"manifest_path":"\([^"]*\)/Cargo.toml".*"profile":{[^}]*"test":true}.*"executable":"\([^"]*\)".*|\1 \2|p' |
	sort -u > "$folder/every"
grep '/crates/heaptrial ' "$folder/every" > "$folder/programs" || true
grep -v '/crates/heaptrial ' "$folder/every" >> "$folder/programs" || true

# Runs one program where cargo would, and tells all that it said at once.
cat > "$folder/run" << 'END'
folder=$(dirname "$0")
said="$folder/$(basename "$3")"
cd "$2"
code=0
begun=$(date +%s)
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
xargs -P "$(nproc)" -L 1 sh "$folder/run" "$options" < "$folder/programs" || true
if [ "$which" = all ]; then
	"$cargo" test --locked --doc --quiet "$@" || echo "FAILED tests of the documentation" >> "$folder/failed"
fi

awk '{ passed += $4; failed += $6; ignored += $8 } END { print passed " tests passed, " failed " failed, " ignored " need more than this (make test)" }' "$folder/results"
echo "in $(($(date +%s) - begun)) s; the programs that took longest:"
sort -rn "$folder/times" | head -n 12
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
