#!/bin/sh
# Runs every fuzz target for a number of seconds each (default 60), one after the other.
# Needs a nightly toolchain and `cargo install cargo-fuzz`. TARGET_DIR moves the build out of the way.
set -eu
cd "$(dirname "$0")"
seconds=${1:-60}
target_dir=${TARGET_DIR:-target}
# SQLite, which no target calls, is built such that the sanitizer takes one of its constants for a double definition.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_odr_violation=0"
# New inputs stay out of corpus/, which holds few chosen ones.
found="$target_dir/corpus"
for target in $(cargo +nightly fuzz list --fuzz-dir .); do
    echo "== $target, $seconds s"
    mkdir -p "$found/$target"
    cargo +nightly fuzz run --fuzz-dir . --target-dir "$target_dir" "$target" "$found/$target" "corpus/$target" -- \
        -max_total_time="$seconds" -max_len=4096 -rss_limit_mb=2048 -print_final_stats=1
done
