/*-------------------------------------------------------------------------
 *
 * privileges.c
 *	  The SQL privileges behind a capability.
 *
 * Nothing of the extension is open to PUBLIC.  A role that gets a capability
 * in any scope also gets USAGE on the schema, SELECT on the views and EXECUTE
 * on the functions that the capability is for.  These let it call; whether it
 * may act in a certain scope is asked of scope_members at every call.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "extaction.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/parsenodes.h"
#include "parser/parse_func.h"
#include "storage/lockdefs.h"
#include "utils/acl.h"
#include "utils/builtins.h"

#define SUBMITTER 0x01
#define APPROVER 0x02
#define WORKER 0x04
#define AUDITOR 0x08
#define OWNER 0x10
#define EVERY_MEMBER (SUBMITTER | APPROVER | WORKER | AUDITOR | OWNER)

static const struct
{
	const char *name;
	int			bit;
}			capabilities[] =
{
	{"submitter", SUBMITTER},
	{"approver", APPROVER},
	{"worker", WORKER},
	{"auditor", AUDITOR},
	{"owner", OWNER},
};

static const struct
{
	ObjectType	type;
	const char *name;
	int			holders;
}			objects[] =
{
	{OBJECT_SCHEMA, "extaction", EVERY_MEMBER},
	{OBJECT_TABLE, "access", EVERY_MEMBER},
	{OBJECT_TABLE, "approval_status", EVERY_MEMBER},
	{OBJECT_TABLE, "batch_items", EVERY_MEMBER},
	{OBJECT_TABLE, "batch_status", EVERY_MEMBER},
	{OBJECT_TABLE, "disagreements", AUDITOR | OWNER},
	{OBJECT_TABLE, "fake_task_counts", EVERY_MEMBER},
	{OBJECT_TABLE, "gates", EVERY_MEMBER},
	{OBJECT_TABLE, "grey_zone", EVERY_MEMBER},
	{OBJECT_TABLE, "intent_status", EVERY_MEMBER},
	{OBJECT_TABLE, "metrics", EVERY_MEMBER},
	{OBJECT_TABLE, "pending_approvals", EVERY_MEMBER},
	{OBJECT_TABLE, "sequences_behind", AUDITOR | OWNER},
	{OBJECT_TABLE, "timeline", EVERY_MEMBER},
	{OBJECT_TABLE, "todo", EVERY_MEMBER},
	{OBJECT_TABLE, "visible_scopes", EVERY_MEMBER},
	{OBJECT_TABLE, "worklist_disagreements", AUDITOR | OWNER},
	{OBJECT_FUNCTION, "abandon", APPROVER | OWNER},
	{OBJECT_FUNCTION, "accepted", EVERY_MEMBER},
	{OBJECT_FUNCTION, "approve", APPROVER | OWNER},
	{OBJECT_FUNCTION, "approve_batch_in_advance", APPROVER | OWNER},
	{OBJECT_FUNCTION, "approve_fake_task", APPROVER | OWNER},
	{OBJECT_FUNCTION, "approve_in_advance", APPROVER | OWNER},
	{OBJECT_FUNCTION, "cancel", SUBMITTER | APPROVER | OWNER},
	{OBJECT_FUNCTION, "canonical", EVERY_MEMBER},
	{OBJECT_FUNCTION, "canonical_request", EVERY_MEMBER},
	{OBJECT_FUNCTION, "check_gates", EVERY_MEMBER},
	{OBJECT_FUNCTION, "claim", WORKER | OWNER},
	{OBJECT_FUNCTION, "claimed", WORKER | OWNER},
	{OBJECT_FUNCTION, "compensate", SUBMITTER | OWNER},
	{OBJECT_FUNCTION, "contract_proof", EVERY_MEMBER},
	{OBJECT_FUNCTION, "contract_step", EVERY_MEMBER},
	{OBJECT_FUNCTION, "decide", APPROVER | OWNER},
	{OBJECT_FUNCTION, "digest", EVERY_MEMBER},
	{OBJECT_FUNCTION, "drop_wake_source", OWNER},
	{OBJECT_FUNCTION, "explain", EVERY_MEMBER},
	{OBJECT_FUNCTION, "extend", WORKER | OWNER},
	{OBJECT_FUNCTION, "fact_tables", AUDITOR | OWNER},
	{OBJECT_FUNCTION, "find", EVERY_MEMBER},
	{OBJECT_FUNCTION, "gate_list", EVERY_MEMBER},
	{OBJECT_FUNCTION, "grant_access", OWNER},
	{OBJECT_FUNCTION, "idempotency_key", EVERY_MEMBER},
	{OBJECT_FUNCTION, "missing_guards", AUDITOR | OWNER},
	{OBJECT_FUNCTION, "next_step", EVERY_MEMBER},
	{OBJECT_FUNCTION, "next_wakeup", SUBMITTER | WORKER | OWNER},
	{OBJECT_FUNCTION, "observe_source", SUBMITTER | WORKER | OWNER},
	{OBJECT_FUNCTION, "pause", OWNER},
	{OBJECT_FUNCTION, "propose", SUBMITTER | OWNER},
	{OBJECT_FUNCTION, "record_lookup", WORKER | OWNER},
	{OBJECT_FUNCTION, "record_outcome", WORKER | OWNER},
	{OBJECT_FUNCTION, "redact", OWNER},
	{OBJECT_FUNCTION, "redact_older_than", OWNER},
	{OBJECT_FUNCTION, "reject", APPROVER | OWNER},
	{OBJECT_FUNCTION, "release", WORKER | OWNER},
	{OBJECT_FUNCTION, "request_digest", EVERY_MEMBER},
	{OBJECT_FUNCTION, "resume", OWNER},
	{OBJECT_FUNCTION, "retry", APPROVER | OWNER},
	{OBJECT_FUNCTION, "revoke_access", OWNER},
	{OBJECT_FUNCTION, "revoke_approval", APPROVER | OWNER},
	{OBJECT_FUNCTION, "sent_to", EVERY_MEMBER},
	{OBJECT_FUNCTION, "set_wake_source", OWNER},
	{OBJECT_FUNCTION, "stored_digest", AUDITOR | OWNER},
	{OBJECT_FUNCTION, "strict_json", EVERY_MEMBER},
	{OBJECT_FUNCTION, "submit", SUBMITTER | OWNER},
	{OBJECT_FUNCTION, "submit_batch", SUBMITTER | OWNER},
	{OBJECT_FUNCTION, "submit_fake_task", SUBMITTER | OWNER},
	{OBJECT_FUNCTION, "sweep", WORKER | OWNER},
	{OBJECT_FUNCTION, "verify", AUDITOR | OWNER},
	{OBJECT_FUNCTION, "wake", SUBMITTER | WORKER | OWNER},
};

static void change_privileges(bool grant, Oid role, ObjectType type,
							  List *names);
static bool object_exists(ObjectType type, const char *name);
static Node *object_node(ObjectType type, const char *name);
static void change_all(bool grant, Oid role, int include, int exclude);

bool
capability_exists(const char *capability)
{
	return strchr(capability, ',') == NULL && capability_bits(capability) != 0;
}

/*
 * Gives a role what the capability needs.
 */
void
privileges_grant(Oid role, const char *capability)
{
	change_all(true, role, capability_bits(capability), 0);
}

/*
 * Takes from a role what none of its remaining capabilities (a list with
 * commas, over all scopes) needs.
 */
void
privileges_revoke(Oid role, const char *kept_capabilities)
{
	change_all(false, role, EVERY_MEMBER, capability_bits(kept_capabilities));
}

/*
 * The bits of a list such as "approver,worker"; unknown words have none.
 */
int
capability_bits(const char *list)
{
	int			bits = 0;

	while (*list != '\0')
	{
		size_t		len = strcspn(list, ",");
		int			i;

		for (i = 0; i < (int) lengthof(capabilities); i++)
			if (strlen(capabilities[i].name) == len &&
				strncmp(capabilities[i].name, list, len) == 0)
				bits |= capabilities[i].bit;
		list += len;
		if (*list == ',')
			list++;
	}
	return bits;
}

/*
 * Grants or revokes every object that an included capability holds and no
 * excluded one does.
 */
static void
change_all(bool grant, Oid role, int include, int exclude)
{
	static const ObjectType types[] = {OBJECT_SCHEMA, OBJECT_TABLE, OBJECT_FUNCTION};
	int			t;

	for (t = 0; t < (int) lengthof(types); t++)
	{
		List	   *chosen = NIL;
		int			i;

		for (i = 0; i < (int) lengthof(objects); i++)
			if (objects[i].type == types[t] &&
				(objects[i].holders & include) != 0 &&
				(objects[i].holders & exclude) == 0 &&
				object_exists(types[t], objects[i].name))
				chosen = lappend(chosen, object_node(types[t], objects[i].name));
		if (chosen != NIL)
			change_privileges(grant, role, types[t], chosen);
	}
}

/*
 * Between the new library and ALTER EXTENSION UPDATE, what is new is not there
 * yet.
 */
static bool
object_exists(ObjectType type, const char *name)
{
	Node	   *node = object_node(type, name);

	if (type == OBJECT_TABLE)
		return OidIsValid(RangeVarGetRelid((RangeVar *) node, NoLock, true));
	if (type == OBJECT_FUNCTION)
		return OidIsValid(LookupFuncWithArgs(type, (ObjectWithArgs *) node, true));
	return true;
}

static Node *
object_node(ObjectType type, const char *name)
{
	ObjectWithArgs *function;

	if (type == OBJECT_SCHEMA)
		return (Node *) makeString(pstrdup(name));
	if (type == OBJECT_TABLE)
		return (Node *) makeRangeVar(pstrdup("extaction"), pstrdup(name), -1);
	function = makeNode(ObjectWithArgs);
	function->objname = list_make2(makeString(pstrdup("extaction")),
								   makeString(pstrdup(name)));
	function->args_unspecified = true;
	return (Node *) function;
}

/*
 * GRANT or REVOKE, as a parse tree: no SQL is put together from names.
 */
static void
change_privileges(bool grant, Oid role, ObjectType type, List *names)
{
	GrantStmt  *stmt = makeNode(GrantStmt);
	AccessPriv *privilege = makeNode(AccessPriv);
	RoleSpec   *grantee = makeNode(RoleSpec);

	privilege->priv_name = type == OBJECT_SCHEMA ? "usage" :
		type == OBJECT_TABLE ? "select" : "execute";
	grantee->roletype = ROLESPEC_CSTRING;
	grantee->rolename = GetUserNameFromId(role, false);
	grantee->location = -1;

	stmt->is_grant = grant;
	stmt->targtype = ACL_TARGET_OBJECT;
	stmt->objtype = type;
	stmt->objects = names;
	stmt->privileges = list_make1(privilege);
	stmt->grantees = list_make1(grantee);
	stmt->behavior = DROP_RESTRICT;
	ExecuteGrantStmt(stmt);
	CommandCounterIncrement();
}
