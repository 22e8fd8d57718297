# Everything here needs Go and make only. `make` alone lists the targets.

VERSION ?= 1.0.0
COMMIT  := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
PKG     := ./cmd/pedelec-core
BIN     := bin/pedelec-core
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)

# The race detector needs a C compiler; without one the tests run without it.
CC_FOUND := $(shell command -v $$(go env CC | cut -d' ' -f1) 2>/dev/null)
RACE     := $(if $(CC_FOUND),-race)

SYSTEMS  := linux darwin windows
MACHINES := amd64 arm64
TARGETS  := $(foreach s,$(SYSTEMS),$(foreach m,$(MACHINES),$(s)/$(m)))

CRASH_ROUNDS ?= 100
FUZZTIME     ?= 30s
BENCHTIME    ?= 1s

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

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
	go test $(RACE) ./...

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
	go test ./... -run 'Golden|Docs' -update

.PHONY: clean
clean: ## Remove what the other targets built
	rm -rf bin dist
