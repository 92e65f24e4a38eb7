# Choir: `make run` starts it, `make test` tests it. Everything is installed in .venv and nowhere else.
BIN := .venv/bin
STAMP := .venv/.installed
RUN_STAMP := .venv/.installed-run
UV = $(or $(wildcard .tools/bin/uv),uv)
# Tests wait more than they compute, so more workers than cores run at a time.
WORKERS ?= 6
MANIFESTS := uv.lock pyproject.toml scripts/uv.txt $(wildcard libs/*/pyproject.toml services/*/pyproject.toml deploy/*/pyproject.toml)
PACKAGES := $(wildcard libs/*/choir* services/*/choir_* deploy/*/choir_*)
.DEFAULT_GOAL := help
.PHONY: help install extras wheel notice run up down test nightly migration translations check audit pins release bench bench-memory eval demo docs docs-serve clean

help: ## list the targets
	@echo 'Choir. Needs Python >= 3.11, git and make.'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(STAMP) ## create .venv with all dependencies and development tools; other targets do this when needed

extras: ## add optional packages to .venv: EXTRAS="browser offline"
	@test -n "$(EXTRAS)" || { echo 'make extras EXTRAS="browser offline"'; exit 2; }
	@test -e $(STAMP) || scripts/install --run $(EXTRAS)
	@touch $(RUN_STAMP)

$(STAMP): $(MANIFESTS) scripts/install
	@scripts/install
	@touch $@ $(RUN_STAMP)

# Users install what runs; where the development tools are installed already, they stay.
$(RUN_STAMP): $(MANIFESTS) scripts/install
	@if [ -e $(STAMP) ]; then scripts/install && touch $(STAMP); else scripts/install --run; fi
	@touch $@

run: $(RUN_STAMP) ## start Choir and open a chat; Ctrl-C twice stops everything (ARGS: choirctl up --help)
	@$(BIN)/choirctl up $(ARGS)

up: $(RUN_STAMP) ## start Choir in the background
	@$(BIN)/choirctl up --detach $(ARGS)

down: $(RUN_STAMP) ## stop Choir in the background
	@$(BIN)/choirctl down

test: install ## run all tests in parallel against real Postgres and NATS (ARGS: pytest --help; -n0 runs them one by one)
	@$(BIN)/pytest --numprocesses=$(WORKERS) $(ARGS)

nightly: install ## run the long tests: a million random steps each of locks, skills and heartbeats, 14,000 concurrent approvals, a crash at every line, a simulated year of memory, 200 kills around due times, ten minutes without a model (hours)
	@$(BIN)/pytest -m "" --hypothesis-profile=nightly --timeout=0 tests/unit/agent/test_lanes_property.py tests/unit/agent/test_lock_machine.py tests/unit/agent/test_skills_machine.py tests/service/control/test_heartbeats.py tests/service/evolution/test_races.py tests/security/injection/test_attacks.py tests/security/injection/test_adaptive_attacks.py $(ARGS)
	@$(BIN)/pytest -m nightly --timeout=0 $(ARGS) tests
	@CHOIR_TEST_EVERY_CUT=1 $(BIN)/pytest -m "" --timeout=0 tests/faults/test_cuts.py tests/faults/test_cuts_docker.py tests/faults/test_archive_cuts.py tests/faults/test_cut_updates.py tests/service/browser/test_replacing.py tests/service/common/test_migrations.py tests/service/evolution/test_adversary.py tests/service/images/test_build.py
	@CHOIR_TEST_WHOLE_YEAR=1 $(BIN)/pytest -m "" --timeout=0 tests/faults/test_year.py
	@CHOIR_FAILOVERS=102 $(BIN)/pytest -m "" -s --timeout=0 tests/service/control/test_failover.py
	@CHOIR_POD_KILL_ROUNDS=13 $(BIN)/pytest -m "" -s -n0 --timeout=0 tests/compose/test_kubernetes_kills.py
	@CHOIR_GATEWAY_KILLS=50 $(BIN)/pytest -m "" -s --timeout=0 tests/service/gateway/test_two_gateways.py
	@CHOIR_TEST_RUNAWAY_BLOCKS=3 $(BIN)/pytest -m "" -s --timeout=0 tests/faults/test_runaway.py
	@CHOIR_HOOK_KILLS=200 $(BIN)/pytest -m "" --timeout=0 tests/faults/test_hook_kills.py
	@CHOIR_SCHEDULE_KILLS=200 CHOIR_SCHEDULE_STACK_KILLS=20 $(BIN)/pytest -m "" --timeout=0 tests/faults/test_schedule_kills.py tests/faults/test_schedule_stack_kills.py
	@CHOIR_TEST_OUTAGE_S=600 $(BIN)/pytest -m "" -s --timeout=0 tests/faults/test_provider_outage.py
	@CHOIR_TEST_EVERY_LOOK=1 $(BIN)/pytest -m "" --timeout=0 tests/journey/test_web_chat.py tests/journey/test_web_connect.py tests/journey/test_web_log.py tests/journey/test_web_memory.py tests/journey/test_web_now.py tests/journey/test_web_page.py tests/journey/test_web_setup.py
	@CHOIR_KILLS=20 $(BIN)/pytest -m "" --timeout=0 tests/faults/test_kill.py tests/faults/test_kill_jobs.py tests/journey/test_family.py
	@CHOIR_TEST_EVERY_VECTOR=1 CHOIR_TEST_RUNAWAY_ROUNDS=5 $(BIN)/pytest -m "" --timeout=0 tests/security/browser/test_ssrf.py tests/security/browser/test_isolation.py
	@CHOIR_TEST_EVERY_HOST=1 $(BIN)/pytest -m "" --timeout=0 tests/security/runtimes/test_call_domains.py tests/security/runtimes/test_confined_services.py tests/security/runtimes/test_shared_user.py
	@CHOIR_TEST_MONEY_MESSAGES=40 CHOIR_TEST_FORGED_PRESSES=1000 $(BIN)/pytest -m "" --timeout=0 tests/service/control/test_money_kills.py tests/security/control/test_forged_presses.py
	@CHOIR_TEST_SWAPPED_WRITES=20000 $(BIN)/pytest -m "" --timeout=0 tests/security/agent/test_traversal.py
	@CHOIR_TEST_FUZZ_CASES=20000 $(BIN)/pytest -m "" --timeout=0 tests/security/control/test_fuzz.py tests/security/doors/test_fuzz.py

migration: install ## write the SQL migration that applies changes of control's table models (TOPIC=name)
	@$(BIN)/python -m tests.support.schema_models $(TOPIC)

translations: install ## update the message catalogues from the sources, compile them, and say what is not translated
	@$(BIN)/python -m scripts.translations

check: install ## check format, lint, types, imports, shape and words; CI runs this first
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy $(PACKAGES) scripts
	@$(BIN)/lint-imports
	@$(BIN)/python tests/shape_check.py
	@$(BIN)/python tests/words_check.py

audit: install ## compare the packages of uv.lock with the advisory database; exits 3 if it cannot be reached (ARGS: uv audit --help)
	@scripts/audit $(ARGS)

pins: install ## write the hashes of uv, the digests of third-party images and the files of npm packages again; exits 3 if a registry cannot be reached (REGISTRY=URL: one that has all images)
	@$(BIN)/python -m scripts.pins $(UV) $(if $(REGISTRY),--registry $(REGISTRY))
	@$(BIN)/python -m scripts.vendor

release: install ## build VERSION into OUT (dist): archive, bill of materials, licences and checksums, signed with the SSH key KEY
	@test -n "$(VERSION)" || { echo 'make release VERSION=1.2.3 KEY=~/.ssh/choir-release [OUT=dist]'; exit 2; }
	@$(BIN)/python -m scripts.release $(VERSION) --out $(or $(OUT),dist) --uv $(UV) $(if $(KEY),--key $(KEY))

wheel: install ## build the wheel choir-agents and its constraints into OUT (dist); VERSION, else the tag of the commit
	@$(BIN)/python -m scripts.wheel --out $(or $(OUT),dist) --uv $(UV) $(if $(VERSION),--version $(VERSION))

notice: install ## write NOTICE again: third parties whose code or data is part of Choir's files
	@$(BIN)/python -m scripts.notice --uv $(UV)

bench: install ## measure a turn's overhead, start-up and memory; writes .bench/results.json
	@$(BIN)/python -m tests.bench $(ARGS)

bench-memory: install ## compare memory search with plain pgvector; writes .bench/memory.json (ARGS: --full)
	@$(BIN)/python -m tests.bench.memory $(ARGS)
eval: install ## measure the quality of memory search on DATA=FILE (FORMAT=locomo|beam|jsonl|dialogues); writes .bench/eval.json
	@test -n "$(DATA)" || { echo 'make eval DATA=FILE [FORMAT=locomo|beam|jsonl|dialogues]; an example: DATA=tests/eval/data/events_zh.jsonl'; exit 2; }
	@$(BIN)/python -m tests.eval $(DATA) $(if $(FORMAT),--format $(FORMAT)) $(ARGS)

demo: install ## record docs/demo/ and docs/web/ again on a real stack
	@$(BIN)/python -m tests.journey.record
	@$(BIN)/python -m tests.journey.record_web
	@$(BIN)/python -m tests.journey.record_terminal

docs: install ## build the documentation site into .docs/site; its tools are in .docs/venv and nowhere else
	@UV_PROJECT_ENVIRONMENT=.docs/venv $(UV) sync --quiet --frozen --only-group docs
	@$(BIN)/python -m scripts.docs .docs/source
	@NO_MKDOCS_2_WARNING=1 .docs/venv/bin/mkdocs build --strict --config-file .docs/source/mkdocs.yml --site-dir ../site
	@$(BIN)/python -m scripts.docs check .docs/site
	@echo 'the site: .docs/site/index.html'

docs-serve: docs ## show the documentation site at http://127.0.0.1:8000
	@$(BIN)/python -m http.server 8000 --bind 127.0.0.1 --directory .docs/site

clean: ## remove installed and cached files, never Choir's state
	@rm -rf .venv .tools .docs .bench .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
