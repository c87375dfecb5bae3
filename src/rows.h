/*-------------------------------------------------------------------------
 *
 * rows.h
 *	  Single rows, read by key and added, without a statement.
 *
 * Starting and ending an executor costs many times what it does for a row or
 * two, and a verb about one intent reads seven tables.  So the rows of one
 * intent are read and added here, by the index and table access methods;
 * whatever is about sets of rows, or changes one, is a statement (query.c).
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef EXTACTION_ROWS_H
#define EXTACTION_ROWS_H

#include "access/genam.h"
#include "executor/tuptable.h"
#include "extaction.h"

#define ROW_MAX_COLUMNS QUERY_MAX_ARGS
#define ROW_MAX_PARTIAL 4

/*
 * An index of only those rows in which a column is not null, or is one of some
 * words.
 */
typedef struct PartialIndex
{
	Oid			index;
	AttrNumber	column;
	int			nwords;			/* 0: any but null */
	Datum	   *words;
} PartialIndex;

/*
 * Columns of a table, and the index by which its rows are found (NULL if they
 * are only added).  To be a static variable: what the names mean is kept in
 * it for the session.
 */
typedef struct KeptRows
{
	const char *table;
	const char *index;
	const char *columns[ROW_MAX_COLUMNS];	/* as many as are not NULL */
	/* what they mean, if "known" is the count of now */
	uint64		known;
	Oid			table_oid;
	Oid			index_oid;
	int			ncolumns;
	AttrNumber	numbers[ROW_MAX_COLUMNS];
	AttrNumber	last;			/* the greatest of them */
	/* what adding a row does, if "noted" is that count too */
	uint64		noted;
	bool		runs_others_code;
	int			npartial;
	PartialIndex partial[ROW_MAX_PARTIAL];
	MemoryContext memory;		/* of their words */
} KeptRows;

#define ROWS_OF(table_name, index_name, ...) \
	{.table = table_name, .index = index_name, .columns = {__VA_ARGS__}}

/* A row: those columns, counting from 1. */
typedef struct GotRow
{
	Datum		values[ROW_MAX_COLUMNS];
	bool		nulls[ROW_MAX_COLUMNS];
} GotRow;

/* Rows being read. */
typedef struct RowScan
{
	KeptRows   *kept;
	Relation	table;
	Relation	index;
	IndexScanDesc scan;
	TupleTableSlot *slot;
	bool		newest_first;
} RowScan;

/* What a look sees. */
typedef enum RowsView
{
	VIEW_CALLER,				/* what the caller's statement sees */
	VIEW_TRANSACTION,			/* what the next statement of the transaction would see */
	VIEW_NOW					/* what is committed now, in every isolation level */
} RowsView;

extern void rows_init(void);
extern void rows_look(RowsView view);
extern void rows_look_end(RowsView view);
extern void rows_begin(RowScan *scan, KeptRows *kept, const QueryArgs *keys, bool newest_first);
extern bool rows_next(RowScan *scan, GotRow *row);
extern void rows_end(RowScan *scan);
extern bool row_find(KeptRows *kept, const QueryArgs *keys, bool newest_first, GotRow *row);
extern bool row_add(KeptRows *kept, const QueryArgs *args, bool unless_there);
extern int64 row_new_event_id(void);

extern bool row_null(const GotRow *row, int column);
extern bool row_bool(const GotRow *row, int column);
extern text *row_text(const GotRow *row, int column);
extern char *row_word(const GotRow *row, int column);
extern int64 row_int8(const GotRow *row, int column);
extern Oid	row_oid(const GotRow *row, int column);
extern TimestampTz row_timestamptz(const GotRow *row, int column);
extern void row_digest(const GotRow *row, int column, uint8 *digest);
extern void row_uuid(const GotRow *row, int column, pg_uuid_t *value);
extern Jsonb *row_jsonb(const GotRow *row, int column);

#endif							/* EXTACTION_ROWS_H */
