/*-------------------------------------------------------------------------
 *
 * batch_items.c
 *	  The list of a batch: checked, taken apart, and its digests.
 *
 * The whole list travels as the payload of one request, {"items", "payload"},
 * so that it is kept, shown and approved like any other.  What is wrong in it
 * is named by its place, such as items[17].destination.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "batch.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#define MAX_ITEMS 1000000

/* A container within a document. */
typedef struct Member
{
	JsonbContainer *data;
	int			len;
} Member;

static void read_items(Batch *batch, const Request *request);
static void read_item(BatchItem *item, JsonbContainer *object, int position);
static text *item_name(JsonbContainer *object, const char *name, int position);
pg_noreturn static void item_error(int position, const char *member, const char *fault);
static void refuse_twice(Batch *batch);
static int	compare_names(const void *a, const void *b);
static int	compare_positions(const void *a, const void *b);
static void digest_items(Batch *batch);
static bool is_erased(const Jsonb *whole);
static Jsonb *whole_payload(Jsonb *payload, Jsonb *items);
static Jsonb *write_whole(const Jsonb *items, const Jsonb *payload);
static Member whole_member(const Jsonb *whole, const char *name);
static Jsonb *as_jsonb(Member member);

/*
 * Takes a batch's arguments as one request, checked, with its digest.
 */
void
batch_read(Batch *batch, Request *request, text *scope, text *batch_id, text *action,
		   Jsonb *payload, Jsonb *items)
{
	const text **names;
	uint8	   *digests;
	uint8		payload_digest[DIGEST_LENGTH];
	CanonicalFault fault;
	int			i;

	memset(request, 0, sizeof(Request));
	request->scope = scope;
	request->intent_id = request->batch_id = batch_id;
	request->action = action;
	request->destination = cstring_to_text("");
	request->whole_batch = true;
	request->payload = whole_payload(payload, items);

	read_items(batch, request);
	refuse_twice(batch);
	if (digest_json(payload, payload_digest, &fault) != CANONICAL_OK)
		document_fault(&fault, "payload");
	digest_items(batch);
	names = palloc(sizeof(text *) * batch->count);
	digests = palloc((Size) DIGEST_LENGTH * batch->count);
	for (i = 0; i < batch->count; i++)
	{
		names[i] = batch->items[i].intent_id;
		memcpy(digests + (Size) i * DIGEST_LENGTH, batch->items[i].digest, DIGEST_LENGTH);
	}
	digest_batch(request, names, digests, batch->count, payload_digest);
}

/*
 * The list of a request that was kept.
 */
void
batch_load(Batch *batch, const Request *request)
{
	read_items(batch, request);
	digest_items(batch);
}

/*
 * Takes the list of a whole batch's payload apart.
 */
static void
read_items(Batch *batch, const Request *request)
{
	JsonbContainer *list = whole_member(request->payload, "items").data;
	JsonbIterator *it = JsonbIteratorInit(list);
	JsonbIteratorToken token;
	JsonbValue	value;
	int			i = 0;

	batch->request = request;
	batch->payload = as_jsonb(whole_member(request->payload, "payload"));
	batch->count = JsonContainerSize(list);
	batch->items = palloc_extended(sizeof(BatchItem) * Max(batch->count, 1), MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	while ((token = JsonbIteratorNext(&it, &value, true)) != WJB_DONE)
	{
		if (token != WJB_ELEM)
			continue;
		CHECK_FOR_INTERRUPTS();
		if (value.type != jbvBinary || !JsonContainerIsObject(value.val.binary.data))
			item_error(i, NULL, "It is not an object.");
		read_item(&batch->items[i], value.val.binary.data, i);
		i++;
	}
}

static void
read_item(BatchItem *item, JsonbContainer *object, int position)
{
	JsonbIterator *it = JsonbIteratorInit(object);
	JsonbIteratorToken token;
	JsonbValue	key;

	item->position = position;
	item->intent_id = item_name(object, "intent_id", position);
	item->destination = item_name(object, "destination", position);
	while ((token = JsonbIteratorNext(&it, &key, true)) != WJB_DONE)
	{
		char	   *name;
		JsonbValue	value;

		if (token != WJB_KEY)
			continue;
		name = pnstrdup(key.val.string.val, key.val.string.len);
		(void) JsonbIteratorNext(&it, &value, true);
		if (strcmp(name, "payload") == 0)
		{
			if (value.type != jbvBinary || !JsonContainerIsObject(value.val.binary.data))
				item_error(position, "payload", "It is not an object.");
			item->payload = value.val.binary.data;
			item->payload_len = value.val.binary.len;
		}
		else if (strcmp(name, "intent_id") != 0 && strcmp(name, "destination") != 0)
			item_error(position, name, "This member is not known.");
		pfree(name);
	}
}

static text *
item_name(JsonbContainer *object, const char *name, int position)
{
	JsonbValue	value;
	const char *fault;

	if (getKeyJsonValueFromContainer(object, name, (int) strlen(name), &value) == NULL)
		item_error(position, name, "This member is missing.");
	if (value.type != jbvString)
		item_error(position, name, "It is not a string.");
	fault = name_fault(value.val.string.val, value.val.string.len);
	if (fault != NULL)
		item_error(position, name, fault);
	return cstring_to_text_with_len(value.val.string.val, value.val.string.len);
}

static void
item_error(int position, const char *member, const char *fault)
{
	char	   *path = psprintf("items[%d]%s%s", position, member ? "." : "", member ? member : "");

	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("items is not a list of items"),
			 errdetail("%s: %s", path, fault),
			 errhint("An item is {\"intent_id\", \"destination\"} and, if it differs from the others, {\"payload\"}."),
			 err_generic_string(PG_DIAG_CONSTRAINT_NAME, path)));
}

/*
 * The same intent twice in one list would be one letter instead of two.
 */
static void
refuse_twice(Batch *batch)
{
	int			i;

	batch_sort_by_name(batch);
	for (i = 1; i < batch->count; i++)
		if (text_equal(batch->items[i - 1].intent_id, batch->items[i].intent_id))
			item_error(Max(batch->items[i - 1].position, batch->items[i].position), "intent_id",
					   psprintf("items[%d] has the same.", Min(batch->items[i - 1].position, batch->items[i].position)));
	qsort(batch->items, batch->count, sizeof(BatchItem), compare_positions);
}

/*
 * In the order in which items are bound, which is that of the unique index.
 */
void
batch_sort_by_name(Batch *batch)
{
	qsort(batch->items, batch->count, sizeof(BatchItem), compare_names);
}

static int
compare_names(const void *a, const void *b)
{
	const text *one = ((const BatchItem *) a)->intent_id;
	const text *other = ((const BatchItem *) b)->intent_id;
	int			len = Min(VARSIZE_ANY_EXHDR(one), VARSIZE_ANY_EXHDR(other));
	int			order = memcmp(VARDATA_ANY(one), VARDATA_ANY(other), len);

	return order != 0 ? order : (int) VARSIZE_ANY_EXHDR(one) - (int) VARSIZE_ANY_EXHDR(other);
}

static int
compare_positions(const void *a, const void *b)
{
	return ((const BatchItem *) a)->position - ((const BatchItem *) b)->position;
}

/*
 * Every item's digest is that of the request it would be on its own.
 */
static void
digest_items(Batch *batch)
{
	MemoryContext memory = AllocSetContextCreate(CurrentMemoryContext, "extaction batch item",
												 ALLOCSET_DEFAULT_SIZES);
	int			i;

	for (i = 0; i < batch->count; i++)
	{
		MemoryContext old = MemoryContextSwitchTo(memory);
		BatchItem  *item = &batch->items[i];
		Request		request = *batch->request;
		CanonicalFault fault;

		CHECK_FOR_INTERRUPTS();
		request.intent_id = item->intent_id;
		request.destination = item->destination;
		request.payload = batch_item_payload(batch, item);
		if (digest_request(&request, &fault) != CANONICAL_OK)
		{
			fault.path = psprintf("items[%d].payload%s%s", item->position,
								  fault.path[0] == '\0' ? "" : ".", fault.path);
			document_fault(&fault, "items");
		}
		memcpy(item->digest, request.digest, DIGEST_LENGTH);
		MemoryContextSwitchTo(old);
		MemoryContextReset(memory);
	}
	MemoryContextDelete(memory);
}

/*
 * The shared payload, with the item's own members laid over it.
 */
Jsonb *
batch_item_payload(const Batch *batch, const BatchItem *item)
{
	Member		own = {item->payload, item->payload_len};

	if (item->payload == NULL)
		return batch->payload;
	return DatumGetJsonbP(DirectFunctionCall2(jsonb_concat,
											  JsonbPGetDatum(batch->payload),
											  JsonbPGetDatum(as_jsonb(own))));
}

/*
 * The first item whose destination does not match the action's pattern, or
 * -1.  NULL is any.
 */
int
batch_forbidden_item(const Request *request, const text *pattern)
{
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	item;
	int			i = 0;

	if (pattern == NULL || request->payload == NULL || is_erased(request->payload))
		return -1;
	it = JsonbIteratorInit(whole_member(request->payload, "items").data);
	while ((token = JsonbIteratorNext(&it, &item, true)) != WJB_DONE)
	{
		text	   *destination;
		bool		allowed;

		if (token != WJB_ELEM)
			continue;
		CHECK_FOR_INTERRUPTS();
		destination = item_name(item.val.binary.data, "destination", i);
		allowed = destination_matches(destination, pattern);
		pfree(destination);
		if (!allowed)
			return i;
		i++;
	}
	return -1;
}

/*
 * Have items of a stored list been erased?  Then it cannot be read any more;
 * it was bound before, or came to nothing.
 */
static bool
is_erased(const Jsonb *whole)
{
	JsonbValue	value;

	return !JB_ROOT_IS_OBJECT(whole) ||
		getKeyJsonValueFromContainer((JsonbContainer *) &whole->root, "erased", 6, &value) != NULL;
}

/*
 * Does the pattern allow every item?
 */
bool
batch_destinations_allowed(const Request *request, const text *pattern)
{
	return batch_forbidden_item(request, pattern) < 0;
}

/*
 * {"items": ..., "payload": ...}: a whole batch's payload.
 */
static Jsonb *
whole_payload(Jsonb *payload, Jsonb *items)
{
	if (!JB_ROOT_IS_OBJECT(payload))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("payload is not an object"),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "payload")));
	if (!JB_ROOT_IS_ARRAY(items) || JB_ROOT_IS_SCALAR(items) ||
		JB_ROOT_COUNT(items) == 0 || JB_ROOT_COUNT(items) > MAX_ITEMS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("items is not an array of 1 to %d items", MAX_ITEMS),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "items")));

	return write_whole(items, payload);
}

/*
 * The object is put together by hand, just as JsonbValueToJsonb() would: that
 * unpacks a long list into a tree many times its size first.  Entries are two
 * keys and two values; the first has an offset, the others lengths; a
 * container begins aligned, and what that takes counts as its own.
 */
static Jsonb *
write_whole(const Jsonb *items, const Jsonb *payload)
{
	static const char keys[] = "itemspayload";
	uint32		items_len = VARSIZE(items) - VARHDRSZ;
	uint32		payload_len = VARSIZE(payload) - VARHDRSZ;
	uint32		padding = INTALIGN(items_len) - items_len;
	uint32		header = sizeof(uint32) + 4 * sizeof(JEntry);
	uint32		len = VARHDRSZ + header + 12 + items_len + padding + payload_len;
	Jsonb	   *whole;
	JEntry	   *entries;
	char	   *data;

	if (items_len + padding > JENTRY_OFFLENMASK - payload_len - 12)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("document is too large")));
	whole = palloc0(len);
	SET_VARSIZE(whole, len);
	whole->root.header = 2 | JB_FOBJECT;
	entries = whole->root.children;
	entries[0] = JENTRY_ISSTRING | JENTRY_HAS_OFF | 5;
	entries[1] = JENTRY_ISSTRING | 7;
	entries[2] = JENTRY_ISCONTAINER | items_len;
	entries[3] = JENTRY_ISCONTAINER | (padding + payload_len);
	data = (char *) &entries[4];
	memcpy(data, keys, 12);
	memcpy(data + 12, &items->root, items_len);
	memcpy(data + 12 + items_len + padding, &payload->root, payload_len);
	return whole;
}

static Member
whole_member(const Jsonb *whole, const char *name)
{
	JsonbValue	value;
	Member		member;

	if (getKeyJsonValueFromContainer((JsonbContainer *) &whole->root, name, (int) strlen(name), &value) == NULL)
		elog(ERROR, "a batch's payload has no member \"%s\"", name);
	member.data = value.val.binary.data;
	member.len = value.val.binary.len;
	return member;
}

/*
 * A document of its own of it.
 */
static Jsonb *
as_jsonb(Member member)
{
	JsonbValue	value;

	value.type = jbvBinary;
	value.val.binary.data = member.data;
	value.val.binary.len = member.len;
	return JsonbValueToJsonb(&value);
}
