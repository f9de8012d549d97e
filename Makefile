# The front door. Everything real is in CMakePresets.json and CMakeLists.txt.
#
#   make demo     the main job: dependencies, build, a model trained with every strategy on a small cluster
#   make test     everything that must pass: dependencies, build, tests
PRESET ?= release
BUILD := build/$(PRESET)
JOBS ?= $(shell nproc)
# In CI warnings are errors.
CONFIGURE_FLAGS := $(if $(CI),-DPASSING_WERROR=ON)

.NOTPARALLEL:
.PHONY: help deps configure build test demo bench claims fuzz lint lint-fast format mutate sanitize soak clean

help:
	@echo "make demo      dependencies, build, and a model trained with every strategy on a cluster of namespaces (as root)"
	@echo "make test      dependencies, build, and every test"
	@echo "make build     build only (PRESET=release|debug|asan|tsan)"
	@echo "make deps      install what is needed from the distribution"
	@echo "make bench     all-reduces side by side with peers (passing bench, as root); ARGS=... go to it"
	@echo "make microbench  parts of the code (Google Benchmark); ARGS=... go to it"
	@echo "make compare OLD=BUILD_DIR  the library of another build against this one's, in turns"
	@echo "make claims    measure what the documentation promises; ONLY=name,name for some"
	@echo "make fuzz      fuzz for SECONDS=60 per target"
	@echo "make sanitize  the tests under address, undefined and thread sanitizers"
	@echo "make rehearse  protocol and judges from fresh seeds for SECONDS=60; 0: without end"
	@echo "make soak      random jobs on one switch for SECONDS=60: nothing may leak"
	@echo "make torch-suite  PyTorch's own tests in six worlds (make test runs two of them)"
	@echo "make torch-restarts  50 restarts of killed ranks by torchrun"
	@echo "make losses    20 times each: a rank is killed where packets are lost, and all survivors name it alone"
	@echo "make mutate    deliberate faults, each of which a test must catch; ONLY=name for one"
	@echo "make lint      formatting, and static analysis of what changed since origin/main; ALL=1 for everything"
	@echo "make lint-fast  the half of lint that needs no build: formatting, syntax of scripts, types of web/"
	@echo "make format    format the sources"

deps:
	@tools/install-deps

configure:
	@cmake --preset $(PRESET) $(CONFIGURE_FLAGS) > $(BUILD).log 2>&1 || { cat $(BUILD).log; exit 1; }

build: | build-dir configure
	cmake --build --preset $(PRESET) -j $(JOBS)

.PHONY: command
command: | build-dir configure
	cmake --build --preset $(PRESET) -j $(JOBS) --target passing

.PHONY: build-dir
build-dir:
	@mkdir -p build

# Suites note the commit of their last passed run in build/ran; a part of a suite notes nothing.
# One test more than there are processors: suites with processes mostly wait.
test: deps build
	$(if $(filter release,$(PRESET)),tools/ran test) tools/run-ctest --preset $(PRESET) -j $$(($(JOBS) + 1)) --no-tests=error

.PHONY: training
training: | build-dir configure
	cmake --build --preset $(PRESET) -j $(JOBS) --target passing passing_torch

# Where no lab can be made, as in most containers, a rehearsal, which says why.
demo: deps training
	@if $(BUILD)/passing lab run --hosts 1 --no-switch --plain -- true > /dev/null 2>&1; \
	then $(BUILD)/passing train --hosts 4 --ranks 2 --rate 200mbit --batch 16 --json build/demo.json --report build/demo.html; \
	else $(BUILD)/passing lab demo; fi

# Until the next release it says where its former meaning went.
bench: deps build
	@case "$(ARGS)" in *--benchmark_*) echo "make bench: Google Benchmark is make microbench now" >&2; exit 2;; esac
	$(BUILD)/passing bench $(ARGS)

.PHONY: microbench
microbench: deps build
	$(BUILD)/microbench $(ARGS)

.PHONY: compare
compare: deps build
	@[ -n "$(OLD)" ] || { echo "make compare: OLD is missing: give the build directory of the other commit" >&2; exit 2; }
	bench/claims/compare.py $(OLD) $(BUILD) $(ARGS)

claims: deps build
	$(if $(ONLY),,tools/ran claims) bench/claims/claims.py --build $(BUILD) $(if $(ONLY),--only $(ONLY))

SECONDS ?= 60
.PHONY: rehearse
rehearse: deps | build-dir configure
	cmake --build --preset $(PRESET) -j $(JOBS) --target rehearse_fresh passing
	$(BUILD)/rehearse_fresh $(SECONDS)

fuzz: deps | build-dir
	cmake --preset fuzz > build/fuzz.log && cmake --build --preset fuzz -j $(JOBS)
	for target in packet aggregator endpoint; do \
	  tests/fuzz/run.sh build/fuzz/fuzz_$$target tests/fuzz/corpus/$$target $(SECONDS) || exit 1; \
	done

# By name: with $(MAKE), make -n would run it all the same, and note that it passed.
sanitize: deps
	tools/ran sanitize sh -ec 'for preset in asan tsan; do \
	  make build PRESET=$$preset JOBS=$(JOBS); tools/run-ctest --preset $$preset -j $(JOBS) --no-tests=error; done'

.PHONY: torch-suite
torch-suite: deps build
	for world in 3 4; do for hosts in 1 2 3; do \
	  PASSING=$(BUILD)/passing PYTHONPATH=$(BUILD)/integrations/torch/python PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 \
	  /usr/bin/python3 tests/torch/suite_test.py $$world $$hosts 2>build/torch-suite.log || { tail -50 build/torch-suite.log; exit 1; }; \
	done; done

.PHONY: torch-restarts
torch-restarts: deps build
	PASSING=$(BUILD)/passing PYTHONPATH=$(BUILD)/integrations/torch/python PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 \
	PASSING_TEST_RESTARTS=50 /usr/bin/python3 tests/torch/store_test.py Restarts

.PHONY: losses
losses: deps build
	PASSING=$(BUILD)/passing PASSING_PEER=$(BUILD)/peer_passing PYTHONDONTWRITEBYTECODE=1 PASSING_REPEAT=20 \
	/usr/bin/python3 tests/integration/losses_test.py

soak: deps command
	PASSING=$(BUILD)/passing PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 tests/integration/soak.py $(SECONDS)

mutate: deps
	$(if $(ONLY),,tools/ran mutate) tests/mutation/mutate.py $(if $(ONLY),--only $(ONLY))

# Static analysis reads what the build generates, and needs no more of it.
lint: deps | build-dir configure
	cmake --build --preset $(PRESET) -j $(JOBS) --target generated
	$(if $(ALL),tools/ran lint) tools/lint $(BUILD) --jobs $(JOBS) $(if $(ALL),--all)

lint-fast: deps
	tools/lint-fast

format: deps
	tools/sources | xargs clang-format -i

clean:
	rm -rf build
