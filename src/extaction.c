/*-------------------------------------------------------------------------
 *
 * extaction.c
 *	  Module magic and settings.
 *
 * Nothing here needs shared_preload_libraries: the library is loaded when a
 * session first calls one of its functions.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "rows.h"
#include "utils/guc.h"

PG_MODULE_MAGIC;

int			extaction_max_document_size = 16 * 1024;
int			extaction_retention_margin = 120;
bool		extaction_log_replays = true;
char	   *extaction_actor = NULL;

void		_PG_init(void);

void
_PG_init(void)
{
	DefineCustomStringVariable("extaction.actor",
							   "Sets the actor of calls that do not name one.",
							   "The empty string is none.",
							   &extaction_actor, "",
							   PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("extaction.log_replays",
							 "Appends an event for every replayed request.",
							 NULL, &extaction_log_replays, true,
							 PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("extaction.max_document_size",
							"Sets the largest document that is read.",
							"Larger ones are refused before they are unpacked.",
							&extaction_max_document_size, 16 * 1024,
							1, 1024 * 1024, PGC_SUSET, GUC_UNIT_KB,
							NULL, NULL, NULL);
	DefineCustomIntVariable("extaction.retention_margin",
							"Sets how long before a key's end nothing is resent any more.",
							NULL,
							&extaction_retention_margin, 120,
							0, 24 * 60 * 60, PGC_SUSET, GUC_UNIT_S,
							NULL, NULL, NULL);
	MarkGUCPrefixReserved("extaction");

	query_init();
	rows_init();
	catalogue_init();
	members_init();
	ledger_init();
	guards_init();
}
