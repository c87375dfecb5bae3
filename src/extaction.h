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
#include "utils/jsonb.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

/* PostgreSQL 18 has it, and lost pg_attribute_noreturn() */
#ifndef pg_noreturn
#define pg_noreturn __attribute__((noreturn))
#endif

#define DIGEST_LENGTH 32		/* SHA-256 */

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
} Request;

/*
 * One call's visit to the ledger: between ledger_enter() and ledger_leave()
 * the code runs as the extension's owner, with a pinned search_path and SPI
 * connected.  Palloc goes to the caller's memory, not SPI's.  An error ends
 * the visit by itself: (sub)transaction abort restores user and settings.
 */
typedef struct LedgerVisit
{
	Oid			caller;			/* GetUserId() at entry */
	int			security_context;
	int			guc_level;
	ErrorContextCallback on_error;
} LedgerVisit;

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

/* One approval of the intent at hand, and in what it differs from it. */
typedef struct Approval
{
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
	bool		rejected;		/* an approver said no to this digest */
	bool		self_approval;
	int64		approvals_required;
	text	   *capability;
	/* now, against the request */
	Candidate	candidate;
	text	   *source_version; /* NULL: never observed */
	/* approvals of this intent, in the order they were given */
	int			napprovals;
	Approval   *approvals;
	/* the intent, if it is bound */
	bool		bound;
	uint8		bound_digest[DIGEST_LENGTH];
	pg_uuid_t	idempotency_key;
	text	   *provider_ref;
	bool		waits;			/* has a row in "waiting" */
	pg_uuid_t	ledger_id;
} Facts;

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
} Receipt;

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

/* digest.c: SHA-256, request digest, key; pure */
extern CanonicalStatus digest_json(Jsonb *json, uint8 *digest,
								   CanonicalFault *fault);
extern CanonicalStatus digest_request(Request *request,
									  CanonicalFault *fault);
extern CanonicalStatus write_request(CanonicalSink *sink,
									 const Request *request,
									 CanonicalFault *fault);
extern void idempotency_key(const pg_uuid_t *ledger_id, const text *scope,
							const text *intent_id, pg_uuid_t *key);

/* document.c: the border between JSON documents and SQL errors */
extern void document_check_size(Datum document);
pg_noreturn extern void document_fault(const CanonicalFault *fault,
									   const char *what);

/* arguments.c: identifiers, reasons, documents, digests */
extern text *name_argument(FunctionCallInfo fcinfo, int arg, const char *what);
extern text *optional_name(FunctionCallInfo fcinfo, int arg, const char *what);
extern text *reason_argument(FunctionCallInfo fcinfo, int arg);
extern Jsonb *document_argument(FunctionCallInfo fcinfo, int arg,
								const char *what);
extern const char *name_fault(const char *str, int len);
extern bool digest_from_hex(const char *str, int len, uint8 *digest);
extern text *digest_to_hex(const uint8 *digest);
extern bool text_equal(const text *a, const text *b);
extern bool text_is(const text *a, const char *b);

/* query.c: kept plans, role switch, search_path */
extern void ledger_enter(LedgerVisit *visit, bool writes);
extern void ledger_leave(LedgerVisit *visit);
extern uint64 query_run(KeptQuery *query, QueryArgs *args);
extern uint64 query_run_now(KeptQuery *query, QueryArgs *args);
extern void arg_text(QueryArgs *args, const text *value);
extern void arg_cstring(QueryArgs *args, const char *value);
extern void arg_digest(QueryArgs *args, const uint8 *digest);
extern void arg_jsonb(QueryArgs *args, const Jsonb *value);
extern void arg_uuid(QueryArgs *args, const pg_uuid_t *value);
extern void arg_int8(QueryArgs *args, int64 value);
extern void arg_bool(QueryArgs *args, bool value);
extern void arg_oid(QueryArgs *args, Oid value);
extern void arg_timestamptz(QueryArgs *args, TimestampTz value);
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

/* access.c: scopes, members, identity */
extern void identity_init(Identity *identity, Oid caller, text *actor);
extern void identity_settle(Identity *identity, bool vouching);
extern void access_require(Identity *identity, const text *scope,
						   const char *capabilities);
extern void access_require_member(const Identity *identity, const text *scope);

/* The SQL expression that access.c and facts.c ask with, of two parameters. */
#define ACCESS_SQL(role, scope, capabilities) \
	"(SELECT CASE WHEN bool_or(m.member = " role ")" \
	"             THEN bool_and(m.vouches_for IS NOT NULL) FILTER (WHERE m.member = " role ")" \
	"             ELSE bool_and(m.vouches_for IS NOT NULL) END" \
	" FROM extaction.scope_members m" \
	" WHERE m.scope = " scope " AND m.capability = ANY (string_to_array(" capabilities ", ','))" \
	"   AND pg_get_userbyid(m.member::oid) = m.member_name" \
	"   AND pg_has_role(" role ", m.member::oid, 'USAGE'))"

/* privileges.c: the SQL privileges behind a capability */
extern bool capability_exists(const char *capability);
extern void privileges_grant(Oid role, const char *capability);
extern void privileges_revoke(Oid role, const char *kept_capabilities);

/* propose.c: sources and candidates */
extern void candidate_load(CandidateRef *ref, Jsonb **content,
						   text *scope, text *candidate_id);

/* facts.c: what the ledger knows about a request */
extern void facts_load(Facts *facts, const Request *request,
					   const char *catalogue_action, const Identity *identity,
					   const text *approval_id);
extern bool approval_is_tried(const Facts *facts, const Approval *approval,
							  const text *approval_id);

/* gate.c: may this go, now? */
extern Verdict gate_check(const Facts *facts, const Request *request,
						  const Identity *identity, const text *approval_id);
extern int64 approvals_holding(const Facts *facts, const Identity *requester,
							   TimestampTz now);
extern const char *gate_name(Gate gate);
extern Gate gate_by_name(const char *name);
extern const char *gate_needs(Gate gate);
extern const char *gate_next_step(Gate gate);

/* ledger.c: the only room that writes facts and worklists */
extern void ledger_lock_subject(const text *scope, const char *kind,
								const text *id, bool exclusive);
extern bool ledger_bind(const Request *request, const Facts *facts,
						const text *approval_id, const Identity *identity);
extern void ledger_append(Receipt *receipt, const char *kind,
						  const Request *request, const Identity *identity);
extern void ledger_keep_request(const Request *request,
								const Identity *identity);
extern void ledger_wait(const Request *request, Gate gate,
						const Identity *identity);
extern void ledger_stop_waiting(const text *scope, const char *kind,
								const text *id);

/* receipt.c: answers */
extern Datum composite_datum(FunctionCallInfo fcinfo,
							 const NamedDatum *values, int count);
extern Datum receipt_datum(FunctionCallInfo fcinfo, const Receipt *receipt);
extern Jsonb *detail_strings(const char *const *names,
							 const char *const *values, int count);

/* task_request.c: the document task-request.v1 */
extern void task_request_read(TaskRequest *task, Jsonb *document);
extern void task_request_require_provider(const TaskRequest *task);
extern void task_request_as_request(Request *request, TaskRequest *task,
									text *scope, Jsonb *document);

/* Constants of the fake task's world */
#define FAKE_TASK_ACTION "create_fake_task"
#define FAKE_TASK_OPERATION "create_task"
#define FAKE_TASK_PROVIDER "fake-task-provider.v1"

#endif							/* EXTACTION_H */
