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
#include "extaction.h"
#include "utils/builtins.h"

static void read_intent(Intent *intent, text *scope, text *intent_id, int row);
static void read_binding(Intent *intent, int row);
static void read_catalogue(Intent *intent, int row);
static void read_work(Intent *intent, int row);
static void read_outcome(Intent *intent, int row);
static void read_waiting(Intent *intent, int row);
static const char *state_word(const char *kind);
static void check_newest(text *scope, text *intent_id);
static void copy_digest(const uint8 **to, const uint8 *from);

/* The columns of INTENT_SQL, in order. */
enum
{
	COL_DIGEST = 1,
	COL_EVENT_ID,
	COL_RECORDED_AT,
	COL_ACTION,
	COL_DESTINATION,
	COL_PAYLOAD,
	COL_APPROVAL_ID,
	COL_BATCH_ID,
	COL_BATCH_DIGEST,
	COL_KEY,
	COL_REQUESTER,
	COL_ROLE,
	COL_SESSION_USER,
	COL_ACTOR,
	COL_CONTRACT_VERSION,
	COL_CONTRACT_SHIPPED,
	COL_CANDIDATE_ID,
	COL_CANDIDATE_DIGEST,
	COL_SOURCE_ID,
	COL_SOURCE_VERSION,
	COL_PROVIDER,
	COL_OPERATION,
	COL_MAX_ATTEMPTS,
	COL_RETRY_DELAY,
	COL_CALL_TIMEOUT,
	COL_STATE,
	COL_ATTEMPT,
	COL_DUE_AT,
	COL_CLAIM_ID,
	COL_CLAIMED_BY,
	COL_HANDED_AT,
	COL_WORKER,
	COL_LEASE_UNTIL,
	COL_FIRST_SENT_AT,
	COL_QUIET_FROM,
	COL_LAST_CODE,
	COL_GATE,
	COL_NEEDS,
	COL_SINCE,
	COL_TRIES,
	COL_CLAIM_STEP,
	COL_EARLIER_OPEN,
	COL_LATE_FOUND,
	COL_ANSWERED_AT,
	COL_LOOK_BEGAN_AT,
	COL_LOOKUPS,
	COL_OUTCOME,
	COL_OUTCOME_EVENT,
	COL_OUTCOME_AT,
	COL_OUTCOME_ATTEMPT,
	COL_PROVIDER_REF,
	COL_WAITING_DIGEST,
	COL_WAITING_GATE,
	COL_WAITING_NEEDS,
	COL_WAITING_SINCE,
	COL_NUMBER
};

/* Of one intent, or a row for each of several; "number" says which. */
#define INTENT_SQL(these, scope, intent_id, number) \
	"SELECT i.request_digest, i.event_id, i.recorded_at, i.action, i.destination, i.payload," \
	" i.approval_id, i.batch_id, b.request_digest, i.idempotency_key, i.requester, i.role, i.\"session_user\", i.actor," \
	" i.contract_version, i.contract_shipped," \
	" c.candidate_id, c.digest, c.source_id, c.source_version," \
	" a.provider, a.operation, a.max_attempts, a.retry_delay, a.call_timeout," \
	" w.state, w.attempt, w.due_at, w.claim_id, w.claimed_by, w.handed_at, w.worker, w.lease_until," \
	" w.first_sent_at, w.quiet_from, w.last_code, w.gate, w.needs, w.since, w.tries, w.claim_step," \
	" w.earlier_open, w.late_found, w.answered_at, w.look_began_at, w.lookups," \
	" o.kind, o.event_id, o.recorded_at, o.attempt, o.detail ->> 'provider_ref'," \
	" q.request_digest, q.gate, q.needs, q.since, " number \
	" FROM " these \
	" LEFT JOIN extaction.intents i ON i.scope = " scope " AND i.intent_id = " intent_id \
	" LEFT JOIN extaction.candidates c ON c.scope = i.scope AND c.candidate_id = i.candidate_id" \
	"  AND c.revision = i.candidate_revision" \
	" LEFT JOIN extaction.batches b ON b.scope = i.scope AND b.batch_id = i.batch_id" \
	" LEFT JOIN extaction.actions a ON a.action = i.action" \
	" LEFT JOIN extaction.worklist w ON w.scope = i.scope AND w.intent_id = i.intent_id" \
	" LEFT JOIN LATERAL (SELECT e.* FROM extaction.events e" \
	"                    WHERE e.scope = i.scope AND e.intent_id = i.intent_id AND e.event_id > i.event_id" \
	"                      AND e.kind IN ('happened', 'not_happened', 'uncertain', 'cancelled')" \
	"                    ORDER BY e.event_id DESC LIMIT 1) o ON true" \
	" LEFT JOIN extaction.waiting q ON q.scope = " scope " AND q.kind = 'intent' AND q.id = " intent_id

#define ONE_INTENT_SQL INTENT_SQL("(SELECT 1) AS always", "$1", "$2", "1::bigint")

/*
 * Loads an intent.  False if the scope has none of that name, bound or
 * waiting.  "reads" is for STABLE functions.
 */
bool
intent_load(Intent *intent, text *scope, text *intent_id, bool reads)
{
	static KeptQuery reading = {ONE_INTENT_SQL, true, 2, {TEXTOID, TEXTOID}, NULL};
	static KeptQuery writing = {ONE_INTENT_SQL, false, 2, {TEXTOID, TEXTOID}, NULL};
	QueryArgs	args = {0};

	arg_text(&args, scope);
	arg_text(&args, intent_id);
	(void) query_run(reads ? &reading : &writing, &args);
	read_intent(intent, scope, intent_id, 0);
	return intent->bound || intent->waits;
}

/*
 * Loads several at once, which is much cheaper than one by one.
 */
Intent *
intents_load(const DueItem *items, int count)
{
	static KeptQuery query = {
		INTENT_SQL("unnest($1, $2) WITH ORDINALITY AS t (scope, intent_id, n)", "t.scope", "t.intent_id", "t.n"),
		false, 2, {TEXTARRAYOID, TEXTARRAYOID}, NULL
	};
	Intent	   *intents = palloc_extended(sizeof(Intent) * Max(count, 1), MCXT_ALLOC_HUGE);
	QueryArgs	args = {0};
	int			row;

	arg_due_items(&args, items, count);
	if ((int) query_run(&query, &args) != count)
		elog(ERROR, "not every intent was loaded");
	for (row = 0; row < count; row++)
	{
		int			i = (int) got_int8(row, COL_NUMBER) - 1;

		read_intent(&intents[i], items[i].scope, items[i].intent_id, row);
	}
	return intents;
}

static void
read_intent(Intent *intent, text *scope, text *intent_id, int row)
{
	memset(intent, 0, sizeof(Intent));
	intent->work = no_work();
	intent->first_sent_at = intent->quiet_from = NO_TIME;
	intent->request.scope = scope;
	intent->request.intent_id = intent_id;
	intent->bound = !got_null(row, COL_DIGEST);
	if (intent->bound)
	{
		read_binding(intent, row);
		read_catalogue(intent, row);
		read_outcome(intent, row);
	}
	intent->open = !got_null(row, COL_STATE);
	if (intent->open)
		read_work(intent, row);
	intent->waits = !got_null(row, COL_WAITING_DIGEST);
	if (intent->waits)
		read_waiting(intent, row);
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
read_binding(Intent *intent, int row)
{
	Request    *request = &intent->request;

	got_digest(row, COL_DIGEST, request->digest);
	request->action = got_text(row, COL_ACTION);
	request->destination = got_text(row, COL_DESTINATION);
	request->payload = got_jsonb(row, COL_PAYLOAD);
	intent->redacted = VARSIZE_ANY_EXHDR(request->destination) == 0;
	intent->event_id = got_int8(row, COL_EVENT_ID);
	intent->recorded_at = got_timestamptz(row, COL_RECORDED_AT);
	intent->approval_id = got_text(row, COL_APPROVAL_ID);
	intent->batch_id = got_text(row, COL_BATCH_ID);
	if (!got_null(row, COL_BATCH_DIGEST))
	{
		request->batch_id = intent->batch_id;
		got_digest(row, COL_BATCH_DIGEST, request->batch_digest);
	}
	got_uuid(row, COL_KEY, &intent->idempotency_key);
	identity_stored(&intent->requester, got_text(row, COL_REQUESTER), got_text(row, COL_ROLE),
					got_text(row, COL_SESSION_USER), got_text(row, COL_ACTOR));
	intent->has_contract = !got_null(row, COL_CONTRACT_VERSION);
	intent->contract_version = got_int8(row, COL_CONTRACT_VERSION);
	intent->contract_shipped = got_bool(row, COL_CONTRACT_SHIPPED);
	if (!got_null(row, COL_CANDIDATE_ID))
	{
		request->candidate = &intent->candidate;
		intent->candidate.candidate_id = got_text(row, COL_CANDIDATE_ID);
		got_digest(row, COL_CANDIDATE_DIGEST, intent->candidate.digest);
		intent->candidate.source_id = got_text(row, COL_SOURCE_ID);
		intent->candidate.source_version = got_text(row, COL_SOURCE_VERSION);
	}
}

static void
read_catalogue(Intent *intent, int row)
{
	intent->action_known = !got_null(row, COL_PROVIDER);
	intent->provider = got_text(row, COL_PROVIDER);
	intent->operation = got_text(row, COL_OPERATION);
	intent->max_attempts = got_int8(row, COL_MAX_ATTEMPTS);
	intent->retry_delay = got_interval(row, COL_RETRY_DELAY);
	intent->call_timeout = got_interval(row, COL_CALL_TIMEOUT);
}

static void
read_work(Intent *intent, int row)
{
	Work	   *work = &intent->work;

	work->state = got_word(row, COL_STATE);
	work->attempt = got_int8(row, COL_ATTEMPT);
	work->due_at = got_timestamptz(row, COL_DUE_AT);
	work->claim_id = got_int8(row, COL_CLAIM_ID);
	work->claimed_by = got_text(row, COL_CLAIMED_BY);
	work->handed_at = got_timestamptz(row, COL_HANDED_AT);
	work->worker = got_text(row, COL_WORKER);
	work->lease_until = got_timestamptz(row, COL_LEASE_UNTIL);
	work->first_sent_at = got_timestamptz(row, COL_FIRST_SENT_AT);
	work->quiet_from = got_timestamptz(row, COL_QUIET_FROM);
	work->last_code = got_word(row, COL_LAST_CODE);
	work->gate = got_word(row, COL_GATE);
	work->needs = got_word(row, COL_NEEDS);
	work->since = got_timestamptz(row, COL_SINCE);
	work->tries = got_int8(row, COL_TRIES);
	work->claim_step = got_word(row, COL_CLAIM_STEP);
	work->earlier_open = got_bool(row, COL_EARLIER_OPEN);
	work->late_found = got_bool(row, COL_LATE_FOUND);
	work->answered_at = got_timestamptz(row, COL_ANSWERED_AT);
	work->look_began_at = got_timestamptz(row, COL_LOOK_BEGAN_AT);
	work->lookups = got_int8(row, COL_LOOKUPS);
}

static void
read_outcome(Intent *intent, int row)
{
	if (got_null(row, COL_OUTCOME))
		return;
	intent->outcome = got_word(row, COL_OUTCOME);
	intent->outcome_event = got_int8(row, COL_OUTCOME_EVENT);
	intent->outcome_at = got_timestamptz(row, COL_OUTCOME_AT);
	intent->outcome_attempt = got_int8(row, COL_OUTCOME_ATTEMPT);
	intent->provider_ref = got_text(row, COL_PROVIDER_REF);
}

static void
read_waiting(Intent *intent, int row)
{
	got_digest(row, COL_WAITING_DIGEST, intent->waiting_digest);
	intent->waiting_gate = got_word(row, COL_WAITING_GATE);
	intent->waiting_needs = got_word(row, COL_WAITING_NEEDS);
	intent->waiting_since = got_timestamptz(row, COL_WAITING_SINCE);
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
		"                  AND NOT e.attempt = ANY (e.given_back)), false),"
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
