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
#include "miscadmin.h"

#define MAX_PATHS 5

/* The paths that were found so far. */
typedef struct Differences
{
	StringInfoData paths;
	int			count;
} Differences;

static void compare_objects(Differences *found, JsonbContainer *one, JsonbContainer *other,
							const char *parent);
static void compare_members(Differences *found, JsonbContainer *one, JsonbContainer *other,
							const char *parent, bool both);
static bool values_equal(JsonbValue *a, JsonbValue *b);
static void add_path(Differences *found, const char *path);

/*
 * Up to MAX_PATHS paths, with commas between; "" if the documents are equal
 * as JSON (or one of them is no object).
 */
char *
differing_paths(const Jsonb *one, const Jsonb *other)
{
	Differences found = {{0}, 0};

	initStringInfo(&found.paths);
	if (JB_ROOT_IS_OBJECT(one) && JB_ROOT_IS_OBJECT(other))
		compare_objects(&found, (JsonbContainer *) &one->root, (JsonbContainer *) &other->root, "");
	if (found.count > MAX_PATHS)
		appendStringInfo(&found.paths, " and %d more", found.count - MAX_PATHS);
	return found.paths.data;
}

static void
compare_objects(Differences *found, JsonbContainer *one, JsonbContainer *other, const char *parent)
{
	compare_members(found, one, other, parent, true);
	compare_members(found, other, one, parent, false);
}

/*
 * Members of "one" against "other": those that differ if "both", and those
 * that the other does not have.
 */
static void
compare_members(Differences *found, JsonbContainer *one, JsonbContainer *other,
				const char *parent, bool both)
{
	JsonbIterator *it = JsonbIteratorInit(one);
	JsonbIteratorToken token;
	JsonbValue	key;

	while ((token = JsonbIteratorNext(&it, &key, true)) != WJB_DONE)
	{
		JsonbValue	mine;
		JsonbValue	theirs;
		char	   *path;

		CHECK_FOR_INTERRUPTS();
		if (token != WJB_KEY)
			continue;
		path = psprintf("%s%s%.*s", parent, parent[0] == '\0' ? "" : ".",
						key.val.string.len, key.val.string.val);
		(void) JsonbIteratorNext(&it, &mine, true);
		if (getKeyJsonValueFromContainer(other, key.val.string.val, key.val.string.len, &theirs) == NULL)
			add_path(found, path);
		else if (both && !values_equal(&mine, &theirs))
		{
			if (mine.type == jbvBinary && theirs.type == jbvBinary &&
				JsonContainerIsObject(mine.val.binary.data) && JsonContainerIsObject(theirs.val.binary.data) &&
				!stack_is_too_deep())
				compare_objects(found, mine.val.binary.data, theirs.val.binary.data, path);
			else
				add_path(found, path);
		}
	}
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
add_path(Differences *found, const char *path)
{
	if (found->count++ < MAX_PATHS)
		appendStringInfo(&found->paths, "%s%.100s", found->count > 1 ? ", " : "", path);
}
