/*-------------------------------------------------------------------------
 *
 * guards.c
 *	  The triggers that keep facts as they were written.
 *
 * Facts are only inserted: the guards refuse everything else, to everyone.
 * What redact.c blanks passes by a variable of this process that no setting
 * reaches, and that the end of the (sub)transaction clears.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "extaction.h"
#include "replication/logicalworker.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/rel.h"
#include "utils/rls.h"

static bool redacting = false;

static void stop_redacting(XactEvent event, void *arg);
static void stop_redacting_sub(SubXactEvent event, SubTransactionId id,
							   SubTransactionId parent, void *arg);
static bool restoring(void);
static Datum row_as_jsonb(HeapTuple tuple, TupleDesc desc);

PG_FUNCTION_INFO_V1(extaction_refuse_change);
PG_FUNCTION_INFO_V1(extaction_record_action_change);

/*
 * Called when the library is loaded.
 */
void
guards_init(void)
{
	RegisterXactCallback(stop_redacting, NULL);
	RegisterSubXactCallback(stop_redacting_sub, NULL);
}

/*
 * Runs a statement that blanks what facts say of a person.  The guards let
 * its updates pass, and nothing else.
 */
uint64
guards_pass(KeptQuery *query, QueryArgs *args)
{
	uint64		count;

	redacting = true;
	count = query_run(query, args);
	redacting = false;
	return count;
}

static void
stop_redacting(XactEvent event, void *arg)
{
	redacting = false;
}

static void
stop_redacting_sub(SubXactEvent event, SubTransactionId id,
				   SubTransactionId parent, void *arg)
{
	redacting = false;
}

/*
 * Trigger function of the guards.
 */
Datum
extaction_refuse_change(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("refuse_change must be called as a trigger")));
	if (redacting && TRIGGER_FIRED_BY_UPDATE(trigger->tg_event))
		return PointerGetDatum(NULL);
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("table \"%s\" cannot be changed this way",
					RelationGetRelationName(trigger->tg_relation)),
			 errdetail("The ledger only appends: its facts are never changed or deleted, and no table is truncated."),
			 errhint("To correct something, append what is true now, through the functions of extaction.")));
	PG_RETURN_NULL();
}

/*
 * Trigger function of the catalogue: appends old and new row, and who did it.
 * A row that is just as it was last recorded appends nothing, so that a
 * restore, which inserts the rows again, does not write history.
 */
Datum
extaction_record_action_change(PG_FUNCTION_ARGS)
{
	static KeptQuery query = {
		"WITH last AS (SELECT c.new_row FROM extaction.action_changes c"
		"              WHERE c.action = $1 ORDER BY c.recorded_at DESC LIMIT 1)"
		" INSERT INTO extaction.action_changes (action, kind, old_row, new_row, role, \"session_user\")"
		" SELECT $1, $2, $3, $4, $5, $6"
		" WHERE NOT EXISTS (SELECT FROM last WHERE last.new_row IS NOT DISTINCT FROM $4)",
		false, 6, {TEXTOID, TEXTOID, JSONBOID, JSONBOID, TEXTOID, TEXTOID}, NULL
	};
	TriggerData *trigger = (TriggerData *) fcinfo->context;
	TupleDesc	desc;
	LedgerVisit visit;
	Identity	identity;
	QueryArgs	args = {0};
	HeapTuple	old_row = NULL;
	HeapTuple	new_row = NULL;
	bool		isnull;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("record_action_change must be called as a trigger")));
	desc = RelationGetDescr(trigger->tg_relation);
	if (TRIGGER_FIRED_BY_INSERT(trigger->tg_event))
		new_row = trigger->tg_trigtuple;
	else
		old_row = trigger->tg_trigtuple;
	if (TRIGGER_FIRED_BY_UPDATE(trigger->tg_event))
		new_row = trigger->tg_newtuple;
	if (TRIGGER_FIRED_BY_INSERT(trigger->tg_event) && restoring())
		return PointerGetDatum(NULL);
	/* replication brings the history along, too */
	if (IsLogicalWorker())
		return PointerGetDatum(NULL);

	ledger_enter(&visit, LEDGER_WRITES);
	identity_init(&identity, visit.caller, NULL);
	arg_text(&args, DatumGetTextPP(heap_getattr(new_row ? new_row : old_row, 1, desc, &isnull)));
	arg_cstring(&args, new_row == NULL ? "deleted" : old_row == NULL ? "inserted" : "updated");
	arg_jsonb(&args, old_row ? DatumGetJsonbP(row_as_jsonb(old_row, desc)) : NULL);
	arg_jsonb(&args, new_row ? DatumGetJsonbP(row_as_jsonb(new_row, desc)) : NULL);
	arg_text(&args, identity.role_name);
	arg_text(&args, identity.session_user);
	(void) query_run(&query, &args);
	ledger_leave(&visit);
	return PointerGetDatum(NULL);
}

/*
 * Are we inside the script of a dump?  It begins with these settings, which
 * nobody else has together.  It brings the history along, in an order of its
 * own, so what it inserts is no change.  Who abuses it is found by verify().
 */
static bool
restoring(void)
{
	return !check_function_bodies && !row_security;
}

static Datum
row_as_jsonb(HeapTuple tuple, TupleDesc desc)
{
	static KeptQuery query = {
		"SELECT to_jsonb($1)", false, 1, {InvalidOid}, NULL
	};
	QueryArgs	args = {0};

	if (query.plan != NULL && query.argtypes[0] != desc->tdtypeid)
	{
		/* the extension was dropped and created again in this session */
		SPI_freeplan(query.plan);
		query.plan = NULL;
	}
	query.argtypes[0] = desc->tdtypeid;
	args.values[0] = heap_copy_tuple_as_datum(tuple, desc);
	args.nulls[0] = ' ';
	args.count = 1;
	(void) query_run(&query, &args);
	return PointerGetDatum(got_jsonb(0, 1));
}
