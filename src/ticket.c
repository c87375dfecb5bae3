/*-------------------------------------------------------------------------
 *
 * ticket.c
 *	  Going out, second step: what a committed ticket entitles to, and
 *	  changing or giving back a ticket.
 *
 * A row is handed out once, to the role that claimed, after all gates have
 * been asked again; a process that restarts cannot send again what it may
 * have sent.  What may not go any more goes back as never sent.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "extaction.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"

static int	fetch_ticket(int64 claim_id, const Identity *identity, bool handed,
						 DueItem **items);
static void lock_batches(int64 claim_id, const Identity *identity);
static void hand_out_chunk(DueItem *items, int count, BatchFacts *batch_facts,
						   const Identity *identity, ReturnSetInfo *result);
static bool hand_out(Intent *intent, Datum *values, bool *nulls, BatchFacts *batch_facts,
					 const Identity *identity, TupleDesc desc);
static int64 send_within(const Intent *intent, TimestampTz now);
static void give_back(Intent *intent, const Identity *identity, Gate gate);
static void fill_envelope(const Intent *intent, int64 within, Datum *values,
						  bool *nulls, TupleDesc desc);
static TimestampTz extended(Intent *intent, TimestampTz wanted);
static void refuse_ambiguous(ArrayType *list, const DueItem *items, int count);
static bool is_listed(ArrayType *list, const text *intent_id);

PG_FUNCTION_INFO_V1(extaction_claimed);
PG_FUNCTION_INFO_V1(extaction_extend);
PG_FUNCTION_INFO_V1(extaction_release);

/*
 * claimed(claim_id) returns setof envelope
 */
Datum
extaction_claimed(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	int64		claim_id;
	LedgerVisit visit;
	Identity	identity;
	MemoryContext memory = AllocSetContextCreate(CurrentMemoryContext, "extaction claimed items",
												 ALLOCSET_DEFAULT_SIZES);
	BatchFacts	batch_facts = no_batch_facts();
	DueItem	   *items;
	int			count;
	int			i;

	require_plain_transaction("extaction.claimed");
	claim_id = claim_id_argument(fcinfo, 0);
	InitMaterializedSRF(fcinfo, 0);
	ledger_enter(&visit, LEDGER_DECIDES);
	identity_init(&identity, visit.caller, NULL);
	ledger_must_be_home();
	lock_batches(claim_id, &identity);
	count = fetch_ticket(claim_id, &identity, false, &items);
	if (count > 0)
		flush_must_be_confirmed();
	for (i = 0; i < count; i += DUE_CHUNK)
	{
		MemoryContext old = MemoryContextSwitchTo(memory);

		hand_out_chunk(items + i, Min(DUE_CHUNK, count - i), &batch_facts, &identity, result);
		MemoryContextSwitchTo(old);
		MemoryContextReset(memory);
	}
	ledger_leave(&visit);
	return (Datum) 0;
}

/*
 * Holds the batches of a ticket, before its rows: whoever is just deciding
 * about one is waited for, and hand_out() finds none of them taken.
 */
static void
lock_batches(int64 claim_id, const Identity *identity)
{
	static KeptQuery query = {
		"SELECT DISTINCT i.scope, i.batch_id FROM extaction.worklist w"
		" JOIN extaction.intents i ON i.scope = w.scope AND i.intent_id = w.intent_id"
		" WHERE w.claim_id = $1 AND w.claimed_by = $2 AND w.handed_at IS NULL"
		"   AND i.batch_id IS NOT NULL AND " WORKS_IN_SQL("w.scope", "$3") " ORDER BY 1, 2",
		false, 3, {INT8OID, TEXTOID, OIDOID}, NULL
	};
	QueryArgs	args = {0};
	int			count;
	int			i;

	arg_int8(&args, claim_id);
	arg_text(&args, identity->role_name);
	arg_oid(&args, identity->role);
	count = (int) query_run_and_sort(&query, &args);
	for (i = 0; i < count; i++)
		ledger_lock_subject(got_text(i, 1), "batch", got_text(i, 2), false);
}

/*
 * The rows of a ticket, locked: those not handed out yet, or all.  Only where
 * the caller is a worker still: its access may have been revoked since, or it
 * bears the name of a role that was dropped.  A ticket that this very
 * transaction wrote is not committed, so it shows nothing.
 */
static int
fetch_ticket(int64 claim_id, const Identity *identity, bool handed, DueItem **items)
{
	static KeptQuery query = {
		"SELECT w.scope, w.intent_id, w.due_at, w.xmin FROM extaction.worklist w"
		" WHERE w.claim_id = $1 AND w.claimed_by = $2 AND w.lease_until > clock_timestamp()"
		"   AND (w.handed_at IS NULL OR $3)"
		"   AND " WORKS_IN_SQL("w.scope", "$4")
		" ORDER BY w.scope, w.intent_id FOR UPDATE",
		false, 4, {INT8OID, TEXTOID, BOOLOID, OIDOID}, NULL
	};
	QueryArgs	args = {0};
	int			count;
	int			i;

	arg_int8(&args, claim_id);
	arg_text(&args, identity->role_name);
	arg_bool(&args, handed);
	arg_oid(&args, identity->role);
	count = (int) query_run_and_sort(&query, &args);
	*items = palloc(sizeof(DueItem) * Max(count, 1));
	for (i = 0; i < count; i++)
	{
		bool		isnull;
		TransactionId written_by = DatumGetTransactionId(got_datum(i, 4, &isnull));

		if (!handed && TransactionIdIsCurrentTransactionId(written_by))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("claim %lld is not committed yet", (long long) claim_id),
					 errdetail("What is sent must be on record before it is sent."),
					 errhint("Commit after claim; call claimed in the next transaction, for instance in autocommit mode.")));
		(*items)[i].scope = got_text(i, 1);
		(*items)[i].intent_id = got_text(i, 2);
		(*items)[i].due_at = got_timestamptz(i, 3);
	}
	return count;
}

/*
 * Hands items out, and writes that down.
 */
static void
hand_out_chunk(DueItem *items, int count, BatchFacts *batch_facts,
			   const Identity *identity, ReturnSetInfo *result)
{
	Intent	   *intents = intents_load(items, count);
	Datum	   *values = palloc(sizeof(Datum) * result->setDesc->natts);
	bool	   *nulls = palloc(sizeof(bool) * result->setDesc->natts);
	int			handed = 0;
	int			i;

	for (i = 0; i < count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (!hand_out(&intents[i], values, nulls, batch_facts, identity, result->setDesc))
			continue;
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
		items[handed++] = items[i];
	}
	ledger_hand_out(items, handed, GetCurrentTimestamp());
}

/*
 * Hands one item out, if it may still go: all gates again, and time enough.
 * What may not go any more goes back, as never sent.
 */
static bool
hand_out(Intent *intent, Datum *values, bool *nulls, BatchFacts *batch_facts,
		 const Identity *identity, TupleDesc desc)
{
	TimestampTz now = GetCurrentTimestamp();
	bool		look = strcmp(intent->work.claim_step, "look") == 0;
	int64		within = look ? intent->work.lease_until - now : send_within(intent, now);

	if (intent->batch_id != NULL &&
		!ledger_try_lock_subject(intent->request.scope, "batch", intent->batch_id, false))
		return false;
	if (!look)
	{
		Facts		facts;
		Gate		gate = intent_gates_next(intent, &facts, batch_facts).gate;

		if (gate != GATE_COUNT || within <= 0 || intent->work.late_found)
		{
			give_back(intent, identity, gate);
			return false;
		}
	}
	fill_envelope(intent, within, values, nulls, desc);
	return true;
}

/*
 * How long from now a call may begin: it must end within the lease and, of a
 * resend, reach the provider while the key lives.
 */
static int64
send_within(const Intent *intent, TimestampTz now)
{
	const Work *work = &intent->work;
	TimestampTz end = work->lease_until;

	if (strcmp(work->claim_step, "resend") == 0)
	{
		Contract   *contracts;
		int			ncontracts = intent_contracts(intent, &contracts);
		int			i;

		for (i = 0; i < ncontracts; i++)
			if (contracts[i].on_expired != EXPIRED_REJECTS && contracts[i].has_retention)
				end = Min(end, work->first_sent_at + contracts[i].retention -
						  contracts[i].late_arrival_bound -
						  (int64) extaction_retention_margin * USECS_PER_SEC);
	}
	return end - contract_microseconds(&intent->call_timeout) - now;
}

/*
 * Takes a claim back from an item that was never sent.  "gate" is what stops
 * it, or GATE_COUNT.
 */
static void
give_back(Intent *intent, const Identity *identity, Gate gate)
{
	Work	   *work = &intent->work;
	bool		look = strcmp(work->claim_step, "look") == 0;
	bool		again = strcmp(work->claim_step, "resend") == 0;
	Receipt		event = NO_RECEIPT;

	if (look)
		work_set_state(work, "uncertain", GetCurrentTimestamp());
	else
	{
		event.attempt = work->attempt;
		work->tries--;
		if (!again && work->tries == 0 && !work->late_found)
			work->first_sent_at = NO_TIME;
		if (again || work->late_found)
			work_set_state(work, "uncertain", GetCurrentTimestamp());
		else if (gate == GATE_COUNT || gate == GATE_ACTION_DISABLED)
			work_set_state(work, "prepared", GetCurrentTimestamp());
		else
		{
			work_set_state(work, "blocked", FOREVER);
			work->gate = gate_name(gate);
			work->needs = gate_needs(gate);
		}
		event.detail = detail_words("state", work->state, "gate", work->gate, "needs", work->needs, NULL);
		ledger_append(&event, "released", &intent->request, identity);
	}
	ledger_put_work(intent);
}

/*
 * What a worker sends: the bytes are the canonical text, the same at every
 * attempt.
 */
static void
fill_envelope(const Intent *intent, int64 within, Datum *values, bool *nulls, TupleDesc desc)
{
	static KeptQuery contract = {
		"SELECT c.key_carrier, c.key_name, c.lookup FROM extaction.contracts c"
		" WHERE c.provider = $1 AND c.operation = $2 AND c.version = $3 AND c.shipped = $4",
		false, 4, {TEXTOID, TEXTOID, INT8OID, BOOLOID}, NULL
	};
	const Request *request = &intent->request;
	const Work *work = &intent->work;
	Interval   *timeout = memcpy(palloc(sizeof(Interval)), &intent->call_timeout, sizeof(Interval));
	Interval   *span = palloc0(sizeof(Interval));
	QueryArgs	args = {0};
	bool		known = false;

	span->time = within;
	if (intent->has_contract)
	{
		arg_text(&args, intent->provider);
		arg_text(&args, intent->operation);
		arg_int8(&args, intent->contract_version);
		arg_bool(&args, intent->contract_shipped);
		known = query_run(&contract, &args) == 1;
	}
	{
		text	   *carrier = known ? got_text(0, 1) : cstring_to_text("none");
		text	   *key_name = known ? got_text(0, 2) : NULL;
		text	   *lookup = known ? got_text(0, 3) : cstring_to_text("none");
		NamedDatum	members[] = {
			{"scope", PointerGetDatum(request->scope), false},
			{"intent_id", PointerGetDatum(request->intent_id), false},
			{"attempt", Int64GetDatum(work->attempt), false},
			{"step", CStringGetTextDatum(work->claim_step), false},
			{"action", PointerGetDatum(request->action), false},
			{"provider", PointerGetDatum(intent->provider), intent->provider == NULL},
			{"operation", PointerGetDatum(intent->operation), intent->operation == NULL},
			{"destination", PointerGetDatum(request->destination), intent->redacted},
			{"payload", PointerGetDatum(request->payload), intent->redacted},
			{"payload_text", PointerGetDatum(canonical_text(request->payload)), intent->redacted},
			{"idempotency_key", PointerGetDatum(&intent->idempotency_key), false},
			{"key_carrier", PointerGetDatum(carrier), false},
			{"key_name", PointerGetDatum(key_name), key_name == NULL},
			{"call_timeout", PointerGetDatum(timeout), false},
			{"send_within", PointerGetDatum(span), false},
			{"lease_until", TimestampTzGetDatum(work->lease_until), false},
			{"provider_ref", PointerGetDatum(intent->provider_ref), intent->provider_ref == NULL},
			{"lookup", PointerGetDatum(lookup), false},
			{"approval_id", PointerGetDatum(intent->approval_id), intent->approval_id == NULL},
			{"request_digest", PointerGetDatum(digest_to_hex(request->digest)), false},
			{"batch_id", PointerGetDatum(intent->batch_id), intent->batch_id == NULL},
		};

		fill_by_name(desc, members, lengthof(members), values, nulls);
	}
}

/*
 * extend(claim_id, lease) returns timestamptz
 */
Datum
extaction_extend(PG_FUNCTION_ARGS)
{
	int64		claim_id = claim_id_argument(fcinfo, 0);
	Interval   *lease = PG_ARGISNULL(1) ? NULL : PG_GETARG_INTERVAL_P(1);
	LedgerVisit visit;
	Identity	identity;
	DueItem	   *items;
	int			count;
	int			i;
	TimestampTz earliest = FOREVER;

	if (lease == NULL || contract_microseconds(lease) <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("lease must be positive"),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "lease")));
	ledger_enter(&visit, LEDGER_DECIDES);
	identity_init(&identity, visit.caller, NULL);
	count = fetch_ticket(claim_id, &identity, true, &items);
	for (i = 0; i < count; i++)
	{
		Intent		intent;
		Receipt		event = NO_RECEIPT;
		TimestampTz lease_until;

		CHECK_FOR_INTERRUPTS();
		(void) intent_load(&intent, items[i].scope, items[i].intent_id, false);
		lease_until = extended(&intent, GetCurrentTimestamp() + contract_microseconds(lease));
		if (lease_until > intent.work.lease_until)
		{
			intent.work.lease_until = lease_until;
			intent.work.due_at = intent.work.lease_until;
			if (strcmp(intent.work.claim_step, "look") != 0)
				intent.work.quiet_from = Max(intent.work.quiet_from, intent.work.lease_until);
			ledger_put_work(&intent);
			event.attempt = intent.work.attempt;
			/* the fold counts quiet periods from leases to send, not from looks */
			if (strcmp(intent.work.claim_step, "look") == 0)
				event.due_at = intent.work.lease_until;
			else
				event.lease_until = intent.work.lease_until;
			ledger_append(&event, "extended", &intent.request, &identity);
		}
		earliest = Min(earliest, intent.work.lease_until);
	}
	ledger_leave(&visit);
	if (count == 0)
		PG_RETURN_NULL();
	PG_RETURN_TIMESTAMPTZ(earliest);
}

/*
 * How long a lease may last: no longer than the approval and, of a resend,
 * than the key.
 */
static TimestampTz
extended(Intent *intent, TimestampTz wanted)
{
	TimestampTz now = GetCurrentTimestamp();
	Facts		facts;
	int64		timeout = contract_microseconds(&intent->call_timeout);
	Work		work = intent->work;

	if (strcmp(work.claim_step, "look") == 0)
		return wanted;
	if (intent_gates(intent, &facts).gate != GATE_COUNT)
		return work.lease_until;
	wanted = Min(wanted, approvals_end(&facts, &intent->requester, now));
	intent->work.lease_until = wanted;
	wanted = now + timeout + send_within(intent, now);
	intent->work = work;
	return wanted;
}

/*
 * release(claim_id, intent_ids) returns bigint
 */
Datum
extaction_release(PG_FUNCTION_ARGS)
{
	int64		claim_id = claim_id_argument(fcinfo, 0);
	ArrayType  *list = PG_ARGISNULL(1) ? NULL : PG_GETARG_ARRAYTYPE_P(1);
	LedgerVisit visit;
	Identity	identity;
	DueItem	   *items;
	int			count;
	int			i;
	int64		released = 0;

	ledger_enter(&visit, LEDGER_DECIDES);
	identity_init(&identity, visit.caller, NULL);
	count = fetch_ticket(claim_id, &identity, true, &items);
	if (list != NULL)
		refuse_ambiguous(list, items, count);
	for (i = 0; i < count; i++)
	{
		Intent		intent;

		CHECK_FOR_INTERRUPTS();
		if (!is_listed(list, items[i].intent_id))
			continue;
		(void) intent_load(&intent, items[i].scope, items[i].intent_id, false);
		give_back(&intent, &identity, GATE_COUNT);
		released++;
	}
	ledger_leave(&visit);
	PG_RETURN_INT64(released);
}

/*
 * A ticket may hold intents of the same name in several scopes: then a name
 * alone does not say which of them was never sent.
 */
static void
refuse_ambiguous(ArrayType *list, const DueItem *items, int count)
{
	int			i;
	int			j;

	for (i = 0; i < count; i++)
		for (j = 0; is_listed(list, items[i].intent_id) && j < i; j++)
			if (text_equal(items[i].intent_id, items[j].intent_id))
				ereport(ERROR,
						(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						 errmsg("intent_id \"%s\" is in more than one scope of the ticket",
								text_to_cstring(items[i].intent_id)),
						 errhint("Record never_sent for each with record_outcome, or claim by scope."),
						 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "intent_ids")));
}

/*
 * No list is everything.
 */
static bool
is_listed(ArrayType *list, const text *intent_id)
{
	Datum	   *values;
	bool	   *nulls;
	int			count;
	int			i;

	if (list == NULL)
		return true;
	deconstruct_array(list, TEXTOID, -1, false, TYPALIGN_INT, &values, &nulls, &count);
	for (i = 0; i < count; i++)
		if (!nulls[i] && text_equal(DatumGetTextPP(values[i]), intent_id))
			return true;
	return false;
}
