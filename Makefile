# `make demo` and `make test` from a fresh checkout: Python 3.11 or newer and make are all they need.

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet install --constraint constraints.txt --editable
BUNDLES := build/reference-r2 build/reference-r4
DIST := dist
RELEASE := build/release
EXPORTED_FROM := $(wildcard tools/mulo_tools/reference/weights/*) $(shell find export engines -name '*.py')

.PHONY: demo test release
.DELETE_ON_ERROR:

# Export the two bundles, draw how images come about, and time the methods side by side.
demo: $(BUNDLES:%=%/bundle.json)
	$(BIN)/mulo demo build/reference-r4 --out demo.png
	for bundle in $(BUNDLES); do $(BIN)/mulo bench $$bundle --images 5 --prompts 0 --method "zipar window=4" --method mulo-sd || exit; done

test: .venv/test.stamp
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/pytest -n 2

# The wheel, an environment that has nothing else, and beside the wheel a bill of what it brought along there.
release: .venv/test.stamp
	rm -rf $(DIST) $(RELEASE)
	$(BIN)/python -m pip --disable-pip-version-check --quiet wheel --no-deps --wheel-dir $(DIST) .
	$(BIN)/python -m venv $(RELEASE)
	$(RELEASE)/bin/python -m pip --disable-pip-version-check --quiet install --constraint constraints.txt \
		"$$(ls $(DIST)/mulo-*.whl)[cpu,export]"
	$(BIN)/cyclonedx-py environment $(RELEASE)/bin/python --pyproject pyproject.toml --gather-license-texts \
		--output-reproducible --output-format JSON --output-file $(DIST)/mulo.cdx.json

build/reference-r%/bundle.json: $(EXPORTED_FROM) | .venv/demo.stamp
	$(BIN)/mulo-export reference --ratio $* --out $(@D) --force
	$(BIN)/mulo canary $(@D) --record

.venv/demo.stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) '.[export,cpu,bench,metrics,service,profile]'
	touch $@

.venv/test.stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) '.[export,cpu,bench,metrics,service,tracing,load,profile,ray,torch,text,tensorrt-rtx,dev]'
	touch .venv/demo.stamp $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "mulo needs Python 3.11 or newer; name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	$(PYTHON) -m venv .venv
