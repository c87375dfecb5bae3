/*-------------------------------------------------------------------------
 *
 * approve.c
 *	  Allowing exactly one request, and refusing it; see also revoke.c.
 *
 * An approval is bound to a digest, names a capability, and ends.  It is
 * checked when it is used, every time (gate.c); here it is written down.
 *
 * Every verb here holds the exclusive lock of the intent.  So two approvers
 * of two see each other, and an approval and a request that begins to wait
 * cannot miss each other.  When enough have approved what waits, the approval
 * itself lets it go on.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "approve.h"
#include "batch.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"

static void begin_in_advance(Approving *approving, LedgerVisit *visit,
							 FunctionCallInfo fcinfo, int end);
static void approve_if_open(Approving *approving);
static void begin_with_digest(Approving *approving, LedgerVisit *visit,
							  FunctionCallInfo fcinfo);
static void lock_and_look(Approving *approving);
static const char *why_not(Approving *approving);
static bool is_settled(const Approving *approving);
static const char *why_not_waiting(Approving *approving);
static void approve(Approving *approving);
static bool already_approved(Approving *approving);
static void require_action(const Request *request);
static void insert_approval(Approving *approving);
static void go_on(Approving *approving);
static const char *stands(const Approving *approving, TimestampTz now);

PG_FUNCTION_INFO_V1(extaction_approve);
PG_FUNCTION_INFO_V1(extaction_reject);
PG_FUNCTION_INFO_V1(extaction_approve_in_advance);
PG_FUNCTION_INFO_V1(extaction_approve_batch_in_advance);
PG_FUNCTION_INFO_V1(extaction_approve_fake_task);

/*
 * approve(scope, request_digest, expires_at, note, actor)
 * returns approval_receipt
 */
Datum
extaction_approve(PG_FUNCTION_ARGS)
{
	Approving	approving = {0};
	LedgerVisit visit;

	approving.has_end = !PG_ARGISNULL(2);
	approving.expires_at = approving.has_end ? PG_GETARG_TIMESTAMPTZ(2) : NO_TIME;
	approving.note = PG_ARGISNULL(3) ? NULL : PG_GETARG_TEXT_PP(3);
	begin_with_digest(&approving, &visit, fcinfo);
	approving.status = why_not(&approving);
	if (approving.status == NULL)
		approving.status = why_not_waiting(&approving);
	if (approving.status == NULL)
		approve(&approving);
	PG_RETURN_DATUM(approval_receipt_and_leave(fcinfo, &approving, &visit));
}

/*
 * reject(scope, request_digest, reason, actor) returns approval_receipt
 */
Datum
extaction_reject(PG_FUNCTION_ARGS)
{
	Approving	approving = {0};
	text	   *reason = reason_argument(fcinfo, 2);
	Receipt		event = NO_RECEIPT;
	LedgerVisit visit;

	begin_with_digest(&approving, &visit, fcinfo);
	if (approving.facts.rejected != NULL)
		approving.status = "rejected";
	else if (approving.facts.bound)
		approving.status = why_not(&approving) || (!approving.intent.open && !approving.request.whole_batch)
			? "closed" : "too_late";
	else
		approving.status = why_not_waiting(&approving);
	if (approving.status == NULL)
	{
		approving.status = "rejected";
		event.detail = detail_words("reason", text_to_cstring(reason), NULL);
		ledger_append(&event, "rejected", &approving.request, &approving.approver);
		(void) ledger_stop_waiting(approving.request.scope, subject_kind(&approving.request),
								   approving.request.intent_id, NULL);
	}
	else if (strcmp(approving.status, "too_late") == 0)
		approving.needs = "cancel or revoke_approval: the request is approved and prepared already";
	PG_RETURN_DATUM(approval_receipt_and_leave(fcinfo, &approving, &visit));
}

/*
 * approve_in_advance(scope, intent_id, action, destination, payload,
 * candidate_id, expires_at, approval_id, note, actor) returns approval_receipt
 */
Datum
extaction_approve_in_advance(PG_FUNCTION_ARGS)
{
	Approving	approving = {0};
	Jsonb	   *payload = PG_ARGISNULL(4) ? NULL : document_argument(fcinfo, 4, "payload");
	text	   *candidate_id = optional_name(fcinfo, 5, "candidate_id");
	LedgerVisit visit;

	request_names(&approving.request, fcinfo, 0);
	approving.note = PG_ARGISNULL(8) ? NULL : PG_GETARG_TEXT_PP(8);
	begin_in_advance(&approving, &visit, fcinfo, 6);
	request_complete(&approving.request, &approving.candidate, candidate_id, payload);
	approve_if_open(&approving);
	PG_RETURN_DATUM(approval_receipt_and_leave(fcinfo, &approving, &visit));
}

/*
 * approve_batch_in_advance(scope, batch_id, action, payload, items,
 * expires_at, approval_id, note, actor) returns approval_receipt
 */
Datum
extaction_approve_batch_in_advance(PG_FUNCTION_ARGS)
{
	Approving	approving = {0};
	Batch		batch = {0};
	LedgerVisit visit;

	batch_read(&batch, &approving.request, name_argument(fcinfo, 0, "scope"),
			   name_argument(fcinfo, 1, "batch_id"), name_argument(fcinfo, 2, "action"),
			   document_argument(fcinfo, 3, "payload"), document_argument(fcinfo, 4, "items"));
	approving.note = PG_ARGISNULL(7) ? NULL : PG_GETARG_TEXT_PP(7);
	begin_in_advance(&approving, &visit, fcinfo, 5);
	approve_if_open(&approving);
	PG_RETURN_DATUM(approval_receipt_and_leave(fcinfo, &approving, &visit));
}

/*
 * approve_fake_task(scope, request, expires_at, approval_id, capability,
 * actor) returns approval_receipt
 *
 * Approving a fake task executes nothing: its caller submits again.  A bound
 * intent may be approved too, since every call has to cross the gates.
 */
Datum
extaction_approve_fake_task(PG_FUNCTION_ARGS)
{
	Approving	approving = {0};
	TaskRequest task;
	text	   *scope = name_argument(fcinfo, 0, "scope");
	Jsonb	   *document = document_argument(fcinfo, 1, "request");
	LedgerVisit visit;

	approving.capability = name_argument(fcinfo, 4, "capability");
	task_request_read(&task, document);
	task_request_as_request(&approving.request, &task, scope, document);
	begin_in_advance(&approving, &visit, fcinfo, 2);
	task_request_require_provider(&task);
	lock_and_look(&approving);
	approve(&approving);
	PG_RETURN_DATUM(approval_receipt_and_leave(fcinfo, &approving, &visit));
}

/*
 * How the three above begin; expires_at is argument "end", approval_id the
 * next one, actor the last.
 */
static void
begin_in_advance(Approving *approving, LedgerVisit *visit, FunctionCallInfo fcinfo, int end)
{
	text	   *actor = optional_name(fcinfo, PG_NARGS() - 1, "actor");

	approving->has_end = !PG_ARGISNULL(end);
	approving->expires_at = approving->has_end ? PG_GETARG_TIMESTAMPTZ(end) : NO_TIME;
	approving->approval_id = optional_name(fcinfo, end + 1, "approval_id");
	ledger_enter(visit, LEDGER_DECIDES);
	identity_init(&approving->approver, visit->caller, actor);
	access_require(&approving->approver, approving->request.scope, "approver");
}

/*
 * And how two of them go on.
 */
static void
approve_if_open(Approving *approving)
{
	lock_and_look(approving);
	approving->status = why_not(approving);
	if (approving->status == NULL)
		approve(approving);
}

/*
 * How approve and reject begin: with the request that was kept under the
 * digest (arguments 0 and 1; the last is actor).
 */
static void
begin_with_digest(Approving *approving, LedgerVisit *visit, FunctionCallInfo fcinfo)
{
	text	   *scope = name_argument(fcinfo, 0, "scope");
	text	   *actor = optional_name(fcinfo, PG_NARGS() - 1, "actor");
	uint8		digest[DIGEST_LENGTH];

	digest_argument(fcinfo, 1, digest);
	ledger_enter(visit, LEDGER_DECIDES);
	identity_init(&approving->approver, visit->caller, actor);
	access_require(&approving->approver, scope, "approver");
	if (!request_load(&approving->request, &approving->candidate, &approving->requester,
					  &approving->order, scope, digest))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("request %s does not exist in scope \"%s\"",
						text_to_cstring(digest_to_hex(digest)), text_to_cstring(scope)),
				 errhint("extaction.pending_approvals shows what waits."),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "request_digest")));
	lock_and_look(approving);
}

/*
 * Takes the subject's lock and looks again: who asked may have changed.
 */
static void
lock_and_look(Approving *approving)
{
	Request    *request = &approving->request;
	Request		kept;
	CandidateRef candidate;

	ledger_lock_subject(request->scope, subject_kind(request), subject_id(request), true);
	if (!request_load(&kept, &candidate, &approving->requester, &approving->order,
					  request->scope, request->digest))
		approving->order = NO_ORDER;
	if (!request->whole_batch)
	{
		Intent	   *intent = &approving->intent;

		(void) intent_lock(intent, request->scope, request->intent_id);
		/* it began to wait at the very moment of the binding: see ledger_stop_waiting_bound() */
		if (intent->bound && intent->waits && !may_wait_bound(intent))
			(void) ledger_stop_waiting(request->scope, "intent", request->intent_id, NULL);
	}
	approving_look(approving);
}

/*
 * What the ledger says of the request now.
 */
void
approving_look(Approving *approving)
{
	facts_load(&approving->facts, &approving->request,
			   text_to_cstring(approving->request.action),
			   approving->requester.name ? &approving->requester : &approving->approver, NULL, NULL);
}

/*
 * Why the request can't be approved any more, as a status; or NULL.
 */
static const char *
why_not(Approving *approving)
{
	const Facts *facts = &approving->facts;

	if (facts->bound && (is_settled(approving) ||
						 memcmp(facts->bound_digest, approving->request.digest, DIGEST_LENGTH) != 0))
	{
		approving->needs = approving->intent.open
			? "another intent_id: this one is bound to another content for ever"
			: "nothing: the intent is settled";
		return "closed";
	}
	if (facts->rejected != NULL)
	{
		approving->needs = psprintf("another content; this one was rejected because: %s",
									text_to_cstring(facts->rejected));
		return "rejected";
	}
	if (approving->requester.name != NULL && !facts->self_approval &&
		text_equal(approving->requester.name, approving->approver.name))
	{
		approving->needs = gate_needs(GATE_SELF_APPROVAL);
		return "not_yours";
	}
	return NULL;
}

/*
 * Is nothing left to approve?  A closed not_happened can be retried, and for
 * that takes an approval that holds.
 */
static bool
is_settled(const Approving *approving)
{
	const Intent *intent = &approving->intent;

	return !approving->request.whole_batch && !intent->open &&
		!(intent->outcome != NULL && strcmp(intent->outcome, "not_happened") == 0);
}

/*
 * Why the digest is not what waits now, as a status; or NULL.  What was
 * approved in advance and is not submitted yet may get more approvals.
 */
static const char *
why_not_waiting(Approving *approving)
{
	const Facts *facts = &approving->facts;
	int			i;

	if (facts->bound ||
		(facts->waits && memcmp(facts->waiting_digest, approving->request.digest, DIGEST_LENGTH) == 0))
		return NULL;
	if (facts->waits)
	{
		approving->needs = psprintf("a look at request %s, which took its place",
									text_to_cstring(digest_to_hex(facts->waiting_digest)));
		return "superseded";
	}
	for (i = 0; i < facts->napprovals; i++)
		if (facts->approvals[i].same_request)
			return NULL;
	approving->needs = "the request to be submitted again: it does not wait any more";
	return "closed";
}

/*
 * Writes the approval down, with the request that it is for, unless the same
 * identity's approval of it still holds as long; then lets go on what can.
 */
static void
approve(Approving *approving)
{
	Receipt		event = NO_RECEIPT;

	if (already_approved(approving))
		approving->status = "already_approved";
	else
	{
		require_action(&approving->request);
		ledger_keep_request(&approving->request, &approving->approver);
		insert_approval(approving);
		approving->status = "approved";
		event.approval_id = approving->approval_id;
		ledger_append(&event, "approved", &approving->request, &approving->approver);
	}
	approving_look(approving);
	if (!is_task_request(approving->request.payload))
		go_on(approving);
	if (GetCurrentTimestamp() >= approving->expires_at)
		approving->needs = "a later expires_at: this approval has ended already";
}

/*
 * Takes the existing approval over if the caller's wish is fulfilled by it.
 */
static bool
already_approved(Approving *approving)
{
	static KeptQuery query = {
		"SELECT a.approval_id, a.expires_at FROM extaction.approvals a"
		" LEFT JOIN extaction.actions c ON c.action = $9"
		" WHERE a.scope = $1 AND a.kind = $10 AND a.id = $2 AND a.request_digest = $3"
		"   AND a.approver = $4 AND a.capability = coalesce($5, c.capability, c.action)"
		"   AND a.epoch = (SELECT l.epoch FROM extaction.ledger l ORDER BY l.entry DESC LIMIT 1)"
		"   AND NOT EXISTS (SELECT FROM extaction.revocations r"
		"                   WHERE r.scope = a.scope AND r.approval_id = a.approval_id)"
		"   AND CASE WHEN $6 IS NOT NULL THEN a.approval_id = $6"
		"            ELSE a.expires_at > clock_timestamp() + coalesce(c.call_timeout, '0')"
		"                 AND (a.expires_at >= $7 OR NOT $8) END"
		" ORDER BY a.expires_at DESC LIMIT 1",
		false, 10, {TEXTOID, TEXTOID, BYTEAOID, TEXTOID, TEXTOID, TEXTOID, TIMESTAMPTZOID, BOOLOID,
		TEXTOID, TEXTOID}, NULL
	};
	QueryArgs	args = {0};

	arg_text(&args, approving->request.scope);
	arg_text(&args, approving->request.intent_id);
	arg_digest(&args, approving->request.digest);
	arg_text(&args, approving->approver.name);
	arg_text(&args, approving->capability);
	arg_text(&args, approving->approval_id);
	arg_timestamptz(&args, approving->expires_at);
	arg_bool(&args, approving->has_end);
	arg_text(&args, approving->request.action);
	arg_cstring(&args, subject_kind(&approving->request));
	if (query_run_now(&query, &args) == 0)
		return false;
	approving->approval_id = got_text(0, 1);
	approving->expires_at = got_timestamptz(0, 2);
	return true;
}

/*
 * The catalogue says how long an approval may last; without its row there is
 * nothing to approve.
 */
static void
require_action(const Request *request)
{
	static KeptQuery query = {
		"SELECT FROM extaction.actions WHERE action = $1", false, 1, {TEXTOID}, NULL
	};
	QueryArgs	args = {0};

	arg_text(&args, request->action);
	if (query_run_now(&query, &args) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("action \"%s\" is not in the catalogue", text_to_cstring(request->action)),
				 errhint("A DBA can add it to extaction.actions."),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, gate_name(GATE_ACTION_UNKNOWN))));
}

static void
insert_approval(Approving *approving)
{
	static KeptQuery query = {
		"INSERT INTO extaction.approvals"
		" (scope, approval_id, kind, id, request_digest, capability, expires_at, epoch,"
		"  approver, note, role, \"session_user\", actor)"
		" SELECT $1, coalesce($2, gen_random_uuid()::text), $14, $3, $4,"
		"  coalesce($5, a.capability, a.action),"
		"  least(CASE WHEN $7 THEN $6 ELSE t.now + a.approval_ttl END,"
		"        t.now + a.approval_ttl_max),"
		"  l.epoch, $8, $9, $10, $11, $12"
		" FROM extaction.actions a,"
		"  (SELECT clock_timestamp() AS now) t,"
		"  (SELECT l.epoch FROM extaction.ledger l ORDER BY l.entry DESC LIMIT 1) l"
		" WHERE a.action = $13"
		" ON CONFLICT (scope, approval_id) DO NOTHING"
		" RETURNING approval_id, expires_at",
		false, 14, {TEXTOID, TEXTOID, TEXTOID, BYTEAOID, TEXTOID, TIMESTAMPTZOID, BOOLOID,
		TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID}, NULL
	};
	QueryArgs	args = {0};

	arg_text(&args, approving->request.scope);
	arg_text(&args, approving->approval_id);
	arg_text(&args, approving->request.intent_id);
	arg_digest(&args, approving->request.digest);
	arg_text(&args, approving->capability);
	arg_timestamptz(&args, approving->expires_at);
	arg_bool(&args, approving->has_end);
	arg_text(&args, approving->approver.name);
	arg_text(&args, approving->note);
	arg_identity(&args, &approving->approver);
	arg_text(&args, approving->request.action);
	arg_cstring(&args, subject_kind(&approving->request));
	if (query_run(&query, &args) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNIQUE_VIOLATION),
				 errmsg("approval_id \"%s\" is used by another approval",
						text_to_cstring(approving->approval_id)),
				 errhint("Name another approval_id, or leave it out."),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "approval_id")));
	approving->approval_id = got_text(0, 1);
	approving->expires_at = got_timestamptz(0, 2);
}

/*
 * What waited for this approval goes on from where it stopped.
 */
static void
go_on(Approving *approving)
{
	const Facts *facts = &approving->facts;
	Request    *request = &approving->request;
	Intent	   *intent = &approving->intent;
	Gate		gate;

	if (request->whole_batch && facts->bound)
		go_on_blocked_items(request, &approving->approver);
	else if (intent->open && strcmp(intent->work.state, "blocked") == 0)
	{
		go_on_blocked(intent, &approving->approver);
		approving->needs = intent->work.needs;
	}
	else if (!intent->open && facts->waits &&
			 memcmp(facts->waiting_digest, request->digest, DIGEST_LENGTH) == 0)
	{
		gate = go_on_waiting(request, &approving->facts, &approving->requester, &approving->order);
		if (gate != GATE_COUNT)
			approving->needs = gate_needs(gate);
		else if (request->whole_batch)
			approving->facts.bound = true;
		else
			(void) intent_load(intent, request->scope, request->intent_id, false);
	}
}

/*
 * Where the request stands.  What was rejected stands nowhere: it neither
 * waits nor can it go out.
 */
static const char *
stands(const Approving *approving, TimestampTz now)
{
	if (strcmp(approving->status, "rejected") == 0)
		return NULL;
	if (approving->request.whole_batch && approving->facts.bound)
		return "prepared";
	return intent_state(&approving->intent, now);
}

/*
 * Ends the visit with the answer.
 */
Datum
approval_receipt_and_leave(FunctionCallInfo fcinfo, Approving *approving, LedgerVisit *visit)
{
	TimestampTz now = GetCurrentTimestamp();
	Identity	requester = {.name = approving->facts.requester};
	int64		approvals = approvals_holding(&approving->facts, requester.name ? &requester : NULL, now);
	const char *state = stands(approving, now);

	ledger_leave(visit);
	{
		NamedDatum	values[] = {
			{"status", CStringGetTextDatum(approving->status), false},
			{"approvals", Int64GetDatum(approvals), false},
			{"required", Int64GetDatum(approving->facts.approvals_required), false},
			{"state", state ? CStringGetTextDatum(state) : (Datum) 0, state == NULL},
			{"expires_at", TimestampTzGetDatum(approving->expires_at), approving->expires_at == NO_TIME},
			{"approval_id", PointerGetDatum(approving->approval_id), approving->approval_id == NULL},
			{"request_digest", PointerGetDatum(digest_to_hex(approving->request.digest)), false},
			{"needs", approving->needs ? CStringGetTextDatum(approving->needs) : (Datum) 0,
			approving->needs == NULL},
			{"detail", PointerGetDatum(approving->detail), approving->detail == NULL},
		};

		return composite_datum(fcinfo, values, lengthof(values));
	}
}
