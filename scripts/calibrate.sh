#!/bin/sh
# The simulations behind docs/calibration.md at full size: `calibrate.sh FOLDER` writes their tables there as Markdown, with the
# commit that they are of. Takes hours on two processors.
set -eu
[ $# = 1 ] || { echo "usage: $0 FOLDER" >&2; exit 2; }
mkdir -p "$1"
out=$(realpath "$1")
cd "$(dirname "$0")/.."
cargo build --locked --release -p heaptrial-bench --bins
commit=$(git rev-parse --short HEAD)
for tables in "analysis 300 1" "power" "bisect 500" "tune 100" "watch 100 1"; do
    set -- $tables
    name=$1
    shift
    echo "calibrate_$name $*" >&2
    { echo "<!-- calibrate_$name $*, commit $commit -->"; "target/release/calibrate_$name" "$@"; } >"$out/$name.md.unfinished"
    mv "$out/$name.md.unfinished" "$out/$name.md"
done
