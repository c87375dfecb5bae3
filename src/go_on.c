/*-------------------------------------------------------------------------
 *
 * go_on.c
 *	  What a gate has stopped goes on from where it stopped.
 *
 * Two kinds of things stand still: a request that waits, which nothing is
 * bound for yet, and an intent that claim found blocked.  An approval lets
 * them go on (approve.c); and where it is the catalogue or the access that
 * stopped them, sweep() does once that is mended, since no approver is asked
 * about it.  Every gate is asked again; the next one that says no is what
 * they wait for then.
 *
 * The caller holds the exclusive lock of the subject that waits, or the row of
 * the intent that is blocked.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "extaction.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#define MEND_SIZE 1000			/* of each kind, in one sweep */

static void bind(Request *request, Facts *facts, const Approval *approval,
				 const Identity *requester, const Order *order);
static int64 forget_answered(const Identity *identity);
static int64 for_each(KeptQuery *query, const Identity *identity,
					  bool (*go_on) (text *scope, text *kind, text *id, const Identity *identity));
static bool load_waiting(Request *request, CandidateRef *candidate, Identity *requester,
						 Order *order, text *scope, text *kind, text *id);
static bool end_waiting(text *scope, text *kind, text *id, const Identity *identity);
static bool mend_waiting(text *scope, text *kind, text *id, const Identity *identity);
static bool mend_blocked(text *scope, text *kind, text *id, const Identity *identity);

/*
 * Answers the gate that stops what waits; GATE_COUNT if none does, and it goes
 * on in the name of who submitted it.
 */
Gate
go_on_waiting(Request *request, Facts *facts, const Identity *requester, const Order *order)
{
	Verdict		verdict = gate_check(facts, request, requester, NULL);

	if (verdict.gate != GATE_COUNT)
		ledger_wait(request, verdict.gate, requester, order);
	else if (request->whole_batch)
		batch_go_on(request, facts, verdict.approval->approval_id, requester, order);
	else
		bind(request, facts, verdict.approval, requester, order);
	return verdict.gate;
}

static void
bind(Request *request, Facts *facts, const Approval *approval, const Identity *requester,
	 const Order *order)
{
	Receipt		event = NO_RECEIPT;

	idempotency_key(&facts->ledger_id, request->scope, request->intent_id, &facts->idempotency_key);
	if (ledger_bind(request, facts, approval->approval_id, requester, order, &event) &&
		order->compensates != NULL)
		ledger_compensated(request, order->compensates, requester);
	(void) ledger_stop_waiting(request->scope, "intent", request->intent_id, NULL);
}

/*
 * An intent that claim had found blocked is prepared again, if every gate
 * passes now but the switch, which claim asks; else it may be another gate
 * that stops it.
 */
void
go_on_blocked(Intent *intent, const Identity *identity)
{
	Facts		facts;
	Verdict		verdict = intent_gates(intent, &facts);
	Work	   *work = &intent->work;
	Receipt		event = NO_RECEIPT;

	if (verdict.gate == GATE_COUNT || verdict.gate == GATE_ACTION_DISABLED)
	{
		work_set_state(work, "prepared", GetCurrentTimestamp());
		event.approval_id = verdict.approval ? verdict.approval->approval_id : NULL;
		event.detail = detail_words("state", "prepared", NULL);
		ledger_append(&event, "released", &intent->request, identity);
	}
	else if (strcmp(work->gate, gate_name(verdict.gate)) != 0)
	{
		work->gate = gate_name(verdict.gate);
		work->needs = gate_needs(verdict.gate);
		event.detail = detail_words("gate", work->gate, "needs", work->needs, NULL);
		ledger_append(&event, "blocked", &intent->request, identity);
	}
	ledger_put_work(intent);
}

/*
 * The same for the items of a list.
 */
void
go_on_blocked_items(const Request *batch, const Identity *identity)
{
	static KeptQuery query = {
		"SELECT w.intent_id FROM extaction.intents i"
		" JOIN extaction.worklist w ON w.scope = i.scope AND w.intent_id = i.intent_id"
		" WHERE i.scope = $1 AND i.batch_id = $2 AND w.state = 'blocked'"
		" ORDER BY w.intent_id FOR UPDATE OF w",
		false, 2, {TEXTOID, TEXTOID}, NULL
	};
	MemoryContext memory = AllocSetContextCreate(CurrentMemoryContext, "extaction batch item",
												 ALLOCSET_DEFAULT_SIZES);
	QueryArgs	args = {0};
	int			count;
	text	  **names;
	int			i;

	arg_text(&args, batch->scope);
	arg_text(&args, batch->batch_id);
	count = (int) query_run_and_sort(&query, &args);
	names = palloc(sizeof(text *) * Max(count, 1));
	for (i = 0; i < count; i++)
		names[i] = got_text(i, 1);
	for (i = 0; i < count; i++)
	{
		MemoryContext old = MemoryContextSwitchTo(memory);

		CHECK_FOR_INTERRUPTS();
		(void) mend_blocked(batch->scope, NULL, names[i], identity);
		MemoryContextSwitchTo(old);
		MemoryContextReset(memory);
	}
	MemoryContextDelete(memory);
}

/*
 * Is the role a submitter in the scope?
 */
#define SUBMITS_SQL(scope, role) \
	"EXISTS (SELECT FROM extaction.scope_members m" \
	"        WHERE m.scope = " scope " AND m.capability IN ('submitter', 'owner')" \
	"          AND pg_get_userbyid(m.member::oid) = m.member_name" \
	"          AND pg_has_role(" role ", m.member::oid, 'USAGE'))"

/*
 * Is what stopped it mended?  Only of gates that no approver can open; of
 * table "stopped", which has scope, gate, role and kind, of action a, and of
 * request r.
 */
#define MENDED_SQL(stopped, role, kind) \
	"CASE " stopped ".gate" \
	" WHEN 'scope_denied' THEN " SUBMITS_SQL(stopped ".scope", "to_regrole(quote_ident(" role "))::oid") \
	" WHEN 'action_unknown' THEN a.action IS NOT NULL" \
	" WHEN 'action_disabled' THEN a.enabled" \
	" WHEN 'destination_not_allowed' THEN a.destination_pattern IS NULL" \
	"  OR CASE " kind " WHEN 'intent' THEN r.destination ~ a.destination_pattern" \
	"     ELSE NOT EXISTS (SELECT FROM jsonb_array_elements(r.payload -> 'items') t" \
	"                      WHERE (t.value ->> 'destination') COLLATE \"C\" !~ a.destination_pattern) END" \
	" ELSE false END"

/*
 * What the catalogue or the access had stopped and stops no more, in the
 * scopes where the caller is a worker; and what has waited for too long ends.
 * Answers how many moved.  A fake task goes on only when its caller submits it
 * again.
 */
int64
go_on_mended(const Identity *identity)
{
	static KeptQuery late = {
		"SELECT w.scope, w.kind, w.id FROM extaction.waiting w"
		" JOIN extaction.requests r ON r.scope = w.scope AND r.request_digest = w.request_digest"
		" JOIN extaction.actions a ON a.action = r.action"
		" WHERE w.since + a.request_ttl <= clock_timestamp()"
		"   AND NOT EXISTS (SELECT FROM extaction.intents i"
		"                   WHERE w.kind = 'intent' AND i.scope = w.scope AND i.intent_id = w.id)"
		"   AND " WORKS_IN_SQL("w.scope", "$1")
		" ORDER BY w.since LIMIT $2",
		false, 2, {OIDOID, INT8OID}, NULL
	};
	static KeptQuery waiting = {
		"SELECT w.scope, w.kind, w.id FROM extaction.waiting w"
		" JOIN extaction.requests r ON r.scope = w.scope AND r.request_digest = w.request_digest"
		" LEFT JOIN extaction.actions a ON a.action = r.action"
		" WHERE w.gate IN ('scope_denied', 'action_unknown', 'action_disabled', 'destination_not_allowed')"
		"   AND " MENDED_SQL("w", "w.role", "w.kind")
		"   AND (r.payload ->> 'schema_version') IS DISTINCT FROM 'task-request.v1'"
		"   AND " WORKS_IN_SQL("w.scope", "$1")
		" ORDER BY w.since LIMIT $2",
		false, 2, {OIDOID, INT8OID}, NULL
	};
	static KeptQuery blocked = {
		"SELECT w.scope, 'intent', w.intent_id FROM extaction.worklist w"
		" JOIN extaction.intents r ON r.scope = w.scope AND r.intent_id = w.intent_id"
		" LEFT JOIN extaction.actions a ON a.action = w.action"
		" WHERE w.state = 'blocked' AND w.gate IN ('scope_denied', 'action_unknown', 'destination_not_allowed')"
		"   AND " MENDED_SQL("w", "r.role", "'intent'")
		"   AND " WORKS_IN_SQL("w.scope", "$1")
		" ORDER BY w.since LIMIT $2 FOR UPDATE OF w SKIP LOCKED",
		false, 2, {OIDOID, INT8OID}, NULL
	};

	return forget_answered(identity) + for_each(&late, identity, end_waiting) +
		for_each(&waiting, identity, mend_waiting) + for_each(&blocked, identity, mend_blocked);
}

/*
 * See ledger_stop_waiting_bound().
 */
static int64
forget_answered(const Identity *identity)
{
	static KeptQuery query = {
		"DELETE FROM extaction.waiting w USING ("
		" SELECT w.scope, w.id FROM extaction.waiting w"
		" JOIN extaction.intents i ON i.scope = w.scope AND i.intent_id = w.id"
		" WHERE w.kind = 'intent' AND " WORKS_IN_SQL("w.scope", "$1")
		/* but a fake task that was stopped after it had happened */
		"   AND NOT (i.action = '" FAKE_TASK_ACTION "'"
		"            AND EXISTS (SELECT FROM extaction.events h"
		"                        JOIN extaction.events b ON b.scope = h.scope AND b.intent_id = h.intent_id"
		"                         AND b.event_id > h.event_id AND b.kind = 'blocked'"
		"                        WHERE h.scope = w.scope AND h.intent_id = w.id AND h.kind = 'happened'))"
		" ORDER BY w.scope, w.id LIMIT $2 FOR UPDATE OF w SKIP LOCKED) answered"
		" WHERE w.scope = answered.scope AND w.kind = 'intent' AND w.id = answered.id",
		false, 2, {OIDOID, INT8OID}, NULL
	};
	QueryArgs	args = {0};

	arg_oid(&args, identity->role);
	arg_int8(&args, MEND_SIZE);
	return (int64) query_run(&query, &args);
}

static int64
for_each(KeptQuery *query, const Identity *identity,
		 bool (*go_on) (text *scope, text *kind, text *id, const Identity *identity))
{
	MemoryContext memory = AllocSetContextCreate(CurrentMemoryContext, "extaction go on",
												 ALLOCSET_DEFAULT_SIZES);
	QueryArgs	args = {0};
	text	 *(*names)[3];
	int64		moved = 0;
	int			count;
	int			i;

	arg_oid(&args, identity->role);
	arg_int8(&args, MEND_SIZE);
	count = (int) query_run(query, &args);
	names = palloc(sizeof(*names) * Max(count, 1));
	for (i = 0; i < count; i++)
	{
		names[i][0] = got_text(i, 1);
		names[i][1] = got_text(i, 2);
		names[i][2] = got_text(i, 3);
	}
	for (i = 0; i < count; i++)
	{
		MemoryContext old = MemoryContextSwitchTo(memory);

		CHECK_FOR_INTERRUPTS();
		if (go_on(names[i][0], names[i][1], names[i][2], identity))
			moved++;
		MemoryContextSwitchTo(old);
		MemoryContextReset(memory);
	}
	MemoryContextDelete(memory);
	return moved;
}

/*
 * What waits under that name, its lock held.  False if nothing does, or if
 * somebody is just deciding about it, who will ask the gates anyway.
 */
static bool
load_waiting(Request *request, CandidateRef *candidate, Identity *requester, Order *order,
			 text *scope, text *kind, text *id)
{
	static KeptQuery query = {
		"SELECT request_digest FROM extaction.waiting WHERE scope = $1 AND kind = $2 AND id = $3",
		false, 3, {TEXTOID, TEXTOID, TEXTOID}, NULL
	};
	QueryArgs	args = {0};
	uint8		digest[DIGEST_LENGTH];

	if (!ledger_try_lock_subject(scope, text_to_cstring(kind), id, true))
		return false;
	arg_text(&args, scope);
	arg_text(&args, kind);
	arg_text(&args, id);
	if (query_run_now(&query, &args) == 0)
		return false;
	got_digest(0, 1, digest);
	return request_load(request, candidate, requester, order, scope, digest) &&
		requester->name != NULL;
}

static bool
mend_waiting(text *scope, text *kind, text *id, const Identity *identity)
{
	Request		request;
	CandidateRef candidate;
	Identity	requester;
	Order		order;
	Facts		facts;

	(void) identity;
	if (!load_waiting(&request, &candidate, &requester, &order, scope, kind, id) ||
		is_task_request(request.payload))
		return false;
	facts_load(&facts, &request, text_to_cstring(request.action), &requester, NULL, NULL);
	if (facts.bound)
		return false;
	(void) go_on_waiting(&request, &facts, &requester, &order);
	return true;
}

/*
 * Nobody has let it go on in time.  Submitted again, it waits anew.
 */
static bool
end_waiting(text *scope, text *kind, text *id, const Identity *identity)
{
	Request		request;
	CandidateRef candidate;
	Identity	requester;
	Order		order;
	Receipt		event = NO_RECEIPT;

	/* a submit that binds it has taken it off the list */
	if (!load_waiting(&request, &candidate, &requester, &order, scope, kind, id) ||
		!ledger_stop_waiting(scope, text_to_cstring(kind), id, NULL))
		return false;
	event.detail = detail_words("reason", "it has waited for longer than the action's request_ttl", NULL);
	ledger_append(&event, "cancelled", &request, identity);
	return true;
}

static bool
mend_blocked(text *scope, text *kind, text *id, const Identity *identity)
{
	Intent		intent;

	(void) kind;
	if (!intent_load(&intent, scope, id, false) || !intent.open ||
		strcmp(intent.work.state, "blocked") != 0)
		return false;
	go_on_blocked(&intent, identity);
	return true;
}
