# The whole project: `make help` lists the targets.

CARGO ?= cargo
DEMO_DURATION ?= 8m
DEMO_ENTRIES ?= 4000
DEMO_OPTIONS ?=
DEMO_FIELD_INSTANCES ?= 15

.PHONY: help setup setup-test build deb book demo demo-field demo-fleet reliability calibrate check test lint lint-text bench clean

help:
	@echo "make setup   install what building and running needs (apt packages, a Rust toolchain)"
	@echo "make demo    six real Tor relays on a private network for $(DEMO_DURATION), then the report"
	@echo "make demo-field  a trial on real relays in a throw-away container: plan, start, look, rollout, revert, report"
	@echo "make demo-fleet  a trial over four hosts by Ansible, from the installation to a watch and back"
	@echo "make check   the tests that need no root, container, Tor or browser: what to run while working"
	@echo "make test    all tests; lists which were skipped (HEAPTRIAL_REQUIRE_ALL=1: none may be)"
	@echo "make deb     Heaptrial as a Debian package, in target/debian"
	@echo "make book    the page of commands, and the book where mdBook is installed"
	@echo "make lint    formatting, clippy, licences of dependencies, prose"
	@echo "make bench   benchmarks; see notebook"
	@echo "make reliability  every case of the tests for rare faults; see docs/rollback-by-hand.md"
	@echo "make calibrate  the simulations behind docs/calibration.md at full size"

setup:
	scripts/setup.sh run

setup-test:
	scripts/setup.sh test

build: setup
	$(CARGO) build --locked --release -p heaptrial

deb: build
	scripts/setup.sh deb
	scripts/deb.sh target/release/heaptrial target/debian

book:
	CARGO="$(CARGO)" scripts/book.sh

demo: build
	target/release/heaptrial lab tor --entries $(DEMO_ENTRIES) --duration $(DEMO_DURATION) $(DEMO_OPTIONS)

demo-field: setup-test build
	$(CARGO) build --locked --release -p heaptrial --examples
	$(CARGO) run --locked --release -p heaptrial-testbed --bin demo_field -- target/release heaptrial-runs/demo-field $(DEMO_FIELD_INSTANCES)

demo-fleet: setup-test deb
	$(CARGO) build --locked --release -p heaptrial --examples
	$(CARGO) run --locked --release -p heaptrial-testbed --bin demo_fleet -- target/release target/debian/heaptrial_*.deb heaptrial-runs/demo-fleet

# Every case of the tests that otherwise run a drawn part of theirs: kills at every system call, a hundred power cuts, ...
reliability: setup-test
	HEAPTRIAL_DRAW=all CARGO="$(CARGO)" scripts/test.sh all --workspace --exclude heaptrial-bench

# The simulations behind docs/calibration.md at full size, as Markdown in target/calibration.
calibrate: setup
	scripts/calibrate.sh target/calibration

check:
	CARGO="$(CARGO)" scripts/test.sh few --workspace --exclude heaptrial-bench

test: setup-test
	CARGO="$(CARGO)" scripts/test.sh all --workspace --exclude heaptrial-bench

lint: lint-text
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

# All that needs no compiler.
lint-text: setup-test
	$(CARGO) fmt --all --check
	scripts/check-dependencies.sh
	scripts/lint-ansible.sh
	scripts/lint-monitoring.sh
	scripts/lint-prose.py

bench: setup-test build
	scripts/bench.sh

clean:
	CARGO="$(CARGO)" scripts/clean.sh
