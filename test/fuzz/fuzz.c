/*-------------------------------------------------------------------------
 *
 * fuzz.c
 *	  The harness of the fuzzer: canonical form and checks of what callers
 *	  pass, in a program that has the whole server in it but runs none.
 *
 * An input's first byte says what it is for, as in the corpus and in
 * test/t/341_corpus.pl:
 *
 *	  j	a JSON text, to strict_json, canonical and digest
 *	  n	a number as jsonb prints it, to number_form
 *	  t	a JSON text, to the checks of task-request.v1
 *	  c	a JSON array of contracts and situation, to contract_step
 *	  a	a name
 *	  h	a digest in hex
 *	  p	two JSON texts with a line end between them: what differs
 *
 * Errors raised are fine; internal ones (class XX) are not.  No input may
 * crash, and the properties below must hold.
 *
 *-------------------------------------------------------------------------
 */
#include "../../src/contract_function.c"	/* its readers are static */

#include "common/cryptohash.h"
#include "malloc_context.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "pgtime.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

/* What main() of the server would have. */
const char *progname = "fuzz";

extern Datum extaction_strict_json(PG_FUNCTION_ARGS);

int			LLVMFuzzerInitialize(int *argc, char ***argv);
int			LLVMFuzzerTestOneInput(const uint8 *data, size_t size);

static MemoryContext item_memory;

/* A property does not hold. */
#define MUST(condition) \
	do { \
		if (!(condition)) \
		{ \
			fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #condition); \
			abort(); \
		} \
	} while (0)

static Jsonb *
json_of(const char *str)
{
	return DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(str)));
}

static Datum
numeric_of(const char *str)
{
	return DirectFunctionCall3(numeric_in, CStringGetDatum(str),
							   ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
}

/*
 * What strict_json takes has a canonical text; that is the same document, its
 * own canonical text, and what the digest is taken of.
 */
static void
try_json(char *str)
{
	Jsonb	   *json = DatumGetJsonbP(DirectFunctionCall1(extaction_strict_json,
														  PointerGetDatum(cstring_to_text(str))));
	char	   *canonical = text_to_cstring(canonical_text(json));
	Jsonb	   *again = json_of(canonical);
	uint8		digest[DIGEST_LENGTH];
	uint8		expected[DIGEST_LENGTH];
	CanonicalFault fault;
	pg_cryptohash_ctx *hash = pg_cryptohash_create(PG_SHA256);
	int			pieces;

	MUST(compareJsonbContainers(&json->root, &again->root) == 0);
	MUST(strcmp(text_to_cstring(canonical_text(again)), canonical) == 0);
	MUST(differing_paths(json, again) == NULL || differing_paths(json, again)[0] == '\0');

	MUST(pg_cryptohash_init(hash) == 0);
	MUST(pg_cryptohash_update(hash, (uint8 *) canonical, strlen(canonical)) == 0);
	MUST(pg_cryptohash_final(hash, expected, sizeof(expected)) == 0);
	pg_cryptohash_free(hash);
	pieces = malloc_context_pieces(item_memory);
	MUST(digest_json(json, digest, &fault) == CANONICAL_OK);
	MUST(malloc_context_pieces(item_memory) == pieces); /* no leak */
	MUST(memcmp(digest, expected, DIGEST_LENGTH) == 0);
}

/*
 * A number's canonical text has exactly its value, and is its own.
 */
static void
try_number(char *str)
{
	char		form[NUMBER_BUFFER + 1];
	char		again[NUMBER_BUFFER + 1];
	char	   *printed;
	int			len;

	if (strspn(str, "-.0123456789") != strlen(str))
		return;
	printed = DatumGetCString(DirectFunctionCall1(numeric_out, numeric_of(str)));
	len = number_form(printed, form);
	MUST(len >= 0 && len <= NUMBER_BUFFER);
	form[len] = '\0';
	if (len == 0)
		return;
	MUST(DatumGetBool(DirectFunctionCall2(numeric_eq, numeric_of(form), numeric_of(printed))));
	printed = DatumGetCString(DirectFunctionCall1(numeric_out, numeric_of(form)));
	MUST(number_form(printed, again) == len);
	MUST(memcmp(form, again, len) == 0);
	MUST(strtod(form, NULL) == strtod(printed, NULL));
}

static void
try_task_request(char *str)
{
	TaskRequest task;
	Request		request;

	memset(&request, 0, sizeof(request));
	task_request_read(&task, json_of(str));
	MUST(name_fault(VARDATA_ANY(task.intent_id), VARSIZE_ANY_EXHDR(task.intent_id)) == NULL);
	task_request_as_request(&request, &task, cstring_to_text("shop"), json_of(str));
}

static void
try_contract(char *str)
{
	Jsonb	   *pair = json_of(str);
	JsonbValue *contracts_value;
	JsonbValue *situation_value;
	Contract   *contracts;
	int			ncontracts;
	Situation	situation;
	TimestampTz after;
	Step		step;

	if (!JB_ROOT_IS_ARRAY(pair) || JB_ROOT_IS_SCALAR(pair) || JB_ROOT_COUNT(pair) != 2)
		return;
	contracts_value = getIthJsonbValueFromContainer(&pair->root, 0);
	situation_value = getIthJsonbValueFromContainer(&pair->root, 1);
	contracts = read_contracts(JsonbValueToJsonb(contracts_value), &ncontracts);
	read_situation(&situation, JsonbValueToJsonb(situation_value));
	step = contract_next_step(contracts, ncontracts, &situation);
	MUST(contract_step_name(step.kind) != NULL && step.reason != NULL);
	(void) contract_absent_after(contracts, ncontracts, situation.quiet_from, &after);
	(void) contract_quiet_after(contracts, ncontracts, situation.quiet_from, &after);
	(void) contract_proves_not_happened(contracts, ncontracts, "400");
}

static void
try_hex(char *str)
{
	uint8		digest[DIGEST_LENGTH];
	uint8		again[DIGEST_LENGTH];
	text	   *hex;

	if (!digest_from_hex(str, strlen(str), digest))
		return;
	hex = digest_to_hex(digest);
	MUST(digest_from_hex(VARDATA(hex), VARSIZE(hex) - VARHDRSZ, again));
	MUST(memcmp(digest, again, DIGEST_LENGTH) == 0);
}

static void
try_pair(char *str)
{
	char	   *end = strchr(str, '\n');
	Jsonb	   *one;
	Jsonb	   *other;
	char	   *paths;

	if (end == NULL)
		return;
	*end = '\0';
	one = json_of(str);
	other = json_of(end + 1);
	if (!JB_ROOT_IS_OBJECT(one) || !JB_ROOT_IS_OBJECT(other))
		return;					/* then there are no members */
	paths = differing_paths(one, other);
	MUST((paths == NULL || paths[0] == '\0') ==
		 (compareJsonbContainers(&one->root, &other->root) == 0));
}

static void
try_input(char kind, char *str)
{
	switch (kind)
	{
		case 'j':
			try_json(str);
			break;
		case 'n':
			try_number(str);
			break;
		case 't':
			try_task_request(str);
			break;
		case 'c':
			try_contract(str);
			break;
		case 'a':
			(void) name_fault(str, strlen(str));
			break;
		case 'h':
			try_hex(str);
			break;
		case 'p':
			try_pair(str);
			break;
	}
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	log_min_messages = PANIC;	/* an error is an answer here */
	MyProcPid = getpid();
	(void) set_stack_base();
	MemoryContextInit();
	SetDatabaseEncoding(PG_UTF8);
	pg_timezone_initialize();
	CurrentResourceOwner = ResourceOwnerCreate(NULL, "fuzz");
	item_memory = malloc_context_create();
	return 0;
}

int
LLVMFuzzerTestOneInput(const uint8 *data, size_t size)
{
	sigjmp_buf	on_error;
	char	   *str;

	/* what comes to a function has passed the server's check of encoding */
	if (size == 0 || memchr(data, 0, size) != NULL ||
		!pg_verify_mbstr(PG_UTF8, (const char *) data, (int) size, true))
		return 0;

	(void) set_stack_base();
	MemoryContextSwitchTo(item_memory);
	str = pnstrdup((const char *) data + 1, size - 1);
	if (sigsetjmp(on_error, 0) == 0)
	{
		PG_exception_stack = &on_error;
		try_input((char) data[0], str);
	}
	else
	{
		int			class = ERRCODE_TO_CATEGORY(geterrcode());

		MemoryContextSwitchTo(item_memory);
		if (class == ERRCODE_TO_CATEGORY(ERRCODE_INTERNAL_ERROR))
		{
			fprintf(stderr, "internal error: %s\n", CopyErrorData()->message);
			abort();
		}
		FlushErrorState();
	}
	PG_exception_stack = NULL;
	error_context_stack = NULL;
	MemoryContextReset(item_memory);
	return 0;
}
