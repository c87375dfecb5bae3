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
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "extaction.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

static void copy_catalogue(Facts *facts, const Catalogue *catalogue);
static text *copy_text(const text *value);
static int	compare_approvals(const void *a, const void *b);
static void read_present(Facts *facts);
static void read_approval(Approval *approval, int row, const Request *request);
static void read_differences(Approval *approval, const Request *request);
static void check_own_snapshot(const Request *request);

/* The columns of the statement in facts_load(), in order. */
enum
{
	COL_ACCESS = 1,
	COL_CANDIDATE,
	COL_SOURCE_VERSION,
	COL_BOUND,
	COL_WAITING,
	COL_REJECTED,
	COL_APPROVAL_ID,
	COL_APPROVAL_DIGEST,
	COL_APPROVER,
	COL_APPROVAL_CAPABILITY,
	COL_EXPIRES_AT,
	COL_REVOKED_REASON,
	COL_APPROVAL_EVENT
};

/*
 * The statement.  Every level of a join passes on all columns below it, and
 * that costs more than the scans; so each table is asked by a subquery of its
 * own that returns one value, a row if need be.  What a request does not have
 * is not asked for.
 */
#define FACTS_SQL(candidate, source_version, bound) \
	"SELECT " ACCESS_SQL("$3", "$1") ", " \
	candidate ", " source_version ", " bound "," \
	" (SELECT ROW(w.request_digest, w.gate, w.requester) FROM extaction.waiting w" \
	"  WHERE w.scope = $1 AND w.kind = $6 AND w.id = $9)," \
	" (SELECT e.detail ->> 'reason' FROM extaction.events e" \
	"  WHERE e.scope = $1 AND e.intent_id = CASE $6 WHEN 'batch' THEN '' ELSE $9 END" \
	"    AND e.kind = 'rejected' AND e.request_digest = $7 ORDER BY e.event_id DESC LIMIT 1)," \
	" p.approval_id, p.request_digest, p.approver, p.capability," \
	" CASE WHEN p.epoch = $8 THEN p.expires_at ELSE '-infinity' END," \
	" (SELECT r.reason FROM extaction.revocations r WHERE r.scope = $1 AND r.approval_id = p.approval_id)," \
	" p.event_id" \
	" FROM (SELECT 1) AS always" \
	" LEFT JOIN extaction.approvals p ON p.scope = $1 AND p.kind = $6 AND p.id = $9"

#define BOUND_INTENT \
	"(SELECT ROW(i.request_digest, i.requester, i.idempotency_key) FROM extaction.intents i" \
	" WHERE i.scope = $1 AND i.intent_id = $2)"

#define FACTS_ARGS \
	false, 9, {TEXTOID, TEXTOID, OIDOID, TEXTOID, TEXTOID, TEXTOID, BYTEAOID, INT8OID, TEXTOID}, NULL

/*
 * Loads the facts; a row per approval of the intent, or one without.
 * "catalogue_action" is the action whose row the gates ask, approval_id the
 * only approval that will be tried, or NULL.
 */
void
facts_load(Facts *facts, const Request *request, const char *catalogue_action,
		   const Identity *identity, const text *approval_id)
{
	static KeptQuery plain = {
		FACTS_SQL("NULL", "NULL", BOUND_INTENT), FACTS_ARGS
	};
	static KeptQuery with_candidate = {
		FACTS_SQL("(SELECT ROW(c.revision, c.digest, c.source_id, c.source_version) FROM extaction.candidates c"
				  " WHERE c.scope = $1 AND c.candidate_id = $4 ORDER BY c.revision DESC LIMIT 1)",
				  "(SELECT s.source_version FROM extaction.sources s"
				  " WHERE s.scope = $1 AND s.source_id = $5 ORDER BY s.event_id DESC LIMIT 1)",
				  BOUND_INTENT),
		FACTS_ARGS
	};
	static KeptQuery of_batch = {
		FACTS_SQL("NULL", "NULL",
				  "(SELECT ROW(b.request_digest) FROM extaction.batches b"
				  " WHERE b.scope = $1 AND b.batch_id = $9)"),
		FACTS_ARGS
	};
	const Catalogue *catalogue = catalogue_get(catalogue_action);
	QueryArgs	args = {0};
	int			i;

	arg_text(&args, request->scope);
	arg_text(&args, request->whole_batch ? NULL : request->intent_id);
	arg_oid(&args, identity->role);
	arg_text(&args, request->candidate ? request->candidate->candidate_id : NULL);
	arg_text(&args, request->candidate ? request->candidate->source_id : NULL);
	arg_cstring(&args, subject_kind(request));
	arg_digest(&args, subject_digest(request));
	arg_int8(&args, catalogue->epoch);
	arg_text(&args, subject_id(request));

	memset(facts, 0, sizeof(Facts));
	copy_catalogue(facts, catalogue);
	facts->napprovals = (int) query_run_now(request->whole_batch ? &of_batch :
											request->candidate ? &with_candidate : &plain, &args);
	read_present(facts);
	if (got_null(0, COL_APPROVAL_ID))
		facts->napprovals = 0;
	facts->approvals = palloc0(sizeof(Approval) * Max(facts->napprovals, 1));
	for (i = 0; i < facts->napprovals; i++)
		read_approval(&facts->approvals[i], i, request);
	qsort(facts->approvals, facts->napprovals, sizeof(Approval), compare_approvals);
	facts->destination_allowed = request->whole_batch
		? batch_destinations_allowed(request, facts->destination_pattern)
		: destination_matches(request->destination, facts->destination_pattern);
	for (i = 0; i < facts->napprovals; i++)
		if (!facts->approvals[i].same_request &&
			approval_is_tried(facts, &facts->approvals[i], approval_id))
			read_differences(&facts->approvals[i], request);
	if (facts->bound && facts->may_submit && !request->whole_batch && IsolationUsesXactSnapshot())
		check_own_snapshot(request);
}

/*
 * To begin with.
 */
BatchFacts
no_batch_facts(void)
{
	BatchFacts	none = {0};

	none.memory = AllocSetContextCreate(CurrentMemoryContext, "extaction batch facts",
										ALLOCSET_DEFAULT_SIZES);
	return none;
}

/*
 * The gates for an intent.  What they ask about an item of a batch is the
 * same for all its items, so it is kept from one to the next, if all gates
 * let the first one pass.  The caller holds the lock of the batch, so nobody
 * decides about it in the meantime.
 */
Verdict
intent_gates_next(const Intent *intent, Facts *facts, BatchFacts *kept)
{
	const Request *request = &intent->request;
	const Identity *requester = &intent->requester;
	MemoryContext old;
	Verdict		verdict;

	if (request->batch_id == NULL)
		return intent_gates(intent, facts);
	if (kept->passed && kept->requester.role == requester->role &&
		text_equal(kept->requester.name, requester->name) &&
		text_equal(kept->scope, request->scope) && text_equal(kept->action, request->action) &&
		text_equal(kept->batch_id, request->batch_id))
	{
		*facts = kept->facts;
		facts->destination_allowed = destination_matches(request->destination, facts->destination_pattern);
		return gate_check(facts, request, requester, NULL);
	}
	MemoryContextReset(kept->memory);
	old = MemoryContextSwitchTo(kept->memory);
	verdict = intent_gates(intent, facts);
	kept->passed = verdict.gate == GATE_COUNT;
	kept->facts = *facts;
	kept->scope = copy_text(request->scope);
	kept->action = copy_text(request->action);
	kept->batch_id = copy_text(request->batch_id);
	kept->requester.role = requester->role;
	kept->requester.name = copy_text(requester->name);
	MemoryContextSwitchTo(old);
	return verdict;
}

/*
 * What the catalogue says.
 */
static void
copy_catalogue(Facts *facts, const Catalogue *catalogue)
{
	facts->ledger_id = catalogue->ledger_id;
	facts->window_until = catalogue->window_until;
	facts->backup_taken_at = catalogue->backup_taken_at;
	facts->action_known = catalogue->known;
	facts->action_enabled = catalogue->enabled;
	facts->capability = copy_text(catalogue->capability);
	facts->approvals_required = catalogue->approvals_required;
	facts->self_approval = catalogue->self_approval;
	facts->destination_pattern = copy_text(catalogue->destination_pattern);
	facts->has_contract = catalogue->has_contract;
	facts->contract_version = catalogue->contract_version;
	facts->contract_shipped = catalogue->contract_shipped;
}

/*
 * The memory of the catalogue may go at the next invalidation.
 */
static text *
copy_text(const text *value)
{
	return value ? (text *) memcpy(palloc(VARSIZE_ANY(value)), value, VARSIZE_ANY(value)) : NULL;
}

/*
 * Does a destination match the action's pattern?  NULL is any, and one that
 * has been erased was asked about before.
 */
bool
destination_matches(const text *destination, const text *pattern)
{
	return pattern == NULL || destination == NULL || VARSIZE_ANY_EXHDR(destination) == 0 ||
		DatumGetBool(DirectFunctionCall2Coll(textregexeq, C_COLLATION_OID,
											 PointerGetDatum(destination),
											 PointerGetDatum(pattern)));
}

/*
 * In the order in which they were given.
 */
static int
compare_approvals(const void *a, const void *b)
{
	int64		one = ((const Approval *) a)->event_id;
	int64		other = ((const Approval *) b)->event_id;

	return one < other ? -1 : one > other;
}

/*
 * What is current, and whether the intent is bound.
 */
static void
read_present(Facts *facts)
{
	GotRow		row;

	facts->may_submit = access_judge(0, COL_ACCESS, "submitter,owner", &facts->vouching);
	facts->candidate.known = got_row(0, COL_CANDIDATE, &row);
	if (facts->candidate.known)
	{
		facts->candidate.revision = row_int8(&row, 1);
		row_digest(&row, 2, facts->candidate.digest);
		facts->candidate.source_id = row_text(&row, 3);
		facts->candidate.source_version = row_text(&row, 4);
	}
	facts->source_version = got_text(0, COL_SOURCE_VERSION);
	facts->waits = got_row(0, COL_WAITING, &row);
	if (facts->waits)
	{
		row_digest(&row, 1, facts->waiting_digest);
		facts->waiting_gate = row_text(&row, 2);
		facts->requester = row_text(&row, 3);
	}
	facts->bound = got_row(0, COL_BOUND, &row);
	if (facts->bound)
	{
		row_digest(&row, 1, facts->bound_digest);
		if (row.count > 1)
		{
			facts->requester = row_text(&row, 2);
			row_uuid(&row, 3, &facts->idempotency_key);
		}
	}
	facts->rejected = got_text(0, COL_REJECTED);
}

static void
read_approval(Approval *approval, int row, const Request *request)
{
	approval->approval_id = got_text(row, COL_APPROVAL_ID);
	approval->approver = got_text(row, COL_APPROVER);
	approval->capability = got_text(row, COL_APPROVAL_CAPABILITY);
	approval->expires_at = got_timestamptz(row, COL_EXPIRES_AT);
	approval->revoked_reason = got_text(row, COL_REVOKED_REASON);
	approval->revoked = approval->revoked_reason != NULL;
	approval->event_id = got_int8(row, COL_APPROVAL_EVENT);
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
		" FROM extaction.requests r WHERE r.scope = $1 AND r.request_digest = $2 AND r.payload <> 'null'",
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
