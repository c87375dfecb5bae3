/*-------------------------------------------------------------------------
 *
 * submit.c
 *	  Asking for one external action.
 *
 * An intent that is bound is looked for before anything else: the same
 * content is a replay, which sends nothing and so needs no approval, and
 * other content is a conflict, whatever state, approval or end the first one
 * has.  Only a new intent passes the gates.
 *
 * What a gate stops begins to wait under the exclusive lock of its subject,
 * and only after one more look: an approval that was given in between must
 * not be missed, since it is the approval that lets the request go on.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "extaction.h"
#include "utils/builtins.h"

static bool answer_at_once(Submission *submission);
static void answer_bound(Submission *submission);
static bool create(Submission *submission);
static bool inherit_order(Submission *submission);
static const char *needs_of(const Submission *submission);
static const char *conflict_needs(const Intent *intent, const Request *asked);

PG_FUNCTION_INFO_V1(extaction_submit);

/*
 * submit(scope, intent_id, action, destination, payload, approval_id,
 * candidate_id, not_before, actor) returns receipt
 */
Datum
extaction_submit(PG_FUNCTION_ARGS)
{
	Request		request = {0};
	CandidateRef candidate;
	Order		order = NO_ORDER;
	Receipt		receipt = NO_RECEIPT;
	text	   *approval_id = optional_name(fcinfo, 5, "approval_id");
	text	   *candidate_id = optional_name(fcinfo, 6, "candidate_id");
	text	   *actor = optional_name(fcinfo, 8, "actor");
	Jsonb	   *payload = PG_ARGISNULL(4) ? NULL : document_argument(fcinfo, 4, "payload");
	LedgerVisit visit;
	Identity	identity;

	request_names(&request, fcinfo, 0);
	if (!PG_ARGISNULL(7))
		order.not_before = PG_GETARG_TIMESTAMPTZ(7);

	ledger_enter(&visit, LEDGER_WRITES);
	identity_init(&identity, visit.caller, actor);
	/* a candidate may be looked up only by who may look at all */
	if (candidate_id != NULL && !access_allows(&identity, request.scope, "submitter"))
		scope_denied_receipt(&receipt, &request);
	else
	{
		request_complete(&request, &candidate, candidate_id, payload);
		submit_request(&request, &identity, approval_id, &order, &receipt);
	}
	ledger_leave(&visit);
	PG_RETURN_DATUM(receipt_datum(fcinfo, &receipt));
}

/*
 * The names that a request begins with: scope, intent_id, action, destination.
 */
void
request_names(Request *request, FunctionCallInfo fcinfo, int first)
{
	request->scope = name_argument(fcinfo, first, "scope");
	request->intent_id = name_argument(fcinfo, first + 1, "intent_id");
	request->action = name_argument(fcinfo, first + 2, "action");
	request->destination = name_argument(fcinfo, first + 3, "destination");
}

/*
 * Candidate, payload and digest.  Without a payload of its own, a request's
 * payload is the candidate's content.
 */
void
request_complete(Request *request, CandidateRef *candidate,
				 text *candidate_id, Jsonb *payload)
{
	CanonicalFault fault;
	Jsonb	   *content = NULL;

	if (candidate_id != NULL)
	{
		candidate_load(candidate, &content, request->scope, candidate_id);
		request->candidate = candidate;
	}
	request->payload = payload ? payload : content;
	if (request->payload == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("payload must not be null"),
				 errhint("Pass a payload, or a candidate_id whose content is the payload."),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "payload")));
	if (!JB_ROOT_IS_OBJECT(request->payload))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("payload is not an object"),
				 errdetail("A payload is a JSON object; this one is something else."),
				 errhint("Wrap it, for instance as {\"items\": [...]}."),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "payload")));
	if (digest_request(request, &fault) != CANONICAL_OK)
		document_fault(&fault, "request");
}

/*
 * What a stranger to the scope gets: nothing is written, nothing is told.
 */
void
scope_denied_receipt(Receipt *receipt, const Request *request)
{
	receipt->status = "blocked";
	receipt->gate = gate_name(GATE_SCOPE_DENIED);
	receipt->needs = gate_needs(GATE_SCOPE_DENIED);
	receipt->next_step = gate_next_step(GATE_SCOPE_DENIED);
	receipt->scope = request->scope;
	receipt->intent_id = request->intent_id;
	receipt->recorded_at = GetCurrentTimestamp();
}

/*
 * Takes the exclusive lock of an intent for a caller of whom we do not know
 * yet whether the scope is any business of theirs: who has to wait for it is
 * asked first.  False if it is not.
 */
bool
submission_lock(const Request *request, Identity *identity)
{
	if (!ledger_try_lock_subject(request->scope, "intent", request->intent_id, true))
	{
		if (!access_allows(identity, request->scope, "submitter"))
			return false;
		ledger_lock_subject(request->scope, "intent", request->intent_id, true);
	}
	return true;
}

/*
 * Submits a request in the caller's name.
 */
void
submit_request(Request *request, Identity *identity, text *approval_id,
			   const Order *order, Receipt *receipt)
{
	Submission	submission = {
		.request = request, .identity = identity, .approval_id = approval_id,
		.order = order, .receipt = receipt
	};

	if (!access_expected(identity, request->scope))
	{
		scope_denied_receipt(receipt, request);
		return;
	}
	if (answer_at_once(&submission))
		return;
	ledger_lock_subject(request->scope, "intent", request->intent_id, true);
	if (!answer_at_once(&submission))
		submission_wait(&submission);
}

/*
 * Looks once, and answers if the intent is bound or every gate passes.
 */
static bool
answer_at_once(Submission *submission)
{
	submission_look(submission);
	if (submission->verdict.gate == GATE_SCOPE_DENIED)
	{
		scope_denied_receipt(submission->receipt, submission->request);
		return true;
	}
	if (submission->facts.bound)
	{
		answer_bound(submission);
		return true;
	}
	return submission->verdict.gate == GATE_COUNT && create(submission);
}

/*
 * What the ledger and its gates say now.
 */
void
submission_look(Submission *submission)
{
	Request    *request = submission->request;

	facts_load(&submission->facts, request, text_to_cstring(request->action),
			   submission->identity, submission->approval_id,
			   request->whole_batch ? NULL : &submission->intent);
	if (submission->facts.may_submit)
		identity_settle(submission->identity, submission->facts.vouching);
	submission->verdict = gate_check(&submission->facts, request, submission->identity,
									 submission->approval_id);
}

/*
 * A replay or a conflict.  A conflict shows nothing of the first but that it
 * is there.
 */
static void
answer_bound(Submission *submission)
{
	Request    *request = submission->request;
	Receipt    *receipt = submission->receipt;
	bool		same = memcmp(submission->facts.bound_digest, request->digest, DIGEST_LENGTH) == 0;
	bool		tell = !same || extaction_log_replays;
	Intent	   *intent = &submission->intent;

	if (IsolationUsesXactSnapshot())	/* what its caller sees is of an older moment */
		intent_load(intent, request->scope, request->intent_id, false);
	if (!XactReadOnly)
		tell = ledger_stop_waiting_bound(intent, request, same) || tell;
	intent_receipt(receipt, intent, same ? "replayed" : "conflict");
	receipt->request_digest = request->digest;
	if (!same)
	{
		receipt->idempotency_key = NULL;
		receipt->provider_ref = NULL;
		receipt->approval_id = NULL;
		receipt->batch_id = NULL;
		receipt->gate = NULL;
		receipt->next_step = "human";
		receipt->needs = conflict_needs(intent, request);
	}
	if (tell && !XactReadOnly)
	{
		int64		attempt = receipt->attempt;

		receipt->attempt = 0;
		ledger_append(receipt, receipt->status, request, submission->identity);
		receipt->attempt = attempt;
	}
	else
		receipt->receipt_id = 0;
}

/*
 * In which members the contents differ; of the first one's content no more
 * is shown.
 */
static const char *
conflict_needs(const Intent *intent, const Request *asked)
{
	const Request *bound = &intent->request;
	const char *paths;

	if (intent->redacted)
		return "another intent_id: this one is bound to another content for ever, which has been erased";
	paths = differing_paths(bound->payload, asked->payload);
	return psprintf("another intent_id: this one is bound to another content for ever; it differs in %s",
					!text_equal(bound->action, asked->action) ? "action" :
					!text_equal(bound->destination, asked->destination) ? "destination" :
					paths[0] != '\0' ? paths : "candidate");
}

/*
 * Binds the intent.  False if another session was first: then the caller
 * looks again.
 */
static bool
create(Submission *submission)
{
	Request    *request = submission->request;
	Receipt    *receipt = submission->receipt;
	const Approval *approval = submission->verdict.approval;

	(void) inherit_order(submission);
	idempotency_key(&submission->facts.ledger_id, request->scope, request->intent_id,
					&submission->facts.idempotency_key);
	if (!ledger_bind(request, &submission->facts, approval->approval_id,
					 submission->identity, submission->order, receipt))
	{
		submission_look(submission);
		answer_bound(submission);
		return true;
	}
	approval_must_hold(approval);
	if (submission->order->compensates != NULL)
		ledger_compensated(request, submission->order->compensates, submission->identity);
	receipt->status = "created";
	receipt->next_step = strcmp(receipt->state, "uncertain") == 0 ? "look" : "send";
	receipt->scope = request->scope;
	receipt->intent_id = request->intent_id;
	/* the submission is gone when the receipt is read */
	receipt->idempotency_key = memcpy(palloc(sizeof(pg_uuid_t)), &submission->facts.idempotency_key,
									  sizeof(pg_uuid_t));
	receipt->approval_id = approval->approval_id;
	receipt->request_digest = receipt->bound_digest = request->digest;
	if (submission->facts.waits)
		(void) ledger_stop_waiting(request->scope, "intent", request->intent_id, NULL);
	return true;
}

/*
 * What waits under the same digest as an undo stays one, and goes out no
 * earlier than it may, however it is asked for again.  True if only this call
 * says that it is one.
 */
static bool
inherit_order(Submission *submission)
{
	const Facts *facts = &submission->facts;
	const Request *request = submission->request;
	Order	   *order;
	Request		kept;
	CandidateRef candidate;
	Identity	requester;

	if (request->whole_batch || !facts->waits ||
		memcmp(facts->waiting_digest, request->digest, DIGEST_LENGTH) != 0)
		return false;
	order = palloc(sizeof(Order));
	if (!request_load(&kept, &candidate, &requester, order, request->scope, request->digest))
		return false;
	if (order->compensates == NULL)
		return submission->order->compensates != NULL;
	order->batch_id = submission->order->batch_id;
	order->not_before = Max(order->not_before, submission->order->not_before);
	submission->order = order;
	return false;
}

/*
 * We may have waited long for another session that then rolled back.
 */
void
approval_must_hold(const Approval *approval)
{
	if (GetCurrentTimestamp() >= approval->expires_at)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("the approval ended while another session held the intent"),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, gate_name(GATE_APPROVAL_EXPIRED))));
}

/*
 * A gate says no: nothing is bound, the request waits.  The same content
 * again appends nothing; another content takes the place of the first, and
 * its caller is told so.  What an approver has rejected does not wait again.
 */
void
submission_wait(Submission *submission)
{
	Request    *request = submission->request;
	Receipt    *receipt = submission->receipt;
	const Facts *facts = &submission->facts;
	Gate		gate = submission->verdict.gate;
	bool		same = facts->waits &&
		memcmp(facts->waiting_digest, request->digest, DIGEST_LENGTH) == 0;
	bool		undoes = inherit_order(submission);

	receipt->status = "blocked";
	receipt->state = gate == GATE_REJECTED ? NULL : "awaiting_approval";
	receipt->next_step = gate_next_step(gate);
	receipt->gate = gate_name(gate);
	receipt->needs = needs_of(submission);
	receipt->scope = request->scope;
	receipt->intent_id = request->intent_id;
	receipt->request_digest = request->digest;
	receipt->recorded_at = GetCurrentTimestamp();
	receipt->approval_id = submission->verdict.approval
		? submission->verdict.approval->approval_id : submission->approval_id;
	if (same && !undoes && strcmp(facts->waiting_gate, receipt->gate) == 0)
		return;

	if (facts->waits && !same && gate != GATE_REJECTED)
		ledger_supersede(request, facts->waiting_digest, submission->identity);
	receipt->detail = detail_words("gate", receipt->gate, "needs", receipt->needs,
								   "requester", text_to_cstring(submission->identity->name),
								   "compensates", submission->order->compensates
								   ? text_to_cstring(submission->order->compensates) : NULL, NULL);
	receipt->due_at = submission->order->not_before;
	ledger_append(receipt, "blocked", request, submission->identity);
	if (gate == GATE_REJECTED)
		return;
	ledger_keep_request(request, submission->identity);
	ledger_wait(request, gate, submission->identity, submission->order);
}

static const char *
needs_of(const Submission *submission)
{
	const Facts *facts = &submission->facts;
	Gate		gate = submission->verdict.gate;

	if (gate == GATE_REJECTED)
		return psprintf("%s; it was rejected because: %s", gate_needs(gate),
						text_to_cstring(facts->rejected));
	if (facts->waits &&
		memcmp(facts->waiting_digest, submission->request->digest, DIGEST_LENGTH) != 0)
		return psprintf("%s; it takes the place of request %s, which was waiting",
						gate_needs(gate), text_to_cstring(digest_to_hex(facts->waiting_digest)));
	return gate_needs(gate);
}
