/*-------------------------------------------------------------------------
 *
 * pause.c
 *	  The switch: what claim skips for now.  No state changes.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "extaction.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"

static void require_master(Identity *identity, const text *scope);

PG_FUNCTION_INFO_V1(extaction_pause);
PG_FUNCTION_INFO_V1(extaction_resume);

/*
 * pause(scope, action, reason) returns text
 */
Datum
extaction_pause(PG_FUNCTION_ARGS)
{
	static KeptQuery query = {
		"INSERT INTO extaction.pauses (scope, action, reason, role)"
		" VALUES (coalesce($1, ''), coalesce($2, ''), $3, $4)"
		" ON CONFLICT (scope, action) DO NOTHING RETURNING 1",
		false, 4, {TEXTOID, TEXTOID, TEXTOID, TEXTOID}, NULL
	};
	text	   *scope = optional_name(fcinfo, 0, "scope");
	text	   *action = optional_name(fcinfo, 1, "action");
	text	   *reason = reason_argument(fcinfo, 2);
	LedgerVisit visit;
	Identity	identity;
	QueryArgs	args = {0};
	bool		paused;

	ledger_enter(&visit, LEDGER_DECIDES);
	identity_init(&identity, visit.caller, NULL);
	require_master(&identity, scope);
	arg_text(&args, scope);
	arg_text(&args, action);
	arg_text(&args, reason);
	arg_text(&args, identity.role_name);
	paused = query_run(&query, &args) == 1;
	ledger_leave(&visit);
	PG_RETURN_TEXT_P(cstring_to_text(paused ? "paused" : "unchanged"));
}

/*
 * resume(scope, action) returns text
 */
Datum
extaction_resume(PG_FUNCTION_ARGS)
{
	static KeptQuery query = {
		"DELETE FROM extaction.pauses WHERE scope = coalesce($1, '') AND action = coalesce($2, '')",
		false, 2, {TEXTOID, TEXTOID}, NULL
	};
	text	   *scope = optional_name(fcinfo, 0, "scope");
	text	   *action = optional_name(fcinfo, 1, "action");
	LedgerVisit visit;
	Identity	identity;
	QueryArgs	args = {0};
	bool		resumed;

	ledger_enter(&visit, LEDGER_DECIDES);
	identity_init(&identity, visit.caller, NULL);
	require_master(&identity, scope);
	arg_text(&args, scope);
	arg_text(&args, action);
	resumed = query_run(&query, &args) == 1;
	ledger_leave(&visit);
	PG_RETURN_TEXT_P(cstring_to_text(resumed ? "resumed" : "unchanged"));
}

/*
 * A scope's owner is master of the scope; of all of them, who has the
 * privileges of the extension's owner.
 */
static void
require_master(Identity *identity, const text *scope)
{
	if (scope != NULL)
		access_require(identity, scope, "owner");
	else
		require_extension_owner(identity);
}
