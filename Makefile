# Everything here needs Go and make only. `make` alone lists the targets.

VERSION ?= 1.0.0
COMMIT  := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
PKG     := ./cmd/pedelec-core
BIN     := bin/pedelec-core
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)

# The race detector needs a C compiler; without one the tests run without it.
CC_FOUND := $(shell command -v $$(go env CC | cut -d' ' -f1) 2>/dev/null)
RACE     := $(if $(CC_FOUND),-race)

# Packages that assert allocation counts, of which some hold only without the
# race detector.
COUNTED  := $(sort $(dir $(shell grep -rl --include='*_test.go' 'testing\.AllocsPerRun' internal)))

SYSTEMS  := linux darwin windows
MACHINES := amd64 arm64
TARGETS  := $(foreach s,$(SYSTEMS),$(foreach m,$(MACHINES),$(s)/$(m)))

CRASH_ROUNDS ?= 100
FUZZTIME     ?= 30s
FUZZ         ?=
SOAK         ?= 10m

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/pedelec-core: static, stripped, reproducible
	@mkdir -p bin
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN) $(PKG)

.PHONY: demo
demo: build ## Build, then run the whole job once in a temporary home, checking each step
	@$(BIN) demo

.PHONY: test
test: ## Run all tests, with the race detector where a C compiler is found
ifeq ($(CC_FOUND),)
	@echo "No C compiler found: the tests run without the race detector."
endif
	go test $(RACE) -timeout 30m ./...
ifneq ($(RACE),)
	go test -run Alloc $(COUNTED:%=./%)
endif

.PHONY: test-js
test-js: build ## Test the JavaScript module, also against the daemon; needs node 20
	@if command -v node >/dev/null; then PEDELEC_CORE="$(abspath $(BIN))" node --test client/js/test/*.test.js; \
	else echo "No node found: the JavaScript module is not tested."; fi

.PHONY: lint
lint: ## Check formatting, go vet for every system, staticcheck
	@bad="$$(gofmt -l cmd internal *.go)"; [ -z "$$bad" ] || { echo "gofmt would change:"; echo "$$bad"; exit 1; }
	@for t in $(TARGETS); do \
		echo "go vet $$t"; CGO_ENABLED=0 GOOS=$${t%/*} GOARCH=$${t#*/} go vet ./... || exit 1; \
	done
	go tool staticcheck ./...

.PHONY: arch
arch: ## Check who imports whom, file lengths, package comments
	go test -count=1 .

.PHONY: bench
bench: ## Measure the promised figures, into docs/BENCHMARKS.md
	go test ./internal/e2e -run '^TestBench$$' -count=1 -timeout 60m -v -args -bench.write=docs/BENCHMARKS.md

.PHONY: crash
crash: ## Kill the daemon, then agents, in CRASH_ROUNDS rounds each (100): at random moments and at every failpoint
	go test ./internal/e2e -run '^TestCrash(OfAgents)?$$' -count=1 -timeout 120m -v -args -crash.rounds=$(CRASH_ROUNDS)

.PHONY: fuzz
fuzz: ## Run every fuzz test for FUZZTIME (30s), side by side; FUZZ=PATTERN picks some by folder/name
	go run ./internal/fuzzall -fuzztime $(FUZZTIME) -run '$(FUZZ)'

.PHONY: soak
soak: ## Run mixed load for SOAK (10m); print what the daemon holds as a table, and fail if it grows
	go test ./internal/e2e -run '^TestSoak$$' -count=1 -timeout 0 -v -args -soak=$(SOAK)

.PHONY: e2e-real
e2e-real: ## Drive the real Codex, OpenCode and Claude Code against a model server on loopback; needs npm the first time
	go test ./internal/e2e -run '^TestReal' -count=1 -timeout 30m -v -args -real

.PHONY: e2e-browser
e2e-browser: ## Drive the demo page, the inspector and file transfers in Chromium; needs root or chromium, and npm the first time
	go test ./internal/e2e -run '^TestBrowser' -count=1 -timeout 30m -v -args -browser

.PHONY: cross
cross: ## Build for linux, darwin and windows, amd64 and arm64, into dist/
	@mkdir -p dist
	@for t in $(TARGETS); do \
		s=$${t%/*}; m=$${t#*/}; e=; [ $$s = windows ] && e=.exe; \
		echo "dist/pedelec-core-$$s-$$m$$e"; \
		CGO_ENABLED=0 GOOS=$$s GOARCH=$$m go build -trimpath -ldflags '$(LDFLAGS)' -o dist/pedelec-core-$$s-$$m$$e $(PKG) || exit 1; \
	done

.PHONY: generate
generate: ## Write the generated tables of docs/ again
	go test ./internal/ipc -count=1 -run ErrorDocument -update
	go test ./cmd/pedelec-core -count=1 -run Docs -update

.PHONY: clean
clean: ## Remove what the other targets built
	rm -rf bin dist
