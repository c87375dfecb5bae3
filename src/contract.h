/*-------------------------------------------------------------------------
 *
 * contract.h
 *	  What a provider promises about idempotency, and what follows from it.
 *
 * A Contract is a row of extaction.contracts as far as the rule needs it, a
 * Situation is all that the rule needs of one uncertain intent.  Each enum
 * begins with what is the least promise, so a zeroed Contract promises
 * nothing.  Spans are microseconds and never negative.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef CONTRACT_H
#define CONTRACT_H

#include "datatype/timestamp.h"

/* Where the idempotency key travels. */
typedef enum KeyCarrier
{
	KEY_NONE,					/* the provider takes no key */
	KEY_HEADER,
	KEY_FIELD,
	KEY_RESOURCE_NAME,
	KEY_NATURAL_ID,
	KEY_IN_DATABASE
} KeyCarrier;

/* What a key does after its retention. */
typedef enum OnExpired
{
	EXPIRED_UNKNOWN,
	EXPIRED_EXECUTES,
	EXPIRED_REJECTS
} OnExpired;

/* What a repeated key is answered with. */
typedef enum OnReplay
{
	REPLAY_UNKNOWN,
	REPLAY_NONE,
	REPLAY_SILENT,				/* accepted, as if it were the first */
	REPLAY_PRESENT_STATE,
	REPLAY_EXISTS,
	REPLAY_EXISTS_WITH_ID,
	REPLAY_FIRST_RESULT
} OnReplay;

/* What happens to other content under a known key. */
typedef enum OnMismatch
{
	MISMATCH_UNKNOWN,
	MISMATCH_EXECUTES,
	MISMATCH_NOT_COMPARED,
	MISMATCH_REPLAYS_FIRST,
	MISMATCH_REJECTS
} OnMismatch;

/* What happens to a second request while the first is executing. */
typedef enum OnConcurrent
{
	CONCURRENT_UNKNOWN,
	CONCURRENT_EXECUTES_TWICE,
	CONCURRENT_MAY_FAIL,
	CONCURRENT_WAITS,
	CONCURRENT_REJECTS
} OnConcurrent;

/* Which failed answers a key keeps. */
typedef enum StoresFailures
{
	STORES_UNKNOWN,
	STORES_NONE,
	STORES_RESUMES,				/* failed work goes on under the same key */
	STORES_SUCCESS,
	STORES_SUCCESS_AND_4XX,
	STORES_ALL
} StoresFailures;

/* With what one can look whether it happened. */
typedef enum Lookup
{
	LOOKUP_NONE,
	LOOKUP_BY_EVENT,
	LOOKUP_BY_MARKER,
	LOOKUP_BY_OWN_ID,
	LOOKUP_BY_KEY
} Lookup;

/* A row of extaction.contracts, as far as the rule needs it. */
typedef struct Contract
{
	int64		version;
	bool		shipped;
	KeyCarrier	key_carrier;
	OnExpired	on_expired;
	OnReplay	on_replay;
	OnMismatch	on_mismatch;
	OnConcurrent on_concurrent;
	StoresFailures stores_failures;
	bool		failures_roll_back; /* a failed answer leaves no effect, or
									 * leaves the key stored */
	int			nproves_not_happened;
	char	  **proves_not_happened;	/* the provider's own codes */
	Lookup		lookup;
	bool		absence_is_proof;
	bool		has_lookup_lag; /* without a span: NULL, nothing promised */
	int64		lookup_lag;
	bool		has_late_arrival_bound;
	int64		late_arrival_bound;
	bool		has_retention;
	int64		retention;
	int64		min_retry_delay;	/* 0 if NULL */
} Contract;

/*
 * One uncertain intent at one moment.  The flags that open the way to a
 * resend are false in a zeroed Situation.  A time of 0 is none.
 */
typedef struct Situation
{
	TimestampTz now;
	TimestampTz first_sent_at;	/* the claim of attempt 1 */
	TimestampTz quiet_from;		/* the greatest lease_until of all attempts */
	int64		lease;			/* of the attempt that would be next */
	int64		margin;			/* extaction.retention_margin */
	const char *last_code;		/* of the last answer, or NULL */
	TimestampTz last_answer_at;
	bool		gates_pass;
	bool		bytes_stored;	/* the payload is whole, not redacted */
	bool		attempts_left;
	bool		late_found;		/* an older attempt said "happened" */
	int64		lookups;		/* looks that came back unknown */
	int64		max_lookups;
	TimestampTz look_due_at;	/* by the cadence of looks */
} Situation;

/* What comes next for an uncertain intent; later is more careful. */
typedef enum StepKind
{
	STEP_RESEND,
	STEP_WAIT,
	STEP_LOOK,
	STEP_HUMAN
} StepKind;

typedef struct Step
{
	StepKind	kind;
	const char *reason;			/* one sentence, static */
	TimestampTz due_at;			/* 0 for a human: no time brings it */
} Step;

/* contract.c: the rule about sending again; pure */
extern Contract contract_none(void);
extern Step contract_next_step(const Contract *contracts, int ncontracts,
							   const Situation *situation);
extern const char *contract_step_name(StepKind kind);
extern bool contract_proves_not_happened(const Contract *contracts,
										 int ncontracts, const char *code);
extern bool contract_code_is_own(const char *code);
extern bool contract_code_stops(const char *code);
extern bool contract_absence_is_proof(const Contract *contracts,
									  int ncontracts);
extern bool contract_absent_after(const Contract *contracts, int ncontracts,
								  TimestampTz quiet_from, TimestampTz *when);
extern bool contract_quiet_after(const Contract *contracts, int ncontracts,
								 TimestampTz quiet_from, TimestampTz *when);
extern bool contract_set_word(Contract *contract, const char *column,
							  const char *word);
extern const char *contract_words(const char *column);
extern int64 contract_microseconds(const Interval *span);

#endif							/* CONTRACT_H */
