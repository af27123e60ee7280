#!/bin/sh
# Benchmarks; method and results in notebook/. Prints Markdown tables.
set -eu
cd "$(dirname "$0")/.."
cargo build --locked --release -p heaptrial -p heaptrial-bench --bins
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
cc -O2 -o "$build/sample" bench/sample.c
python=
if python3 -m venv "$build/venv" >/dev/null 2>&1 && "$build/venv/bin/pip" -q install psutil pandas scipy; then
    python=$build/venv/bin/python
else
    echo "psutil, pandas and scipy could not be installed; their rows are missing" >&2
fi
python3 bench/sample.py target/release/sample_cost "$build/sample" $python
target/release/identify_cost
target/release/report_million
target/release/import_million
python3 bench/fleet.py target/release/heaptrial $python
target/release/stats_speed
target/release/analyse_speed
