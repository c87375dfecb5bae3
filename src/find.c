/*-------------------------------------------------------------------------
 *
 * find.c
 *	  Looking at one intent: find, check_gates.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "extaction.h"
#include "funcapi.h"
#include "utils/builtins.h"

static bool gate_facts(Facts *facts, Request *request, Identity *requester,
					   const Intent *intent);

PG_FUNCTION_INFO_V1(extaction_find);
PG_FUNCTION_INFO_V1(extaction_check_gates);
PG_FUNCTION_INFO_V1(extaction_canonical_request);

/*
 * How a look at an intent begins: (scope, intent_id), of which any member may
 * know.  False if the scope has none of that name.  The caller ends the visit.
 */
bool
intent_visit(FunctionCallInfo fcinfo, LedgerVisit *visit, Intent *intent)
{
	text	   *scope = name_argument(fcinfo, 0, "scope");
	text	   *intent_id = name_argument(fcinfo, 1, "intent_id");
	Identity	identity;

	ledger_enter(visit, LEDGER_READS);
	identity_init(&identity, visit->caller, NULL);
	access_require_member(&identity, scope);
	return intent_load(intent, scope, intent_id, true);
}

/*
 * find(scope, intent_id) returns receipt
 */
Datum
extaction_find(PG_FUNCTION_ARGS)
{
	Receipt		receipt = NO_RECEIPT;
	LedgerVisit visit;
	Intent		intent;
	bool		found;

	found = intent_visit(fcinfo, &visit, &intent);
	if (found)
		intent_receipt(&receipt, &intent, "found");
	ledger_leave(&visit);
	if (!found)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(receipt_datum(fcinfo, &receipt));
}

/*
 * canonical_request(scope, intent_id) returns text
 */
Datum
extaction_canonical_request(PG_FUNCTION_ARGS)
{
	LedgerVisit visit;
	Identity	requester;
	Intent		intent;
	Facts		facts;
	Request		request;
	text	   *canonical = NULL;

	if (intent_visit(fcinfo, &visit, &intent) &&
		!intent.redacted && gate_facts(&facts, &request, &requester, &intent))
		canonical = request_text(&request);
	ledger_leave(&visit);
	if (canonical == NULL)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(canonical);
}

/*
 * check_gates(scope, intent_id) returns setof (gate, passes, detail,
 * who_can_fix)
 */
Datum
extaction_check_gates(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	LedgerVisit visit;
	Intent		intent;
	Facts		facts;
	Request		request;
	Identity	requester;
	Verdict		verdict;
	int			gate;

	InitMaterializedSRF(fcinfo, 0);
	if (intent_visit(fcinfo, &visit, &intent) &&
		gate_facts(&facts, &request, &requester, &intent))
	{
		verdict = gate_check(&facts, &request, &requester, NULL);
		for (gate = 0; gate < GATE_COUNT; gate++)
		{
			bool		stops = gate_stops((Gate) gate, &facts, &request, &requester, verdict.approval);
			Datum		values[4];
			bool		nulls[4] = {false, false, false, false};

			values[0] = CStringGetTextDatum(gate_name((Gate) gate));
			values[1] = BoolGetDatum(!stops);
			values[2] = CStringGetTextDatum(stops ? gate_needs((Gate) gate) : "");
			nulls[2] = !stops;
			values[3] = CStringGetTextDatum(gate_who((Gate) gate));
			tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
		}
	}
	ledger_leave(&visit);
	return (Datum) 0;
}

/*
 * What the gates ask, of a bound intent or of what waits under its name.
 */
static bool
gate_facts(Facts *facts, Request *request, Identity *requester, const Intent *intent)
{
	CandidateRef *candidate = palloc(sizeof(CandidateRef));
	Order		order;

	if (intent->bound)
	{
		*request = intent->request;
		*requester = intent->requester;
	}
	else if (!request_load(request, candidate, requester, &order,
						   intent->request.scope, intent->waiting_digest))
		return false;
	facts_load(facts, request, text_to_cstring(request->action), requester, NULL, NULL);
	return true;
}
