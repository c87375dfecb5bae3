/*-------------------------------------------------------------------------
 *
 * settle.c
 *	  Deciding about an intent as a whole: cancel, retry, abandon, compensate.
 *
 * Each holds the exclusive lock of the intent and then its worklist row, and
 * answers from what it finds there: a wish that does not fit the state is
 * refused with a receipt, and nothing is changed.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "extaction.h"
#include "utils/builtins.h"

/* One call about an intent. */
typedef struct Wish
{
	text	   *scope;
	text	   *intent_id;
	text	   *reason;
	Identity	identity;
	Intent		intent;
	bool		known;
	const char *state;
	Receipt		receipt;
} Wish;

static void begin(Wish *wish, LedgerVisit *visit, FunctionCallInfo fcinfo,
				  const char *capabilities);
static Datum done(Wish *wish, LedgerVisit *visit, FunctionCallInfo fcinfo,
				  const char *status);
static void refuse(Wish *wish, const char *needs);
static void append(Wish *wish, const char *kind);
static bool cancelled_before(const Wish *wish);
static bool cancel(Wish *wish);
static bool stop_waiting(const Wish *wish);
static void uncertain_again(Wish *wish);
static const char *cannot_compensate(const Wish *wish);
static TimestampTz quiet_end(const Wish *wish);

PG_FUNCTION_INFO_V1(extaction_cancel);
PG_FUNCTION_INFO_V1(extaction_retry);
PG_FUNCTION_INFO_V1(extaction_abandon);
PG_FUNCTION_INFO_V1(extaction_compensate);
PG_FUNCTION_INFO_V1(extaction_redact);

/*
 * cancel(scope, intent_id, reason, actor) returns receipt
 */
Datum
extaction_cancel(PG_FUNCTION_ARGS)
{
	Wish		wish = {.receipt = NO_RECEIPT};
	LedgerVisit visit;
	const char *status = "done";

	begin(&wish, &visit, fcinfo, "submitter,approver");
	if (cancelled_before(&wish))
		status = "replayed";
	else if (!cancel(&wish))
		status = "refused";
	PG_RETURN_DATUM(done(&wish, &visit, fcinfo, status));
}

/*
 * Is it withdrawn already, bound or not?
 */
static bool
cancelled_before(const Wish *wish)
{
	static KeptQuery query = {
		"SELECT e.kind FROM extaction.events e"
		" WHERE e.scope = $1 AND e.intent_id = $2 AND e.kind IN ('blocked', 'rejected', 'cancelled')"
		" ORDER BY e.event_id DESC LIMIT 1",
		false, 2, {TEXTOID, TEXTOID}, NULL
	};
	const Intent *intent = &wish->intent;
	QueryArgs	args = {0};

	if (wish->known)
		return intent->outcome != NULL && strcmp(intent->outcome, "cancelled") == 0 && !intent->waits;
	arg_text(&args, wish->scope);
	arg_text(&args, wish->intent_id);
	return query_run(&query, &args) > 0 && strcmp(got_word(0, 1), "cancelled") == 0;
}

/*
 * Withdraws what waits, or what is prepared or blocked and never went out.
 */
static bool
cancel(Wish *wish)
{
	Intent	   *intent = &wish->intent;
	bool		open = intent->open && intent->work.tries == 0 && !intent->work.late_found &&
		(strcmp(wish->state, "prepared") == 0 || strcmp(wish->state, "blocked") == 0);

	if (!wish->known)
		refuse(wish, "an intent that is there: the scope knows none of this name");
	else if (intent->waits && !intent->bound && !stop_waiting(wish))
	{
		/* a submit has just bound it */
		wish->known = intent_lock(intent, wish->scope, wish->intent_id);
		wish->state = wish->known ? intent_state(intent, GetCurrentTimestamp()) : "not there";
		return cancel(wish);
	}
	else if (intent->waits || open)
	{
		if (!intent->bound)
			memcpy(intent->request.digest, intent->waiting_digest, DIGEST_LENGTH);
		append(wish, open || !intent->bound ? "cancelled" : "abandoned");
		(void) stop_waiting(wish);
		if (open)
			ledger_close_work(intent);
		return true;
	}
	else
		refuse(wish, psprintf("an intent that never went out: this one is %s", wish->state));
	return false;
}

static bool
stop_waiting(const Wish *wish)
{
	return ledger_stop_waiting(wish->scope, "intent", wish->intent_id, NULL);
}

/*
 * retry(scope, intent_id, reason, actor) returns receipt
 */
Datum
extaction_retry(PG_FUNCTION_ARGS)
{
	Wish		wish = {.receipt = NO_RECEIPT};
	LedgerVisit visit;
	Intent	   *intent = &wish.intent;
	const char *status = "refused";
	Facts		facts;
	Verdict		verdict;

	begin(&wish, &visit, fcinfo, "approver");
	if (!wish.known)
		refuse(&wish, "an intent that is there: the scope knows none of this name");
	else if (intent->open && strcmp(wish.state, "prepared") == 0 &&
			 intent->outcome != NULL && strcmp(intent->outcome, "not_happened") == 0)
		status = "replayed";
	else if (intent->open || !intent->bound || intent->outcome == NULL ||
			 strcmp(intent->outcome, "not_happened") != 0)
		refuse(&wish, psprintf("a closed not_happened: this one is %s",
							   intent->outcome && strcmp(intent->outcome, "cancelled") == 0 && !intent->open
							   ? "cancelled" : wish.state));
	else if (intent->redacted)
		refuse(&wish, "another intent: the content of this one has been erased");
	else if ((verdict = intent_gates(intent, &facts)).gate != GATE_COUNT)
	{
		refuse(&wish, gate_needs(verdict.gate));
		wish.receipt.gate = gate_name(verdict.gate);
	}
	else
	{
		intent_past(intent);
		intent->work = no_work();
		intent->work.attempt = intent->last_attempt;
		intent->work.first_sent_at = intent->first_sent_at;
		intent->work.quiet_from = intent->quiet_from;
		append(&wish, "retried");
		if (adopt_has_lost(intent))
			uncertain_again(&wish);
		else
			work_set_state(&intent->work, "prepared", GetCurrentTimestamp());
		ledger_put_work(intent);
		status = "done";
	}
	PG_RETURN_DATUM(done(&wish, &visit, fcinfo, status));
}

/*
 * It may have been tried in the time that a restore has lost.
 */
static void
uncertain_again(Wish *wish)
{
	Work	   *work = &wish->intent.work;
	Receipt		event = NO_RECEIPT;

	work_set_state(work, "uncertain", GetCurrentTimestamp());
	event.attempt = work->attempt;
	event.lease_until = work->quiet_from;
	event.detail = detail_evidence(detail_words("code", work->last_code, NULL), NULL, NULL, NULL);
	ledger_append(&event, "uncertain", &wish->intent.request, &wish->identity);
}

/*
 * abandon(scope, intent_id, reason, actor) returns receipt
 */
Datum
extaction_abandon(PG_FUNCTION_ARGS)
{
	Wish		wish = {.receipt = NO_RECEIPT};
	LedgerVisit visit;
	const char *status = "refused";

	begin(&wish, &visit, fcinfo, "approver");
	if (!wish.known)
		refuse(&wish, "an intent that is there: the scope knows none of this name");
	else if (strcmp(wish.state, "uncertain") != 0)
		refuse(&wish, psprintf("an uncertain intent: this one is %s", wish.state));
	else if (!wish.intent.open)
		status = "replayed";
	else
	{
		if (strcmp(wish.intent.work.state, "sending") == 0)
			append(&wish, "uncertain"); /* the lease has ended unnoticed */
		append(&wish, "abandoned");
		ledger_close_work(&wish.intent);
		status = "done";
	}
	PG_RETURN_DATUM(done(&wish, &visit, fcinfo, status));
}

/*
 * compensate(scope, intent_id, new_intent_id, action, destination, payload,
 * reason, actor) returns receipt
 */
Datum
extaction_compensate(PG_FUNCTION_ARGS)
{
	Wish		wish = {.receipt = NO_RECEIPT};
	Request		request = {0};
	Order		order = NO_ORDER;
	text	   *actor = optional_name(fcinfo, 7, "actor");
	Jsonb	   *payload = document_argument(fcinfo, 5, "payload");
	LedgerVisit visit;
	const char *why_not;

	request_names(&request, fcinfo, 1);
	request.scope = wish.scope = name_argument(fcinfo, 0, "scope");
	request.intent_id = name_argument(fcinfo, 2, "new_intent_id");
	request.action = name_argument(fcinfo, 3, "action");
	request.destination = name_argument(fcinfo, 4, "destination");
	wish.intent_id = name_argument(fcinfo, 1, "intent_id");
	wish.reason = reason_argument(fcinfo, 6);

	ledger_enter(&visit, LEDGER_DECIDES);
	identity_init(&wish.identity, visit.caller, actor);
	if (!access_allows(&wish.identity, wish.scope, "submitter"))
		scope_denied_receipt(&wish.receipt, &request);
	else
	{
		wish.known = intent_lock(&wish.intent, wish.scope, wish.intent_id);
		wish.state = wish.known ? intent_state(&wish.intent, GetCurrentTimestamp()) : "not there";
		why_not = cannot_compensate(&wish);
		if (why_not != NULL)
		{
			wish.receipt.status = "refused";
			wish.receipt.state = wish.known ? wish.state : NULL;
			wish.receipt.next_step = "human";
			wish.receipt.needs = why_not;
			wish.receipt.scope = request.scope;
			wish.receipt.intent_id = request.intent_id;
			wish.receipt.recorded_at = GetCurrentTimestamp();
		}
		else
		{
			request_complete(&request, NULL, NULL, payload);
			order.compensates = wish.intent_id;
			order.not_before = quiet_end(&wish);
			submit_request(&request, &wish.identity, NULL, &order, &wish.receipt);
		}
	}
	ledger_leave(&visit);
	PG_RETURN_DATUM(receipt_datum(fcinfo, &wish.receipt));
}

/*
 * Only what happened can be undone, and only while nothing forbids to say
 * from when on the undo is safe.
 */
static const char *
cannot_compensate(const Wish *wish)
{
	if (!wish->known || !wish->intent.bound || strcmp(wish->state, "happened") != 0)
		return psprintf("an intent that happened: this one is %s", wish->state);
	if (quiet_end(wish) == FOREVER)
		return "a contract with a late_arrival_bound: an older request could act after the undo";
	return NULL;
}

/*
 * From when on no older request can act any more; FOREVER if nothing says.
 */
static TimestampTz
quiet_end(const Wish *wish)
{
	Intent		intent = wish->intent;
	Contract   *contracts;
	int			ncontracts = intent_contracts(&intent, &contracts);
	TimestampTz end;

	intent_past(&intent);
	if (intent.quiet_from == NO_TIME)
		return NO_TIME;			/* it never was with a worker */
	return contract_quiet_after(contracts, ncontracts, intent.quiet_from, &end) ? end : FOREVER;
}

/*
 * redact(scope, intent_id, reason, actor) returns receipt
 */
Datum
extaction_redact(PG_FUNCTION_ARGS)
{
	Wish		wish = {.receipt = NO_RECEIPT};
	LedgerVisit visit;
	const char *status = "refused";
	const char *refusal;

	begin(&wish, &visit, fcinfo, "owner");
	refusal = wish.known ? redact_refusal(&wish.intent, wish.state) : NULL;
	if (refusal != NULL)
		refuse(&wish, refusal);
	else
		switch (redact_intent(&wish.intent.request, wish.reason, &wish.identity, &wish.receipt))
		{
			case REDACT_DONE:
				{
					Datum		name = PointerGetDatum(wish.intent_id);

					redact_lists(wish.scope, &name, 1);
					status = "done";
					break;
				}
			case REDACT_BLANK:
				status = "replayed";
				break;
			case REDACT_UNKNOWN:
				refuse(&wish, "an intent that is there: the scope knows none of this name");
				break;
		}
	PG_RETURN_DATUM(done(&wish, &visit, fcinfo, status));
}

/*
 * How cancel, retry, abandon and redact begin: (scope, intent_id, reason, actor).
 */
static void
begin(Wish *wish, LedgerVisit *visit, FunctionCallInfo fcinfo, const char *capabilities)
{
	text	   *actor = optional_name(fcinfo, 3, "actor");

	wish->scope = name_argument(fcinfo, 0, "scope");
	wish->intent_id = name_argument(fcinfo, 1, "intent_id");
	wish->reason = reason_argument(fcinfo, 2);
	ledger_enter(visit, LEDGER_DECIDES);
	identity_init(&wish->identity, visit->caller, actor);
	access_require(&wish->identity, wish->scope, capabilities);
	ledger_lock_subject(wish->scope, "intent", wish->intent_id, true);
	wish->known = intent_lock(&wish->intent, wish->scope, wish->intent_id);
	wish->state = wish->known ? intent_state(&wish->intent, GetCurrentTimestamp()) : "not there";
}

static void
refuse(Wish *wish, const char *needs)
{
	wish->receipt.needs = needs;
}

static void
append(Wish *wish, const char *kind)
{
	wish->receipt.attempt = wish->intent.open ? wish->intent.work.attempt : 0;
	wish->receipt.detail = detail_words("reason", text_to_cstring(wish->reason), NULL);
	ledger_append(&wish->receipt, kind, &wish->intent.request, &wish->identity);
}

/*
 * Ends the visit with where the intent stands now.
 */
static Datum
done(Wish *wish, LedgerVisit *visit, FunctionCallInfo fcinfo, const char *status)
{
	const char *needs = wish->receipt.needs;
	Receipt    *receipt = &wish->receipt;
	Datum		datum;

	if (intent_load(&wish->intent, wish->scope, wish->intent_id, false))
		intent_receipt(receipt, &wish->intent, status);
	else
	{
		receipt->status = status;
		receipt->scope = wish->scope;
		receipt->intent_id = wish->intent_id;
		receipt->next_step = "done";
		receipt->state = strcmp(status, "refused") == 0 ? NULL : "not_happened";
		if (receipt->receipt_id == 0)
			receipt->recorded_at = GetCurrentTimestamp();
	}
	if (needs != NULL)
		receipt->needs = needs;
	if (strcmp(status, "done") != 0)
	{
		/* nothing is written that the lock would have to guard */
		receipt->receipt_id = 0;
		ledger_unlock_subject(wish->scope, "intent", wish->intent_id);
	}
	datum = receipt_datum(fcinfo, receipt);
	ledger_leave(visit);
	return datum;
}
