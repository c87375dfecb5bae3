/*-------------------------------------------------------------------------
 *
 * access.c
 *	  Scopes, their members, and who is calling.
 *
 * A role has a capability in a scope if it has the privileges of a member
 * that was given it; an owner has them all.  A member counts only while its
 * role still bears the name that it was granted under.
 *
 * Identity is the current role at entry (SET ROLE is respected).  A role that
 * vouches for many people must name an actor, and is then known as
 * role:actor; what any other role says of an actor is recorded as a claim and
 * moves no gate.
 *
 * grant_access and revoke_access lock scope_members, so that two of them
 * cannot trip over the same privilege entry in a system catalogue.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "rows.h"
#include "utils/acl.h"
#include "utils/builtins.h"

static text *quoted_if_odd(const text *name);
static bool is_named(const ScopeMember *member);
static bool scope_exists(const text *scope);
pg_noreturn static void deny_access(const Identity *identity, const text *scope,
						const char *capabilities);
static void begin_ledger(const Identity *identity);
static void add_member(const text *scope, Oid role, const char *capability,
					   const text *vouches_for, const Identity *identity);
static void append_access_change(const char *kind, const text *scope,
								 const text *role_name, const char *capability,
								 const text *vouches_for,
								 const Identity *identity);
static void lock_members(void);
static char *capability_argument(FunctionCallInfo fcinfo, int arg);

PG_FUNCTION_INFO_V1(extaction_create_scope);
PG_FUNCTION_INFO_V1(extaction_grant_access);
PG_FUNCTION_INFO_V1(extaction_revoke_access);

/*
 * Takes down who calls.  Its name is settled when the scope has said whether
 * the role vouches.
 */
void
identity_init(Identity *identity, Oid caller, text *actor)
{
	if (actor == NULL && extaction_actor != NULL && extaction_actor[0] != '\0')
	{
		const char *fault = name_fault(extaction_actor, (int) strlen(extaction_actor));

		if (fault != NULL)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("invalid value of setting \"%s\"", "extaction.actor"),
					 errdetail_internal("%s", fault),
					 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "actor")));
		actor = cstring_to_text(extaction_actor);
	}
	identity->role = caller;
	identity->role_name = cstring_to_text(GetUserNameFromId(caller, false));
	identity->session_user = cstring_to_text(GetUserNameFromId(GetSessionUserId(), false));
	identity->actor = actor;
	identity->name = NULL;
}

/*
 * Sets the name that gates compare.
 */
void
identity_settle(Identity *identity, bool vouching)
{
	identity->name = quoted_if_odd(identity->role_name);
	if (!vouching)
		return;
	if (identity->actor == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("role \"%s\" vouches for many people and must name an actor",
						text_to_cstring(identity->role_name)),
				 errhint("Pass the argument actor, or set extaction.actor."),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "actor")));
	identity->name = cstring_to_text(psprintf("%s:%s",
											  text_to_cstring(identity->name),
											  text_to_cstring(identity->actor)));
}

/*
 * Somebody who acted before, as the ledger recorded it.  A role that is gone
 * is nobody, and may do nothing.
 */
void
identity_stored(Identity *identity, text *name, text *role_name,
				text *session_user, text *actor)
{
	identity->role = get_role_oid(text_to_cstring(role_name), true);
	identity->role_name = role_name;
	identity->session_user = session_user;
	identity->actor = actor;
	identity->name = name;
}

/*
 * A role name with a colon or a quote in it is shown quoted, so that nobody
 * can be mistaken for role:actor by choosing a name.
 */
static text *
quoted_if_odd(const text *name)
{
	char	   *str = text_to_cstring(name);

	return strpbrk(str, ":\"") == NULL
		? cstring_to_text(str) : cstring_to_text(quote_identifier(str));
}

/*
 * Does the caller have one of the capabilities (a list with commas) in this
 * scope, as committed by now, and if so, does it vouch?  A role's own grants
 * decide over those it inherits.
 */
bool
access_judge(const Identity *identity, const text *scope, const char *capabilities, bool *vouching)
{
	const ScopeMembers *members = members_of(scope);
	int			wanted = capability_bits(capabilities);
	bool		allowed = false;
	bool		own = false;
	bool		own_vouches = false;
	bool		all_vouch = true;
	int			i;

	for (i = 0; i < members->count; i++)
	{
		const ScopeMember *member = &members->member[i];

		if (!has_privs_of_role(identity->role, member->role) || !is_named(member))
			continue;
		if (member->role == identity->role)
		{
			own = true;
			own_vouches |= member->vouches;
		}
		if (member->capability & wanted)
		{
			allowed = true;
			all_vouch &= member->vouches;
		}
	}
	*vouching = allowed && (own ? own_vouches : all_vouch);
	return allowed;
}

/*
 * Does a role that was granted something still bear its name?
 */
static bool
is_named(const ScopeMember *member)
{
	char	   *present = GetUserNameFromId(member->role, true);

	return present != NULL && strcmp(present, NameStr(member->name)) == 0;
}

/*
 * Raises unless the caller has one of the capabilities (a list with commas;
 * owner has them all), and settles its name.
 */
void
access_require(Identity *identity, const text *scope, const char *capabilities)
{
	if (!access_allows(identity, scope, capabilities))
		deny_access(identity, scope, strcmp(capabilities, "owner") == 0
					? capabilities : psprintf("%s, owner", capabilities));
}

/*
 * The same question, for those to whom no is an answer.
 */
bool
access_allows(Identity *identity, const text *scope, const char *capabilities)
{
	bool		vouching;

	if (!access_judge(identity, scope, psprintf("%s,owner", capabilities), &vouching))
		return false;
	identity_settle(identity, vouching);
	return true;
}

/*
 * Is the caller a submitter there?  To be asked before facts are loaded, which
 * judge it again: what the ledger does for a stranger must not depend on what
 * there is in the scope.
 */
bool
access_expected(const Identity *identity, const text *scope)
{
	bool		vouching;

	return access_judge(identity, scope, "submitter,owner", &vouching);
}

/*
 * For what concerns the whole ledger.  Within a visit the current user is the
 * extension's owner.
 */
void
require_extension_owner(const Identity *identity)
{
	if (!has_privs_of_role(identity->role, GetUserId()))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be owner of extension extaction")));
}

/*
 * For functions that only read: any capability will do, and no name is
 * recorded.
 */
void
access_require_member(const Identity *identity, const text *scope)
{
	bool		vouching;

	if (!access_judge(identity, scope, "submitter,approver,worker,auditor,owner", &vouching))
		deny_access(identity, scope, "submitter, approver, worker, auditor, owner");
}

/*
 * An unknown scope and somebody else's look the same.
 */
static void
deny_access(const Identity *identity, const text *scope, const char *capabilities)
{
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied for scope \"%s\"", text_to_cstring(scope)),
			 errdetail("Role \"%s\" has none of the capabilities it takes there (%s), or there is no such scope.",
					   text_to_cstring(identity->role_name), capabilities),
			 errhint("An owner of the scope can call extaction.grant_access."),
			 err_generic_string(PG_DIAG_CONSTRAINT_NAME, gate_name(GATE_SCOPE_DENIED))));
}

/*
 * create_scope(scope) returns text
 */
Datum
extaction_create_scope(PG_FUNCTION_ARGS)
{
	static KeptQuery insert = {
		"INSERT INTO extaction.scopes (scope, role, \"session_user\")"
		" VALUES ($1, $2, $3) ON CONFLICT (scope) DO NOTHING RETURNING 1",
		false, 3, {TEXTOID, TEXTOID, TEXTOID}, NULL
	};
	text	   *scope = name_argument(fcinfo, 0, "scope");
	LedgerVisit visit;
	Identity	identity;
	QueryArgs	args = {0};
	bool		vouching;
	bool		created;

	ledger_enter(&visit, LEDGER_WRITES);
	identity_init(&identity, visit.caller, NULL);
	begin_ledger(&identity);

	arg_text(&args, scope);
	arg_text(&args, identity.role_name);
	arg_text(&args, identity.session_user);
	created = query_run(&insert, &args) == 1;
	if (created)
	{
		lock_members();
		add_member(scope, identity.role, "owner", NULL, &identity);
	}
	else if (!access_judge(&identity, scope, "owner", &vouching))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("scope \"%s\" cannot be created", text_to_cstring(scope)),
				 errdetail("The name is taken."),
				 errhint("Choose another name, or ask its owner for access."),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "scope")));
	ledger_leave(&visit);
	PG_RETURN_TEXT_P(cstring_to_text(created ? "created" : "exists"));
}

static bool
scope_exists(const text *scope)
{
	static KeptQuery query = {
		"SELECT FROM extaction.scopes WHERE scope = $1", false, 1, {TEXTOID}, NULL
	};
	QueryArgs	args = {0};

	arg_text(&args, scope);
	return query_run_now(&query, &args) > 0;
}

/*
 * The first scope makes the ledger's own row and the built-in action.  They
 * are not inserted by the install script: there, a restore would meet them a
 * second time, and every restored ledger would get another identity.
 */
static void
begin_ledger(const Identity *identity)
{
	static KeptQuery exists = {
		"SELECT FROM extaction.ledger LIMIT 1", false, 0, {0}, NULL
	};
	static KeptQuery lock = {
		"LOCK TABLE extaction.ledger IN SHARE ROW EXCLUSIVE MODE",
		false, 0, {0}, NULL
	};
	static KeptQuery begin = {
		"WITH begun AS ("
		" INSERT INTO extaction.ledger"
		"  (entry, epoch, ledger_id, system_identifier, database_oid, timeline, kind, role)"
		" SELECT 1, 1, gen_random_uuid(), $1, $2, $3, 'created', $4"
		" WHERE NOT EXISTS (SELECT FROM extaction.ledger)"
		" RETURNING 1)"
		" INSERT INTO extaction.actions"
		"  (action, provider, operation, description, reversible, self_approval)"
		" SELECT $5, $6, $7, 'creates a task at the fake provider inside the database', false, true"
		" FROM begun ON CONFLICT (action) DO NOTHING",
		false, 7, {INT8OID, OIDOID, INT8OID, TEXTOID, TEXTOID, TEXTOID, TEXTOID}, NULL
	};
	QueryArgs	none = {0};
	QueryArgs	args = {0};

	if (query_run_now(&exists, &none) > 0)
		return;
	(void) query_run(&lock, &none);
	arg_int8(&args, (int64) GetSystemIdentifier());
	arg_oid(&args, MyDatabaseId);
	arg_int8(&args, GetWALInsertionTimeLine());
	arg_text(&args, identity->role_name);
	arg_cstring(&args, FAKE_TASK_ACTION);
	arg_cstring(&args, FAKE_TASK_PROVIDER);
	arg_cstring(&args, FAKE_TASK_OPERATION);
	(void) query_run_now(&begin, &args);
}

/*
 * grant_access(scope, role, capability, vouches_for) returns text
 */
Datum
extaction_grant_access(PG_FUNCTION_ARGS)
{
	static KeptQuery same = {
		"SELECT FROM extaction.scope_members m"
		" WHERE m.scope = $1 AND m.member = $2 AND m.capability = $3"
		"   AND m.member_name = $4 AND m.vouches_for IS NOT DISTINCT FROM $5",
		false, 5, {TEXTOID, OIDOID, TEXTOID, TEXTOID, TEXTOID}, NULL
	};
	text	   *scope = name_argument(fcinfo, 0, "scope");
	text	   *role_name = name_argument(fcinfo, 1, "role");
	char	   *capability = capability_argument(fcinfo, 2);
	text	   *vouches_for = optional_name(fcinfo, 3, "vouches_for");
	Oid			role = get_role_oid(text_to_cstring(role_name), false);
	LedgerVisit visit;
	Identity	identity;
	QueryArgs	args = {0};
	bool		unchanged;

	ledger_enter(&visit, LEDGER_WRITES);
	identity_init(&identity, visit.caller, NULL);
	/* judged after the wait: another owner may have taken our access */
	lock_members();
	/* a scope whose last owner was dropped must not be lost */
	if (!superuser_arg(visit.caller) || !scope_exists(scope))
		access_require(&identity, scope, "owner");

	arg_text(&args, scope);
	arg_oid(&args, role);
	arg_cstring(&args, capability);
	arg_text(&args, role_name);
	arg_text(&args, vouches_for);
	unchanged = query_run_now(&same, &args) > 0;
	if (unchanged)
		privileges_grant(role, capability); /* it may be older than they are */
	else
		add_member(scope, role, capability, vouches_for, &identity);
	ledger_leave(&visit);
	PG_RETURN_TEXT_P(cstring_to_text(unchanged ? "unchanged" : "granted"));
}

/*
 * Writes a membership and gives the SQL privileges that go with it.
 */
static void
add_member(const text *scope, Oid role, const char *capability,
		   const text *vouches_for, const Identity *identity)
{
	static KeptQuery upsert = {
		"INSERT INTO extaction.scope_members AS m"
		" (scope, member, member_name, capability, vouches_for, granted_by)"
		" VALUES ($1, $2::regrole, $3, $4, $5, $6)"
		" ON CONFLICT (scope, member_name, capability) DO UPDATE"
		" SET member = excluded.member, vouches_for = excluded.vouches_for,"
		"     recorded_at = excluded.recorded_at, granted_by = excluded.granted_by",
		false, 6, {TEXTOID, OIDOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID}, NULL
	};
	text	   *role_name = cstring_to_text(GetUserNameFromId(role, false));
	QueryArgs	args = {0};

	arg_text(&args, scope);
	arg_oid(&args, role);
	arg_text(&args, role_name);
	arg_cstring(&args, capability);
	arg_text(&args, vouches_for);
	arg_text(&args, identity->role_name);
	(void) query_run_now(&upsert, &args);
	append_access_change("granted", scope, role_name, capability, vouches_for, identity);
	privileges_grant(role, capability);
}

/*
 * revoke_access(scope, role, capability) returns text
 */
Datum
extaction_revoke_access(PG_FUNCTION_ARGS)
{
	static KeptQuery remove = {
		"DELETE FROM extaction.scope_members m"
		" WHERE m.scope = $1 AND m.member_name = $2 AND m.capability = $3",
		false, 3, {TEXTOID, TEXTOID, TEXTOID}, NULL
	};
	static KeptQuery owners = {
		"SELECT FROM extaction.scope_members m"
		" WHERE m.scope = $1 AND m.capability = 'owner'"
		"   AND pg_get_userbyid(m.member::oid) = m.member_name",
		false, 1, {TEXTOID}, NULL
	};
	static KeptQuery left = {
		"SELECT string_agg(DISTINCT m.capability, ',') FROM extaction.scope_members m"
		" WHERE m.member = $1 AND m.member_name = $2",
		false, 2, {OIDOID, TEXTOID}, NULL
	};
	text	   *scope = name_argument(fcinfo, 0, "scope");
	text	   *role_name = name_argument(fcinfo, 1, "role");
	char	   *capability = capability_argument(fcinfo, 2);
	Oid			role = get_role_oid(text_to_cstring(role_name), true);
	LedgerVisit visit;
	Identity	identity;
	QueryArgs	args = {0};
	QueryArgs	scope_arg = {0};
	QueryArgs	role_args = {0};
	bool		revoked;

	ledger_enter(&visit, LEDGER_WRITES);
	identity_init(&identity, visit.caller, NULL);
	/* judged after the wait: another owner may have taken our access */
	lock_members();
	access_require(&identity, scope, "owner");

	arg_text(&args, scope);
	arg_text(&args, role_name);
	arg_cstring(&args, capability);
	revoked = query_run_now(&remove, &args) > 0;
	arg_text(&scope_arg, scope);
	if (query_run_now(&owners, &scope_arg) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot revoke the last owner of scope \"%s\"", text_to_cstring(scope)),
				 errhint("Make another role owner first."),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "capability")));
	if (revoked)
		append_access_change("revoked", scope, role_name, capability, NULL, &identity);
	if (revoked && OidIsValid(role))
	{
		text	   *kept;

		arg_oid(&role_args, role);
		arg_text(&role_args, role_name);
		(void) query_run_now(&left, &role_args);
		kept = got_text(0, 1);
		privileges_revoke(role, kept == NULL ? "" : text_to_cstring(kept));
	}
	ledger_leave(&visit);
	PG_RETURN_TEXT_P(cstring_to_text(revoked ? "revoked" : "unchanged"));
}

static void
append_access_change(const char *kind, const text *scope, const text *role_name,
					 const char *capability, const text *vouches_for,
					 const Identity *identity)
{
	static KeptQuery insert = {
		"INSERT INTO extaction.access_changes"
		" (scope, kind, member_name, capability, vouches_for, role, \"session_user\")"
		" VALUES ($1, $2, $3, $4, $5, $6, $7)",
		false, 7, {TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID}, NULL
	};
	QueryArgs	args = {0};

	arg_text(&args, scope);
	arg_cstring(&args, kind);
	arg_text(&args, role_name);
	arg_cstring(&args, capability);
	arg_text(&args, vouches_for);
	arg_text(&args, identity->role_name);
	arg_text(&args, identity->session_user);
	(void) query_run(&insert, &args);
}

static void
lock_members(void)
{
	static KeptQuery lock = {
		"LOCK TABLE extaction.scope_members IN SHARE ROW EXCLUSIVE MODE",
		false, 0, {0}, NULL
	};
	QueryArgs	none = {0};

	(void) query_run(&lock, &none);
}

static char *
capability_argument(FunctionCallInfo fcinfo, int arg)
{
	char	   *capability = text_to_cstring(name_argument(fcinfo, arg, "capability"));

	if (!capability_exists(capability))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unknown capability \"%s\"", capability),
				 errhint("Capabilities are submitter, approver, worker, auditor and owner."),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "capability")));
	return capability;
}
