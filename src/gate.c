/*-------------------------------------------------------------------------
 *
 * gate.c
 *	  May this go, now?  Names the first gate that stops it.
 *
 * The table below is the only home of the gates: their order, what they mean,
 * who can do something about it.  A gate judges facts that were just read; it
 * reads and writes nothing itself.  An approval is judged at the time of
 * clock_timestamp(), not of the transaction, which may have begun long ago.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "extaction.h"
#include "funcapi.h"
#include "utils/builtins.h"

/* What a gate looks at; approval is NULL when there is none to try. */
typedef struct Trial
{
	const Facts *facts;
	const Request *request;
	const Identity *requester;
	const Approval *approval;
	TimestampTz now;
} Trial;

static bool scope_denied(const Trial *trial);
static bool action_unknown(const Trial *trial);
static bool action_disabled(const Trial *trial);
static bool destination_not_allowed(const Trial *trial);
static bool rejected(const Trial *trial);
static bool approval_missing(const Trial *trial);
static bool approval_revoked(const Trial *trial);
static bool approval_expired(const Trial *trial);
static bool action_changed(const Trial *trial);
static bool destination_changed(const Trial *trial);
static bool content_changed(const Trial *trial);
static bool candidate_changed(const Trial *trial);
static bool source_changed(const Trial *trial);
static bool capability_not_granted(const Trial *trial);
static bool self_approval(const Trial *trial);
static bool approvals_insufficient(const Trial *trial);
static Gate first_stop(const Trial *trial);
static bool is_self_approval(const Facts *facts, const Approval *approval,
							 const Identity *requester);
static bool holds(const Facts *facts, const Approval *approval,
				  const Identity *requester, TimestampTz now);

static const struct
{
	const char *name;
	bool		(*stops) (const Trial *trial);
	const char *meaning;
	const char *who_can_fix;
	const char *needs;
}			gates[GATE_COUNT] =
{
	[GATE_SCOPE_DENIED] = {"scope_denied", scope_denied,
		"the caller may not submit in this scope, or there is no such scope", "owner",
	"an owner of the scope has to grant the capability submitter"},
	[GATE_ACTION_UNKNOWN] = {"action_unknown", action_unknown,
		"the catalogue has no such action", "dba",
	"the action has to be added to extaction.actions"},
	[GATE_ACTION_DISABLED] = {"action_disabled", action_disabled,
		"the action is switched off", "dba",
	"the action has to be enabled in extaction.actions"},
	[GATE_DESTINATION_NOT_ALLOWED] = {"destination_not_allowed", destination_not_allowed,
		"the destination does not match the action's destination_pattern", "submitter",
	"another destination, or another destination_pattern in extaction.actions"},
	[GATE_REJECTED] = {"rejected", rejected,
		"an approver has said no to this very request", "submitter",
	"another content, which then waits anew"},
	[GATE_APPROVAL_MISSING] = {"approval_missing", approval_missing,
		"nobody has approved this request, or the approval that was named is not for this intent", "approver",
	"an approver has to approve this very request"},
	[GATE_APPROVAL_REVOKED] = {"approval_revoked", approval_revoked,
		"the approval was taken back", "approver",
	"an approver has to approve the request anew"},
	[GATE_APPROVAL_EXPIRED] = {"approval_expired", approval_expired,
		"the approval has ended", "approver",
	"an approver has to approve the request anew"},
	[GATE_ACTION_CHANGED] = {"action_changed", action_changed,
		"another action was approved", "approver",
	"an approver has to approve this action, or the approved one has to be submitted"},
	[GATE_DESTINATION_CHANGED] = {"destination_changed", destination_changed,
		"another destination was approved", "approver",
	"an approver has to approve this destination, or the approved one has to be submitted"},
	[GATE_CONTENT_CHANGED] = {"content_changed", content_changed,
		"another content was approved", "approver",
	"an approver has to approve this content, or the approved one has to be submitted"},
	[GATE_CANDIDATE_CHANGED] = {"candidate_changed", candidate_changed,
		"the candidate is not, or no longer, the one that was approved", "submitter",
	"a request for the candidate's newest revision, with an approval of its own"},
	[GATE_SOURCE_CHANGED] = {"source_changed", source_changed,
		"the source has another version than the one that was approved", "submitter",
	"a candidate read from the current version of the source, with an approval of its own"},
	[GATE_CAPABILITY_NOT_GRANTED] = {"capability_not_granted", capability_not_granted,
		"the approval names another capability than the action takes", "approver",
	"an approver has to approve the request with the action's capability"},
	[GATE_SELF_APPROVAL] = {"self_approval", self_approval,
		"the requester approved it", "approver",
	"somebody else than the requester has to approve the request"},
	[GATE_APPROVALS_INSUFFICIENT] = {"approvals_insufficient", approvals_insufficient,
		"fewer different people have approved it than the action takes", "approver",
	"another approver has to approve the request"},
};

PG_FUNCTION_INFO_V1(extaction_gate_list);

/*
 * Asks the gates of every approval that may be tried, and answers for the
 * one that comes furthest.
 */
Verdict
gate_check(const Facts *facts, const Request *request,
		   const Identity *identity, const text *approval_id)
{
	Trial		trial = {facts, request, identity, NULL, GetCurrentTimestamp()};
	Verdict		verdict = {first_stop(&trial), NULL};
	int			i;

	for (i = 0; i < facts->napprovals && verdict.gate >= GATE_APPROVAL_MISSING; i++)
	{
		Gate		gate;

		if (!approval_is_tried(facts, &facts->approvals[i], approval_id))
			continue;
		trial.approval = &facts->approvals[i];
		gate = first_stop(&trial);
		if (verdict.approval == NULL || gate > verdict.gate)
		{
			verdict.gate = gate;
			verdict.approval = trial.approval;
		}
	}
	return verdict;
}

/*
 * Does this one gate stop the request?
 */
bool
gate_stops(Gate gate, const Facts *facts, const Request *request,
		   const Identity *identity, const Approval *approval)
{
	Trial		trial = {facts, request, identity, approval, GetCurrentTimestamp()};

	return gates[gate].stops(&trial);
}

static Gate
first_stop(const Trial *trial)
{
	int			gate;

	for (gate = 0; gate < GATE_COUNT; gate++)
		if (gates[gate].stops(trial))
			break;
	return (Gate) gate;
}

/*
 * How many different identities' approvals of the request hold.
 */
int64
approvals_holding(const Facts *facts, const Identity *requester, TimestampTz now)
{
	int64		count = 0;
	int			i;

	for (i = 0; i < facts->napprovals; i++)
	{
		int			j;

		if (!holds(facts, &facts->approvals[i], requester, now))
			continue;
		for (j = 0; j < i; j++)
			if (holds(facts, &facts->approvals[j], requester, now) &&
				text_equal(facts->approvals[i].approver, facts->approvals[j].approver))
				break;
		if (j == i)
			count++;
	}
	return count;
}

/*
 * Until when enough approvals hold; NO_TIME if they do not.  Approvals by the
 * same identity count once, with the latest end.
 */
TimestampTz
approvals_end(const Facts *facts, const Identity *requester, TimestampTz now)
{
	TimestampTz end = NO_TIME;
	int			i;

	/* the ends are few: take the latest that enough identities reach */
	for (i = 0; i < facts->napprovals; i++)
		if (holds(facts, &facts->approvals[i], requester, now) &&
			facts->approvals[i].expires_at > end &&
			approvals_holding(facts, requester, facts->approvals[i].expires_at - 1) >=
			facts->approvals_required)
			end = facts->approvals[i].expires_at;
	return end;
}

/*
 * requester is NULL where nobody has asked yet.
 */
static bool
is_self_approval(const Facts *facts, const Approval *approval,
				 const Identity *requester)
{
	return !facts->self_approval && requester != NULL &&
		text_equal(approval->approver, requester->name);
}

static bool
holds(const Facts *facts, const Approval *approval,
	  const Identity *requester, TimestampTz now)
{
	return approval->same_request && !approval->revoked &&
		now < approval->expires_at &&
		text_equal(approval->capability, facts->capability) &&
		!is_self_approval(facts, approval, requester);
}

/*
 * The gates, in their order: true stops the request.
 */
static bool
scope_denied(const Trial *trial)
{
	return !trial->facts->may_submit;
}

static bool
action_unknown(const Trial *trial)
{
	return !trial->facts->action_known;
}

static bool
action_disabled(const Trial *trial)
{
	return !trial->facts->action_enabled;
}

static bool
destination_not_allowed(const Trial *trial)
{
	return !trial->facts->destination_allowed;
}

static bool
rejected(const Trial *trial)
{
	return trial->facts->rejected != NULL;
}

static bool
approval_missing(const Trial *trial)
{
	return trial->approval == NULL;
}

static bool
approval_revoked(const Trial *trial)
{
	return trial->approval && trial->approval->revoked;
}

static bool
approval_expired(const Trial *trial)
{
	return trial->approval && trial->now >= trial->approval->expires_at;
}

static bool
action_changed(const Trial *trial)
{
	return trial->approval && trial->approval->action_differs;
}

static bool
destination_changed(const Trial *trial)
{
	return trial->approval && trial->approval->destination_differs;
}

static bool
content_changed(const Trial *trial)
{
	return trial->approval && trial->approval->content_differs;
}

static bool
candidate_changed(const Trial *trial)
{
	const CandidateRef *asked = trial->request->candidate;
	const Candidate *current = &trial->facts->candidate;

	if (trial->approval && trial->approval->candidate_differs)
		return true;
	return asked != NULL &&
		(!current->known ||
		 memcmp(asked->digest, current->digest, DIGEST_LENGTH) != 0);
}

static bool
source_changed(const Trial *trial)
{
	const CandidateRef *asked = trial->request->candidate;
	const Candidate *current = &trial->facts->candidate;

	if (trial->approval && trial->approval->source_differs)
		return true;
	if (asked == NULL)
		return false;
	if (!text_equal(asked->source_id, current->source_id) ||
		!text_equal(asked->source_version, current->source_version))
		return true;
	return trial->facts->source_version != NULL &&
		!text_equal(asked->source_version, trial->facts->source_version);
}

static bool
capability_not_granted(const Trial *trial)
{
	return trial->approval &&
		!text_equal(trial->approval->capability, trial->facts->capability);
}

static bool
self_approval(const Trial *trial)
{
	return trial->approval &&
		is_self_approval(trial->facts, trial->approval, trial->requester);
}

static bool
approvals_insufficient(const Trial *trial)
{
	return approvals_holding(trial->facts, trial->requester, trial->now) <
		trial->facts->approvals_required;
}

const char *
gate_name(Gate gate)
{
	return gates[gate].name;
}

/*
 * The gate that a row of the ledger names.
 */
Gate
gate_by_name(const char *name)
{
	int			gate;

	for (gate = 0; gate < GATE_COUNT; gate++)
		if (strcmp(gates[gate].name, name) == 0)
			return (Gate) gate;
	elog(ERROR, "unknown gate \"%s\"", name);
}

const char *
gate_needs(Gate gate)
{
	return gates[gate].needs;
}

const char *
gate_who(Gate gate)
{
	return gates[gate].who_can_fix;
}

/*
 * Whom a stopped request waits for, as a next_step.
 */
const char *
gate_next_step(Gate gate)
{
	return strcmp(gates[gate].who_can_fix, "approver") == 0 ? "approve" : "human";
}

/*
 * gate_list() returns setof (gate, meaning, who_can_fix)
 */
Datum
extaction_gate_list(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	int			gate;

	InitMaterializedSRF(fcinfo, 0);
	for (gate = 0; gate < GATE_COUNT; gate++)
	{
		Datum		values[3];
		bool		nulls[3] = {false, false, false};

		values[0] = CStringGetTextDatum(gates[gate].name);
		values[1] = CStringGetTextDatum(gates[gate].meaning);
		values[2] = CStringGetTextDatum(gates[gate].who_can_fix);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}
