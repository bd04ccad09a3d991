# `make demo` runs the main job, `make test` the tests; both make .venv first and are safe to repeat.
PYTHON ?= python3
BIN := .venv/bin
FEDBALLOT := $(BIN)/fedballot
# without compiled modules every process compiles all that it imports: half the time of a short run
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-slow docs docs-release mutants test-faults test-schedules test-flwr-1.42 benchmark check clean

demo: .venv/demo
	rm -rf runs/demo
	$(FEDBALLOT) run pate-fl --preset demo --out runs/demo

# What two cores do in eight minutes: all tests but slow ones, and of those one of each kind (Ray, sites over gRPC,
# Compose where FEDBALLOT_DOCKER=1). Two workers, each with processes of one thread.
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --no-loadscope-reorder
test: .venv/test
	$(PYTEST) -m "not slow or smoke"

# the other slow ones: federations, clusters, kills, sweeps, hostile servers; ten to twenty minutes
test-slow: .venv/test
	$(PYTEST) -m "slow and not smoke"

# the documentation site, in site/; a link that leads nowhere fails it
docs: .venv-docs/site
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict --quiet

# the site of this version beside those of earlier ones, on the local branch gh-pages; nothing is pushed
docs-release: .venv-docs/site
	export PATH="$(CURDIR)/.venv-docs/bin:$$PATH" NO_MKDOCS_2_WARNING=1; \
	  mike deploy --update-aliases $$($(BIN)/python -c 'import fedballot; print(fedballot.__version__)') latest && \
	  mike set-default latest

# one fault after the other in the private methods, and the tests that must notice it; `make test` has them too
mutants: .venv/test
	$(BIN)/python -m tests.privacy.mutants.runner

# ten minutes of killed processes, cut links and full disks, one at a time: beside other tests they starve two cores
test-faults: .venv/test
	OMP_NUM_THREADS=1 FEDBALLOT_FAULTS=1 $(BIN)/python -m pytest -v tests/deploy/test_faults.py tests/deploy/test_namespaces.py

# 1,000 random schedules of kills and lost messages, new ones each time: five minutes; a seed that failed is printed
test-schedules: .venv/test
	OMP_NUM_THREADS=1 FEDBALLOT_SCHEDULES=1000 $(BIN)/python -m pytest tests/deploy/test_fault_schedules.py

# a hundred times as many requests of a hostile server as the suite puts to sites: hours
hostile: .venv/test
	OMP_NUM_THREADS=1 FEDBALLOT_HOSTILE=100000 $(BIN)/python -m pytest tests/deploy/test_hostile_server.py tests/deploy/test_hostile_masks.py

# a newer Flower and its Message API: what stands on them, a run on Ray, and one federation of real processes
test-flwr-1.42: .venv-flwr-1.42/test
	OMP_NUM_THREADS=1 .venv-flwr-1.42/bin/python -m pytest -n 2 --no-loadscope-reorder \
	  tests/clients tests/strategies tests/runs/test_message_api.py tests/runs/test_flower_apis.py \
	  tests/test_sim.py::test_a_run_writes_a_whole_result \
	  tests/test_sim.py::test_broken_clients_are_counted_and_the_run_goes_on \
	  tests/deploy/test_federation.py::test_three_kinds_of_models_teach_the_server

# what docs/performance.md shows, beside a plain loop and other frameworks; needs $FEDBALLOT_DATA with mnist.npz
benchmark: .venv-benchmark/peers
	$(BIN)/python benchmarks/performance.py

check: .venv/test
	$(BIN)/ruff check fedballot tests benchmarks
	$(BIN)/ruff format --check fedballot tests benchmarks
	$(BIN)/mypy
	$(BIN)/python -m tests.privacy.mutants.runner --lines

.venv/pip: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "fedballot needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv .venv || { echo 'no venv module: apt-get install python3-venv' >&2; exit 1; }
	$(BIN)/python -m pip install -q --upgrade pip
	touch $@

.venv/demo: .venv/pip
	$(BIN)/python -m pip install -q --no-compile -e '.[demo,ray,torch]'
	touch $@

.venv/test: .venv/pip
	$(BIN)/python -m pip install -q --no-compile -e '.[opacus,dev]'
	touch $@ .venv/demo

# another Flower before all else that .venv holds; pip says that pyproject.toml asks for 1.39, and that is the point
.venv-flwr-1.42/test: .venv/test
	$(PYTHON) -m venv .venv-flwr-1.42
	printf '%s\n' $(CURDIR) $(CURDIR)/.venv/lib/python3*/site-packages \
	  > $$(.venv-flwr-1.42/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/venv.pth
	.venv-flwr-1.42/bin/python -m pip install -q --no-compile 'flwr[simulation]==1.42.*'
	touch $@

# pfl-research wants another dp-accounting; all else is that of .venv
.venv-benchmark/peers: .venv/test
	$(PYTHON) -m venv .venv-benchmark
	printf '%s\n' $(CURDIR)/.venv/lib/python3*/site-packages \
	  > $$(.venv-benchmark/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/venv.pth
	.venv-benchmark/bin/python -m pip install -q --no-compile 'pfl==0.6.*'
	touch $@

# what writes the site wants nothing of what fedballot runs on, which is that of .venv
.venv-docs/site: .venv/test
	$(PYTHON) -m venv .venv-docs
	printf '%s\n' $(CURDIR) $(CURDIR)/.venv/lib/python3*/site-packages \
	  > $$(.venv-docs/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/venv.pth
	.venv-docs/bin/python -m pip install -q --no-compile $$($(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["docs"])')
	touch $@

clean:
	rm -rf .venv .venv-flwr-1.42 .venv-benchmark .venv-docs runs build site .cache dist *.egg-info
