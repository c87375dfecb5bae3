/*-------------------------------------------------------------------------
 *
 * dispatch.c
 *	  Going out, first step: a ticket, which is the right to send, resend or
 *	  look up a set of intents for a while.
 *
 * claim writes "sending, attempt n" and must be committed before claimed
 * (ticket.c) shows what to send: two statements on purpose, so that nothing
 * can be read as sendable before its record is on disk.
 *
 * Every item is judged by all gates.  claim holds its worklist row until it
 * commits, and a revocation waits for that row, so that it can say what is
 * out.  For the items of a batch it holds the batch's lock, shared, if it is
 * free: a batch about which somebody is deciding right now is left for the
 * next claim.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "extaction.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#define MAX_CLAIM 10000
#define MAX_LOOKED_AT 20000		/* worklist rows that one claim judges */
#define SWEEP_SIZE 1000
#define BLOCKS_A_DUE_ROW 25		/* that their statements touch: see mark.c */
#define BLOCKS_A_SWEPT_ROW 100

/* One call of claim. */
typedef struct Claim
{
	Identity	identity;
	text	   *worker;
	int64		max_intents;
	const char *step;
	int64		lease_us;
	bool		lease_given;
	text	   *action;
	text	   *provider;
	text	   *scope;
	TimestampTz now;
	/* the answer */
	int64		claim_id;
	int64		claimed;
	int64		blocked;
	TimestampTz lease_until;
	TimestampTz next_due_at;
	BatchFacts	batch_facts;
	/* where the search stands */
	Walk		walk;
	TimestampTz first_due_at;	/* NO_TIME: nothing found yet */
	TimestampTz last_due_at;
	text	   *last_scope;
	text	   *last_intent_id;
	int64		looked_at;
} Claim;

static void read_claim(Claim *claim, FunctionCallInfo fcinfo);
static void settle_lease(Claim *claim);
static int	fetch_due(Claim *claim, DueItem **items);
static void claim_due(Claim *claim);
static void claim_from(Claim *claim, TimestampTz from);
static uint64 search_of(const Claim *claim);
static void claim_item(Claim *claim, Intent *intent);
static void claim_to_send(Claim *claim, Intent *intent, bool again);
static void claim_to_look(Claim *claim, Intent *intent);
static void hold(Claim *claim, Intent *intent, TimestampTz lease_until);
static void block(Claim *claim, Intent *intent, Gate gate);
static void find_next_due(Claim *claim);
static int64 sweep(int64 max, bool whole, const Identity *identity);

PG_FUNCTION_INFO_V1(extaction_claim);
PG_FUNCTION_INFO_V1(extaction_sweep);

/*
 * claim(worker, max_intents, step, lease, action, provider, scope)
 * returns ticket
 */
Datum
extaction_claim(PG_FUNCTION_ARGS)
{
	Claim		claim = {0};
	LedgerVisit visit;

	require_plain_transaction("extaction.claim");
	read_claim(&claim, fcinfo);
	ledger_enter(&visit, LEDGER_DECIDES);
	identity_init(&claim.identity, visit.caller, NULL);
	if (claim.scope != NULL)
		access_require(&claim.identity, claim.scope, "worker");
	else
		identity_settle(&claim.identity, false);
	ledger_must_be_home();
	(void) sweep(SWEEP_SIZE, false, &claim.identity);
	claim.now = GetCurrentTimestamp();
	settle_lease(&claim);
	claim_due(&claim);
	find_next_due(&claim);
	ledger_leave(&visit);
	{
		NamedDatum	values[] = {
			{"claim_id", Int64GetDatum(claim.claim_id), claim.claim_id == 0},
			{"claimed", Int64GetDatum(claim.claimed), false},
			{"blocked", Int64GetDatum(claim.blocked), false},
			{"lease_until", TimestampTzGetDatum(claim.lease_until), claim.claimed == 0},
			{"next_due_at", TimestampTzGetDatum(claim.next_due_at), claim.next_due_at == NO_TIME},
		};

		PG_RETURN_DATUM(composite_datum(fcinfo, values, lengthof(values)));
	}
}

static void
read_claim(Claim *claim, FunctionCallInfo fcinfo)
{
	text	   *step = name_argument(fcinfo, 2, "step");

	claim->worker = name_argument(fcinfo, 0, "worker");
	claim->max_intents = PG_ARGISNULL(1) ? 0 : PG_GETARG_INT64(1);
	claim->step = text_to_cstring(step);
	claim->lease_given = !PG_ARGISNULL(3);
	claim->lease_us = claim->lease_given ? contract_microseconds(PG_GETARG_INTERVAL_P(3)) : 0;
	claim->action = optional_name(fcinfo, 4, "action");
	claim->provider = optional_name(fcinfo, 5, "provider");
	claim->scope = optional_name(fcinfo, 6, "scope");
	claim->lease_until = FOREVER;
	claim->batch_facts = no_batch_facts();

	if (claim->max_intents < 1 || claim->max_intents > MAX_CLAIM)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("max_intents must be between 1 and %d", MAX_CLAIM),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "max_intents")));
	if (strcmp(claim->step, "send") != 0 && strcmp(claim->step, "resend") != 0 &&
		strcmp(claim->step, "look") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unknown step \"%s\"", claim->step),
				 errhint("Steps to claim are send, resend and look."),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "step")));
	if (claim->lease_given && claim->lease_us <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("lease must be positive"),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "lease")));
}

/*
 * Tickets need a primary, and a transaction that sees what is committed.
 */
void
require_plain_transaction(const char *function)
{
	PreventCommandDuringRecovery(function);
	PreventCommandIfReadOnly(function);
	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("%s() cannot run in isolation level REPEATABLE READ or stricter", function),
				 errhint("Call it in READ COMMITTED, in a transaction of its own.")));
}

/*
 * Without a given lease: the longest call_timeout that may be met, and a
 * margin.
 */
static void
settle_lease(Claim *claim)
{
	static KeptQuery query = {
		"SELECT max(a.call_timeout) FROM extaction.actions a"
		" WHERE a.enabled AND ($1 IS NULL OR a.action = $1) AND ($2 IS NULL OR a.provider = $2)",
		false, 2, {TEXTOID, TEXTOID}, NULL
	};
	QueryArgs	args = {0};
	Interval	longest;

	if (claim->lease_given)
		return;
	arg_text(&args, claim->action);
	arg_text(&args, claim->provider);
	(void) query_run(&query, &args);
	longest = got_interval(0, 1);
	claim->lease_us = contract_microseconds(&longest) + LEASE_MARGIN_US;
}

/*
 * Claims what is due, from the mark on; if that is not enough, all over again
 * (see mark.c).
 */
static void
claim_due(Claim *claim)
{
	walk_begin(&claim->walk, search_of(claim), false);
	claim_from(claim, claim->walk.from);
	/* what was found may be found again, should this be rolled back */
	walk_end(&claim->walk, claim->first_due_at == NO_TIME ? claim->now : claim->first_due_at);
	if (claim->claimed < claim->max_intents && walk_again(&claim->walk))
		claim_from(claim, NO_TIME);
}

/*
 * What this search is for: what it finds depends on this.
 */
static uint64
search_of(const Claim *claim)
{
	const text *filters[] = {claim->action, claim->provider, claim->scope};
	uint64		search = walk_search(0, claim->step, (int) strlen(claim->step));
	int			i;

	search = walk_search(search, &claim->identity.role, sizeof(Oid));
	for (i = 0; i < (int) lengthof(filters); i++)
		search = walk_search(search, filters[i] ? VARDATA_ANY(filters[i]) : NULL,
							 filters[i] ? (int) VARSIZE_ANY_EXHDR(filters[i]) : 0);
	return search;
}

/*
 * Judges what is due, oldest first, until there is enough of it.
 */
static void
claim_from(Claim *claim, TimestampTz from)
{
	MemoryContext memory = AllocSetContextCreate(CurrentMemoryContext,
												 "extaction claim item",
												 ALLOCSET_DEFAULT_SIZES);

	claim->first_due_at = NO_TIME;
	claim->last_due_at = from;
	claim->last_scope = claim->last_intent_id = cstring_to_text("");
	while (claim->claimed < claim->max_intents && claim->looked_at < MAX_LOOKED_AT)
	{
		DueItem	   *items;
		int			count = fetch_due(claim, &items);
		int			first;

		for (first = 0; first < count && claim->claimed < claim->max_intents; first += DUE_CHUNK)
		{
			MemoryContext old = MemoryContextSwitchTo(memory);
			int			n = Min(DUE_CHUNK, count - first);
			Intent	   *intents = intents_load(items + first, n);
			int			i;

			for (i = 0; i < n && claim->claimed < claim->max_intents; i++)
				claim_item(claim, &intents[i]);
			MemoryContextSwitchTo(old);
			MemoryContextReset(memory);
		}
		claim->looked_at += count;
		if (count == 0)
			break;
		if (claim->first_due_at == NO_TIME)
			claim->first_due_at = items[0].due_at;
		claim->last_due_at = items[count - 1].due_at;
		claim->last_scope = items[count - 1].scope;
		claim->last_intent_id = items[count - 1].intent_id;
	}
	MemoryContextDelete(memory);
}

/* What the caller may claim, of worklist w; parameters $1 to $4. */
#define CLAIMABLE_SQL \
	" FROM extaction.worklist w LEFT JOIN extaction.actions a ON a.action = w.action" \
	" WHERE a.enabled IS NOT FALSE" \
	"   AND NOT EXISTS (SELECT FROM extaction.pauses p" \
	"                   WHERE p.scope IN ('', w.scope) AND p.action IN ('', w.action))" \
	"   AND ($2 IS NULL OR w.action = $2) AND ($3 IS NULL OR a.provider = $3)" \
	"   AND ($4 IS NULL OR w.scope = $4)" \
	"   AND " WORKS_IN_SQL("w.scope", "$1")

static int
fetch_due(Claim *claim, DueItem **items)
{
	static KeptQuery query = {
		"SELECT w.scope, w.intent_id, w.due_at"
		CLAIMABLE_SQL
		"   AND w.state = $5 AND w.due_at <= $6"
		"   AND (w.claim_id IS NULL OR w.lease_until <= $6)"
		"   AND w.due_at >= coalesce($7, '-infinity')"
		"   AND (w.due_at, w.scope, w.intent_id) > (coalesce($7, '-infinity'), $8, $9)"
		" ORDER BY w.due_at, w.scope, w.intent_id LIMIT $10"
		" FOR UPDATE OF w SKIP LOCKED",
		false, 10, {OIDOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TIMESTAMPTZOID, TIMESTAMPTZOID, TEXTOID,
		TEXTOID, INT8OID}, NULL
	};
	QueryArgs	args = {0};
	int			count;
	int			i;

	arg_oid(&args, claim->identity.role);
	arg_text(&args, claim->action);
	arg_text(&args, claim->provider);
	arg_text(&args, claim->scope);
	arg_cstring(&args, strcmp(claim->step, "send") == 0 ? "prepared" : "uncertain");
	arg_timestamptz(&args, claim->now);
	arg_timestamptz(&args, claim->last_due_at);
	arg_text(&args, claim->last_scope);
	arg_text(&args, claim->last_intent_id);
	/* of the uncertain, many may be for another step */
	arg_int8(&args, strcmp(claim->step, "send") == 0 ? claim->max_intents : Max(claim->max_intents, 100));
	walk_leg_begin(&claim->walk);
	count = (int) query_run(&query, &args);
	walk_leg_end(&claim->walk, count * BLOCKS_A_DUE_ROW);
	*items = palloc(sizeof(DueItem) * Max(count, 1));
	for (i = 0; i < count; i++)
	{
		(*items)[i].scope = got_text(i, 1);
		(*items)[i].intent_id = got_text(i, 2);
		(*items)[i].due_at = got_timestamptz(i, 3);
	}
	return count;
}

/*
 * Judges one row that we have locked.
 */
static void
claim_item(Claim *claim, Intent *intent)
{
	int64		timeout;

	CHECK_FOR_INTERRUPTS();
	if (!intent->open)
		return;
	if (intent->batch_id != NULL &&
		!ledger_try_lock_subject(intent->request.scope, "batch", intent->batch_id, false))
		return;
	timeout = contract_microseconds(&intent->call_timeout);
	if (claim->lease_us <= timeout)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("lease is not longer than the call_timeout of action \"%s\"",
						text_to_cstring(intent->request.action)),
				 errdetail("A call begins and ends within its lease."),
				 errhint("Ask for a longer lease, or for none: then it is long enough."),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "lease")));
	if (strcmp(claim->step, "send") == 0)
		claim_to_send(claim, intent, false);
	else if (strcmp(claim->step, "resend") == 0)
	{
		NextStep	next = intent_next_step_for(intent, claim->now, claim->lease_us);

		if (strcmp(next.step, "resend") == 0 && next.due_at <= claim->now)
			claim_to_send(claim, intent, true);
	}
	else
		claim_to_look(claim, intent);
}

/*
 * The right to send, for the first time or again under the same key.  The
 * lease ends no later than the approval, and what is left of it must still
 * hold a whole call.
 */
static void
claim_to_send(Claim *claim, Intent *intent, bool again)
{
	Work	   *work = &intent->work;
	Facts		facts;
	Verdict		verdict = intent_gates_next(intent, &facts, &claim->batch_facts);
	TimestampTz lease_until = claim->now + claim->lease_us;
	TimestampTz end = approvals_end(&facts, &intent->requester, claim->now);

	if (verdict.gate != GATE_COUNT)
	{
		if (!again)
			block(claim, intent, verdict.gate);
		return;
	}
	lease_until = Min(lease_until, end);
	if (lease_until - claim->now <= contract_microseconds(&intent->call_timeout))
	{
		if (!again)
			block(claim, intent, GATE_APPROVAL_EXPIRED);
		return;
	}
	work->earlier_open |= again;
	work->last_code = NULL;		/* of this attempt there is no answer yet */
	work->answered_at = NO_TIME;
	work->attempt = Max(work->attempt, attempts_before(intent->request.action)) + 1;
	work->tries++;
	if (work->first_sent_at == NO_TIME)
		work->first_sent_at = claim->now;
	work->quiet_from = Max(work->quiet_from, lease_until);
	work_set_state(work, "sending", lease_until);
	intent->approval_id = verdict.approval->approval_id;
	hold(claim, intent, lease_until);
}

/*
 * The right to look.  One may always look, where there is something to look
 * with and the cadence says so: presence proves at once.
 */
static void
claim_to_look(Claim *claim, Intent *intent)
{
	Contract   *contracts;
	int			ncontracts = intent_contracts(intent, &contracts);
	TimestampTz due_at = look_due_at(&intent->work);
	int			i;

	for (i = 0; i < ncontracts; i++)
		if (contracts[i].lookup == LOOKUP_NONE)
			return;
	if (due_at > claim->now)
		return;
	work_set_state(&intent->work, "uncertain", claim->now + claim->lease_us);
	intent->work.look_began_at = claim->now;
	hold(claim, intent, claim->now + claim->lease_us);
}

/*
 * Writes down that the ticket holds the intent.
 */
static void
hold(Claim *claim, Intent *intent, TimestampTz lease_until)
{
	static KeptQuery next_claim = {
		"SELECT nextval('extaction.claim_id_seq')", false, 0, {0}, NULL
	};
	Work	   *work = &intent->work;
	Receipt		event = NO_RECEIPT;
	QueryArgs	none = {0};

	if (claim->claim_id == 0)
	{
		(void) query_run(&next_claim, &none);
		claim->claim_id = got_int8(0, 1);
	}
	work->claim_id = claim->claim_id;
	work->claimed_by = claim->identity.role_name;
	work->worker = claim->worker;
	work->claim_step = claim->step;
	work->lease_until = lease_until;
	ledger_put_work(intent);
	if (strcmp(claim->step, "look") != 0)
	{
		event.attempt = work->attempt;
		event.approval_id = intent->approval_id;
		event.lease_until = lease_until;
		event.detail = detail_words("step", claim->step, "worker", text_to_cstring(claim->worker), NULL);
		ledger_append(&event, "sending", &intent->request, &claim->identity);
	}
	claim->claimed++;
	claim->lease_until = Min(claim->lease_until, lease_until);
}

/*
 * A gate stops what was prepared; a new approval lets it go on.
 */
static void
block(Claim *claim, Intent *intent, Gate gate)
{
	Receipt		event = NO_RECEIPT;

	work_set_state(&intent->work, "blocked", FOREVER);
	intent->work.gate = gate_name(gate);
	intent->work.needs = gate_needs(gate);
	ledger_put_work(intent);
	event.detail = detail_words("gate", gate_name(gate), "needs", gate_needs(gate), NULL);
	ledger_append(&event, "blocked", &intent->request, &claim->identity);
	claim->blocked++;
}

/*
 * When the next claim of this kind may find something.
 */
static void
find_next_due(Claim *claim)
{
	static KeptQuery query = {
		"SELECT w.due_at"
		CLAIMABLE_SQL
		"   AND w.state = $5 AND w.claim_id IS NULL AND w.due_at < 'infinity' AND w.due_at >= $6"
		" ORDER BY w.due_at LIMIT 1",
		false, 6, {OIDOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TIMESTAMPTZOID}, NULL
	};
	QueryArgs	args = {0};

	arg_oid(&args, claim->identity.role);
	arg_text(&args, claim->action);
	arg_text(&args, claim->provider);
	arg_text(&args, claim->scope);
	arg_cstring(&args, strcmp(claim->step, "send") == 0 ? "prepared" : "uncertain");
	/* what is due and was not claimed is for another step, or in somebody's hands */
	arg_timestamptz(&args, claim->claimed == claim->max_intents ? claim->last_due_at : claim->now + 1);
	claim->next_due_at = query_run(&query, &args) == 0 ? NO_TIME : got_timestamptz(0, 1);
}

/*
 * sweep() returns bigint
 */
Datum
extaction_sweep(PG_FUNCTION_ARGS)
{
	LedgerVisit visit;
	Identity	identity;
	int64		total = 0;
	int64		swept;

	ledger_enter(&visit, LEDGER_WRITES);
	identity_init(&identity, visit.caller, NULL);
	total = go_on_mended(&identity);
	do
	{
		CHECK_FOR_INTERRUPTS();
		swept = sweep(SWEEP_SIZE, true, &identity);
		total += swept;
	} while (swept == SWEEP_SIZE);
	ledger_leave(&visit);
	PG_RETURN_INT64(total);
}

/*
 * Writes down which leases to send have ended: uncertain, never free.  In the
 * scopes where the caller is a worker; from the mark on, or all of it.
 */
static int64
sweep(int64 max, bool whole, const Identity *identity)
{
	static KeptQuery query = {
		"WITH ended AS ("
		" SELECT w.scope, w.intent_id FROM extaction.worklist w"
		" WHERE w.state = 'sending' AND w.due_at BETWEEN coalesce($6, '-infinity') AND $5 AND w.lease_until <= $5"
		"   AND " WORKS_IN_SQL("w.scope", "$1")
		" ORDER BY w.due_at LIMIT $2 FOR UPDATE SKIP LOCKED),"
		" swept AS ("
		" UPDATE extaction.worklist w"
		" SET state = 'uncertain', since = w.lease_until, due_at = w.lease_until, claim_id = NULL,"
		"  claimed_by = NULL, handed_at = NULL, worker = NULL, claim_step = NULL, lease_until = NULL,"
		"  last_code = CASE WHEN w.last_code IN ('mismatch', 'stored_failure') THEN w.last_code ELSE 'lease_ended' END"
		" FROM ended e WHERE w.scope = e.scope AND w.intent_id = e.intent_id"
		" RETURNING w.scope, w.intent_id, w.attempt)"
		" INSERT INTO extaction.events (scope, intent_id, kind, attempt, request_digest, detail,"
		"  role, \"session_user\")"
		" SELECT s.scope, s.intent_id, 'uncertain', s.attempt, i.request_digest,"
		"  '{\"evidence\": {\"code\": \"lease_ended\"}}', $3, $4"
		" FROM swept s JOIN extaction.intents i ON i.scope = s.scope AND i.intent_id = s.intent_id",
		false, 6, {OIDOID, INT8OID, TEXTOID, TEXTOID, TIMESTAMPTZOID, TIMESTAMPTZOID}, NULL
	};
	QueryArgs	args = {0};
	TimestampTz now = GetCurrentTimestamp();
	Walk		walk;
	int64		swept;

	walk_begin(&walk, walk_search(0, &identity->role, sizeof(Oid)), whole);

	arg_oid(&args, identity->role);
	arg_int8(&args, max);
	arg_text(&args, identity->role_name);
	arg_text(&args, identity->session_user);
	arg_timestamptz(&args, now);
	arg_timestamptz(&args, walk.from);
	walk_leg_begin(&walk);
	swept = (int64) query_run(&query, &args);
	walk_leg_end(&walk, swept * BLOCKS_A_SWEPT_ROW);
	/* of more than we took, we do not know where it begins */
	walk_end(&walk, swept < max ? now : walk.from);
	return swept;
}
