# make demo   shows what rules do, in half a minute; then compares a private MariaDB with and without Flifo on this
#             machine, in two topologies, which takes 8 minutes.
#             Options: make demo DEMO='--with haproxy --clients 8,512'; see flifo demo --help.
# make check  what needs no server: format, lints, unit tests, the rules of sources, a minute of simulated worlds.
# make test   checks format, lints and dependencies, and runs all tests.
# make package   builds the Debian package in target/package; needs no root. The maintainer is DEBFULLNAME <DEBEMAIL>.
#             Options: make package REVISION=2.
# The first and the third install what is missing with apt-get, as root or with sudo; see packaging/install-deps.sh.

TARGET := $(or $(CARGO_TARGET_DIR),target)
# What a server makes before its first start is made once for all tests of a run.
KEPT := $(abspath $(TARGET))/kept-data

# Tests wait for servers most of the time: with two tests for each CPU, three fifths of the CPUs are idle for minutes.
TESTS := $(shell echo $$(( $$(nproc) * 3 )))

SHELL := /bin/bash
.PHONY: check demo package test
.NOTPARALLEL:

demo:
	@packaging/install-deps.sh demo
	@cargo build --release --package flifo --package flifo-bench
	@$(TARGET)/release/flifo demo --rules
	@$(TARGET)/release/flifo demo $(if $(findstring --sysbench,$(DEMO)),,--html $(TARGET)/demo.html) $(DEMO)

check:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo test --workspace --lib --bins
	cargo test --package testkit --test it -- tidy:: structure:: words::
	cargo run --quiet --package xtask -- sim --seconds 60

test:
	@packaging/install-deps.sh test
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	PATH="$(abspath $(TARGET))/tools/bin:$$PATH" cargo deny --log-level error check licenses bans sources
	@rm -rf $(KEPT) && mkdir -p $(KEPT)
	@# How long a test takes is told by an option that is not stable yet: the tests alone see that they may use it.
	@set -o pipefail; host=$$(rustc -vV | sed -n 's/host: //p' | tr a-z- A-Z_) \
		&& export FLIFO_IS_BUILT=1 FLIFO_KEPT_DATA=$(KEPT) RUST_TEST_THREADS=$(TESTS) \
		&& env "CARGO_TARGET_$${host}_RUNNER=env RUSTC_BOOTSTRAP=1" \
			cargo test --workspace -- -Z unstable-options --report-time | tee $(TARGET)/tests.txt
	@echo 'The slowest tests:'
	@sed -n 's/^test \(.*\) \.\.\. ok <\(.*\)s>$$/\2 s  \1/p' $(TARGET)/tests.txt | sort -nr | head

package:
	@cargo build --release --locked --package flifo --package flifo-bench
	@rm -rf $(TARGET)/package
	@packaging/package.sh --revision $(or $(REVISION),1) $(TARGET)/release $(TARGET)/package
