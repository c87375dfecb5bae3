/*-------------------------------------------------------------------------
 *
 * receipt.c
 *	  Answers: composite results, filled by the names of their attributes,
 *	  so that a type may get new members at its end.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "executor/executor.h"
#include "extaction.h"
#include "funcapi.h"
#include "utils/builtins.h"

static NamedDatum text_member(const char *name, const text *value);
static NamedDatum word_member(const char *name, const char *value);
static NamedDatum hex_member(const char *name, const uint8 *digest);
static void push_key(JsonbParseState **state, const char *name);
static void push_word(JsonbParseState **state, const char *name,
					  const char *value);
static const char *attribute_word(HeapTupleHeader row, const char *name);

PG_FUNCTION_INFO_V1(extaction_accepted);

/*
 * A row of the calling function's result type.  Attributes that no value is
 * named for are null.
 */
Datum
composite_datum(FunctionCallInfo fcinfo, const NamedDatum *values, int count)
{
	TupleDesc	desc;
	Datum	   *datums;
	bool	   *nulls;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("function returning record called in a context that cannot accept one")));
	datums = palloc(sizeof(Datum) * desc->natts);
	nulls = palloc(sizeof(bool) * desc->natts);
	fill_by_name(desc, values, count, datums, nulls);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), datums, nulls));
}

/*
 * The attributes of a row, each from the member of its name.
 */
void
fill_by_name(TupleDesc desc, const NamedDatum *members, int count,
			 Datum *values, bool *nulls)
{
	int			i;

	for (i = 0; i < desc->natts; i++)
	{
		const char *name = NameStr(TupleDescAttr(desc, i)->attname);
		int			j;

		nulls[i] = true;
		for (j = 0; j < count; j++)
		{
			/* most callers name them in the order that the row has */
			const NamedDatum *member = &members[(i + j) % count];

			if (strcmp(member->name, name) == 0)
			{
				values[i] = member->value;
				nulls[i] = member->isnull;
				break;
			}
		}
	}
}

/*
 * A receipt as a row.
 */
Datum
receipt_datum(FunctionCallInfo fcinfo, const Receipt *receipt)
{
	NamedDatum	values[] = {
		word_member("status", receipt->status),
		word_member("state", receipt->state),
		word_member("next_step", receipt->next_step),
		word_member("needs", receipt->needs),
		word_member("gate", receipt->gate),
		text_member("provider_ref", receipt->provider_ref),
		{"idempotency_key", PointerGetDatum(receipt->idempotency_key),
		receipt->idempotency_key == NULL},
		text_member("scope", receipt->scope),
		text_member("intent_id", receipt->intent_id),
		{"attempt", Int64GetDatum(receipt->attempt), receipt->attempt == 0},
		text_member("approval_id", receipt->approval_id),
		hex_member("request_digest", receipt->request_digest),
		hex_member("bound_digest", receipt->bound_digest),
		text_member("batch_id", receipt->batch_id),
		{"recorded_at", TimestampTzGetDatum(receipt->recorded_at), false},
		{"receipt_id", Int64GetDatum(receipt->receipt_id), receipt->receipt_id == 0},
		{"detail", PointerGetDatum(receipt->detail), receipt->detail == NULL},
	};

	return composite_datum(fcinfo, values, lengthof(values));
}

static NamedDatum
text_member(const char *name, const text *value)
{
	NamedDatum	member = {name, PointerGetDatum(value), value == NULL};

	return member;
}

static NamedDatum
word_member(const char *name, const char *value)
{
	return text_member(name, value ? cstring_to_text(value) : NULL);
}

static NamedDatum
hex_member(const char *name, const uint8 *digest)
{
	return text_member(name, digest ? digest_to_hex(digest) : NULL);
}

/*
 * An object of strings: names and values in turn, ended by a NULL name.  A
 * value that is NULL is left out.
 */
Jsonb *
detail_words(const char *name,...)
{
	JsonbParseState *state = NULL;
	va_list		words;

	va_start(words, name);
	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	while (name != NULL)
	{
		push_word(&state, name, va_arg(words, const char *));
		name = va_arg(words, const char *);
	}
	va_end(words);
	return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
}

/*
 * A word of an event's detail; NULL if it has none of that name.
 */
text *
detail_member(const Jsonb *detail, const char *name)
{
	JsonbValue	value;

	if (detail == NULL ||
		getKeyJsonValueFromContainer((JsonbContainer *) &detail->root, name, (int) strlen(name), &value) == NULL ||
		value.type != jbvString)
		return NULL;
	return cstring_to_text_with_len(value.val.string.val, value.val.string.len);
}

/*
 * What an outcome event keeps: the evidence as it was given, the provider's
 * reference, and one word more.
 */
Jsonb *
detail_evidence(const Jsonb *evidence, const text *provider_ref,
				const char *name, const char *value)
{
	JsonbParseState *state = NULL;

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	if (evidence != NULL)
	{
		JsonbValue	item;

		push_key(&state, "evidence");
		if (JsonbExtractScalar((JsonbContainer *) &evidence->root, &item))
			pushJsonbValue(&state, WJB_VALUE, &item);
		else
		{
			item.type = jbvBinary;
			item.val.binary.data = (JsonbContainer *) &evidence->root;
			item.val.binary.len = VARSIZE_ANY_EXHDR(evidence);
			pushJsonbValue(&state, WJB_VALUE, &item);
		}
	}
	push_word(&state, "provider_ref", provider_ref ? text_to_cstring(provider_ref) : NULL);
	push_word(&state, name, value);
	return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
}

static void
push_key(JsonbParseState **state, const char *name)
{
	JsonbValue	item;

	item.type = jbvString;
	item.val.string.val = (char *) name;
	item.val.string.len = (int) strlen(name);
	pushJsonbValue(state, WJB_KEY, &item);
}

static void
push_word(JsonbParseState **state, const char *name, const char *value)
{
	JsonbValue	item;

	if (value == NULL)
		return;
	push_key(state, name);
	item.type = jbvString;
	item.val.string.val = (char *) value;
	item.val.string.len = (int) strlen(value);
	pushJsonbValue(state, WJB_VALUE, &item);
}

/*
 * accepted(receipt) returns receipt
 */
Datum
extaction_accepted(PG_FUNCTION_ARGS)
{
	HeapTupleHeader answer = PG_GETARG_HEAPTUPLEHEADER(0);
	const char *status = attribute_word(answer, "status");
	const char *intent_id = attribute_word(answer, "intent_id");
	const char *gate = attribute_word(answer, "gate");

	if (strcmp(status, "conflict") == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNIQUE_VIOLATION),
				 errmsg("intent \"%s\" is bound to another content", intent_id),
				 errdetail("It needs: %s.", attribute_word(answer, "needs")),
				 errhint("Another wish takes another intent_id."),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "conflict")));
	if (strcmp(status, "blocked") == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("intent \"%s\" was stopped by gate \"%s\"", intent_id, gate),
				 errdetail("It needs: %s.", attribute_word(answer, "needs")),
				 errhint("See the view extaction.gates."),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, gate)));
	PG_RETURN_DATUM(PG_GETARG_DATUM(0));
}

static const char *
attribute_word(HeapTupleHeader row, const char *name)
{
	bool		isnull;
	Datum		value = GetAttributeByName(row, name, &isnull);

	return isnull ? "" : TextDatumGetCString(value);
}
