/*-------------------------------------------------------------------------
 *
 * redact.c
 *	  Erasing what the facts say of persons, and keeping the facts.
 *
 * Payload, destination and evidence of an intent are blanked, wherever a copy
 * of them is: in the intent, in the requests kept for approvers, in the lists
 * it was an item of, in the candidates it was made from.  Digests, keys and
 * events stay, so a resubmitted intent is still recognised and verify() still
 * holds.  An erased payload is JSON null, an erased destination is '': nothing
 * else can be.
 *
 * What may still go out is not erased: it would go out blank.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "extaction.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"

/* All that redact_older_than() works with. */
typedef struct Sweep
{
	text	   *scope;
	TimestampTz before;
	int64		left;			/* how many more are to be erased */
	Identity	identity;
	text	   *reason;
} Sweep;

static void sweep_intents(Sweep *sweep);
static bool sweep_one(Sweep *sweep, text *intent_id);
static void sweep_lists(Sweep *sweep);
static void sweep_wakeups(Sweep *sweep);

PG_FUNCTION_INFO_V1(extaction_redact_older_than);

/*
 * Why an intent cannot be erased now, or NULL.  One that is uncertain can:
 * after that it is looked up, and never sent again.
 */
const char *
redact_refusal(const Intent *intent, const char *state)
{
	if (intent->waits)
		return "a request that does not wait any more: reject or cancel it first";
	if (intent->open && strcmp(state, "sending") == 0)
		return "the end of this attempt: a worker is sending it";
	if (intent->open && strcmp(state, "uncertain") != 0)
		return psprintf("an intent that does not go out any more: this one is %s; cancel it first", state);
	return NULL;
}

/* Of evidence only the code stays: what comes next depends on it. */
#define CODE_ONLY \
	"CASE WHEN jsonb_typeof(e.detail #> '{evidence,code}') IN ('string', 'number')" \
	" THEN jsonb_build_object('code', e.detail #> '{evidence,code}') ELSE '{}' END"

/*
 * Blanks all copies of an intent's content but those in lists, and appends
 * that it was done and why.  The request has the intent's name, and is told
 * its digest.
 */
Redaction
redact_intent(Request *request, const text *reason, const Identity *identity, Receipt *event)
{
	static KeptQuery query = {
		"WITH digests AS MATERIALIZED ("
		" SELECT i.request_digest FROM extaction.intents i WHERE i.scope = $1 AND i.intent_id = $2"
		" UNION SELECT e.request_digest FROM extaction.events e"
		"  WHERE e.scope = $1 AND e.intent_id = $2 AND e.request_digest IS NOT NULL"
		" UNION SELECT a.request_digest FROM extaction.approvals a"
		"  WHERE a.scope = $1 AND a.kind = 'intent' AND a.id = $2),"
		" kept AS MATERIALIZED ("
		" SELECT r.* FROM digests JOIN extaction.requests r"
		"  ON r.scope = $1 AND r.request_digest = digests.request_digest AND r.kind = 'intent' AND r.intent_id = $2),"
		" intent AS (UPDATE extaction.intents SET payload = 'null', destination = ''"
		"  WHERE scope = $1 AND intent_id = $2 AND destination <> '' RETURNING 1),"
		" request AS (UPDATE extaction.requests r SET payload = 'null', destination = ''"
		"  FROM kept k WHERE r.scope = $1 AND r.request_digest = k.request_digest AND r.destination <> '' RETURNING 1),"
		" evidence AS (UPDATE extaction.events e SET detail = e.detail || jsonb_build_object('evidence', " CODE_ONLY ")"
		"  WHERE e.scope = $1 AND e.intent_id = $2 AND e.detail -> 'evidence' <> " CODE_ONLY " RETURNING 1),"
		" candidate AS (UPDATE extaction.candidates c SET content = 'null'"
		"  FROM (SELECT i.candidate_id, i.candidate_revision, NULL::bytea AS digest FROM extaction.intents i"
		"        WHERE i.scope = $1 AND i.intent_id = $2"
		"        UNION SELECT k.candidate_id, NULL, k.candidate_digest FROM kept k) u"
		"  WHERE c.scope = $1 AND c.candidate_id = u.candidate_id"
		"    AND (c.revision = u.candidate_revision OR c.digest = u.digest)"
		"    AND c.content <> 'null' RETURNING c.candidate_id, c.revision),"
		" task AS (UPDATE extaction.fake_tasks t SET title = '', assignee_person_ref = NULL, due_at = NULL"
		"  FROM (SELECT e.detail ->> 'provider_ref' AS task_id FROM extaction.events e"
		"        WHERE e.scope = $1 AND e.intent_id = $2 AND e.kind = 'happened') e"
		"  WHERE t.scope = $1 AND t.task_id = e.task_id AND t.intent_id = $2 AND t.title <> '' RETURNING 1)"
		" SELECT EXISTS (SELECT FROM intent) OR EXISTS (SELECT FROM request) OR EXISTS (SELECT FROM evidence)"
		"  OR EXISTS (SELECT FROM candidate) OR EXISTS (SELECT FROM task),"
		" coalesce((SELECT i.request_digest FROM extaction.intents i WHERE i.scope = $1 AND i.intent_id = $2),"
		"          (SELECT d.request_digest FROM digests d ORDER BY 1 LIMIT 1)),"
		" jsonb_strip_nulls(jsonb_build_object('reason', $3, 'candidates',"
		"  (SELECT jsonb_agg(jsonb_build_object('candidate_id', candidate_id, 'revision', revision)) FROM candidate)))",
		false, 3, {TEXTOID, TEXTOID, TEXTOID}, NULL
	};
	QueryArgs	args = {0};
	bool		blanked;

	arg_text(&args, request->scope);
	arg_text(&args, request->intent_id);
	arg_text(&args, reason);
	(void) guards_pass(&query, &args);
	if (got_null(0, 2))
		return REDACT_UNKNOWN;
	blanked = got_bool(0, 1);
	got_digest(0, 2, request->digest);
	event->detail = got_jsonb(0, 3);
	if (blanked)
		ledger_append(event, "redacted", request, identity);
	return blanked ? REDACT_DONE : REDACT_BLANK;
}

/*
 * Blanks erased intents where they are items of lists: of an item the name
 * and the digest stay, and of a list with no other item left also the digest
 * of what its items shared.
 */
void
redact_lists(const text *scope, Datum *intent_ids, int count)
{
	static KeptQuery query = {
		"WITH lists AS MATERIALIZED ("
		" SELECT b.* FROM extaction.batches b WHERE b.scope = $1 AND b.batch_id IN"
		"  (SELECT i.batch_id FROM extaction.intents i WHERE i.scope = $1 AND i.intent_id = ANY ($2)"
		"   UNION SELECT e.batch_id FROM extaction.events e WHERE e.scope = $1 AND e.intent_id = ANY ($2)"
		"    AND e.batch_id IS NOT NULL)),"
		" items AS ("
		" SELECT l.request_digest, jsonb_agg(CASE WHEN i.destination = '' AND t.item ? 'destination'"
		"   THEN jsonb_build_object('intent_id', t.item -> 'intent_id', 'digest', encode(extaction.stored_digest("
		"    jsonb_build_object('v', 'extaction.request.v1', 'scope', l.scope, 'intent_id', t.item -> 'intent_id',"
		"     'action', l.action, 'destination', t.item -> 'destination', 'candidate', NULL,"
		"     'payload', w.payload || coalesce(t.item -> 'payload', '{}'))), 'hex'))"
		"   ELSE t.item END ORDER BY t.position) AS items,"
		"  bool_or(t.item ? 'destination' AND i.destination IS DISTINCT FROM '') AS some_left"
		" FROM lists l JOIN extaction.requests r ON r.scope = l.scope AND r.request_digest = l.request_digest"
		" CROSS JOIN LATERAL (SELECT r.payload -> 'payload' AS payload, r.payload -> 'items' AS items OFFSET 0) w"
		" CROSS JOIN LATERAL jsonb_array_elements(w.items) WITH ORDINALITY t (item, position)"
		" LEFT JOIN extaction.intents i ON i.scope = l.scope AND i.intent_id = t.item ->> 'intent_id'"
		" GROUP BY 1)"
		" UPDATE extaction.requests r SET payload = jsonb_build_object('erased', true, 'items', n.items)"
		"  || CASE WHEN n.some_left OR NOT r.payload ? 'payload' THEN r.payload - '{items,erased}'::text[]"
		"     ELSE jsonb_build_object('payload_digest', encode(extaction.stored_digest(r.payload -> 'payload'), 'hex')) END"
		" FROM items n WHERE r.scope = $1 AND r.request_digest = n.request_digest AND n.items <> r.payload -> 'items'",
		false, 2, {TEXTOID, TEXTARRAYOID}, NULL
	};
	QueryArgs	args = {0};

	arg_text(&args, scope);
	arg_array(&args, intent_ids, count, TEXTOID);
	(void) guards_pass(&query, &args);
}

/*
 * redact_older_than(scope, age, max) returns bigint
 */
Datum
extaction_redact_older_than(PG_FUNCTION_ARGS)
{
	Sweep		sweep;
	LedgerVisit visit;
	int64		max;

	sweep.scope = name_argument(fcinfo, 0, "scope");
	if (PG_ARGISNULL(1) || contract_microseconds(PG_GETARG_INTERVAL_P(1)) < 0)
		ereport(ERROR,
				(errcode(PG_ARGISNULL(1) ? ERRCODE_NULL_VALUE_NOT_ALLOWED : ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("age must be an interval that is not negative"),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "age")));
	max = PG_ARGISNULL(2) ? PG_INT64_MAX : PG_GETARG_INT64(2);
	if (max < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("max must be at least 1"),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "max")));
	sweep.left = max;
	sweep.before = DatumGetTimestampTz(DirectFunctionCall2(timestamptz_mi_interval,
														   TimestampTzGetDatum(GetCurrentTimestamp()),
														   PG_GETARG_DATUM(1)));
	sweep.reason = cstring_to_text(psprintf("older than %s",
											DatumGetCString(DirectFunctionCall1(interval_out, PG_GETARG_DATUM(1)))));

	ledger_enter(&visit, LEDGER_DECIDES);
	identity_init(&sweep.identity, visit.caller, NULL);
	access_require(&sweep.identity, sweep.scope, "owner");
	sweep_intents(&sweep);
	sweep_lists(&sweep);
	sweep_wakeups(&sweep);
	ledger_leave(&visit);
	PG_RETURN_INT64(max - sweep.left);
}

/*
 * Intents that are closed, and requests that nobody waits for or could still
 * submit, of which nothing has been heard since.
 */
static void
sweep_intents(Sweep *sweep)
{
	static KeptQuery query = {
		"SELECT s.intent_id FROM ("
		" SELECT i.intent_id FROM extaction.intents i"
		" WHERE i.scope = $1 AND i.destination <> '' AND i.recorded_at < $2"
		"   AND NOT EXISTS (SELECT FROM extaction.worklist w WHERE w.scope = $1 AND w.intent_id = i.intent_id)"
		" UNION"
		" SELECT r.intent_id FROM extaction.requests r"
		" WHERE r.scope = $1 AND r.kind = 'intent' AND r.destination <> '' AND r.recorded_at < $2"
		"   AND NOT EXISTS (SELECT FROM extaction.worklist w WHERE w.scope = $1 AND w.intent_id = r.intent_id)"
		"   AND NOT EXISTS (SELECT FROM extaction.approvals a WHERE a.scope = $1 AND a.kind = 'intent'"
		"                   AND a.id = r.intent_id AND a.expires_at > clock_timestamp())) s"
		" WHERE NOT EXISTS (SELECT FROM extaction.waiting q WHERE q.scope = $1 AND q.kind = 'intent' AND q.id = s.intent_id)"
		"   AND NOT EXISTS (SELECT FROM extaction.events e"
		"                   WHERE e.scope = $1 AND e.intent_id = s.intent_id AND e.recorded_at >= $2)"
		" LIMIT $3",
		false, 3, {TEXTOID, TIMESTAMPTZOID, INT8OID}, NULL
	};
	MemoryContext memory = AllocSetContextCreate(CurrentMemoryContext, "extaction redacted intent",
												 ALLOCSET_DEFAULT_SIZES);
	QueryArgs	args = {0};
	Datum	   *names;
	int			found;
	int			count = 0;
	int			i;

	arg_text(&args, sweep->scope);
	arg_timestamptz(&args, sweep->before);
	arg_int8(&args, sweep->left);
	found = (int) query_run(&query, &args);
	names = palloc_extended(sizeof(Datum) * Max(found, 1), MCXT_ALLOC_HUGE);
	for (i = 0; i < found; i++)
		names[i] = PointerGetDatum(got_text(i, 1));
	for (i = 0; i < found; i++)
	{
		MemoryContext old = MemoryContextSwitchTo(memory);

		CHECK_FOR_INTERRUPTS();
		if (sweep_one(sweep, DatumGetTextP(names[i])))
			names[count++] = names[i];
		MemoryContextSwitchTo(old);
		MemoryContextReset(memory);
	}
	sweep->left -= count;
	if (count > 0)
		redact_lists(sweep->scope, names, count);
}

/*
 * One of them, if it still is as it was found.
 */
static bool
sweep_one(Sweep *sweep, text *intent_id)
{
	Intent		intent;
	Receipt		event = NO_RECEIPT;

	ledger_lock_subject(sweep->scope, "intent", intent_id, true);
	if (intent_lock(&intent, sweep->scope, intent_id) && (intent.waits || intent.open))
		return false;
	return redact_intent(&intent.request, sweep->reason, &sweep->identity, &event) == REDACT_DONE;
}

/*
 * Lists that came to nothing.
 */
static void
sweep_lists(Sweep *sweep)
{
	static KeptQuery query = {
		"WITH list AS MATERIALIZED ("
		" SELECT r.request_digest, r.intent_id FROM extaction.requests r"
		" WHERE r.scope = $1 AND r.kind = 'batch' AND r.payload <> 'null' AND r.recorded_at < $2"
		"   AND NOT EXISTS (SELECT FROM extaction.batches b WHERE b.scope = $1 AND b.request_digest = r.request_digest)"
		"   AND NOT EXISTS (SELECT FROM extaction.waiting q WHERE q.scope = $1 AND q.kind = 'batch' AND q.id = r.intent_id)"
		"   AND NOT EXISTS (SELECT FROM extaction.approvals a WHERE a.scope = $1 AND a.kind = 'batch'"
		"                   AND a.id = r.intent_id AND a.expires_at > clock_timestamp())"
		" LIMIT $3),"
		" event AS (INSERT INTO extaction.events"
		"  (scope, intent_id, kind, batch_id, request_digest, detail, role, \"session_user\", actor)"
		"  SELECT $1, '', 'redacted', intent_id, request_digest, jsonb_build_object('reason', $4), $5, $6, $7 FROM list)"
		" UPDATE extaction.requests r SET payload = 'null'"
		" FROM list WHERE r.scope = $1 AND r.request_digest = list.request_digest",
		false, 7, {TEXTOID, TIMESTAMPTZOID, INT8OID, TEXTOID, TEXTOID, TEXTOID, TEXTOID}, NULL
	};
	QueryArgs	args = {0};

	arg_text(&args, sweep->scope);
	arg_timestamptz(&args, sweep->before);
	arg_int8(&args, sweep->left);
	arg_text(&args, sweep->reason);
	arg_identity(&args, &sweep->identity);
	sweep->left -= (int64) guards_pass(&query, &args);
}

/*
 * Wakeups; that they came, and with which digest, stays.
 */
static void
sweep_wakeups(Sweep *sweep)
{
	static KeptQuery query = {
		"WITH old AS MATERIALIZED (SELECT w.source, w.event_id FROM extaction.wakeups w"
		"  WHERE w.scope = $1 AND w.payload IS NOT NULL AND w.recorded_at < $2 LIMIT $3)"
		" UPDATE extaction.wakeups w SET payload = NULL"
		" FROM old WHERE w.scope = $1 AND w.source = old.source AND w.event_id = old.event_id",
		false, 3, {TEXTOID, TIMESTAMPTZOID, INT8OID}, NULL
	};
	QueryArgs	args = {0};

	arg_text(&args, sweep->scope);
	arg_timestamptz(&args, sweep->before);
	arg_int8(&args, sweep->left);
	sweep->left -= (int64) guards_pass(&query, &args);
}
