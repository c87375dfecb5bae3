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

#include "catalog/pg_type.h"
#include "extaction.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#define MAX_ITEMS 1000000
#define CHUNK 1000

/* An item of a list; its payload points into the document. */
typedef struct BatchItem
{
	text	   *intent_id;
	text	   *destination;
	Jsonb	   *payload;		/* the item's own members; NULL if none */
	int			position;
	uint8		digest[DIGEST_LENGTH];
} BatchItem;

/* A list, taken apart. */
typedef struct Batch
{
	const Request *request;
	Jsonb	   *payload;		/* the shared one */
	int			count;
	BatchItem  *items;
	/* what became of the items */
	int64		created;
	int64		replayed;
	int64		conflict;
} Batch;

static void read_items(Batch *batch, const Request *request);
static void read_item(BatchItem *item, JsonbContainer *object, int position);
static text *item_name(JsonbContainer *object, const char *name, int position);
static void item_error(int position, const char *member, const char *fault);
static void refuse_twice(const Batch *batch);
static int	compare_names(const void *a, const void *b);
static int	compare_positions(const void *a, const void *b);
static void digest_items(Batch *batch);
static Jsonb *item_payload(const Batch *batch, const BatchItem *item);
static bool is_erased(const Jsonb *whole);
static Jsonb *whole_payload(Jsonb *payload, Jsonb *items);
static Jsonb *whole_member(const Jsonb *whole, const char *name);
static bool bind_batch(const Request *request, const text *approval_id, int64 total,
					   const Identity *requester, const Order *order);
static void bind_items(Batch *batch, const Facts *facts, const text *approval_id,
					   const Identity *requester, const Order *order);
static void bind_chunk(Batch *batch, int first, int count, const Facts *facts,
					   const text *approval_id, const Identity *requester,
					   const Order *order);
static void count_chunk(Batch *batch, int count, int64 created, const QueryArgs *chunk);
static void submit(Batch *batch, Submission *submission);

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

	batch_read(&request, name_argument(fcinfo, 0, "scope"), name_argument(fcinfo, 1, "batch_id"),
			   name_argument(fcinfo, 2, "action"), document_argument(fcinfo, 3, "payload"),
			   document_argument(fcinfo, 4, "items"));
	submission.approval_id = optional_name(fcinfo, 5, "approval_id");
	if (!PG_ARGISNULL(6))
		order.not_before = PG_GETARG_TIMESTAMPTZ(6);
	order.batch_id = request.batch_id;

	ledger_enter(&visit, LEDGER_WRITES);
	identity_init(&identity, visit.caller, actor);
	submission.identity = &identity;
	if (access_allows(&identity, request.scope, "submitter"))
	{
		read_items(&batch, &request);
		digest_items(&batch);
		submit(&batch, &submission);
	}
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
	Receipt    *receipt = submission->receipt;
	const Facts *facts = &submission->facts;
	const text *approval_id;

	ledger_lock_subject(request->scope, "batch", request->batch_id, true);
	submission_look(submission);
	if (facts->bound)
	{
		bool		same = memcmp(facts->bound_digest, request->digest, DIGEST_LENGTH) == 0;

		receipt->status = same ? "replayed" : "conflict";
		if (!same)
		{
			receipt->needs = "another batch_id: this one is bound to another list for ever";
			ledger_append(receipt, "conflict", request, submission->identity);
			return;
		}
		if (extaction_log_replays && !XactReadOnly)
			ledger_append(receipt, "replayed", request, submission->identity);
		bind_items(batch, facts, NULL, submission->identity, submission->order);
		return;
	}
	if (submission->verdict.gate != GATE_COUNT)
	{
		submission_wait(submission);
		return;
	}
	approval_id = submission->verdict.approval->approval_id;
	receipt->status = "created";
	(void) bind_batch(request, approval_id, batch->count, submission->identity, submission->order);
	bind_items(batch, facts, approval_id, submission->identity, submission->order);
	approval_must_hold(submission->verdict.approval);
	if (facts->waits)
		(void) ledger_stop_waiting(request->scope, "batch", request->batch_id, NULL);
}

/*
 * A list that waited goes on, in the name of who submitted it.
 */
void
batch_go_on(const Request *request, const Facts *facts, const text *approval_id,
			const Identity *requester, const Order *order)
{
	Batch		batch = {0};
	Order		batch_order = *order;

	batch_order.batch_id = request->batch_id;
	read_items(&batch, request);
	digest_items(&batch);
	if (bind_batch(request, approval_id, batch.count, requester, &batch_order))
		bind_items(&batch, facts, approval_id, requester, &batch_order);
	(void) ledger_stop_waiting(request->scope, "batch", request->batch_id, NULL);
}

/*
 * Takes a batch's arguments as one request, checked, with its digest.
 */
void
batch_read(Request *request, text *scope, text *batch_id, text *action,
		   Jsonb *payload, Jsonb *items)
{
	Batch		batch = {0};
	const text **names;
	uint8	   *digests;
	uint8		payload_digest[DIGEST_LENGTH];
	CanonicalFault fault;
	int			i;

	memset(request, 0, sizeof(Request));
	request->scope = scope;
	request->intent_id = request->batch_id = batch_id;
	request->action = action;
	request->destination = cstring_to_text("");
	request->whole_batch = true;
	request->payload = whole_payload(payload, items);

	read_items(&batch, request);
	refuse_twice(&batch);
	digest_items(&batch);
	if (digest_json(payload, payload_digest, &fault) != CANONICAL_OK)
		document_fault(&fault, "payload");
	names = palloc(sizeof(text *) * batch.count);
	digests = palloc((Size) DIGEST_LENGTH * batch.count);
	for (i = 0; i < batch.count; i++)
	{
		names[i] = batch.items[i].intent_id;
		memcpy(digests + (Size) i * DIGEST_LENGTH, batch.items[i].digest, DIGEST_LENGTH);
	}
	digest_batch(request, names, digests, batch.count, payload_digest);
}

/*
 * Every item's destination against the action's pattern.
 */
bool
batch_destinations_allowed(const Request *request, const text *pattern)
{
	Batch		batch = {0};
	int			i;

	if (pattern == NULL || request->payload == NULL || is_erased(request->payload))
		return true;
	read_items(&batch, request);
	for (i = 0; i < batch.count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (!destination_matches(batch.items[i].destination, pattern))
			return false;
	}
	return true;
}

/*
 * Have items of a stored list been erased?  Then it cannot be read any more;
 * it was bound before, or came to nothing.
 */
static bool
is_erased(const Jsonb *whole)
{
	JsonbValue	value;

	return !JB_ROOT_IS_OBJECT(whole) ||
		getKeyJsonValueFromContainer((JsonbContainer *) &whole->root, "erased", 6, &value) != NULL;
}

/*
 * How many items have been with a worker; NULL if none.
 */
Jsonb *
batch_out(const Request *request)
{
	static KeptQuery query = {
		"SELECT jsonb_build_object('items_out', count(*)) FROM extaction.intents i"
		" WHERE i.scope = $1 AND i.batch_id = $2"
		"   AND EXISTS (SELECT FROM extaction.events e"
		"               WHERE e.scope = i.scope AND e.intent_id = i.intent_id AND e.kind = 'sending')"
		" HAVING count(*) > 0",
		false, 2, {TEXTOID, TEXTOID}, NULL
	};
	QueryArgs	args = {0};

	arg_text(&args, request->scope);
	arg_text(&args, request->batch_id);
	return query_run_now(&query, &args) == 0 ? NULL : got_jsonb(0, 1);
}

/*
 * Items that claim had found blocked are prepared again, if they may go now.
 */
int64
batch_unblock(const Request *request, const Identity *approver)
{
	static KeptQuery query = {
		"SELECT w.intent_id FROM extaction.intents i"
		" JOIN extaction.worklist w ON w.scope = i.scope AND w.intent_id = i.intent_id"
		" WHERE i.scope = $1 AND i.batch_id = $2 AND w.state = 'blocked'"
		" ORDER BY w.intent_id FOR UPDATE OF w",
		false, 2, {TEXTOID, TEXTOID}, NULL
	};
	MemoryContext memory = AllocSetContextCreate(CurrentMemoryContext, "extaction batch item",
												 ALLOCSET_DEFAULT_SIZES);
	QueryArgs	args = {0};
	int			count;
	text	  **names;
	int			i;

	arg_text(&args, request->scope);
	arg_text(&args, request->batch_id);
	count = (int) query_run(&query, &args);
	names = palloc(sizeof(text *) * Max(count, 1));
	for (i = 0; i < count; i++)
		names[i] = got_text(i, 1);
	for (i = 0; i < count; i++)
	{
		MemoryContext old = MemoryContextSwitchTo(memory);
		Intent		intent;

		CHECK_FOR_INTERRUPTS();
		if (intent_load(&intent, request->scope, names[i], false) && intent.open)
			intent_unblock(&intent, approver);
		MemoryContextSwitchTo(old);
		MemoryContextReset(memory);
	}
	return count;
}

/*
 * Takes the list of a whole batch's payload apart.
 */
static void
read_items(Batch *batch, const Request *request)
{
	Jsonb	   *list = whole_member(request->payload, "items");
	JsonbIterator *it = JsonbIteratorInit(&list->root);
	JsonbIteratorToken token;
	JsonbValue	value;
	int			i = 0;

	batch->request = request;
	batch->payload = whole_member(request->payload, "payload");
	batch->count = JB_ROOT_COUNT(list);
	batch->items = palloc_extended(sizeof(BatchItem) * Max(batch->count, 1), MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	while ((token = JsonbIteratorNext(&it, &value, true)) != WJB_DONE)
	{
		if (token != WJB_ELEM)
			continue;
		CHECK_FOR_INTERRUPTS();
		if (value.type != jbvBinary || !JsonContainerIsObject(value.val.binary.data))
			item_error(i, NULL, "It is not an object.");
		read_item(&batch->items[i], value.val.binary.data, i);
		i++;
	}
}

static void
read_item(BatchItem *item, JsonbContainer *object, int position)
{
	JsonbIterator *it = JsonbIteratorInit(object);
	JsonbIteratorToken token;
	JsonbValue	key;

	item->position = position;
	item->intent_id = item_name(object, "intent_id", position);
	item->destination = item_name(object, "destination", position);
	while ((token = JsonbIteratorNext(&it, &key, true)) != WJB_DONE)
	{
		char	   *name;
		JsonbValue	value;

		if (token != WJB_KEY)
			continue;
		name = pnstrdup(key.val.string.val, key.val.string.len);
		(void) JsonbIteratorNext(&it, &value, true);
		if (strcmp(name, "payload") == 0)
		{
			if (value.type != jbvBinary || !JsonContainerIsObject(value.val.binary.data))
				item_error(position, "payload", "It is not an object.");
			item->payload = JsonbValueToJsonb(&value);
		}
		else if (strcmp(name, "intent_id") != 0 && strcmp(name, "destination") != 0)
			item_error(position, name, "This member is not known.");
		pfree(name);
	}
}

static text *
item_name(JsonbContainer *object, const char *name, int position)
{
	JsonbValue	value;
	const char *fault;

	if (getKeyJsonValueFromContainer(object, name, (int) strlen(name), &value) == NULL)
		item_error(position, name, "This member is missing.");
	if (value.type != jbvString)
		item_error(position, name, "It is not a string.");
	fault = name_fault(value.val.string.val, value.val.string.len);
	if (fault != NULL)
		item_error(position, name, fault);
	return cstring_to_text_with_len(value.val.string.val, value.val.string.len);
}

static void
item_error(int position, const char *member, const char *fault)
{
	char	   *path = psprintf("items[%d]%s%s", position, member ? "." : "", member ? member : "");

	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("items is not a list of items"),
			 errdetail("%s: %s", path, fault),
			 errhint("An item is {\"intent_id\", \"destination\"} and, if it differs from the others, {\"payload\"}."),
			 err_generic_string(PG_DIAG_CONSTRAINT_NAME, path)));
}

/*
 * The same intent twice in one list would be one letter instead of two.
 */
static void
refuse_twice(const Batch *batch)
{
	int			i;

	qsort(batch->items, batch->count, sizeof(BatchItem), compare_names);
	for (i = 1; i < batch->count; i++)
		if (text_equal(batch->items[i - 1].intent_id, batch->items[i].intent_id))
			item_error(Max(batch->items[i - 1].position, batch->items[i].position), "intent_id",
					   psprintf("items[%d] has the same.", Min(batch->items[i - 1].position, batch->items[i].position)));
	qsort(batch->items, batch->count, sizeof(BatchItem), compare_positions);
}

/*
 * In the order of the unique index.
 */
static int
compare_names(const void *a, const void *b)
{
	const text *one = ((const BatchItem *) a)->intent_id;
	const text *other = ((const BatchItem *) b)->intent_id;
	int			len = Min(VARSIZE_ANY_EXHDR(one), VARSIZE_ANY_EXHDR(other));
	int			order = memcmp(VARDATA_ANY(one), VARDATA_ANY(other), len);

	return order != 0 ? order : (int) VARSIZE_ANY_EXHDR(one) - (int) VARSIZE_ANY_EXHDR(other);
}

static int
compare_positions(const void *a, const void *b)
{
	return ((const BatchItem *) a)->position - ((const BatchItem *) b)->position;
}

/*
 * Every item's digest is that of the request it would be on its own.
 */
static void
digest_items(Batch *batch)
{
	MemoryContext memory = AllocSetContextCreate(CurrentMemoryContext, "extaction batch item",
												 ALLOCSET_DEFAULT_SIZES);
	int			i;

	for (i = 0; i < batch->count; i++)
	{
		MemoryContext old = MemoryContextSwitchTo(memory);
		BatchItem  *item = &batch->items[i];
		Request		request = *batch->request;
		CanonicalFault fault;

		CHECK_FOR_INTERRUPTS();
		request.intent_id = item->intent_id;
		request.destination = item->destination;
		request.payload = item_payload(batch, item);
		if (digest_request(&request, &fault) != CANONICAL_OK)
			document_fault(&fault, psprintf("items[%d]", i));
		memcpy(item->digest, request.digest, DIGEST_LENGTH);
		MemoryContextSwitchTo(old);
		MemoryContextReset(memory);
	}
	MemoryContextDelete(memory);
}

/*
 * The shared payload, with the item's own members laid over it.
 */
static Jsonb *
item_payload(const Batch *batch, const BatchItem *item)
{
	if (item->payload == NULL)
		return batch->payload;
	return DatumGetJsonbP(DirectFunctionCall2(jsonb_concat,
											  JsonbPGetDatum(batch->payload),
											  JsonbPGetDatum(item->payload)));
}

/*
 * {"items": ..., "payload": ...}: a whole batch's payload.
 */
static Jsonb *
whole_payload(Jsonb *payload, Jsonb *items)
{
	static const char *const names[] = {"items", "payload"};
	Jsonb	   *members[2];
	JsonbParseState *state = NULL;
	int			i;

	if (!JB_ROOT_IS_OBJECT(payload))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("payload is not an object"),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "payload")));
	if (!JB_ROOT_IS_ARRAY(items) || JB_ROOT_IS_SCALAR(items) ||
		JB_ROOT_COUNT(items) == 0 || JB_ROOT_COUNT(items) > MAX_ITEMS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("items is not an array of 1 to %d items", MAX_ITEMS),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "items")));

	members[0] = items;
	members[1] = payload;
	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	for (i = 0; i < 2; i++)
	{
		JsonbValue	value;

		value.type = jbvString;
		value.val.string.val = (char *) names[i];
		value.val.string.len = (int) strlen(names[i]);
		pushJsonbValue(&state, WJB_KEY, &value);
		value.type = jbvBinary;
		value.val.binary.data = &members[i]->root;
		value.val.binary.len = VARSIZE_ANY_EXHDR(members[i]);
		pushJsonbValue(&state, WJB_VALUE, &value);
	}
	return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
}

static Jsonb *
whole_member(const Jsonb *whole, const char *name)
{
	JsonbValue	value;

	if (getKeyJsonValueFromContainer((JsonbContainer *) &whole->root, name, (int) strlen(name), &value) == NULL)
		elog(ERROR, "a batch's payload has no member \"%s\"", name);
	return JsonbValueToJsonb(&value);
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
 * Binds what is not bound yet, chunk by chunk in the order of the names, and
 * counts what became of each.  approval_id NULL: the batch's own (a replay).
 */
static void
bind_items(Batch *batch, const Facts *facts, const text *approval_id,
		   const Identity *requester, const Order *order)
{
	MemoryContext memory = AllocSetContextCreate(CurrentMemoryContext, "extaction batch chunk",
												 ALLOCSET_DEFAULT_SIZES);
	int			first;

	qsort(batch->items, batch->count, sizeof(BatchItem), compare_names);
	for (first = 0; first < batch->count; first += CHUNK)
	{
		MemoryContext old = MemoryContextSwitchTo(memory);

		CHECK_FOR_INTERRUPTS();
		bind_chunk(batch, first, Min(CHUNK, batch->count - first), facts, approval_id, requester, order);
		MemoryContextSwitchTo(old);
		MemoryContextReset(memory);
	}
	MemoryContextDelete(memory);
}

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
		"  $7, coalesce($8, b.approval_id), coalesce(b.requester, $9), coalesce(b.role, $10),"
		"  coalesce(b.\"session_user\", $11), CASE WHEN b.batch_id IS NULL THEN $12 ELSE b.actor END,"
		"  CASE WHEN b.batch_id IS NULL THEN $13 ELSE b.not_before END, $14, $15"
		" FROM unnest($2, $3, $4, $5, $18) AS t (intent_id, destination, payload, digest, key)"
		" LEFT JOIN extaction.batches b ON b.scope = $1 AND b.batch_id = $7"
		" ON CONFLICT (scope, intent_id) DO NOTHING RETURNING intent_id, recorded_at, not_before)"
		" INSERT INTO extaction.worklist (scope, intent_id, action, state, due_at, attempt, first_sent_at, quiet_from, since)"
		" SELECT $1, b.intent_id, $6, CASE WHEN b.recorded_at < $16 THEN 'uncertain' ELSE 'prepared' END,"
		"  coalesce(b.not_before, b.recorded_at), CASE WHEN b.recorded_at < $16 THEN 1000 ELSE 0 END,"
		"  CASE WHEN b.recorded_at < $16 THEN $17 END,"
		"  CASE WHEN b.recorded_at < $16 THEN b.recorded_at + coalesce("
		"   (SELECT max(a.call_timeout) + '30 seconds' FROM extaction.actions a), '1 hour') END, b.recorded_at"
		" FROM bound b",
		false, 18, {TEXTOID, TEXTARRAYOID, TEXTARRAYOID, JSONBARRAYOID, BYTEAARRAYOID, TEXTOID, TEXTOID,
			TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TIMESTAMPTZOID, INT8OID, BOOLOID,
		TIMESTAMPTZOID, TIMESTAMPTZOID, UUIDARRAYOID}, NULL
	};
	const Request *request = batch->request;
	Datum	   *columns[5];
	pg_uuid_t  *keys = palloc(sizeof(pg_uuid_t) * count);
	QueryArgs	args = {0};
	int			i;

	for (i = 0; i < 5; i++)
		columns[i] = palloc(sizeof(Datum) * count);
	for (i = 0; i < count; i++)
	{
		const BatchItem *item = &batch->items[first + i];
		QueryArgs	digest = {0};

		idempotency_key(&facts->ledger_id, request->scope, item->intent_id, &keys[i]);
		arg_digest(&digest, item->digest);
		columns[0][i] = PointerGetDatum(item->intent_id);
		columns[1][i] = PointerGetDatum(item->destination);
		columns[2][i] = PointerGetDatum(item_payload(batch, item));
		columns[3][i] = digest.values[0];
		columns[4][i] = PointerGetDatum(&keys[i]);
	}
	arg_text(&args, request->scope);
	arg_array(&args, columns[0], count, TEXTOID);
	arg_array(&args, columns[1], count, TEXTOID);
	arg_array(&args, columns[2], count, JSONBOID);
	arg_array(&args, columns[3], count, BYTEAOID);
	arg_text(&args, request->action);
	arg_text(&args, request->batch_id);
	arg_text(&args, approval_id);
	arg_text(&args, requester->name);
	arg_identity(&args, requester);
	arg_timestamptz(&args, order->not_before);
	arg_contract(&args, facts->has_contract, facts->contract_version, facts->contract_shipped);
	arg_timestamptz(&args, facts->window_until);
	arg_timestamptz(&args, facts->backup_taken_at);
	arg_array(&args, columns[4], count, UUIDOID);
	count_chunk(batch, count, (int64) query_run(&query, &args), &args);
}

/*
 * Of a chunk, what was not created was bound before: to the same or not.
 */
static void
count_chunk(Batch *batch, int count, int64 created, const QueryArgs *chunk)
{
	static KeptQuery query = {
		"SELECT count(*) FROM unnest($2, $3) AS t (intent_id, digest)"
		" JOIN extaction.intents i ON i.scope = $1 AND i.intent_id = t.intent_id"
		" WHERE i.request_digest = t.digest",
		false, 3, {TEXTOID, TEXTARRAYOID, BYTEAARRAYOID}, NULL
	};
	QueryArgs	args = {0};
	int64		same;

	batch->created += created;
	if (created == count)
		return;
	args = *chunk;
	args.count = 3;
	args.values[2] = chunk->values[4];
	args.nulls[2] = ' ';
	(void) query_run(&query, &args);
	same = got_int8(0, 1);
	batch->replayed += same - created;
	batch->conflict += count - same;
}
