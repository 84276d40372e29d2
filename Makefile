# Everything that is checked is checked from here; CI calls these targets.
# Go is needed, and Redis and Postgres to run the tests against, which the
# target servers installs where it may. Of Go modules nothing is downloaded but
# what go.sum names.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The tags of builds that exist for tests only: with a fault point at every
# step, and with one guard taken out, to show that its absence is noticed.
TEST_TAGS = $(shell grep -rh '^//go:build' --include='*.go' . | grep -oE 'faultpoint|mutant_[a-z_]+' | sort -u | paste -sd,)

# How long each fuzz target runs, and which: make fuzz FUZZ_TIME=1m FUZZ_ONLY='ParseID'
FUZZ_TIME := 10s
FUZZ_ONLY := .

# What the tests are given: make test ARGS='-run TestAccept'
ARGS :=

.PHONY: help run test race chaos servers lint generate check fuzz bench bench-ledger bench-crowd
.PHONY: imports tidy format vet staticcheck exhaustive vulnerabilities

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 20

run: ## play the demo, then serve API and dashboard on 127.0.0.1:8080
	go run ./cmd/notifier demo

test: servers ## run every test
	go test -timeout 20m $(ARGS) ./...

chaos: servers ## play every fault on three nodes over Postgres and Redis, hold latencies to their bounds, print the table
	NOTIFIER_MEASURE=1 go test -count=1 -timeout 40m -v -run 'TestChaosMatrix|TestStalls|TestNodes|TestStorm|TestCrash' $(ARGS) ./cmd/notifier

race: servers ## run every test under the race detector
	go test -race $(ARGS) ./...

servers: ## install redis-server and postgresql for the tests, where missing
	@servertest/install.sh

lint: format vet staticcheck exhaustive vulnerabilities ## format, go vet, staticcheck, exhaustive switches, known vulnerabilities

generate: ## write generated code anew
	go generate ./...

check: lint imports tidy fuzz race test ## everything that CI checks

# Before Go 1.27 a target whose time ends while a worker stops is reported as
# failed, without an input that fails (go.dev/issue/75804): such a run, and no
# other, is made again.
fuzz: ## run each fuzz target for ten seconds
	@list=$$(go test -list '^Fuzz' ./... | awk '/^Fuzz/ { t = t " " $$1 } /^ok/ { n = split(t, f, " "); for (i = 1; i <= n; i++) print $$2, f[i]; t = "" }'); \
	list=$$(grep -E '$(FUZZ_ONLY)' <<<"$$list" || true); \
	test -n "$$list" || { echo "no fuzz target matches $(FUZZ_ONLY)"; exit 1; }; \
	out=$$(mktemp); trap 'rm -f "$$out"' EXIT; \
	while read -r package target; do \
		for round in 1 2 3; do \
			echo "$$package $$target"; \
			if go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZ_TIME) -parallel 2 "$$package" </dev/null 2>&1 | tee "$$out"; then break; fi; \
			test $$round -lt 3 && grep -qx '    context deadline exceeded' "$$out" && ! grep -qE 'Failing input|panic:|\.go:[0-9]+:' "$$out" || exit 1; \
			echo "the time ended between two steps of the fuzzer (go.dev/issue/75804): again"; \
		done; \
	done <<<"$$list"

bench: ## measure accept to sent beside a bare chain of two hops; BENCH="-soak 10m" watches memory for long
	go run ./cmd/notifier bench -pending 1000000 $(BENCH)
	go run ./servertest/with -- sh -c 'go run ./cmd/notifier bench -ledger "$$LEDGER" -claims "$$CLAIMS" -pending 1000000 $(BENCH)'

bench-ledger: servers ## measure a ledger of 1 M and of 10 M sent deliveries, and one with a transaction held open (10 GB of disk, ten minutes)
	NOTIFIER_MEASURE=1 go test -count=1 -timeout 40m -v -run '^TestMeasure_' $(ARGS) ./ledger/postgres

bench-crowd: servers ## measure one account's high lane beside a dead account and a bulk tenant with a million due
	NOTIFIER_MEASURE=1 go test -count=1 -timeout 40m -v -run '^TestMeasureCrowd' $(ARGS) ./cmd/notifier

# The parts of lint and check.

imports:
	go test -run '^TestImports' .

# Tidying asks for modules that no build needs, the tests of what we use among
# them: where those are out of reach, that is said and is no failure.
tidy:
	go mod verify
	@out=$$(mktemp); trap 'rm -f "$$out"' EXIT; \
	if go mod tidy -diff >"$$out" 2>&1; then echo "go.mod is tidy"; \
	elif grep -q '^diff ' "$$out"; then cat "$$out"; exit 1; \
	elif grep -qE 'dial tcp|no such host|module lookup disabled' "$$out"; then echo "modules unreachable: tidiness not checked"; \
	else cat "$$out"; exit 1; fi

format:
	@unformatted=$$(git ls-files -co --exclude-standard '*.go' | xargs gofmt -l); \
	test -z "$$unformatted" || { echo "gofmt wants to change:"; echo "$$unformatted"; exit 1; }

vet:
	go vet ./...
	go vet -tags '$(TEST_TAGS)' ./...

staticcheck:
	go tool staticcheck ./...
	go tool staticcheck -tags '$(TEST_TAGS)' ./...

# A switch over a closed set of ours names every member, a default or not, so
# that a new member is met by the compiler's reader and not by a customer.
# Reasons and codes are long lists of which a switch picks a few.
exhaustive:
	go tool exhaustive -typeignore '\.(Reason|Code)$$' -typeignore '^([a-z]+(/[a-z0-9]+)*|go\.yaml\.in/.*|golang\.org/.*)\.[A-Z]' ./...

# The database is asked over the network. Without one nothing is known, which
# is said and is no failure; a finding is one.
vulnerabilities:
	@out=$$(mktemp); trap 'rm -f "$$out"' EXIT; \
	if go tool govulncheck ./... >"$$out" 2>&1; then tail -n 3 "$$out"; \
	elif grep -q 'govulncheck: fetching vulnerabilities' "$$out"; then echo "vulnerability database unreachable: not checked"; \
	else cat "$$out"; exit 1; fi
