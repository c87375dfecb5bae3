/*-------------------------------------------------------------------------
 *
 * batch.c
 *	  One approval over a whole list.
 *
 * A batch is asked for, waits and is approved as one request; its digest
 * covers the shared payload and the ordered list.  The gates are asked of the
 * whole, all or nothing.  Then its items are bound one by one, each under its
 * own intent, digest and key: created, or bound before to the same content
 * (replayed) or to another (conflict).
 *
 * Items are inserted in the order of their names, so that two sessions with
 * the same list cannot wait for each other, and in chunks, so that a long
 * list takes little memory and can be interrupted.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "batch.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#define CHUNK 1000

static void submit(Batch *batch, Submission *submission);
static void answer_bound(Batch *batch, Submission *submission);
static void name_forbidden(Submission *submission);
static bool bind_batch(const Request *request, const text *approval_id, int64 total,
					   const Identity *requester, const Order *order);
static void settle_items(Batch *batch, const Facts *facts, const text *approval_id,
					   const Identity *requester, const Order *order);
static void bind_chunk(Batch *batch, int first, int count, const Facts *facts,
					   const text *approval_id, const Identity *requester,
					   const Order *order);
static void count_bound(Batch *batch, int first, int count, int64 created);
static void arg_names(QueryArgs *args, const Batch *batch, int first, int count);
static void arg_digests(QueryArgs *args, const Batch *batch, int first, int count);

PG_FUNCTION_INFO_V1(extaction_submit_batch);

/*
 * submit_batch(scope, batch_id, action, payload, items, approval_id,
 * not_before, actor) returns batch_receipt
 */
Datum
extaction_submit_batch(PG_FUNCTION_ARGS)
{
	Request		request = {0};
	Batch		batch = {0};
	Order		order = NO_ORDER;
	Receipt		receipt = NO_RECEIPT;
	Submission	submission = {.request = &request, .order = &order, .receipt = &receipt};
	text	   *actor = optional_name(fcinfo, 7, "actor");
	LedgerVisit visit;
	Identity	identity;

	batch_read(&batch, &request, name_argument(fcinfo, 0, "scope"), name_argument(fcinfo, 1, "batch_id"),
			   name_argument(fcinfo, 2, "action"), document_argument(fcinfo, 3, "payload"),
			   document_argument(fcinfo, 4, "items"));
	submission.approval_id = optional_name(fcinfo, 5, "approval_id");
	if (!PG_ARGISNULL(6))
		order.not_before = PG_GETARG_TIMESTAMPTZ(6);

	ledger_enter(&visit, LEDGER_WRITES);
	identity_init(&identity, visit.caller, actor);
	submission.identity = &identity;
	if (access_allows(&identity, request.scope, "submitter"))
		submit(&batch, &submission);
	else
		scope_denied_receipt(&receipt, &request);
	ledger_leave(&visit);
	{
		bool		done = batch.created + batch.replayed + batch.conflict > 0;
		NamedDatum	values[] = {
			{"status", CStringGetTextDatum(receipt.status), false},
			{"needs", receipt.needs ? CStringGetTextDatum(receipt.needs) : (Datum) 0, receipt.needs == NULL},
			{"gate", receipt.gate ? CStringGetTextDatum(receipt.gate) : (Datum) 0, receipt.gate == NULL},
			{"total", Int64GetDatum(batch.count), false},
			{"created", Int64GetDatum(batch.created), false},
			{"replayed", Int64GetDatum(batch.replayed), false},
			{"conflict", Int64GetDatum(batch.conflict), false},
			{"scope", PointerGetDatum(request.scope), false},
			{"batch_id", PointerGetDatum(request.batch_id), false},
			{"request_digest", PointerGetDatum(digest_to_hex(request.digest)), false},
			{"recorded_at", TimestampTzGetDatum(done || receipt.recorded_at == 0
												? GetCurrentTimestamp() : receipt.recorded_at), false},
			{"detail", PointerGetDatum(receipt.detail), receipt.detail == NULL},
		};

		PG_RETURN_DATUM(composite_datum(fcinfo, values, lengthof(values)));
	}
}

/*
 * A known list goes item by item without a gate; a new one passes the gates
 * as a whole or waits as a whole.
 */
static void
submit(Batch *batch, Submission *submission)
{
	Request    *request = submission->request;
	const Approval *approval;

	ledger_lock_subject(request->scope, "batch", request->batch_id, true);
	submission_look(submission);
	approval = submission->verdict.approval;
	if (submission->facts.bound)
		answer_bound(batch, submission);
	else if (submission->verdict.gate != GATE_COUNT)
	{
		submission_wait(submission);
		name_forbidden(submission);
	}
	else
	{
		submission->receipt->status = "created";
		(void) bind_batch(request, approval->approval_id, batch->count, submission->identity,
						  submission->order);
		settle_items(batch, &submission->facts, approval->approval_id, submission->identity,
				   submission->order);
		approval_must_hold(approval);
		if (submission->facts.waits)
			(void) ledger_stop_waiting(request->scope, "batch", request->batch_id, NULL);
	}
}

/*
 * A list that was bound before has bound its items: there is nothing to do
 * but to count what became of them.
 */
static void
answer_bound(Batch *batch, Submission *submission)
{
	Request    *request = submission->request;
	Receipt    *receipt = submission->receipt;

	if (memcmp(submission->facts.bound_digest, request->digest, DIGEST_LENGTH) != 0)
	{
		receipt->status = "conflict";
		receipt->needs = "another batch_id: this one is bound to another list for ever";
	}
	else
	{
		receipt->status = "replayed";
		settle_items(batch, &submission->facts, NULL, NULL, NULL);
		if (!extaction_log_replays)
			return;
	}
	if (!XactReadOnly)
		ledger_append(receipt, receipt->status, request, submission->identity);
}

/*
 * Says which of many destinations it is that is not allowed.
 */
static void
name_forbidden(Submission *submission)
{
	int			item;

	if (submission->verdict.gate != GATE_DESTINATION_NOT_ALLOWED)
		return;
	item = batch_forbidden_item(submission->request, submission->facts.destination_pattern);
	submission->receipt->needs = psprintf("%s; items[%d] is the first that it stops",
										  submission->receipt->needs, item);
}

/*
 * A list that waited goes on, in the name of who submitted it.
 */
void
batch_go_on(const Request *request, const Facts *facts, const text *approval_id,
			const Identity *requester, const Order *order)
{
	Batch		batch = {0};

	batch_load(&batch, request);
	if (bind_batch(request, approval_id, batch.count, requester, order))
		settle_items(&batch, facts, approval_id, requester, order);
	(void) ledger_stop_waiting(request->scope, "batch", request->batch_id, NULL);
}

/*
 * How many items have been with a worker, and not given back or refused; NULL
 * if none.
 */
Jsonb *
batch_out(const Request *request)
{
	static KeptQuery query = {
		"SELECT jsonb_build_object('items_out', count(*)) FROM extaction.intents i"
		" WHERE i.scope = $1 AND i.batch_id = $2"
		"   AND EXISTS (SELECT FROM extaction.events e"
		"               WHERE e.scope = i.scope AND e.intent_id = i.intent_id AND e.kind = 'sending'"
		"                 AND NOT EXISTS (SELECT FROM extaction.events g"
		"                                 WHERE g.scope = e.scope AND g.intent_id = e.intent_id"
		"                                   AND g.attempt = e.attempt AND g.kind IN ('released', 'not_happened')))"
		" HAVING count(*) > 0",
		false, 2, {TEXTOID, TEXTOID}, NULL
	};
	QueryArgs	args = {0};

	arg_text(&args, request->scope);
	arg_text(&args, request->batch_id);
	return query_run_now(&query, &args) == 0 ? NULL : got_jsonb(0, 1);
}

/*
 * False if the batch is bound already.
 */
static bool
bind_batch(const Request *request, const text *approval_id, int64 total,
		   const Identity *requester, const Order *order)
{
	static KeptQuery query = {
		"INSERT INTO extaction.batches"
		" (scope, batch_id, action, request_digest, approval_id, total, not_before,"
		"  requester, role, \"session_user\", actor)"
		" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"
		" ON CONFLICT (scope, batch_id) DO NOTHING RETURNING 1",
		false, 11, {TEXTOID, TEXTOID, TEXTOID, BYTEAOID, TEXTOID, INT8OID, TIMESTAMPTZOID,
		TEXTOID, TEXTOID, TEXTOID, TEXTOID}, NULL
	};
	QueryArgs	args = {0};

	arg_text(&args, request->scope);
	arg_text(&args, request->batch_id);
	arg_text(&args, request->action);
	arg_digest(&args, request->digest);
	arg_text(&args, approval_id);
	arg_int8(&args, total);
	arg_timestamptz(&args, order->not_before);
	arg_text(&args, requester->name);
	arg_identity(&args, requester);
	return query_run(&query, &args) == 1;
}

/*
 * Binds what is not bound yet, if the list is new, chunk by chunk in the
 * order of the names, and counts what became of each.
 */
static void
settle_items(Batch *batch, const Facts *facts, const text *approval_id,
		   const Identity *requester, const Order *order)
{
	MemoryContext memory = AllocSetContextCreate(CurrentMemoryContext, "extaction batch chunk",
												 ALLOCSET_DEFAULT_SIZES);
	int			first;

	batch_sort_by_name(batch);
	for (first = 0; first < batch->count; first += CHUNK)
	{
		MemoryContext old = MemoryContextSwitchTo(memory);

		CHECK_FOR_INTERRUPTS();
		if (facts->bound)
			count_bound(batch, first, Min(CHUNK, batch->count - first), 0);
		else
			bind_chunk(batch, first, Min(CHUNK, batch->count - first), facts, approval_id, requester, order);
		MemoryContextSwitchTo(old);
		MemoryContextReset(memory);
	}
	MemoryContextDelete(memory);
}

/*
 * An item that waited on its own waits no more: the list has brought it on.
 */
static void
bind_chunk(Batch *batch, int first, int count, const Facts *facts, const text *approval_id,
		   const Identity *requester, const Order *order)
{
	static KeptQuery query = {
		"WITH bound AS ("
		" INSERT INTO extaction.intents"
		" (scope, intent_id, action, destination, payload, request_digest, idempotency_key,"
		"  batch_id, approval_id, requester, role, \"session_user\", actor, not_before,"
		"  contract_version, contract_shipped)"
		" SELECT $1, t.intent_id, $6, t.destination, t.payload, t.digest, t.key,"
		"  $7, $8, $9, $10, $11, $12, $13, $14, $15"
		" FROM unnest($2, $3, $4, $5, $18) AS t (intent_id, destination, payload, digest, key)"
		" ON CONFLICT (scope, intent_id) DO NOTHING RETURNING intent_id, recorded_at),"
		" answered AS ("
		" DELETE FROM extaction.waiting q USING bound b"
		" WHERE q.scope = $1 AND q.kind = 'intent' AND q.id = b.intent_id)"
		FIRST_WORK_SQL("b.intent_id", "$6", "$13", "$17")
		/* first asked for before the end of what a restore lost */
		" FROM bound b LEFT JOIN LATERAL ("
		"  SELECT least(b.recorded_at, min(e.recorded_at)) < $16 AS lost FROM extaction.events e"
		"  WHERE $16 IS NOT NULL AND e.scope = $1 AND e.intent_id = '' AND e.batch_id = $7) a ON true",
		false, 18, {TEXTOID, TEXTARRAYOID, TEXTARRAYOID, JSONBARRAYOID, BYTEAARRAYOID, TEXTOID, TEXTOID,
			TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TIMESTAMPTZOID, INT8OID, BOOLOID,
		TIMESTAMPTZOID, TIMESTAMPTZOID, UUIDARRAYOID}, NULL
	};
	const Request *request = batch->request;
	Datum	   *destinations = palloc(sizeof(Datum) * count);
	Datum	   *payloads = palloc(sizeof(Datum) * count);
	Datum	   *keys = palloc(sizeof(Datum) * count);
	QueryArgs	args = {0};
	int			i;

	for (i = 0; i < count; i++)
	{
		const BatchItem *item = &batch->items[first + i];
		pg_uuid_t  *key = palloc(sizeof(pg_uuid_t));

		idempotency_key(&facts->ledger_id, request->scope, item->intent_id, key);
		destinations[i] = PointerGetDatum(item->destination);
		payloads[i] = PointerGetDatum(batch_item_payload(batch, item));
		keys[i] = PointerGetDatum(key);
	}
	arg_text(&args, request->scope);
	arg_names(&args, batch, first, count);
	arg_array(&args, destinations, count, TEXTOID);
	arg_array(&args, payloads, count, JSONBOID);
	arg_digests(&args, batch, first, count);
	arg_text(&args, request->action);
	arg_text(&args, request->batch_id);
	arg_text(&args, approval_id);
	arg_text(&args, requester->name);
	arg_identity(&args, requester);
	arg_timestamptz(&args, order->not_before);
	arg_contract(&args, facts->has_contract, facts->contract_version, facts->contract_shipped);
	arg_timestamptz(&args, facts->window_until);
	arg_timestamptz(&args, facts->backup_taken_at);
	arg_array(&args, keys, count, UUIDOID);
	count_bound(batch, first, count, (int64) query_run(&query, &args));
}

/*
 * Of some items, what was not created now was bound before: to the same
 * content or not.
 */
static void
count_bound(Batch *batch, int first, int count, int64 created)
{
	static KeptQuery query = {
		"SELECT count(*), count(*) FILTER (WHERE i.request_digest = t.digest)"
		" FROM unnest($2, $3) AS t (intent_id, digest)"
		" JOIN extaction.intents i ON i.scope = $1 AND i.intent_id = t.intent_id",
		false, 3, {TEXTOID, TEXTARRAYOID, BYTEAARRAYOID}, NULL
	};
	QueryArgs	args = {0};
	int64		same;

	batch->created += created;
	if (created == count)
		return;
	arg_text(&args, batch->request->scope);
	arg_names(&args, batch, first, count);
	arg_digests(&args, batch, first, count);
	(void) query_run(&query, &args);
	if (got_int8(0, 1) < count)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not serialize access due to a concurrent first call of the batch")));
	same = got_int8(0, 2);
	batch->replayed += same - created;
	batch->conflict += count - same;
}

/*
 * The names of some items, and their digests.
 */
static void
arg_names(QueryArgs *args, const Batch *batch, int first, int count)
{
	Datum	   *names = palloc(sizeof(Datum) * count);
	int			i;

	for (i = 0; i < count; i++)
		names[i] = PointerGetDatum(batch->items[first + i].intent_id);
	arg_array(args, names, count, TEXTOID);
}

static void
arg_digests(QueryArgs *args, const Batch *batch, int first, int count)
{
	Datum	   *digests = palloc(sizeof(Datum) * count);
	int			i;

	for (i = 0; i < count; i++)
	{
		QueryArgs	one = {0};

		arg_digest(&one, batch->items[first + i].digest);
		digests[i] = one.values[0];
	}
	arg_array(args, digests, count, BYTEAOID);
}
