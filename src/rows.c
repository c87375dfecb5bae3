/*-------------------------------------------------------------------------
 *
 * rows.c
 *	  Single rows, read by key and added, without a statement: see rows.h.
 *
 * It does what an executor would do, in the same order and with the same
 * locks: the snapshot decides what is seen, serializable transactions leave
 * their predicate locks, constraints and triggers of the table are honoured.
 * Rights are not asked, since a visit has those of the tables' owner.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relscan.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_type.h"
#include "commands/sequence.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "executor/nodeModifyTable.h"
#include "miscadmin.h"
#include "nodes/primnodes.h"
#include "rewrite/rewriteHandler.h"
#include "rows.h"
#include "storage/lmgr.h"
#include "tcop/utility.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* What changed between the majors. */
#if PG_VERSION_NUM >= 160000
#define insert_index_tuples(relinfo, slot, estate, no_error, conflict) \
	ExecInsertIndexTuples(relinfo, slot, estate, false, no_error, conflict, NIL, false)
#else
#define insert_index_tuples(relinfo, slot, estate, no_error, conflict) \
	ExecInsertIndexTuples(relinfo, slot, estate, false, no_error, conflict, NIL)
#endif
#if PG_VERSION_NUM >= 180000
#define check_index_constraints(relinfo, slot, estate, tid) \
	ExecCheckIndexConstraints(relinfo, slot, estate, tid, NULL, NIL)
#define begin_index_scan(table, index, snapshot, nkeys) \
	index_beginscan(table, index, snapshot, NULL, nkeys, 0)
#else
#define check_index_constraints(relinfo, slot, estate, tid) \
	ExecCheckIndexConstraints(relinfo, slot, estate, tid, NIL)
#define begin_index_scan(table, index, snapshot, nkeys) \
	index_beginscan(table, index, snapshot, nkeys, 0)
#endif

/* Tables whose names some KeptRows has looked up; all of it is forgotten if one of them changes. */
#define MAX_TABLES 32
static Oid	tables[MAX_TABLES];
static int	ntables = 0;
static Oid	event_id_seq = InvalidOid;
static uint64 changes = 1;

static void forget(Datum arg, Oid relid);
static Relation open_table(KeptRows *kept, LOCKMODE lock);
static Relation open_index(KeptRows *kept);
static void look_up(KeptRows *kept);
static void remember(Oid table);
static Oid	find_relation(const char *name);
static void make_keys(ScanKey entries, const RowScan *scan, const QueryArgs *keys);
static void open_indexes(ResultRelInfo *relinfo, KeptRows *kept, TupleTableSlot *slot,
						 bool unless_there);
static void note(KeptRows *kept, const ResultRelInfo *relinfo);
static bool read_predicate(Node *clause, PartialIndex *partial);
static bool passes_index_by(const KeptRows *kept, Oid index, const TupleTableSlot *slot);
static bool changes_rows(Relation table);
static bool has_insert_triggers(Relation table);
static void fill_slot(TupleTableSlot *slot, EState *estate, Relation table, const KeptRows *kept,
					  const QueryArgs *args);
static bool has_default(TupleDesc desc, int attribute);
static bool is_named_column(const KeptRows *kept, AttrNumber number);
static bool insert(ResultRelInfo *relinfo, TupleTableSlot *slot, EState *estate,
				   bool unless_there);
static bool insert_speculatively(Relation table, ResultRelInfo *relinfo, TupleTableSlot *slot,
								 EState *estate, List **recheck);

/*
 * Called when the library is loaded.
 */
void
rows_init(void)
{
	CacheRegisterRelcacheCallback(forget, (Datum) 0);
}

/*
 * Relation cache callback; InvalidOid is everything.
 */
static void
forget(Datum arg, Oid relid)
{
	int			i;

	for (i = 0; i < ntables && relid != InvalidOid; i++)
		if (tables[i] == relid)
			relid = InvalidOid;
	if (relid != InvalidOid && relid != event_id_seq)
		return;
	changes++;
	ntables = 0;
	event_id_seq = InvalidOid;
}

/*
 * All that is read until rows_look_end() is of one moment.
 */
void
rows_look(RowsView view)
{
	if (view == VIEW_CALLER)
		return;
	CommandCounterIncrement();
	PushActiveSnapshot(view == VIEW_NOW && IsolationUsesXactSnapshot()
					   ? GetLatestSnapshot() : GetTransactionSnapshot());
}

void
rows_look_end(RowsView view)
{
	if (view != VIEW_CALLER)
		PopActiveSnapshot();
}

/*
 * Begins to read the rows whose first columns of the index have these values,
 * in the order of the index or backwards.
 */
void
rows_begin(RowScan *scan, KeptRows *kept, const QueryArgs *keys, bool newest_first)
{
	ScanKeyData entries[INDEX_MAX_KEYS];

	scan->kept = kept;
	scan->newest_first = newest_first;
	scan->table = open_table(kept, AccessShareLock);
	scan->index = open_index(kept);
	scan->slot = table_slot_create(scan->table, NULL);
	make_keys(entries, scan, keys);
	scan->scan = begin_index_scan(scan->table, scan->index, GetActiveSnapshot(), keys->count);
	index_rescan(scan->scan, entries, keys->count, NULL, 0);
}

static void
make_keys(ScanKey entries, const RowScan *scan, const QueryArgs *keys)
{
	TupleDesc	desc = RelationGetDescr(scan->index);
	int			i;

	if (keys->count > desc->natts)
		elog(ERROR, "index \"%s\" has too few columns", scan->kept->index);
	for (i = 0; i < keys->count; i++)
	{
		Oid			type = TupleDescAttr(desc, i)->atttypid;
		RegProcedure equal = type == TEXTOID ? F_TEXTEQ : type == INT8OID ? F_INT8EQ : F_BYTEAEQ;

		if (type != TEXTOID && type != INT8OID && type != BYTEAOID)
			elog(ERROR, "index \"%s\" has a column of another type", scan->kept->index);
		ScanKeyEntryInitialize(&entries[i], keys->nulls[i] == 'n' ? SK_ISNULL : 0, i + 1,
							   BTEqualStrategyNumber, InvalidOid, scan->index->rd_indcollation[i],
							   equal, keys->values[i]);
	}
}

/*
 * The next row; its values last until the next call, but row_*() copy them.
 */
bool
rows_next(RowScan *scan, GotRow *row)
{
	const KeptRows *kept = scan->kept;
	int			i;

	CHECK_FOR_INTERRUPTS();
	if (!index_getnext_slot(scan->scan, scan->newest_first ? BackwardScanDirection : ForwardScanDirection,
							scan->slot))
		return false;
	slot_getsomeattrs(scan->slot, kept->last);
	for (i = 0; i < kept->ncolumns; i++)
	{
		row->values[i] = scan->slot->tts_values[kept->numbers[i] - 1];
		row->nulls[i] = scan->slot->tts_isnull[kept->numbers[i] - 1];
	}
	return true;
}

/*
 * Locks are kept until the transaction ends, as a statement keeps them.
 */
void
rows_end(RowScan *scan)
{
	index_endscan(scan->scan);
	ExecDropSingleTupleTableSlot(scan->slot);
	index_close(scan->index, NoLock);
	table_close(scan->table, NoLock);
}

/*
 * The first of those rows alone, copied.  False if there is none.
 */
bool
row_find(KeptRows *kept, const QueryArgs *keys, bool newest_first, GotRow *row)
{
	RowScan		scan;
	bool		found;
	int			i;

	rows_begin(&scan, kept, keys, newest_first);
	found = rows_next(&scan, row);
	for (i = 0; found && i < kept->ncolumns; i++)
	{
		Form_pg_attribute column = TupleDescAttr(scan.slot->tts_tupleDescriptor, kept->numbers[i] - 1);

		if (!row->nulls[i])
			row->values[i] = datumCopy(row->values[i], column->attbyval, column->attlen);
	}
	rows_end(&scan);
	return found;
}

/*
 * Adds a row; columns that are not named get their defaults, for a ledger's
 * owner may have added some.  False if "unless_there", and a row with one of
 * its unique keys is there: then another session may have had to end first.
 */
bool
row_add(KeptRows *kept, const QueryArgs *args, bool unless_there)
{
	EState	   *estate = CreateExecutorState();
	MemoryContext old = MemoryContextSwitchTo(estate->es_query_cxt);
	Relation	table = open_table(kept, RowExclusiveLock);
	TupleTableSlot *slot = table_slot_create(table, &estate->es_tupleTable);
	ResultRelInfo *relinfo = makeNode(ResultRelInfo);
	bool		added;

	PreventCommandIfReadOnly("INSERT");
	PreventCommandIfParallelMode("INSERT");
	Assert(args->count == kept->ncolumns);
	InitResultRelInfo(relinfo, table, 0, NULL, 0);
	estate->es_opened_result_relations = list_make1(relinfo);
	fill_slot(slot, estate, table, kept, args);
	open_indexes(relinfo, kept, slot, unless_there);
	if (kept->runs_others_code)
		ledger_pin_search_path();
	AfterTriggerBeginQuery();
	ExecBSInsertTriggers(estate, relinfo);
	added = insert(relinfo, slot, estate, unless_there);
	ExecASInsertTriggers(estate, relinfo, NULL);
	AfterTriggerEndQuery(estate);
	ExecCloseResultRelations(estate);	/* and its indexes */
	ExecResetTupleTable(estate->es_tupleTable, false);
	table_close(table, NoLock);
	MemoryContextSwitchTo(old);
	FreeExecutorState(estate);
	CommandCounterIncrement();
	return added;
}

/*
 * Opens the indexes, as ExecOpenIndices() does, but for those that the row
 * will not be in: to open, ask and close one costs half of what an entry does.
 */
static void
open_indexes(ResultRelInfo *relinfo, KeptRows *kept, TupleTableSlot *slot, bool unless_there)
{
	bool		noted = kept->noted == kept->known;
	List	   *indexes = RelationGetIndexList(relinfo->ri_RelationDesc);
	ListCell   *lc;

	relinfo->ri_IndexRelationDescs = palloc(sizeof(Relation) * list_length(indexes));
	relinfo->ri_IndexRelationInfo = palloc(sizeof(IndexInfo *) * list_length(indexes));
	foreach(lc, indexes)
	{
		Relation	index;
		IndexInfo  *info;

		if (noted && passes_index_by(kept, lfirst_oid(lc), slot))
			continue;
		index = index_open(lfirst_oid(lc), RowExclusiveLock);
		info = BuildIndexInfo(index);
		if (unless_there && info->ii_Unique && !index->rd_index->indisexclusion)
			BuildSpeculativeIndexInfo(index, info);
		relinfo->ri_IndexRelationDescs[relinfo->ri_NumIndices] = index;
		relinfo->ri_IndexRelationInfo[relinfo->ri_NumIndices++] = info;
	}
	list_free(indexes);
	if (!noted)
		note(kept, relinfo);
}

/*
 * Takes down which partial indexes may be passed by, and whether to add a row
 * runs what somebody else has written: then it runs with the owner's rights.
 * An index that is not as plain as our own counts as that.
 */
static void
note(KeptRows *kept, const ResultRelInfo *relinfo)
{
	Relation	table = relinfo->ri_RelationDesc;
	MemoryContext old;
	int			i;

	if (kept->memory == NULL)
		kept->memory = AllocSetContextCreate(CacheMemoryContext, "extaction partial indexes",
											 ALLOCSET_SMALL_SIZES);
	kept->npartial = 0;
	MemoryContextReset(kept->memory);
	old = MemoryContextSwitchTo(kept->memory);
	kept->runs_others_code = has_insert_triggers(table) ||
		(table->rd_att->constr &&
		 (table->rd_att->constr->num_check > 0 || table->rd_att->constr->has_generated_stored));
	for (i = 0; i < relinfo->ri_NumIndices; i++)
	{
		IndexInfo  *info = relinfo->ri_IndexRelationInfo[i];
		PartialIndex *partial = &kept->partial[kept->npartial];

		if (info->ii_Expressions == NIL && info->ii_Predicate == NIL)
			continue;
		if (info->ii_Expressions != NIL || list_length(info->ii_Predicate) != 1 ||
			kept->npartial == ROW_MAX_PARTIAL || !read_predicate(linitial(info->ii_Predicate), partial))
		{
			kept->runs_others_code = true;
			continue;
		}
		partial->index = RelationGetRelid(relinfo->ri_IndexRelationDescs[i]);
		kept->npartial++;
	}
	if (changes_rows(table))
		kept->npartial = 0;
	kept->noted = kept->known;
	MemoryContextSwitchTo(old);
}

/*
 * False unless it is "column IS NOT NULL" or "column IN ('word', ...)".
 */
static bool
read_predicate(Node *clause, PartialIndex *partial)
{
	Node	   *column;

	partial->nwords = 0;
	if (IsA(clause, NullTest) && ((NullTest *) clause)->nulltesttype == IS_NOT_NULL &&
		!((NullTest *) clause)->argisrow)
		column = (Node *) ((NullTest *) clause)->arg;
	else if (IsA(clause, ScalarArrayOpExpr))
	{
		ScalarArrayOpExpr *among = (ScalarArrayOpExpr *) clause;
		Const	   *words = lsecond(among->args);
		bool	   *nulls;
		int			i;

		if (!among->useOr || among->opno != TextEqualOperator || among->inputcollid != C_COLLATION_OID ||
			!IsA(words, Const) || words->constisnull || words->consttype != TEXTARRAYOID)
			return false;
		deconstruct_array(DatumGetArrayTypePCopy(words->constvalue), TEXTOID, -1, false, TYPALIGN_INT,
						  &partial->words, &nulls, &partial->nwords);
		for (i = 0; i < partial->nwords; i++)
			if (nulls[i])
				return false;
		if (partial->nwords == 0)
			return false;
		column = linitial(among->args);
	}
	else
		return false;
	if (!IsA(column, Var))
		return false;
	partial->column = ((Var *) column)->varattno;
	return partial->column > 0;
}

static bool
passes_index_by(const KeptRows *kept, Oid index, const TupleTableSlot *slot)
{
	const PartialIndex *partial = kept->partial;
	text	   *value;
	int			i;

	for (i = 0; i < kept->npartial && partial->index != index; i++)
		partial++;
	if (i == kept->npartial)
		return false;
	if (slot->tts_isnull[partial->column - 1] || partial->nwords == 0)
		return slot->tts_isnull[partial->column - 1];
	value = DatumGetTextPP(slot->tts_values[partial->column - 1]);
	for (i = 0; i < partial->nwords; i++)
		if (text_equal(value, DatumGetTextPP(partial->words[i])))
			return false;
	return true;
}

/*
 * Is what is added perhaps not what it is given?
 */
static bool
changes_rows(Relation table)
{
	return (table->trigdesc && table->trigdesc->trig_insert_before_row) ||
		(table->rd_att->constr && table->rd_att->constr->has_generated_stored);
}

/*
 * The guards are none of them.
 */
static bool
has_insert_triggers(Relation table)
{
	TriggerDesc *triggers = table->trigdesc;

	return triggers != NULL &&
		(triggers->trig_insert_before_row || triggers->trig_insert_after_row ||
		 triggers->trig_insert_before_statement || triggers->trig_insert_after_statement);
}

static void
fill_slot(TupleTableSlot *slot, EState *estate, Relation table, const KeptRows *kept,
		  const QueryArgs *args)
{
	int			i;

	ExecClearTuple(slot);
	memset(slot->tts_isnull, true, sizeof(bool) * slot->tts_tupleDescriptor->natts);
	memset(slot->tts_values, 0, sizeof(Datum) * slot->tts_tupleDescriptor->natts);
	for (i = 0; i < kept->ncolumns; i++)
	{
		slot->tts_values[kept->numbers[i] - 1] = args->values[i];
		slot->tts_isnull[kept->numbers[i] - 1] = args->nulls[i] == 'n';
	}
	for (i = 0; table->rd_att->constr && i < slot->tts_tupleDescriptor->natts; i++)
	{
		ExprState  *value;

		if (!has_default(slot->tts_tupleDescriptor, i) || is_named_column(kept, i + 1))
			continue;
		ledger_pin_search_path();
		value = ExecPrepareExpr((Expr *) build_column_default(table, i + 1), estate);
		slot->tts_values[i] = ExecEvalExpr(value, GetPerTupleExprContext(estate),
										   &slot->tts_isnull[i]);
	}
	ExecStoreVirtualTuple(slot);
}

static bool
has_default(TupleDesc desc, int attribute)
{
	Form_pg_attribute column = TupleDescAttr(desc, attribute);

	return column->atthasdef && !column->attisdropped && column->attgenerated == '\0';
}

static bool
is_named_column(const KeptRows *kept, AttrNumber number)
{
	int			i;

	for (i = 0; i < kept->ncolumns; i++)
		if (kept->numbers[i] == number)
			return true;
	return false;
}

static bool
insert(ResultRelInfo *relinfo, TupleTableSlot *slot, EState *estate, bool unless_there)
{
	Relation	table = relinfo->ri_RelationDesc;
	List	   *recheck = NIL;

	if (table->trigdesc && table->trigdesc->trig_insert_before_row &&
		!ExecBRInsertTriggers(estate, relinfo, slot))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("a trigger kept a row out of table \"%s\"", RelationGetRelationName(table)),
				 errhint("Drop the trigger: what the ledger records must be recorded.")));
	if (table->rd_att->constr && table->rd_att->constr->has_generated_stored)
		ExecComputeStoredGenerated(relinfo, estate, slot, CMD_INSERT);
	if (table->rd_att->constr)
		ExecConstraints(relinfo, slot, estate);
	if (!unless_there)
	{
		table_tuple_insert(table, slot, GetCurrentCommandId(true), 0, NULL);
		recheck = insert_index_tuples(relinfo, slot, estate, false, NULL);
	}
	else if (!insert_speculatively(table, relinfo, slot, estate, &recheck))
		return false;
	ExecARInsertTriggers(estate, relinfo, slot, recheck, NULL);
	return true;
}

/*
 * The way of ON CONFLICT DO NOTHING, but without its first look for the key:
 * our callers have just looked.  Who finds it in an index after all, takes the
 * row back and waits for whoever was first.
 */
static bool
insert_speculatively(Relation table, ResultRelInfo *relinfo, TupleTableSlot *slot, EState *estate,
					 List **recheck)
{
	bool		conflict = false;

	do
	{
		ItemPointerData there;
		uint32		token;

		CHECK_FOR_INTERRUPTS();
		if (conflict && !check_index_constraints(relinfo, slot, estate, &there))
			return false;
		conflict = false;
		token = SpeculativeInsertionLockAcquire(GetCurrentTransactionId());
		table_tuple_insert_speculative(table, slot, GetCurrentCommandId(true), 0, NULL, token);
		*recheck = insert_index_tuples(relinfo, slot, estate, true, &conflict);
		table_tuple_complete_speculative(table, slot, token, !conflict);
		SpeculativeInsertionLockRelease(GetCurrentTransactionId());
	} while (conflict);
	return true;
}

/*
 * The number of a new fact.
 */
int64
row_new_event_id(void)
{
	PreventCommandIfReadOnly("INSERT");
	if (event_id_seq == InvalidOid)
		event_id_seq = find_relation("event_id_seq");
	return nextval_internal(event_id_seq, false);
}

/*
 * Opens a table under a name that means, once it is locked, what we think.
 * If anything changed while we waited for the lock, the name is looked up
 * again: then nothing can change any more.
 */
static Relation
open_table(KeptRows *kept, LOCKMODE lock)
{
	for (;;)
	{
		Relation	table;

		CHECK_FOR_INTERRUPTS();
		if (kept->known != changes)
			look_up(kept);
		table = try_table_open(kept->table_oid, lock);
		if (table == NULL)
		{
			changes++;			/* dropped, and the message is still to come */
			continue;
		}
		if (kept->known == changes)
			return table;
		look_up(kept);
		if (kept->table_oid == RelationGetRelid(table))
			return table;
		table_close(table, lock);
	}
}

/*
 * REINDEX CONCURRENTLY puts another index in the place of one.
 */
static Relation
open_index(KeptRows *kept)
{
	Relation	index = index_open(kept->index_oid, AccessShareLock);

	if (index->rd_index->indisvalid)
		return index;
	index_close(index, AccessShareLock);
	AcceptInvalidationMessages();
	look_up(kept);
	index = index_open(kept->index_oid, AccessShareLock);
	if (!index->rd_index->indisvalid)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("index \"%s\" is not valid", kept->index),
				 errhint("Run REINDEX INDEX extaction.%s.", kept->index)));
	return index;
}

static void
look_up(KeptRows *kept)
{
	uint64		now = changes;
	Oid			table = find_relation(kept->table);
	int			i;

	if (get_rel_relkind(table) != RELKIND_RELATION)
		elog(ERROR, "\"%s\" is not a table", kept->table);
	kept->table_oid = table;
	kept->index_oid = kept->index ? find_relation(kept->index) : InvalidOid;
	kept->last = 0;
	for (i = 0; i < ROW_MAX_COLUMNS && kept->columns[i] != NULL; i++)
	{
		kept->numbers[i] = get_attnum(table, kept->columns[i]);
		if (kept->numbers[i] == InvalidAttrNumber)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_TABLE),
					 errmsg("table \"extaction.%s\" has no column \"%s\"", kept->table, kept->columns[i]),
					 errhint("Run ALTER EXTENSION extaction UPDATE.")));
		kept->last = Max(kept->last, kept->numbers[i]);
	}
	kept->ncolumns = i;
	if (now == changes)
		remember(table);
	kept->known = now;
}

static void
remember(Oid table)
{
	int			i;

	for (i = 0; i < ntables; i++)
		if (tables[i] == table)
			return;
	if (ntables == MAX_TABLES)
		elog(ERROR, "too many tables");
	tables[ntables++] = table;
}

static Oid
find_relation(const char *name)
{
	Oid			found = get_relname_relid(name, get_namespace_oid("extaction", false));

	if (found == InvalidOid)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation \"extaction.%s\" does not exist", name)));
	return found;
}

/*
 * The values of a row, copied.
 */
bool
row_null(const GotRow *row, int column)
{
	return row->nulls[column - 1];
}

bool
row_bool(const GotRow *row, int column)
{
	return !row->nulls[column - 1] && DatumGetBool(row->values[column - 1]);
}

text *
row_text(const GotRow *row, int column)
{
	return row->nulls[column - 1] ? NULL : DatumGetTextPCopy(row->values[column - 1]);
}

char *
row_word(const GotRow *row, int column)
{
	return row->nulls[column - 1] ? NULL : TextDatumGetCString(row->values[column - 1]);
}

int64
row_int8(const GotRow *row, int column)
{
	return row->nulls[column - 1] ? 0 : DatumGetInt64(row->values[column - 1]);
}

Oid
row_oid(const GotRow *row, int column)
{
	return row->nulls[column - 1] ? InvalidOid : DatumGetObjectId(row->values[column - 1]);
}

TimestampTz
row_timestamptz(const GotRow *row, int column)
{
	return row->nulls[column - 1] ? NO_TIME : DatumGetTimestampTz(row->values[column - 1]);
}

void
row_digest(const GotRow *row, int column, uint8 *digest)
{
	read_digest(row->values[column - 1], row->nulls[column - 1], digest);
}

void
row_uuid(const GotRow *row, int column, pg_uuid_t *value)
{
	if (row->nulls[column - 1])
		elog(ERROR, "unexpected null uuid");
	memcpy(value, DatumGetUUIDP(row->values[column - 1]), UUID_LEN);
}

Jsonb *
row_jsonb(const GotRow *row, int column)
{
	return row->nulls[column - 1] ? NULL : DatumGetJsonbPCopy(row->values[column - 1]);
}
