/*-------------------------------------------------------------------------
 *
 * adopt.c
 *	  Is this the database that the ledger was last written in?
 *
 * Restore yesterday's backup, and everything sent since is prepared again;
 * load production into staging, and staging mails real customers.  So tickets
 * are refused while system identifier or database differ from the ledger's
 * last entry, until the owner has said what this database is.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "extaction.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"

static void append_entry(const char *kind, TimestampTz taken_at, TimestampTz window_until,
						 const Identity *identity);
static int64 make_open_uncertain(TimestampTz taken_at, const Identity *identity);
static void leave_tickets_behind(void);
static int64 close_open(const Identity *identity);

PG_FUNCTION_INFO_V1(extaction_adopt);

/*
 * Raises unless this is where the ledger was last written.
 */
void
ledger_must_be_home(void)
{
	static KeptQuery query = {
		"SELECT l.system_identifier = $1 AND l.database_oid = $2"
		" FROM extaction.ledger l ORDER BY l.entry DESC LIMIT 1",
		false, 2, {INT8OID, OIDOID}, NULL
	};
	QueryArgs	args = {0};

	arg_int8(&args, (int64) GetSystemIdentifier());
	arg_oid(&args, MyDatabaseId);
	if (query_run_now(&query, &args) == 1 && !got_bool(0, 1))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the ledger was written in another database, and nothing goes out of this one"),
				 errdetail("It has been restored, moved or copied: what it shows as prepared may have gone out already."),
				 errhint("The owner has to say which: extaction.adopt('moved'), adopt('restored', backup_taken_at, window_until) or adopt('copy').")));
}

/*
 * How far attempts may have been counted in earlier epochs, also by a
 * database that a restore has lost.  What goes out now is numbered above it,
 * and an answer to what is below fits nothing of ours.
 */
int64
attempts_before(const text *action)
{
	return (Max(catalogue_get(text_to_cstring(action))->epoch, 1) - 1) * ATTEMPTS_PER_EPOCH;
}

/*
 * adopt(kind, backup_taken_at, window_until) returns text
 */
Datum
extaction_adopt(PG_FUNCTION_ARGS)
{
	static KeptQuery lock = {
		"LOCK TABLE extaction.ledger, extaction.worklist IN SHARE ROW EXCLUSIVE MODE",
		false, 0, {0}, NULL
	};
	static KeptQuery sequences = {
		"SELECT extaction.repair_sequences()", false, 0, {0}, NULL
	};
	char	   *kind = text_to_cstring(name_argument(fcinfo, 0, "kind"));
	bool		restored = strcmp(kind, "restored") == 0;
	TimestampTz taken_at = PG_ARGISNULL(1) ? NO_TIME : PG_GETARG_TIMESTAMPTZ(1);
	TimestampTz window_until = PG_ARGISNULL(2) ? NO_TIME : PG_GETARG_TIMESTAMPTZ(2);
	LedgerVisit visit;
	Identity	identity;
	QueryArgs	none = {0};
	int64		touched = 0;

	if (!restored && strcmp(kind, "moved") != 0 && strcmp(kind, "copy") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unknown kind \"%s\"", kind),
				 errhint("It is one of: moved, restored, copy."),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "kind")));
	if (restored != (taken_at != NO_TIME && window_until != NO_TIME) ||
		(!restored && (taken_at != NO_TIME || window_until != NO_TIME)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("backup_taken_at and window_until go with kind \"restored\", both of them"),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "backup_taken_at")));
	if (restored && window_until < taken_at)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("window_until is before backup_taken_at"),
				 errdetail("It says until when the lost database may still have sent."),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "window_until")));

	ledger_enter(&visit, LEDGER_DECIDES);
	identity_init(&identity, visit.caller, NULL);
	require_extension_owner(&identity);
	(void) query_run(&lock, &none);
	if (restored)
	{
		touched = make_open_uncertain(taken_at, &identity);
		leave_tickets_behind();
	}
	else if (strcmp(kind, "copy") == 0)
		touched = close_open(&identity);
	append_entry(kind, taken_at, window_until, &identity);
	(void) query_run(&sequences, &none);
	ledger_leave(&visit);
	PG_RETURN_TEXT_P(cstring_to_text(psprintf("%s: %lld open intents are now %s", kind, (long long) touched,
											  restored ? "uncertain" : strcmp(kind, "copy") == 0 ? "abandoned" : "as they were")));
}

/*
 * The ledger's next entry.  A restore begins a new epoch, in which earlier
 * approvals no longer hold; a copy likewise, for they were given to the
 * original, and it is another ledger, with keys of its own.
 */
static void
append_entry(const char *kind, TimestampTz taken_at, TimestampTz window_until,
			 const Identity *identity)
{
	static KeptQuery query = {
		"INSERT INTO extaction.ledger"
		" (entry, epoch, ledger_id, system_identifier, database_oid, timeline, kind,"
		"  backup_taken_at, window_until, role)"
		" SELECT l.entry + 1, l.epoch + CASE WHEN $1 IN ('restored', 'copy') THEN 1 ELSE 0 END,"
		"  CASE WHEN $1 = 'copy' THEN gen_random_uuid() ELSE l.ledger_id END,"
		"  $2, $3, $4, $1,"
		"  CASE WHEN $1 = 'moved' THEN l.backup_taken_at ELSE $5 END,"
		"  CASE WHEN $1 = 'moved' THEN l.window_until ELSE $6 END, $7"
		" FROM extaction.ledger l ORDER BY l.entry DESC LIMIT 1 RETURNING 1",
		false, 7, {TEXTOID, INT8OID, OIDOID, INT8OID, TIMESTAMPTZOID, TIMESTAMPTZOID, TEXTOID}, NULL
	};
	QueryArgs	args = {0};

	arg_cstring(&args, kind);
	arg_int8(&args, (int64) GetSystemIdentifier());
	arg_oid(&args, MyDatabaseId);
	arg_int8(&args, GetWALInsertionTimeLine());
	arg_timestamptz(&args, taken_at);
	arg_timestamptz(&args, window_until);
	arg_text(&args, identity->role_name);
	if (query_run(&query, &args) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("there is no ledger yet"),
				 errhint("The first extaction.create_scope begins it.")));
}

/*
 * After a restore, whatever is open may have gone out in the lost time, and
 * may still be on its way.  Attempts go on 1000 higher, so that no answer to
 * a lost attempt fits one of ours.
 */
static int64
make_open_uncertain(TimestampTz taken_at, const Identity *identity)
{
	static KeptQuery query = {
		"WITH opened AS ("
		" UPDATE extaction.worklist w"
		" SET state = 'uncertain', since = clock_timestamp(), due_at = clock_timestamp(),"
		"  attempt = w.attempt + " CppAsString2(ATTEMPTS_PER_EPOCH) ", first_sent_at = least(w.first_sent_at, $1),"
		"  quiet_from = greatest(w.quiet_from, clock_timestamp() + " LONGEST_LEASE_SQL ","
		"   clock_timestamp() + coalesce((SELECT max(x.lease_until - x.since) FROM extaction.worklist x"
		"                                 WHERE x.lease_until IS NOT NULL), '0')),"
		"  earlier_open = true, claim_id = NULL, claimed_by = NULL, handed_at = NULL, worker = NULL,"
		"  claim_step = NULL, lease_until = NULL, gate = NULL, needs = NULL,"
		"  last_code = CASE WHEN w.last_code IN ('mismatch', 'stored_failure') THEN w.last_code ELSE 'restored' END"
		" RETURNING w.scope, w.intent_id, w.attempt, w.quiet_from)"
		" INSERT INTO extaction.events (scope, intent_id, kind, attempt, request_digest, lease_until, detail,"
		"  role, \"session_user\")"
		" SELECT o.scope, o.intent_id, 'uncertain', o.attempt, i.request_digest, o.quiet_from,"
		"  '{\"evidence\": {\"code\": \"restored\"}}', $2, $3"
		" FROM opened o JOIN extaction.intents i ON i.scope = o.scope AND i.intent_id = o.intent_id",
		false, 3, {TIMESTAMPTZOID, TEXTOID, TEXTOID}, NULL
	};
	QueryArgs	args = {0};

	arg_timestamptz(&args, taken_at);
	arg_text(&args, identity->role_name);
	arg_text(&args, identity->session_user);
	return (int64) query_run(&query, &args);
}

/*
 * Nor may a worker's ticket from the lost time be one of ours: it would give
 * back as never sent what another has sent.  A jump of random length, since
 * the same backup may be restored twice.
 */
static void
leave_tickets_behind(void)
{
	static KeptQuery query = {
		"SELECT setval('extaction.claim_id_seq', nextval('extaction.claim_id_seq') + 1000000 + (random() * 1e12)::bigint)",
		false, 0, {0}, NULL
	};
	QueryArgs	none = {0};

	(void) query_run(&query, &none);
}

/*
 * What was closed in the backup may have been tried once more in the lost
 * time.  Whoever wants to retry it has to find out first: it is uncertain,
 * above all attempts of then.  False if no restore came in between.
 */
bool
adopt_has_lost(Intent *intent)
{
	static KeptQuery query = {
		"SELECT l.backup_taken_at, l.recorded_at + " LONGEST_LEASE_SQL
		" FROM extaction.ledger l WHERE l.kind = 'restored' AND l.recorded_at > $1"
		" ORDER BY l.entry DESC LIMIT 1",
		false, 1, {TIMESTAMPTZOID}, NULL
	};
	Work	   *work = &intent->work;
	QueryArgs	args = {0};

	arg_timestamptz(&args, intent->outcome_at);
	if (query_run(&query, &args) == 0)
		return false;
	work->attempt = Max(work->attempt, attempts_before(intent->request.action));
	work->first_sent_at = work->first_sent_at == NO_TIME ? got_timestamptz(0, 1)
		: Min(work->first_sent_at, got_timestamptz(0, 1));
	work->quiet_from = Max(work->quiet_from, got_timestamptz(0, 2));
	work->earlier_open = true;
	work->last_code = "restored";
	return true;
}

/*
 * In a copy, what is open is the original's to do.
 */
static int64
close_open(const Identity *identity)
{
	static KeptQuery query = {
		"WITH closed AS (DELETE FROM extaction.worklist w RETURNING w.scope, w.intent_id, w.attempt),"
		" told AS (INSERT INTO extaction.events (scope, intent_id, kind, attempt, request_digest, detail,"
		"  role, \"session_user\")"
		" SELECT c.scope, c.intent_id, k.kind, nullif(c.attempt, 0), i.request_digest,"
		"  '{\"reason\": \"this is a copy: the original goes on with it\"}', $1, $2"
		" FROM closed c JOIN extaction.intents i ON i.scope = c.scope AND i.intent_id = c.intent_id"
		" CROSS JOIN (VALUES (1, 'uncertain'), (2, 'abandoned')) k (n, kind) ORDER BY c.scope, c.intent_id, k.n)"
		" SELECT FROM closed",
		false, 2, {TEXTOID, TEXTOID}, NULL
	};
	QueryArgs	args = {0};

	arg_text(&args, identity->role_name);
	arg_text(&args, identity->session_user);
	return (int64) query_run(&query, &args);
}
