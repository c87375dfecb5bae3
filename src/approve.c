/*-------------------------------------------------------------------------
 *
 * approve.c
 *	  Allowing exactly one request, and taking it back.
 *
 * An approval is bound to a digest, names a capability, and ends.  It is
 * checked when it is used, every time (gate.c); here it is only written down.
 * Taking it back waits for the transactions that are just using it, and its
 * answer says what is out already.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "extaction.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"

/* One call about an approval. */
typedef struct Approving
{
	Request		request;
	Identity	identity;
	text	   *approval_id;
	text	   *capability;
	text	   *note;
	bool		has_end;
	TimestampTz expires_at;
	/* the answer */
	const char *status;
	const char *state;
	const char *needs;
	int64		approvals;
	int64		required;
	Jsonb	   *detail;
} Approving;

static void approve(Approving *approving);
static bool already_approved(Approving *approving);
static bool insert_approval(Approving *approving);
static void count_approvals(Approving *approving);
static void load_approval(Approving *approving);
static bool insert_revocation(Approving *approving, const text *reason);
static void say_what_is_out(Approving *approving);
static Datum approval_receipt(FunctionCallInfo fcinfo, const Approving *approving);

PG_FUNCTION_INFO_V1(extaction_approve_fake_task);
PG_FUNCTION_INFO_V1(extaction_revoke_approval);

/*
 * approve_fake_task(scope, request, expires_at, approval_id, capability,
 * actor) returns approval_receipt
 */
Datum
extaction_approve_fake_task(PG_FUNCTION_ARGS)
{
	Approving	approving = {0};
	TaskRequest task;
	text	   *scope = name_argument(fcinfo, 0, "scope");
	Jsonb	   *document = document_argument(fcinfo, 1, "request");
	text	   *actor = optional_name(fcinfo, 5, "actor");
	LedgerVisit visit;

	approving.has_end = !PG_ARGISNULL(2);
	approving.expires_at = approving.has_end ? PG_GETARG_TIMESTAMPTZ(2) : 0;
	approving.approval_id = optional_name(fcinfo, 3, "approval_id");
	approving.capability = name_argument(fcinfo, 4, "capability");
	task_request_read(&task, document);
	task_request_as_request(&approving.request, &task, scope, document);

	ledger_enter(&visit, true);
	identity_init(&approving.identity, visit.caller, actor);
	access_require(&approving.identity, scope, "approver");
	task_request_require_provider(&task);
	approve(&approving);
	ledger_leave(&visit);
	PG_RETURN_DATUM(approval_receipt(fcinfo, &approving));
}

/*
 * Writes the approval down, with the request that it is for, unless the same
 * identity's approval of it still holds as long.
 */
static void
approve(Approving *approving)
{
	Receipt		event = {0};

	if (already_approved(approving))
		approving->status = "already_approved";
	else
	{
		ledger_keep_request(&approving->request, &approving->identity);
		if (!insert_approval(approving))
			ereport(ERROR,
					(errcode(ERRCODE_UNIQUE_VIOLATION),
					 errmsg("approval_id \"%s\" is used by another approval",
							text_to_cstring(approving->approval_id)),
					 errhint("Name another approval_id, or leave it out."),
					 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "approval_id")));
		approving->status = "approved";
		event.approval_id = approving->approval_id;
		ledger_append(&event, "approved", &approving->request, &approving->identity);
	}
	count_approvals(approving);
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
		" WHERE a.scope = $1 AND a.kind = 'intent' AND a.id = $2 AND a.request_digest = $3"
		"   AND a.approver = $4 AND a.capability = $5"
		"   AND NOT EXISTS (SELECT FROM extaction.revocations r"
		"                   WHERE r.scope = a.scope AND r.approval_id = a.approval_id)"
		"   AND CASE WHEN $6 IS NOT NULL THEN a.approval_id = $6"
		"            ELSE a.expires_at > clock_timestamp() AND (a.expires_at >= $7 OR NOT $8) END"
		" ORDER BY a.expires_at DESC LIMIT 1",
		false, 8, {TEXTOID, TEXTOID, BYTEAOID, TEXTOID, TEXTOID, TEXTOID, TIMESTAMPTZOID, BOOLOID}, NULL
	};
	QueryArgs	args = {0};

	arg_text(&args, approving->request.scope);
	arg_text(&args, approving->request.intent_id);
	arg_digest(&args, approving->request.digest);
	arg_text(&args, approving->identity.name);
	arg_text(&args, approving->capability);
	arg_text(&args, approving->approval_id);
	arg_timestamptz(&args, approving->expires_at);
	arg_bool(&args, approving->has_end);
	if (query_run_now(&query, &args) == 0)
		return false;
	approving->approval_id = got_text(0, 1);
	approving->expires_at = got_timestamptz(0, 2);
	return true;
}

/*
 * False if the approval_id is taken.
 */
static bool
insert_approval(Approving *approving)
{
	static KeptQuery query = {
		"INSERT INTO extaction.approvals"
		" (scope, approval_id, kind, id, request_digest, capability, expires_at, epoch,"
		"  approver, note, role, \"session_user\", actor)"
		" SELECT $1, coalesce($2, gen_random_uuid()::text), 'intent', $3, $4, $5,"
		"  least(CASE WHEN $7 THEN $6 ELSE t.now + a.approval_ttl END, t.now + a.approval_ttl_max),"
		"  l.epoch, $8, $9, $10, $11, $12"
		" FROM extaction.actions a,"
		"  (SELECT clock_timestamp() AS now) t,"
		"  (SELECT l.epoch FROM extaction.ledger l ORDER BY l.entry DESC LIMIT 1) l"
		" WHERE a.action = $13"
		" ON CONFLICT (scope, approval_id) DO NOTHING"
		" RETURNING approval_id, expires_at",
		false, 13, {TEXTOID, TEXTOID, TEXTOID, BYTEAOID, TEXTOID, TIMESTAMPTZOID, BOOLOID,
			TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID}, NULL
	};
	QueryArgs	args = {0};

	arg_text(&args, approving->request.scope);
	arg_text(&args, approving->approval_id);
	arg_text(&args, approving->request.intent_id);
	arg_digest(&args, approving->request.digest);
	arg_text(&args, approving->capability);
	arg_timestamptz(&args, approving->expires_at);
	arg_bool(&args, approving->has_end);
	arg_text(&args, approving->identity.name);
	arg_text(&args, approving->note);
	arg_identity(&args, &approving->identity);
	arg_text(&args, approving->request.action);
	if (query_run(&query, &args) == 0)
		return false;
	approving->approval_id = got_text(0, 1);
	approving->expires_at = got_timestamptz(0, 2);
	return true;
}

/*
 * What the request has now.  Nobody may have submitted it yet, so an approval
 * by whoever will is counted; the gate looks again.
 */
static void
count_approvals(Approving *approving)
{
	Facts		facts;

	facts_load(&facts, &approving->request, text_to_cstring(approving->request.action),
			   &approving->identity, NULL);
	approving->approvals = approvals_holding(&facts, NULL, GetCurrentTimestamp());
	approving->required = facts.approvals_required;
	approving->state = facts.bound ? "happened" : "awaiting_approval";
}

/*
 * revoke_approval(scope, approval_id, reason, actor) returns approval_receipt
 */
Datum
extaction_revoke_approval(PG_FUNCTION_ARGS)
{
	Approving	approving = {0};
	text	   *reason = reason_argument(fcinfo, 2);
	text	   *actor = optional_name(fcinfo, 3, "actor");
	Receipt		event = {0};
	LedgerVisit visit;

	approving.request.scope = name_argument(fcinfo, 0, "scope");
	approving.approval_id = name_argument(fcinfo, 1, "approval_id");

	ledger_enter(&visit, true);
	identity_init(&approving.identity, visit.caller, actor);
	access_require(&approving.identity, approving.request.scope, "approver");
	load_approval(&approving);
	ledger_lock_subject(approving.request.scope, "intent",
						approving.request.intent_id, true);
	if (insert_revocation(&approving, reason))
	{
		static const char *const name = "reason";
		const char *value = text_to_cstring(reason);

		event.approval_id = approving.approval_id;
		event.detail = detail_strings(&name, &value, 1);
		ledger_append(&event, "revoked", &approving.request, &approving.identity);
	}
	say_what_is_out(&approving);
	ledger_leave(&visit);
	PG_RETURN_DATUM(approval_receipt(fcinfo, &approving));
}

/*
 * The request that the approval is for.
 */
static void
load_approval(Approving *approving)
{
	static KeptQuery query = {
		"SELECT a.id, a.request_digest, a.expires_at, r.action, r.destination"
		" FROM extaction.approvals a"
		" LEFT JOIN extaction.requests r ON r.scope = a.scope AND r.request_digest = a.request_digest"
		" WHERE a.scope = $1 AND a.approval_id = $2",
		false, 2, {TEXTOID, TEXTOID}, NULL
	};
	Request    *request = &approving->request;
	QueryArgs	args = {0};

	arg_text(&args, request->scope);
	arg_text(&args, approving->approval_id);
	if (query_run_now(&query, &args) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("approval \"%s\" does not exist in scope \"%s\"",
						text_to_cstring(approving->approval_id), text_to_cstring(request->scope)),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "approval_id")));
	request->intent_id = got_text(0, 1);
	got_digest(0, 2, request->digest);
	approving->expires_at = got_timestamptz(0, 3);
	request->action = got_text(0, 4);
	request->destination = got_text(0, 5);
}

/*
 * False if it was revoked before.
 */
static bool
insert_revocation(Approving *approving, const text *reason)
{
	static KeptQuery query = {
		"INSERT INTO extaction.revocations"
		" (scope, approval_id, reason, revoked_by, role, \"session_user\", actor)"
		" VALUES ($1, $2, $3, $4, $5, $6, $7)"
		" ON CONFLICT (scope, approval_id) DO NOTHING RETURNING 1",
		false, 7, {TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID}, NULL
	};
	QueryArgs	args = {0};

	arg_text(&args, approving->request.scope);
	arg_text(&args, approving->approval_id);
	arg_text(&args, reason);
	arg_text(&args, approving->identity.name);
	arg_identity(&args, &approving->identity);
	return query_run(&query, &args) == 1;
}

/*
 * A revocation stops what has not gone out; of the rest it can only tell.
 */
static void
say_what_is_out(Approving *approving)
{
	static KeptQuery query = {
		"SELECT i.approval_id = $3 FROM extaction.intents i"
		" WHERE i.scope = $1 AND i.intent_id = $2",
		false, 3, {TEXTOID, TEXTOID, TEXTOID}, NULL
	};
	QueryArgs	args = {0};

	arg_text(&args, approving->request.scope);
	arg_text(&args, approving->request.intent_id);
	arg_text(&args, approving->approval_id);
	approving->status = "revoked";
	if (query_run_now(&query, &args) == 1 && got_bool(0, 1))
	{
		approving->status = "too_late";
		approving->needs = "an undo, if one is wanted: what was approved has gone out already";
		approving->detail = DatumGetJsonbP(DirectFunctionCall1(jsonb_in,
															   CStringGetDatum("{\"attempts\": [1]}")));
	}
	count_approvals(approving);
}

static Datum
approval_receipt(FunctionCallInfo fcinfo, const Approving *approving)
{
	NamedDatum	values[] = {
		{"status", CStringGetTextDatum(approving->status), false},
		{"approvals", Int64GetDatum(approving->approvals), false},
		{"required", Int64GetDatum(approving->required), false},
		{"state", CStringGetTextDatum(approving->state), false},
		{"expires_at", TimestampTzGetDatum(approving->expires_at), false},
		{"approval_id", PointerGetDatum(approving->approval_id), false},
		{"request_digest", PointerGetDatum(digest_to_hex(approving->request.digest)), false},
		{"needs", approving->needs ? CStringGetTextDatum(approving->needs) : (Datum) 0,
		approving->needs == NULL},
		{"detail", PointerGetDatum(approving->detail), approving->detail == NULL},
	};

	return composite_datum(fcinfo, values, lengthof(values));
}
