/*-------------------------------------------------------------------------
 *
 * catalogue.c
 *	  What every call needs and hardly ever changes, remembered in the
 *	  session: the ledger's last entry, the catalogue's actions, and which
 *	  contract is in force for each.
 *
 * The memory is forgotten when one of the three tables changes: a trigger on
 * each sends a relation cache invalidation, which reaches every session when
 * the change commits, and our own at once.  It is also forgotten when an
 * announced contract comes into force.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "extaction.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#define MAX_REMEMBERED 1000

static MemoryContext memory = NULL;
static List *remembered = NIL;
static Oid	tables[3];			/* ledger, actions, contracts */
static uint64 generation = 0;	/* counts what was forgotten */

static void forget(Datum arg, Oid relid);
static Catalogue *load(const char *action);
static void find_tables(void);

PG_FUNCTION_INFO_V1(extaction_forget_catalogue);

/*
 * Called when the library is loaded.
 */
void
catalogue_init(void)
{
	CacheRegisterRelcacheCallback(forget, (Datum) 0);
}

/*
 * What the catalogue says of an action; known is false if it has no row.
 * Valid until the end of the call.
 */
const Catalogue *
catalogue_get(const char *action)
{
	ListCell   *lc;

	AcceptInvalidationMessages();
	foreach(lc, remembered)
	{
		Catalogue  *entry = lfirst(lc);

		if (strcmp(entry->action, action) == 0 &&
			GetCurrentTimestamp() < entry->valid_until)
			return entry;
	}
	return load(action);
}

/*
 * Relation cache callback; InvalidOid is everything.
 */
static void
forget(Datum arg, Oid relid)
{
	if (relid != InvalidOid && relid != tables[0] && relid != tables[1] && relid != tables[2])
		return;
	generation++;
	remembered = NIL;			/* its memory is freed at the next load */
}

/*
 * Reads an entry, as committed by now.  One that was forgotten while it was
 * being read serves this call and is not kept.
 */
static Catalogue *
load(const char *action)
{
	static KeptQuery query = {
		"SELECT l.ledger_id, l.window_until, l.backup_taken_at, l.epoch,"
		" a.enabled, coalesce(a.capability, a.action), a.approvals_required, a.self_approval,"
		" a.destination_pattern, k.version, k.shipped,"
		" coalesce((SELECT min(n.valid_from) FROM extaction.contracts n"
		"           WHERE n.provider = a.provider AND n.operation = a.operation AND n.valid_from > $2), 'infinity'),"
		" a.provider, a.operation, a.max_attempts, a.retry_delay, a.call_timeout"
		" FROM (SELECT 1) AS always"
		" LEFT JOIN LATERAL (SELECT l.* FROM extaction.ledger l ORDER BY l.entry DESC LIMIT 1) l ON true"
		" LEFT JOIN extaction.actions a ON a.action = $1"
		" LEFT JOIN LATERAL (SELECT k.version, k.shipped FROM extaction.contracts k"
		"                    WHERE k.provider = a.provider AND k.operation = a.operation AND k.valid_from <= $2"
		"                    ORDER BY k.valid_from DESC, k.version DESC, k.shipped LIMIT 1) k ON true",
		false, 2, {TEXTOID, TIMESTAMPTZOID}, NULL
	};
	QueryArgs	args = {0};
	Catalogue  *entry;
	MemoryContext old;
	uint64		begun;

	find_tables();
	begun = generation;
	arg_cstring(&args, action);
	arg_timestamptz(&args, GetCurrentTimestamp());
	(void) query_run_now(&query, &args);

	if (memory == NULL)
		memory = AllocSetContextCreate(CacheMemoryContext, "extaction catalogue",
									   ALLOCSET_SMALL_SIZES);
	if (remembered == NIL || list_length(remembered) >= MAX_REMEMBERED)
	{
		remembered = NIL;
		MemoryContextReset(memory);
	}
	old = MemoryContextSwitchTo(generation == begun ? memory : CurrentMemoryContext);
	entry = palloc0(sizeof(Catalogue));
	entry->action = pstrdup(action);
	entry->has_ledger = !got_null(0, 1);
	if (entry->has_ledger)
		got_uuid(0, 1, &entry->ledger_id);
	entry->window_until = got_timestamptz(0, 2);
	entry->backup_taken_at = got_timestamptz(0, 3);
	entry->epoch = got_int8(0, 4);
	entry->known = !got_null(0, 5);
	entry->enabled = got_bool(0, 5);
	entry->capability = got_text(0, 6);
	entry->approvals_required = got_int8(0, 7);
	entry->self_approval = got_bool(0, 8);
	entry->destination_pattern = got_text(0, 9);
	entry->has_contract = !got_null(0, 10);
	entry->contract_version = got_int8(0, 10);
	entry->contract_shipped = got_bool(0, 11);
	entry->valid_until = got_timestamptz(0, 12);
	entry->provider = got_text(0, 13);
	entry->operation = got_text(0, 14);
	entry->max_attempts = got_int8(0, 15);
	entry->retry_delay = got_interval(0, 16);
	entry->call_timeout = got_interval(0, 17);
	if (generation == begun)
		remembered = lappend(remembered, entry);
	MemoryContextSwitchTo(old);
	return entry;
}

static void
find_tables(void)
{
	Oid			schema = get_namespace_oid("extaction", false);

	tables[0] = get_relname_relid("ledger", schema);
	tables[1] = get_relname_relid("actions", schema);
	tables[2] = get_relname_relid("contracts", schema);
}

/*
 * Trigger function of the three tables.
 */
Datum
extaction_forget_catalogue(PG_FUNCTION_ARGS)
{
	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("forget_catalogue must be called as a trigger")));
	CacheInvalidateRelcache(((TriggerData *) fcinfo->context)->tg_relation);
	return PointerGetDatum(NULL);
}
