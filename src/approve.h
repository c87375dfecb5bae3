/*-------------------------------------------------------------------------
 *
 * approve.h
 *	  What the verbs about approvals share: approve.c and revoke.c.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef EXTACTION_APPROVE_H
#define EXTACTION_APPROVE_H

#include "extaction.h"

/* One call about an approval. */
typedef struct Approving
{
	Request		request;
	CandidateRef candidate;
	Identity	requester;		/* name is NULL: nobody has asked yet */
	Order		order;
	Identity	approver;
	text	   *approval_id;
	text	   *capability;		/* NULL: the action's */
	text	   *note;
	bool		has_end;
	TimestampTz expires_at;
	Facts		facts;
	Intent		intent;
	/* the answer */
	const char *status;
	const char *needs;
	Jsonb	   *detail;
} Approving;

extern void approving_look(Approving *approving);
extern Datum approval_receipt_and_leave(FunctionCallInfo fcinfo, Approving *approving,
										LedgerVisit *visit);

#endif							/* EXTACTION_APPROVE_H */
