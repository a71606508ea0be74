# One environment, .venv in this checkout, made from any Python 3.11 or newer.
# TORCH=auto|cpu|cuda chooses torch's build (auto: cuda where an NVIDIA GPU is seen, otherwise cpu).
# PYTHON=/path/to/python3.12 chooses the interpreter that makes .venv.
TORCH ?= auto
PYTHON ?=

VENV := .venv
RUN := $(VENV)/bin/python -m
PIP := $(RUN) pip install -qq --disable-pip-version-check
# What a lock lacks: the libraries of torch's CUDA build.
REST := $(PIP) --constraint constraints.txt --no-build-isolation
TORCH_STAMP := $(VENV)/.torch-$(TORCH)
TOOLS := build/tools

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help bench test test-slow test-lowest test-gpu fuzz mutants trace-programs coverage check docs reference ui bench-overheads conversions generation corpus \
  install lock sbom audit clean provision provision-check provision-plan image status destroy test-terraform check-terraform test-chaos rehearse
# Without bytecode each process would compile benchorch anew.
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE

help: ## this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' Makefile
	@echo "  TORCH=auto|cpu|cuda chooses torch's build, PYTHON=... the interpreter; both at install."

bench: $(VENV)/.installed ## BERT-base through four conversions on this machine
	@$(RUN) benchorch recipes/bert.yaml

# Test files run in parallel, one more than there are processors: many wait for processes of their
# own. Ray clusters run after them, one at a time: a cluster ends as a whole
# when one of its servers does not start in time.
TEST_WORKERS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN); echo $$((n < 3 ? n + 1 : 4)))
PARALLEL := -m "not (slow or ray_cluster)" --numprocesses $(TEST_WORKERS) --dist loadfile --no-loadscope-reorder
CLUSTERS := -m "ray_cluster and not slow" $$(grep -rl mark.ray_cluster tests | sort)

test: $(VENV)/.installed-dev ## the tests
	@$(RUN) pytest $(PARALLEL)
	@$(RUN) pytest $(CLUSTERS)

coverage: $(VENV)/.installed-dev ## the tests, with the branches they take in every process; twice as long
	@$(RUN) pytest $(PARALLEL) --cov --cov-fail-under 0 --cov-report=
	@$(RUN) pytest $(CLUSTERS) --cov --cov-append

# The emulated AWS of the stack's tests is a process's own, and those of provisioning need it empty.
test-slow: $(VENV)/.installed-dev ## the tests that take minutes
	@$(RUN) pytest -m slow --ignore tests/stack/provisioning
	@$(RUN) pytest -m slow tests/stack/provisioning

# LOWEST_TESTS are those near the packages: torch, transformers and signatures keep their versions.
LOWEST := build/lowest
LOWEST_TESTS ?= tests/unit/runtimes/test_onnxruntime.py tests/unit/conversions/test_onnx_conversions.py \
  tests/unit/config tests/unit/host/test_packages.py
FLOORS := import re, tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
  a = [*p["dependencies"], *p["optional-dependencies"]["local"]]; \
  print(*(re.sub(r">=([^,]+),.*", r"==\1", d) for d in a if not re.match("torch|cryptography", d)))

test-lowest: $(VENV)/.installed-dev ## tests of ONNX and recipes with the lowest versions of pyproject.toml, torch's apart; minutes
	@rm -rf $(LOWEST)
	@$(PIP) --no-deps --only-binary :all: --target $(LOWEST) $$($(VENV)/bin/python -c '$(FLOORS)')
	@PYTHONPATH=$(CURDIR)/$(LOWEST) $(RUN) pytest -m "not slow" $(LOWEST_TESTS)

test-gpu: $(VENV)/.installed ## every GPU path on this machine, resumable; ARGS="--only clock"; nothing without a GPU
	@$(VENV)/bin/python scripts/test_gpu.py $(ARGS)

# SEEDS is how many seeds the drills are drawn from.
SEEDS ?= 3

test-chaos: $(VENV)/.installed-dev ## sweeps that are harmed on purpose, with SEEDS=3 seeds; takes three quarters of an hour
	@BENCHORCH_CHAOS_SEEDS=$(SEEDS) $(RUN) pytest tests/chaos -q

# FUZZ is how many cases of each kind are tried. Those that failed are kept in .hypothesis and tried first; so is
# how many have passed, so that a run that was stopped goes on from there.
FUZZ ?= 2000

fuzz: $(VENV)/.installed-dev ## command lines, recipes and journals at random, FUZZ=2000 of each; an hour, resumable
	@FUZZ=$(FUZZ) $(RUN) pytest tests/fuzz -q

# MUTANTS chooses among them by module: MUTANTS='benchorch.journal.chain*'; those that no test notices are listed last.
MUTANTS ?=
MUTATED := build/mutants

mutants: $(VENV)/.installed-dev ## changes of stats, stores, journal, stopping, parity and scheduling that no test notices; a day
	@$(VENV)/bin/python -m venv --clear $(MUTATED)
	@$(MUTATED)/bin/python -m pip install -qq --disable-pip-version-check mutmut==3.8.1
	@printf '%s\n' "$$($(VENV)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" $(CURDIR)/mutants/src \
	  > "$$($(MUTATED)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/project.pth"
	@$(MUTATED)/bin/mutmut run $(MUTANTS) && $(MUTATED)/bin/mutmut results

# Real programs: each is changed and run again, so the machine must be quiet.
trace-programs: $(VENV)/.installed-dev ## the analysis on 80 programs that really run and are really changed: verdicts and predictions; 10 minutes
	@for part in cpu more judge; do \
	  $(VENV)/bin/python tests/trace_corpus/$${part}_programs.py all build/trace-programs/$$part && \
	  $(VENV)/bin/python tests/trace_corpus/score_programs.py build/trace-programs/$$part || exit 1; done

check: $(VENV)/.installed-dev docs ## lint, format, types, layers, the documentation's links
	@$(RUN) ruff check .
	@$(RUN) ruff format --check .
	@$(RUN) mypy
	@$(VENV)/bin/lint-imports

docs: $(VENV)/.installed-dev ## the documentation as a site, in build/site; fails on a broken link
	@NO_MKDOCS_2_WARNING=1 $(RUN) mkdocs build --strict --quiet

reference: $(VENV)/.installed ## the pages of docs/reference that follow from the code
	@$(VENV)/bin/python scripts/write_reference.py

ui: $(VENV)/.installed ## the MLflow UI over the local results
	@$(RUN) benchorch ui

bench-overheads: $(VENV)/.installed-dev ## what benchorch itself costs, as ratios
	@failed=0; for script in benchmarks/*.py; do echo "== $$script"; $(VENV)/bin/python $$script || failed=1; done; exit $$failed

conversions: $(VENV)/.installed ## installs all that runs on a processor; every conversion on small models, into docs/reference/conversions-table.md; 15 minutes
	@$(REST) --editable '.[all,openvino,quantization,executorch,tvm]'
	@$(VENV)/bin/python scripts/write_conversions.py

generation: $(VENV)/.installed ## GPT-2 generating tokens by five conversions, into docs/guides/generation.md; 20 minutes on a quiet machine
	@$(VENV)/bin/python scripts/write_generation.py

# Built on all processors first; then one process measures at a time. ARGS=resume=last goes on with a run
# that was interrupted.
CORPUS = $(VENV)/bin/benchorch script 'build/corpus/**/*.py' --resume --jobs $$(nproc) stopping=corpus
corpus: $(VENV)/.installed ## a script for each architecture of transformers, and what becomes of them: corpus.html; an hour or two
	@$(VENV)/bin/python scripts/write_corpus.py build/corpus
	-@$(CORPUS) --build-only hardware.threads=1 $(ARGS)
	@$(CORPUS) profile=[] hardware.threads=1 $(ARGS)

# STACK names the stack; ARGS are further words for scripts/provision.py, e.g. ARGS="--var ttl_minutes=60".
STACK ?= benchorch
ARGS ?=
# Where sh is bash, {"a"=1,"b"=2} would become two words.
NO_BRACES := [ -z "$$BASH_VERSION" ] || set +B;

provision: $(VENV)/.installed ## make the EC2 stack (asks first); ARGS='--var fleet={"g5.xlarge"=1}'
	@$(NO_BRACES) $(VENV)/bin/python scripts/provision.py apply --check --name $(STACK) $(ARGS)

provision-check: $(VENV)/.installed ## is the AWS account ready for the stack? read-only, in seconds; ARGS=--json
	@$(NO_BRACES) $(VENV)/bin/python scripts/provision_check.py --name $(STACK) $(ARGS)

provision-plan: $(VENV)/.installed ## what make provision would make; changes nothing
	@$(NO_BRACES) $(VENV)/bin/python scripts/provision.py plan --name $(STACK) $(ARGS)

image: $(VENV)/.installed ## bake an image for each kind of node, which then boots in a minute and a half
	@$(NO_BRACES) $(VENV)/bin/python scripts/provision.py image --name $(STACK) $(ARGS)

status: $(VENV)/.installed ## which EC2 machines run now
	@$(NO_BRACES) $(VENV)/bin/python scripts/provision.py status --name $(STACK) $(ARGS)

destroy: $(VENV)/.installed ## end every EC2 machine, then remove the stack (asks first)
	@$(NO_BRACES) $(VENV)/bin/python scripts/provision.py destroy --name $(STACK) $(ARGS)

test-terraform: ## the stack's own tests, without AWS; needs terraform
	@cd infra/terraform && terraform init -backend=false -input=false \
	  $(if $(BENCHORCH_TF_PLUGIN_DIR),-plugin-dir=$(BENCHORCH_TF_PLUGIN_DIR)) >/dev/null \
	  && terraform test

# CHECKOV and TFLINT name the programs; pip install checkov (in an environment of its own: it pins much).
CHECKOV ?= checkov
TFLINT ?= tflint

check-terraform: ## checkov, tflint where installed, and validation with each AWS provider there is
	@python3 scripts/check_terraform.py --checkov $(CHECKOV) --tflint $(TFLINT)

rehearse: $(VENV)/.installed-dev ## provision, sweep, destroy on this machine without AWS; needs root, terraform
	@$(VENV)/bin/python scripts/rehearse.py $(ARGS)

install: $(VENV)/.installed ## .venv with everything a benchmark needs
	@echo "Ready: $(VENV)/bin/python -m benchorch --help"

lock: $(TOOLS)/.installed ## renew the locks, every package by version and hash; ARGS="install develop" for these alone
	@PATH="$(CURDIR)/$(TOOLS)/bin:$$PATH" $(TOOLS)/bin/python scripts/write_locks.py $(ARGS)

sbom: $(VENV)/.installed $(TOOLS)/.installed ## what is installed here, as a CycloneDX file: build/sbom.json
	@$(TOOLS)/bin/cyclonedx-py environment --pyproject pyproject.toml --validate \
	  --output-reproducible --output-file build/sbom.json $(VENV)/bin/python
	@echo build/sbom.json

# DATABASE is OSV's of PyPI, a zip file or a folder; without it pip-audit asks OSV: PyPI's own service passes what it does not know.
audit: $(VENV)/.installed $(if $(DATABASE),,$(TOOLS)/.installed) ## known vulnerabilities of what is installed; offline with DATABASE=all.zip
	@$(if $(DATABASE),$(VENV)/bin/python scripts/audit.py --database "$(DATABASE)",\
	  PIPAPI_PYTHON_LOCATION=$(VENV)/bin/python $(TOOLS)/bin/pip-audit --vulnerability-service osv --skip-editable --progress-spinner off)

clean: ## remove .venv and every tool's cache; results stay
	rm -rf $(VENV) build dist htmlcov .coverage .pytest_cache .hypothesis \
	  .mypy_cache .ruff_cache .import_linter_cache

$(VENV)/bin/python:
	@scripts/make_venv.sh $(VENV) "$(PYTHON)"

$(TORCH_STAMP): constraints.txt scripts/install_torch.py | $(VENV)/bin/python
	@$(VENV)/bin/python scripts/install_torch.py --build $(TORCH) --constraints constraints.txt
	@rm -f $(VENV)/.torch-* && touch $@

$(TOOLS)/.installed: locks/tools.txt | $(VENV)/bin/python
	@echo "Installing the tools of make lock, sbom and audit in $(TOOLS) ..."
	@$(VENV)/bin/python -m venv --clear $(TOOLS)
	@$(TOOLS)/bin/python -m pip install -qq --disable-pip-version-check --require-hashes --no-deps -r locks/tools.txt
	@touch $@

$(VENV)/.installed: $(TORCH_STAMP) pyproject.toml constraints.txt locks/install.txt
	@echo "Installing benchorch and the tested versions of what it needs, each by its hash ..."
	@$(PIP) --require-hashes --no-deps --requirement locks/install.txt
	@$(REST) --editable '.[all]'
	@touch $@

$(VENV)/.installed-dev: $(TORCH_STAMP) pyproject.toml constraints.txt locks/develop.txt
	@echo "Installing benchorch, its sweeper and the developer's tools, each by its hash ..."
	@$(PIP) --require-hashes --no-deps --requirement locks/develop.txt
	@$(REST) --editable '.[all,dev,docs,sweep]'
	@npm ci --silent --no-audit --no-fund --prefix tests/support/policies >/dev/null 2>&1 \
	  || echo "npm is absent or reached no registry: the tests that evaluate AWS policies are skipped."
	@touch $@ $(VENV)/.installed
