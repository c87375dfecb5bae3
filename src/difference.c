/*-------------------------------------------------------------------------
 *
 * difference.c
 *	  In which members two documents differ: their paths, not their values.
 *
 * A caller whose request conflicts may learn where to look, but nothing of
 * what the first one said.  A leaf: knows no SQL.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "extaction.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"

#define MAX_PATHS 5

/* A path in the answer is clipped to this length, in bytes. */
#define MAX_PATH_SHOWN 100

/* The paths that were found so far, and where we are. */
typedef struct Differences
{
	StringInfoData paths;
	int			count;
	StringInfoData path;
} Differences;

static void compare_objects(Differences *found, JsonbContainer *one, JsonbContainer *other);
static void compare_members(Differences *found, JsonbContainer *one, JsonbContainer *other,
							bool both);
static void compare_member(Differences *found, JsonbValue *mine, JsonbValue *theirs);
static bool values_equal(JsonbValue *a, JsonbValue *b);
static void add_path(Differences *found);

/*
 * Up to MAX_PATHS paths, with commas between; "" if the documents are equal
 * as JSON (or one of them is no object).
 */
char *
differing_paths(const Jsonb *one, const Jsonb *other)
{
	Differences found;

	initStringInfo(&found.paths);
	initStringInfo(&found.path);
	found.count = 0;
	if (JB_ROOT_IS_OBJECT(one) && JB_ROOT_IS_OBJECT(other))
		compare_objects(&found, (JsonbContainer *) &one->root, (JsonbContainer *) &other->root);
	if (found.count > MAX_PATHS)
		appendStringInfo(&found.paths, " and %d more", found.count - MAX_PATHS);
	return found.paths.data;
}

static void
compare_objects(Differences *found, JsonbContainer *one, JsonbContainer *other)
{
	compare_members(found, one, other, true);
	compare_members(found, other, one, false);
}

/*
 * Members of "one" against "other": those that differ if "both", and those
 * that the other does not have.  The path is kept in one place, and clipped:
 * documents may be deep and their names long.
 */
static void
compare_members(Differences *found, JsonbContainer *one, JsonbContainer *other,
				bool both)
{
	JsonbIterator *it = JsonbIteratorInit(one);
	JsonbIteratorToken token;
	JsonbValue	key;
	int			parent_len = found->path.len;

	while ((token = JsonbIteratorNext(&it, &key, true)) != WJB_DONE)
	{
		JsonbValue	mine;
		JsonbValue	theirs;

		CHECK_FOR_INTERRUPTS();
		if (token != WJB_KEY)
			continue;
		canonical_append_member(&found->path, key.val.string.val, key.val.string.len);
		(void) JsonbIteratorNext(&it, &mine, true);
		if (getKeyJsonValueFromContainer(other, key.val.string.val, key.val.string.len, &theirs) == NULL)
			add_path(found);
		else if (both && !values_equal(&mine, &theirs))
			compare_member(found, &mine, &theirs);
		found->path.len = parent_len;
		found->path.data[parent_len] = '\0';
	}
}

/*
 * A member that both have and that differs.
 */
static void
compare_member(Differences *found, JsonbValue *mine, JsonbValue *theirs)
{
	if (mine->type == jbvBinary && theirs->type == jbvBinary &&
		JsonContainerIsObject(mine->val.binary.data) && JsonContainerIsObject(theirs->val.binary.data) &&
		!stack_is_too_deep())
		compare_objects(found, mine->val.binary.data, theirs->val.binary.data);
	else
		add_path(found);
}

static bool
values_equal(JsonbValue *a, JsonbValue *b)
{
	if (a->type == jbvBinary && b->type == jbvBinary)
		return compareJsonbContainers(a->val.binary.data, b->val.binary.data) == 0;
	if (a->type != b->type)
		return false;
	return compareJsonbContainers(&JsonbValueToJsonb(a)->root, &JsonbValueToJsonb(b)->root) == 0;
}

static void
add_path(Differences *found)
{
	if (found->count++ < MAX_PATHS)
		appendStringInfo(&found->paths, "%s%.*s", found->count > 1 ? ", " : "",
						 pg_mbcliplen(found->path.data, found->path.len, MAX_PATH_SHOWN),
						 found->path.data);
}
