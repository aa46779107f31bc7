# Targets for developers. Each target does the set-up that it needs, once.
SHELL := bash
PY := .venv/bin/python
export PYTHONPATH := $(CURDIR)/build/release/python:$(PYTHONPATH)
# Share compiled objects between clones in different folders.
export CCACHE_BASEDIR ?= $(CURDIR)
export CCACHE_NOHASHDIR ?= 1

.PHONY: help setup tools build product viewer demo test case test-all test-install test-coremltools test-exporters test-libraries test-harnesses test-stablehlo test-matrix fresh-check lint format docs bench bench-coreml instructions asan tsan fuzz fuzz-bytes test-determinism mutants coverage wheels test-wheels sdist static-command tarball npm test-npm test-cpp clean
help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 18

setup: build  ## install what is missing, make .venv, build

tools:
	@scripts/setup.sh packages scripts/packages/debian-packages.txt
	@scripts/setup.sh venv

build: tools
	@scripts/setup.sh build release

# What users run, without the tests: the library, the Python module, the command.
product:
	@scripts/setup.sh packages scripts/packages/debian-packages.txt
	@scripts/setup.sh product

demo: product  ## export seven real models, one to Core ML too, compare with JAX; results stay in build/demo (RIVALS=1: beside jax2onnx)
	@$(PY) demo/run.py --out build/demo $(if $(RIVALS),--rivals)

viewer:  ## build the page of `sardonyx view` anew, viewer/page.html, after a change of viewer/src (needs npm's registry the first time)
	@scripts/setup.sh viewer

# What the tests of pages need.
browser: tools viewer
	@scripts/setup.sh packages scripts/packages/debian-packages-viewer.txt

test: browser build  ## lint and all tests that run in minutes
	@$(PY) scripts/checks/check.py test

case: tools  ## the .sx cases of one pass or lowering, after an edit (PASS=fuse_gelu)
	@files=$$(grep -rlE '^(pass|lower|lower-mil) $(PASS)( |$$)' --include='*.sx' src tests); \
	[[ -n '$(PASS)' && -n $$files ]] || { echo "error: no .sx file begins with 'pass $(PASS)' or 'lower $(PASS)': make case PASS=NAME"; exit 1; }; \
	scripts/setup.sh build release sx_test && build/release/sx_test $$files

test-all: browser build  ## every test there is
	@$(PY) scripts/checks/check.py test-all

test-install: tools  ## `pip install .` into a fresh environment, which compiles the library once more
	@$(PY) scripts/checks/check.py test-install

test-coremltools: build  ## coremltools' own tests of its passes, on Sardonyx's passes (COREMLTOOLS_CHECKOUT=folder: its main branch, too)
	@$(PY) scripts/checks/check.py test-coremltools

test-exporters: build  ## models of PyTorch's, scikit-learn's and onnxruntime's exporters, beside the rivals (ONLY="TEXT ..."; its own environment)
	@scripts/checks/test_exporters.sh $(if $(ONLY),--only $(ONLY))

test-libraries: build  ## programs of 26 libraries on JAX, compared with the jitted function (ONLY="PROGRAM ..."; its own environment)
	@$(PY) scripts/checks/library_tests.py $(ONLY)

test-harnesses: build  ## JAX's own 5,594 harnesses of its primitives, compared with the jitted function (N=processes, ONLY="PATTERN ...")
	@$(PY) scripts/checks/harness_tests.py -n $(or $(N),2) $(ONLY)
	@$(PY) scripts/checks/harness_tests.py --page

test-stablehlo: build  ## StableHLO's own 2,839 test modules, in onnxruntime and the evaluator (STABLEHLO_CHECKOUT=folder, N=processes)
	@$(PY) scripts/checks/stablehlo_tests.py $(or $(STABLEHLO_CHECKOUT),$(error STABLEHLO_CHECKOUT=folder names a checkout of StableHLO)) -n $(or $(N),2) --page

test-matrix: build  ## the Python tests with the oldest supported JAX, Flax, onnx and onnxruntime, and with the newest
	@scripts/checks/test_matrix.sh

fresh-check:  ## `make demo` and `make test` of what is committed, in a new Debian 12 (needs root)
	@scripts/checks/fresh_check.sh "demo test"

lint: build  ## format, clang-tidy (changed files; TIDY=all for all of them), ruff
	@$(PY) scripts/checks/check.py lint

format:  ## rewrite the sources as clang-format and ruff want them
	@scripts/setup.sh packages scripts/packages/debian-packages-lint.txt
	@scripts/setup.sh venv
	@$(PY) scripts/checks/lint.py --fix

docs: product  ## the documentation site, build/site/index.html, strict about links (its own environment; no network once that is there)
	@scripts/setup.sh packages scripts/packages/debian-packages-docs.txt
	@scripts/setup.sh environment build/docs-venv scripts/packages/requirements-docs.txt "40 MB"
	@build/docs-venv/bin/python scripts/pages/build_site.py

bench: build  ## run the benchmarks beside the rivals, write docs/generated/benchmarks.md (QUICK=1: three minutes, no page; its own environment)
	@scripts/setup.sh packages scripts/packages/debian-packages-bench.txt
	@$(if $(RIVALS_PYTHON),,scripts/setup.sh environment build/bench-venv bench/requirements.txt "500 MB")
	@QUICK=$(QUICK) RIVALS_PYTHON=$(or $(RIVALS_PYTHON),$(CURDIR)/build/bench-venv/bin/python) $(PY) scripts/checks/check.py bench

bench-coreml: build  ## PyTorch models and JAX programs to Core ML beside coremltools and stablehlo-coreml, into docs/generated/coreml.md (its own environment)
	@$(if $(RIVALS_PYTHON),,scripts/setup.sh environment build/bench-coreml-venv bench/requirements-coreml.txt "4 GB")
	@status=0; for bench in to_coreml coreml_layers coreml_half; do \
	  RIVALS_PYTHON=$(or $(RIVALS_PYTHON),$(CURDIR)/build/bench-coreml-venv/bin/python) $(PY) bench/$$bench.py --page || status=1; done; exit $$status

instructions: build  ## instructions of the hot paths, compared with the recorded counts: 5 % more is a miss (BLESS=1: record these)
	@scripts/setup.sh packages scripts/packages/debian-packages-bench.txt
	@$(PY) bench/instructions.py $(if $(BLESS),--bless)

asan: ## C++ tests under the address and undefined-behavior sanitizers
tsan: ## C++ tests and cases under the thread sanitizer
asan: PRESET := asan-ubsan
tsan: PRESET := tsan
tsan: TESTS := -R '^(unit|cases)$$'  # random graphs run in one thread
asan tsan:
	@scripts/setup.sh packages scripts/packages/debian-packages.txt
	@scripts/setup.sh packages scripts/packages/debian-packages-fuzz.txt
	@scripts/setup.sh build $(PRESET)
	@ulimit -s 65536; ctest --preset $(PRESET) $(TESTS)  # instrumented frames are ten times as large: models nested 1000 deep need more than 8 MB

MINUTES ?= 10
SEED ?= $(shell date +%s)
fuzz: build  ## random graphs through every pass (MINUTES=n, SEED=n), half of the time those of Core ML
	@status=0; for dialect in onnx mil; do \
	  build/release/sx_fuzz --dialect=$$dialect --seed=$(SEED) --seconds=$$(( $(MINUTES) * 30 )) --cases=src/passes/$$dialect \
	    --report || status=1; done; exit $$status

fuzz-bytes: build  ## feed hostile bytes to the readers under libFuzzer and sanitizers (MINUTES=n for each; needs clang 19)
	@scripts/setup.sh packages scripts/packages/debian-packages-fuzz.txt
	@scripts/setup.sh build fuzz
	@$(PY) scripts/checks/fuzz_bytes.py $(MINUTES)

test-determinism:  ## check that gcc and clang, release and debug write the same bytes (three builds)
	@scripts/setup.sh packages scripts/packages/debian-packages.txt
	@scripts/setup.sh packages scripts/packages/debian-packages-fuzz.txt
	@for preset in release clang debug; do scripts/setup.sh build $$preset || exit 1; done
	@$(PY) scripts/checks/determinism_inputs.py build/determinism
	@$(PY) scripts/checks/determinism.py build/release build/clang build/debug

MUTANTS_SEED ?= 1
mutants: build  ## break passes on purpose: how many changes do the tests notice? (MUTANTS=n: draw n by MUTANTS_SEED; PASSES="a b")
	@$(PY) scripts/checks/mutate.py $(PASSES) $(if $(MUTANTS),--sample $(MUTANTS) --seed $(MUTANTS_SEED)) --report build/survivors.txt

coverage:  ## which lines and branches the tests run, in C++ and Python (needs clang 19 and llvm 19)
	@scripts/setup.sh packages scripts/packages/debian-packages.txt
	@scripts/setup.sh packages scripts/packages/debian-packages-fuzz.txt
	@scripts/setup.sh venv
	@scripts/setup.sh build coverage
	@$(PY) scripts/checks/coverage.py --report docs/generated/coverage.md

wheels: tools viewer  ## wheels of six systems into dist/; what was tried: docs/inside/packages.md (PLATFORM="linux-aarch64 ..." for some, JOBS=n)
	@scripts/setup.sh packages scripts/packages/debian-packages-wheels.txt
	@$(PY) scripts/packages/wheels.py build $(PLATFORM)
	@$(PY) scripts/packages/wheels.py check $(PLATFORM)

test-wheels: tools  ## C++ tests and smoke tests of the wheels, natively, under qemu-user and under wine (PLATFORM="...")
	@scripts/setup.sh packages scripts/packages/debian-packages-wheels.txt
	@$(PY) scripts/packages/wheels.py test $(PLATFORM)

sdist: tools viewer  ## the source package into dist/
	@$(PY) scripts/packages/wheels.py sdist

static-command: tools viewer  ## the command as one static program for any x86-64 Linux, dist/sardonyx
	@scripts/setup.sh packages scripts/packages/debian-packages-wheels.txt
	@$(PY) scripts/packages/wheels.py command

tarball: static-command  ## the command, the C++ library and its headers, which run from any folder, into dist/
	@scripts/setup.sh build release sardonyx
	@$(PY) scripts/packages/wheels.py tarball

npm: tools  ## the npm package for browsers and Node: the command as WebAssembly, into dist/
	@$(PY) scripts/packages/wasm.py build

test-npm: build  ## that package in Node and in a headless Chromium, with a model of 300 MB
	@scripts/setup.sh packages scripts/packages/debian-packages-npm.txt
	@$(PY) scripts/packages/wasm.py test

PRESET ?= release
test-cpp:  ## the C++ tests alone (PRESET=clang, macos or windows)
	@scripts/setup.sh packages scripts/packages/debian-packages.txt
	@if [ $(PRESET) = clang ]; then scripts/setup.sh packages scripts/packages/debian-packages-fuzz.txt; fi
	@scripts/setup.sh build $(PRESET)
	@ctest --preset $(PRESET)

clean:  ## remove everything that was built; .venv stays
	rm -rf build dist
