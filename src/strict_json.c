/*-------------------------------------------------------------------------
 *
 * strict_json.c
 *	  Text to jsonb, without silent losses.
 *
 * jsonb keeps the last of several members with the same name and says nothing;
 * another reader of the same text may take the first.  So text from outside
 * that has such members, at any depth, is refused, and also a number without
 * exact canonical form.  Text that is not JSON gets PostgreSQL's own errors.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "extaction.h"

#include "common/jsonapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/jsonfuncs.h"

/* The parser's callbacks have a result since PostgreSQL 16. */
#if PG_VERSION_NUM >= 160000
typedef JsonParseErrorType SemResult;
#define SEM_RETURN() return JSON_SUCCESS
#else
typedef void SemResult;
#define SEM_RETURN() return
#endif

#if PG_VERSION_NUM >= 170000
#define make_lexer(json) makeJsonLexContext(NULL, (json), true)
#else
#define make_lexer(json) makeJsonLexContext((json), true)
#endif

/* An array or object that the parser is in. */
typedef struct Level
{
	struct Level *parent;
	int			path_len;		/* length of the path up to this level */
	int			nelements;		/* so far, if it is an array */
	char	  **names;			/* so far, if it is an object */
	int			nnames;
	int			max_names;
} Level;

typedef struct ParseState
{
	Level	   *level;			/* the innermost one, or NULL */
	StringInfoData path;		/* where the parser is */
} ParseState;


static void refuse_duplicates(text *json);
static void refuse_lossy_numbers(Jsonb *json);
static void ignore_bytes(CanonicalSink *sink, const char *bytes, size_t len);
static SemResult level_start(void *state);
static SemResult level_end(void *state);
static SemResult member_start(void *state, char *name, bool isnull);
static SemResult element_start(void *state, bool isnull);
static void check_names(ParseState *parse, Level *level);
static int	compare_names(const void *a, const void *b);
static void duplicate_name(ParseState *parse, const char *name,
						   int path_len);

PG_FUNCTION_INFO_V1(extaction_strict_json);

/*
 * strict_json(document text) returns jsonb
 */
Datum
extaction_strict_json(PG_FUNCTION_ARGS)
{
	text	   *json;
	char	   *str;
	Datum		result;

	document_check_size(PG_GETARG_DATUM(0));
	json = PG_GETARG_TEXT_PP(0);
	str = text_to_cstring(json);
	result = DirectFunctionCall1(jsonb_in, CStringGetDatum(str));
	pfree(str);

	refuse_duplicates(json);
	refuse_lossy_numbers(DatumGetJsonbP(result));

	PG_RETURN_DATUM(result);
}

/*
 * Raise an error if some object has two members of one name.
 */
static void
refuse_duplicates(text *json)
{
	ParseState	parse;
	JsonSemAction actions;

	parse.level = NULL;
	initStringInfo(&parse.path);

	memset(&actions, 0, sizeof(actions));
	actions.semstate = &parse;
	actions.object_start = level_start;
	actions.object_end = level_end;
	actions.array_start = level_start;
	actions.array_end = level_end;
	actions.object_field_start = member_start;
	actions.array_element_start = element_start;

	pg_parse_json_or_ereport(make_lexer(json), &actions);
	pfree(parse.path.data);
}

/*
 * Raise an error if a number has no exact canonical form.
 */
static void
refuse_lossy_numbers(Jsonb *json)
{
	CanonicalSink sink = {ignore_bytes};
	CanonicalFault fault;

	if (canonical_write(&sink, &json->root, &fault) != CANONICAL_OK)
		document_fault(&fault, "document");
}

/*
 * The sink's write function, where only faults are of interest.
 */
static void
ignore_bytes(CanonicalSink *sink, const char *bytes, size_t len)
{
}

/*
 * An array or object begins.
 */
static SemResult
level_start(void *state)
{
	ParseState *parse = (ParseState *) state;
	Level	   *level = (Level *) palloc0(sizeof(Level));

	CHECK_FOR_INTERRUPTS();
	level->parent = parse->level;
	level->path_len = parse->path.len;
	parse->level = level;

	SEM_RETURN();
}

/*
 * An array or object ends.
 */
static SemResult
level_end(void *state)
{
	ParseState *parse = (ParseState *) state;
	Level	   *level = parse->level;
	int			i;

	parse->path.len = level->path_len;
	parse->path.data[level->path_len] = '\0';
	check_names(parse, level);

	for (i = 0; i < level->nnames; i++)
		pfree(level->names[i]);
	if (level->names != NULL)
		pfree(level->names);
	parse->level = level->parent;
	pfree(level);

	SEM_RETURN();
}

/*
 * A member begins.  Its name, without escapes, is ours to keep.
 */
static SemResult
member_start(void *state, char *name, bool isnull)
{
	ParseState *parse = (ParseState *) state;
	Level	   *level = parse->level;

	CHECK_FOR_INTERRUPTS();
	if (level->names == NULL)
	{
		level->max_names = 8;
		level->names = palloc(level->max_names * sizeof(char *));
	}
	else if (level->nnames == level->max_names)
	{
		level->max_names *= 2;
		level->names = repalloc_huge(level->names,
									 level->max_names * sizeof(char *));
	}
	level->names[level->nnames++] = name;

	parse->path.len = level->path_len;
	canonical_append_member(&parse->path, name, strlen(name));

	SEM_RETURN();
}

/*
 * An array's element begins.
 */
static SemResult
element_start(void *state, bool isnull)
{
	ParseState *parse = (ParseState *) state;
	Level	   *level = parse->level;

	CHECK_FOR_INTERRUPTS();
	parse->path.len = level->path_len;
	canonical_append_element(&parse->path, level->nelements++);

	SEM_RETURN();
}

/*
 * Raise an error if two names of an object are the same.
 */
static void
check_names(ParseState *parse, Level *level)
{
	int			i;

	qsort(level->names, level->nnames, sizeof(char *), compare_names);
	for (i = 1; i < level->nnames; i++)
	{
		if (strcmp(level->names[i - 1], level->names[i]) == 0)
			duplicate_name(parse, level->names[i], level->path_len);
	}
}

/*
 * Compare two names.
 */
static int
compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *) a, *(char *const *) b);
}

/*
 * Raise the error for a name that stands twice in the object at the path.
 */
static void
duplicate_name(ParseState *parse, const char *name, int path_len)
{
	parse->path.len = path_len;
	canonical_append_member(&parse->path, name, strlen(name));

	ereport(ERROR,
			(errcode(ERRCODE_DUPLICATE_JSON_OBJECT_KEY_VALUE),
			 errmsg("document has two members of the same name"),
			 errdetail("The member \"%s\" stands there more than once.",
					   parse->path.data),
			 errhint("Send each member once; readers disagree about which one counts."),
			 err_generic_string(PG_DIAG_CONSTRAINT_NAME, parse->path.data)));
}
