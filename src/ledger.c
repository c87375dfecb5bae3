/*-------------------------------------------------------------------------
 *
 * ledger.c
 *	  The only room that writes the ledger's facts and worklists.
 *
 * Lock order everywhere: advisory lock of the subject, worklist row, inserts.
 * The race of two first callers is decided by the primary key of intents:
 * the loser waits for the winner's end, and then inserts nothing, or inserts
 * if the winner rolled back.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "rows.h"
#include "storage/lock.h"
#include "utils/builtins.h"

#define MAX_SUBJECT_LOCKS 200

/*
 * Our advisory locks are of a class of their own: pg_advisory_lock() takes
 * those of 1 and 2, and so nobody can hold a subject of a scope by calling it.
 */
#define SUBJECT_LOCK_CLASS 3

static int	locks_taken = 0;	/* in this transaction */
static bool has_whole_scope = false;	/* as the last call found it */
static bool was_free = false;			/* did the last call take a new one? */

static bool lock_subject(const text *scope, const char *kind, const text *id,
						 bool exclusive, bool only_if_free);
static void count_locks_anew(XactEvent event, void *arg);
static LOCKTAG subject_tag(const text *scope, const char *kind, const text *id);
static bool bind(const Request *request, const Facts *facts, const text *approval_id,
				 const Identity *identity, const Order *order, Receipt *receipt);
static void put_first_work(const Request *request, const Order *order, Receipt *receipt);
static void put_first_work_restored(const Request *request, const Facts *facts,
									const Order *order, Receipt *receipt);

/*
 * The lock, to the end of the transaction, under which approvals and what
 * waits for them meet.  Exclusive for those who write an approval, take one
 * back, or begin to wait for one; shared for claim.
 *
 * The server's lock table is small.  So a transaction that has taken many of
 * these goes on with one for the whole scope, which everybody else holds
 * shared; as soon as nobody does.
 */
void
ledger_lock_subject(const text *scope, const char *kind, const text *id,
					bool exclusive)
{
	(void) lock_subject(scope, kind, id, exclusive, false);
}

/*
 * The lock, if it can be had at once.  For claim, which holds a row of the
 * worklist already and so must not wait; and for whoever has not shown yet
 * that the scope is any business of theirs.
 */
bool
ledger_try_lock_subject(const text *scope, const char *kind, const text *id,
						bool exclusive)
{
	return lock_subject(scope, kind, id, exclusive, true);
}

static bool
lock_subject(const text *scope, const char *kind, const text *id,
			 bool exclusive, bool only_if_free)
{
	LOCKTAG		whole = subject_tag(scope, "", NULL);
	LOCKTAG		tag = subject_tag(scope, kind, id);
	LockAcquireResult result;

	/* waiting for it would be a deadlock with the next who does the same */
	has_whole_scope = locks_taken >= MAX_SUBJECT_LOCKS &&
		LockAcquire(&whole, ExclusiveLock, false, true) != LOCKACQUIRE_NOT_AVAIL;
	if (has_whole_scope)
		return true;
	if (LockAcquire(&whole, ShareLock, false, only_if_free) == LOCKACQUIRE_NOT_AVAIL)
		return false;
	result = LockAcquire(&tag, exclusive ? ExclusiveLock : ShareLock, false, only_if_free);
	was_free = result == LOCKACQUIRE_OK;
	if (was_free)
		locks_taken++;
	if (result == LOCKACQUIRE_NOT_AVAIL)
		(void) LockRelease(&whole, ShareLock, false);
	return result != LOCKACQUIRE_NOT_AVAIL;
}

/*
 * Gives back, before the transaction ends, the exclusive lock that was taken
 * last: whoever has no business in the scope must not keep it.
 */
void
ledger_unlock_subject(const text *scope, const char *kind, const text *id)
{
	LOCKTAG		whole = subject_tag(scope, "", NULL);
	LOCKTAG		tag = subject_tag(scope, kind, id);

	if (has_whole_scope)
	{
		(void) LockRelease(&whole, ExclusiveLock, false);
		return;
	}
	(void) LockRelease(&tag, ExclusiveLock, false);
	(void) LockRelease(&whole, ShareLock, false);
	if (was_free)
		locks_taken--;
}

/*
 * A subject is known by a digest of its name, because nobody can choose a name
 * in his own scope that meets a given one in another's.
 */
static LOCKTAG
subject_tag(const text *scope, const char *kind, const text *id)
{
	uint64		number = digest_subject(scope, kind, id);
	LOCKTAG		tag;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, (uint32) (number >> 32), (uint32) number,
						 SUBJECT_LOCK_CLASS);
	return tag;
}

/*
 * Called when the library is loaded.
 */
void
ledger_init(void)
{
	RegisterXactCallback(count_locks_anew, NULL);
}

static void
count_locks_anew(XactEvent event, void *arg)
{
	locks_taken = 0;
}

/*
 * Binds an intent to a request for ever, and puts it on the worklist.  False
 * if it is bound already: then another session was first.
 */
bool
ledger_bind(const Request *request, const Facts *facts,
			const text *approval_id, const Identity *identity,
			const Order *order, Receipt *receipt)
{
	if (!bind(request, facts, approval_id, identity, order, receipt))
		return false;
	if (facts->window_until == NO_TIME)
		put_first_work(request, order, receipt);
	else
		put_first_work_restored(request, facts, order, receipt);
	return true;
}

/*
 * The intent's row, which is its first event.
 */
static bool
bind(const Request *request, const Facts *facts, const text *approval_id,
	 const Identity *identity, const Order *order, Receipt *receipt)
{
	static KeptRows intents = ROWS_OF("intents", NULL, "scope", "intent_id", "event_id", "recorded_at",
									  "action", "destination", "payload", "candidate_id",
									  "candidate_revision", "request_digest", "approval_id",
									  "idempotency_key", "requester", "role", "session_user", "actor",
									  "batch_id", "compensates", "not_before", "contract_version",
									  "contract_shipped");
	QueryArgs	args = {0};
	int64		event_id = row_new_event_id();
	TimestampTz now = GetCurrentTimestamp();

	arg_text(&args, request->scope);
	arg_text(&args, request->intent_id);
	arg_int8(&args, event_id);
	arg_timestamptz(&args, now);
	arg_text(&args, request->action);
	arg_text(&args, request->destination);
	arg_jsonb(&args, request->payload);
	arg_text(&args, request->candidate ? request->candidate->candidate_id : NULL);
	arg_number(&args, facts->candidate.revision, request->candidate != NULL);
	arg_digest(&args, request->digest);
	arg_text(&args, approval_id);
	arg_uuid(&args, &facts->idempotency_key);
	arg_text(&args, identity->name);
	arg_identity(&args, identity);
	arg_text(&args, order->batch_id);
	arg_text(&args, order->compensates);
	arg_timestamptz(&args, order->not_before);
	arg_contract(&args, facts->has_contract, facts->contract_version, facts->contract_shipped);
	if (!row_add(&intents, &args, true))
		return false;
	receipt->receipt_id = event_id;
	receipt->recorded_at = now;
	return true;
}

/*
 * The first worklist row: prepared, due at once or when it may go.
 */
static void
put_first_work(const Request *request, const Order *order, Receipt *receipt)
{
	static KeptRows worklist = ROWS_OF("worklist", NULL, "scope", "intent_id", "action", "state", "due_at",
									   "since", "attempt", "tries", "lookups", "earlier_open", "late_found");
	QueryArgs	args = {0};

	receipt->state = "prepared";
	arg_text(&args, request->scope);
	arg_text(&args, request->intent_id);
	arg_text(&args, request->action);
	arg_cstring(&args, receipt->state);
	arg_timestamptz(&args, order->not_before == NO_TIME ? receipt->recorded_at : order->not_before);
	arg_timestamptz(&args, receipt->recorded_at);
	arg_int8(&args, 0);
	arg_int8(&args, 0);
	arg_int8(&args, 0);
	arg_bool(&args, false);
	arg_bool(&args, false);
	(void) row_add(&worklist, &args, false);
}

/*
 * In a ledger that was restored.  What was first asked for before the end of
 * the window that was lost may have gone out already, however long after it
 * is approved: it begins as uncertain.
 */
static void
put_first_work_restored(const Request *request, const Facts *facts, const Order *order,
						Receipt *receipt)
{
	static KeptQuery query = {
		"WITH b AS (SELECT $5 AS recorded_at),"
		" a AS (SELECT least(b.recorded_at, (SELECT min(e.recorded_at) FROM extaction.events e"
		"                                    WHERE e.scope = $1 AND e.intent_id = $2)) < $6 AS lost FROM b)"
		FIRST_WORK_SQL("$2", "$3", "$4", "$7")
		" FROM b, a RETURNING state",
		false, 7, {TEXTOID, TEXTOID, TEXTOID, TIMESTAMPTZOID, TIMESTAMPTZOID, TIMESTAMPTZOID,
		TIMESTAMPTZOID}, NULL
	};
	QueryArgs	args = {0};

	arg_text(&args, request->scope);
	arg_text(&args, request->intent_id);
	arg_text(&args, request->action);
	arg_timestamptz(&args, order->not_before);
	arg_timestamptz(&args, receipt->recorded_at);
	arg_timestamptz(&args, facts->window_until);
	arg_timestamptz(&args, facts->backup_taken_at);
	(void) query_run(&query, &args);
	receipt->state = got_word(0, 1);
}

/*
 * Binds an intent that happens in this very transaction, with its outcome;
 * the receipt is told of that event.  False as above.
 */
bool
ledger_bind_happened(const Request *request, const Facts *facts,
					 const text *approval_id, const Identity *identity,
					 Receipt *receipt)
{
	Order		order = NO_ORDER;
	Receipt		event = *receipt;

	if (!bind(request, facts, approval_id, identity, &order, receipt))
		return false;
	event.approval_id = approval_id;
	ledger_append(&event, "happened", request, identity);
	receipt->receipt_id = event.receipt_id;
	receipt->recorded_at = event.recorded_at;
	return true;
}

/*
 * Appends an event about an intent; attempt, approval, times and detail are
 * those of the receipt, which is told the event's number and time.
 */
void
ledger_append(Receipt *receipt, const char *kind, const Request *request,
			  const Identity *identity)
{
	static KeptRows events = ROWS_OF("events", NULL, "scope", "intent_id", "event_id", "recorded_at", "kind",
									 "attempt", "request_digest", "approval_id", "detail", "due_at",
									 "lease_until", "role", "session_user", "actor", "batch_id");
	QueryArgs	args = {0};

	receipt->receipt_id = row_new_event_id();
	receipt->recorded_at = GetCurrentTimestamp();
	arg_text(&args, request->scope);
	arg_text(&args, request->whole_batch ? cstring_to_text("") : request->intent_id);
	arg_int8(&args, receipt->receipt_id);
	arg_timestamptz(&args, receipt->recorded_at);
	arg_cstring(&args, kind);
	arg_number(&args, receipt->attempt, receipt->attempt != 0);
	arg_digest(&args, request->digest);
	arg_text(&args, receipt->approval_id);
	arg_jsonb(&args, receipt->detail);
	arg_timestamptz(&args, receipt->due_at);
	arg_timestamptz(&args, receipt->lease_until);
	arg_identity(&args, identity);
	arg_text(&args, request->batch_id);
	(void) row_add(&events, &args, false);
}

/*
 * Keeps a request in full, once, for those who decide about it.
 */
void
ledger_keep_request(const Request *request, const Identity *identity)
{
	static KeptQuery query = {
		"INSERT INTO extaction.requests"
		" (scope, request_digest, intent_id, action, destination, payload,"
		"  candidate_id, candidate_digest, source_id, source_version,"
		"  role, \"session_user\", actor, kind)"
		" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)"
		" ON CONFLICT (scope, request_digest) DO NOTHING",
		false, 14, {TEXTOID, BYTEAOID, TEXTOID, TEXTOID, TEXTOID, JSONBOID,
		TEXTOID, BYTEAOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID}, NULL
	};
	const CandidateRef *candidate = request->candidate;
	QueryArgs	args = {0};

	arg_text(&args, request->scope);
	arg_digest(&args, request->digest);
	arg_text(&args, request->intent_id);
	arg_text(&args, request->action);
	arg_text(&args, request->destination);
	arg_jsonb(&args, request->payload);
	arg_text(&args, candidate ? candidate->candidate_id : NULL);
	arg_digest(&args, candidate ? candidate->digest : NULL);
	arg_text(&args, candidate ? candidate->source_id : NULL);
	arg_text(&args, candidate ? candidate->source_version : NULL);
	arg_identity(&args, identity);
	arg_cstring(&args, request->whole_batch ? "batch" : "intent");
	(void) query_run(&query, &args);
}

/*
 * Puts a stopped request on the list of what waits for somebody; a newer one
 * of the same intent takes its place.
 */
void
ledger_wait(const Request *request, Gate gate, const Identity *requester,
			const Order *order)
{
	static KeptQuery query = {
		"INSERT INTO extaction.waiting AS w"
		" (scope, kind, id, request_digest, gate, needs, requester, role, \"session_user\", actor,"
		"  not_before, compensates)"
		" VALUES ($1, $12, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"
		" ON CONFLICT (scope, kind, id) DO UPDATE SET request_digest = excluded.request_digest,"
		"  gate = excluded.gate, needs = excluded.needs, requester = excluded.requester,"
		"  role = excluded.role, \"session_user\" = excluded.\"session_user\", actor = excluded.actor,"
		"  not_before = excluded.not_before, compensates = excluded.compensates,"
		"  since = CASE WHEN w.request_digest = excluded.request_digest THEN w.since ELSE excluded.since END",
		false, 12, {TEXTOID, TEXTOID, BYTEAOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID,
		TIMESTAMPTZOID, TEXTOID, TEXTOID}, NULL
	};
	QueryArgs	args = {0};

	arg_text(&args, request->scope);
	arg_text(&args, request->intent_id);
	arg_digest(&args, request->digest);
	arg_cstring(&args, gate_name(gate));
	arg_cstring(&args, gate_needs(gate));
	arg_text(&args, requester->name);
	arg_identity(&args, requester);
	arg_timestamptz(&args, order->not_before);
	arg_text(&args, order->compensates);
	arg_cstring(&args, request->whole_batch ? "batch" : "intent");
	(void) query_run(&query, &args);
}

/*
 * Appends that a waiting request gave way to another one of its intent.
 */
void
ledger_supersede(const Request *request, const uint8 *replaced,
				 const Identity *identity)
{
	Receipt		event = NO_RECEIPT;

	event.detail = detail_words("replaced", text_to_cstring(digest_to_hex(replaced)),
								"by", text_to_cstring(digest_to_hex(request->digest)), NULL);
	ledger_append(&event, "superseded", request, identity);
}

/*
 * Takes it off that list; with a digest, only if it is this request that
 * waits.  False if it was not on it.
 */
bool
ledger_stop_waiting(const text *scope, const char *kind, const text *id,
					const uint8 *digest)
{
	static KeptQuery query = {
		"DELETE FROM extaction.waiting WHERE scope = $1 AND kind = $2 AND id = $3"
		" AND ($4 IS NULL OR request_digest = $4)",
		false, 4, {TEXTOID, TEXTOID, TEXTOID, BYTEAOID}, NULL
	};
	QueryArgs	args = {0};

	arg_text(&args, scope);
	arg_cstring(&args, kind);
	arg_text(&args, id);
	arg_digest(&args, digest);
	return query_run(&query, &args) == 1;
}

/*
 * May something wait under the name of an intent that is bound?  Only a fake
 * task that has happened crosses the gates each time that it is asked for.
 */
bool
may_wait_bound(const Intent *intent)
{
	return text_is(intent->request.action, FAKE_TASK_ACTION) && intent_happened(intent);
}

/*
 * Whoever is told what became of a bound intent is answered, and so is what
 * waits under its name: by a replay all of it, by a conflict that very
 * request.  Where nothing may wait it is one that began to wait at the very
 * moment of the binding, seen by neither side.  True if anything was taken off
 * the list; the caller then appends what he answers.
 */
bool
ledger_stop_waiting_bound(Intent *intent, const Request *asked, bool same)
{
	if (!intent->waits ||
		!ledger_stop_waiting(asked->scope, "intent", asked->intent_id,
							 same || !may_wait_bound(intent) ? NULL : asked->digest))
		return false;
	intent->waits = false;
	return true;
}

/*
 * Appends to an intent that happened which other one undoes it.
 */
void
ledger_compensated(const Request *undo, text *intent_id, const Identity *identity)
{
	Receipt		event = NO_RECEIPT;
	Request		first = {0};

	first.scope = undo->scope;
	first.intent_id = intent_id;
	memcpy(first.digest, undo->digest, DIGEST_LENGTH);
	event.detail = detail_words("by", text_to_cstring(undo->intent_id), NULL);
	ledger_append(&event, "compensated", &first, identity);
}

/*
 * A work item that nobody has touched.
 */
Work
no_work(void)
{
	Work		work = {0};

	work.handed_at = work.lease_until = work.first_sent_at = work.quiet_from = NO_TIME;
	work.answered_at = work.look_began_at = NO_TIME;
	work.due_at = work.since = NO_TIME;
	return work;
}

/*
 * A work item enters a state, free of any claim.
 */
void
work_set_state(Work *work, const char *state, TimestampTz due_at)
{
	if (work->state == NULL || strcmp(work->state, state) != 0)
		work->since = GetCurrentTimestamp();
	work->state = state;
	work->due_at = due_at;
	work->claim_id = 0;
	work->claimed_by = NULL;
	work->handed_at = NO_TIME;
	work->worker = NULL;
	work->claim_step = NULL;
	work->lease_until = NO_TIME;
	work->gate = NULL;
	work->needs = NULL;
}

/*
 * Writes an intent's row of the worklist, new or changed.  The caller holds
 * the row, or the subject's lock where there is none.
 */
void
ledger_put_work(const Intent *intent)
{
	static KeptQuery query = {
		"INSERT INTO extaction.worklist"
		" (scope, intent_id, action, state, attempt, due_at, claim_id, claimed_by, handed_at, worker,"
		"  lease_until, first_sent_at, quiet_from, last_code, gate, needs, since, tries, claim_step,"
		"  earlier_open, late_found, answered_at, look_began_at, lookups)"
		" VALUES ($1, $2, $3, $4, $5, $6, nullif($7, 0), $8, $9, $10, $11, $12, $13, $14, $15, $16, $17,"
		"  $18, $19, $20, $21, $22, $23, $24)"
		" ON CONFLICT (scope, intent_id) DO UPDATE SET"
		"  state = excluded.state, attempt = excluded.attempt, due_at = excluded.due_at,"
		"  claim_id = excluded.claim_id, claimed_by = excluded.claimed_by, handed_at = excluded.handed_at,"
		"  worker = excluded.worker, lease_until = excluded.lease_until, first_sent_at = excluded.first_sent_at,"
		"  quiet_from = excluded.quiet_from, last_code = excluded.last_code, gate = excluded.gate,"
		"  needs = excluded.needs, since = excluded.since, tries = excluded.tries,"
		"  claim_step = excluded.claim_step, earlier_open = excluded.earlier_open,"
		"  late_found = excluded.late_found, answered_at = excluded.answered_at,"
		"  look_began_at = excluded.look_began_at, lookups = excluded.lookups",
		false, 24, {TEXTOID, TEXTOID, TEXTOID, TEXTOID, INT8OID, TIMESTAMPTZOID, INT8OID, TEXTOID,
			TIMESTAMPTZOID, TEXTOID, TIMESTAMPTZOID, TIMESTAMPTZOID, TIMESTAMPTZOID, TEXTOID,
			TEXTOID, TEXTOID, TIMESTAMPTZOID, INT8OID, TEXTOID, BOOLOID, BOOLOID, TIMESTAMPTZOID,
		TIMESTAMPTZOID, INT8OID}, NULL
	};
	const Work *work = &intent->work;
	QueryArgs	args = {0};

	arg_text(&args, intent->request.scope);
	arg_text(&args, intent->request.intent_id);
	arg_text(&args, intent->request.action);
	arg_cstring(&args, work->state);
	arg_int8(&args, work->attempt);
	arg_timestamptz(&args, work->due_at);
	arg_int8(&args, work->claim_id);
	arg_text(&args, work->claimed_by);
	arg_timestamptz(&args, work->handed_at);
	arg_text(&args, work->worker);
	arg_timestamptz(&args, work->lease_until);
	arg_timestamptz(&args, work->first_sent_at);
	arg_timestamptz(&args, work->quiet_from);
	arg_cstring(&args, work->last_code);
	arg_cstring(&args, work->gate);
	arg_cstring(&args, work->needs);
	arg_timestamptz(&args, work->since);
	arg_int8(&args, work->tries);
	arg_cstring(&args, work->claim_step);
	arg_bool(&args, work->earlier_open);
	arg_bool(&args, work->late_found);
	arg_timestamptz(&args, work->answered_at);
	arg_timestamptz(&args, work->look_began_at);
	arg_int8(&args, work->lookups);
	(void) query_run(&query, &args);
}

/*
 * Writes down that these items of a ticket were shown to the worker.
 */
void
ledger_hand_out(const DueItem *items, int count, TimestampTz now)
{
	static KeptQuery query = {
		"UPDATE extaction.worklist w SET handed_at = $3"
		" FROM unnest($1, $2) AS t (scope, intent_id)"
		" WHERE w.scope = t.scope AND w.intent_id = t.intent_id",
		false, 3, {TEXTARRAYOID, TEXTARRAYOID, TIMESTAMPTZOID}, NULL
	};
	QueryArgs	args = {0};

	if (count == 0)
		return;
	arg_due_items(&args, items, count);
	arg_timestamptz(&args, now);
	(void) query_run(&query, &args);
}

/*
 * Takes an intent off the worklist: nothing is left to be done for it.
 */
void
ledger_close_work(const Intent *intent)
{
	static KeptQuery query = {
		"DELETE FROM extaction.worklist WHERE scope = $1 AND intent_id = $2",
		false, 2, {TEXTOID, TEXTOID}, NULL
	};
	QueryArgs	args = {0};

	arg_text(&args, intent->request.scope);
	arg_text(&args, intent->request.intent_id);
	(void) query_run(&query, &args);
}
