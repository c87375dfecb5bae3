/*-------------------------------------------------------------------------
 *
 * flush.c
 *	  Is what the ledger says safe on the synchronous standby, too?
 *
 * A commit that waits for a synchronous standby can be cancelled.  Then it
 * answers success, with a warning, and everybody sees it although the standby
 * may never get it; the same after a crash in the middle of the wait.  A
 * ticket from such a commit would be forgotten by a failover, and what was
 * sent on it would be prepared again.  So a ticket is shown only when the
 * standby has confirmed all that is on disk here.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "extaction.h"
#include "miscadmin.h"
#include "replication/syncrep.h"
#include "replication/walsender.h"
#include "replication/walsender_private.h"
#include "storage/lwlock.h"

static bool confirmed(XLogRecPtr position);

/*
 * Waits until the synchronous standby has confirmed all that is on disk here,
 * which holds whatever this transaction has seen of verbs that flush.  Raises
 * if the wait is cancelled.  Without such a standby there is nothing to do.
 */
void
flush_must_be_confirmed(void)
{
	XLogRecPtr	position;

	if (!SyncRepRequested() || SyncRepStandbyNames == NULL || SyncRepStandbyNames[0] == '\0')
		return;
	position = GetFlushRecPtr(NULL);
	if (confirmed(position))
		return;
	/* it returns with a warning when it is cancelled, so ask again */
	HOLD_INTERRUPTS();
	SyncRepWaitForLSN(position, false);
	RESUME_INTERRUPTS();
	CHECK_FOR_INTERRUPTS();
	if (!confirmed(position))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the synchronous standby has not confirmed what is to be shown"),
				 errdetail("After a failover the ledger would not know that it was sent."),
				 errhint("Call it again when the standby is back.")));
}

static bool
confirmed(XLogRecPtr position)
{
	bool		answer;

	LWLockAcquire(SyncRepLock, LW_SHARED);
	answer = WalSndCtl->lsn[SYNC_REP_WAIT_FLUSH] >= position;
	LWLockRelease(SyncRepLock);
	return answer;
}
