# Harrier: `make help` lists what can be done here. Everything that is built once and costs minutes (Kubernetes, the
# linter) is kept outside of the tree, below HARRIER_CACHE or ~/.cache/harrier.

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VERSION    ?= dev
COMMIT_SHA ?= $(shell git rev-parse --short HEAD 2>/dev/null || echo unknown)

BUILD_PACKAGE := github.com/harrier-ci/harrier/internal/build
LDFLAGS       := -s -w -X $(BUILD_PACKAGE).Version=$(VERSION) -X $(BUILD_PACKAGE).CommitSHA=$(COMMIT_SHA)

# Packages whose tests need root and a machine of their own.
ROOT_TESTS := ./test/e2e/...
TESTS       = $(shell go list ./... | grep -v /test/e2e)

##@ See it work

.PHONY: demo
demo: preflight ## Start a real cluster, run 20 jobs on it, tear it down (root, Debian; KEEP=1 leaves it, CLUSTER=current IMG=… uses yours)
	@go run ./hack/demo

.PHONY: demo-down
demo-down: preflight ## Tear down what KEEP=1 left running
	@go run ./hack/demo down

##@ Develop

.PHONY: build
build: preflight ## Compile manager and listener into bin/
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/manager ./cmd/manager
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/ghalistener ./cmd/listener

.PHONY: generate
generate: preflight ## Write deep copies, CRDs and the chart's copies of them from the API types
	hack/generate.sh

.PHONY: lint
lint: preflight ## Check style, generated files, scripts and charts
	hack/lint.sh

.PHONY: test
test: preflight ## Run every test that needs no root, on a real etcd and API server, with the race detector
	HARRIER_KUBERNETES="$$(hack/kubernetes.sh)" go test -race -timeout 14m $(TESTS)

# SEED repeats one run, SEEDS makes the first so many, HOURS goes on with new ones. A run takes two to three minutes.
SEEDS    ?= 4
PARALLEL ?= 4
CHAOS     = $(if $(HOURS),-chaos.hours $(HOURS) -timeout 0,$(if $(SEED),-chaos.seed $(SEED),-chaos.seeds $(SEEDS)) -timeout 60m)

.PHONY: chaos
chaos: preflight ## Break everything while jobs run, at times that follow from a seed (SEED=7, SEEDS=20 or HOURS=8)
	HARRIER_KUBERNETES="$$(hack/kubernetes.sh)" go test -count 1 -v -run '^TestChaos$$' -parallel $(PARALLEL) ./test/chaos $(CHAOS)

.PHONY: e2e
e2e: preflight ## Install the charts on a real cluster, run jobs, upgrade, uninstall (root, Debian)
	go test -count 1 -timeout 24m -v $(ROOT_TESTS)

SCENARIO  ?= burst
LOAD_LINE  = $(if $(N),-n $(N)) $(if $(JSON),-json $(abspath $(JSON))) $(LOAD)

.PHONY: load
load: preflight ## Measure under load: SCENARIO=burst|latency|churn|sets|hang|drain|soak|big N=1000 JSON=file LOAD='more flags'
	HARRIER_KUBERNETES="$$(hack/kubernetes.sh)" go test -count 1 -timeout 90m -v -run '^TestLoad$$' ./test/load -args -scenario $(SCENARIO) $(LOAD_LINE)

.PHONY: load-check
load-check: preflight ## A burst of 100 jobs against the budgets that hold on every machine (part of make test)
	HARRIER_KUBERNETES="$$(hack/kubernetes.sh)" go test -count 1 -timeout 5m -v -run '^TestLoad$$' ./test/load

##@ Ship

.PHONY: image
image: preflight ## Build the images into dist/ without a container engine: product.tar and demo.tar
	go run ./hack/images build dist

.PHONY: push
push: preflight ## Push the images to the registry that IMG names, with the login of `docker login`
	@test -n "$(IMG)" || { echo "say where to: make image push IMG=registry.example.com/team/harrier:test" >&2; exit 1; }
	go run ./hack/images push $(IMG)

##@ Help

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} \
		/^##@/ {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z0-9-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: preflight
preflight:
	@command -v go >/dev/null || { echo "Go is not installed or not on PATH; install Go $$(awk '$$1 == "go" {print $$2}' go.mod) or newer" >&2; exit 1; }
	@go version >/dev/null || { echo "this Go is older than go.mod wants: install Go $$(awk '$$1 == "go" {print $$2}' go.mod) or newer" >&2; exit 1; }
