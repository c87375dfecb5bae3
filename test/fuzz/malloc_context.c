/*-------------------------------------------------------------------------
 *
 * malloc_context.c
 *	  A memory context in which every piece is a malloc of its own.
 *
 * PostgreSQL's own contexts cut pieces from large blocks, so AddressSanitizer
 * would not notice a write past the end of one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/ilist.h"
#include "malloc_context.h"
#include "nodes/memnodes.h"
#include "utils/memutils.h"

typedef struct MallocContext
{
	MemoryContextData header;	/* must be first */
	dlist_head	pieces;
} MallocContext;

/* PostgreSQL 15 looks for the context just before what palloc returned. */
typedef struct Piece
{
	dlist_node	node;
	Size		size;
	MemoryContext context;
} Piece;

StaticAssertDecl(sizeof(Piece) == MAXALIGN(offsetof(Piece, context) + sizeof(void *)),
				 "the context must stand last");

static void *
piece_alloc(MemoryContext context, Size size)
{
	Piece	   *piece = malloc(sizeof(Piece) + size);

	if (piece == NULL)
		return NULL;
	piece->size = size;
	piece->context = context;
	dlist_push_tail(&((MallocContext *) context)->pieces, &piece->node);
	return piece + 1;
}

static void
piece_free(MemoryContext context, void *pointer)
{
	Piece	   *piece = (Piece *) pointer - 1;

	dlist_delete(&piece->node);
	free(piece);
}

static void *
piece_realloc(MemoryContext context, void *pointer, Size size)
{
	Piece	   *piece = (Piece *) pointer - 1;
	void	   *result = piece_alloc(context, size);

	if (result == NULL)
		return NULL;
	memcpy(result, pointer, Min(size, piece->size));
	piece_free(context, pointer);
	return result;
}

static void
context_reset(MemoryContext context)
{
	dlist_mutable_iter it;

	dlist_foreach_modify(it, &((MallocContext *) context)->pieces)
		free(dlist_container(Piece, node, it.cur));
	dlist_init(&((MallocContext *) context)->pieces);
}

static void
context_delete(MemoryContext context)
{
	context_reset(context);
	free(context);
}

static Size
piece_space(MemoryContext context, void *pointer)
{
	return ((Piece *) pointer - 1)->size + sizeof(Piece);
}

static bool
context_is_empty(MemoryContext context)
{
	return dlist_is_empty(&((MallocContext *) context)->pieces);
}

static void
context_stats(MemoryContext context, MemoryStatsPrintFunc printfunc, void *passthru,
			  MemoryContextCounters *totals, bool print_to_stderr)
{
}

static void
context_check(MemoryContext context)
{
}

MemoryContext
malloc_context_create(void)
{
	static const MemoryContextMethods methods = {
		piece_alloc, piece_free, piece_realloc, context_reset, context_delete,
		piece_space, context_is_empty, context_stats, context_check
	};
	MallocContext *context = malloc(sizeof(MallocContext));

	dlist_init(&context->pieces);
	MemoryContextCreate(&context->header, T_AllocSetContext, &methods,
						TopMemoryContext, "fuzz");
	return &context->header;
}

/*
 * How many pieces there are: a leak shows as one more after the same work.
 */
int
malloc_context_pieces(MemoryContext context)
{
	dlist_iter	it;
	int			count = 0;

	dlist_foreach(it, &((MallocContext *) context)->pieces)
		count++;
	return count;
}
