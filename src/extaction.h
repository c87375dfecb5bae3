/*-------------------------------------------------------------------------
 *
 * extaction.h
 *	  Types and prototypes shared by the rooms of extaction.
 *
 * Data flows one way: SQL call -> identity (access.c) -> document ->
 * canonical form and digest -> ledger look-up -> gate -> ledger write ->
 * receipt.  Prototypes stand below under the name of the file that has them.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef EXTACTION_H
#define EXTACTION_H

#include "postgres.h"

#include "executor/spi.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "contract.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

/* PostgreSQL 18 has it, and lost pg_attribute_noreturn() */
#ifndef pg_noreturn
#define pg_noreturn __attribute__((noreturn))
#endif

#define DIGEST_LENGTH 32		/* SHA-256 */

/* "no time", an SQL NULL in arguments and results */
#define NO_TIME DT_NOBEGIN
#define FOREVER DT_NOEND

/*
 * A consumer of canonical bytes, always UTF-8.  canonical.c calls write()
 * with pieces of any size >= 1; the consumer never sees a NUL terminator.
 */
typedef struct CanonicalSink CanonicalSink;
struct CanonicalSink
{
	void		(*write) (CanonicalSink *sink, const char *bytes, size_t len);
};

/* Why a document has no canonical form. */
typedef enum CanonicalStatus
{
	CANONICAL_OK,
	CANONICAL_LOSSY_NUMBER,		/* a double cannot show this very value */
	CANONICAL_TOO_DEEP			/* nested deeper than the stack allows */
} CanonicalStatus;

/* Where it went wrong; filled only when the status is not CANONICAL_OK. */
typedef struct CanonicalFault
{
	CanonicalStatus status;
	char	   *path;			/* such as "task.items[3].price"; "" is the top */
	char	   *value;			/* the number as it was written, or NULL */
} CanonicalFault;

/*
 * What a program proposed, as far as a request's digest covers it.
 */
typedef struct CandidateRef
{
	text	   *candidate_id;
	uint8		digest[DIGEST_LENGTH];
	text	   *source_id;
	text	   *source_version;
} CandidateRef;

/*
 * What is to be done.  All members but candidate are set; the digest covers
 * all the others.
 */
typedef struct Request
{
	text	   *scope;
	text	   *intent_id;
	text	   *action;
	text	   *destination;
	Jsonb	   *payload;
	CandidateRef *candidate;	/* NULL if none */
	uint8		digest[DIGEST_LENGTH];

	/*
	 * What approvals of it are bound to: the request itself, or the batch
	 * that it is an item of.  A whole batch is a request without an intent:
	 * its intent_id is the batch_id, its destination empty, its payload
	 * {"items", "payload"}.
	 */
	text	   *batch_id;		/* NULL: not of a batch */
	uint8		batch_digest[DIGEST_LENGTH];
	bool		whole_batch;
} Request;

/*
 * One call's visit to the ledger: between ledger_enter() and ledger_leave()
 * the code runs as the extension's owner, with SPI connected and, from the
 * first statement on, a pinned search_path.  Palloc goes to the caller's
 * memory, not SPI's.  An error ends the visit by itself: (sub)transaction
 * abort restores user and settings.
 */
typedef struct LedgerVisit
{
	Oid			caller;			/* GetUserId() at entry */
	int			security_context;
	int			guc_level;
	ErrorContextCallback on_error;
} LedgerVisit;

/* What a visit is for.  What others act on must survive a crash. */
typedef enum LedgerMode
{
	LEDGER_READS,
	LEDGER_WRITES,
	LEDGER_DECIDES
} LedgerMode;

#define QUERY_MAX_ARGS 24

/* An SQL statement that is planned once in a session and kept. */
typedef struct KeptQuery
{
	const char *sql;
	bool		reads;			/* for STABLE callers: sees what they see */
	int			nargs;
	Oid			argtypes[QUERY_MAX_ARGS];
	SPIPlanPtr	plan;
} KeptQuery;

/* Its arguments, added in order by the arg_*() functions. */
typedef struct QueryArgs
{
	int			count;
	Datum		values[QUERY_MAX_ARGS];
	char		nulls[QUERY_MAX_ARGS];
} QueryArgs;

/* What there was to erase of an intent. */
typedef enum Redaction
{
	REDACT_UNKNOWN,				/* the ledger never heard of it */
	REDACT_BLANK,				/* nothing, or nothing any more */
	REDACT_DONE
} Redaction;

/*
 * Who acts.  "name" is what gates compare: the role, or role:actor if the
 * role vouches for many people.  Otherwise actor is a claim, recorded only.
 */
typedef struct Identity
{
	Oid			role;
	text	   *role_name;
	text	   *session_user;
	text	   *actor;			/* NULL if none was named */
	text	   *name;			/* set by identity_settle() */
} Identity;

/* The newest revision of a candidate. */
typedef struct Candidate
{
	bool		known;
	int64		revision;
	uint8		digest[DIGEST_LENGTH];
	text	   *source_id;
	text	   *source_version;
} Candidate;

/* What the catalogue says of an action, and the ledger of itself. */
typedef struct Catalogue
{
	char	   *action;
	TimestampTz valid_until;	/* when an announced contract comes into force */
	bool		has_ledger;
	pg_uuid_t	ledger_id;
	int64		epoch;
	TimestampTz window_until;
	TimestampTz backup_taken_at;
	bool		known;
	text	   *provider;
	text	   *operation;
	int64		max_attempts;
	Interval	retry_delay;
	Interval	call_timeout;
	bool		enabled;
	bool		self_approval;
	int64		approvals_required;
	text	   *capability;
	text	   *destination_pattern;
	bool		has_contract;
	int64		contract_version;
	bool		contract_shipped;
} Catalogue;

/* One approval of the intent at hand, and in what it differs from it. */
typedef struct Approval
{
	int64		event_id;
	text	   *approval_id;
	text	   *approver;
	text	   *capability;
	TimestampTz expires_at;
	bool		revoked;
	text	   *revoked_reason;
	uint8		digest[DIGEST_LENGTH];
	bool		same_request;	/* the digests are equal; else: */
	bool		action_differs;
	bool		destination_differs;
	bool		content_differs;
	bool		candidate_differs;
	bool		source_differs;
} Approval;

/*
 * What the ledger knows, at one moment, about a request: all that the gates
 * ask for.  Loaded by facts_load().
 */
typedef struct Facts
{
	bool		may_submit;
	bool		vouching;
	/* the catalogue's row */
	bool		action_known;
	bool		action_enabled;
	bool		destination_allowed;
	bool		self_approval;
	int64		approvals_required;
	text	   *capability;
	text	   *destination_pattern;
	/* now, against the request */
	text	   *rejected;		/* why an approver said no to this digest */
	Candidate	candidate;
	text	   *source_version; /* NULL: never observed */
	/* approvals of this intent, in the order they were given */
	int			napprovals;
	Approval   *approvals;
	/* the intent, if it is bound */
	bool		bound;
	uint8		bound_digest[DIGEST_LENGTH];
	pg_uuid_t	idempotency_key;
	text	   *requester;		/* who asked for what is bound or waits */
	/* what waits under its name, if anything does */
	bool		waits;
	uint8		waiting_digest[DIGEST_LENGTH];
	const char *waiting_gate;
	/* the ledger, and the contract in force */
	pg_uuid_t	ledger_id;
	TimestampTz window_until;	/* of the last adopt('restored') */
	TimestampTz backup_taken_at;
	bool		has_contract;
	int64		contract_version;
	bool		contract_shipped;
} Facts;

/*
 * The facts of the batch that the last item was of: see intent_gates_next().
 */
typedef struct BatchFacts
{
	MemoryContext memory;
	bool		passed;
	text	   *scope;
	text	   *action;
	text	   *batch_id;
	Identity	requester;		/* role and name only */
	Facts		facts;
} BatchFacts;

/*
 * A row of the worklist: what an open intent needs.  claim_id is 0 if nobody
 * holds it.
 */
typedef struct Work
{
	const char *state;			/* prepared, sending, uncertain, blocked */
	int64		attempt;
	TimestampTz due_at;
	int64		claim_id;
	text	   *claimed_by;
	TimestampTz handed_at;
	text	   *worker;
	TimestampTz lease_until;
	TimestampTz first_sent_at;
	TimestampTz quiet_from;
	const char *last_code;
	const char *gate;
	const char *needs;
	TimestampTz since;
	int64		tries;
	const char *claim_step;		/* send, resend, look */
	bool		earlier_open;
	bool		late_found;
	TimestampTz answered_at;
	TimestampTz look_began_at;
	int64		lookups;
} Work;

/*
 * All that the ledger knows of an intent: what it is bound to, what it waits
 * for, its last outcome.  Loaded by intent_load().
 */
typedef struct Intent
{
	Request		request;		/* if bound, else scope and intent_id only */
	CandidateRef candidate;
	bool		bound;
	bool		redacted;		/* its content has been erased */
	int64		event_id;
	TimestampTz recorded_at;
	text	   *approval_id;
	text	   *batch_id;
	pg_uuid_t	idempotency_key;
	Identity	requester;
	bool		has_contract;	/* the version pinned at prepare */
	int64		contract_version;
	bool		contract_shipped;
	/* the catalogue's row of its action, as it is now */
	bool		action_known;
	text	   *provider;
	text	   *operation;
	int64		max_attempts;
	Interval	retry_delay;
	Interval	call_timeout;
	/* open: it has a row in the worklist */
	bool		open;
	Work		work;
	/* the last outcome; NULL if there is none */
	const char *outcome;
	int64		outcome_event;
	TimestampTz outcome_at;
	int64		outcome_attempt;
	text	   *provider_ref;
	/* of a closed one, if intent_past() was asked */
	int64		last_attempt;
	int64		past_tries;
	TimestampTz first_sent_at;
	TimestampTz quiet_from;
	/* what waits for an approver under its name */
	bool		waits;
	uint8		waiting_digest[DIGEST_LENGTH];
	const char *waiting_gate;
	const char *waiting_needs;
	TimestampTz waiting_since;
} Intent;

/* An item of the worklist, by name. */
#define DUE_CHUNK 100			/* so many are loaded at once */
typedef struct DueItem
{
	text	   *scope;
	text	   *intent_id;
	TimestampTz due_at;
} DueItem;

/* A walk along the worklist, in the order in which things are due. */
typedef struct Walk
{
	uint64		search;
	bool		whole;
	TimestampTz from;			/* NO_TIME: from the beginning */
	int64		blocks;			/* walked for nothing */
	int64		us;
} Walk;

/* What a submitted request carries beside its content. */
typedef struct Order
{
	text	   *batch_id;
	text	   *compensates;
	TimestampTz not_before;
} Order;

/* The gates, in the order in which the first failure is named. */
typedef enum Gate
{
	GATE_SCOPE_DENIED,
	GATE_ACTION_UNKNOWN,
	GATE_ACTION_DISABLED,
	GATE_DESTINATION_NOT_ALLOWED,
	GATE_REJECTED,
	GATE_APPROVAL_MISSING,
	GATE_APPROVAL_REVOKED,
	GATE_APPROVAL_EXPIRED,
	GATE_ACTION_CHANGED,
	GATE_DESTINATION_CHANGED,
	GATE_CONTENT_CHANGED,
	GATE_CANDIDATE_CHANGED,
	GATE_SOURCE_CHANGED,
	GATE_CAPABILITY_NOT_GRANTED,
	GATE_SELF_APPROVAL,
	GATE_APPROVALS_INSUFFICIENT,
	GATE_COUNT,					/* all pass */
} Gate;

/* What comes next for an intent. */
typedef struct NextStep
{
	const char *step;
	const char *reason;
	TimestampTz due_at;			/* NO_TIME: at once, or never */
	Gate		gate;			/* what stops it; GATE_COUNT: nothing, or nobody asked */
} NextStep;

/* What the gates said. */
typedef struct Verdict
{
	Gate		gate;			/* the first that stops it, or GATE_COUNT */
	const Approval *approval;	/* the one that was tried; NULL if none */
} Verdict;

/* A value for the attribute of that name in a composite result. */
typedef struct NamedDatum
{
	const char *name;
	Datum		value;
	bool		isnull;
} NamedDatum;

/* The answer to a verb about one intent; NULL and 0 members stay null. */
typedef struct Receipt
{
	const char *status;
	const char *state;
	const char *next_step;
	const char *needs;
	const char *gate;
	const text *provider_ref;
	const pg_uuid_t *idempotency_key;
	const text *scope;
	const text *intent_id;
	int64		attempt;
	const text *approval_id;
	const uint8 *request_digest;
	const uint8 *bound_digest;
	const text *batch_id;
	TimestampTz recorded_at;
	int64		receipt_id;
	Jsonb	   *detail;
	/* for the event only; NO_TIME if there is none */
	TimestampTz due_at;
	TimestampTz lease_until;
} Receipt;

#define NO_RECEIPT ((Receipt) {.due_at = NO_TIME, .lease_until = NO_TIME})

/* A task-request.v1 document, checked. */
typedef struct TaskRequest
{
	text	   *intent_id;
	text	   *operation;
	text	   *provider;
	CandidateRef candidate;
	text	   *title;
	text	   *assignee_person_ref;	/* NULL if not known */
	text	   *due_at;			/* NULL if not known */
} TaskRequest;

/* extaction.c: settings */
extern int	extaction_max_document_size;
extern int	extaction_retention_margin;
extern bool extaction_log_replays;
extern char *extaction_actor;

/* canonical.c: RFC 8785; pure */
extern CanonicalStatus canonical_write(CanonicalSink *sink,
									   JsonbContainer *container,
									   CanonicalFault *fault);
extern void canonical_write_string(CanonicalSink *sink,
								   const char *str, int len);

extern void canonical_append_member(StringInfo path, const char *name, int len);
extern void canonical_append_element(StringInfo path, int index);

/* number.c: a number as ECMAScript writes it; pure */
#define NUMBER_BUFFER 48		/* room for every such text */

extern int	number_form(const char *text, char *out);

/* digest.c: SHA-256, request digest, key; pure */
extern void digest_bytes(const char *bytes, size_t len, uint8 *digest);
extern CanonicalStatus digest_json(Jsonb *json, uint8 *digest,
								   CanonicalFault *fault);
extern CanonicalStatus digest_request(Request *request,
									  CanonicalFault *fault);
extern CanonicalStatus write_request(CanonicalSink *sink,
									 const Request *request,
									 CanonicalFault *fault);
extern void digest_batch(Request *batch, const text *const *intent_ids,
						 const uint8 *digests, int count,
						 const uint8 *payload_digest);
extern void idempotency_key(const pg_uuid_t *ledger_id, const text *scope,
							const text *intent_id, pg_uuid_t *key);
extern uint64 digest_subject(const text *scope, const char *kind,
							 const text *id);

/* document.c: the border between JSON documents and SQL errors */
extern void document_check_size(Datum document);
extern text *canonical_text(Jsonb *json);
extern text *request_text(const Request *request);
pg_noreturn extern void document_fault(const CanonicalFault *fault,
									   const char *what);

/* arguments.c: identifiers, reasons, documents, digests */
extern text *name_argument(FunctionCallInfo fcinfo, int arg, const char *what);
extern text *optional_name(FunctionCallInfo fcinfo, int arg, const char *what);
extern text *text_argument(FunctionCallInfo fcinfo, int arg, const char *what);
extern text *reason_argument(FunctionCallInfo fcinfo, int arg);
extern Jsonb *document_argument(FunctionCallInfo fcinfo, int arg,
								const char *what);
extern const char *name_fault(const char *str, int len);
extern int64 claim_id_argument(FunctionCallInfo fcinfo, int arg);
extern void digest_argument(FunctionCallInfo fcinfo, int arg, uint8 *digest);
extern bool digest_from_hex(const char *str, int len, uint8 *digest);
extern text *digest_to_hex(const uint8 *digest);
extern text *text_copy(const text *value);
extern bool text_equal(const text *a, const text *b);
extern bool text_is(const text *a, const char *b);

/* query.c: kept plans, role switch, search_path */
extern void query_init(void);
extern void ledger_enter(LedgerVisit *visit, LedgerMode mode);
extern void ledger_leave(LedgerVisit *visit);
extern void ledger_pin_search_path(void);
extern uint64 query_run(KeptQuery *query, QueryArgs *args);
extern uint64 query_run_and_sort(KeptQuery *query, QueryArgs *args);
extern uint64 query_run_now(KeptQuery *query, QueryArgs *args);
extern void arg_text(QueryArgs *args, const text *value);
extern void arg_cstring(QueryArgs *args, const char *value);
extern void arg_digest(QueryArgs *args, const uint8 *digest);
extern void arg_bytes(QueryArgs *args, const bytea *value);
extern void arg_jsonb(QueryArgs *args, const Jsonb *value);
extern void arg_uuid(QueryArgs *args, const pg_uuid_t *value);
extern void arg_int8(QueryArgs *args, int64 value);
extern void arg_bool(QueryArgs *args, bool value);
extern void arg_oid(QueryArgs *args, Oid value);
extern void arg_timestamptz(QueryArgs *args, TimestampTz value);
extern void arg_subject(QueryArgs *args, const Request *request);
extern void arg_identity(QueryArgs *args, const Identity *identity);
extern Datum got_datum(int row, int column, bool *isnull);
extern bool got_null(int row, int column);
extern text *got_text(int row, int column);
extern bool got_bool(int row, int column);
extern int64 got_int8(int row, int column);
extern TimestampTz got_timestamptz(int row, int column);
extern void got_digest(int row, int column, uint8 *digest);
extern void got_uuid(int row, int column, pg_uuid_t *value);
extern Jsonb *got_jsonb(int row, int column);
extern void read_digest(Datum datum, bool isnull, uint8 *digest);
extern char *got_word(int row, int column);
extern Interval got_interval(int row, int column);
extern void arg_array(QueryArgs *args, Datum *values, int count, Oid type);
extern void arg_due_items(QueryArgs *args, const DueItem *items, int count);
extern void arg_number(QueryArgs *args, int64 value, bool known);
extern void arg_contract(QueryArgs *args, bool known, int64 version,
						 bool shipped);

/* members.c: the members of a scope, remembered */

typedef struct ScopeMember
{
	Oid			role;
	NameData	name;			/* that the role bore when it was granted this */
	int			capability;		/* see capability_bits() */
	bool		vouches;
} ScopeMember;

typedef struct ScopeMembers
{
	text	   *scope;
	int			count;
	ScopeMember member[FLEXIBLE_ARRAY_MEMBER];
} ScopeMembers;

extern void members_init(void);
extern const ScopeMembers *members_of(const text *scope);

/* access.c: scopes, identity, and who may do what */
extern void identity_init(Identity *identity, Oid caller, text *actor);
extern void identity_settle(Identity *identity, bool vouching);
extern void identity_stored(Identity *identity, text *name, text *role_name,
							text *session_user, text *actor);
extern void access_require(Identity *identity, const text *scope,
						   const char *capabilities);
extern bool access_allows(Identity *identity, const text *scope,
						  const char *capabilities);
extern void require_extension_owner(const Identity *identity);
extern void access_require_member(const Identity *identity, const text *scope);
extern bool access_expected(const Identity *identity, const text *scope);
extern bool access_judge(const Identity *identity, const text *scope,
						 const char *capabilities, bool *vouching);

/*
 * Is the role a worker in the scope?  IS TRUE keeps the planner from making a
 * join of it: the scopes are read once, into a hash table.
 */
#define WORKS_IN_SQL(scope, role) \
	"(" scope " IN (SELECT m.scope FROM extaction.scope_members m" \
	"               WHERE m.capability IN ('worker', 'owner')" \
	"                 AND pg_get_userbyid(m.member::oid) = m.member_name" \
	"                 AND pg_has_role(" role ", m.member::oid, 'USAGE'))) IS TRUE"

/* privileges.c: the SQL privileges behind a capability */
extern bool capability_exists(const char *capability);
extern int	capability_bits(const char *list);
extern void privileges_grant(Oid role, const char *capability);
extern void privileges_revoke(Oid role, const char *kept_capabilities);

/* propose.c: sources and candidates */
extern void candidate_load(CandidateRef *ref, Jsonb **content,
						   text *scope, text *candidate_id);

/* catalogue.c: what hardly ever changes */
extern void catalogue_init(void);
extern const Catalogue *catalogue_get(const char *action);

/* facts.c: what the ledger knows about a request */
extern bool destination_matches(const text *destination, const text *pattern);
extern void facts_load(Facts *facts, const Request *request,
					   const char *catalogue_action, const Identity *identity,
					   const text *approval_id, Intent *intent);
extern BatchFacts no_batch_facts(void);
extern Verdict intent_gates_next(const Intent *intent, Facts *facts, BatchFacts *kept);
extern bool approval_is_tried(const Facts *facts, const Approval *approval,
							  const text *approval_id);

/* intent.c: what the ledger knows about an intent */
extern void intent_read(Intent *intent, text *scope, text *intent_id);
extern bool intent_load(Intent *intent, text *scope, text *intent_id,
						bool reads);
extern Intent *intents_load(const DueItem *items, int count);
extern bool intent_lock(Intent *intent, text *scope, text *intent_id);
extern void intent_past(Intent *intent);
extern const char *subject_kind(const Request *request);
extern text *subject_id(const Request *request);
extern const uint8 *subject_digest(const Request *request);
extern bool request_load(Request *request, CandidateRef *candidate,
						 Identity *requester, Order *order, text *scope,
						 const uint8 *digest);
extern const char *intent_state(const Intent *intent, TimestampTz now);
extern bool intent_happened(const Intent *intent);
extern void intent_receipt(Receipt *receipt, const Intent *intent,
						   const char *status);

/* gate.c: may this go, now? */
extern Verdict gate_check(const Facts *facts, const Request *request,
						  const Identity *identity, const text *approval_id);
extern bool gate_stops(Gate gate, const Facts *facts, const Request *request,
					   const Identity *identity, const Approval *approval);
extern int64 approvals_holding(const Facts *facts, const Identity *requester,
							   TimestampTz now);
extern TimestampTz approvals_end(const Facts *facts, const Identity *requester,
								 TimestampTz now);
extern const char *gate_name(Gate gate);
extern Gate gate_by_name(const char *name);
extern const char *gate_who(Gate gate);
extern const char *gate_needs(Gate gate);
extern const char *gate_next_step(Gate gate);

/* find.c: looking at one intent */
extern bool intent_visit(FunctionCallInfo fcinfo, LedgerVisit *visit,
						 Intent *intent);

/* step.c: what comes next */
extern NextStep intent_next_step(const Intent *intent, TimestampTz now);
extern int	intent_contracts(const Intent *intent, Contract **contracts);
extern Verdict intent_gates(const Intent *intent, Facts *facts);
extern NextStep intent_next_step_for(const Intent *intent, TimestampTz now,
									 int64 lease_us);
extern TimestampTz look_due_at(const Work *work);

/* How much longer than a call a lease is, if its length is not said. */
#define LEASE_MARGIN_US (30 * USECS_PER_SEC)

/* difference.c: in what two documents differ; pure */
extern char *differing_paths(const Jsonb *one, const Jsonb *other);

/* A restore begins a new epoch, whose attempts are numbered so much higher. */
#define ATTEMPTS_PER_EPOCH 1000

/* In SQL: the longest lease of the default length; 1 hour if there is no action. */
#define LONGEST_LEASE_SQL \
	"coalesce((SELECT max(x.call_timeout) + '30 seconds' FROM extaction.actions x), '1 hour')"

/*
 * In SQL: the first worklist row of what was bound just now (b), where a.lost
 * says whether it may have gone out in the time that a restore has lost.
 */
#define FIRST_WORK_SQL(intent_id, action, not_before, backup_taken_at) \
	" INSERT INTO extaction.worklist" \
	" (scope, intent_id, action, state, due_at, attempt, first_sent_at, quiet_from, since, earlier_open)" \
	" SELECT $1, " intent_id ", " action ", CASE WHEN a.lost THEN 'uncertain' ELSE 'prepared' END," \
	"  coalesce(" not_before ", b.recorded_at), CASE WHEN a.lost THEN " CppAsString2(ATTEMPTS_PER_EPOCH) " ELSE 0 END," \
	"  CASE WHEN a.lost THEN " backup_taken_at " END," \
	"  CASE WHEN a.lost THEN b.recorded_at + " LONGEST_LEASE_SQL " END, b.recorded_at, a.lost IS TRUE"

/* ledger.c: the only room that writes facts and worklists */
extern void ledger_init(void);
extern void ledger_lock_subject(const text *scope, const char *kind,
								const text *id, bool exclusive);
extern bool ledger_try_lock_subject(const text *scope, const char *kind,
									const text *id, bool exclusive);
extern void ledger_unlock_subject(const text *scope, const char *kind,
								  const text *id);
extern bool ledger_bind(const Request *request, const Facts *facts,
						const text *approval_id, const Identity *identity,
						const Order *order, Receipt *receipt);
extern bool ledger_bind_happened(const Request *request, const Facts *facts,
								 const text *approval_id,
								 const Identity *identity, Receipt *receipt);
extern void ledger_append(Receipt *receipt, const char *kind,
						  const Request *request, const Identity *identity);
extern void ledger_keep_request(const Request *request,
								const Identity *identity);
#define NO_ORDER ((Order) {NULL, NULL, NO_TIME})
extern void ledger_wait(const Request *request, Gate gate,
						const Identity *requester, const Order *order);
extern void ledger_supersede(const Request *request, const uint8 *replaced,
							 const Identity *identity);
extern bool ledger_stop_waiting(const text *scope, const char *kind,
								const text *id, const uint8 *digest);
extern bool may_wait_bound(const Intent *intent);
extern bool ledger_stop_waiting_bound(Intent *intent, const Request *asked, bool same);
extern void ledger_put_work(const Intent *intent);
extern void ledger_hand_out(const DueItem *items, int count, TimestampTz now);
extern void ledger_close_work(const Intent *intent);
extern void ledger_compensated(const Request *undo, text *intent_id,
							   const Identity *identity);
extern Work no_work(void);
extern void work_set_state(Work *work, const char *state, TimestampTz due_at);

/* guards.c: the triggers that keep facts as they were written */
extern void guards_init(void);
extern uint64 guards_pass(KeptQuery *query, QueryArgs *args);

/* redact.c: erasing what facts say of persons */
extern const char *redact_refusal(const Intent *intent, const char *state);
extern Redaction redact_intent(Request *request, const text *reason,
							   const Identity *identity, Receipt *event);
extern void redact_lists(const text *scope, Datum *intent_ids, int count);

/* submit.c: asking */
extern void request_names(Request *request, FunctionCallInfo fcinfo, int first);
extern void request_complete(Request *request, CandidateRef *candidate,
							 text *candidate_id, Jsonb *payload);
extern void scope_denied_receipt(Receipt *receipt, const Request *request);
extern bool submission_lock(const Request *request, Identity *identity);
extern void submit_request(Request *request, Identity *identity,
						   text *approval_id, const Order *order,
						   Receipt *receipt);
extern void approval_must_hold(const Approval *approval);

/* One call of submit or submit_batch. */
typedef struct Submission
{
	Request    *request;
	Identity   *identity;
	text	   *approval_id;	/* as the caller named it */
	const Order *order;
	Facts		facts;
	Intent		intent;			/* as it was in the same look */
	Verdict		verdict;
	Receipt    *receipt;
} Submission;

extern void submission_look(Submission *submission);
extern void submission_wait(Submission *submission);

/* batch.c: one approval over a whole list */
extern void batch_go_on(const Request *batch, const Facts *facts,
						const text *approval_id, const Identity *requester,
						const Order *order);
extern Jsonb *batch_out(const Request *batch);

/* batch_items.c: the list of a batch; see also batch.h */
extern bool batch_destinations_allowed(const Request *batch, const text *pattern);

/* go_on.c: what was stopped goes on */
extern Gate go_on_waiting(Request *request, Facts *facts,
						  const Identity *requester, const Order *order);
extern void go_on_blocked(Intent *intent, const Identity *identity);
extern void go_on_blocked_items(const Request *batch, const Identity *identity);
extern int64 go_on_mended(const Identity *identity);

/* mark.c: where a search of the worklist begins */
extern void walk_begin(Walk *walk, uint64 search, bool whole);
extern void walk_leg_begin(Walk *walk);
extern void walk_leg_end(Walk *walk, int64 expected);
extern void walk_end(const Walk *walk, TimestampTz reached);
extern bool walk_again(const Walk *walk);
extern uint64 walk_search(uint64 search, const void *bytes, int len);

/* dispatch.c: going out */
extern void require_plain_transaction(const char *function);

/* flush.c: is it safe on the synchronous standby, too? */
extern void flush_must_be_confirmed(void);

/* adopt.c: is this the database that the ledger was last written in? */
extern void ledger_must_be_home(void);
extern int64 attempts_before(const text *action);
extern bool adopt_has_lost(Intent *intent);

/* receipt.c: answers */
extern void fill_by_name(TupleDesc desc, const NamedDatum *members, int count,
						 Datum *values, bool *nulls);
extern Datum composite_datum(FunctionCallInfo fcinfo,
							 const NamedDatum *values, int count);
extern Datum receipt_datum(FunctionCallInfo fcinfo, const Receipt *receipt);
extern Jsonb *detail_evidence(const Jsonb *evidence, const text *provider_ref,
							  const char *name, const char *value);
extern Jsonb *detail_words(const char *name,...);
extern text *detail_member(const Jsonb *detail, const char *name);

/* task_request.c: the document task-request.v1 */
extern bool is_task_request(const Jsonb *document);
extern void task_request_read(TaskRequest *task, Jsonb *document);
extern void task_request_require_provider(const TaskRequest *task);
extern void task_request_as_request(Request *request, TaskRequest *task,
									text *scope, Jsonb *document);

/* Constants of the fake task's world */
#define FAKE_TASK_ACTION "create_fake_task"
#define FAKE_TASK_OPERATION "create_task"
#define FAKE_TASK_PROVIDER "fake-task-provider.v1"

#endif							/* EXTACTION_H */
