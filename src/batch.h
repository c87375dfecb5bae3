/*-------------------------------------------------------------------------
 *
 * batch.h
 *	  A list of items, taken apart: shared by batch_items.c, which reads it,
 *	  and those that bind or judge it.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef EXTACTION_BATCH_H
#define EXTACTION_BATCH_H

#include "extaction.h"

/* An item of a list.  There may be very many, so it copies little. */
typedef struct BatchItem
{
	text	   *intent_id;
	text	   *destination;
	JsonbContainer *payload;	/* its own members, in the document; NULL if none */
	int			payload_len;
	int			position;
	uint8		digest[DIGEST_LENGTH];
} BatchItem;

/* A list. */
typedef struct Batch
{
	const Request *request;
	Jsonb	   *payload;		/* the shared one */
	int			count;
	BatchItem  *items;
	/* what became of the items */
	int64		created;
	int64		replayed;
	int64		conflict;
} Batch;

extern void batch_read(Batch *batch, Request *request, text *scope, text *batch_id,
					   text *action, Jsonb *payload, Jsonb *items);
extern void batch_load(Batch *batch, const Request *request);
extern void batch_sort_by_name(Batch *batch);
extern Jsonb *batch_item_payload(const Batch *batch, const BatchItem *item);
extern int	batch_forbidden_item(const Request *request, const text *pattern);

#endif							/* EXTACTION_BATCH_H */
