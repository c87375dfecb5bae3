/*-------------------------------------------------------------------------
 *
 * contract.c
 *	  The one rule about sending again, as a pure function.
 *
 * An uncertain intent may have had its effect.  To send it again under the
 * same key is safe only if seven conditions hold; each was shown necessary by
 * a counterexample (doc/contracts.md):
 *
 *	1. there is a key, a repeated key brings back the first result or an
 *	   "exists" that can be compared, and the bytes are the stored ones;
 *	2. all gates pass;
 *	3. no attempt can be in flight, or the provider rejects a second request
 *	   beside the first, or lets it wait;
 *	4. the key outlives the resend, or is refused once it has expired;
 *	5. a failed answer is stored under the key, or leaves no effect;
 *	6. the last answer was neither a stored failure nor a mismatch;
 *	7. the delay that the provider asks for has passed.
 *
 * Otherwise somebody looks, and where there is nothing to look with, a human
 * decides.  Every contract that may apply is asked (the pinned one, the one
 * in force, those announced), and the most careful answer counts.
 *
 * Nothing in here reads a clock or a table, or raises an error.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/int.h"
#include "contract.h"

#define MAX_WORDS 7

/* The columns of words. */
enum
{
	COLUMN_KEY_CARRIER,
	COLUMN_ON_EXPIRED,
	COLUMN_ON_REPLAY,
	COLUMN_ON_MISMATCH,
	COLUMN_ON_CONCURRENT,
	COLUMN_STORES_FAILURES,
	COLUMN_LOOKUP
};

/* One of them; the place of a word in "words" is the value of its enum. */
typedef struct WordColumn
{
	const char *column;
	const char *list;			/* for messages */
	const char *words[MAX_WORDS];
} WordColumn;

static const WordColumn word_columns[] = {
	[COLUMN_KEY_CARRIER] = {"key_carrier",
		"header, field, resource_name, natural_id, in_database, none",
	{"none", "header", "field", "resource_name", "natural_id", "in_database"}},
	[COLUMN_ON_EXPIRED] = {"on_expired",
		"executes, rejects, unknown",
	{"unknown", "executes", "rejects"}},
	[COLUMN_ON_REPLAY] = {"on_replay",
		"first_result, present_state, exists, exists_with_id, silent, none, unknown",
	{"unknown", "none", "silent", "present_state", "exists", "exists_with_id", "first_result"}},
	[COLUMN_ON_MISMATCH] = {"on_mismatch",
		"rejects, replays_first, executes, not_compared, unknown",
	{"unknown", "executes", "not_compared", "replays_first", "rejects"}},
	[COLUMN_ON_CONCURRENT] = {"on_concurrent",
		"rejects, waits, may_fail, executes_twice, unknown",
	{"unknown", "executes_twice", "may_fail", "waits", "rejects"}},
	[COLUMN_STORES_FAILURES] = {"stores_failures",
		"all, success_and_4xx, success, none, resumes, unknown",
	{"unknown", "none", "resumes", "success", "success_and_4xx", "all"}},
	[COLUMN_LOOKUP] = {"lookup",
		"by_key, by_own_id, by_marker, by_event, none",
	{"none", "by_event", "by_marker", "by_own_id", "by_key"}},
};

/* Codes of our own: what they mean is fixed, and none is a refusal. */
static const char *const own_codes[] = {
	"never_sent", "timeout", "reset", "in_progress", "mismatch", "exists",
	"stored_failure"
};

static Step step_under(const Contract *contract, const Situation *situation);
static Step look_or_human(const Contract *contract, const Situation *situation,
						  const char *reason);
static Step more_careful(Step a, Step b);
static Step make_step(StepKind kind, const char *reason, TimestampTz due_at);
static const char *why_no_resend(const Contract *contract,
								 const Situation *situation);
static bool replay_tells(OnReplay on_replay);
static bool second_is_held_off(OnConcurrent on_concurrent);
static bool last_code_is(const Situation *situation, const char *code);
static bool in_flight(const Contract *contract, const Situation *situation);
static bool can_look(const Contract *contract, const Situation *situation);
static TimestampTz resend_from(const Contract *contract,
							   const Situation *situation);
static bool key_outlives(const Contract *contract, const Situation *situation,
						 TimestampTz resend_at);
static bool lists_code(const Contract *contract, const char *code);
static const WordColumn *find_column(const char *column);
static int64 sum(int64 a, int64 b);
static int64 product(int64 a, int64 b);

/*
 * What an action without a contract counts as.
 */
Contract
contract_none(void)
{
	Contract	none;

	memset(&none, 0, sizeof(none));
	none.key_carrier = KEY_NONE;
	none.on_expired = EXPIRED_EXECUTES;
	none.on_replay = REPLAY_NONE;
	none.on_mismatch = MISMATCH_EXECUTES;
	none.on_concurrent = CONCURRENT_EXECUTES_TWICE;
	none.stores_failures = STORES_NONE;
	none.lookup = LOOKUP_NONE;
	none.has_late_arrival_bound = true;
	none.late_arrival_bound = USECS_PER_HOUR;
	none.has_lookup_lag = true;
	none.lookup_lag = 5 * USECS_PER_MINUTE;
	return none;
}

/*
 * What comes next for an uncertain intent: the most careful answer of all the
 * given contracts.  No contract at all counts as contract_none().
 */
Step
contract_next_step(const Contract *contracts, int ncontracts,
				   const Situation *situation)
{
	Step		step;
	int			i;

	if (ncontracts == 0)
	{
		Contract	none = contract_none();

		return step_under(&none, situation);
	}
	step = step_under(&contracts[0], situation);
	for (i = 1; i < ncontracts; i++)
		step = more_careful(step, step_under(&contracts[i], situation));
	return step;
}

/*
 * The step's word in SQL.
 */
const char *
contract_step_name(StepKind kind)
{
	static const char *const names[] = {"resend", "wait", "look", "human"};

	return names[kind];
}

/*
 * What comes next under one contract.
 *
 * Time alone can mend two of the conditions: an attempt stops being in flight
 * (3), and a delay passes (7).  If nothing else is wrong, and the key will
 * still live by then (4), that is worth a wait.  But while the first attempt
 * may be in flight a look is better, if there is anything to look with: it
 * may find the effect at once.
 */
static Step
step_under(const Contract *contract, const Situation *situation)
{
	const char *reason = why_no_resend(contract, situation);
	TimestampTz from;

	if (last_code_is(situation, "mismatch"))
		return make_step(STEP_HUMAN, "the provider knows the key with other content", 0);
	if (reason != NULL)
		return look_or_human(contract, situation, reason);

	from = resend_from(contract, situation);
	if (!key_outlives(contract, situation, from))
		return look_or_human(contract, situation,
							 "the key may expire before a resend has arrived");
	if (from <= situation->now)
		return make_step(STEP_RESEND, "the key protects a resend", situation->now);
	if (!in_flight(contract, situation))
		return make_step(STEP_WAIT, "the provider asks for a delay before a resend", from);
	if (!can_look(contract, situation))
		return make_step(STEP_WAIT, "an earlier attempt may still arrive", from);
	return look_or_human(contract, situation, "an earlier attempt may still arrive");
}

/*
 * Look, if there is anything to look with and it has not failed too often;
 * else a human must find out.
 */
static Step
look_or_human(const Contract *contract, const Situation *situation,
			  const char *reason)
{
	if (can_look(contract, situation))
		return make_step(STEP_LOOK, reason,
						 Max(situation->look_due_at, situation->now));
	if (contract->lookup != LOOKUP_NONE)
		return make_step(STEP_HUMAN, "looking has not found out", 0);
	return make_step(STEP_HUMAN, reason, 0);
}

/*
 * The more careful of two steps; of two equal ones the later.
 */
static Step
more_careful(Step a, Step b)
{
	if (a.kind != b.kind)
		return a.kind > b.kind ? a : b;
	return b.due_at > a.due_at ? b : a;
}

/*
 * A step, of its members.
 */
static Step
make_step(StepKind kind, const char *reason, TimestampTz due_at)
{
	Step		step;

	step.kind = kind;
	step.reason = reason;
	step.due_at = due_at;
	return step;
}

/*
 * The first of the conditions for a resend that fails and that no waiting
 * mends, or NULL.
 *
 * on_mismatch is not among them: every attempt carries the stored bytes, so
 * even a provider that compares nothing, or executes other content under a
 * known key, gets no other content from us.  If it says "mismatch" all the
 * same, somebody else has used our key, and step_under() calls a human.
 *
 * NULL is no promise at all, so a key whose retention is not known protects
 * no resend, not even where an expired key is refused.
 */
static const char *
why_no_resend(const Contract *contract, const Situation *situation)
{
	if (situation->late_found)
		return "an earlier attempt was reported to have happened";
	if (contract->key_carrier == KEY_NONE)
		return "the provider takes no idempotency key";
	if (!replay_tells(contract->on_replay))
		return "a repeated key does not bring back the first result";
	if (!situation->bytes_stored)
		return "the stored request is no longer whole";
	if (!situation->gates_pass)
		return "a gate stops the resend";
	if (!situation->attempts_left)
		return "no attempts are left";
	if (!contract->has_late_arrival_bound)
		return "it is not known how late an attempt may arrive";
	if (!contract->has_retention)
		return "it is not known how long the provider keeps the key";
	if (contract->stores_failures != STORES_ALL && !contract->failures_roll_back)
		return "an effect behind a failed answer is not protected by the key";
	if (last_code_is(situation, "stored_failure"))
		return "the provider has stored a failure under the key";
	return NULL;
}

/*
 * Does the answer to a repeated key tell what became of the first request?
 *
 * "exists" does, even without an id: the key is made from this ledger and
 * this intent, so what exists under it is ours.  "silent" does not: it looks
 * the same whether the key was known or had been forgotten.  The present
 * state does not either: an order that was cancelled since, or a machine that
 * was stopped, cannot be told from a refusal of this attempt.
 */
static bool
replay_tells(OnReplay on_replay)
{
	return on_replay == REPLAY_FIRST_RESULT ||
		on_replay == REPLAY_EXISTS ||
		on_replay == REPLAY_EXISTS_WITH_ID;
}

/*
 * Is a second request harmless while the first is executing?
 */
static bool
second_is_held_off(OnConcurrent on_concurrent)
{
	return on_concurrent == CONCURRENT_REJECTS ||
		on_concurrent == CONCURRENT_WAITS;
}

/*
 * Was this the code of the last answer?
 */
static bool
last_code_is(const Situation *situation, const char *code)
{
	return situation->last_code != NULL &&
		strcmp(situation->last_code, code) == 0;
}

/*
 * May an earlier attempt still arrive, and would it hurt?  An ended lease or
 * a timeout is not the end of a request.
 */
static bool
in_flight(const Contract *contract, const Situation *situation)
{
	if (second_is_held_off(contract->on_concurrent))
		return false;
	return !contract->has_late_arrival_bound ||
		situation->now < sum(situation->quiet_from, contract->late_arrival_bound);
}

/*
 * Is there anything to look with that has not failed too often?
 */
static bool
can_look(const Contract *contract, const Situation *situation)
{
	return contract->lookup != LOOKUP_NONE &&
		situation->lookups < situation->max_lookups;
}

/*
 * The earliest moment at which conditions 3 and 7 both hold.  Without an
 * answer the provider's delay counts from the end of the last lease.
 */
static TimestampTz
resend_from(const Contract *contract, const Situation *situation)
{
	TimestampTz from = situation->now;

	if (in_flight(contract, situation))
		from = sum(situation->quiet_from, contract->late_arrival_bound);
	if (contract->min_retry_delay > 0)
	{
		TimestampTz last = situation->last_answer_at != 0 ?
			situation->last_answer_at : situation->quiet_from;

		from = Max(from, sum(last, contract->min_retry_delay));
	}
	return from;
}

/*
 * Will a request that is sent again at that moment have arrived, even at its
 * latest, while the key is still kept?  The retention counts from the first
 * send.  Where an expired key is refused it need not.
 */
static bool
key_outlives(const Contract *contract, const Situation *situation,
			 TimestampTz resend_at)
{
	TimestampTz arrived;

	if (contract->on_expired == EXPIRED_REJECTS)
		return true;
	arrived = sum(sum(sum(resend_at, situation->lease),
					  contract->late_arrival_bound), situation->margin);
	return arrived < sum(situation->first_sent_at, contract->retention);
}

/*
 * Is this code, by all the contracts, a refusal that left no effect?
 * "never_sent" is the ledger's own word and is judged elsewhere.
 */
bool
contract_proves_not_happened(const Contract *contracts, int ncontracts,
							 const char *code)
{
	int			i;

	if (code == NULL || contract_code_is_own(code))
		return false;
	for (i = 0; i < ncontracts; i++)
		if (!lists_code(&contracts[i], code))
			return false;
	return ncontracts > 0;
}

/*
 * Is the code among those that the contract lists?
 */
static bool
lists_code(const Contract *contract, const char *code)
{
	int			i;

	for (i = 0; i < contract->nproves_not_happened; i++)
		if (strcmp(contract->proves_not_happened[i], code) == 0)
			return true;
	return false;
}

/*
 * Does an answer with this code stop every resend?  (Condition 6.)
 */
bool
contract_code_stops(const char *code)
{
	return code != NULL && (strcmp(code, "mismatch") == 0 || strcmp(code, "stored_failure") == 0);
}

/*
 * Is the code one of our own?
 */
bool
contract_code_is_own(const char *code)
{
	int			i;

	for (i = 0; i < (int) lengthof(own_codes); i++)
		if (strcmp(own_codes[i], code) == 0)
			return true;
	return false;
}

/*
 * Does it prove anything, by all the contracts, that a program looked and
 * found nothing?  When the look must have begun, contract_absent_after() says.
 */
bool
contract_absence_is_proof(const Contract *contracts, int ncontracts)
{
	int			i;

	for (i = 0; i < ncontracts; i++)
		if (!contracts[i].absence_is_proof || contracts[i].lookup == LOOKUP_NONE)
			return false;
	return ncontracts > 0;
}

/*
 * The moment after which a look must have begun for "absent" to be taken,
 * from a human too: every attempt has arrived, and the look-up shows it.
 * False if there is no such moment, because a bound is not known.  Where there
 * is no look-up, none can lag.
 */
bool
contract_absent_after(const Contract *contracts, int ncontracts,
					  TimestampTz quiet_from, TimestampTz *when)
{
	Contract	none = contract_none();
	int			i;

	if (ncontracts == 0)
		return contract_absent_after(&none, 1, quiet_from, when);
	*when = quiet_from;
	for (i = 0; i < ncontracts; i++)
	{
		const Contract *contract = &contracts[i];
		int64		lag = contract->has_lookup_lag ? contract->lookup_lag : 0;

		if (!contract->has_late_arrival_bound)
			return false;
		if (!contract->has_lookup_lag && contract->lookup != LOOKUP_NONE)
			return false;
		*when = Max(*when, sum(sum(quiet_from, contract->late_arrival_bound), lag));
	}
	return true;
}

/*
 * The moment from which no attempt can arrive any more, by all the contracts;
 * a compensating action goes out no earlier.  False if there is none.
 */
bool
contract_quiet_after(const Contract *contracts, int ncontracts,
					 TimestampTz quiet_from, TimestampTz *when)
{
	Contract	none = contract_none();
	int			i;

	if (ncontracts == 0)
		return contract_quiet_after(&none, 1, quiet_from, when);
	*when = quiet_from;
	for (i = 0; i < ncontracts; i++)
	{
		if (!contracts[i].has_late_arrival_bound)
			return false;
		*when = Max(*when, sum(quiet_from, contracts[i].late_arrival_bound));
	}
	return true;
}

/*
 * Sets a column of words.  False if it is no such column, or the column has
 * no such word.
 */
bool
contract_set_word(Contract *contract, const char *column, const char *word)
{
	const WordColumn *found = find_column(column);
	int			value = 0;

	if (found == NULL)
		return false;
	while (found->words[value] == NULL || strcmp(found->words[value], word) != 0)
		if (++value == MAX_WORDS)
			return false;

	switch (found - word_columns)
	{
		case COLUMN_KEY_CARRIER:
			contract->key_carrier = (KeyCarrier) value;
			break;
		case COLUMN_ON_EXPIRED:
			contract->on_expired = (OnExpired) value;
			break;
		case COLUMN_ON_REPLAY:
			contract->on_replay = (OnReplay) value;
			break;
		case COLUMN_ON_MISMATCH:
			contract->on_mismatch = (OnMismatch) value;
			break;
		case COLUMN_ON_CONCURRENT:
			contract->on_concurrent = (OnConcurrent) value;
			break;
		case COLUMN_STORES_FAILURES:
			contract->stores_failures = (StoresFailures) value;
			break;
		case COLUMN_LOOKUP:
			contract->lookup = (Lookup) value;
			break;
	}
	return true;
}

/*
 * The words that a column allows, for a hint; NULL if it is no column of
 * words.
 */
const char *
contract_words(const char *column)
{
	const WordColumn *found = find_column(column);

	return found == NULL ? NULL : found->list;
}

/*
 * The column of words of that name, or NULL.
 */
static const WordColumn *
find_column(const char *column)
{
	int			i;

	for (i = 0; i < (int) lengthof(word_columns); i++)
		if (strcmp(word_columns[i].column, column) == 0)
			return &word_columns[i];
	return NULL;
}

/*
 * A span in microseconds: a year has 365.25 days and a month 30, as in
 * extract(epoch from ...).  One that is too long is the longest there is.
 */
int64
contract_microseconds(const Interval *span)
{
	int64		years = span->month / MONTHS_PER_YEAR;
	int64		months = span->month % MONTHS_PER_YEAR;
	int64		hours = years * (int64) (DAYS_PER_YEAR * HOURS_PER_DAY) +
		(months * DAYS_PER_MONTH + span->day) * HOURS_PER_DAY;

	return sum(product(hours, USECS_PER_HOUR), span->time);
}

/*
 * A sum that stops at infinity.
 */
static int64
sum(int64 a, int64 b)
{
	int64		result;

	if (pg_add_s64_overflow(a, b, &result))
		return b > 0 ? PG_INT64_MAX : PG_INT64_MIN;
	return result;
}

/*
 * A product that stops at infinity.
 */
static int64
product(int64 a, int64 b)
{
	int64		result;

	if (pg_mul_s64_overflow(a, b, &result))
		return (a > 0) == (b > 0) ? PG_INT64_MAX : PG_INT64_MIN;
	return result;
}
