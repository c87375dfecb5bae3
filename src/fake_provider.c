/*-------------------------------------------------------------------------
 *
 * fake_provider.c
 *	  The provider inside: a whole trip to somebody else's system, in one
 *	  transaction of our own database.
 *
 * submit_fake_task crosses the gates at every call, replays and conflicts
 * too; only then does a request reach the provider.  The provider keeps books
 * of its own, in which requests, executions and tasks are counted apart, so
 * that "2 requests, 1 execution, 1 task" is a measurement and not a claim.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "extaction.h"
#include "utils/builtins.h"

/* One call of submit_fake_task. */
typedef struct Trip
{
	Request		request;
	TaskRequest task;
	Identity	identity;
	Facts		facts;
	Verdict		verdict;
	text	   *approval_id;	/* as the caller named it */
	Receipt		receipt;
} Trip;

static void cross(Trip *trip);
static void refuse(Trip *trip);
static void create(Trip *trip);
static void answer_bound(Trip *trip);
static text *provider_receive(const Request *request, const TaskRequest *task,
							  const pg_uuid_t *key, const char *answer);

PG_FUNCTION_INFO_V1(extaction_submit_fake_task);

/*
 * submit_fake_task(scope, request, approval_id, actor) returns receipt
 */
Datum
extaction_submit_fake_task(PG_FUNCTION_ARGS)
{
	text	   *scope = name_argument(fcinfo, 0, "scope");
	text	   *actor = optional_name(fcinfo, 3, "actor");
	Jsonb	   *document;
	LedgerVisit visit;
	Trip		trip;

	memset(&trip, 0, sizeof(trip));
	trip.receipt = NO_RECEIPT;
	trip.approval_id = optional_name(fcinfo, 2, "approval_id");
	document = document_argument(fcinfo, 1, "request");
	task_request_read(&trip.task, document);
	task_request_as_request(&trip.request, &trip.task, scope, document);

	ledger_enter(&visit, LEDGER_WRITES);
	identity_init(&trip.identity, visit.caller, actor);
	cross(&trip);
	ledger_leave(&visit);
	return receipt_datum(fcinfo, &trip.receipt);
}

/*
 * Gates, then the provider.
 */
static void
cross(Trip *trip)
{
	Receipt    *receipt = &trip->receipt;

	/*
	 * One caller of an intent at a time: whoever waited judges what is true
	 * after the wait, and a revocation waits until what it would have stopped
	 * is committed.
	 */
	if (!submission_lock(&trip->request, &trip->identity))
	{
		scope_denied_receipt(&trip->receipt, &trip->request);
		return;
	}
	facts_load(&trip->facts, &trip->request, FAKE_TASK_ACTION,
			   &trip->identity, trip->approval_id);
	if (!trip->facts.may_submit)
	{
		ledger_unlock_subject(trip->request.scope, "intent", trip->request.intent_id);
		scope_denied_receipt(&trip->receipt, &trip->request);
		return;
	}
	identity_settle(&trip->identity, trip->facts.vouching);
	trip->verdict = gate_check(&trip->facts, &trip->request, &trip->identity,
							   trip->approval_id);

	receipt->scope = trip->request.scope;
	receipt->intent_id = trip->request.intent_id;
	receipt->request_digest = trip->request.digest;
	receipt->recorded_at = GetCurrentTimestamp();
	receipt->approval_id = trip->verdict.approval
		? trip->verdict.approval->approval_id : trip->approval_id;

	if (trip->verdict.gate != GATE_COUNT)
		refuse(trip);
	else if (trip->facts.bound)
		answer_bound(trip);
	else
		create(trip);
}

/*
 * A gate stops it: nothing reaches the provider.
 */
static void
refuse(Trip *trip)
{
	Receipt    *receipt = &trip->receipt;
	Gate		gate = trip->verdict.gate;
	Order		order = NO_ORDER;

	receipt->status = "blocked";
	receipt->gate = gate_name(gate);
	receipt->needs = gate_needs(gate);
	receipt->next_step = gate_next_step(gate);
	receipt->state = trip->facts.bound ? "happened" : "awaiting_approval";
	receipt->detail = detail_words("gate", receipt->gate, "needs", receipt->needs,
								   "requester", text_to_cstring(trip->identity.name), NULL);
	ledger_keep_request(&trip->request, &trip->identity);
	ledger_append(receipt, "blocked", &trip->request, &trip->identity);
	ledger_wait(&trip->request, gate, &trip->identity, &order);
}

/*
 * The first of its intent: bound, executed, recorded; or else another
 * session was first, and we answer like any later call.
 */
static void
create(Trip *trip)
{
	Receipt    *receipt = &trip->receipt;

	Order		order = NO_ORDER;

	idempotency_key(&trip->facts.ledger_id, trip->request.scope,
					trip->request.intent_id, &trip->facts.idempotency_key);
	if (!ledger_bind(&trip->request, &trip->facts,
					 trip->verdict.approval->approval_id, &trip->identity,
					 &order, false, receipt))
	{
		facts_load(&trip->facts, &trip->request, FAKE_TASK_ACTION,
				   &trip->identity, trip->approval_id);
		answer_bound(trip);
		return;
	}
	approval_must_hold(trip->verdict.approval);

	receipt->status = "created";
	receipt->state = "happened";
	receipt->next_step = "done";
	receipt->attempt = 1;
	receipt->idempotency_key = &trip->facts.idempotency_key;
	receipt->bound_digest = trip->request.digest;
	receipt->provider_ref = provider_receive(&trip->request, &trip->task,
												  receipt->idempotency_key, "created");
	receipt->detail = detail_evidence(NULL, receipt->provider_ref, NULL, NULL);
	ledger_append(receipt, "happened", &trip->request, &trip->identity);
	if (trip->facts.waits)
		(void) ledger_stop_waiting(trip->request.scope, "intent", trip->request.intent_id, NULL);
}

/*
 * The intent is bound.  The same content is a replay, other content is a
 * conflict, whose caller learns nothing of the first.
 */
static void
answer_bound(Trip *trip)
{
	Receipt    *receipt = &trip->receipt;
	const Facts *facts = &trip->facts;
	bool		same = memcmp(facts->bound_digest, trip->request.digest, DIGEST_LENGTH) == 0;

	receipt->status = same ? "replayed" : "conflict";
	receipt->state = "happened";
	receipt->next_step = same ? "done" : "human";
	receipt->bound_digest = facts->bound_digest;
	(void) provider_receive(&trip->request, &trip->task,
								 &facts->idempotency_key, receipt->status);
	if (same)
	{
		receipt->attempt = 1;
		receipt->idempotency_key = &facts->idempotency_key;
		receipt->provider_ref = facts->provider_ref;
		receipt->detail = detail_evidence(NULL, facts->provider_ref, NULL, NULL);
	}
	else
		receipt->needs = "another intent_id: this one is bound to another content for ever";
	if (!same || extaction_log_replays || facts->waits)
		ledger_append(receipt, receipt->status, &trip->request, &trip->identity);
	/* a conflict is an answer too, but to nothing else that waits */
	if (facts->waits)
		(void) ledger_stop_waiting(trip->request.scope, "intent", trip->request.intent_id,
								   same ? NULL : trip->request.digest);
}

/*
 * The provider's side of the door: every request is entered in its books; one
 * that is new is executed, and its task comes to be.  Returns the task's id,
 * NULL if nothing was executed.
 */
static text *
provider_receive(const Request *request, const TaskRequest *task,
				 const pg_uuid_t *key, const char *answer)
{
	static KeptQuery query = {
		"WITH arrived AS ("
		" INSERT INTO extaction.fake_task_requests (scope, intent_id, request_digest, answer)"
		" VALUES ($1, $2, $3, $4) RETURNING answer),"
		" numbered AS (SELECT nextval('extaction.fake_task_seq')::text AS n"
		"              FROM arrived WHERE answer = 'created'),"
		" executed AS ("
		" INSERT INTO extaction.fake_task_executions (scope, intent_id, idempotency_key, task_id)"
		" SELECT $1, $2, $5, 'fake-task-' || lpad(n, greatest(4, length(n)), '0')"
		" FROM numbered RETURNING task_id)"
		" INSERT INTO extaction.fake_tasks (scope, task_id, intent_id, title, assignee_person_ref, due_at)"
		" SELECT $1, task_id, $2, $6, $7, $8 FROM executed RETURNING task_id",
		false, 8, {TEXTOID, TEXTOID, BYTEAOID, TEXTOID, UUIDOID, TEXTOID, TEXTOID, TEXTOID}, NULL
	};
	QueryArgs	args = {0};

	arg_text(&args, request->scope);
	arg_text(&args, request->intent_id);
	arg_digest(&args, request->digest);
	arg_cstring(&args, answer);
	arg_uuid(&args, key);
	arg_text(&args, task->title);
	arg_text(&args, task->assignee_person_ref);
	arg_text(&args, task->due_at);
	return query_run(&query, &args) == 1 ? got_text(0, 1) : NULL;
}
