/*-------------------------------------------------------------------------
 *
 * find.c
 *	  Where does an intent stand?
 *
 * The state of an intent is what it waits for, or else its last outcome.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "extaction.h"
#include "utils/builtins.h"

static bool find_intent(Receipt *receipt);
static void read_bound(Receipt *receipt);
static void read_waiting(Receipt *receipt);

PG_FUNCTION_INFO_V1(extaction_find);

/* The columns of the statement in find_intent(), in order. */
enum
{
	COL_BOUND_DIGEST = 1,
	COL_PREPARED_EVENT,
	COL_PREPARED_AT,
	COL_APPROVAL_ID,
	COL_KEY,
	COL_OUTCOME,
	COL_OUTCOME_EVENT,
	COL_OUTCOME_AT,
	COL_ATTEMPT,
	COL_PROVIDER_REF,
	COL_WAITING_DIGEST,
	COL_GATE,
	COL_NEEDS,
	COL_SINCE
};

/*
 * find(scope, intent_id) returns receipt
 */
Datum
extaction_find(PG_FUNCTION_ARGS)
{
	Receipt		receipt = {0};
	LedgerVisit visit;
	Identity	identity;
	bool		found;

	receipt.scope = name_argument(fcinfo, 0, "scope");
	receipt.intent_id = name_argument(fcinfo, 1, "intent_id");
	receipt.status = "found";

	ledger_enter(&visit, false);
	identity_init(&identity, visit.caller, NULL);
	access_require_member(&identity, receipt.scope);
	found = find_intent(&receipt);
	ledger_leave(&visit);
	if (!found)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(receipt_datum(fcinfo, &receipt));
}

/*
 * False if the scope knows no such intent, bound or waiting.
 */
static bool
find_intent(Receipt *receipt)
{
	static KeptQuery query = {
		"SELECT i.request_digest, i.event_id, i.recorded_at, i.approval_id, i.idempotency_key,"
		" o.kind, o.event_id, o.recorded_at, o.attempt, o.detail ->> 'provider_ref',"
		" w.request_digest, w.gate, w.needs, w.since"
		" FROM (SELECT 1) AS always"
		" LEFT JOIN extaction.intents i ON i.scope = $1 AND i.intent_id = $2"
		" LEFT JOIN LATERAL (SELECT e.* FROM extaction.events e"
		"                    WHERE e.scope = i.scope AND e.intent_id = i.intent_id"
		"                      AND e.kind IN ('happened', 'not_happened', 'uncertain')"
		"                    ORDER BY e.event_id DESC LIMIT 1) o ON true"
		" LEFT JOIN extaction.waiting w ON w.scope = $1 AND w.kind = 'intent' AND w.id = $2",
		true, 2, {TEXTOID, TEXTOID}, NULL
	};
	QueryArgs	args = {0};
	bool		bound;
	bool		waits;

	arg_text(&args, receipt->scope);
	arg_text(&args, receipt->intent_id);
	(void) query_run(&query, &args);
	bound = !got_null(0, COL_BOUND_DIGEST);
	waits = !got_null(0, COL_WAITING_DIGEST);
	if (bound)
		read_bound(receipt);
	if (waits)
		read_waiting(receipt);
	return bound || waits;
}

static void
read_bound(Receipt *receipt)
{
	uint8	   *digest = palloc(DIGEST_LENGTH);
	pg_uuid_t  *key = palloc(sizeof(pg_uuid_t));
	bool		settled = !got_null(0, COL_OUTCOME);

	got_digest(0, COL_BOUND_DIGEST, digest);
	got_uuid(0, COL_KEY, key);
	receipt->request_digest = receipt->bound_digest = digest;
	receipt->idempotency_key = key;
	receipt->approval_id = got_text(0, COL_APPROVAL_ID);
	receipt->state = settled ? text_to_cstring(got_text(0, COL_OUTCOME)) : "prepared";
	receipt->next_step = settled ? "done" : "send";
	receipt->attempt = got_int8(0, COL_ATTEMPT);
	receipt->provider_ref = got_text(0, COL_PROVIDER_REF);
	receipt->receipt_id = got_int8(0, settled ? COL_OUTCOME_EVENT : COL_PREPARED_EVENT);
	receipt->recorded_at = got_timestamptz(0, settled ? COL_OUTCOME_AT : COL_PREPARED_AT);
}

/*
 * What stopped the last call; for an intent that is bound already, beside
 * its state.
 */
static void
read_waiting(Receipt *receipt)
{
	receipt->gate = text_to_cstring(got_text(0, COL_GATE));
	receipt->needs = text_to_cstring(got_text(0, COL_NEEDS));
	if (receipt->bound_digest == NULL)
	{
		uint8	   *digest = palloc(DIGEST_LENGTH);

		got_digest(0, COL_WAITING_DIGEST, digest);
		receipt->request_digest = digest;
		receipt->state = "awaiting_approval";
		receipt->next_step = gate_next_step(gate_by_name(receipt->gate));
		receipt->recorded_at = got_timestamptz(0, COL_SINCE);
	}
}
