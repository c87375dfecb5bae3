/*-------------------------------------------------------------------------
 *
 * facts.c
 *	  What the ledger knows about a request, read in one statement.
 *
 * One statement, because starting an executor is most of the cost of a small
 * read, and because all that the gates judge must come from one moment.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "extaction.h"

static void read_catalogue(Facts *facts);
static void read_present(Facts *facts);
static void read_approval(Approval *approval, int row, const Request *request);
static void read_differences(Approval *approval, const Request *request);
static void check_own_snapshot(const Request *request);

/* The columns of the statement in facts_load(), in order. */
enum
{
	COL_LEDGER_ID = 1,
	COL_VOUCHING,
	COL_ENABLED,
	COL_CAPABILITY,
	COL_APPROVALS_REQUIRED,
	COL_SELF_APPROVAL,
	COL_DESTINATION_ALLOWED,
	COL_DESTINATION_PATTERN,
	COL_CANDIDATE_REVISION,
	COL_CANDIDATE_DIGEST,
	COL_CANDIDATE_SOURCE,
	COL_CANDIDATE_SOURCE_VERSION,
	COL_SOURCE_VERSION,
	COL_BOUND_DIGEST,
	COL_KEY,
	COL_PROVIDER_REF,
	COL_REQUESTER,
	COL_WAITING_DIGEST,
	COL_WAITING_GATE,
	COL_REJECTED,
	COL_CONTRACT_VERSION,
	COL_CONTRACT_SHIPPED,
	COL_WINDOW_UNTIL,
	COL_BACKUP_TAKEN_AT,
	COL_APPROVAL_ID,
	COL_APPROVAL_DIGEST,
	COL_APPROVER,
	COL_APPROVAL_CAPABILITY,
	COL_EXPIRES_AT,
	COL_REVOKED,
	COL_REVOKED_REASON
};

/*
 * Loads the facts; a row per approval of the intent, or one without.
 * "catalogue_action" is the action whose row the gates ask, approval_id the
 * only approval that will be tried, or NULL.
 */
void
facts_load(Facts *facts, const Request *request, const char *catalogue_action,
		   const Identity *identity, const text *approval_id)
{
	static KeptQuery query = {
		"SELECT l.ledger_id, " ACCESS_SQL("$3", "$1", "'submitter,owner'") ","
		" a.enabled, coalesce(a.capability, a.action), a.approvals_required, a.self_approval,"
		" a.destination_pattern IS NULL OR $5 ~ a.destination_pattern, a.destination_pattern,"
		" c.revision, c.digest, c.source_id, c.source_version, s.source_version,"
		" coalesce(i.request_digest, b.request_digest), i.idempotency_key, o.detail ->> 'provider_ref',"
		" coalesce(i.requester, w.requester),"
		" w.request_digest, w.gate, n.reason, k.version, k.shipped, l.window_until, l.backup_taken_at,"
		" p.approval_id, p.request_digest, p.approver, p.capability,"
		" CASE WHEN p.epoch = l.epoch THEN p.expires_at ELSE '-infinity' END,"
		" r.approval_id IS NOT NULL, r.reason"
		" FROM (SELECT 1) AS always"
		" LEFT JOIN LATERAL (SELECT l.* FROM extaction.ledger l"
		"                    ORDER BY l.entry DESC LIMIT 1) l ON true"
		" LEFT JOIN extaction.actions a ON a.action = $4"
		" LEFT JOIN LATERAL (SELECT c.* FROM extaction.candidates c"
		"                    WHERE c.scope = $1 AND c.candidate_id = $6"
		"                    ORDER BY c.revision DESC LIMIT 1) c ON true"
		" LEFT JOIN LATERAL (SELECT s.* FROM extaction.sources s"
		"                    WHERE s.scope = $1 AND s.source_id = $7"
		"                    ORDER BY s.event_id DESC LIMIT 1) s ON true"
		" LEFT JOIN extaction.intents i ON i.scope = $1 AND i.intent_id = $2"
		" LEFT JOIN extaction.batches b ON b.scope = $1 AND b.batch_id = $11"
		" LEFT JOIN LATERAL (SELECT e.detail FROM extaction.events e"
		"                    WHERE e.scope = i.scope AND e.intent_id = i.intent_id AND e.kind = 'happened'"
		"                    ORDER BY e.event_id DESC LIMIT 1) o ON true"
		" LEFT JOIN LATERAL (SELECT e.detail ->> 'reason' AS reason FROM extaction.events e"
		"                    WHERE e.scope = $1 AND e.intent_id = CASE $9 WHEN 'batch' THEN '' ELSE $10 END"
		"                      AND e.kind = 'rejected'"
		"                      AND e.request_digest = $8 ORDER BY e.event_id DESC LIMIT 1) n ON true"
		" LEFT JOIN LATERAL (SELECT k.version, k.shipped FROM extaction.contracts k"
		"                    WHERE k.provider = a.provider AND k.operation = a.operation"
		"                      AND k.valid_from <= clock_timestamp()"
		"                    ORDER BY k.valid_from DESC, k.version DESC, k.shipped LIMIT 1) k ON true"
		" LEFT JOIN extaction.waiting w ON w.scope = $1 AND w.kind = $9 AND w.id = $10"
		" LEFT JOIN extaction.approvals p ON p.scope = $1 AND p.kind = $9 AND p.id = $10"
		" LEFT JOIN extaction.revocations r ON r.scope = $1 AND r.approval_id = p.approval_id"
		" ORDER BY p.event_id",
		false, 11, {TEXTOID, TEXTOID, OIDOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, BYTEAOID, TEXTOID,
		TEXTOID, TEXTOID}, NULL
	};
	QueryArgs	args = {0};
	int			i;

	arg_text(&args, request->scope);
	arg_text(&args, request->whole_batch ? NULL : request->intent_id);
	arg_oid(&args, identity->role);
	arg_cstring(&args, catalogue_action);
	arg_text(&args, request->destination);
	arg_text(&args, request->candidate ? request->candidate->candidate_id : NULL);
	arg_text(&args, request->candidate ? request->candidate->source_id : NULL);
	arg_digest(&args, subject_digest(request));
	arg_cstring(&args, subject_kind(request));
	arg_text(&args, subject_id(request));
	arg_text(&args, request->whole_batch ? request->batch_id : NULL);

	memset(facts, 0, sizeof(Facts));
	facts->napprovals = (int) query_run_now(&query, &args);
	read_catalogue(facts);
	read_present(facts);
	if (got_null(0, COL_APPROVAL_ID))
		facts->napprovals = 0;
	facts->approvals = palloc0(sizeof(Approval) * Max(facts->napprovals, 1));
	for (i = 0; i < facts->napprovals; i++)
		read_approval(&facts->approvals[i], i, request);

	if (request->whole_batch)
		facts->destination_allowed = batch_destinations_allowed(request, facts->destination_pattern);
	for (i = 0; i < facts->napprovals; i++)
		if (!facts->approvals[i].same_request &&
			approval_is_tried(facts, &facts->approvals[i], approval_id))
			read_differences(&facts->approvals[i], request);
	if (facts->bound && facts->may_submit && !request->whole_batch && IsolationUsesXactSnapshot())
		check_own_snapshot(request);
}

/*
 * Who may, and what the catalogue says.
 */
static void
read_catalogue(Facts *facts)
{
	facts->may_submit = !got_null(0, COL_VOUCHING);
	facts->vouching = got_bool(0, COL_VOUCHING);
	if (facts->may_submit)
		got_uuid(0, COL_LEDGER_ID, &facts->ledger_id);
	facts->action_known = !got_null(0, COL_ENABLED);
	facts->action_enabled = got_bool(0, COL_ENABLED);
	facts->capability = got_text(0, COL_CAPABILITY);
	facts->approvals_required = got_int8(0, COL_APPROVALS_REQUIRED);
	facts->self_approval = got_bool(0, COL_SELF_APPROVAL);
	facts->destination_allowed = got_bool(0, COL_DESTINATION_ALLOWED);
	facts->destination_pattern = got_text(0, COL_DESTINATION_PATTERN);
}

/*
 * What is current, and whether the intent is bound.
 */
static void
read_present(Facts *facts)
{
	facts->candidate.known = !got_null(0, COL_CANDIDATE_REVISION);
	if (facts->candidate.known)
	{
		facts->candidate.revision = got_int8(0, COL_CANDIDATE_REVISION);
		got_digest(0, COL_CANDIDATE_DIGEST, facts->candidate.digest);
		facts->candidate.source_id = got_text(0, COL_CANDIDATE_SOURCE);
		facts->candidate.source_version = got_text(0, COL_CANDIDATE_SOURCE_VERSION);
	}
	facts->source_version = got_text(0, COL_SOURCE_VERSION);
	facts->bound = !got_null(0, COL_BOUND_DIGEST);
	if (facts->bound)
		got_digest(0, COL_BOUND_DIGEST, facts->bound_digest);
	if (!got_null(0, COL_KEY))
		got_uuid(0, COL_KEY, &facts->idempotency_key);
	facts->provider_ref = got_text(0, COL_PROVIDER_REF);
	facts->requester = got_text(0, COL_REQUESTER);
	facts->waits = !got_null(0, COL_WAITING_DIGEST);
	if (facts->waits)
		got_digest(0, COL_WAITING_DIGEST, facts->waiting_digest);
	facts->waiting_gate = got_text(0, COL_WAITING_GATE);
	facts->rejected = got_text(0, COL_REJECTED);
	facts->has_contract = !got_null(0, COL_CONTRACT_VERSION);
	facts->contract_version = got_int8(0, COL_CONTRACT_VERSION);
	facts->contract_shipped = got_bool(0, COL_CONTRACT_SHIPPED);
	facts->window_until = got_timestamptz(0, COL_WINDOW_UNTIL);
	facts->backup_taken_at = got_timestamptz(0, COL_BACKUP_TAKEN_AT);
}

static void
read_approval(Approval *approval, int row, const Request *request)
{
	approval->approval_id = got_text(row, COL_APPROVAL_ID);
	approval->approver = got_text(row, COL_APPROVER);
	approval->capability = got_text(row, COL_APPROVAL_CAPABILITY);
	approval->expires_at = got_timestamptz(row, COL_EXPIRES_AT);
	approval->revoked = got_bool(row, COL_REVOKED);
	approval->revoked_reason = got_text(row, COL_REVOKED_REASON);
	got_digest(row, COL_APPROVAL_DIGEST, approval->digest);
	approval->same_request = memcmp(approval->digest, subject_digest(request), DIGEST_LENGTH) == 0;
}

/*
 * With an approval named, only that one is tried.  Without, those of this
 * very request; and if there are none, those that the intent had for another
 * content, so that the gate can say what has changed.
 */
bool
approval_is_tried(const Facts *facts, const Approval *approval,
				  const text *approval_id)
{
	int			i;

	if (approval_id != NULL)
		return text_equal(approval->approval_id, approval_id);
	if (approval->same_request)
		return true;
	for (i = 0; i < facts->napprovals; i++)
		if (facts->approvals[i].same_request)
			return false;
	return true;
}

/*
 * In what the approved request differs from the one at hand.  Of a fake
 * task's document, the members that stand for action, destination and
 * candidate are not its content.  What nothing else explains is content.
 */
static void
read_differences(Approval *approval, const Request *request)
{
	static KeptQuery query = {
		"SELECT r.action <> $3, r.destination <> $4,"
		" CASE r.action WHEN '" FAKE_TASK_ACTION "'"
		" THEN r.payload - '{candidate_ref,operation,provider}'::text[]"
		"   <> $5 - '{candidate_ref,operation,provider}'::text[]"
		" ELSE r.payload <> $5 END,"
		" (r.candidate_id, r.candidate_digest) IS DISTINCT FROM ($6, $7),"
		" (r.source_id, r.source_version) IS DISTINCT FROM ($8, $9)"
		" FROM extaction.requests r WHERE r.scope = $1 AND r.request_digest = $2",
		false, 9, {TEXTOID, BYTEAOID, TEXTOID, TEXTOID, JSONBOID, TEXTOID, BYTEAOID, TEXTOID, TEXTOID}, NULL
	};
	const CandidateRef *candidate = request->candidate;
	QueryArgs	args = {0};

	arg_text(&args, request->scope);
	arg_digest(&args, approval->digest);
	arg_text(&args, request->action);
	arg_text(&args, request->destination);
	arg_jsonb(&args, request->payload);
	arg_text(&args, candidate ? candidate->candidate_id : NULL);
	arg_digest(&args, candidate ? candidate->digest : NULL);
	arg_text(&args, candidate ? candidate->source_id : NULL);
	arg_text(&args, candidate ? candidate->source_version : NULL);

	if (query_run_now(&query, &args) == 1)
	{
		approval->action_differs = got_bool(0, 1);
		approval->destination_differs = got_bool(0, 2);
		approval->content_differs = got_bool(0, 3);
		approval->candidate_differs = got_bool(0, 4);
		approval->source_differs = got_bool(0, 5);
	}
	if (!(approval->action_differs || approval->destination_differs ||
		  approval->candidate_differs || approval->source_differs))
		approval->content_differs = true;
}

/*
 * In REPEATABLE READ and stricter, an intent that another session bound after
 * our snapshot was taken is a lost race.
 */
static void
check_own_snapshot(const Request *request)
{
	static KeptQuery query = {
		"SELECT FROM extaction.intents WHERE scope = $1 AND intent_id = $2",
		false, 2, {TEXTOID, TEXTOID}, NULL
	};
	QueryArgs	args = {0};

	arg_text(&args, request->scope);
	arg_text(&args, request->intent_id);
	if (query_run(&query, &args) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not serialize access due to a concurrent first call of the intent")));
}
