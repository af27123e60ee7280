# The whole project: `make setup | demo | check | test | lint | bench | docs`.

CARGO ?= cargo
DEMO_DURATION ?= 8m
DEMO_OPTIONS ?=
DEMO_FIELD_INSTANCES ?= 10

.PHONY: help setup setup-test build deb demo demo-field demo-fleet reliability check test lint bench clean

help:
	@echo "make setup   install what building and running needs (apt packages, a Rust toolchain)"
	@echo "make demo    six real Tor relays on a private network for $(DEMO_DURATION), then the report"
	@echo "make demo-field  a trial on real relays in a throw-away container: plan, start, look, revert, report"
	@echo "make demo-fleet  a trial over four hosts by Ansible, from the installation to a watch and back"
	@echo "make check   the tests that need no root, container, Tor or browser: what to run while working"
	@echo "make test    all tests; tells which were skipped (HEAPTRIAL_REQUIRE_ALL=1: none may be)"
	@echo "make deb     Heaptrial as a Debian package, in target/debian"
	@echo "make lint    formatting, clippy, licences of dependencies"
	@echo "make bench   benchmarks; see docs/benchmarks.md"
	@echo "make reliability  kills and power cuts at every step, with counts; see docs/reliability.md"

setup:
	scripts/setup.sh run

setup-test:
	scripts/setup.sh test

build: setup
	$(CARGO) build --locked --release -p heaptrial

deb: build
	scripts/setup.sh deb
	scripts/deb.sh target/release/heaptrial target/debian

demo: build
	target/release/heaptrial lab tor --processors 64 --duration $(DEMO_DURATION) $(DEMO_OPTIONS)

demo-field: setup-test build
	$(CARGO) build --locked --release -p heaptrial --examples
	$(CARGO) run --locked --release -p heaptrial-testbed --example demo_field -- target/release heaptrial-runs/demo-field $(DEMO_FIELD_INSTANCES)

demo-fleet: setup-test deb
	$(CARGO) build --locked --release -p heaptrial --examples
	$(CARGO) run --locked --release -p heaptrial-testbed --example demo_fleet -- target/release target/debian/heaptrial_*.deb heaptrial-runs/demo-fleet

# The same tests as in `make test`, over every system call and a hundred power cuts.
reliability: setup-test
	$(CARGO) build --locked -p heaptrial --bins --examples
	HEAPTRIAL_FAULT_WALK=all HEAPTRIAL_POWER_CUTS=100 $(CARGO) test --locked -p heaptrial --test host field_faults:: -- --include-ignored --nocapture --test-threads 1

check:
	CARGO="$(CARGO)" scripts/test.sh few --workspace

test: setup-test
	CARGO="$(CARGO)" scripts/test.sh all --workspace

lint: setup-test
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	scripts/check-dependencies.sh
	scripts/lint-ansible.sh
	scripts/lint-monitoring.sh

bench: setup-test build
	scripts/bench.sh

clean:
	CARGO="$(CARGO)" scripts/clean.sh
