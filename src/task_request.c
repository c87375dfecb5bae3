/*-------------------------------------------------------------------------
 *
 * task_request.c
 *	  The document task-request.v1: what a fake task is asked for with.
 *
 * Checked strictly: an unknown, a missing or a wrongly typed member is an
 * error that names its path.  An assignee or a date that is not known is
 * null; nothing is guessed, so a date must be one (RFC 3339), not "tomorrow".
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "extaction.h"
#include "utils/builtins.h"
#include "utils/datetime.h"

typedef struct Member Member;

/* How one member of the document must be. */
struct Member
{
	const char *name;
	const char *(*fault) (const char *str, int len);	/* NULL: an object */
	bool		nullable;
	const Member *members;		/* of an object */
	int			nmembers;
};

static const char *title_fault(const char *str, int len);
static const char *version_fault(const char *str, int len);
static const char *digest_fault(const char *str, int len);
static const char *date_fault(const char *str, int len);
static bool digits(const char *str, int count, int *number);
static int	time_length(const char *str, int len);
static void check_object(JsonbContainer *object, const Member *members,
						 int nmembers, const char *parent);
static void check_known(JsonbContainer *object, const Member *members,
						int nmembers, const char *parent);
static void check_member(JsonbContainer *object, const Member *member,
						 const char *parent);
static const char *member_fault(const Member *member, const JsonbValue *value);
static char *path_of(const char *parent, const char *name, int len);
pg_noreturn static void refuse(const char *path, const char *fault);
static text *member_text(JsonbContainer *object, const char *name);
static JsonbContainer *member_object(JsonbContainer *object, const char *name);

static const Member candidate_ref[] = {
	{"candidate_id", name_fault, false, NULL, 0},
	{"candidate_digest", digest_fault, false, NULL, 0},
	{"source_id", name_fault, false, NULL, 0},
	{"source_version", name_fault, false, NULL, 0},
};

static const Member task[] = {
	{"title", title_fault, false, NULL, 0},
	{"assignee_person_ref", name_fault, true, NULL, 0},
	{"due_at", date_fault, true, NULL, 0},
};

static const Member task_request[] = {
	{"schema_version", version_fault, false, NULL, 0},
	{"fixture_kind", name_fault, false, NULL, 0},
	{"request_id", name_fault, false, NULL, 0},
	{"intent_id", name_fault, false, NULL, 0},
	{"operation", name_fault, false, NULL, 0},
	{"provider", name_fault, false, NULL, 0},
	{"candidate_ref", NULL, false, candidate_ref, lengthof(candidate_ref)},
	{"task", NULL, false, task, lengthof(task)},
};

/*
 * Is this a request to the fake provider, which the caller submits again when
 * it is approved, and not one that goes on by itself?
 */
bool
is_task_request(const Jsonb *document)
{
	JsonbValue	value;

	return JB_ROOT_IS_OBJECT(document) &&
		getKeyJsonValueFromContainer((JsonbContainer *) &document->root, "schema_version",
									 (int) strlen("schema_version"), &value) != NULL &&
		value.type == jbvString &&
		version_fault(value.val.string.val, value.val.string.len) == NULL;
}

/*
 * Checks a document and takes it apart.
 */
void
task_request_read(TaskRequest *request, Jsonb *document)
{
	JsonbContainer *root = &document->root;
	JsonbContainer *part;
	text	   *digest;

	if (!JB_ROOT_IS_OBJECT(document))
		refuse("", "It is not an object.");
	check_object(root, task_request, lengthof(task_request), "");

	request->intent_id = member_text(root, "intent_id");
	request->operation = member_text(root, "operation");
	request->provider = member_text(root, "provider");

	part = member_object(root, "candidate_ref");
	request->candidate.candidate_id = member_text(part, "candidate_id");
	request->candidate.source_id = member_text(part, "source_id");
	request->candidate.source_version = member_text(part, "source_version");
	digest = member_text(part, "candidate_digest");
	(void) digest_from_hex(VARDATA_ANY(digest), VARSIZE_ANY_EXHDR(digest),
						   request->candidate.digest);

	part = member_object(root, "task");
	request->title = member_text(part, "title");
	request->assignee_person_ref = member_text(part, "assignee_person_ref");
	request->due_at = member_text(part, "due_at");
}

/*
 * An approver can only allow what the fake provider does.
 */
void
task_request_require_provider(const TaskRequest *request)
{
	if (!text_is(request->operation, FAKE_TASK_OPERATION) &&
		!text_is(request->operation, FAKE_TASK_ACTION))
		refuse("operation", "The fake provider has no such operation; it has \"" FAKE_TASK_OPERATION "\".");
	if (!text_is(request->provider, FAKE_TASK_PROVIDER))
		refuse("provider", "It is not \"" FAKE_TASK_PROVIDER "\".");
}

/*
 * The request that the document stands for: the whole document is its
 * payload.  An operation that the fake provider has is the built-in action;
 * any other is taken as it is, for the gates to see that it was altered.
 */
void
task_request_as_request(Request *request, TaskRequest *task_request,
						text *scope, Jsonb *document)
{
	CanonicalFault fault;

	request->scope = scope;
	request->intent_id = task_request->intent_id;
	request->action = text_is(task_request->operation, FAKE_TASK_OPERATION)
		? cstring_to_text(FAKE_TASK_ACTION) : task_request->operation;
	request->destination = task_request->provider;
	request->payload = document;
	request->candidate = &task_request->candidate;
	if (digest_request(request, &fault) != CANONICAL_OK)
		document_fault(&fault, "request");
}

static void
check_object(JsonbContainer *object, const Member *members, int nmembers,
			 const char *parent)
{
	int			i;

	check_known(object, members, nmembers, parent);
	for (i = 0; i < nmembers; i++)
		check_member(object, &members[i], parent);
}

/*
 * Refuses members that are not on the list.
 */
static void
check_known(JsonbContainer *object, const Member *members, int nmembers,
			const char *parent)
{
	JsonbIterator *it = JsonbIteratorInit(object);
	JsonbIteratorToken token;
	JsonbValue	key;

	while ((token = JsonbIteratorNext(&it, &key, true)) != WJB_DONE)
	{
		int			i;

		if (token != WJB_KEY)
			continue;
		for (i = 0; i < nmembers; i++)
			if ((int) strlen(members[i].name) == key.val.string.len &&
				strncmp(members[i].name, key.val.string.val, key.val.string.len) == 0)
				break;
		if (i == nmembers)
			refuse(path_of(parent, key.val.string.val, key.val.string.len),
				   "This member is not known.");
	}
}

static void
check_member(JsonbContainer *object, const Member *member, const char *parent)
{
	int			len = (int) strlen(member->name);
	JsonbValue	value;
	const char *fault;

	if (getKeyJsonValueFromContainer(object, member->name, len, &value) != NULL)
		fault = member_fault(member, &value);
	else
		fault = "This member is missing.";
	if (fault != NULL)
		refuse(path_of(parent, member->name, len), fault);
	if (member->members != NULL)
		check_object(value.val.binary.data, member->members, member->nmembers,
					 path_of(parent, member->name, len));
}

/*
 * What is wrong with a value, or NULL.
 */
static const char *
member_fault(const Member *member, const JsonbValue *value)
{
	if (member->members != NULL)
		return value->type == jbvBinary && JsonContainerIsObject(value->val.binary.data)
			? NULL : "It is not an object.";
	if (member->nullable && value->type == jbvNull)
		return NULL;
	if (value->type != jbvString)
		return member->nullable ? "It is neither a string nor null." : "It is not a string.";
	return member->fault(value->val.string.val, value->val.string.len);
}

static char *
path_of(const char *parent, const char *name, int len)
{
	StringInfoData path;

	initStringInfo(&path);
	appendStringInfoString(&path, parent);
	canonical_append_member(&path, name, len);
	return path.data;
}

static void
refuse(const char *path, const char *fault)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("request is not a task-request.v1 document"),
			 errdetail("%s: %s", path[0] == '\0' ? "(document)" : path, fault),
			 errhint("doc/task-request.v1.schema.json describes the document."),
			 err_generic_string(PG_DIAG_CONSTRAINT_NAME, path)));
}

/*
 * The rules of single members.
 */
static const char *
version_fault(const char *str, int len)
{
	static const char version[] = "task-request.v1";

	return len == (int) strlen(version) && strncmp(str, version, len) == 0
		? NULL : "It is not \"task-request.v1\".";
}

static const char *
title_fault(const char *str, int len)
{
	int			i;

	for (i = 0; i < len; i++)
		if (str[i] != ' ' && str[i] != '\t' && str[i] != '\n' && str[i] != '\r')
			return NULL;
	return "It is empty.";
}

static const char *
digest_fault(const char *str, int len)
{
	uint8		digest[DIGEST_LENGTH];

	return digest_from_hex(str, len, digest)
		? NULL : "It is not a SHA-256 digest in hex (64 digits).";
}

/*
 * RFC 3339: full-date, alone or with a full-time.
 */
static const char *
date_fault(const char *str, int len)
{
	static const char *const fault =
		"It is neither a date (2026-12-31) nor a date-time with its offset (2026-12-31T12:00:00Z).";
	int			year,
				month,
				day;

	if (len < 10 || str[4] != '-' || str[7] != '-' ||
		!digits(str, 4, &year) || !digits(str + 5, 2, &month) || !digits(str + 8, 2, &day))
		return fault;
	if (month < 1 || month > 12 || day < 1 || day > day_tab[isleap(year)][month - 1])
		return "There is no such day.";
	if (len > 10 && time_length(str + 10, len - 10) != len - 10)
		return fault;
	return NULL;
}

/*
 * The length of a "T12:00:00.5+02:00", or 0 if it is none.
 */
static int
time_length(const char *str, int len)
{
	int			hour,
				minute,
				second;
	int			pos = 9;

	if (len < 10 || (str[0] != 'T' && str[0] != 't') || str[3] != ':' || str[6] != ':' ||
		!digits(str + 1, 2, &hour) || !digits(str + 4, 2, &minute) || !digits(str + 7, 2, &second) ||
		hour > 23 || minute > 59 || second > 60)
		return 0;
	if (str[pos] == '.')
	{
		int			start = ++pos;

		while (pos < len && isdigit((unsigned char) str[pos]))
			pos++;
		if (pos == start || pos == len)
			return 0;
	}
	if (str[pos] == 'Z' || str[pos] == 'z')
		return pos + 1;
	if ((str[pos] == '+' || str[pos] == '-') && len - pos == 6 && str[pos + 3] == ':' &&
		digits(str + pos + 1, 2, &hour) && digits(str + pos + 4, 2, &minute) &&
		hour <= 23 && minute <= 59)
		return pos + 6;
	return 0;
}

static bool
digits(const char *str, int count, int *number)
{
	int			i;

	*number = 0;
	for (i = 0; i < count; i++)
	{
		if (!isdigit((unsigned char) str[i]))
			return false;
		*number = *number * 10 + (str[i] - '0');
	}
	return true;
}

/*
 * Members of a document that has been checked.
 */
static text *
member_text(JsonbContainer *object, const char *name)
{
	JsonbValue	value;

	if (getKeyJsonValueFromContainer(object, name, (int) strlen(name), &value) == NULL ||
		value.type == jbvNull)
		return NULL;
	return cstring_to_text_with_len(value.val.string.val, value.val.string.len);
}

static JsonbContainer *
member_object(JsonbContainer *object, const char *name)
{
	JsonbValue	value;

	(void) getKeyJsonValueFromContainer(object, name, (int) strlen(name), &value);
	return value.val.binary.data;
}
