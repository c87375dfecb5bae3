# extaction: a ledger for external actions, in PostgreSQL
#
#   make test           all tests, on a fresh Debian machine too: see test/README.md
#   make test-majors    the same on PostgreSQL 15, 17 and 18; MAJORS="17" chooses
#   make demo           chapter one, played on a throwaway server
#   make demo-campaign  50,000 letters to a real mail server, over a bad network
#   make model          every configuration of the model of the protocol
#   make bench          the benchmarks; ARGS="..." goes to bench/run
#   make soak           random verbs and random kills, for SECONDS=600 or ROUNDS=...
#   make valgrind       the tests in SQL with the whole server under Valgrind
#   make sanitize       the same with assertions and UBSan, and random calls
#   make fuzz           libFuzzer on what callers pass; SECONDS as for soak
#   make bench-growth   the same with a long history; ARGS="..." goes to bench/growth
#
#   make                build for the PostgreSQL that PG_CONFIG belongs to
#   make install        install there
#   make installcheck   test a running server that has it (PGHOST, PGPORT, ...)
#   make installcheck-pgtap
#
# PG_CONFIG=/path/to/pg_config or, on Debian, PG_MAJOR=17 chooses another
# PostgreSQL than the newest with development files.

EXTENSION = extaction
EXTVERSION := $(shell sed -n "s/^default_version = '\(.*\)'/\1/p" extaction.control)
DATA_built = sql/extaction--$(EXTVERSION).sql
# older versions, and what leads from one to the next
DATA = $(filter-out $(DATA_built), $(wildcard sql/extaction--*.sql))
PIECES = 10-types 20-tables 30-guards 40-functions 50-views 60-contracts 65-elsewhere 70-fold 90-dump

MODULE_big = extaction
OBJS = \
	src/extaction.o \
	src/canonical.o \
	src/number.o \
	src/digest.o \
	src/document.o \
	src/strict_json.o \
	src/task_request.o \
	src/arguments.o \
	src/gate.o \
	src/ledger.o \
	src/guards.o \
	src/redact.o \
	src/inbox.o \
	src/catalogue.o \
	src/facts.o \
	src/find.o \
	src/query.o \
	src/rows.o \
	src/flush.o \
	src/receipt.o \
	src/access.o \
	src/members.o \
	src/privileges.o \
	src/propose.o \
	src/approve.o \
	src/revoke.o \
	src/fake_provider.o \
	src/contract.o \
	src/contract_function.o \
	src/intent.o \
	src/step.o \
	src/submit.o \
	src/batch.o \
	src/batch_items.o \
	src/go_on.o \
	src/mark.o \
	src/dispatch.o \
	src/ticket.o \
	src/outcome.o \
	src/settle.o \
	src/pause.o \
	src/adopt.o \
	src/difference.o

# PostgreSQL's own headers have unused parameters.  Should a compiler newer
# than ours find something else to warn about, "make WERROR=" goes on.
WERROR = -Werror
PG_CFLAGS = -Wall -Wextra $(WERROR) -Wno-unused-parameter

# The tests, in the order in which they run.
REGRESS = \
	install \
	chapter_one \
	broken \
	documents \
	access \
	hostile \
	guards \
	canonical \
	contract \
	ask \
	decide \
	going_out \
	coming_back \
	cases \
	counterexamples \
	waking \
	erasing \
	states \
	batch \
	mended \
	others \
	same_name
REGRESS_OPTS = --inputdir=test

ISOLATION = \
	toolbox \
	submit-submit \
	submit-submit-rr \
	submit-revoke \
	submit-change \
	submit-savepoint \
	blocked-blocked \
	propose-propose \
	observe-observe \
	approve-approve \
	create-scope \
	grant-grant \
	access-remembered \
	outside-toolbox \
	submit-submit-send \
	submit-submit-many \
	blocked-blocked-send \
	submit-approve \
	approve-approve-two \
	approve-reject \
	approve-expiry \
	approve-claim \
	claim-claim \
	cancel-claim \
	revoke-claim \
	revoke-claim-batch \
	record_outcome-sweep \
	record_outcome-claim \
	decide-late \
	abandon-look \
	compensate-decide \
	wake-wake \
	redact-record \
	submit-other \
	submit-cancel \
	batch-batch \
	batch-overlap \
	batch-submit \
	batch-approve \
	batch-revoke \
	many-in-order
ISOLATION_OPTS = --inputdir=test --outputdir=.

# QUICK=1 leaves out of these what no major version of PostgreSQL makes a difference
# to: for a CI that has no time to run everything twice.
QUICK_TESTS = $(wildcard $(addprefix test/t/, 002_*.pl 003_*.pl 005_*.pl 104_*.pl 33*.pl))
PROVE_TESTS = $(if $(QUICK),$(QUICK_TESTS),$(sort $(wildcard test/t/*.pl)))
ifneq ($(PROVE_TESTS),)
TAP_TESTS = 1
endif

PGTAP_TESTS = $(wildcard test/pgtap/*.sql)

EXTRA_CLEAN = results regression.diffs regression.out output_iso tmp_check \
	tmp_check_iso log

ifdef PG_MAJOR
PG_CONFIG = /usr/lib/postgresql/$(PG_MAJOR)/bin/pg_config
endif
PG_CONFIG ?= pg_config
export PG_CONFIG PG_MAJOR

PGXS := $(wildcard $(shell $(PG_CONFIG) --pgxs 2>/dev/null))
ifneq ($(PGXS),)
include $(PGXS)
else
all install installcheck clean:
	@echo "$(PG_CONFIG) knows no server development files; on Debian they are in postgresql-server-dev-$(or $(PG_MAJOR),15)" >&2
	@exit 1
endif

$(OBJS) $(OBJS:.o=.bc): src/extaction.h src/contract.h src/batch.h src/approve.h

# The install script is a book of several chapters.
$(DATA_built): $(PIECES:%=sql/%.sql)
	cat $^ >$@

.PHONY: check-lists installcheck-pgtap test test-majors soak demo demo-campaign model bench bench-growth \
	valgrind sanitize fuzz

# A test that is in no list above would never run.
UNLISTED = $(filter-out $(REGRESS:%=test/sql/%.sql) $(ISOLATION:%=test/specs/%.spec), \
	$(wildcard test/sql/*.sql test/specs/*.spec))
check-lists:
ifneq ($(UNLISTED),)
	@echo "not listed in the Makefile: $(UNLISTED)" >&2
	@exit 1
endif

# pgTAP tests get a database of their own, with both extensions in it.
PGTAP_DB = extaction_pgtap
installcheck-pgtap: export PGOPTIONS = --client-min-messages=warning
installcheck-pgtap:
ifneq ($(PGTAP_TESTS),)
	$(bindir)/dropdb --if-exists $(PGTAP_DB)
	$(bindir)/createdb $(PGTAP_DB)
	$(bindir)/psql -X -q -v ON_ERROR_STOP=1 -d $(PGTAP_DB) \
		-c 'CREATE EXTENSION pgtap' -c 'CREATE EXTENSION extaction CASCADE'
	pg_prove --psql-bin $(bindir)/psql -d $(PGTAP_DB) $(PROVE_FLAGS) $(PGTAP_TESTS)
	$(bindir)/dropdb $(PGTAP_DB)
endif

test:
	@dev/install-packages
	@dev/with-server dev/test

MAJORS = 15 17 18
test-majors:
	@dev/test-majors $(MAJORS)

# SEED=... repeats the choices of a run; it is printed.
SECONDS = $(if $(ROUNDS),,600)
soak:
	@dev/install-packages
	@dev/with-server env EXTACTION_SECONDS=$(SECONDS) EXTACTION_ROUNDS=$(ROUNDS) EXTACTION_SEED=$(or $(SEED),0) \
		$(MAKE) -s installcheck REGRESS= ISOLATION= PROVE_TESTS=test/t/302_random_kills.pl PROVE_FLAGS=--verbose

demo:
	@dev/install-packages
	@dev/with-server psql -X -q -v ON_ERROR_STOP=1 -f demo/chapter-one.sql

# LETTERS=2000 makes it a short one.
LETTERS = 50000
demo-campaign:
	@dev/install-packages
	@dev/with-server demo/campaign/run $(LETTERS)

# ARGS="-t C5" tells how one of them breaks.
model:
	@dev/install-packages
	@test/model/run $(ARGS)

bench:
	@dev/install-packages
	@dev/with-server bench/run $(ARGS)

bench-growth:
	@dev/install-packages
	@dev/with-server -o shared_preload_libraries=pg_stat_statements bench/growth $(ARGS)

# Faults in memory, undefined behaviour, nonsense.  The first of them takes ten
# minutes to build a server that helps to find them.
UBSAN = -fsanitize=undefined -fno-sanitize-recover=undefined -static-libubsan
valgrind:
	@dev/install-packages
	@server=$$(dev/cassert-server) && PG_CONFIG=$$server dev/with-server test/fuzz/valgrind

sanitize:
	@dev/install-packages
	@server=$$(dev/cassert-server) && PG_CONFIG=$$server COPT="$(UBSAN)" \
		UBSAN_OPTIONS=print_stacktrace=1:abort_on_error=1 \
		dev/with-server -o max_prepared_transactions=8 test/fuzz/sanitize $(SECONDS)

fuzz:
	@dev/install-packages clang-14 libclang-rt-14-dev
	@server=$$(dev/cassert-server) && PG_CONFIG=$$server test/fuzz/fuzz $(SECONDS)
