# The whole project: `make setup | demo | test | lint | bench | docs`.

CARGO ?= cargo
DEMO_DURATION ?= 5m
DEMO_OPTIONS ?=

.PHONY: help setup setup-test build demo test lint bench clean

help:
	@echo "make setup   install what building and running needs (apt packages, a Rust toolchain)"
	@echo "make demo    six real Tor relays on a private network for $(DEMO_DURATION), then the report"
	@echo "make test    all tests"
	@echo "make lint    formatting, clippy, licences of dependencies"
	@echo "make bench   benchmarks; see docs/benchmarks.md"

setup:
	scripts/setup.sh run

setup-test:
	scripts/setup.sh test

build: setup
	$(CARGO) build --locked --release -p heaptrial

demo: build
	target/release/heaptrial lab tor --duration $(DEMO_DURATION) $(DEMO_OPTIONS)

test: setup-test
	$(CARGO) test --locked --workspace

lint: setup-test
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	scripts/check-dependencies.sh

bench: setup-test build
	scripts/bench.sh

clean:
	$(CARGO) clean
