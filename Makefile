# Harrier: `make help` lists what can be done here. Everything that is built once and costs minutes (Kubernetes, the
# linter) is kept outside of the tree, below HARRIER_CACHE or ~/.cache/harrier.

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VERSION    ?= dev
COMMIT_SHA ?= $(shell git rev-parse --short HEAD 2>/dev/null || echo unknown)

BUILD_PACKAGE := github.com/harrier-ci/harrier/internal/build
# Without :=, by which make would evaluate whatever VERSION is for every target, and it may be the name of a tag.
LDFLAGS        = -s -w -X $(BUILD_PACKAGE).Version=$(VERSION) -X $(BUILD_PACKAGE).CommitSHA=$(COMMIT_SHA)

# Packages whose tests need root and a machine of their own.
ROOT_TESTS := ./test/e2e/...
# The slowest come first, so that they don't run alone at the end. The race detector watches the programs that integration
# and chaos start, and every package of the core but SIMULATED: their tests play hours in bubbles of fake time, or
# histories by the thousand, and it makes them four to eighteen times slower, by half an hour of CPU. It sees the same code
# at work in those programs.
SIMULATED  := $(patsubst %,./internal/%,controller/autoscalingrunnerset controller/autoscalinglistener \
	controller/ephemeralrunner controller/ephemeralrunnerset controller/ephemeralrunnerset/scaling \
	capacity/placement capacity/schedules feedback fakegithub fakegithub/state)
RACE_TESTS  = ./test/integration ./test/chaos \
	$(filter-out $(SIMULATED:./%=github.com/harrier-ci/harrier/%),$(shell go list ./... ./apis/... ./github/actions/...))
# Suites whose own process only plays and looks, and the tools, whose database is Go code that it makes ten times slower.
# make nightly gives it to all of these, too.
PLAIN_TESTS = ./test/charts $(SIMULATED) ./test/tenant ./test/scrape ./operations/... ./test/fleet ./test/churn ./test/doctor \
	./test/rbac $(shell go list ./test/... | grep -vE '/harrier/test/(integration|chaos|e2e)') ./hack/...

# All packages of the workspace's modules (go.work): the core, and what stands on it.
MODULES := ./... ./apis/... ./github/actions/... ./operations/... ./hack/... ./test/...
CODE    := $(filter-out ./test/...,$(MODULES))

# Needs a Go as new as go.mod says.
GOVULNCHECK := v1.9.0

##@ See it work

.PHONY: demo
demo: preflight ## Start a real cluster, run 20 jobs on it, tear it down (root, Debian; KEEP=1 leaves it, CLUSTER=current IMG=… uses yours)
	@hack/build.sh 'the demonstration' bin/demo ./hack/demo
	@bin/demo

.PHONY: demo-down
demo-down: preflight ## Tear down what KEEP=1 left running
	@hack/build.sh 'the demonstration' bin/demo ./hack/demo
	@bin/demo down

##@ Develop

.PHONY: build
build: preflight ## Compile manager, listener, the program for operators and the plugin of kubectl into bin/
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/manager ./cmd/manager
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/ghalistener ./cmd/listener
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/harrier ./operations/cmd/harrier
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/kubectl-harrier ./operations/cmd/kubectl-harrier

.PHONY: generate
generate: preflight ## Write what is generated: deep copies, CRDs, the chart's copies of them, and pages of docs/
	hack/generate.sh

.PHONY: lint
lint: preflight ## Check style, generated files, scripts and charts
	hack/lint.sh $(MODULES)

# How many packages of RACE_TESTS are tested at a time, and beside them as many of PLAIN_TESTS: those that install
# everything use half a core each and wait the rest of their time.
TEST_PARALLEL ?= $(shell getconf _NPROCESSORS_ONLN)

# newest or oldest: of the versions of Kubernetes that are supported. hack/kubernetes.sh reads it.
export KUBERNETES ?= newest

.PHONY: path
path: preflight ## Count the files from a new runner's first pass to its pod
	hack/shape/path.sh $(MOST)

# Some tests are processes with mounts or a network of their own. Ubuntu 24.04 has to be told to allow them without root.
ALLOW_NAMESPACES = unshare --map-root-user --mount true 2>/dev/null || sudo -n sysctl -q -w kernel.apparmor_restrict_unprivileged_userns=0

# RACE=-race also watches PLAIN_TESTS, whose output follows the others'. golangci-lint has vetted all. With more than one
# processor the race detector crashes when timers of one bubble of synctest end at once (golang/go#78156, open in 1.27.4):
# -cpu 1 goes when a release has that mended. Programs that a test starts have all processors.
.PHONY: test
test: preflight ## Run every test that needs no root, on a real etcd and API server; the race detector watches the product (RACE=-race: everything; KUBERNETES=oldest: on the oldest supported version)
	@$(ALLOW_NAMESPACES)
	@export HARRIER_KUBERNETES="$$(hack/kubernetes.sh)"; plain=$$(mktemp); trap 'rm -f "$$plain"' EXIT; result=0; \
	go test $(if $(RACE),-race -cpu 1) -vet=off -p $(TEST_PARALLEL) -timeout 60m $(PLAIN_TESTS) >"$$plain" 2>&1 & \
	go test -race -cpu 1 -vet=off -p $(TEST_PARALLEL) -timeout 60m $(RACE_TESTS) || result=$$?; \
	wait $$! || result=$$?; cat "$$plain"; exit $$result
	GOWORK=off go -C hack/images test ./...

# It runs no cluster, and leaves the race detector to make test.
.PHONY: check
check: preflight ## What to run while working, in minutes: style, and every test that needs no cluster
	hack/tool.sh golangci-lint run $(MODULES)
	go test -short -vet=off $(CODE) ./test/modules ./test/docs

# SEED repeats one run, SEEDS makes the first so many, HOURS goes on with new ones. A run takes two to three minutes.
SEEDS    ?= 4
PARALLEL ?= 4
CHAOS     = $(if $(HOURS),-chaos.hours $(HOURS) -timeout 0,$(if $(SEED),-chaos.seed $(SEED),-chaos.seeds $(SEEDS)) -timeout 60m)

.PHONY: chaos
chaos: preflight ## Break everything while jobs run, at times that follow from a seed (SEED=7, SEEDS=20 or HOURS=8)
	HARRIER_KUBERNETES="$$(hack/kubernetes.sh)" go test -count 1 -v -run '^TestChaos$$' -parallel $(PARALLEL) ./test/chaos $(CHAOS)

# make test draws 5 runs of each scenario. FAULT and SCENARIO, regular expressions, choose runs.
FAILPOINTS = $(if $(SEED),-failpoints.seed $(SEED)) $(if $(SCENARIO),-failpoints.scenario '$(SCENARIO)') $(if $(FAULT),-failpoints.fault '$(FAULT)')

.PHONY: failpoints
failpoints: preflight ## Die at every effect of manager, listener and ledger in each scenario, and at pairs of them (PAIRS=50, SEED=7, SCENARIO=claims, FAULT=…)
	GOGC=400 go test -count 1 -v -vet=off -timeout 3h ./test/failpoints -failpoints.runs 0 -failpoints.many 1000 -failpoints.pairs $(or $(PAIRS),$(if $(FAULT),0,20)) $(FAILPOINTS)

.PHONY: restore
restore: preflight ## Restore the cluster from a backup while jobs run, and wait until nothing is left of lost runners (15 min)
	HARRIER_KUBERNETES="$$(hack/kubernetes.sh)" go test -count 1 -v -timeout 40m -run '^TestRestore$$' ./test/chaos -chaos.strays 15m

# Each of six tables of attacks on each of three paths, two to three minutes each: an hour. The network namespace has the addresses
# at which clouds tell machines their secrets, and leads nowhere.
.PHONY: tenant-nightly
tenant-nightly: preflight ## Attack one tenant from another on every path (ONLY='a listener' names attacks by a regular expression)
	@$(ALLOW_NAMESPACES)
	go build ./cmd/... ./operations/cmd/...
	HARRIER_KUBERNETES="$$(hack/kubernetes.sh)" go test -count 1 -v -timeout 3h -exec 'unshare --map-root-user --net' \
		-run '^TestTenantsAreSafeFromEachOther$$' ./test/tenant -tenant.every-path -tenant.link-local -tenant.only '$(ONLY)'

# Each target's inputs of record are in its package's testdata/fuzz and part of make test.
FUZZTIME ?= 30s

.PHONY: fuzz
fuzz: preflight ## Feed nonsense to whatever reads what others wrote, FUZZTIME=30s to each
	@git grep -oE '^func Fuzz[A-Za-z]+' -- '*_test.go' | while IFS=: read -r file target; do \
		echo "$${target#func } in $$(dirname "$$file")"; \
		go test -run '^$$' -fuzz "^$${target#func }$$" -fuzztime $(FUZZTIME) "./$$(dirname "$$file")"; \
	done

# Packages in which a decision that no test notices costs a runner or a job.
MUTATE ?= internal/pool internal/controller/ephemeralrunnerset/scaling internal/controller/ephemeralrunner/rules internal/controller/ephemeralrunner/launch

.PHONY: mutation
mutation: preflight ## Change decisions of the packages MUTATE one by one and name the changes that no test notices (hours)
	go run ./hack/mutation $(MUTATE)

.PHONY: nightly
nightly: ## What is too long for the gate: the oldest Kubernetes (root, Debian), attacks on every path, volumes of a real CSI stack, a restore, a death at every effect, an hour of new chaos seeds, the soak, a large fleet, three hours of fuzzing (9 h)
	$(MAKE) test KUBERNETES=oldest RACE=-race
	$(MAKE) e2e-short KUBERNETES=oldest
	$(MAKE) e2e-storage
	$(MAKE) tenant-nightly
	$(MAKE) restore
	$(MAKE) failpoints SEED=$$(date +%j)
	$(MAKE) chaos HOURS=1
	$(MAKE) soak
	$(MAKE) fleet
	$(MAKE) fuzz FUZZTIME=10m
	$(MAKE) release-twice

.PHONY: soak
soak: preflight ## Half an hour of runners and an hour of messages, both simulated: memory has to stay flat (real time: make load SCENARIO=soak)
	go test -count 1 -v -run '^TestSoak$$' ./internal/listener
	go test -count 1 -v -timeout 20m ./test/soak -soak.length 30m

.PHONY: ledger
ledger: preflight ## Measure the ledger of jobs with a million rows: size, answers, CPU (ROWS=100000; REPEAT=1: names of jobs repeat; DATABASE=postgres://… instead of SQLite)
	go run ./hack/ledger $(if $(ROWS),-rows $(ROWS)) $(if $(REPEAT),-repeat) $(if $(DATABASE),-database '$(DATABASE)')

.PHONY: contract
contract: preflight ## Try the protocol's facts on a real organization: GITHUB_CONFIG_URL=… GITHUB_TOKEN=… make contract (ARGS='-o json -wait 10m')
	go run ./hack/contract $(ARGS)

.PHONY: pages
pages: preflight ## Serve the ledger's pages with an invented day at http://127.0.0.1:8090/; each line on stdin starts a job
	go run ./hack/pages

.PHONY: browser
browser: preflight ## Look at the ledger's pages in Chromium: content, keyboard, axe's rules, size (PICTURES=1 takes those of docs/)
	GOWORK=off go -C hack/browser test -count 1 -v -timeout 20m ./... $(if $(PICTURES),-pictures '$(abspath docs/diagrams)')

# They mostly wait, so that more of them than cores run at a time.
E2E_PARALLEL ?= 4

.PHONY: e2e
e2e: preflight ## Install the charts on a real cluster, run jobs, upgrade, uninstall (root, Debian; KUBERNETES=oldest)
	go test -count 1 -timeout 24m -parallel $(E2E_PARALLEL) -v -skip '^Test($(E2E_STORAGE))$$' $(ROOT_TESTS)

# Programs of three repositories are built at first, which would count against the gate's time.
E2E_STORAGE := WhatACopyCosts|CopiesMakeEveryJobWarm|ASnapshotThatDoesNotGetReady|RetainedSnapshotsServeTheNextSet|ClaimsOfADriverArePassedOn|WorkClaimOfContainerJobs

.PHONY: e2e-storage
e2e-storage: preflight ## Run jobs with claims and snapshots of a real CSI stack, whose driver passes csi-test's suite (root, Debian)
	@hack/csi.sh >/dev/null # not within the tests' time
	GOWORK=off go -C hack/csi test -count 1 -exec 'unshare --mount' .
	go test -count 1 -timeout 24m -parallel $(E2E_PARALLEL) -v -run '^Test($(E2E_STORAGE))$$' $(ROOT_TESTS) -args -storage

# What depends on the version of Kubernetes most: pods and sidecars, job pods of hooks, budgets, garbage collection, objects of others that are taken over.
E2E_SHORT := EachJobGetsARunnerOfItsOwnAndNothingStays|DockerIsThereBeforeTheRunnerAndAfter|HooksMayRunJobPodsInKubernetesMode|DrainUnderLoad|DeletedNamespaceTakesItsRunnersOffGitHub|UpgradesWhileJobsRunKillNoRunner|UpgradeFromARC

.PHONY: e2e-short
e2e-short: preflight ## Run those of them in which versions of Kubernetes differ most (root, Debian; KUBERNETES=oldest)
	go test -count 1 -timeout 24m -parallel $(E2E_PARALLEL) -v -run '^Test($(E2E_SHORT))$$' $(ROOT_TESTS)

SCENARIO  ?= burst
LOAD_LINE  = $(if $(N),-n $(N)) $(if $(SETS),-sets $(SETS)) $(if $(JSON),-json $(abspath $(JSON))) $(LOAD)

.PHONY: load
load: preflight ## Measure under load: SCENARIO=burst|latency|churn|sets|hang|limit|drain|idle|soak|big N=1000 SETS=60 JSON=file LOAD='more flags'
	HARRIER_KUBERNETES="$$(hack/kubernetes.sh)" go test -count 1 -timeout 90m -v -run '^TestLoad$$' ./test/load -args -scenario $(SCENARIO) $(LOAD_LINE)

.PHONY: load-check
load-check: preflight ## A burst of 100 jobs against the budgets that hold on every machine (part of make test)
	HARRIER_KUBERNETES="$$(hack/kubernetes.sh)" go test -count 1 -timeout 5m -v -run '^TestLoad$$' ./test/load

# 200 listeners are processes of 25 MiB. On two cores an installation of that size takes 20 min.
RUNNERS ?= 5000

.PHONY: fleet
fleet: preflight ## Measure an installation of many sets: SETS=200 RUNNERS=5000, each listener a process (6 GiB of memory; a small one is part of make test)
	HARRIER_KUBERNETES="$$(hack/kubernetes.sh)" go test -count 1 -timeout 3h -v -run '^TestFleet$$' ./test/fleet \
		-fleet.sets $(or $(SETS),200) -fleet.runners $(RUNNERS) -fleet.rest 2m

.PHONY: docs
docs: preflight ## Check length and links of the documentation, and build it as a site into dist/docs (apt-get install mkdocs)
	@command -v mkdocs >/dev/null || { echo "mkdocs is missing: apt-get install mkdocs; docs/ can be read as it is, too" >&2; exit 1; }
	go test -count 1 -run '^Test(Links|EveryPage|Pages|Pictures)' ./test/docs
	mkdocs build --quiet --config-file hack/mkdocs.yml

##@ Check

.PHONY: packages
packages: ## Install what the gate needs of Debian or Ubuntu (root, or sudo)
	.ci/packages

.PHONY: dependencies
dependencies: preflight ## Check that every module is what go.sum says
	@git ls-files '*go.mod' | xargs --max-args 1 dirname | while read -r module; do \
		echo "$$module"; export GOFLAGS=-mod=readonly GOWORK=off; go -C "$$module" mod download; go -C "$$module" mod verify; \
	done

.PHONY: vulnerabilities
vulnerabilities: preflight ## Ask Go's database whether the programs reach code with a known vulnerability (needs vuln.go.dev)
	go run golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK) ./cmd/... ./operations/cmd/...

# Those of permissive licences, and MPL-2.0, which asks for the source of its own files only.
LICENSES := Apache-2.0,BSD-2-Clause,BSD-3-Clause,ISC,MIT,MPL-2.0,Unlicense,CC0-1.0

# Without GOROOT, which its build doesn't have in it, go-licenses takes everything for the standard library, which has
# no licence to check: a list without client-go is none.
.PHONY: licenses
licenses: preflight ## List the licence of every module that a program is made of, and fail for one that isn't in LICENSES
	@export GOROOT="$$(go env GOROOT)"; arguments=(--ignore github.com/harrier-ci/harrier ./cmd/... ./operations/cmd/...); \
	mkdir -p dist; hack/tool.sh go-licenses check --allowed_licenses=$(LICENSES) "$${arguments[@]}"; \
	hack/tool.sh go-licenses report "$${arguments[@]}" | tee dist/licenses.csv; grep -q '^k8s.io/client-go,' dist/licenses.csv

##@ Ship

.PHONY: image
image: preflight ## Build the images into dist/ without a container engine: product.tar and demo.tar (ARCH=arm64 for another architecture)
	hack/images.sh build $(if $(ARCH),-arch $(ARCH)) dist

.PHONY: push
push: preflight ## Push the images for amd64 and arm64 (or ARCH) to the registry that IMG names, with the login of `docker login`
	@test -n "$(IMG)" || { echo "say where to: make image push IMG=registry.example.com/team/harrier:test" >&2; exit 1; }
	hack/images.sh push $(if $(ARCH),-arch $(ARCH)) $(IMG)

# Not as a word of make's or the shell's: whoever may push a tag has chosen it.
.PHONY: release
release: export RELEASED = $(value VERSION)
release: preflight ## Make all files of a release of the last commit in dist/release: VERSION=1.2.3 (images, charts, materials, provenance, notes)
	rm -rf dist/release
	hack/images.sh release $(if $(ARCH),-arch $(ARCH)) "$$RELEASED" dist/release

# SIGN has cosign's options that say who signs; without them, it is the workflow that this runs in.
.PHONY: publish
publish: preflight ## Push, sign and attest the release in dist/release, with the login of `docker login`: REGISTRY=ghcr.io/harrier-ci (SIGN='--key cosign.key')
	@test -n "$(REGISTRY)" || { echo "say where to: make publish REGISTRY=registry.example.com/team" >&2; exit 1; }
	hack/publish.sh dist/release '$(REGISTRY)' $(SIGN)

.PHONY: release-dry-run
release-dry-run: preflight ## Make a release of the last commit, publish and sign it on loopback, and verify it as docs/verify.md says (ARCH=amd64: of this platform only)
	hack/release-dry-run.sh $(filter-out dev,$(VERSION))

# Go finds the version of a module in a folder by a tag with the folder's name.
.PHONY: github-release
github-release: ## Make the release in dist/release one of GitHub's, with its files as downloads, by the login of gh
	@tag="$$(sed -n 's/^# Harrier /v/p' dist/release/RELEASE.md)"; early=; case $$tag in *-*) early=--prerelease ;; esac; \
	gh release view "$$tag" >/dev/null 2>&1 || gh release create "$$tag" --verify-tag --draft $$early --title "$$tag" --notes-file dist/release/RELEASE.md; \
	gh release upload "$$tag" --clobber dist/release/*; gh release edit "$$tag" --draft=false; \
	for module in apis github/actions; do \
		gh api "repos/{owner}/{repo}/git/ref/tags/$$module/$$tag" >/dev/null 2>&1 || \
		gh api "repos/{owner}/{repo}/git/refs" --field ref="refs/tags/$$module/$$tag" --field sha="$$(git rev-parse HEAD)" >/dev/null; \
	done

.PHONY: registry-login
registry-login: preflight ## Log in to REGISTRY as REGISTRY_USER with REGISTRY_PASSWORD, both from the environment
	@printenv REGISTRY_PASSWORD | hack/tool.sh cosign login "$$(cut -d / -f 1 <<<'$(REGISTRY)')" --username "$$REGISTRY_USER" --password-stdin

.PHONY: release-twice
release-twice: preflight ## Make a release of the last commit twice, in different places, and compare every byte
	hack/release-twice.sh $(filter-out dev,$(VERSION))

##@ Help

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} \
		/^##@/ {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z0-9-]+:.*## / {printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: preflight
preflight:
	@command -v go >/dev/null || { echo "Go is not installed or not on PATH; install Go $$(awk '$$1 == "go" {print $$2}' go.mod) or newer" >&2; exit 1; }
	@go version >/dev/null || { echo "this Go is older than go.mod wants: install Go $$(awk '$$1 == "go" {print $$2}' go.mod) or newer" >&2; exit 1; }
