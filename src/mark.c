/*-------------------------------------------------------------------------
 *
 * mark.c
 *	  Where a search of the worklist begins.
 *
 * What is done leaves the worklist at the early end of its index, and what
 * has left lies dead there until a vacuum.  While some transaction stays open
 * (a backup, a forgotten session) nothing can clear it away, and every claim
 * would walk past all that was done since.  So a backend remembers how far a
 * search found nothing, and begins the next one there.
 *
 * The mark is a hint.  Work can appear behind it: from a transaction that was
 * long in committing, a claim that was rolled back, a pause that ended.  So
 * it is there only if the whole way was long, and only until the whole way
 * may be gone again, which is never later than after ten seconds.  Most of a
 * worker's time shall not go into that: the longer the way takes, the longer
 * the mark lasts.
 *
 * It is kept in the backend, since a worker claims many times: no lock, no
 * table that all workers write, nothing to dump, and nothing that can be
 * wrong for long.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "executor/instrument.h"
#include "extaction.h"
#include "utils/timestamp.h"

#define NMARKS 64
#define PLACES 4				/* where one of them may be */
#define LONG_WAY 500			/* blocks, beyond those of what is found */
#define TOO_LONG 20000			/* not to be gone again for want of work */
#define TIMES_THE_WAY 100
#define LONGEST (10 * USECS_PER_SEC)

typedef struct Mark
{
	uint64		search;			/* what was looked for */
	TimestampTz due_at;			/* nothing was found before this */
	TimestampTz until;			/* the mark's own end; 0 if there is none */
	bool		too_long;
} Mark;

static Mark marks[NMARKS];

static Mark *mark_of(uint64 search);
static int64 blocks_so_far(void);

/*
 * Begins a walk for what "search" stands for, at the mark if there is one,
 * unless the whole way is wanted.
 */
void
walk_begin(Walk *walk, uint64 search, bool whole)
{
	const Mark *mark = mark_of(search);

	memset(walk, 0, sizeof(Walk));
	walk->search = search;
	walk->whole = whole || mark->search != search || mark->until <= GetCurrentTimestamp();
	walk->from = walk->whole ? NO_TIME : mark->due_at;
}

/*
 * A leg of it is one statement.
 */
void
walk_leg_begin(Walk *walk)
{
	walk->blocks -= blocks_so_far();
	walk->us -= GetCurrentTimestamp();
}

/*
 * "expected": the blocks that its statement touched for what it found.
 */
void
walk_leg_end(Walk *walk, int64 expected)
{
	walk->blocks += blocks_so_far() - expected;
	walk->us += GetCurrentTimestamp();
}

/*
 * Ends it: nothing was found before "reached".
 */
void
walk_end(const Walk *walk, TimestampTz reached)
{
	Mark	   *mark = mark_of(walk->search);

	if (walk->whole)
	{
		mark->search = walk->search;
		mark->until = walk->blocks <= LONG_WAY ? 0
			: GetCurrentTimestamp() + Min(TIMES_THE_WAY * walk->us, LONGEST);
		mark->too_long = walk->blocks > TOO_LONG;
	}
	else if (mark->search != walk->search)
		return;
	mark->due_at = reached;
}

/*
 * Whoever finds less than there should be looks behind the mark too, unless
 * that way is too long.
 */
bool
walk_again(const Walk *walk)
{
	return !walk->whole && !mark_of(walk->search)->too_long;
}

/*
 * Adds to what a search is for; begins with 0.
 */
uint64
walk_search(uint64 search, const void *bytes, int len)
{
	return hash_bytes_extended((const unsigned char *) bytes, len, search + len);
}

/*
 * The mark of that search, or a place for it: that of the one that ends first.
 */
static Mark *
mark_of(uint64 search)
{
	Mark	   *place = &marks[search % NMARKS];
	int			i;

	for (i = 0; i < PLACES; i++)
	{
		Mark	   *mark = &marks[(search + i) % NMARKS];

		if (mark->search == search)
			return mark;
		if (mark->until < place->until)
			place = mark;
	}
	return place;
}

static int64
blocks_so_far(void)
{
	return pgBufferUsage.shared_blks_hit + pgBufferUsage.shared_blks_read;
}
