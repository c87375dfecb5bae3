/*-------------------------------------------------------------------------
 *
 * facts.c
 *	  What the ledger knows about a request, read in one look.
 *
 * In one look, because all that the gates judge must come from one moment.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "rows.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

static void copy_catalogue(Facts *facts, const Catalogue *catalogue);
static int	compare_approvals(const void *a, const void *b);
static void read_intent(Facts *facts, const Request *request, Intent *intent);
static void read_bound(Facts *facts, const Request *request);
static void read_waiting(Facts *facts, const Request *request);
static void read_rejected(Facts *facts, const Request *request);
static void read_candidate(Facts *facts, const Request *request);
static void read_approvals(Facts *facts, const Request *request, int64 epoch);
static void read_approval(Approval *approval, const GotRow *row, const Request *request,
						  int64 epoch);
static void read_revocation(Approval *approval, text *scope);
static void read_differences(Approval *approval, const Request *request);
static void check_own_snapshot(const Request *request);

/*
 * Loads the facts.  "catalogue_action" is the action whose row the gates ask,
 * approval_id the only approval that will be tried, or NULL.  With "intent",
 * all that the ledger knows of the intent is read into it in the same look;
 * then what only gates ask of a request is not read if it is bound, nor who
 * asked for it.
 */
void
facts_load(Facts *facts, const Request *request, const char *catalogue_action,
		   const Identity *identity, const text *approval_id, Intent *intent)
{
	const Catalogue *catalogue = catalogue_get(catalogue_action);
	int64		epoch = catalogue->epoch;
	int			i;

	memset(facts, 0, sizeof(Facts));
	copy_catalogue(facts, catalogue);
	facts->approvals = palloc(0);
	rows_look(VIEW_NOW);
	facts->may_submit = access_judge(identity, request->scope, "submitter,owner", &facts->vouching);
	if (intent != NULL)
		read_intent(facts, request, intent);
	else
	{
		read_bound(facts, request);
		read_waiting(facts, request);
	}
	if (intent == NULL || !facts->bound)
	{
		read_rejected(facts, request);
		if (request->candidate != NULL && !request->whole_batch)
			read_candidate(facts, request);
		read_approvals(facts, request, epoch);
	}
	rows_look_end(VIEW_NOW);

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
	kept->scope = text_copy(request->scope);
	kept->action = text_copy(request->action);
	kept->batch_id = text_copy(request->batch_id);
	kept->requester.role = requester->role;
	kept->requester.name = text_copy(requester->name);
	MemoryContextSwitchTo(old);
	return verdict;
}

/*
 * What the catalogue says: its memory may go at the next invalidation.
 */
static void
copy_catalogue(Facts *facts, const Catalogue *catalogue)
{
	facts->ledger_id = catalogue->ledger_id;
	facts->window_until = catalogue->window_until;
	facts->backup_taken_at = catalogue->backup_taken_at;
	facts->action_known = catalogue->known;
	facts->action_enabled = catalogue->enabled;
	facts->capability = text_copy(catalogue->capability);
	facts->approvals_required = catalogue->approvals_required;
	facts->self_approval = catalogue->self_approval;
	facts->destination_pattern = text_copy(catalogue->destination_pattern);
	facts->has_contract = catalogue->has_contract;
	facts->contract_version = catalogue->contract_version;
	facts->contract_shipped = catalogue->contract_shipped;
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

static void
read_intent(Facts *facts, const Request *request, Intent *intent)
{
	intent_read(intent, request->scope, request->intent_id);
	facts->bound = intent->bound;
	facts->waits = intent->waits;
	facts->waiting_gate = intent->waiting_gate;
	if (intent->bound)
	{
		memcpy(facts->bound_digest, intent->request.digest, DIGEST_LENGTH);
		facts->idempotency_key = intent->idempotency_key;
	}
	if (intent->waits)
		memcpy(facts->waiting_digest, intent->waiting_digest, DIGEST_LENGTH);
}

static void
read_bound(Facts *facts, const Request *request)
{
	static KeptRows batches = ROWS_OF("batches", "batches_pkey", "request_digest");
	static KeptRows intents = ROWS_OF("intents", "intents_pkey",
									  "request_digest", "requester", "idempotency_key");
	QueryArgs	keys = {0};
	GotRow		row;

	arg_text(&keys, request->scope);
	arg_text(&keys, request->whole_batch ? request->batch_id : request->intent_id);
	facts->bound = row_find(request->whole_batch ? &batches : &intents, &keys, false, &row);
	if (facts->bound)
	{
		row_digest(&row, 1, facts->bound_digest);
		if (!request->whole_batch)
		{
			facts->requester = row_text(&row, 2);
			row_uuid(&row, 3, &facts->idempotency_key);
		}
	}
}

/*
 * What waits under its name; of an item, its batch.
 */
static void
read_waiting(Facts *facts, const Request *request)
{
	static KeptRows waiting = ROWS_OF("waiting", "waiting_pkey", "request_digest", "gate", "requester");
	QueryArgs	keys = {0};
	GotRow		row;

	arg_subject(&keys, request);
	facts->waits = row_find(&waiting, &keys, false, &row);
	if (facts->waits)
	{
		row_digest(&row, 1, facts->waiting_digest);
		facts->waiting_gate = row_word(&row, 2);
		if (!facts->bound || request->whole_batch)
			facts->requester = row_text(&row, 3);
	}
}

/*
 * The last reason why somebody said no to this very request.
 */
static void
read_rejected(Facts *facts, const Request *request)
{
	static KeptRows verdicts = ROWS_OF("events", "events_verdicts", "kind", "request_digest", "detail");
	QueryArgs	keys = {0};
	RowScan		scan;
	GotRow		row;

	arg_text(&keys, request->batch_id ? cstring_to_text("") : request->intent_id);
	arg_text(&keys, request->scope);
	rows_begin(&scan, &verdicts, &keys, true);
	while (rows_next(&scan, &row))
	{
		uint8		digest[DIGEST_LENGTH];

		if (strcmp(row_word(&row, 1), "rejected") != 0)
			continue;
		row_digest(&row, 2, digest);
		if (memcmp(digest, subject_digest(request), DIGEST_LENGTH) == 0)
		{
			facts->rejected = detail_member(row_jsonb(&row, 3), "reason");
			break;
		}
	}
	rows_end(&scan);
}

/*
 * The newest revision of the candidate, and the version of its source that
 * was observed last.
 */
static void
read_candidate(Facts *facts, const Request *request)
{
	static KeptRows candidates = ROWS_OF("candidates", "candidates_pkey",
									  "revision", "digest", "source_id", "source_version");
	static KeptRows sources = ROWS_OF("sources", "sources_pkey", "source_version");
	QueryArgs	candidate = {0};
	QueryArgs	source = {0};
	GotRow		row;

	arg_text(&candidate, request->scope);
	arg_text(&candidate, request->candidate->candidate_id);
	facts->candidate.known = row_find(&candidates, &candidate, true, &row);
	if (facts->candidate.known)
	{
		facts->candidate.revision = row_int8(&row, 1);
		row_digest(&row, 2, facts->candidate.digest);
		facts->candidate.source_id = row_text(&row, 3);
		facts->candidate.source_version = row_text(&row, 4);
	}

	arg_text(&source, request->scope);
	arg_text(&source, request->candidate->source_id);
	if (row_find(&sources, &source, true, &row))
		facts->source_version = row_text(&row, 1);
}

static void
read_approvals(Facts *facts, const Request *request, int64 epoch)
{
	static KeptRows approvals = ROWS_OF("approvals", "approvals_subject",
									  "event_id", "approval_id", "request_digest", "approver", "capability", "expires_at",
									  "epoch");
	QueryArgs	keys = {0};
	RowScan		scan;
	GotRow		row;
	int			room = 0;

	arg_text(&keys, subject_id(request));
	arg_text(&keys, request->scope);
	arg_cstring(&keys, subject_kind(request));
	rows_begin(&scan, &approvals, &keys, false);
	while (rows_next(&scan, &row))
	{
		if (facts->napprovals == room)
		{
			room = Max(4, room * 2);
			facts->approvals = repalloc(facts->approvals, sizeof(Approval) * room);
		}
		read_approval(&facts->approvals[facts->napprovals++], &row, request, epoch);
	}
	rows_end(&scan);
	qsort(facts->approvals, facts->napprovals, sizeof(Approval), compare_approvals);
}

/*
 * One that was given before a restore or in the original of a copy has ended.
 */
static void
read_approval(Approval *approval, const GotRow *row, const Request *request, int64 epoch)
{
	memset(approval, 0, sizeof(Approval));
	approval->event_id = row_int8(row, 1);
	approval->approval_id = row_text(row, 2);
	row_digest(row, 3, approval->digest);
	approval->approver = row_text(row, 4);
	approval->capability = row_text(row, 5);
	approval->expires_at = row_int8(row, 7) == epoch ? row_timestamptz(row, 6) : DT_NOBEGIN;
	approval->same_request = memcmp(approval->digest, subject_digest(request), DIGEST_LENGTH) == 0;
	read_revocation(approval, request->scope);
}

static void
read_revocation(Approval *approval, text *scope)
{
	static KeptRows revocations = ROWS_OF("revocations", "revocations_pkey", "reason");
	QueryArgs	keys = {0};
	GotRow		row;

	arg_text(&keys, scope);
	arg_text(&keys, approval->approval_id);
	approval->revoked = row_find(&revocations, &keys, false, &row);
	if (approval->revoked)
		approval->revoked_reason = row_text(&row, 1);
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
