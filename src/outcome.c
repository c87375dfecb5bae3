/*-------------------------------------------------------------------------
 *
 * outcome.c
 *	  Coming back: what came of an attempt, and what a look-up found.
 *
 * The ledger judges, it does not believe.  happened takes evidence or a
 * provider's reference.  not_happened takes a code that proves it, and no
 * earlier attempt that may still act.  Whatever proves neither is uncertain.
 *
 * An answer fits its attempt: one of an older attempt settles nothing.  But
 * if it says happened it stops everything, for nothing may go out again.
 * Found beats absent, whichever comes first.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "extaction.h"
#include "utils/builtins.h"

/* One call that reports what came of an intent. */
typedef struct Report
{
	Intent		intent;
	Identity	identity;
	int64		attempt;		/* of record_outcome */
	const char *outcome;		/* happened, not_happened, uncertain */
	const Jsonb *evidence;
	text	   *provider_ref;
	const char *code;			/* of the evidence; NULL if none */
	bool		retry_given;
	int64		retry_after_us;
	TimestampTz looked_at;		/* when a look began */
	TimestampTz look_after;		/* another look is no use before; 0: no matter */
	bool		looked;			/* it is one more look that proved nothing */
	bool		locked;			/* by the subject's lock */
	bool		human;			/* decide: somebody's word */
	text	   *actor;
	const char *reason;
	TimestampTz now;
	Receipt		receipt;
} Report;

static void begin(Report *report, LedgerVisit *visit, FunctionCallInfo fcinfo,
				  int evidence, int provider_ref, const char *capability);
static void judge_outcome(Report *report);
static void judge_current(Report *report);
static bool said_before(const Report *report, bool uncertain);
static void settle_happened(Report *report);
static void settle_not_happened(Report *report, bool may_retry, TimestampTz due_at);
static void stay_uncertain(Report *report, const char *status, const char *needs);
static void keep_late(Report *report);
static void stop_everything(Report *report);
static void stop_resends(Report *report);
static bool shows_effect(const Report *report);
static bool proves_not_happened(const Report *report);
static bool will_retry(const Report *report);
static bool gates_last(const Intent *intent);
static void judge_finding(Report *report, const char *finding);
static void judge_absent(Report *report);
static void not_absent(Report *report, TimestampTz began, const char *needs);
static void judge_unknown(Report *report);
static bool can_be_looked_up(const Report *report);
static void append(Report *report, const char *kind);
static void finish(Report *report, const char *status);
static void answer(Report *report, const char *status);
static const char *evidence_code(const Jsonb *evidence);
static void load_intent(Report *report, text *scope, text *intent_id);
static const char *word_argument(FunctionCallInfo fcinfo, int arg, const char *what,
								 const char *words);
static Datum report_datum(FunctionCallInfo fcinfo, Report *report, LedgerVisit *visit);

PG_FUNCTION_INFO_V1(extaction_record_outcome);
PG_FUNCTION_INFO_V1(extaction_record_lookup);
PG_FUNCTION_INFO_V1(extaction_decide);

/*
 * record_outcome(scope, intent_id, attempt, outcome, evidence, provider_ref,
 * retry_after) returns receipt
 */
Datum
extaction_record_outcome(PG_FUNCTION_ARGS)
{
	Report		report = {.receipt = NO_RECEIPT};
	LedgerVisit visit;

	report.attempt = PG_ARGISNULL(2) ? 0 : PG_GETARG_INT64(2);
	report.outcome = word_argument(fcinfo, 3, "outcome", "happened, not_happened, uncertain");
	report.retry_given = !PG_ARGISNULL(6);
	if (report.retry_given)
		report.retry_after_us = contract_microseconds(PG_GETARG_INTERVAL_P(6));
	begin(&report, &visit, fcinfo, 4, 5, "worker");
	judge_outcome(&report);
	PG_RETURN_DATUM(report_datum(fcinfo, &report, &visit));
}

/*
 * record_lookup(scope, intent_id, finding, evidence, looked_at, provider_ref)
 * returns receipt
 */
Datum
extaction_record_lookup(PG_FUNCTION_ARGS)
{
	Report		report = {.receipt = NO_RECEIPT};
	const char *finding = word_argument(fcinfo, 2, "finding", "found, absent, unknown");
	LedgerVisit visit;

	report.looked_at = PG_ARGISNULL(4) ? NO_TIME : PG_GETARG_TIMESTAMPTZ(4);
	begin(&report, &visit, fcinfo, 3, 5, "worker");
	judge_finding(&report, finding);
	PG_RETURN_DATUM(report_datum(fcinfo, &report, &visit));
}

/*
 * decide(scope, intent_id, finding, reason, looked_at, evidence,
 * provider_ref, actor) returns receipt
 */
Datum
extaction_decide(PG_FUNCTION_ARGS)
{
	Report		report = {.receipt = NO_RECEIPT};
	const char *finding = word_argument(fcinfo, 2, "finding", "found, absent");
	LedgerVisit visit;

	report.human = true;
	report.actor = optional_name(fcinfo, 7, "actor");
	report.reason = text_to_cstring(reason_argument(fcinfo, 3));
	report.looked_at = PG_ARGISNULL(4) ? NO_TIME : PG_GETARG_TIMESTAMPTZ(4);
	begin(&report, &visit, fcinfo, 5, 6, "approver");
	judge_finding(&report, finding);
	PG_RETURN_DATUM(report_datum(fcinfo, &report, &visit));
}

/*
 * How they begin: scope and intent_id are the first arguments; those of
 * evidence and provider_ref are named.
 */
static void
begin(Report *report, LedgerVisit *visit, FunctionCallInfo fcinfo, int evidence,
	  int provider_ref, const char *capability)
{
	text	   *scope = name_argument(fcinfo, 0, "scope");
	text	   *intent_id = name_argument(fcinfo, 1, "intent_id");

	report->evidence = PG_ARGISNULL(evidence) ? NULL : document_argument(fcinfo, evidence, "evidence");
	report->code = evidence_code(report->evidence);
	report->provider_ref = optional_name(fcinfo, provider_ref, "provider_ref");
	ledger_enter(visit, LEDGER_DECIDES);
	identity_init(&report->identity, visit->caller, report->actor);
	access_require(&report->identity, scope, capability);
	load_intent(report, scope, intent_id);
}

/*
 * What an attempt's answer is worth.
 */
static void
judge_outcome(Report *report)
{
	const Intent *intent = &report->intent;
	int64		last = Max(intent->open ? intent->work.attempt : intent->last_attempt,
						   attempts_before(intent->request.action));

	if (report->attempt < 1 || report->attempt > last)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("intent \"%s\" has no attempt %lld",
						text_to_cstring(intent->request.intent_id), (long long) report->attempt),
				 errhint("Pass the attempt that extaction.claimed showed."),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "attempt")));
	if (said_before(report, intent->open && strcmp(intent->work.state, "uncertain") == 0))
		finish(report, "replayed");
	else if (report->attempt < last)
		keep_late(report);
	else if (intent->open && strcmp(intent->work.state, "prepared") != 0 &&
			 strcmp(intent->work.state, "blocked") != 0)
		judge_current(report);
	else if (!intent->open && intent->outcome != NULL && strcmp(intent->outcome, "uncertain") == 0)
		judge_current(report);
	else
		keep_late(report);
}

/*
 * The last attempt's answer, while nothing has settled it; also after its
 * lease, and also if the search was given up.
 */
static void
judge_current(Report *report)
{
	Work	   *work = &report->intent.work;

	work->answered_at = report->now;
	/* what stops every resend is not undone by another answer of the same attempt */
	if (!contract_code_stops(work->last_code))
		work->last_code = report->code;
	if (strcmp(report->outcome, "happened") == 0)
	{
		if (shows_effect(report))
			settle_happened(report);
		else
			stay_uncertain(report, "not_proven", "evidence or a provider_ref: who says that it happened?");
	}
	else if (strcmp(report->outcome, "not_happened") == 0)
	{
		if (work->late_found)
			stay_uncertain(report, "not_proven", "a look or a human: an older attempt has said that it happened");
		else if (work->earlier_open)
			stay_uncertain(report, "not_proven", "a look or a human: an earlier attempt may still act");
		else if (!proves_not_happened(report))
			stay_uncertain(report, "not_proven", "a code that proves it: never_sent, or one in the contract's proves_not_happened");
		else
			settle_not_happened(report, will_retry(report),
								report->now + (report->retry_given ? report->retry_after_us
											   : contract_microseconds(&report->intent.retry_delay)));
	}
	else
		stay_uncertain(report, "recorded", NULL);
}

/*
 * Has exactly this been recorded of this attempt before, as the outcome, too
 * late, or else, if that counts, as not proved?
 */
static bool
said_before(const Report *report, bool uncertain)
{
	static KeptQuery query = {
		"SELECT FROM extaction.events e"
		" WHERE e.scope = $1 AND e.intent_id = $2 AND e.attempt = $4"
		"   AND e.kind IN ('happened', 'not_happened', 'uncertain', 'late_evidence')"
		"   AND e.kind IN ($5, 'late_evidence', $3) AND e.detail ->> 'outcome' = $5"
		"   AND ((e.detail -> 'evidence') IS NOT DISTINCT FROM $6"
		/* of erased evidence only the code is left to compare */
		"        OR ($8 AND (e.detail ? 'evidence') = ($6 IS NOT NULL)"
		"            AND (e.detail #> '{evidence,code}') IS NOT DISTINCT FROM ($6 -> 'code')))"
		"   AND (e.detail ->> 'provider_ref') IS NOT DISTINCT FROM $7",
		false, 8, {TEXTOID, TEXTOID, TEXTOID, INT8OID, TEXTOID, JSONBOID, TEXTOID, BOOLOID}, NULL
	};
	QueryArgs	args = {0};

	arg_text(&args, report->intent.request.scope);
	arg_text(&args, report->intent.request.intent_id);
	arg_cstring(&args, uncertain ? "uncertain" : report->outcome);
	arg_int8(&args, report->attempt);
	arg_cstring(&args, report->outcome);
	arg_jsonb(&args, report->evidence);
	arg_text(&args, report->provider_ref);
	arg_bool(&args, report->intent.redacted);
	return query_run(&query, &args) > 0;
}

/*
 * It happened, for ever: nothing is left to do.
 */
static void
settle_happened(Report *report)
{
	Intent	   *intent = &report->intent;

	append(report, "happened");
	ledger_close_work(intent);
	/* that is all there is to know of it now: no need to load it again */
	intent->open = false;
	intent->outcome = "happened";
	intent->provider_ref = report->provider_ref;
	answer(report, "recorded");
}

/*
 * It did not happen.  It is prepared again, under the same key, if it may be
 * retried; else it is closed.
 */
static void
settle_not_happened(Report *report, bool may_retry, TimestampTz due_at)
{
	Work	   *work = &report->intent.work;

	may_retry = may_retry && !report->intent.redacted;
	report->receipt.due_at = may_retry ? due_at : NO_TIME;
	append(report, "not_happened");
	if (may_retry)
	{
		work_set_state(work, "prepared", due_at);
		work->earlier_open = false;
		work->lookups = 0;
		work->look_began_at = NO_TIME;
		ledger_put_work(&report->intent);
	}
	else
		ledger_close_work(&report->intent);
	finish(report, "recorded");
}

/*
 * Nothing is proved.  When to go on is for the contract to say.
 */
static void
stay_uncertain(Report *report, const char *status, const char *needs)
{
	Work	   *work = &report->intent.work;
	NextStep	next;

	work_set_state(work, "uncertain", report->now);
	if (report->intent.open)
	{
		next = intent_next_step(&report->intent, report->now);
		if (next.due_at != NO_TIME)
			work->due_at = Max(next.due_at, report->now);
		if (strcmp(next.step, "look") == 0)
			work->due_at = Max(work->due_at, report->look_after);
		report->receipt.due_at = work->due_at;
		ledger_put_work(&report->intent);
	}
	/* what was given up stays off the list */
	append(report, !report->intent.open ? "late_evidence" : report->looked ? "looked" : "uncertain");
	report->receipt.needs = needs;
	finish(report, status);
}

/*
 * An answer that comes too late to settle anything is kept as evidence.
 */
static void
keep_late(Report *report)
{
	Intent	   *intent = &report->intent;

	append(report, "late_evidence");
	if (intent->open && intent->work.attempt < report->attempt)
	{
		/* of a database that a restore has lost: we never counted so far */
		intent->work.attempt = report->attempt;
		ledger_put_work(intent);
	}
	if (strcmp(report->outcome, "happened") == 0)
		stop_everything(report);
	else if (contract_code_stops(report->code))
		stop_resends(report);
	report->receipt.needs = "nothing of this worker: another attempt, or a decision, has gone past it";
	finish(report, "late");
}

/*
 * A late happened: no claim, no resend, no not_happened any more; only a look
 * or a human can close the intent.  What is out with a worker stays out.
 */
static void
stop_everything(Report *report)
{
	Intent	   *intent = &report->intent;
	Work	   *work = &intent->work;

	if (intent_happened(intent))
		return;
	work->late_found = true;
	if (!intent->open)
	{
		/* closed as not_happened or given up: it is on the list again */
		work->attempt = Max(intent->last_attempt, report->attempt);
		work->tries = intent->past_tries;
		work->first_sent_at = intent->first_sent_at;
		work->quiet_from = intent->quiet_from;
		work->look_began_at = work->answered_at = NO_TIME;
		intent->open = true;
	}
	if (work->state == NULL || strcmp(work->state, "sending") != 0)
	{
		work_set_state(work, "uncertain", report->now);
		ledger_put_work(intent);
		report->receipt.receipt_id = 0;
		append(report, "uncertain");
	}
	else
		ledger_put_work(intent);
}

/*
 * A late answer about the key itself: the provider knows it with another
 * content, or keeps a failure under it.  That is as true of every later
 * attempt, so it counts as the last answer (condition 6 of a resend).
 */
static void
stop_resends(Report *report)
{
	Intent	   *intent = &report->intent;

	if (!intent->open || (strcmp(intent->work.state, "sending") != 0 &&
						  strcmp(intent->work.state, "uncertain") != 0) ||
		contract_code_stops(intent->work.last_code))
		return;
	intent->work.last_code = report->code;
	ledger_put_work(intent);
}

/*
 * Does anything say that it happened?  Not a code of ours that means that we
 * do not know, or that it was never sent.
 */
static bool
shows_effect(const Report *report)
{
	if (report->code != NULL && contract_code_is_own(report->code) &&
		strcmp(report->code, "exists") != 0)
		return false;
	return report->provider_ref != NULL ||
		(report->evidence != NULL &&
		 !(JB_ROOT_IS_OBJECT(report->evidence) && JB_ROOT_COUNT(report->evidence) == 0));
}

static bool
proves_not_happened(const Report *report)
{
	Contract   *contracts;
	int			ncontracts;

	if (report->code == NULL)
		return false;
	if (strcmp(report->code, "never_sent") == 0)
		return true;
	ncontracts = intent_contracts(&report->intent, &contracts);
	return contract_proves_not_happened(contracts, ncontracts, report->code);
}

/*
 * A refusal is tried again only if the worker says after what time; what
 * never left goes again by itself.  As long as attempts and approval last.
 */
static bool
will_retry(const Report *report)
{
	const Intent *intent = &report->intent;

	if (!report->retry_given && (report->code == NULL || strcmp(report->code, "never_sent") != 0))
		return false;
	if (!intent->open || intent->work.tries >= intent->max_attempts)
		return false;
	return gates_last(intent);
}

/*
 * Does the approval last?  A switch only stops claim.
 */
static bool
gates_last(const Intent *intent)
{
	Facts		facts;
	Gate		gate = intent_gates(intent, &facts).gate;

	return gate == GATE_COUNT || gate == GATE_ACTION_DISABLED;
}

/*
 * What a look-up or a human found.  Found is taken at any time.
 */
static void
judge_finding(Report *report, const char *finding)
{
	report->outcome = strcmp(finding, "found") == 0 ? "happened" :
		strcmp(finding, "absent") == 0 ? "not_happened" : "uncertain";
	report->attempt = report->intent.open ? report->intent.work.attempt : report->intent.last_attempt;
	if (!can_be_looked_up(report))
		return;
	if (strcmp(finding, "found") == 0)
	{
		if (report->human || shows_effect(report))
			settle_happened(report);
		else
			stay_uncertain(report, "not_proven", "evidence or a provider_ref: what was found?");
	}
	else if (strcmp(finding, "absent") == 0)
		judge_absent(report);
	else
		judge_unknown(report);
}

/*
 * Only what went out and is not settled can be found or missed.
 */
static bool
can_be_looked_up(const Report *report)
{
	const Intent *intent = &report->intent;
	const char *state = intent_state(intent, report->now);
	Report	   *answer = (Report *) report;

	if (strcmp(state, "uncertain") == 0)
		return true;
	if (strcmp(report->outcome, state) == 0)
		finish(answer, "replayed");
	else if (strcmp(report->outcome, "happened") == 0 && intent->bound &&
			 (intent->open ? intent->work.attempt : intent->last_attempt) > 0 &&
			 strcmp(state, "happened") != 0)
		return true;			/* found beats absent */
	else
	{
		answer->receipt.needs = psprintf("an uncertain intent: this one is %s", state);
		finish(answer, "not_proven");
	}
	return false;
}

/*
 * Absence counts from when the look began, and only after the quiet period:
 * before it, what was sent may still be on its way.
 */
static void
judge_absent(Report *report)
{
	Work	   *work = &report->intent.work;
	Contract   *contracts;
	int			ncontracts = intent_contracts(&report->intent, &contracts);
	TimestampTz began = report->looked_at;
	TimestampTz quiet;

	if (!report->human && work->claim_id != 0 && work->claim_step != NULL &&
		strcmp(work->claim_step, "look") == 0 && work->lease_until > report->now)
		began = work->look_began_at;
	if (began == NO_TIME)
		stay_uncertain(report, "not_proven", "looked_at: when the look began");
	else if (began > report->now)
		stay_uncertain(report, "not_proven", "a looked_at that is not in the future");
	else if (work->late_found)
		not_absent(report, began, "found, with that evidence: an older attempt has said that it happened");
	else if (!report->human && !contract_absence_is_proof(contracts, ncontracts))
		not_absent(report, began, "a human (decide): the contract does not take absence as proof");
	else if (!contract_absent_after(contracts, ncontracts,
									work->quiet_from == NO_TIME ? report->intent.quiet_from : work->quiet_from,
									&quiet))
		not_absent(report, began, "abandon, or another contract: nothing bounds how late a request may arrive");
	else if (began <= quiet)
	{
		/* too early: the next look is worth while when it is quiet */
		report->look_after = quiet + 1;
		stay_uncertain(report, "not_proven", psprintf("a look that begins after %s", timestamptz_to_str(quiet)));
	}
	else
		settle_not_happened(report, report->intent.open && work->tries < report->intent.max_attempts &&
							gates_last(&report->intent), report->now);
}

/*
 * Absent, but that proves nothing.  Of a program's look it is one look more,
 * and the cadence says when the next is due, so that it does not go on for
 * ever.
 */
static void
not_absent(Report *report, TimestampTz began, const char *needs)
{
	Work	   *work = &report->intent.work;

	if (!report->human && report->intent.open)
	{
		work->lookups++;
		work->look_began_at = began;
		report->looked = true;
	}
	stay_uncertain(report, "not_proven", needs);
}

/*
 * The look told nothing; the cadence says when to look again.
 */
static void
judge_unknown(Report *report)
{
	Work	   *work = &report->intent.work;
	NextStep	next;

	if (!report->intent.open)
	{
		report->receipt.needs = "nothing: the intent was given up";
		finish(report, "replayed");
		return;
	}
	work->lookups++;
	if (work->look_began_at == NO_TIME || report->looked_at != NO_TIME)
		work->look_began_at = report->looked_at == NO_TIME ? report->now : report->looked_at;
	work_set_state(work, "uncertain", report->now);
	next = intent_next_step(&report->intent, report->now);
	if (next.due_at != NO_TIME)
		work->due_at = Max(next.due_at, report->now);
	report->receipt.due_at = work->due_at;
	ledger_put_work(&report->intent);
	append(report, "looked");
	finish(report, "recorded");
}

/*
 * Appends an event of this report.
 */
static void
append(Report *report, const char *kind)
{
	Receipt    *receipt = &report->receipt;
	Jsonb	   *detail = detail_evidence(report->evidence, report->provider_ref,
										 "outcome", report->outcome);

	if (report->human)
	{
		Receipt		decided = NO_RECEIPT;

		decided.attempt = report->attempt;
		decided.detail = detail_words("finding", strcmp(report->outcome, "happened") == 0 ? "found" : "absent",
									  "reason", report->reason, NULL);
		ledger_append(&decided, "decided", &report->intent.request, &report->identity);
	}
	receipt->attempt = report->attempt;
	receipt->detail = detail;
	ledger_append(receipt, kind, &report->intent.request, &report->identity);
}

/*
 * The answer: where the intent stands after it.
 */
static void
finish(Report *report, const char *status)
{
	Intent	   *intent = &report->intent;

	(void) intent_load(intent, intent->request.scope, intent->request.intent_id, false);
	answer(report, status);
}

static void
answer(Report *report, const char *status)
{
	Intent	   *intent = &report->intent;
	const char *needs = report->receipt.needs;

	intent_receipt(&report->receipt, intent, status);
	if (needs != NULL)
		report->receipt.needs = needs;
	report->receipt.attempt = report->attempt;
	if (strcmp(status, "replayed") != 0)
		return;
	report->receipt.receipt_id = 0;
	if (report->locked)
		ledger_unlock_subject(intent->request.scope, "intent", intent->request.intent_id);
}

/*
 * The reserved member "code" of the evidence: a word or a number.
 */
static const char *
evidence_code(const Jsonb *evidence)
{
	JsonbValue	value;

	if (evidence == NULL || !JB_ROOT_IS_OBJECT(evidence) ||
		getKeyJsonValueFromContainer((JsonbContainer *) &evidence->root, "code", 4, &value) == NULL)
		return NULL;
	if (value.type == jbvString)
		return pnstrdup(value.val.string.val, value.val.string.len);
	if (value.type == jbvNumeric)
		return DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(value.val.numeric)));
	return NULL;
}

/*
 * The intent, its worklist row locked.  It must be bound.  What has happened
 * never changes, and so needs no lock: a log that is read a second time must
 * not fill the server's lock table.
 */
static void
load_intent(Report *report, text *scope, text *intent_id)
{
	(void) intent_lock(&report->intent, scope, intent_id);
	if (report->intent.bound && !report->intent.open && !intent_happened(&report->intent))
	{
		/* no row to hold: what is off the list is held by the subject's lock */
		ledger_lock_subject(scope, "intent", intent_id, true);
		report->locked = true;
		(void) intent_lock(&report->intent, scope, intent_id);
	}
	report->now = GetCurrentTimestamp();
	if (!report->intent.bound)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("intent \"%s\" is not bound in scope \"%s\"",
						text_to_cstring(intent_id), text_to_cstring(scope)),
				 errhint("Only what was submitted and approved can have an outcome."),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "intent_id")));
	if (!report->intent.open)
		intent_past(&report->intent);
}

static const char *
word_argument(FunctionCallInfo fcinfo, int arg, const char *what, const char *words)
{
	char	   *word = text_to_cstring(name_argument(fcinfo, arg, what));
	const char *found = strstr(words, word);
	size_t		len = strlen(word);

	while (found != NULL && !((found == words || found[-1] == ' ') &&
							  (found[len] == '\0' || found[len] == ',')))
		found = strstr(found + 1, word);
	if (found == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unknown %s \"%s\"", what, word),
				 errhint("It is one of: %s.", words),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, what)));
	return word;
}

static Datum
report_datum(FunctionCallInfo fcinfo, Report *report, LedgerVisit *visit)
{
	Datum		datum = receipt_datum(fcinfo, &report->receipt);

	ledger_leave(visit);
	return datum;
}
