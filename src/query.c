/*-------------------------------------------------------------------------
 *
 * query.c
 *	  The door to the ledger's tables: role switch, pinned search_path and
 *	  kept SPI plans.
 *
 * The extension's functions are SECURITY INVOKER, and nobody but the owner of
 * the extension has rights on its tables.  So a visit switches to the owner
 * for its own statements and back.  It refuses to write in a security-
 * restricted operation: there the current user is not the one who decided
 * (an index expression that runs at REINDEX, say).
 *
 * search_path is pinned from the visit's first statement to its end and not
 * only when a plan is made: a kept plan is analysed again under the
 * search_path of the moment, and would then pick up an operator that the
 * caller has put there.
 *
 * Plans are generic and kept, so they are made as if every table of ours were
 * large: a plan made while a table was nearly empty, when any index is as good
 * as another, would crawl through it when it has grown.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "extaction.h"
#include "miscadmin.h"
#include "optimizer/plancat.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#define SAFE_SEARCH_PATH "pg_catalog, pg_temp"

/* What a table is taken for when a kept plan is made. */
#define LARGE_TUPLES 10000000.0
#define LARGE_PAGES 200000
#define LARGE_INDEX_PAGES 50000
#define LARGE_INDEX_HEIGHT 3

static bool planning_kept = false;
static bool sorting = false;
static get_relation_info_hook_type next_relation_info_hook = NULL;

static Oid	extension_owner(void);
static void set_for_visit(const char *name, const char *value);
static void be_durable(void);
static void add_hint(void *arg);
static uint64 run(KeptQuery *query, QueryArgs *args, Snapshot snapshot);
static int	execute(KeptQuery *query, QueryArgs *args, Snapshot snapshot);
static int	plan_and_execute(KeptQuery *query, QueryArgs *args,
							 Snapshot snapshot);
static void assume_large(PlannerInfo *root, Oid relid, bool inhparent,
						 RelOptInfo *rel);
static void prepare(KeptQuery *query);
static void add_arg(QueryArgs *args, Datum value, bool isnull);

/*
 * Begins a visit.
 */
void
ledger_enter(LedgerVisit *visit, LedgerMode mode)
{
	MemoryContext caller_memory = CurrentMemoryContext;

	if (mode != LEDGER_READS && InSecurityRestrictedOperation())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("cannot write to the ledger within a security-restricted operation"),
				 errdetail("An index expression, a materialized view or the like runs this as the owner of a table, who decided nothing.")));

	if (mode == LEDGER_DECIDES)
		be_durable();
	GetUserIdAndSecContext(&visit->caller, &visit->security_context);
	SetUserIdAndSecContext(extension_owner(),
						   visit->security_context | SECURITY_LOCAL_USERID_CHANGE);
	visit->guc_level = NewGUCNestLevel();

	visit->on_error.callback = add_hint;
	visit->on_error.arg = NULL;
	visit->on_error.previous = error_context_stack;
	error_context_stack = &visit->on_error;

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	MemoryContextSwitchTo(caller_memory);
}

/*
 * For verbs whose answer others act on: what they recorded must not be lost
 * when this transaction has answered, whatever the caller's
 * synchronous_commit.  With synchronous replication it also waits for the
 * standby, unless the caller sits in a function with settings of its own.
 */
static void
be_durable(void)
{
	if (synchronous_commit < SYNCHRONOUS_COMMIT_REMOTE_FLUSH)
		(void) set_config_option("synchronous_commit", "on", PGC_USERSET,
								 PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0, false);
	ForceSyncCommit();
}

/*
 * Ends a visit: what was got from SPI without a copy is gone after it.
 */
void
ledger_leave(LedgerVisit *visit)
{
	MemoryContext caller_memory = CurrentMemoryContext;

	if (SPI_finish() != SPI_OK_FINISH)
		elog(ERROR, "SPI_finish failed");
	MemoryContextSwitchTo(caller_memory);
	error_context_stack = visit->on_error.previous;
	AtEOXact_GUC(false, visit->guc_level);
	SetUserIdAndSecContext(visit->caller, visit->security_context);
}

/*
 * The role that owns the ledger's tables.
 */
static Oid
extension_owner(void)
{
	Oid			table = get_relname_relid("ledger",
										  get_namespace_oid("extaction", false));
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(table));
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("extension \"extaction\" is not installed in this database"),
				 errhint("Run CREATE EXTENSION extaction.")));
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	return owner;
}

/*
 * Before anything that looks up names as SQL does.
 */
void
ledger_pin_search_path(void)
{
	if (strcmp(namespace_search_path, SAFE_SEARCH_PATH) != 0)
		set_for_visit("search_path", SAFE_SEARCH_PATH);
}

static void
set_for_visit(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
}

/*
 * Error context callback: tells what to do about a lost race.
 */
static void
add_hint(void *arg)
{
	(void) arg;
	if (geterrcode() == ERRCODE_T_R_SERIALIZATION_FAILURE)
		errhint("Another session was first. Run the whole transaction again.");
}

/*
 * Runs a statement and returns the number of its rows, which the got_*()
 * functions read until the next run.
 */
uint64
query_run(KeptQuery *query, QueryArgs *args)
{
	return run(query, args, InvalidSnapshot);
}

/*
 * The same for a statement that shall find its rows first and then sort them.
 * By itself it would rather walk whichever index has that order, from its
 * beginning.
 */
uint64
query_run_and_sort(KeptQuery *query, QueryArgs *args)
{
	uint64		count;

	sorting = true;
	PG_TRY();
	{
		count = run(query, args, InvalidSnapshot);
	}
	PG_FINALLY();
	{
		sorting = false;
	}
	PG_END_TRY();
	return count;
}

/*
 * The same as query_run, but it sees what is committed now in every isolation level.  For
 * what must not be judged by an old snapshot: approvals and revocations.
 */
uint64
query_run_now(KeptQuery *query, QueryArgs *args)
{
	return run(query, args,
			   IsolationUsesXactSnapshot() ? GetLatestSnapshot() : InvalidSnapshot);
}

static uint64
run(KeptQuery *query, QueryArgs *args, Snapshot snapshot)
{
	MemoryContext caller_memory = CurrentMemoryContext;
	int			result;

	Assert(args->count == query->nargs);
	ledger_pin_search_path();
	if (query->plan != NULL && SPI_plan_is_valid(query->plan))
		result = execute(query, args, snapshot);
	else
		result = plan_and_execute(query, args, snapshot);
	if (result < 0)
		elog(ERROR, "SPI_execute_snapshot failed: %s",
			 SPI_result_code_string(result));
	/* SPI has left us in its own memory */
	MemoryContextSwitchTo(caller_memory);
	return SPI_processed;
}

static int
execute(KeptQuery *query, QueryArgs *args, Snapshot snapshot)
{
	return SPI_execute_snapshot(query->plan, args->values, args->nulls,
								snapshot, InvalidSnapshot,
								query->reads, true, 0);
}

/*
 * The first run in a session, or the first after something that the plan
 * rests on has changed.  We want to walk an index from where we are, never to
 * gather what is there.  With such estimates a plan looks dear enough to
 * compile, which it is not.
 */
static int
plan_and_execute(KeptQuery *query, QueryArgs *args, Snapshot snapshot)
{
	static const char *const off[] = {
		"enable_seqscan", "enable_bitmapscan",
		"enable_hashjoin", "enable_mergejoin", "enable_material", "enable_memoize", "jit"
	};
	int			level = NewGUCNestLevel();
	int			result;
	int			i;

	for (i = 0; i < (int) lengthof(off); i++)
		set_for_visit(off[i], "off");
	if (!sorting)
		set_for_visit("enable_sort", "off");
	planning_kept = true;
	PG_TRY();
	{
		if (query->plan == NULL)
			prepare(query);
		result = execute(query, args, snapshot);
	}
	PG_FINALLY();
	{
		planning_kept = false;
	}
	PG_END_TRY();
	AtEOXact_GUC(false, level);
	return result;
}

/*
 * Called when the library is loaded.
 */
void
query_init(void)
{
	next_relation_info_hook = get_relation_info_hook;
	get_relation_info_hook = assume_large;
}

/*
 * Planner hook: for our own kept plans, and for nobody else's.
 */
static void
assume_large(PlannerInfo *root, Oid relid, bool inhparent, RelOptInfo *rel)
{
	ListCell   *lc;

	if (next_relation_info_hook)
		next_relation_info_hook(root, relid, inhparent, rel);
	if (!planning_kept || get_rel_namespace(relid) != get_namespace_oid("extaction", true))
		return;
	rel->tuples = Max(rel->tuples, LARGE_TUPLES);
	rel->pages = Max(rel->pages, LARGE_PAGES);
	foreach(lc, rel->indexlist)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, lc);

		index->tuples = Max(index->tuples, LARGE_TUPLES);
		index->pages = Max(index->pages, LARGE_INDEX_PAGES);
		index->tree_height = Max(index->tree_height, LARGE_INDEX_HEIGHT);
	}
}

static void
prepare(KeptQuery *query)
{
	SPIPlanPtr	plan = SPI_prepare_cursor(query->sql, query->nargs,
										  query->argtypes,
										  CURSOR_OPT_GENERIC_PLAN);

	if (plan == NULL)
		elog(ERROR, "SPI_prepare_cursor failed: %s",
			 SPI_result_code_string(SPI_result));
	SPI_keepplan(plan);
	query->plan = plan;
}

/*
 * Arguments: a NULL pointer or NO_TIME is an SQL NULL.
 */
static void
add_arg(QueryArgs *args, Datum value, bool isnull)
{
	Assert(args->count < QUERY_MAX_ARGS);
	args->values[args->count] = value;
	args->nulls[args->count] = isnull ? 'n' : ' ';
	args->count++;
}

void
arg_text(QueryArgs *args, const text *value)
{
	add_arg(args, PointerGetDatum(value), value == NULL);
}

void
arg_cstring(QueryArgs *args, const char *value)
{
	arg_text(args, value == NULL ? NULL : cstring_to_text(value));
}

void
arg_digest(QueryArgs *args, const uint8 *digest)
{
	bytea	   *value = NULL;

	if (digest != NULL)
	{
		value = palloc(VARHDRSZ + DIGEST_LENGTH);
		SET_VARSIZE(value, VARHDRSZ + DIGEST_LENGTH);
		memcpy(VARDATA(value), digest, DIGEST_LENGTH);
	}
	add_arg(args, PointerGetDatum(value), value == NULL);
}

/*
 * An array of values of a type that is passed by reference.
 */
void
arg_array(QueryArgs *args, Datum *values, int count, Oid type)
{
	bool		fixed = type == UUIDOID;

	add_arg(args, PointerGetDatum(construct_array(values, count, type,
												  fixed ? UUID_LEN : -1, false,
												  fixed ? TYPALIGN_CHAR : TYPALIGN_INT)), false);
}

void
arg_bytes(QueryArgs *args, const bytea *value)
{
	add_arg(args, PointerGetDatum(value), value == NULL);
}

void
arg_jsonb(QueryArgs *args, const Jsonb *value)
{
	add_arg(args, PointerGetDatum(value), value == NULL);
}

void
arg_uuid(QueryArgs *args, const pg_uuid_t *value)
{
	add_arg(args, PointerGetDatum(value), value == NULL);
}

void
arg_int8(QueryArgs *args, int64 value)
{
	add_arg(args, Int64GetDatum(value), false);
}

void
arg_bool(QueryArgs *args, bool value)
{
	add_arg(args, BoolGetDatum(value), false);
}

void
arg_oid(QueryArgs *args, Oid value)
{
	add_arg(args, ObjectIdGetDatum(value), false);
}

void
arg_timestamptz(QueryArgs *args, TimestampTz value)
{
	add_arg(args, TimestampTzGetDatum(value), value == NO_TIME);
}

/*
 * The names of intents: an array of scopes and one of intent_ids.
 */
void
arg_due_items(QueryArgs *args, const DueItem *items, int count)
{
	Datum	   *scopes = palloc(sizeof(Datum) * Max(count, 1));
	Datum	   *intent_ids = palloc(sizeof(Datum) * Max(count, 1));
	int			i;

	for (i = 0; i < count; i++)
	{
		scopes[i] = PointerGetDatum(items[i].scope);
		intent_ids[i] = PointerGetDatum(items[i].intent_id);
	}
	arg_array(args, scopes, count, TEXTOID);
	arg_array(args, intent_ids, count, TEXTOID);
}

/*
 * A number that may be missing.
 */
void
arg_number(QueryArgs *args, int64 value, bool known)
{
	add_arg(args, Int64GetDatum(value), !known);
}

/*
 * The version of a contract: version and shipped.
 */
void
arg_contract(QueryArgs *args, bool known, int64 version, bool shipped)
{
	arg_number(args, version, known);
	add_arg(args, BoolGetDatum(shipped), !known);
}

/*
 * What approvals of a request are bound to: scope, kind, id.
 */
void
arg_subject(QueryArgs *args, const Request *request)
{
	arg_text(args, request->scope);
	arg_cstring(args, subject_kind(request));
	arg_text(args, subject_id(request));
}

/*
 * The three columns that every fact ends with: role, session_user, actor.
 */
void
arg_identity(QueryArgs *args, const Identity *identity)
{
	arg_text(args, identity->role_name);
	arg_text(args, identity->session_user);
	arg_text(args, identity->actor);
}

/*
 * Results.  Columns count from 1, rows from 0.  Values are copies in the
 * caller's memory, except for got_datum().
 */
Datum
got_datum(int row, int column, bool *isnull)
{
	return SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc,
						 column, isnull);
}

bool
got_null(int row, int column)
{
	bool		isnull;

	(void) got_datum(row, column, &isnull);
	return isnull;
}

text *
got_text(int row, int column)
{
	bool		isnull;
	Datum		value = got_datum(row, column, &isnull);

	return isnull ? NULL : DatumGetTextPCopy(value);
}

char *
got_word(int row, int column)
{
	bool		isnull;
	Datum		value = got_datum(row, column, &isnull);

	return isnull ? NULL : TextDatumGetCString(value);
}

Interval
got_interval(int row, int column)
{
	bool		isnull;
	Datum		value = got_datum(row, column, &isnull);
	Interval	none = {0};

	return isnull ? none : *DatumGetIntervalP(value);
}

bool
got_bool(int row, int column)
{
	bool		isnull;
	Datum		value = got_datum(row, column, &isnull);

	return !isnull && DatumGetBool(value);
}

int64
got_int8(int row, int column)
{
	bool		isnull;
	Datum		value = got_datum(row, column, &isnull);

	return isnull ? 0 : DatumGetInt64(value);
}

TimestampTz
got_timestamptz(int row, int column)
{
	bool		isnull;
	Datum		value = got_datum(row, column, &isnull);

	return isnull ? NO_TIME : DatumGetTimestampTz(value);
}

void
got_digest(int row, int column, uint8 *digest)
{
	bool		isnull;
	Datum		datum = got_datum(row, column, &isnull);

	read_digest(datum, isnull, digest);
}

void
read_digest(Datum datum, bool isnull, uint8 *digest)
{
	bytea	   *value = isnull ? NULL : DatumGetByteaPP(datum);

	if (isnull || VARSIZE_ANY_EXHDR(value) != DIGEST_LENGTH)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("a stored digest is not %d bytes long", DIGEST_LENGTH)));
	memcpy(digest, VARDATA_ANY(value), DIGEST_LENGTH);
}

void
got_uuid(int row, int column, pg_uuid_t *value)
{
	bool		isnull;
	Datum		datum = got_datum(row, column, &isnull);

	if (isnull)
		elog(ERROR, "unexpected null uuid");
	memcpy(value, DatumGetUUIDP(datum), UUID_LEN);
}

Jsonb *
got_jsonb(int row, int column)
{
	bool		isnull;
	Datum		value = got_datum(row, column, &isnull);

	return isnull ? NULL : DatumGetJsonbPCopy(value);
}
