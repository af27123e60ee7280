#!/bin/sh
# All tests, those that need root, containers, Tor or a browser among them. Tells at the end which were skipped, because
# the harness counts those as passed. With HEAPTRIAL_REQUIRE_ALL=1 a test that would be skipped fails.
# Usage: scripts/test.sh [OPTIONS OF CARGO TEST]
set -u
HEAPTRIAL_SKIPPED=$(mktemp)
export HEAPTRIAL_SKIPPED
trap 'rm -f "$HEAPTRIAL_SKIPPED"' EXIT
# As many threads as processors and one more: many tests wait.
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-$(($(nproc) + 1))}"
"${CARGO:-cargo}" test --locked --no-fail-fast "$@" -- --include-ignored
code=$?
sort -u -o "$HEAPTRIAL_SKIPPED" "$HEAPTRIAL_SKIPPED"
count=$(wc -l < "$HEAPTRIAL_SKIPPED")
if [ "$count" -gt 0 ]; then
	echo "$count tests were SKIPPED; the counts of passed tests above include them:"
	cat "$HEAPTRIAL_SKIPPED"
	[ "${HEAPTRIAL_REQUIRE_ALL:-}" = 1 ] && code=1
else
	echo "no test was skipped"
fi
exit "$code"
