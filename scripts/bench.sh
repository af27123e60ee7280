#!/bin/sh
# Benchmarks; method and results in docs/benchmarks.md. Prints Markdown tables.
set -eu
cd "$(dirname "$0")/.."
cargo build --locked --release -p heaptrial-host --example sample_cost
cargo build --locked --release -p heaptrial-report --example report_million
cargo build --locked --release -p heaptrial-allocator --example identify_cost
cargo build --locked --release -p heaptrial-exchange --example million
cargo build --locked --release -p heaptrial-stats --example speed
cargo build --locked --release -p heaptrial-analysis --examples
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
cc -O2 -o "$build/sample" bench/sample.c
python=
if python3 -m venv "$build/venv" >/dev/null 2>&1 && "$build/venv/bin/pip" -q install psutil pandas scipy; then
    python=$build/venv/bin/python
else
    echo "psutil, pandas and scipy could not be installed; their rows are left out" >&2
fi
python3 bench/sample.py target/release/examples/sample_cost "$build/sample" $python
target/release/examples/identify_cost
target/release/examples/report_million
target/release/examples/million
python3 bench/fleet.py target/release/heaptrial $python
target/release/examples/speed
target/release/examples/analyse_speed
target/release/examples/calibrate
