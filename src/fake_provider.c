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

#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "commands/sequence.h"
#include "extaction.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

/* One call of submit_fake_task. */
typedef struct Trip
{
	Request		request;
	TaskRequest task;
	Identity	identity;
	Facts		facts;
	Intent		intent;			/* as it is bound, if it is */
	Verdict		verdict;
	text	   *approval_id;	/* as the caller named it */
	Receipt		receipt;
} Trip;

static void cross(Trip *trip);
static void refuse(Trip *trip);
static void create(Trip *trip);
static void answer_bound(Trip *trip);
static text *next_task_id(void);
static void provider_receive(const Request *request, const TaskRequest *task,
							 const pg_uuid_t *key, const char *answer,
							 const text *task_id);

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
	if (!access_expected(&trip->identity, trip->request.scope) ||
		!submission_lock(&trip->request, &trip->identity))
	{
		scope_denied_receipt(&trip->receipt, &trip->request);
		return;
	}
	facts_load(&trip->facts, &trip->request, FAKE_TASK_ACTION,
			   &trip->identity, trip->approval_id, NULL);
	if (!trip->facts.may_submit)
	{
		ledger_unlock_subject(trip->request.scope, "intent", trip->request.intent_id);
		scope_denied_receipt(&trip->receipt, &trip->request);
		return;
	}
	identity_settle(&trip->identity, trip->facts.vouching);
	if (trip->facts.bound)
	{
		Order		order = NO_ORDER;

		(void) intent_load(&trip->intent, trip->request.scope, trip->request.intent_id, false);
		if (!may_wait_bound(&trip->intent))
		{
			/* submit() has bound it, and a worker carries it out: it is not ours to execute */
			submit_request(&trip->request, &trip->identity, trip->approval_id, &order, receipt);
			return;
		}
	}
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
	receipt->state = trip->facts.bound ? "happened" : gate == GATE_REJECTED ? NULL : "awaiting_approval";
	receipt->detail = detail_words("gate", receipt->gate, "needs", receipt->needs,
								   "requester", text_to_cstring(trip->identity.name), NULL);
	ledger_append(receipt, "blocked", &trip->request, &trip->identity);
	if (gate == GATE_REJECTED)
		return;
	ledger_keep_request(&trip->request, &trip->identity);
	ledger_wait(&trip->request, gate, &trip->identity, &order);
}

/*
 * The first of its intent: bound, executed, recorded.  We hold the intent's
 * lock, so nobody can be first in between, except in a transaction that looks
 * at an older snapshot; its caller gets a serialization failure.
 */
static void
create(Trip *trip)
{
	Receipt    *receipt = &trip->receipt;
	text	   *task_id = next_task_id();

	idempotency_key(&trip->facts.ledger_id, trip->request.scope,
					trip->request.intent_id, &trip->facts.idempotency_key);
	receipt->status = "created";
	receipt->state = "happened";
	receipt->next_step = "done";
	receipt->attempt = 1;
	receipt->idempotency_key = &trip->facts.idempotency_key;
	receipt->bound_digest = trip->request.digest;
	receipt->provider_ref = task_id;
	receipt->detail = detail_evidence(NULL, task_id, NULL, NULL);
	if (!ledger_bind_happened(&trip->request, &trip->facts,
							  trip->verdict.approval->approval_id, &trip->identity, receipt))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not serialize access due to a concurrent first call of the intent")));
	approval_must_hold(trip->verdict.approval);
	provider_receive(&trip->request, &trip->task, receipt->idempotency_key, "created", task_id);
	if (trip->facts.waits)
		(void) ledger_stop_waiting(trip->request.scope, "intent", trip->request.intent_id, NULL);
}

/*
 * "fake-task-0001" and on.
 */
static text *
next_task_id(void)
{
	Oid			sequence = get_relname_relid("fake_task_seq",
											 get_namespace_oid("extaction", false));

	return cstring_to_text(psprintf("fake-task-%04lld", (long long) nextval_internal(sequence, true)));
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
	Intent	   *intent = &trip->intent;
	bool		same = memcmp(facts->bound_digest, trip->request.digest, DIGEST_LENGTH) == 0;
	bool		tell = !same || extaction_log_replays;

	receipt->status = same ? "replayed" : "conflict";
	receipt->state = "happened";
	receipt->next_step = same ? "done" : "human";
	receipt->bound_digest = facts->bound_digest;
	provider_receive(&trip->request, &trip->task, &facts->idempotency_key, receipt->status, NULL);
	if (same)
	{
		receipt->attempt = intent->outcome_attempt;
		receipt->idempotency_key = &facts->idempotency_key;
		receipt->provider_ref = intent->provider_ref;
		receipt->detail = detail_evidence(NULL, receipt->provider_ref, NULL, NULL);
	}
	else
		receipt->needs = "another intent_id: this one is bound to another content for ever";
	if (ledger_stop_waiting_bound(intent, &trip->request, same) || tell)
		ledger_append(receipt, receipt->status, &trip->request, &trip->identity);
}

/*
 * The provider's side of the door: every request is entered in its books; one
 * that is new is executed, and its task comes to be.  task_id is NULL where
 * nothing is executed.
 */
static void
provider_receive(const Request *request, const TaskRequest *task,
				 const pg_uuid_t *key, const char *answer, const text *task_id)
{
#define ARRIVED_SQL \
	"INSERT INTO extaction.fake_task_requests (scope, intent_id, request_digest, answer)" \
	" VALUES ($1, $2, $3, $4)"
	static KeptQuery arrive = {
		ARRIVED_SQL, false, 4, {TEXTOID, TEXTOID, BYTEAOID, TEXTOID}, NULL
	};
	static KeptQuery execute = {
		"WITH arrived AS (" ARRIVED_SQL "),"
		" executed AS ("
		" INSERT INTO extaction.fake_task_executions (scope, intent_id, idempotency_key, task_id)"
		" VALUES ($1, $2, $5, $6))"
		" INSERT INTO extaction.fake_tasks (scope, task_id, intent_id, title, assignee_person_ref, due_at)"
		" VALUES ($1, $6, $2, $7, $8, $9)",
		false, 9, {TEXTOID, TEXTOID, BYTEAOID, TEXTOID, UUIDOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID}, NULL
	};
	QueryArgs	args = {0};

	arg_text(&args, request->scope);
	arg_text(&args, request->intent_id);
	arg_digest(&args, request->digest);
	arg_cstring(&args, answer);
	if (task_id == NULL)
	{
		(void) query_run(&arrive, &args);
		return;
	}
	arg_uuid(&args, key);
	arg_text(&args, task_id);
	arg_text(&args, task->title);
	arg_text(&args, task->assignee_person_ref);
	arg_text(&args, task->due_at);
	(void) query_run(&execute, &args);
}
