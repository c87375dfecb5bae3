/*-------------------------------------------------------------------------
 *
 * revoke.c
 *	  Taking an approval back.
 *
 * It waits for the transactions that are just using the approval, under the
 * exclusive lock of what was approved; what has not gone out by then never
 * will, and of the rest the answer can only tell.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "approve.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"

static void load_approval(Approving *approving);
static bool insert_revocation(Approving *approving, const text *reason);
static void say_what_is_out(Approving *approving);

PG_FUNCTION_INFO_V1(extaction_revoke_approval);

/*
 * revoke_approval(scope, approval_id, reason, actor) returns approval_receipt
 */
Datum
extaction_revoke_approval(PG_FUNCTION_ARGS)
{
	Approving	approving = {0};
	text	   *reason = reason_argument(fcinfo, 2);
	text	   *actor = optional_name(fcinfo, 3, "actor");
	Receipt		event = NO_RECEIPT;
	LedgerVisit visit;

	approving.request.scope = name_argument(fcinfo, 0, "scope");
	approving.approval_id = name_argument(fcinfo, 1, "approval_id");

	ledger_enter(&visit, LEDGER_DECIDES);
	identity_init(&approving.approver, visit.caller, actor);
	access_require(&approving.approver, approving.request.scope, "approver");
	load_approval(&approving);
	ledger_lock_subject(approving.request.scope, subject_kind(&approving.request),
						approving.request.intent_id, true);
	if (insert_revocation(&approving, reason))
	{
		event.approval_id = approving.approval_id;
		event.detail = detail_words("reason", text_to_cstring(reason), NULL);
		ledger_append(&event, "revoked", &approving.request, &approving.approver);
	}
	/* a claim that is just using the approval has the row: it is waited for */
	if (!approving.request.whole_batch)
		(void) intent_lock(&approving.intent, approving.request.scope,
						   approving.request.intent_id);
	say_what_is_out(&approving);
	approving_look(&approving);
	PG_RETURN_DATUM(approval_receipt_and_leave(fcinfo, &approving, &visit));
}

/*
 * The request that the approval is for.
 */
static void
load_approval(Approving *approving)
{
	static KeptQuery query = {
		"SELECT a.id, a.request_digest, a.expires_at, r.action, r.destination, a.kind = 'batch', r.payload"
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
	request->whole_batch = got_bool(0, 6);
	request->payload = got_jsonb(0, 7);
	if (request->whole_batch)
	{
		request->batch_id = request->intent_id;
		memcpy(request->batch_digest, request->digest, DIGEST_LENGTH);
	}
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
	arg_text(&args, approving->approver.name);
	arg_identity(&args, &approving->approver);
	return query_run(&query, &args) == 1;
}

/*
 * A revocation stops what has not gone out; of the rest it can only tell.
 * What went out: the attempts that were claimed and not given back or refused
 * since, those of which somebody says that they happened, and a fake task's
 * only one.
 */
static void
say_what_is_out(Approving *approving)
{
	static KeptQuery query = {
		"SELECT jsonb_build_object('attempts', jsonb_agg(DISTINCT e.attempt ORDER BY e.attempt))"
		" FROM extaction.events e"
		" WHERE e.scope = $1 AND e.intent_id = $2 AND e.request_digest = $3"
		"   AND (e.kind IN ('sending', 'happened')"
		"        OR (e.kind = 'late_evidence' AND e.detail ->> 'outcome' = 'happened'))"
		"   AND e.attempt IS NOT NULL"
		"   AND NOT EXISTS (SELECT FROM extaction.events b"
		"                   WHERE b.scope = $1 AND b.intent_id = $2 AND b.attempt = e.attempt"
		"                     AND b.kind IN ('released', 'not_happened') AND b.event_id > e.event_id)"
		" HAVING count(*) > 0",
		false, 3, {TEXTOID, TEXTOID, BYTEAOID}, NULL
	};
	QueryArgs	args = {0};

	arg_text(&args, approving->request.scope);
	arg_text(&args, approving->request.intent_id);
	arg_digest(&args, approving->request.digest);
	approving->status = "revoked";
	if (approving->request.whole_batch)
		approving->detail = batch_out(&approving->request);
	else if (query_run_now(&query, &args) > 0)
		approving->detail = got_jsonb(0, 1);
	if (approving->detail == NULL)
		return;
	approving->status = "too_late";
	approving->needs = "an undo, if one is wanted: what was approved has gone out already";
}
