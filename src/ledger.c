/*-------------------------------------------------------------------------
 *
 * ledger.c
 *	  The only room that writes the ledger's facts and worklists, and the
 *	  trigger functions that guard them.
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

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "common/hashfn.h"
#include "extaction.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "utils/builtins.h"
#include "utils/rel.h"

static Datum row_as_jsonb(HeapTuple tuple, TupleDesc desc);

PG_FUNCTION_INFO_V1(extaction_refuse_change);
PG_FUNCTION_INFO_V1(extaction_record_action_change);

/*
 * Takes the lock, to the end of the transaction, under which approvals and
 * what waits for them meet.  Shared for those who use an approval, exclusive
 * for those who take it back.
 */
void
ledger_lock_subject(const text *scope, const char *kind, const text *id,
					bool exclusive)
{
	uint64		hash;
	LOCKTAG		tag;

	hash = hash_bytes_extended((const unsigned char *) VARDATA_ANY(scope),
							   VARSIZE_ANY_EXHDR(scope), 0);
	hash = hash_bytes_extended((const unsigned char *) kind, (int) strlen(kind), hash);
	hash = hash_bytes_extended((const unsigned char *) VARDATA_ANY(id),
							   VARSIZE_ANY_EXHDR(id), hash);
	/* the same lock as pg_advisory_xact_lock(bigint) of that number */
	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, (uint32) (hash >> 32), (uint32) hash, 1);
	(void) LockAcquire(&tag, exclusive ? ExclusiveLock : ShareLock, false, false);
}

/*
 * Binds an intent to a request for ever.  False if it is bound already: then
 * another session was first.
 */
bool
ledger_bind(const Request *request, const Facts *facts,
			const text *approval_id, const Identity *identity)
{
	static KeptQuery query = {
		"INSERT INTO extaction.intents"
		" (scope, intent_id, action, destination, payload, candidate_id, candidate_revision,"
		"  request_digest, approval_id, idempotency_key, requester, role, \"session_user\", actor)"
		" VALUES ($1, $2, $3, $4, $5, $6, CASE WHEN $6 IS NOT NULL THEN $7 END,"
		"  $8, $9, $10, $11, $12, $13, $14)"
		" ON CONFLICT (scope, intent_id) DO NOTHING RETURNING 1",
		false, 14, {TEXTOID, TEXTOID, TEXTOID, TEXTOID, JSONBOID, TEXTOID, INT8OID,
		BYTEAOID, TEXTOID, UUIDOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID}, NULL
	};
	QueryArgs	args = {0};

	arg_text(&args, request->scope);
	arg_text(&args, request->intent_id);
	arg_text(&args, request->action);
	arg_text(&args, request->destination);
	arg_jsonb(&args, request->payload);
	arg_text(&args, request->candidate ? request->candidate->candidate_id : NULL);
	arg_int8(&args, facts->candidate.revision);
	arg_digest(&args, request->digest);
	arg_text(&args, approval_id);
	arg_uuid(&args, &facts->idempotency_key);
	arg_text(&args, identity->name);
	arg_identity(&args, identity);
	return query_run(&query, &args) == 1;
}

/*
 * Appends an event about an intent; attempt, approval and detail are those of
 * the receipt, which is told the event's number and time.
 */
void
ledger_append(Receipt *receipt, const char *kind, const Request *request,
			  const Identity *identity)
{
	static KeptQuery query = {
		"INSERT INTO extaction.events"
		" (scope, intent_id, kind, attempt, request_digest, approval_id, detail,"
		"  role, \"session_user\", actor)"
		" VALUES ($1, $2, $3, nullif($4, 0), $5, $6, $7, $8, $9, $10)"
		" RETURNING event_id, recorded_at",
		false, 10, {TEXTOID, TEXTOID, TEXTOID, INT8OID, BYTEAOID, TEXTOID, JSONBOID,
		TEXTOID, TEXTOID, TEXTOID}, NULL
	};
	QueryArgs	args = {0};

	arg_text(&args, request->scope);
	arg_text(&args, request->intent_id);
	arg_cstring(&args, kind);
	arg_int8(&args, receipt->attempt);
	arg_digest(&args, request->digest);
	arg_text(&args, receipt->approval_id);
	arg_jsonb(&args, receipt->detail);
	arg_identity(&args, identity);
	(void) query_run(&query, &args);
	receipt->receipt_id = got_int8(0, 1);
	receipt->recorded_at = got_timestamptz(0, 2);
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
		"  role, \"session_user\", actor)"
		" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)"
		" ON CONFLICT (scope, request_digest) DO NOTHING",
		false, 13, {TEXTOID, BYTEAOID, TEXTOID, TEXTOID, TEXTOID, JSONBOID,
		TEXTOID, BYTEAOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID}, NULL
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
	(void) query_run(&query, &args);
}

/*
 * Puts a stopped request on the list of what waits for somebody; a newer one
 * of the same intent takes its place.
 */
void
ledger_wait(const Request *request, Gate gate, const Identity *identity)
{
	static KeptQuery query = {
		"INSERT INTO extaction.waiting AS w (scope, kind, id, request_digest, gate, needs, requester)"
		" VALUES ($1, 'intent', $2, $3, $4, $5, $6)"
		" ON CONFLICT (scope, kind, id) DO UPDATE SET request_digest = excluded.request_digest,"
		"  gate = excluded.gate, needs = excluded.needs, requester = excluded.requester,"
		"  since = CASE WHEN w.request_digest = excluded.request_digest THEN w.since ELSE excluded.since END",
		false, 6, {TEXTOID, TEXTOID, BYTEAOID, TEXTOID, TEXTOID, TEXTOID}, NULL
	};
	QueryArgs	args = {0};

	arg_text(&args, request->scope);
	arg_text(&args, request->intent_id);
	arg_digest(&args, request->digest);
	arg_cstring(&args, gate_name(gate));
	arg_cstring(&args, gate_needs(gate));
	arg_text(&args, identity->name);
	(void) query_run(&query, &args);
}

void
ledger_stop_waiting(const text *scope, const char *kind, const text *id)
{
	static KeptQuery query = {
		"DELETE FROM extaction.waiting WHERE scope = $1 AND kind = $2 AND id = $3",
		false, 3, {TEXTOID, TEXTOID, TEXTOID}, NULL
	};
	QueryArgs	args = {0};

	arg_text(&args, scope);
	arg_cstring(&args, kind);
	arg_text(&args, id);
	(void) query_run(&query, &args);
}

/*
 * Trigger function of the guards.
 */
Datum
extaction_refuse_change(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("refuse_change must be called as a trigger")));
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("rows of table \"%s\" are never changed or deleted",
					RelationGetRelationName(trigger->tg_relation)),
			 errdetail("The ledger only appends."),
			 errhint("To correct something, append what is true now, through the functions of extaction.")));
	PG_RETURN_NULL();
}

/*
 * Trigger function of the catalogue: appends old and new row, and who did it.
 * A row that is just as it was last recorded appends nothing, so that a
 * restore, which inserts the rows again, does not write history.
 */
Datum
extaction_record_action_change(PG_FUNCTION_ARGS)
{
	static KeptQuery query = {
		"WITH last AS (SELECT c.new_row FROM extaction.action_changes c"
		"              WHERE c.action = $1 ORDER BY c.recorded_at DESC LIMIT 1)"
		" INSERT INTO extaction.action_changes (action, kind, old_row, new_row, role, \"session_user\")"
		" SELECT $1, $2, $3, $4, $5, $6"
		" WHERE NOT EXISTS (SELECT FROM last WHERE last.new_row IS NOT DISTINCT FROM $4)",
		false, 6, {TEXTOID, TEXTOID, JSONBOID, JSONBOID, TEXTOID, TEXTOID}, NULL
	};
	TriggerData *trigger = (TriggerData *) fcinfo->context;
	TupleDesc	desc;
	LedgerVisit visit;
	Identity	identity;
	QueryArgs	args = {0};
	HeapTuple	old_row = NULL;
	HeapTuple	new_row = NULL;
	bool		isnull;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("record_action_change must be called as a trigger")));
	desc = RelationGetDescr(trigger->tg_relation);
	if (TRIGGER_FIRED_BY_INSERT(trigger->tg_event))
		new_row = trigger->tg_trigtuple;
	else
		old_row = trigger->tg_trigtuple;
	if (TRIGGER_FIRED_BY_UPDATE(trigger->tg_event))
		new_row = trigger->tg_newtuple;

	ledger_enter(&visit, true);
	identity_init(&identity, visit.caller, NULL);
	arg_text(&args, DatumGetTextPP(heap_getattr(new_row ? new_row : old_row, 1, desc, &isnull)));
	arg_cstring(&args, new_row == NULL ? "deleted" : old_row == NULL ? "inserted" : "updated");
	arg_jsonb(&args, old_row ? DatumGetJsonbP(row_as_jsonb(old_row, desc)) : NULL);
	arg_jsonb(&args, new_row ? DatumGetJsonbP(row_as_jsonb(new_row, desc)) : NULL);
	arg_text(&args, identity.role_name);
	arg_text(&args, identity.session_user);
	(void) query_run(&query, &args);
	ledger_leave(&visit);
	return PointerGetDatum(NULL);
}

static Datum
row_as_jsonb(HeapTuple tuple, TupleDesc desc)
{
	static KeptQuery query = {
		"SELECT to_jsonb($1)", false, 1, {InvalidOid}, NULL
	};
	QueryArgs	args = {0};

	query.argtypes[0] = desc->tdtypeid;
	args.values[0] = heap_copy_tuple_as_datum(tuple, desc);
	args.nulls[0] = ' ';
	args.count = 1;
	(void) query_run(&query, &args);
	return PointerGetDatum(got_jsonb(0, 1));
}
