/*-------------------------------------------------------------------------
 *
 * arguments.c
 *	  What a caller may pass: identifiers, reasons, documents, digests.
 *
 * An identifier (scope, intent_id, actor, ...) is 1 to 255 bytes, without
 * control characters, in Unicode normalization form C: two spellings that
 * look the same must not be two intents.  Nothing is normalised for the
 * caller, who would then know the intent by another name than the ledger.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/unicode_norm.h"
#include "extaction.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"

#define NAME_MAX_BYTES 255

static bool is_nfc(const char *str, int len);
pg_noreturn static void name_error(const char *what, const char *fault);
static text *checked_name(text *name, const char *what);
static bool looks_like_object(const char *str, int len);
pg_noreturn static void null_error(const char *what);

/*
 * What is wrong with an identifier, or NULL.
 */
const char *
name_fault(const char *str, int len)
{
	bool		ascii = true;
	int			i;

	if (len == 0)
		return "It is empty.";
	if (len > NAME_MAX_BYTES)
		return "It is longer than 255 bytes.";
	for (i = 0; i < len; i++)
	{
		unsigned char c = (unsigned char) str[i];

		if (c < 0x20 || c == 0x7f)
			return "It has a control character.";
		if (c >= 0x80)
			ascii = false;
	}
	if (!ascii && !is_nfc(str, len))
		return "It is not in Unicode normalization form C, or has a control character.";
	return NULL;
}

/*
 * NFC, and free of the control characters U+0080 to U+009F.
 */
static bool
is_nfc(const char *str, int len)
{
	unsigned char *utf8 = (unsigned char *) pg_server_to_any(str, len, PG_UTF8);
	int			utf8_len = utf8 == (unsigned char *) str ? len : (int) strlen((char *) utf8);
	pg_wchar	chars[NAME_MAX_BYTES * 4 + 1];
	pg_wchar   *normal;
	int			nchars = 0;
	int			pos = 0;
	bool		same;

	while (pos < utf8_len && nchars < NAME_MAX_BYTES * 4)
	{
		chars[nchars] = utf8_to_unicode(utf8 + pos);
		if (chars[nchars] >= 0x80 && chars[nchars] <= 0x9f)
			return false;
		pos += pg_utf_mblen(utf8 + pos);
		nchars++;
	}
	chars[nchars] = 0;

	if (unicode_is_normalized_quickcheck(UNICODE_NFC, chars) == UNICODE_NORM_QC_YES)
		return true;
	normal = unicode_normalize(UNICODE_NFC, chars);
	same = memcmp(normal, chars, (nchars + 1) * sizeof(pg_wchar)) == 0;
	pfree(normal);
	return same;
}

static void
name_error(const char *what, const char *fault)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid %s", what),
			 errdetail_internal("%s", fault),
			 errhint("An identifier has 1 to 255 bytes, no control characters, and is in Unicode normalization form C."),
			 err_generic_string(PG_DIAG_CONSTRAINT_NAME, what)));
}

static text *
checked_name(text *name, const char *what)
{
	const char *fault = name_fault(VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name));

	if (fault != NULL)
		name_error(what, fault);
	return name;
}

static void
null_error(const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			 errmsg("%s must not be null", what),
			 err_generic_string(PG_DIAG_CONSTRAINT_NAME, what)));
}

/*
 * An identifier that must be given.
 */
text *
name_argument(FunctionCallInfo fcinfo, int arg, const char *what)
{
	if (PG_ARGISNULL(arg))
		null_error(what);
	return checked_name(PG_GETARG_TEXT_PP(arg), what);
}

/*
 * An identifier that may be NULL.
 */
text *
optional_name(FunctionCallInfo fcinfo, int arg, const char *what)
{
	return PG_ARGISNULL(arg) ? NULL : checked_name(PG_GETARG_TEXT_PP(arg), what);
}

/*
 * A text that is kept as it came, whatever is in it.
 */
text *
text_argument(FunctionCallInfo fcinfo, int arg, const char *what)
{
	if (PG_ARGISNULL(arg))
		null_error(what);
	document_check_size(PG_GETARG_DATUM(arg));
	return PG_GETARG_TEXT_PP(arg);
}

/*
 * A reason in words: required, because somebody will read it one day.
 */
text *
reason_argument(FunctionCallInfo fcinfo, int arg)
{
	text	   *reason = PG_ARGISNULL(arg) ? NULL : PG_GETARG_TEXT_PP(arg);

	if (reason == NULL || VARSIZE_ANY_EXHDR(reason) == 0)
		ereport(ERROR,
				(errcode(reason == NULL ? ERRCODE_NULL_VALUE_NOT_ALLOWED : ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a reason must be given"),
				 errhint("Say in words why; it stays in the log."),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "reason")));
	return reason;
}

/*
 * A document that must be given: not too large, and not JSON text packed into
 * a JSON string, which is a common slip of drivers.
 */
Jsonb *
document_argument(FunctionCallInfo fcinfo, int arg, const char *what)
{
	Jsonb	   *document;
	JsonbValue	value;

	if (PG_ARGISNULL(arg))
		null_error(what);
	document_check_size(PG_GETARG_DATUM(arg));
	document = PG_GETARG_JSONB_P(arg);
	if (JsonbExtractScalar(&document->root, &value) && value.type == jbvString &&
		looks_like_object(value.val.string.val, value.val.string.len))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s is encoded twice", what),
				 errdetail("It is a JSON string that holds a JSON object."),
				 errhint("Pass the text itself, or the driver's JSON type, but not both."),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, what)));
	return document;
}

/*
 * Does the text begin and end like an object?
 */
static bool
looks_like_object(const char *str, int len)
{
	while (len > 0 && isspace((unsigned char) *str))
		str++, len--;
	while (len > 0 && isspace((unsigned char) str[len - 1]))
		len--;
	return len >= 2 && str[0] == '{' && str[len - 1] == '}';
}

/*
 * The number of a ticket.
 */
int64
claim_id_argument(FunctionCallInfo fcinfo, int arg)
{
	if (PG_ARGISNULL(arg))
		null_error("claim_id");
	return PG_GETARG_INT64(arg);
}

/*
 * A digest that must be given, in hex.
 */
void
digest_argument(FunctionCallInfo fcinfo, int arg, uint8 *digest)
{
	text	   *hex;

	if (PG_ARGISNULL(arg))
		null_error("request_digest");
	hex = PG_GETARG_TEXT_PP(arg);
	if (!digest_from_hex(VARDATA_ANY(hex), VARSIZE_ANY_EXHDR(hex), digest))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("invalid request_digest"),
				 errdetail("It is not 32 bytes in hex (64 digits)."),
				 errhint("Pass the request_digest that a receipt or extaction.pending_approvals shows."),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "request_digest")));
}

/*
 * Reads a digest from hex, also with "\x", "sha256:" or "sha256=" in front.  False if it
 * is not exactly 32 bytes.
 */
bool
digest_from_hex(const char *str, int len, uint8 *digest)
{
	static const char *const prefixes[] = {"\\x", "sha256:", "sha256="};
	int			i;

	for (i = 0; i < (int) lengthof(prefixes); i++)
	{
		int			prefix_len = (int) strlen(prefixes[i]);

		if (len > prefix_len && strncmp(str, prefixes[i], prefix_len) == 0)
		{
			str += prefix_len;
			len -= prefix_len;
			break;
		}
	}
	if (len != 2 * DIGEST_LENGTH)
		return false;
	for (i = 0; i < len; i++)
		if (!isxdigit((unsigned char) str[i]))
			return false;
	(void) hex_decode(str, len, (char *) digest);
	return true;
}

/*
 * The lower-case hex of a digest.
 */
text *
digest_to_hex(const uint8 *digest)
{
	text	   *hex = palloc(VARHDRSZ + 2 * DIGEST_LENGTH);

	SET_VARSIZE(hex, VARHDRSZ + 2 * DIGEST_LENGTH);
	(void) hex_encode((const char *) digest, DIGEST_LENGTH, VARDATA(hex));
	return hex;
}

text *
text_copy(const text *value)
{
	return value ? (text *) memcpy(palloc(VARSIZE_ANY(value)), value, VARSIZE_ANY(value)) : NULL;
}

bool
text_equal(const text *a, const text *b)
{
	if (a == NULL || b == NULL)
		return a == b;
	return VARSIZE_ANY_EXHDR(a) == VARSIZE_ANY_EXHDR(b) &&
		memcmp(VARDATA_ANY(a), VARDATA_ANY(b), VARSIZE_ANY_EXHDR(a)) == 0;
}

bool
text_is(const text *a, const char *b)
{
	return VARSIZE_ANY_EXHDR(a) == strlen(b) &&
		memcmp(VARDATA_ANY(a), b, strlen(b)) == 0;
}
