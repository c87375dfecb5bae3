/*-------------------------------------------------------------------------
 *
 * propose.c
 *	  Sources and the candidates that programs read from them.
 *
 * A proposal allows nothing.  What it does is to give an approval something
 * to be bound to: a candidate's newest revision, and the version of the
 * source it was read from.
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

/* One call of propose. */
typedef struct Proposal
{
	text	   *scope;
	text	   *candidate_id;
	Jsonb	   *content;
	text	   *source_id;
	text	   *source_version;
	uint8		digest[DIGEST_LENGTH];
	int64		revision;
	const char *status;
} Proposal;

static void record_proposal(Proposal *proposal, const Identity *identity);
static bool insert_revision(const Proposal *proposal, const Identity *identity);

PG_FUNCTION_INFO_V1(extaction_propose);
PG_FUNCTION_INFO_V1(extaction_observe_source);
PG_FUNCTION_INFO_V1(extaction_request_digest);

/*
 * propose(scope, candidate_id, content, source_id, source_version, actor)
 * returns proposal
 */
Datum
extaction_propose(PG_FUNCTION_ARGS)
{
	Proposal	proposal = {0};
	text	   *actor = optional_name(fcinfo, 5, "actor");
	JsonbValue	value;
	CanonicalFault fault;
	LedgerVisit visit;
	Identity	identity;

	proposal.scope = name_argument(fcinfo, 0, "scope");
	proposal.candidate_id = name_argument(fcinfo, 1, "candidate_id");
	proposal.content = document_argument(fcinfo, 2, "content");
	proposal.source_id = name_argument(fcinfo, 3, "source_id");
	proposal.source_version = name_argument(fcinfo, 4, "source_version");
	if (JsonbExtractScalar(&proposal.content->root, &value) && value.type == jbvNull)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("content is a JSON null"),
				 errhint("Propose something, or nothing at all."),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "content")));
	if (digest_json(proposal.content, proposal.digest, &fault) != CANONICAL_OK)
		document_fault(&fault, "content");

	ledger_enter(&visit, LEDGER_WRITES);
	identity_init(&identity, visit.caller, actor);
	access_require(&identity, proposal.scope, "submitter");
	record_proposal(&proposal, &identity);
	ledger_leave(&visit);
	{
		NamedDatum	values[] = {
			{"status", CStringGetTextDatum(proposal.status), false},
			{"revision", Int64GetDatum(proposal.revision), false},
			{"digest", PointerGetDatum(digest_to_hex(proposal.digest)), false},
			{"candidate_id", PointerGetDatum(proposal.candidate_id), false},
		};

		PG_RETURN_DATUM(composite_datum(fcinfo, values, lengthof(values)));
	}
}

/*
 * Makes a new revision unless it would be the newest one again.  Two sessions
 * that propose at once get one revision after the other: the primary key
 * tells who has to look again.
 */
static void
record_proposal(Proposal *proposal, const Identity *identity)
{
	static KeptQuery newest = {
		"SELECT c.revision, c.digest = $3 AND c.source_id = $4 AND c.source_version = $5"
		" AND c.content <> 'null'"
		" FROM extaction.candidates c WHERE c.scope = $1 AND c.candidate_id = $2"
		" ORDER BY c.revision DESC LIMIT 1",
		false, 5, {TEXTOID, TEXTOID, BYTEAOID, TEXTOID, TEXTOID}, NULL
	};

	for (;;)
	{
		QueryArgs	args = {0};

		CHECK_FOR_INTERRUPTS();
		arg_text(&args, proposal->scope);
		arg_text(&args, proposal->candidate_id);
		arg_digest(&args, proposal->digest);
		arg_text(&args, proposal->source_id);
		arg_text(&args, proposal->source_version);
		proposal->revision = query_run_now(&newest, &args) == 0 ? 0 : got_int8(0, 1);
		if (proposal->revision > 0 && got_bool(0, 2))
		{
			proposal->status = "replayed";
			return;
		}
		proposal->status = proposal->revision == 0 ? "created" : "revised";
		proposal->revision++;
		if (insert_revision(proposal, identity))
			return;
	}
}

static bool
insert_revision(const Proposal *proposal, const Identity *identity)
{
	static KeptQuery insert = {
		"INSERT INTO extaction.candidates"
		" (scope, candidate_id, revision, source_id, source_version, content, digest,"
		"  role, \"session_user\", actor)"
		" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"
		" ON CONFLICT (scope, candidate_id, revision) DO NOTHING RETURNING 1",
		false, 10, {TEXTOID, TEXTOID, INT8OID, TEXTOID, TEXTOID, JSONBOID, BYTEAOID,
		TEXTOID, TEXTOID, TEXTOID}, NULL
	};
	QueryArgs	args = {0};

	arg_text(&args, proposal->scope);
	arg_text(&args, proposal->candidate_id);
	arg_int8(&args, proposal->revision);
	arg_text(&args, proposal->source_id);
	arg_text(&args, proposal->source_version);
	arg_jsonb(&args, proposal->content);
	arg_digest(&args, proposal->digest);
	arg_identity(&args, identity);
	return query_run(&insert, &args) == 1;
}

/*
 * observe_source(scope, source_id, source_version, actor) returns text
 */
Datum
extaction_observe_source(PG_FUNCTION_ARGS)
{
	static KeptQuery insert = {
		"INSERT INTO extaction.sources (scope, source_id, source_version, role, \"session_user\", actor)"
		" SELECT $1, $2, $3, $4, $5, $6"
		" WHERE $3 IS DISTINCT FROM (SELECT s.source_version FROM extaction.sources s"
		"                            WHERE s.scope = $1 AND s.source_id = $2"
		"                            ORDER BY s.event_id DESC LIMIT 1)"
		" RETURNING 1",
		false, 6, {TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID}, NULL
	};
	text	   *scope = name_argument(fcinfo, 0, "scope");
	text	   *source_id = name_argument(fcinfo, 1, "source_id");
	text	   *source_version = name_argument(fcinfo, 2, "source_version");
	text	   *actor = optional_name(fcinfo, 3, "actor");
	LedgerVisit visit;
	Identity	identity;
	QueryArgs	args = {0};
	bool		observed;

	ledger_enter(&visit, LEDGER_WRITES);
	identity_init(&identity, visit.caller, actor);
	access_require(&identity, scope, "submitter,worker");
	/* one observer of a source at a time, so that the last row is the last */
	ledger_lock_subject(scope, "source", source_id, true);
	arg_text(&args, scope);
	arg_text(&args, source_id);
	arg_text(&args, source_version);
	arg_identity(&args, &identity);
	observed = query_run_now(&insert, &args) == 1;
	ledger_leave(&visit);
	PG_RETURN_TEXT_P(cstring_to_text(observed ? "observed" : "unchanged"));
}

/*
 * request_digest(scope, intent_id, action, destination, payload,
 * candidate_id) returns text
 */
Datum
extaction_request_digest(PG_FUNCTION_ARGS)
{
	Request		request = {0};
	CandidateRef ref;
	text	   *candidate_id = optional_name(fcinfo, 5, "candidate_id");
	Jsonb	   *content = NULL;
	CanonicalFault fault;
	LedgerVisit visit;
	Identity	identity;

	request.scope = name_argument(fcinfo, 0, "scope");
	request.intent_id = name_argument(fcinfo, 1, "intent_id");
	request.action = name_argument(fcinfo, 2, "action");
	request.destination = name_argument(fcinfo, 3, "destination");

	ledger_enter(&visit, LEDGER_READS);
	identity_init(&identity, visit.caller, NULL);
	access_require_member(&identity, request.scope);
	if (candidate_id != NULL)
	{
		candidate_load(&ref, &content, request.scope, candidate_id);
		request.candidate = &ref;
	}
	ledger_leave(&visit);

	request.payload = PG_ARGISNULL(4) && content != NULL
		? content : document_argument(fcinfo, 4, "payload");
	if (!JB_ROOT_IS_OBJECT(request.payload))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("payload is not an object"),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "payload")));
	if (digest_request(&request, &fault) != CANONICAL_OK)
		document_fault(&fault, "request");
	PG_RETURN_TEXT_P(digest_to_hex(request.digest));
}

/*
 * The newest revision of a candidate that must be there.
 */
void
candidate_load(CandidateRef *ref, Jsonb **content, text *scope, text *candidate_id)
{
	static KeptQuery query = {
		"SELECT c.digest, c.source_id, c.source_version, nullif(c.content, 'null')"
		" FROM extaction.candidates c WHERE c.scope = $1 AND c.candidate_id = $2"
		" ORDER BY c.revision DESC LIMIT 1",
		true, 2, {TEXTOID, TEXTOID}, NULL
	};
	QueryArgs	args = {0};

	arg_text(&args, scope);
	arg_text(&args, candidate_id);
	if (query_run(&query, &args) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("candidate \"%s\" does not exist", text_to_cstring(candidate_id)),
				 errhint("Call extaction.propose first."),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "candidate_id")));
	ref->candidate_id = candidate_id;
	got_digest(0, 1, ref->digest);
	ref->source_id = got_text(0, 2);
	ref->source_version = got_text(0, 3);
	*content = got_jsonb(0, 4);
}
