# Two commands matter: `make demo` shows Sluice at work, `make test` passes all tests; `make check` is for daily work.
# They install what they need. `make help` lists the rest.

SHELL   := /bin/bash
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
TOOLS   := $(CURDIR)/.cache/bin
# A go that is new enough, or that can fetch one that is. Looked for when it is used: deps may bring it.
GO      = $(or $(shell scripts/go 2>/dev/null),go)
export GO
export GOTOOLCHAIN ?= auto
GOTEST  = $(GO) test
LINT    := $(TOOLS)/golangci-lint
NFPM    := $(TOOLS)/nfpm
SBOM    := $(TOOLS)/sbom
VULN    := $(TOOLS)/govulncheck
FUZZ    ?= 3s
# What computes for long in one goroutine, waits for a browser, or runs the documents' commands (of programs that have tests of their own): `long` and `faults` run it in full, without the race detector, under which it takes ten times as long.
NORACE  := ./internal/control/bandwidth ./internal/control/placement ./internal/edge/page/browsertest ./internal/research/fluid ./internal/research/oracle \
	./internal/research/reproduce ./internal/research/scenario ./internal/research/sim ./internal/research/trace ./internal/research/workload ./internal/tests/docs \
	./lab/bench
LDFLAGS := -s -w -X main.linked=$(VERSION)

.PHONY: help demo build man test check lab lint unit race long faults fuzz lab-test measure deps tools package sbom vuln clean FORCE

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: bin/sluice ## the daemon over a simulated host of 100 VMs and 63 VFs, faster than real time
	$(if $(FLEET),scripts/fleet-demo,bin/sluice demo $(DEMO))

build: bin/sluice bin/sluiced bin/sluice-guest bin/sluice-cni man ## bin/sluice, the daemon bin/sluiced, the guests' bin/sluice-guest and bin/sluice-cni, and the manual, bin/man

bin/sluice: FORCE | deps-demo
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "$(LDFLAGS)" -o $@ ./cmd/sluice

bin/sluiced: FORCE | deps-demo
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "$(LDFLAGS)" -o $@ ./cmd/sluiced

bin/sluice-guest: FORCE | deps-demo
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "$(LDFLAGS)" -o $@ ./cmd/sluice-guest

bin/sluice-cni: FORCE | deps-demo
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "$(LDFLAGS)" -o $@ ./cmd/sluice-cni

man: | deps-demo ## man pages, in bin/man
	$(GO) run ./internal/edge/cli/manual bin/man docs/config.md
	cp packaging/man/* bin/man/

package: $(NFPM) $(SBOM) | deps-demo ## .deb and .rpm for hosts and for VMs with virtual PFs, in dist/
	NFPM=$(NFPM) SBOM=$(SBOM) scripts/package $(ARCH)

sbom: package ## software bills of materials (CycloneDX), dist/*.cdx.json; the packages have them too

vuln: $(VULN) | deps-demo ## known vulnerabilities in what the programs call; needs https://vuln.go.dev
	scripts/vuln $(VULN)

FORCE:

test: deps ## everything that must pass, in 40 to 75 minutes on a quiet machine of 2 cores; says how long each part took
	@MAKE="$(MAKE)" scripts/parts build lint race long faults fuzz lab-test && echo "all tests passed"

check: deps ## for daily work, within 4 minutes: build, lint, and the short form of all tests but the lab's and the browser's
	@MAKE="$(MAKE)" scripts/parts build lint unit && echo "all checks passed"

lint: tools ## gofumpt, vet, staticcheck and more (golangci-lint); shellcheck
	$(LINT) run ./...
	$(LINT) run --build-tags lab ./lab/...
	shellcheck -S warning $$(git ls-files -z | xargs -0 grep -lIE '^#!.*(bash|/sh|dash)' -- | grep -vE "busybox|\.txtar$$")

unit: $(NFPM) $(SBOM) ## the short form of unit and integration tests; what has not changed since it passed is not run again
	SLUICE_TEST_NO_BROWSER=1 $(GOTEST) -short -timeout 10m ./...

race: $(NFPM) $(SBOM) ## unit and integration tests under the race detector, but for the packages in NORACE
	$(GOTEST) -race -short -timeout 20m $$($(GO) list ./... | grep -vxF $(NORACE:./%=-e sluice/%))

long: ## in full, without the race detector: what is in NORACE or has a short form; guarantees on real kernel queues and real TCP
	$(GOTEST) -count=1 -timeout 20m $$({ printf '%s\n' $(NORACE); git grep -l 'testing\.Short()' -- '*_test.go' | xargs -n 1 dirname | sed 's|^|./|'; } | sort -u | grep -vE '/(sim|bench)$$')
	$(GOTEST) -count=1 ./lab/bench
	SLUICE_BENCH_SHORT=1 scripts/measure bwcost

faults: ## the tests on the simulated host: 3,000 random fault schedules and 300 of what may break guarantees (scripts/measure faults: 10,000 and 500), kills at every step
	$(GOTEST) -timeout 30m ./internal/research/sim -schedules 3000 -promised 300

fuzz: ## each fuzz target for a moment (FUZZ=5m for longer)
	scripts/fuzz $(FUZZ)

# Each lab is one emulated processor: as many run at once as this machine has.
lab-test: build package ## the daemon on the real host with SR-IOV in QEMU
	SLUICE_LAB_SLOTS=$${SLUICE_LAB_SLOTS:-$$(nproc)} $(GOTEST) -tags lab -count=1 -timeout 70m $$($(GO) list -tags lab ./lab/... ./internal/... | grep -E '^sluice/lab|/labtest$$' | grep -v /lab/bench)

lab: deps build ## the daemon on the real host in QEMU, and a shell there
	$(GO) run ./lab/cmd/labctl up
	scripts/lab-start

measure: deps build ## the figures of docs/appendix/measurements.md
	scripts/measure

deps: deps-test ## Debian packages that the tests need

deps-%:
	@scripts/deps $*

tools: $(LINT) $(NFPM) $(SBOM)

$(LINT):
	GOBIN=$(TOOLS) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

$(NFPM):
	GOBIN=$(TOOLS) $(GO) install github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.0

$(SBOM): packaging/sbom/main.go packaging/sbom/go.mod
	cd packaging/sbom && $(GO) build -o $@ .

$(VULN):
	GOBIN=$(TOOLS) $(GO) install golang.org/x/vuln/cmd/govulncheck@v1.8.0

clean: ## what was built; the lab's cache stays
	rm -rf bin dist .cache
