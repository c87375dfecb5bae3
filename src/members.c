/*-------------------------------------------------------------------------
 *
 * members.c
 *	  The members of a scope, remembered in the session.
 *
 * Every call asks what its role may do in the scope, and hardly ever has that
 * changed since the last one.  What is remembered are the rows of
 * scope_members alone: which roles the caller has the privileges of, and how
 * they are called, is asked of PostgreSQL each time.
 *
 * A scope is forgotten when scope_members changes: a trigger sends a relation
 * cache invalidation, as those of the catalogue do (see catalogue.c).  It
 * reaches every session before whoever revoked something is told that it is
 * committed.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "common/hashfn.h"
#include "rows.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#define MAX_SCOPES 256			/* so many are remembered, */
#define MAX_MEMBERS 1000		/* of no more members each */

static ScopeMembers *remembered[MAX_SCOPES]; /* by the hash of the name */
static MemoryContext memory = NULL;
static bool stale = false;		/* what is in the memory has been forgotten */
static Oid	scope_members = InvalidOid;
static uint64 generation = 0;	/* counts what was forgotten */

static void forget(Datum arg, Oid relid);
static ScopeMembers *load(const text *scope);
static ScopeMembers *keep(const ScopeMembers *members);

/*
 * Called when the library is loaded.
 */
void
members_init(void)
{
	CacheRegisterRelcacheCallback(forget, (Datum) 0);
}

/*
 * The members of a scope, as committed by now; none if there is no such scope.
 * Valid until the next call.
 */
const ScopeMembers *
members_of(const text *scope)
{
	ScopeMembers   **place = &remembered[hash_bytes((const unsigned char *) VARDATA_ANY(scope),
											   (int) VARSIZE_ANY_EXHDR(scope)) % MAX_SCOPES];
	ScopeMembers    *members;
	uint64		begun;

	AcceptInvalidationMessages();
	if (*place != NULL && text_equal((*place)->scope, scope))
		return *place;

	scope_members = get_relname_relid("scope_members", get_namespace_oid("extaction", false));
	begun = generation;
	members = load(scope);
	/* what changed while it was read serves this call and is not kept */
	if (generation != begun || members->count > MAX_MEMBERS)
		return members;
	if (*place != NULL)
		pfree(*place);
	*place = NULL;
	return *place = keep(members);
}

/*
 * Relation cache callback; InvalidOid is everything.
 */
static void
forget(Datum arg, Oid relid)
{
	if (relid != InvalidOid && relid != scope_members)
		return;
	generation++;
	memset(remembered, 0, sizeof(remembered));
	stale = true;				/* somebody may be reading it: it is freed when the next is kept */
}

static ScopeMembers *
load(const text *scope)
{
	static KeptRows rows = ROWS_OF("scope_members", "scope_members_pkey",
								   "member", "member_name", "capability", "vouches_for");
	ScopeMembers    *members = palloc(offsetof(ScopeMembers, member));
	QueryArgs	keys = {0};
	RowScan		scan;
	GotRow		row;
	int			room = 0;

	members->scope = text_copy(scope);
	members->count = 0;
	arg_text(&keys, scope);
	PushActiveSnapshot(GetLatestSnapshot());
	rows_begin(&scan, &rows, &keys, false);
	while (rows_next(&scan, &row))
	{
		ScopeMember	   *member;

		if (members->count == room)
		{
			room = Max(4, room * 2);
			members = repalloc_huge(members, offsetof(ScopeMembers, member) + sizeof(ScopeMember) * room);
		}
		member = &members->member[members->count++];
		member->role = row_oid(&row, 1);
		namestrcpy(&member->name, row_word(&row, 2));
		member->capability = capability_bits(row_word(&row, 3));
		member->vouches = !row_null(&row, 4);
	}
	rows_end(&scan);
	PopActiveSnapshot();
	return members;
}

/*
 * A copy in one piece, that outlives the call.
 */
static ScopeMembers *
keep(const ScopeMembers *members)
{
	Size		size = offsetof(ScopeMembers, member) + sizeof(ScopeMember) * members->count;
	ScopeMembers    *kept;

	if (memory == NULL)
		memory = AllocSetContextCreate(CacheMemoryContext, "extaction members", ALLOCSET_SMALL_SIZES);
	if (stale)
		MemoryContextReset(memory);
	stale = false;
	kept = MemoryContextAlloc(memory, MAXALIGN(size) + VARSIZE_ANY(members->scope));
	memcpy(kept, members, size);
	kept->scope = memcpy((char *) kept + MAXALIGN(size), members->scope, VARSIZE_ANY(members->scope));
	return kept;
}
