/*-------------------------------------------------------------------------
 *
 * document.c
 *	  The border between JSON documents and SQL.
 *
 * Below it a document that has no canonical form is a CanonicalFault; here it
 * becomes an error that names the member and says what to do.  A document is
 * checked for its size before it is detoasted.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "extaction.h"

#include "access/detoast.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"

/* A message shows no more characters of a number. */
#define MAX_VALUE_SHOWN 60

/* A sink that collects the text. */
typedef struct TextSink
{
	CanonicalSink sink;			/* must be first */
	StringInfoData data;
} TextSink;

static text *server_text(StringInfo data);
static void text_write(CanonicalSink *sink, const char *bytes, size_t len);

PG_FUNCTION_INFO_V1(extaction_canonical);
PG_FUNCTION_INFO_V1(extaction_digest);
PG_FUNCTION_INFO_V1(extaction_stored_digest);
PG_FUNCTION_INFO_V1(extaction_idempotency_key);

/*
 * Refuse a jsonb or text that is too large, before it is detoasted.
 */
void
document_check_size(Datum document)
{
	Size		size = toast_raw_datum_size(document) - VARHDRSZ;
	Size		limit = (Size) extaction_max_document_size * 1024;

	if (size > limit)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("document is too large"),
				 errdetail("It has %zu bytes, at most %zu are taken.",
						   size, limit),
				 errhint("Store large content elsewhere and send a reference to it, or raise \"%s\".",
						 "extaction.max_document_size")));
}

/*
 * Raise the error for a document without canonical form.  "what" names the
 * document, as in "payload"; the path also goes, for programs, into the
 * error's constraint name.
 */
void
document_fault(const CanonicalFault *fault, const char *what)
{
	const char *place = fault->path[0] != '\0' ? fault->path : "The document";

	Assert(fault->status != CANONICAL_OK);

	if (fault->status == CANONICAL_LOSSY_NUMBER)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("number in %s has no exact canonical form", what),
				 errdetail("%s is %.*s%s; no double shows exactly this.",
						   place, MAX_VALUE_SHOWN, fault->value,
						   strlen(fault->value) > MAX_VALUE_SHOWN ? "..." : ""),
				 errhint("Send it as a string."),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, fault->path)));

	ereport(ERROR,
			(errcode(ERRCODE_STATEMENT_TOO_COMPLEX),
			 errmsg("%s is nested too deeply", what),
			 errdetail("The stack depth limit was reached at \"%s\".", fault->path),
			 errhint("Send a flatter document, or raise \"%s\".",
					 "max_stack_depth"),
			 err_generic_string(PG_DIAG_CONSTRAINT_NAME, fault->path)));
}

/*
 * canonical(document jsonb) returns text
 */
Datum
extaction_canonical(PG_FUNCTION_ARGS)
{
	document_check_size(PG_GETARG_DATUM(0));

	PG_RETURN_TEXT_P(canonical_text(PG_GETARG_JSONB_P(0)));
}

/*
 * digest(document jsonb) returns bytea
 */
Datum
extaction_digest(PG_FUNCTION_ARGS)
{
	bytea	   *result;
	CanonicalFault fault;

	document_check_size(PG_GETARG_DATUM(0));
	result = (bytea *) palloc(VARHDRSZ + DIGEST_LENGTH);
	SET_VARSIZE(result, VARHDRSZ + DIGEST_LENGTH);
	if (digest_json(PG_GETARG_JSONB_P(0), (uint8 *) VARDATA(result),
					&fault) != CANONICAL_OK)
		document_fault(&fault, "document");

	PG_RETURN_BYTEA_P(result);
}

/*
 * The text that a request's digest is taken of, in the server encoding.
 */
text *
request_text(const Request *request)
{
	TextSink	out;
	CanonicalFault fault;

	out.sink.write = text_write;
	initStringInfo(&out.data);
	appendStringInfoSpaces(&out.data, VARHDRSZ);	/* for the length */
	if (write_request(&out.sink, request, &fault) != CANONICAL_OK)
		document_fault(&fault, "request");
	return server_text(&out.data);
}

/*
 * stored_digest(document jsonb) returns bytea
 *
 * For verify(), which must not stumble over what it is to find.
 */
Datum
extaction_stored_digest(PG_FUNCTION_ARGS)
{
	bytea	   *result = (bytea *) palloc(VARHDRSZ + DIGEST_LENGTH);
	CanonicalFault fault;

	SET_VARSIZE(result, VARHDRSZ + DIGEST_LENGTH);
	if (digest_json(PG_GETARG_JSONB_P(0), (uint8 *) VARDATA(result),
					&fault) != CANONICAL_OK)
		PG_RETURN_NULL();

	PG_RETURN_BYTEA_P(result);
}

/*
 * idempotency_key(ledger_id uuid, scope text, intent_id text) returns uuid
 */
Datum
extaction_idempotency_key(PG_FUNCTION_ARGS)
{
	pg_uuid_t  *key = (pg_uuid_t *) palloc(sizeof(pg_uuid_t));

	idempotency_key(PG_GETARG_UUID_P(0), PG_GETARG_TEXT_PP(1),
					PG_GETARG_TEXT_PP(2), key);

	PG_RETURN_UUID_P(key);
}

/*
 * The canonical text of a document, in server encoding.
 */
text *
canonical_text(Jsonb *json)
{
	TextSink	out;
	CanonicalFault fault;

	out.sink.write = text_write;
	initStringInfo(&out.data);
	appendStringInfoSpaces(&out.data, VARHDRSZ);	/* for the length */
	if (canonical_write(&out.sink, &json->root, &fault) != CANONICAL_OK)
		document_fault(&fault, "document");

	return server_text(&out.data);
}

/*
 * UTF-8 bytes, with room for a length in front, as a text in the server
 * encoding.
 */
static text *
server_text(StringInfo data)
{
	text	   *result = (text *) data->data;
	char	   *converted;

	SET_VARSIZE(result, data->len);
	if (GetDatabaseEncoding() == PG_UTF8)
		return result;

	converted = pg_any_to_server(VARDATA(result), VARSIZE(result) - VARHDRSZ,
								 PG_UTF8);
	return converted == VARDATA(result) ? result : cstring_to_text(converted);
}

/*
 * Take bytes; the write function of the sink.
 */
static void
text_write(CanonicalSink *sink, const char *bytes, size_t len)
{
	appendBinaryStringInfo(&((TextSink *) sink)->data, bytes, (int) len);
}
