/*-------------------------------------------------------------------------
 *
 * inbox.c
 *	  Wakeups: what a listed source outside tells us.
 *
 * A wakeup is data.  It can tell a worker that something is worth a look;
 * nothing leads from it to an approval or an intent, and no other room reads
 * it.  The first payload under an event's id counts, and is taken once.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "extaction.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"

#define MAX_WAKEUPS 10000		/* that one call of next_wakeup reads */

static const char *take(const text *scope, const text *source,
						const text *event_id, const text *payload,
						const Identity *identity);
static bool source_admits(const text *scope, const text *source,
						  const text *payload, const text *signature);
static void payload_hmac(const text *payload, Datum secret, uint8 *digest);
static bytea *secret_bytes(const text *secret);
static bytea *utf8_bytes(const text *value);

PG_FUNCTION_INFO_V1(extaction_set_wake_source);
PG_FUNCTION_INFO_V1(extaction_drop_wake_source);
PG_FUNCTION_INFO_V1(extaction_wake);
PG_FUNCTION_INFO_V1(extaction_next_wakeup);

/*
 * set_wake_source(scope, source, secret) returns text
 */
Datum
extaction_set_wake_source(PG_FUNCTION_ARGS)
{
	static KeptQuery query = {
		"INSERT INTO extaction.wake_sources AS s (scope, source, secret, role) VALUES ($1, $2, $3, $4)"
		" ON CONFLICT (scope, source) DO UPDATE SET secret = excluded.secret, role = excluded.role,"
		"  recorded_at = excluded.recorded_at"
		" WHERE s.secret IS DISTINCT FROM excluded.secret"
		" RETURNING CASE WHEN xmax = 0 THEN 'created' ELSE 'changed' END",
		false, 4, {TEXTOID, TEXTOID, BYTEAOID, TEXTOID}, NULL
	};
	text	   *scope = name_argument(fcinfo, 0, "scope");
	text	   *source = name_argument(fcinfo, 1, "source");
	bytea	   *secret = PG_ARGISNULL(2) ? NULL : secret_bytes(PG_GETARG_TEXT_PP(2));
	LedgerVisit visit;
	Identity	identity;
	QueryArgs	args = {0};
	const char *status;

	ledger_enter(&visit, LEDGER_DECIDES);
	identity_init(&identity, visit.caller, NULL);
	access_require(&identity, scope, "owner");
	arg_text(&args, scope);
	arg_text(&args, source);
	arg_bytes(&args, secret);
	arg_text(&args, identity.role_name);
	status = query_run(&query, &args) == 1 ? got_word(0, 1) : "unchanged";
	ledger_leave(&visit);
	PG_RETURN_TEXT_P(cstring_to_text(status));
}

/*
 * drop_wake_source(scope, source) returns text
 */
Datum
extaction_drop_wake_source(PG_FUNCTION_ARGS)
{
	static KeptQuery query = {
		"DELETE FROM extaction.wake_sources WHERE scope = $1 AND source = $2",
		false, 2, {TEXTOID, TEXTOID}, NULL
	};
	text	   *scope = name_argument(fcinfo, 0, "scope");
	text	   *source = name_argument(fcinfo, 1, "source");
	LedgerVisit visit;
	Identity	identity;
	QueryArgs	args = {0};
	bool		dropped;

	ledger_enter(&visit, LEDGER_DECIDES);
	identity_init(&identity, visit.caller, NULL);
	access_require(&identity, scope, "owner");
	arg_text(&args, scope);
	arg_text(&args, source);
	dropped = query_run(&query, &args) == 1;
	ledger_leave(&visit);
	PG_RETURN_TEXT_P(cstring_to_text(dropped ? "dropped" : "unchanged"));
}

/*
 * wake(scope, source, event_id, payload, signature) returns text
 */
Datum
extaction_wake(PG_FUNCTION_ARGS)
{
	text	   *scope = name_argument(fcinfo, 0, "scope");
	text	   *source = name_argument(fcinfo, 1, "source");
	text	   *event_id = name_argument(fcinfo, 2, "event_id");
	text	   *payload = text_argument(fcinfo, 3, "payload");
	text	   *signature = PG_ARGISNULL(4) ? NULL : PG_GETARG_TEXT_PP(4);
	LedgerVisit visit;
	Identity	identity;
	const char *status = "refused";

	ledger_enter(&visit, LEDGER_WRITES);
	identity_init(&identity, visit.caller, NULL);
	access_require(&identity, scope, "submitter,worker");
	/* whoever cannot sign is not told what we have */
	if (source_admits(scope, source, payload, signature))
		status = take(scope, source, event_id, payload, &identity);
	ledger_leave(&visit);
	PG_RETURN_TEXT_P(cstring_to_text(status));
}

/*
 * Of two at once one is first; the other finds what the first has left.
 */
static const char *
take(const text *scope, const text *source, const text *event_id,
	 const text *payload, const Identity *identity)
{
	static KeptQuery insert = {
		"WITH taken AS ("
		" INSERT INTO extaction.wakeups (scope, source, event_id, payload, payload_digest, role, \"session_user\", actor)"
		" VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"
		" ON CONFLICT (scope, source, event_id) DO NOTHING RETURNING wakeup_id)"
		" INSERT INTO extaction.unread_wakeups (scope, wakeup_id, source, event_id)"
		" SELECT $1, wakeup_id, $2, $3 FROM taken",
		false, 8, {TEXTOID, TEXTOID, TEXTOID, TEXTOID, BYTEAOID, TEXTOID, TEXTOID, TEXTOID}, NULL
	};
	static KeptQuery compare = {
		"SELECT payload_digest FROM extaction.wakeups WHERE scope = $1 AND source = $2 AND event_id = $3",
		false, 3, {TEXTOID, TEXTOID, TEXTOID}, NULL
	};
	bytea	   *bytes = utf8_bytes(payload);
	uint8		digest[DIGEST_LENGTH];
	uint8		first[DIGEST_LENGTH];
	QueryArgs	args = {0};
	QueryArgs	id = {0};

	digest_bytes(VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes), digest);
	arg_text(&args, scope);
	arg_text(&args, source);
	arg_text(&args, event_id);
	arg_text(&args, payload);
	arg_digest(&args, digest);
	arg_identity(&args, identity);
	if (query_run(&insert, &args) == 1)
		return "accepted";
	arg_text(&id, scope);
	arg_text(&id, source);
	arg_text(&id, event_id);
	if (query_run_now(&compare, &id) != 1)
		elog(ERROR, "a wakeup is gone");
	got_digest(0, 1, first);
	return memcmp(first, digest, DIGEST_LENGTH) == 0 ? "duplicate" : "conflict";
}

/*
 * Is the source listed, and if it has a secret, is the payload signed with it?
 */
static bool
source_admits(const text *scope, const text *source, const text *payload,
			  const text *signature)
{
	static KeptQuery query = {
		"SELECT secret FROM extaction.wake_sources WHERE scope = $1 AND source = $2",
		false, 2, {TEXTOID, TEXTOID}, NULL
	};
	uint8		expected[DIGEST_LENGTH];
	uint8		given[DIGEST_LENGTH];
	volatile uint8 difference = 0;
	QueryArgs	args = {0};
	bool		isnull;
	Datum		secret;
	int			i;

	arg_text(&args, scope);
	arg_text(&args, source);
	if (query_run_now(&query, &args) == 0)
		return false;
	secret = got_datum(0, 1, &isnull);
	if (isnull)
		return true;
	if (signature == NULL ||
		!digest_from_hex(VARDATA_ANY(signature), VARSIZE_ANY_EXHDR(signature), given))
		return false;
	payload_hmac(payload, PointerGetDatum(DatumGetByteaPCopy(secret)), expected);
	/* in the same time wherever they differ */
	for (i = 0; i < DIGEST_LENGTH; i++)
		difference |= expected[i] ^ given[i];
	return difference == 0;
}

/*
 * HMAC-SHA256 by pgcrypto's own function, wherever pgcrypto is installed:
 * found as a member of that extension, never by name and search_path.
 */
static void
payload_hmac(const text *payload, Datum secret, uint8 *digest)
{
	static KeptQuery query = {
		"SELECT p.oid::bigint FROM pg_proc p"
		" JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'"
		"  AND d.refclassid = 'pg_extension'::regclass"
		" JOIN pg_extension x ON x.oid = d.refobjid"
		" WHERE x.extname = 'pgcrypto' AND p.proname = 'hmac' AND p.proargtypes = '17 17 25'::oidvector",
		false, 0, {InvalidOid}, NULL
	};
	QueryArgs	args = {0};
	bytea	   *hmac;

	if (query_run(&query, &args) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("function hmac of extension \"pgcrypto\" is not there"),
				 errhint("Signatures are checked with it: ALTER EXTENSION pgcrypto UPDATE.")));
	hmac = DatumGetByteaPP(OidFunctionCall3((Oid) got_int8(0, 1),
											PointerGetDatum(utf8_bytes(payload)), secret,
											CStringGetTextDatum("sha256")));
	if (VARSIZE_ANY_EXHDR(hmac) != DIGEST_LENGTH)
		elog(ERROR, "an HMAC is not %d bytes long", DIGEST_LENGTH);
	memcpy(digest, VARDATA_ANY(hmac), DIGEST_LENGTH);
}

/*
 * A secret is its UTF-8 bytes, or those that \x and hex digits name.
 */
static bytea *
secret_bytes(const text *secret)
{
	char	   *str = text_to_cstring(secret);
	bool		hex = strncmp(str, "\\x", 2) == 0;

	if (str[0] == '\0' || (hex && (strlen(str) == 2 || strlen(str) % 2 != 0 ||
								  strspn(str + 2, "0123456789abcdefABCDEF") != strlen(str + 2))))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid secret"),
				 errdetail_internal(hex ? "After \\x it has no bytes in hex." : "It is empty."),
				 errhint("Pass the secret that the source signs with, or NULL for a source that does not sign."),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "secret")));
	return hex ? DatumGetByteaP(DirectFunctionCall1(byteain, CStringGetDatum(str))) : utf8_bytes(secret);
}

static bytea *
utf8_bytes(const text *value)
{
	int			length = VARSIZE_ANY_EXHDR(value);
	char	   *utf8 = pg_server_to_any(VARDATA_ANY(value), length, PG_UTF8);

	return (bytea *) cstring_to_text_with_len(utf8, utf8 == VARDATA_ANY(value)
											  ? length : (int) strlen(utf8));
}

/*
 * next_wakeup(scope, source, max_wakeups) returns setof (source, event_id,
 * payload, recorded_at, wakeup_id)
 *
 * Reading takes them off the list of the unread, if the transaction commits;
 * what another one is reading just now is passed over.
 */
Datum
extaction_next_wakeup(PG_FUNCTION_ARGS)
{
	static KeptQuery query = {
		"WITH next AS MATERIALIZED ("
		" SELECT u.wakeup_id FROM extaction.unread_wakeups u"
		" WHERE u.scope = $1 AND ($2 IS NULL OR u.source = $2)"
		" ORDER BY u.wakeup_id LIMIT $3 FOR UPDATE SKIP LOCKED),"
		" taken AS (DELETE FROM extaction.unread_wakeups u USING next n"
		"           WHERE u.scope = $1 AND u.wakeup_id = n.wakeup_id RETURNING u.*)"
		" SELECT w.source, w.event_id, w.payload, w.recorded_at, w.wakeup_id"
		" FROM taken t JOIN extaction.wakeups w USING (scope, source, event_id) ORDER BY w.wakeup_id",
		false, 3, {TEXTOID, TEXTOID, INT8OID}, NULL
	};
	text	   *scope = name_argument(fcinfo, 0, "scope");
	text	   *source = optional_name(fcinfo, 1, "source");
	int64		max_wakeups = PG_ARGISNULL(2) ? 1 : PG_GETARG_INT64(2);
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	LedgerVisit visit;
	Identity	identity;
	QueryArgs	args = {0};
	int			count;
	int			i;

	if (max_wakeups < 1 || max_wakeups > MAX_WAKEUPS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("max_wakeups must be between 1 and %d", MAX_WAKEUPS),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "max_wakeups")));
	InitMaterializedSRF(fcinfo, 0);
	ledger_enter(&visit, LEDGER_WRITES);
	identity_init(&identity, visit.caller, NULL);
	access_require(&identity, scope, "submitter,worker");
	arg_text(&args, scope);
	arg_text(&args, source);
	arg_int8(&args, max_wakeups);
	count = (int) query_run(&query, &args);
	for (i = 0; i < count; i++)
	{
		Datum		values[5];
		bool		nulls[5];
		int			column;

		for (column = 0; column < 5; column++)
			values[column] = got_datum(i, column + 1, &nulls[column]);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	ledger_leave(&visit);
	return (Datum) 0;
}
