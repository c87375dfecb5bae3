/*
 * malloc_context.h
 *	  A memory context that AddressSanitizer can watch.
 */
#ifndef MALLOC_CONTEXT_H
#define MALLOC_CONTEXT_H

extern MemoryContext malloc_context_create(void);
extern int	malloc_context_pieces(MemoryContext context);

#endif
