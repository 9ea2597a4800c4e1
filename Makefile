# Everything runs in .venv, which `setup` makes; PYTHON picks the interpreter that makes it.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
# Tests and tools read UTF-8, whatever the locale.
export PYTHONUTF8 := 1
# Commands that tests start load compiled modules, whatever the environment says: they start in half the time.
unexport PYTHONDONTWRITEBYTECODE
PIP := -m pip install --quiet --disable-pip-version-check

# Groups of tests that belong together, in the order that tests/conftest.py gives them.
IN_PARALLEL := -n auto --dist loadscope --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help setup constraints sbom format lint quick test slow proof coverage check-python golden calibration blind bench docs site bundle openapi mutants dashboard check

help: ## show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | expand -t 16

setup: $(BIN)/.complete ## install meshplan and its tools into .venv

$(BIN)/.complete: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python $(PIP) -c constraints.txt -e '.[dev]'
	touch $@

constraints: ## resolve the newest dependencies and pin them: constraints.txt, requirements.txt with hashes, THIRD_PARTY.md
	rm -rf build/resolve && $(PYTHON) -m venv build/resolve
	build/resolve/bin/python $(PIP) '.[dev,mutants,telemetry]'
	build/resolve/bin/python -m pip freeze --exclude meshplan > constraints.txt
	build/resolve/bin/python $(PIP) pip-tools==7.6.2
	build/resolve/bin/pip-compile --quiet --generate-hashes --no-header --no-annotate --no-emit-options --strip-extras \
	  --extra postgres --extra telemetry --extra dask --constraint constraints.txt --output-file requirements.txt pyproject.toml
	build/resolve/bin/python scripts/packaging/write_licences.py

sbom: ## the packages of an installation with their hashes as CycloneDX, in dist/ (the dashboard's are in THIRD_PARTY.md)
	rm -rf build/sbom && $(PYTHON) -m venv build/sbom && mkdir -p dist
	build/sbom/bin/python $(PIP) cyclonedx-bom==7.5.0
	build/sbom/bin/cyclonedx-py requirements requirements.txt --pyproject pyproject.toml --output-reproducible \
	  --output-format JSON --output-file dist/meshplan.cdx.json

format: setup ## rewrite the sources in the house style
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: setup ## formatting, lint, types, package layers, Dockerfile
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/hadolint Dockerfile

test: setup ## run the tests but the slow ones; SLOW=1 takes those too, ARGS adds pytest options
	$(BIN)/python -m pytest $(IN_PARALLEL) $(if $(SLOW),,-m 'not slow') $(ARGS)

quick: setup ## a minute of processor time: lint, and the tests nearest to what differs from BASE (main)
	$(BIN)/python -m scripts.checks.quick $(or $(BASE),main)

slow: setup ## run the slow tests: killed servers and workers, planted faults, requests from the OpenAPI document, other Pythons
	$(BIN)/python -m pytest $(IN_PARALLEL) -m slow $(ARGS)

proof: setup ## compare the lists of 200 random jobs with every plan of their spaces, and of full-size jobs with 200,000 random plans
	PROVED_JOBS=150 SAMPLED_PLANS=200000 $(BIN)/python -m pytest $(IN_PARALLEL) tests/property/test_proved_lists.py tests/property/test_sampled_plans.py $(ARGS)

coverage: setup ## how much of the code the unit and API tests reach: watching them takes twice their time
	$(BIN)/python -m pytest $(IN_PARALLEL) --cov --cov-report= tests/unit tests/api $(ARGS)
	@$(BIN)/python scripts/checks/print_coverage.py

check-python: ## run the unit and golden tests under another interpreter: make check-python PYTHON=python3.13
	rm -rf build/python && $(PYTHON) -m venv build/python
	build/python/bin/python $(PIP) -c constraints.txt -e '.[dev]'
	build/python/bin/python -m pytest $(IN_PARALLEL) -p no:cacheprovider tests/unit tests/golden $(ARGS)

golden: setup ## rewrite tests/golden from the current model; review the diff
	$(BIN)/python -m pytest tests/golden --rewrite-golden

mutants: setup ## break chosen modules line by line and list what no test notices (ten minutes; MUTANTS names some)
	$(BIN)/python $(PIP) -c constraints.txt -e '.[dev,mutants]'
	$(BIN)/python -m mutmut run $(MUTANTS)
	$(BIN)/python -m mutmut results

calibration: setup ## fit the shipped calibrations to calibration/runs (ten minutes); review the diff
	$(BIN)/python scripts/calibration/calibrate_shipped.py

blind: setup ## errors of runs that teach nothing, beside their first prediction and the release before; fails where a kind got worse
	$(BIN)/python -m scripts.accuracy.blind

bench: setup ## measure speed; each benchmark prints its own table (not soak and fuzz, which take hours: docs/reliability.md)
	@for file in $(filter-out benchmarks/soak.py benchmarks/fuzz.py benchmarks/raw_requests.py,$(wildcard benchmarks/[a-z]*.py)); do $(BIN)/python -m "benchmarks.$$(basename "$$file" .py)" || exit; done

docs: setup ## regenerate the documents that scripts write (accuracy two minutes, the Pangu case study one)
	@for file in scripts/*/write_*.py; do $(BIN)/python "$$file" || exit; done

bundle: setup ## one archive that installs without a network, for x86-64 and aarch64, into dist/ (fetches wheels; PYTHONS names versions)
	$(BIN)/python scripts/packaging/make_bundle.py --pythons $(or $(PYTHONS),3.11)

openapi: setup ## write the description of the REST API to build/openapi.json
	$(BIN)/python scripts/pages/write_openapi.py

site: setup ## build the documentation site into app/static/docs, where `meshplan serve` finds it: files for any web server
	$(BIN)/python scripts/packaging/build_site.py

NODE_MODULES := dashboard/node_modules/.package-lock.json

$(NODE_MODULES): dashboard/package.json dashboard/package-lock.json
	cd dashboard && npm ci --no-fund --no-audit
	touch $@

dashboard: setup $(NODE_MODULES) ## rebuild the dashboard into app/static/dashboard (node 20.19 or newer)
	cd dashboard && npm run build

.PHONY: dashboard-check
dashboard-check: # with node at hand: types, unit tests, and that the committed build is that of the sources
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory dashboard-compare; \
	else echo "npm is not here: the dashboard's build is taken as it is"; fi

.PHONY: dashboard-compare
dashboard-compare: setup $(NODE_MODULES)
	cd dashboard && DASHBOARD_OUT=../build/dashboard npm run --silent build
	diff -rq build/dashboard app/static/dashboard || { echo "run 'make dashboard' and commit app/static/dashboard"; exit 1; }

APT_INSTALL := apt-get install -q -y --no-install-recommends

.PHONY: chromium
chromium: # what tests/browser drive, and the Chinese font that its pages are measured with; tests are skipped where either cannot be had
	@command -v chromium >/dev/null || { apt-get update -q && $(APT_INSTALL) chromium; } || \
	echo "Chromium cannot be installed (not root, no apt, or no network): the browser tests will be skipped"
	@fc-list "WenQuanYi Micro Hei" 2>/dev/null | grep -q . || { apt-get update -q && $(APT_INSTALL) fontconfig fonts-wqy-microhei; } || \
	echo "A Chinese font cannot be installed: browser tests of Chinese pages will be skipped"

check: setup ## lint beside the dashboard's build, then the tests; SLOW=1, as in CI, takes the slow ones in the same run
	@$(MAKE) --no-print-directory -j2 --output-sync=target lint dashboard-check chromium
	@$(MAKE) --no-print-directory test
