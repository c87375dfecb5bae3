/*-------------------------------------------------------------------------
 *
 * step.c
 *	  What comes next for an intent.
 *
 * For an uncertain intent the rule is contract.c's; here its inputs are put
 * together: the contract pinned at prepare, the one in force and those that
 * are announced, the gates as they answer now, and what the worklist knows.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "extaction.h"
#include "utils/array.h"
#include "utils/builtins.h"

#define MAX_LOOKUPS 10			/* unknown ones, before a human is asked */

static NextStep uncertain_step(const Intent *intent, TimestampTz now,
							   int64 lease_us);
static void read_contract(Contract *contract, int row);
static NextStep stopped(Gate gate, const char *needs);
static NextStep answer(const char *step, const char *reason, TimestampTz due_at);

PG_FUNCTION_INFO_V1(extaction_next_step);

/*
 * next_step(scope, intent_id) returns step
 */
Datum
extaction_next_step(PG_FUNCTION_ARGS)
{
	LedgerVisit visit;
	Intent		intent;
	NextStep	next = {0};
	bool		found;

	found = intent_visit(fcinfo, &visit, &intent);
	if (found)
		next = intent_next_step(&intent, GetCurrentTimestamp());
	ledger_leave(&visit);
	if (!found)
		PG_RETURN_NULL();
	{
		NamedDatum	values[] = {
			{"step", CStringGetTextDatum(next.step), false},
			{"reason", CStringGetTextDatum(next.reason), false},
			{"due_at", TimestampTzGetDatum(next.due_at), next.due_at == NO_TIME},
			{"gate", next.gate == GATE_COUNT ? (Datum) 0 : CStringGetTextDatum(gate_name(next.gate)),
			next.gate == GATE_COUNT},
			{"needs", next.gate == GATE_COUNT ? (Datum) 0 : CStringGetTextDatum(gate_needs(next.gate)),
			next.gate == GATE_COUNT},
		};

		PG_RETURN_DATUM(composite_datum(fcinfo, values, lengthof(values)));
	}
}

/*
 * With a lease of the default length.
 */
NextStep
intent_next_step(const Intent *intent, TimestampTz now)
{
	return intent_next_step_for(intent, now,
								contract_microseconds(&intent->call_timeout) + LEASE_MARGIN_US);
}

/*
 * "lease_us" is how long the next attempt would be with a worker.
 */
NextStep
intent_next_step_for(const Intent *intent, TimestampTz now, int64 lease_us)
{
	const Work *work = &intent->work;
	const char *state = intent_state(intent, now);
	NextStep	next;

	if (!intent->bound)
		return stopped(gate_by_name(intent->waiting_gate), intent->waiting_needs);
	if (!intent->open)
		return strcmp(state, "uncertain") == 0
			? answer("done", "it was given up: nobody looks any more", NO_TIME)
			: answer("done", "it is settled", NO_TIME);
	if (strcmp(state, "prepared") == 0)
		return answer("send", "it is prepared", work->due_at);
	if (strcmp(state, "sending") == 0)
		return answer("wait", "a worker is sending it", work->lease_until);
	if (strcmp(state, "blocked") == 0)
		return stopped(gate_by_name(work->gate), work->needs);
	next = uncertain_step(intent, now, lease_us);
	if (work->claim_id != 0 && work->lease_until > now)
	{
		next.step = "wait";
		next.reason = "a worker is looking it up";
		next.due_at = work->lease_until;
	}
	return next;
}

static NextStep
answer(const char *step, const char *reason, TimestampTz due_at)
{
	NextStep	next = {step, reason, due_at, GATE_COUNT};

	return next;
}

static NextStep
stopped(Gate gate, const char *needs)
{
	NextStep	next = {gate_next_step(gate), needs, NO_TIME, gate};

	return next;
}

static NextStep
uncertain_step(const Intent *intent, TimestampTz now, int64 lease_us)
{
	const Work *work = &intent->work;
	Situation	situation = {0};
	Contract   *contracts;
	int			ncontracts = intent_contracts(intent, &contracts);
	Facts		facts;
	Step		step;
	NextStep	next;

	situation.now = now;
	/* should it be unknown, it was sent as early as it could be */
	situation.first_sent_at = work->first_sent_at == NO_TIME ? intent->recorded_at : work->first_sent_at;
	situation.quiet_from = work->quiet_from == NO_TIME ? now : work->quiet_from;
	situation.lease = lease_us;
	situation.margin = (int64) extaction_retention_margin * USECS_PER_SEC;
	situation.last_code = work->last_code;
	situation.last_answer_at = work->answered_at == NO_TIME ? 0 : work->answered_at;
	next.gate = intent_gates(intent, &facts).gate;
	situation.gates_pass = next.gate == GATE_COUNT;
	situation.bytes_stored = !intent->redacted;
	situation.attempts_left = work->tries < intent->max_attempts;
	situation.late_found = work->late_found;
	situation.lookups = work->lookups;
	situation.max_lookups = MAX_LOOKUPS;
	situation.look_due_at = look_due_at(work);
	step = contract_next_step(contracts, ncontracts, &situation);
	next.step = contract_step_name(step.kind);
	next.reason = step.reason;
	next.due_at = step.due_at == 0 ? NO_TIME : step.due_at;
	return next;
}

/*
 * The cadence of looking: a minute after the last unknown, then twice as
 * long each time, a day at most.
 */
TimestampTz
look_due_at(const Work *work)
{
	int64		minutes;

	if (work->lookups == 0 || work->look_began_at == NO_TIME)
		return 0;
	minutes = work->lookups > 11 ? 24 * 60 : Min(24 * 60, INT64CONST(1) << (work->lookups - 1));
	return work->look_began_at + minutes * USECS_PER_MINUTE;
}

/*
 * The gates for an open intent, as they answer now.  A paused or disabled
 * action is a switch, asked by claim alone.
 */
Verdict
intent_gates(const Intent *intent, Facts *facts)
{
	facts_load(facts, &intent->request, text_to_cstring(intent->request.action),
			   &intent->requester, NULL, NULL);
	return gate_check(facts, &intent->request, &intent->requester, NULL);
}

/*
 * The contract pinned at prepare, the one in force, and the announced ones.
 * Where none was pinned, or none is left, that counts as one without a key.
 */
int
intent_contracts(const Intent *intent, Contract **contracts)
{
	static KeptQuery query = {
		"SELECT c.key_carrier, c.on_expired, c.on_replay, c.on_mismatch, c.on_concurrent,"
		" c.stores_failures, c.lookup, c.version, c.shipped, c.failures_roll_back, c.absence_is_proof,"
		" c.lookup_lag, c.late_arrival_bound, c.retention, c.min_retry_delay, c.proves_not_happened"
		" FROM extaction.contracts c"
		" WHERE c.provider = $1 AND c.operation = $2"
		"   AND ((c.version = $3 AND c.shipped = $4) OR c.valid_from > clock_timestamp()"
		"        OR (c.version, c.shipped) = (SELECT k.version, k.shipped FROM extaction.contracts k"
		"            WHERE k.provider = $1 AND k.operation = $2 AND k.valid_from <= clock_timestamp()"
		"            ORDER BY k.valid_from DESC, k.version DESC, k.shipped LIMIT 1))",
		false, 4, {TEXTOID, TEXTOID, INT8OID, BOOLOID}, NULL
	};
	QueryArgs	args = {0};
	int			count;
	int			i;

	arg_text(&args, intent->provider);
	arg_text(&args, intent->operation);
	arg_contract(&args, intent->has_contract, intent->contract_version, intent->contract_shipped);
	count = (int) query_run_now(&query, &args);
	*contracts = palloc(sizeof(Contract) * (count + 1));
	for (i = 0; i < count; i++)
		read_contract(&(*contracts)[i], i);
	/* it went out without a key, whatever has been announced since */
	if (!intent->has_contract || count == 0)
		(*contracts)[count++] = contract_none();
	return count;
}

/*
 * A row of that statement.
 */
static void
read_contract(Contract *contract, int row)
{
	static const char *const words[] = {
		"key_carrier", "on_expired", "on_replay", "on_mismatch", "on_concurrent", "stores_failures", "lookup"
	};
	Interval	span;
	bool		isnull;
	Datum	   *codes;
	bool	   *nulls;
	int			i;

	memset(contract, 0, sizeof(Contract));
	for (i = 0; i < (int) lengthof(words); i++)
		if (!contract_set_word(contract, words[i], got_word(row, i + 1)))
			elog(ERROR, "unknown word in contract column \"%s\"", words[i]);
	contract->version = got_int8(row, 8);
	contract->shipped = got_bool(row, 9);
	contract->failures_roll_back = got_bool(row, 10);
	contract->absence_is_proof = got_bool(row, 11);
	span = got_interval(row, 12);
	contract->has_lookup_lag = !got_null(row, 12);
	contract->lookup_lag = contract_microseconds(&span);
	span = got_interval(row, 13);
	contract->has_late_arrival_bound = !got_null(row, 13);
	contract->late_arrival_bound = contract_microseconds(&span);
	span = got_interval(row, 14);
	contract->has_retention = !got_null(row, 14);
	contract->retention = contract_microseconds(&span);
	span = got_interval(row, 15);
	contract->min_retry_delay = contract_microseconds(&span);
	deconstruct_array(DatumGetArrayTypePCopy(got_datum(row, 16, &isnull)), TEXTOID, -1, false,
					  TYPALIGN_INT, &codes, &nulls, &contract->nproves_not_happened);
	contract->proves_not_happened = palloc(sizeof(char *) * Max(contract->nproves_not_happened, 1));
	for (i = 0; i < contract->nproves_not_happened; i++)
		contract->proves_not_happened[i] = nulls[i] ? pstrdup("") : TextDatumGetCString(codes[i]);
}
