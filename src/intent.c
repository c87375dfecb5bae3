/*-------------------------------------------------------------------------
 *
 * intent.c
 *	  What the ledger knows about an intent, and where it stands.
 *
 * The state of an intent is its worklist row, or else its last outcome; a
 * lease that has ended makes it uncertain at once for whoever looks, whether
 * or not anybody has written that down.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "rows.h"
#include "utils/builtins.h"

static void arg_intent(QueryArgs *args, const Intent *intent);
static void read_binding(Intent *intent);
static void read_candidate(Intent *intent, text *candidate_id, int64 revision);
static void read_batch(Intent *intent);
static void read_catalogue(Intent *intent);
static void read_work(Intent *intent);
static void read_outcome(Intent *intent);
static void read_waiting(Intent *intent);
static const char *state_word(const char *kind);
static void check_newest(text *scope, text *intent_id);
static void copy_digest(const uint8 **to, const uint8 *from);

/*
 * Loads an intent.  False if the scope has none of that name, bound or
 * waiting.  "reads" is for STABLE functions.
 */
bool
intent_load(Intent *intent, text *scope, text *intent_id, bool reads)
{
	RowsView	view = reads ? VIEW_CALLER : VIEW_TRANSACTION;

	rows_look(view);
	intent_read(intent, scope, intent_id);
	rows_look_end(view);
	return intent->bound || intent->waits;
}

/*
 * Loads several, as they are at one moment.
 */
Intent *
intents_load(const DueItem *items, int count)
{
	Intent	   *intents = palloc_extended(sizeof(Intent) * Max(count, 1), MCXT_ALLOC_HUGE);
	int			i;

	rows_look(VIEW_TRANSACTION);
	for (i = 0; i < count; i++)
		intent_read(&intents[i], items[i].scope, items[i].intent_id);
	rows_look_end(VIEW_TRANSACTION);
	return intents;
}

/*
 * Reads one, in a look that the caller has begun (see rows_look()).
 */
void
intent_read(Intent *intent, text *scope, text *intent_id)
{
	memset(intent, 0, sizeof(Intent));
	intent->work = no_work();
	intent->first_sent_at = intent->quiet_from = NO_TIME;
	intent->request.scope = scope;
	intent->request.intent_id = intent_id;
	read_binding(intent);
	if (intent->bound)
	{
		read_catalogue(intent);
		read_work(intent);
		read_outcome(intent);
	}
	read_waiting(intent);
}

/*
 * Locks an intent's row of the worklist, if it has one, and loads the intent
 * as it is then.
 */
bool
intent_lock(Intent *intent, text *scope, text *intent_id)
{
	static KeptQuery query = {
		"SELECT FROM extaction.worklist WHERE scope = $1 AND intent_id = $2 FOR UPDATE",
		false, 2, {TEXTOID, TEXTOID}, NULL
	};
	QueryArgs	args = {0};

	arg_text(&args, scope);
	arg_text(&args, intent_id);
	(void) query_run(&query, &args);
	if (IsolationUsesXactSnapshot())
		check_newest(scope, intent_id);
	return intent_load(intent, scope, intent_id, false);
}

/*
 * In REPEATABLE READ and stricter, an intent about which something was
 * recorded after our snapshot was taken is a lost race: we would decide from
 * what is no longer true.
 */
static void
check_newest(text *scope, text *intent_id)
{
	static KeptQuery query = {
		"SELECT coalesce(max(e.event_id), 0) FROM extaction.events e"
		" WHERE e.scope = $1 AND e.intent_id = $2",
		false, 2, {TEXTOID, TEXTOID}, NULL
	};
	QueryArgs	args = {0};
	int64		seen;

	arg_text(&args, scope);
	arg_text(&args, intent_id);
	(void) query_run(&query, &args);
	seen = got_int8(0, 1);
	(void) query_run_now(&query, &args);
	if (got_int8(0, 1) != seen)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not serialize access due to a concurrent change of the intent")));
}

static void
arg_intent(QueryArgs *args, const Intent *intent)
{
	arg_text(args, intent->request.scope);
	arg_text(args, intent->request.intent_id);
}

static void
read_binding(Intent *intent)
{
	static KeptRows intents = ROWS_OF("intents", "intents_pkey",
									  "request_digest", "event_id", "recorded_at", "action", "destination", "payload",
									  "approval_id", "batch_id", "idempotency_key", "requester", "role", "session_user",
									  "actor", "contract_version", "contract_shipped", "candidate_id",
									  "candidate_revision");
	Request    *request = &intent->request;
	QueryArgs	keys = {0};
	GotRow		row;

	arg_intent(&keys, intent);
	intent->bound = row_find(&intents, &keys, false, &row);
	if (intent->bound)
	{
		row_digest(&row, 1, request->digest);
		intent->event_id = row_int8(&row, 2);
		intent->recorded_at = row_timestamptz(&row, 3);
		request->action = row_text(&row, 4);
		request->destination = row_text(&row, 5);
		request->payload = row_jsonb(&row, 6);
		intent->redacted = VARSIZE_ANY_EXHDR(request->destination) == 0;
		intent->approval_id = row_text(&row, 7);
		intent->batch_id = row_text(&row, 8);
		row_uuid(&row, 9, &intent->idempotency_key);
		identity_stored(&intent->requester, row_text(&row, 10), row_text(&row, 11), row_text(&row, 12),
						row_text(&row, 13));
		intent->has_contract = !row_null(&row, 14);
		intent->contract_version = row_int8(&row, 14);
		intent->contract_shipped = row_bool(&row, 15);
		if (!row_null(&row, 16))
			read_candidate(intent, row_text(&row, 16), row_int8(&row, 17));
		if (intent->batch_id != NULL)
			read_batch(intent);
	}
}

/*
 * The revision that it was asked for with.
 */
static void
read_candidate(Intent *intent, text *candidate_id, int64 revision)
{
	static KeptRows candidates = ROWS_OF("candidates", "candidates_pkey",
									  "digest", "source_id", "source_version");
	CandidateRef *candidate = &intent->candidate;
	QueryArgs	keys = {0};
	GotRow		row;

	arg_text(&keys, intent->request.scope);
	arg_text(&keys, candidate_id);
	arg_int8(&keys, revision);
	if (row_find(&candidates, &keys, false, &row))
	{
		intent->request.candidate = candidate;
		candidate->candidate_id = candidate_id;
		row_digest(&row, 1, candidate->digest);
		candidate->source_id = row_text(&row, 2);
		candidate->source_version = row_text(&row, 3);
	}
}

static void
read_batch(Intent *intent)
{
	static KeptRows batches = ROWS_OF("batches", "batches_pkey", "request_digest");
	QueryArgs	keys = {0};
	GotRow		row;

	arg_text(&keys, intent->request.scope);
	arg_text(&keys, intent->batch_id);
	if (row_find(&batches, &keys, false, &row))
	{
		intent->request.batch_id = intent->batch_id;
		row_digest(&row, 1, intent->request.batch_digest);
	}
}

static void
read_catalogue(Intent *intent)
{
	const Catalogue *action = catalogue_get(text_to_cstring(intent->request.action));

	intent->action_known = action->known;
	intent->provider = text_copy(action->provider);
	intent->operation = text_copy(action->operation);
	intent->max_attempts = action->max_attempts;
	intent->retry_delay = action->retry_delay;
	intent->call_timeout = action->call_timeout;
}

static void
read_work(Intent *intent)
{
	static KeptRows worklist = ROWS_OF("worklist", "worklist_pkey",
									  "state", "attempt", "due_at", "claim_id", "claimed_by", "handed_at", "worker",
									  "lease_until", "first_sent_at", "quiet_from", "last_code", "gate", "needs", "since",
									  "tries", "claim_step", "earlier_open", "late_found", "answered_at", "look_began_at",
									  "lookups");
	Work	   *work = &intent->work;
	QueryArgs	keys = {0};
	GotRow		row;

	arg_intent(&keys, intent);
	intent->open = row_find(&worklist, &keys, false, &row);
	if (intent->open)
	{
		work->state = row_word(&row, 1);
		work->attempt = row_int8(&row, 2);
		work->due_at = row_timestamptz(&row, 3);
		work->claim_id = row_int8(&row, 4);
		work->claimed_by = row_text(&row, 5);
		work->handed_at = row_timestamptz(&row, 6);
		work->worker = row_text(&row, 7);
		work->lease_until = row_timestamptz(&row, 8);
		work->first_sent_at = row_timestamptz(&row, 9);
		work->quiet_from = row_timestamptz(&row, 10);
		work->last_code = row_word(&row, 11);
		work->gate = row_word(&row, 12);
		work->needs = row_word(&row, 13);
		work->since = row_timestamptz(&row, 14);
		work->tries = row_int8(&row, 15);
		work->claim_step = row_word(&row, 16);
		work->earlier_open = row_bool(&row, 17);
		work->late_found = row_bool(&row, 18);
		work->answered_at = row_timestamptz(&row, 19);
		work->look_began_at = row_timestamptz(&row, 20);
		work->lookups = row_int8(&row, 21);
	}
}

static void
read_outcome(Intent *intent)
{
	static KeptRows verdicts = ROWS_OF("events", "events_verdicts",
									  "event_id", "kind", "recorded_at", "attempt", "detail");
	QueryArgs	keys = {0};
	RowScan		scan;
	GotRow		row;

	arg_text(&keys, intent->request.intent_id);
	arg_text(&keys, intent->request.scope);
	rows_begin(&scan, &verdicts, &keys, true);
	while (rows_next(&scan, &row) && row_int8(&row, 1) > intent->event_id)
	{
		const char *kind = row_word(&row, 2);

		if (strcmp(kind, "late_evidence") == 0 || strcmp(kind, "rejected") == 0)
			continue;
		intent->outcome = kind;
		intent->outcome_event = row_int8(&row, 1);
		intent->outcome_at = row_timestamptz(&row, 3);
		intent->outcome_attempt = row_int8(&row, 4);
		intent->provider_ref = detail_member(row_jsonb(&row, 5), "provider_ref");
		break;
	}
	rows_end(&scan);
}

static void
read_waiting(Intent *intent)
{
	static KeptRows waiting = ROWS_OF("waiting", "waiting_pkey",
									  "request_digest", "gate", "needs", "since");
	QueryArgs	keys = {0};
	GotRow		row;

	arg_text(&keys, intent->request.scope);
	arg_cstring(&keys, "intent");
	arg_text(&keys, intent->request.intent_id);
	intent->waits = row_find(&waiting, &keys, false, &row);
	if (intent->waits)
	{
		row_digest(&row, 1, intent->waiting_digest);
		intent->waiting_gate = row_word(&row, 2);
		intent->waiting_needs = row_word(&row, 3);
		intent->waiting_since = row_timestamptz(&row, 4);
	}
}

/*
 * The state, as a receipt names it.
 */
const char *
intent_state(const Intent *intent, TimestampTz now)
{
	if (intent->open)
		return strcmp(intent->work.state, "sending") == 0 && intent->work.lease_until <= now
			? "uncertain" : intent->work.state;
	if (!intent->bound)
		return "awaiting_approval";
	return intent->outcome ? state_word(intent->outcome) : "uncertain";
}

/*
 * That is for ever, whatever else is recorded of it later.
 */
bool
intent_happened(const Intent *intent)
{
	return intent->outcome != NULL && strcmp(intent->outcome, "happened") == 0;
}

/*
 * What was cancelled never went out, so it did not happen.
 */
static const char *
state_word(const char *kind)
{
	return strcmp(kind, "cancelled") == 0 ? "not_happened" : kind;
}

/*
 * Fills a receipt with where the intent stands.
 */
void
intent_receipt(Receipt *receipt, const Intent *intent, const char *status)
{
	TimestampTz now = GetCurrentTimestamp();
	NextStep	next = intent_next_step(intent, now);
	bool		settled = intent->outcome != NULL;

	receipt->status = status;
	receipt->scope = intent->request.scope;
	receipt->intent_id = intent->request.intent_id;
	receipt->state = intent_state(intent, now);
	receipt->next_step = next.step;
	if (receipt->receipt_id == 0)
	{
		receipt->receipt_id = settled ? intent->outcome_event : intent->event_id;
		receipt->recorded_at = settled ? intent->outcome_at :
			intent->bound ? intent->recorded_at : intent->waiting_since;
	}
	if (intent->bound)
	{
		copy_digest(&receipt->request_digest, intent->request.digest);
		receipt->bound_digest = receipt->request_digest;
		receipt->idempotency_key = memcpy(palloc(sizeof(pg_uuid_t)), &intent->idempotency_key,
										  sizeof(pg_uuid_t));
		receipt->approval_id = intent->approval_id;
		receipt->batch_id = intent->batch_id;
		receipt->provider_ref = intent->provider_ref;
		receipt->attempt = intent->open ? intent->work.attempt : intent->outcome_attempt;
		receipt->gate = intent->open ? intent->work.gate : NULL;
		receipt->needs = receipt->needs ? receipt->needs :
			intent->open && intent->work.needs ? intent->work.needs :
			strcmp(next.step, "done") == 0 ? NULL : next.reason;
	}
	if (intent->waits && receipt->gate == NULL)
	{
		receipt->gate = intent->waiting_gate;
		receipt->needs = receipt->needs && intent->bound ? receipt->needs : intent->waiting_needs;
		if (!intent->bound)
			copy_digest(&receipt->request_digest, intent->waiting_digest);
	}
}

static void
copy_digest(const uint8 **to, const uint8 *from)
{
	*to = memcpy(palloc(DIGEST_LENGTH), from, DIGEST_LENGTH);
}

/* Was it first asked for in, or before, a time that a restore has lost, and bound after the restore? */
#define BORN_LOST_SQL \
	"SELECT FROM extaction.intents i," \
	" LATERAL (SELECT g.window_until FROM extaction.ledger g" \
	"          WHERE g.recorded_at <= i.recorded_at ORDER BY g.entry DESC LIMIT 1) g" \
	" WHERE i.scope = $1 AND i.intent_id = $2 AND g.window_until IS NOT NULL" \
	"   AND least(i.recorded_at, (SELECT min(a.recorded_at) FROM extaction.events a WHERE a.scope = i.scope" \
	"       AND a.intent_id = CASE WHEN i.batch_id IS NULL THEN i.intent_id ELSE '' END" \
	"       AND (i.batch_id IS NULL OR a.batch_id = i.batch_id))) < g.window_until"

/*
 * For an intent that has left the worklist: its last attempt, when it was with
 * a worker first and last, and what its earlier attempts are worth, from the
 * events.
 */
void
intent_past(Intent *intent)
{
	static KeptQuery query = {
		"SELECT coalesce(max(e.attempt), 0), min(e.recorded_at) FILTER (WHERE e.kind = 'sending'),"
		" max(e.lease_until),"
		" coalesce(bool_or(e.kind = 'late_evidence' AND e.detail ->> 'outcome' = 'happened'), false),"
		" coalesce(bool_or(e.kind = 'sending' AND e.event_id > e.last_settled AND e.attempt < e.last_attempt"
		"                  AND NOT e.attempt = ANY (e.given_back)"
		/* or in the time that a restore has lost */
		"                  OR e.kind = 'uncertain' AND e.event_id > e.last_settled"
		"                  AND e.detail #>> '{evidence,code}' = 'restored'), false)"
		" OR (count(*) FILTER (WHERE e.kind = 'not_happened') = 0 AND EXISTS (" BORN_LOST_SQL ")),"
		" count(DISTINCT e.attempt) FILTER (WHERE e.kind = 'sending' AND e.event_id > e.last_retry"
		"                                   AND NOT e.attempt = ANY (e.given_back))"
		" FROM (SELECT e.*,"
		"   coalesce(max(e.event_id) FILTER (WHERE e.kind = 'not_happened') OVER (), 0) AS last_settled,"
		"   coalesce(max(e.event_id) FILTER (WHERE e.kind = 'retried') OVER (), 0) AS last_retry,"
		"   max(e.attempt) FILTER (WHERE e.kind = 'sending') OVER () AS last_attempt,"
		"   coalesce(array_agg(e.attempt) FILTER (WHERE e.kind = 'released' AND e.attempt IS NOT NULL) OVER (), '{}') AS given_back"
		"  FROM extaction.events e WHERE e.scope = $1 AND e.intent_id = $2"
		"   AND e.kind IN ('sending', 'extended', 'uncertain', 'happened', 'not_happened', 'released', 'retried', 'abandoned', 'late_evidence')) e",
		false, 2, {TEXTOID, TEXTOID}, NULL
	};
	QueryArgs	args = {0};

	arg_text(&args, intent->request.scope);
	arg_text(&args, intent->request.intent_id);
	(void) query_run(&query, &args);
	intent->last_attempt = got_int8(0, 1);
	intent->first_sent_at = got_timestamptz(0, 2);
	intent->quiet_from = got_timestamptz(0, 3);
	intent->work.late_found = got_bool(0, 4);
	intent->work.earlier_open = got_bool(0, 5);
	intent->past_tries = got_int8(0, 6);
}

/*
 * What approvals of a request are bound to: an intent or a batch.
 */
const char *
subject_kind(const Request *request)
{
	return request->batch_id ? "batch" : "intent";
}

text *
subject_id(const Request *request)
{
	return request->batch_id ? request->batch_id : request->intent_id;
}

const uint8 *
subject_digest(const Request *request)
{
	return request->batch_id ? request->batch_digest : request->digest;
}

/*
 * A request as it was kept for those who decide about it; and if it waits, who
 * asked for it (else requester->name is NULL).
 */
bool
request_load(Request *request, CandidateRef *candidate, Identity *requester,
			 Order *order, text *scope, const uint8 *digest)
{
	static KeptQuery query = {
		"SELECT r.intent_id, r.action, r.destination, r.payload, r.candidate_id, r.candidate_digest,"
		" r.source_id, r.source_version, w.requester, w.role, w.\"session_user\", w.actor,"
		" w.not_before, w.compensates, r.kind = 'batch'"
		" FROM extaction.requests r"
		" LEFT JOIN extaction.waiting w ON w.scope = r.scope AND w.kind = r.kind AND w.id = r.intent_id"
		"  AND w.request_digest = r.request_digest"
		" WHERE r.scope = $1 AND r.request_digest = $2 AND r.payload <> 'null'",
		false, 2, {TEXTOID, BYTEAOID}, NULL
	};
	QueryArgs	args = {0};

	arg_text(&args, scope);
	arg_digest(&args, digest);
	if (query_run_now(&query, &args) == 0)
		return false;
	memset(request, 0, sizeof(Request));
	request->scope = scope;
	memcpy(request->digest, digest, DIGEST_LENGTH);
	request->intent_id = got_text(0, 1);
	request->action = got_text(0, 2);
	request->destination = got_text(0, 3);
	request->payload = got_jsonb(0, 4);
	if (!got_null(0, 5))
	{
		request->candidate = candidate;
		candidate->candidate_id = got_text(0, 5);
		got_digest(0, 6, candidate->digest);
		candidate->source_id = got_text(0, 7);
		candidate->source_version = got_text(0, 8);
	}
	requester->name = NULL;
	if (!got_null(0, 9))
		identity_stored(requester, got_text(0, 9), got_text(0, 10), got_text(0, 11), got_text(0, 12));
	request->whole_batch = got_bool(0, 15);
	if (request->whole_batch)
	{
		request->batch_id = request->intent_id;
		memcpy(request->batch_digest, digest, DIGEST_LENGTH);
	}
	order->batch_id = NULL;
	order->not_before = got_timestamptz(0, 13);
	order->compensates = got_text(0, 14);
	return true;
}
