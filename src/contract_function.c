/*-------------------------------------------------------------------------
 *
 * contract_function.c
 *	  The rule of contract.c, for SQL: contracts and a situation as JSON.
 *
 * A contract is an object with the column names of extaction.contracts, as
 * to_jsonb() makes it of a row; a member that is missing or null promises
 * nothing.  A situation names every time itself, with its offset from UTC,
 * so that the answer depends on the arguments only: no clock, no time zone.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "extaction.h"

#include <ctype.h>

#include "contract.h"
#include "utils/builtins.h"

#define DEFAULT_MARGIN (2 * USECS_PER_MINUTE)
#define DEFAULT_MAX_LOOKUPS 5

/* More rows than any operation has; a bound on the work of one call. */
#define MAX_CONTRACTS 100

#define MAX_COUNT_DIGITS 18

/* One object of the documents, and where it is. */
typedef struct Place
{
	JsonbContainer *object;
	const char *path;			/* such as "contracts[0]" */
} Place;

/* Members of a contract that the rule reads, and then the other columns. */
static const char *const contract_members[] = {
	"version", "shipped", "key_carrier", "on_expired", "on_replay",
	"on_mismatch", "on_concurrent", "stores_failures", "failures_roll_back",
	"proves_not_happened", "lookup", "absence_is_proof", "lookup_lag",
	"late_arrival_bound", "retention", "min_retry_delay",
	"provider", "operation", "valid_from", "key_name", "key_max_bytes",
	"scope_parts", "replay_marker", "source", "checked_on", NULL
};

static const char *const situation_members[] = {
	"now", "first_sent_at", "quiet_from", "lease", "margin", "last_code",
	"last_answer_at", "gates_pass", "bytes_stored", "attempts_left",
	"late_found", "lookups", "max_lookups", "look_due_at", NULL
};

static Contract *read_contracts(Jsonb *document, int *ncontracts);
static void read_contract(Contract *contract, const Place *place);
static void read_words(Contract *contract, const Place *place);
static void read_codes(Contract *contract, const Place *place);
static void read_situation(Situation *situation, Jsonb *document);
static void check_known(const Place *place, const char *const *known);
static bool get_member(const Place *place, const char *name,
					   JsonbValue *value);
static char *get_string(const Place *place, const char *name);
static bool get_bool(const Place *place, const char *name, bool fallback);
static int64 get_count(const Place *place, const char *name, int64 fallback);
static bool get_span(const Place *place, const char *name, int64 *span);
static TimestampTz get_time(const Place *place, const char *name);
static void require(const Place *place, const char *name);
static bool has_sign(const char *str);
static bool has_offset(const char *str);
static NamedDatum time_member(const char *name, bool known, TimestampTz time);
pg_noreturn static void refuse(const Place *place, const char *name,
				   const char *fault);

PG_FUNCTION_INFO_V1(extaction_contract_step);
PG_FUNCTION_INFO_V1(extaction_contract_proof);

/*
 * contract_step(contracts jsonb, situation jsonb)
 * returns (step text, reason text, due_at timestamptz)
 */
Datum
extaction_contract_step(PG_FUNCTION_ARGS)
{
	Situation	situation;
	Contract   *contracts;
	int			ncontracts;
	Step		step;

	document_check_size(PG_GETARG_DATUM(0));
	document_check_size(PG_GETARG_DATUM(1));
	contracts = read_contracts(PG_GETARG_JSONB_P(0), &ncontracts);
	read_situation(&situation, PG_GETARG_JSONB_P(1));
	step = contract_next_step(contracts, ncontracts, &situation);
	{
		NamedDatum	values[] = {
			{"step", CStringGetTextDatum(contract_step_name(step.kind)), false},
			{"reason", CStringGetTextDatum(step.reason), false},
			time_member("due_at", step.due_at != 0, step.due_at),
		};

		PG_RETURN_DATUM(composite_datum(fcinfo, values, lengthof(values)));
	}
}

/*
 * contract_proof(contracts jsonb, code text, quiet_from timestamptz)
 * returns (not_happened boolean, absence_is_proof boolean,
 *			absent_after timestamptz, quiet_after timestamptz)
 */
Datum
extaction_contract_proof(PG_FUNCTION_ARGS)
{
	TimestampTz quiet_from = PG_GETARG_TIMESTAMPTZ(2);
	TimestampTz absent_after = 0;
	TimestampTz quiet_after = 0;
	Contract   *contracts;
	int			ncontracts;
	bool		absent;
	bool		quiet;

	document_check_size(PG_GETARG_DATUM(0));
	contracts = read_contracts(PG_GETARG_JSONB_P(0), &ncontracts);
	absent = contract_absent_after(contracts, ncontracts, quiet_from, &absent_after);
	quiet = contract_quiet_after(contracts, ncontracts, quiet_from, &quiet_after);
	{
		char	   *code = text_to_cstring(PG_GETARG_TEXT_PP(1));
		NamedDatum	values[] = {
			{"not_happened", BoolGetDatum(contract_proves_not_happened(contracts, ncontracts, code)), false},
			{"absence_is_proof", BoolGetDatum(contract_absence_is_proof(contracts, ncontracts)), false},
			time_member("absent_after", absent, absent_after),
			time_member("quiet_after", quiet, quiet_after),
		};

		PG_RETURN_DATUM(composite_datum(fcinfo, values, lengthof(values)));
	}
}

/*
 * The contracts of an array.
 */
static Contract *
read_contracts(Jsonb *document, int *ncontracts)
{
	Place		root = {&document->root, ""};
	Contract   *contracts;
	int			i;

	if (!JB_ROOT_IS_ARRAY(document) || JB_ROOT_IS_SCALAR(document))
		refuse(&root, "contracts", "It is not an array.");
	if (JB_ROOT_COUNT(document) > MAX_CONTRACTS)
		refuse(&root, "contracts", "It has more than 100 elements.");
	*ncontracts = (int) JB_ROOT_COUNT(document);
	contracts = palloc0(sizeof(Contract) * Max(*ncontracts, 1));
	for (i = 0; i < *ncontracts; i++)
	{
		JsonbValue *value = getIthJsonbValueFromContainer(&document->root, i);
		Place		place;

		if (value->type != jbvBinary || !JsonContainerIsObject(value->val.binary.data))
			refuse(&root, psprintf("contracts[%d]", i), "It is not an object.");
		place.object = value->val.binary.data;
		place.path = psprintf("contracts[%d]", i);
		read_contract(&contracts[i], &place);
	}
	return contracts;
}

/*
 * One contract; what is not said is not promised.
 */
static void
read_contract(Contract *contract, const Place *place)
{
	check_known(place, contract_members);
	contract->version = get_count(place, "version", 0);
	contract->shipped = get_bool(place, "shipped", false);
	read_words(contract, place);
	read_codes(contract, place);
	contract->failures_roll_back = get_bool(place, "failures_roll_back", false);
	contract->absence_is_proof = get_bool(place, "absence_is_proof", false);
	contract->has_lookup_lag = get_span(place, "lookup_lag", &contract->lookup_lag);
	contract->has_late_arrival_bound = get_span(place, "late_arrival_bound",
												&contract->late_arrival_bound);
	contract->has_retention = get_span(place, "retention", &contract->retention);
	(void) get_span(place, "min_retry_delay", &contract->min_retry_delay);
}

/*
 * The columns of words.
 */
static void
read_words(Contract *contract, const Place *place)
{
	const char *const *name;

	for (name = contract_members; *name != NULL; name++)
	{
		const char *words = contract_words(*name);
		char	   *word;

		if (words == NULL)
			continue;
		word = get_string(place, *name);
		if (word != NULL && !contract_set_word(contract, *name, word))
			refuse(place, *name, psprintf("It is none of: %s.", words));
	}
}

/*
 * The codes that prove that nothing happened.
 */
static void
read_codes(Contract *contract, const Place *place)
{
	static const char *const name = "proves_not_happened";
	JsonbValue	value;
	JsonbContainer *codes;
	int			i;

	if (!get_member(place, name, &value))
		return;
	if (value.type != jbvBinary || !JsonContainerIsArray(value.val.binary.data))
		refuse(place, name, "It is not an array.");
	codes = value.val.binary.data;
	contract->nproves_not_happened = (int) JsonContainerSize(codes);
	contract->proves_not_happened = palloc(sizeof(char *) * Max(JsonContainerSize(codes), 1));
	for (i = 0; i < contract->nproves_not_happened; i++)
	{
		JsonbValue *code = getIthJsonbValueFromContainer(codes, i);

		if (code->type != jbvString)
			refuse(place, name, "An element is not a string.");
		contract->proves_not_happened[i] = pnstrdup(code->val.string.val,
													code->val.string.len);
	}
}

/*
 * The situation; what is optional has the harmless value by default.
 */
static void
read_situation(Situation *situation, Jsonb *document)
{
	Place		place = {&document->root, "situation"};

	if (!JB_ROOT_IS_OBJECT(document))
		refuse(&place, "", "It is not an object.");
	check_known(&place, situation_members);
	require(&place, "now");
	require(&place, "first_sent_at");
	require(&place, "quiet_from");
	require(&place, "lease");

	memset(situation, 0, sizeof(*situation));
	situation->now = get_time(&place, "now");
	situation->first_sent_at = get_time(&place, "first_sent_at");
	situation->quiet_from = get_time(&place, "quiet_from");
	(void) get_span(&place, "lease", &situation->lease);
	if (!get_span(&place, "margin", &situation->margin))
		situation->margin = DEFAULT_MARGIN;
	situation->last_code = get_string(&place, "last_code");
	situation->last_answer_at = get_time(&place, "last_answer_at");
	situation->gates_pass = get_bool(&place, "gates_pass", true);
	situation->bytes_stored = get_bool(&place, "bytes_stored", true);
	situation->attempts_left = get_bool(&place, "attempts_left", true);
	situation->late_found = get_bool(&place, "late_found", false);
	situation->lookups = get_count(&place, "lookups", 0);
	situation->max_lookups = get_count(&place, "max_lookups", DEFAULT_MAX_LOOKUPS);
	situation->look_due_at = get_time(&place, "look_due_at");
}

/*
 * Refuses members that are not on the list: a slip in a name would pass for
 * "nothing promised".
 */
static void
check_known(const Place *place, const char *const *known)
{
	JsonbIterator *it = JsonbIteratorInit(place->object);
	JsonbIteratorToken token;
	JsonbValue	key;

	while ((token = JsonbIteratorNext(&it, &key, true)) != WJB_DONE)
	{
		char	   *name;
		int			i;

		if (token != WJB_KEY)
			continue;
		name = pnstrdup(key.val.string.val, key.val.string.len);
		for (i = 0; known[i] != NULL; i++)
			if (strcmp(known[i], name) == 0)
				break;
		if (known[i] == NULL)
			refuse(place, name, "This member is not known.");
	}
}

/*
 * A member; false if it is missing or null.
 */
static bool
get_member(const Place *place, const char *name, JsonbValue *value)
{
	return getKeyJsonValueFromContainer(place->object, name, (int) strlen(name),
										value) != NULL &&
		value->type != jbvNull;
}

/*
 * A member that must be there.
 */
static void
require(const Place *place, const char *name)
{
	JsonbValue	value;

	if (!get_member(place, name, &value))
		refuse(place, name, "This member is missing.");
}

/*
 * A string, or NULL.
 */
static char *
get_string(const Place *place, const char *name)
{
	JsonbValue	value;

	if (!get_member(place, name, &value))
		return NULL;
	if (value.type != jbvString)
		refuse(place, name, "It is not a string.");
	return pnstrdup(value.val.string.val, value.val.string.len);
}

/*
 * A boolean, or the fallback.
 */
static bool
get_bool(const Place *place, const char *name, bool fallback)
{
	JsonbValue	value;

	if (!get_member(place, name, &value))
		return fallback;
	if (value.type != jbvBool)
		refuse(place, name, "It is neither true nor false.");
	return value.val.boolean;
}

/*
 * A whole number that is not negative, or the fallback.
 */
static int64
get_count(const Place *place, const char *name, int64 fallback)
{
	JsonbValue	value;
	char	   *str;

	if (!get_member(place, name, &value))
		return fallback;
	if (value.type != jbvNumeric)
		refuse(place, name, "It is not a number.");
	str = DatumGetCString(DirectFunctionCall1(numeric_out,
											  NumericGetDatum(value.val.numeric)));
	if (strspn(str, "0123456789") != strlen(str) || strlen(str) > MAX_COUNT_DIGITS)
		refuse(place, name, "It is not a whole number from 0 to 999999999999999999.");
	return pg_strtoint64(str);
}

/*
 * A span: text as interval takes it, or a number of seconds.  False if it is
 * missing or null.
 */
static bool
get_span(const Place *place, const char *name, int64 *span)
{
	JsonbValue	value;
	char	   *str;
	Datum		interval;

	if (!get_member(place, name, &value))
		return false;
	if (value.type == jbvNumeric)
		str = DatumGetCString(DirectFunctionCall1(numeric_out,
												  NumericGetDatum(value.val.numeric)));
	else
		str = get_string(place, name);
	if (has_sign(str))
		refuse(place, name, "A span must not be negative.");
	interval = DirectFunctionCall3(interval_in, CStringGetDatum(str),
								   ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
	*span = contract_microseconds(DatumGetIntervalP(interval));
	return true;
}

/*
 * Has a span a minus sign?  It would be negative, or mean one thing or another
 * by the setting IntervalStyle.  The dash in "1000-0" (years and months) is
 * none.
 */
static bool
has_sign(const char *str)
{
	const char *pos;

	for (pos = str; *pos != '\0'; pos++)
		if (*pos == '-' && (pos == str || !isdigit((unsigned char) pos[-1])))
			return true;
	return strstr(str, "ago") != NULL;
}

/*
 * A time, or 0 if it is missing or null.
 */
static TimestampTz
get_time(const Place *place, const char *name)
{
	char	   *str = get_string(place, name);

	if (str == NULL)
		return 0;
	if (!has_offset(str))
		refuse(place, name, "It is not a time with its offset, such as 2026-12-31T12:00:00Z.");
	return DatumGetTimestampTz(DirectFunctionCall3(timestamptz_in, CStringGetDatum(str),
												   ObjectIdGetDatum(InvalidOid),
												   Int32GetDatum(-1)));
}

/*
 * Is it a time such as 2026-12-31T12:00:00.5+01:00, which means the same
 * whatever the settings are?  timestamptz_in checks the numbers.
 */
static bool
has_offset(const char *str)
{
	static const char form[] = "dddd-dd-ddTdd:dd:dd";
	const char *pos;

	for (pos = form; *pos != '\0'; pos++, str++)
		if (*pos == 'd' ? !isdigit((unsigned char) *str) : *str != *pos)
			return false;
	if (*str == '.')
		for (str++; isdigit((unsigned char) *str); str++)
			;
	if (strcmp(str, "Z") == 0)
		return true;
	if (*str != '+' && *str != '-')
		return false;
	return strspn(str + 1, "0123456789:") == strlen(str + 1) &&
		strlen(str + 1) >= 2;
}

/*
 * A time in the answer, null if it is not known.
 */
static NamedDatum
time_member(const char *name, bool known, TimestampTz time)
{
	NamedDatum	member;

	member.name = name;
	member.value = TimestampTzGetDatum(time);
	member.isnull = !known;
	return member;
}

/*
 * Says what is wrong with a member.
 */
static void
refuse(const Place *place, const char *name, const char *fault)
{
	char	   *path = psprintf("%s%s%s", place->path,
								place->path[0] != '\0' && name[0] != '\0' ? "." : "", name);

	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("cannot apply the rule about sending again"),
			 errdetail("%s: %s", path, fault),
			 errhint("Contracts have the columns of extaction.contracts; doc/contracts.md describes both documents."),
			 err_generic_string(PG_DIAG_CONSTRAINT_NAME, path)));
}
