/*
 * The protocol of one intent, as src/ plays it, for exhaustive exploration.
 *
 * One intent, a few attempts, a worker for every ticket that was handed out,
 * a network that delays, a provider, somebody who looks, an approver, and
 * disasters.  Everybody may stop for ever or for a while between any two
 * steps: that is what a crash or a pause of theirs is.  Time is coarse.
 *
 * The settings that are not switches are given by "run": which provider it is
 * and who takes part.  Each WITHOUT_... takes one rule out; then a trace has to
 * be found.  README.md says which line of src/ each piece stands for, and what
 * this can't show.
 */

/* the provider, and so its contract */
#ifndef HAS_KEY
#define HAS_KEY 1		/* 0: key_carrier none */
#endif
#ifndef RETENTION
#define RETENTION 0		/* 0: for ever; on_expired = executes */
#endif
#ifndef HELD_OFF
#define HELD_OFF 1		/* on_concurrent: 1 rejects, 0 executes_twice */
#endif
#ifndef STORES_ALL
#define STORES_ALL 1		/* stores_failures: 1 all, 0 success */
#endif

/* who takes part */
#ifndef SLOTS
#define SLOTS 2			/* hand-outs of a ticket */
#endif
#ifndef LAST
#define LAST 7			/* the end of time, which begins at 1 */
#endif
#ifndef LOOKS
#define LOOKS 1			/* a program looks, and absence is proof */
#endif
#ifndef HUMANS
#define HUMANS 0		/* decide, abandon, retry */
#endif
#ifndef APPROVALS
#define APPROVALS 0		/* approvals end, are revoked and given anew */
#endif
#ifndef EXTENDS
#define EXTENDS 0
#endif
#ifndef CRASHES
#define CRASHES 0		/* of the database */
#endif
#ifndef RESTORES
#define RESTORES 0		/* an old backup takes the database's place */
#endif
#ifndef UNDO
#define UNDO 0			/* compensate */
#endif
#ifndef WEAKENS
#define WEAKENS 0		/* from then on the provider takes no key; announced at the beginning */
#endif
#ifndef STRENGTHENS
#define STRENGTHENS 0		/* from then on it takes keys; pinned is the contract before */
#endif

#ifndef ATTEMPTS
#define ATTEMPTS SLOTS		/* of them not every one needs to be handed out */
#endif
#ifndef LAG
#define LAG 0			/* lookup_lag */
#endif

/* when it may happen, to have fewer states */
#ifndef BACKUP_BY
#define BACKUP_BY 1
#endif
#ifndef RESTORE_BY
#define RESTORE_BY 2
#endif
#ifndef APPROVED_UNTIL
#define APPROVED_UNTIL 4	/* the end of the first approval */
#endif

/* spans */
#define LEASE 2
#define LATE 1			/* late_arrival_bound: it acts before lease_until + LATE */
#define MAX_TRIES 3
#define APPROVAL_TTL 3

#define MAX(a, b) ((a) > (b) -> (a) : (b))
#define MIN(a, b) ((a) < (b) -> (a) : (b))

/* a rule of design.md, section 7 */
#define MUST(rule, condition) if :: condition -> skip :: else -> printf("%d: rule %d is broken\n", now, rule); assert(false) fi

mtype = { waiting, prepared, sending, uncertain, blocked, happened, not_happened, given_up };
mtype = { no_answer, answer_200, answer_400, answer_503, answer_busy };
mtype = { in_hand, underway, executing, over };

/* the worklist's row and what else the ledger knows of the intent; 0 is no time */
typedef Ledger {
	mtype st;
	byte attempt;
	byte tries;
#if RESTORES
	byte claim;			/* claim_id; else it says no more than the attempt */
	byte claims;			/* the sequence */
#endif
	byte lease;
	byte first;			/* first_sent_at */
	byte quiet;			/* quiet_from */
	bit again;			/* claim_step is resend */
	bit handed;
	bit earlier;			/* earlier_open */
	bit late;			/* late_found */
	bit revoked;
	byte approved_until
};
Ledger L;			/* as every session sees it */
#if CRASHES
Ledger D;			/* what is on disk */
#endif
#if RESTORES
Ledger B;			/* the backup */
byte backed_up_at;
byte restored_at;
bit old_truth;			/* closed in the backup: what came of it since is not known */
#endif

/* a ticket that was handed out, and the request that its worker sends */
typedef Slot {
	byte num;			/* the attempt */
#if RESTORES
	byte claim;
#endif
	bit again;
	byte lease;
	byte until;			/* send_within */
	byte limit;			/* it acts before that */
	mtype request;
	mtype answer;
	bit told;			/* the worker said that it timed out */
	bit done;			/* the worker has nothing more to say */
#if RESTORES
	bit lost;			/* handed out by the database that is lost */
#endif
	bit settled			/* monitor: proved that it had no effect and will have none */
};
Slot S[SLOTS];
byte slots;

byte now = 1;

/* the provider */
byte effects;
byte effect_at;
byte key_state;			/* 0 none, 1 in progress, 2 result stored, 3 failure stored */
byte key_at;
bit undone;

/* monitors */
bit said_happened;
bit said_given_up;
bit said_revoked;
byte named_out;			/* attempts that the answer to the revocation named */
bit happened_on_record;		/* some attempt was reported to have happened */
byte handed_nums;		/* bit set: attempts that were handed out */

#if APPROVALS
#define GATES (!L.revoked && now < L.approved_until)
#else
#define GATES true
#endif

#define SENT(i) (S[i].request != in_hand)
#define IS_OPEN (L.st == prepared || L.st == sending || L.st == uncertain || L.st == blocked)

/*
 * What is on disk
 */
inline copy(to, from)
{
#if RESTORES
	to.claim = from.claim; to.claims = from.claims;
#endif
	to.st = from.st; to.attempt = from.attempt; to.tries = from.tries; to.lease = from.lease; to.first = from.first; to.quiet = from.quiet;
	to.again = from.again; to.handed = from.handed; to.earlier = from.earlier; to.late = from.late;
	to.revoked = from.revoked; to.approved_until = from.approved_until
}

/* work_set_state: free of any ticket */
inline no_ticket()
{
	L.lease = 0; L.handed = 0; L.again = 0
#if RESTORES
	; L.claim = 0
#endif
}

inline flush()
{
#if CRASHES && !defined(WITHOUT_FLUSH)
	copy(D, L)
#else
	skip
#endif
}

inline flush_claim()
{
#if CRASHES && !defined(WITHOUT_CLAIM_FLUSH)
	copy(D, L)
#else
	skip
#endif
}

/*
 * contract.c: may it be sent again under the same key?
 */
#ifdef WITHOUT_IN_FLIGHT
#define IN_FLIGHT false
#else
#define IN_FLIGHT (!HELD_OFF && now < L.quiet + LATE)
#endif

#if RETENTION == 0
#define KEY_OUTLIVES true
#define KEY_ENDS 255
#else
#ifdef WITHOUT_RETENTION_ROOM
#define KEY_OUTLIVES (now < L.first + RETENTION)
#define KEY_ENDS (L.first + RETENTION)
#else
#define KEY_OUTLIVES (now + LEASE + LATE < L.first + RETENTION)
#define KEY_ENDS (L.first + RETENTION - LATE)
#endif
#endif

#if defined(WITHOUT_KEY_CONDITION)
#define CONTRACTS_HAVE_KEY true
#elif WEAKENS && !defined(WITHOUT_ANNOUNCED)
#define CONTRACTS_HAVE_KEY false
#elif WEAKENS
#define CONTRACTS_HAVE_KEY (now < WEAKENS)
#elif STRENGTHENS && !defined(WITHOUT_PINNED)
#define CONTRACTS_HAVE_KEY false
#elif STRENGTHENS
#define CONTRACTS_HAVE_KEY (now >= STRENGTHENS)
#else
#define CONTRACTS_HAVE_KEY HAS_KEY
#endif

#ifdef WITHOUT_STORED_FAILURES
#define FAILURES_STORED true
#else
#define FAILURES_STORED STORES_ALL
#endif

#define MAY_RESEND (CONTRACTS_HAVE_KEY && !L.late && L.tries < MAX_TRIES && FAILURES_STORED && !IN_FLIGHT && KEY_OUTLIVES)

/* contract_absent_after(): an absence must have begun after that */
#if defined(WITHOUT_QUIET)
#define ABSENT_AFTER 0
#elif defined(WITHOUT_QUIET_FROM_LEASE)
#define ABSENT_AFTER (L.quiet - LEASE + LATE)
#else
#define ABSENT_AFTER (L.quiet + LATE + LAG)
#endif

/*
 * dispatch.c: claim
 */
inline claim_to_send(resend, at)
{
	byte lease = at + LEASE;
#if APPROVALS && !defined(WITHOUT_LEASE_BY_APPROVAL)
	lease = MIN(lease, L.approved_until);
#endif
	if
	:: lease <= at && !resend -> L.st = blocked
	:: lease <= at && resend -> skip
	:: else ->
		/* rule 8 and C9: nothing goes out after happened is on record */
		MUST(8, !happened_on_record);
		/* an acknowledged "given up" is not undone */
		MUST(7, !said_given_up);
		L.earlier = L.earlier || resend;
		L.attempt++;
		L.tries++;
		L.first = (L.first == 0 -> at : L.first);
		L.quiet = MAX(L.quiet, lease);
		L.st = sending;
		L.again = resend;
		L.handed = 0;
		L.lease = lease;
#if RESTORES
		L.claims++;
		L.claim = L.claims;
#endif
		printf("%d: claim, attempt %d, lease until %d, resend %d\n", now, L.attempt, lease, resend)
	fi;
	lease = 0;
	flush_claim()
}

/* a lease that ran out is uncertain for whoever looks (intent_state, sweep) */
inline lease_ends()
{
	if
	:: L.st == sending && L.lease <= now ->
#ifdef WITHOUT_LEASE_UNCERTAIN
		L.st = prepared;
#else
		L.st = uncertain;
#endif
		no_ticket();
		printf("%d: the lease has ended\n", now)
	:: else -> skip
	fi
}

/*
 * ticket.c: release, and what claimed may not hand out any more
 */
inline give_back(gates_pass)
{
	L.tries = (L.tries > 0 -> L.tries - 1 : 0);
	if
	:: !L.again && L.tries == 0 && !L.late -> L.first = 0
	:: else -> skip
	fi;
	if
	:: L.again || L.late -> L.st = uncertain
	:: else -> L.st = (gates_pass -> prepared : blocked)
	fi;
	no_ticket();
	flush()
}

/*
 * outcome.c: settle_happened, settle_not_happened, stop_everything
 */
inline settle_happened()
{
	/* rule 4: happened is said only on proof */
	MUST(4, effects > 0);
	/* rule 7: it is said of what went out */
	MUST(7, L.attempt > 0);
	L.st = happened;
	no_ticket();
	said_happened = 1;
	happened_on_record = 1;
	flush()
}

inline settle_not_happened(may_retry)
{
	/* rule 8: happened never changes */
	MUST(8, !said_happened);
	/* rule 4: not_happened is said only on proof */
	MUST(4, effects == 0);
	L.st = (may_retry -> prepared : not_happened);
	no_ticket();
	L.earlier = 0;
	said_given_up = 0;
	flush()
}

inline stop_everything()
{
	happened_on_record = 1;
#ifndef WITHOUT_LATE_STOP
	if
	:: L.st != happened ->
		L.late = 1;
		said_given_up = 0;
		if
		:: L.st != sending -> L.st = uncertain
		:: else -> skip
		fi
	:: else -> skip
	fi;
#endif
	flush()
}

#ifdef WITHOUT_FENCE
#define CURRENT(i) true
#else
#define CURRENT(i) (S[i].num == L.attempt)
#endif
#ifdef WITHOUT_HAPPENED_FINAL
#define UNSETTLED (L.st == sending || L.st == uncertain || L.st == given_up || L.st == happened)
#else
#define UNSETTLED (L.st == sending || L.st == uncertain || L.st == given_up)
#endif
#ifdef WITHOUT_EARLIER_OPEN
#define MAY_BE_REFUSED (!L.late)
#else
#define MAY_BE_REFUSED (!L.late && !L.earlier)
#endif

inline stays_uncertain()
{
	if
	:: L.st == sending -> L.st = uncertain; no_ticket()
#ifdef WITHOUT_HAPPENED_FINAL
	:: L.st == happened -> MUST(8, !said_happened); L.st = uncertain
#endif
	:: else -> skip
	fi;
	flush()
}

/* record_outcome(happened) of a slot */
inline record_happened(i)
{
	printf("%d: attempt %d says happened\n", now, S[i].num);
	if
	:: S[i].num > L.attempt -> skip	/* the ledger has no such attempt */
	:: S[i].num <= L.attempt && CURRENT(i) && UNSETTLED -> settle_happened()
	:: else -> stop_everything()
	fi
}

/* record_outcome(not_happened) with never_sent or a code that proves it */
inline record_refused(i, may_retry)
{
	printf("%d: attempt %d says not_happened\n", now, S[i].num);
	if
	:: S[i].num <= L.attempt && CURRENT(i) && UNSETTLED ->
		if
		:: MAY_BE_REFUSED -> settle_not_happened(may_retry && L.st != given_up && L.tries < MAX_TRIES && GATES)
		:: else -> stays_uncertain()
		fi
	:: else -> skip			/* late, or not known: evidence only */
	fi
}

/* record_outcome(uncertain) */
inline record_uncertain(i)
{
	printf("%d: attempt %d says uncertain\n", now, S[i].num);
	if
	:: S[i].num <= L.attempt && CURRENT(i) && UNSETTLED ->
#ifdef WITHOUT_TIMEOUT_UNCERTAIN
		settle_not_happened(L.tries < MAX_TRIES && GATES)
#else
		stays_uncertain()
#endif
	:: else -> skip
	fi
}

/*
 * Time
 */
bit overdue;

inline look_for_overdue()
{
	byte k = 0;
	overdue = 0;
	do
	:: k < slots ->
		if
		:: (S[k].request == underway || S[k].request == executing) && now + 1 >= S[k].limit -> overdue = 1
		:: else -> skip
		fi;
		k++
	:: else -> break
	od;
	k = 0
}

active proctype Clock()
{
	do
	:: d_step {
		now < LAST && (L.attempt > 0 || APPROVALS || RESTORES) ->
		look_for_overdue();
		if
		:: !overdue -> now++; lease_ends()
		:: else -> skip			/* what is on its way acts first: that is what the bound promises */
		fi;
		overdue = 0
	}
	od
}

/*
 * claim.  It holds the row from its check to its commit; in between only
 * revoke_approval could come.
 */
byte claiming;			/* the moment of its check */
bit claim_again;

#define ROW_FREE (claiming == 0)
#if RESTORES
#define MORE_ATTEMPTS (L.attempt % 10 < ATTEMPTS)
#else
#define MORE_ATTEMPTS (L.attempt < ATTEMPTS)
#endif

active proctype Dispatcher()
{
	L.st = (RESTORES -> waiting : prepared);
#if APPROVALS
	L.approved_until = APPROVED_UNTIL;
#endif
	do
	:: d_step { ROW_FREE && L.st == prepared && GATES && L.tries < MAX_TRIES && MORE_ATTEMPTS ->
		claiming = now; claim_again = 0 }
	:: d_step { ROW_FREE && L.st == prepared && !GATES -> L.st = blocked; flush_claim(); printf("%d: blocked\n", now) }
	:: d_step { ROW_FREE && L.st == uncertain && MAY_RESEND && GATES && MORE_ATTEMPTS -> claiming = now; claim_again = 1 }
#ifdef WITHOUT_ONLY_PREPARED_BLOCKS
	:: d_step { ROW_FREE && L.st == uncertain && !GATES -> L.st = blocked; flush_claim(); printf("%d: blocked\n", now) }
#endif
	:: d_step { claiming != 0 ->
		claim_to_send(claim_again, claiming); claiming = 0; claim_again = 0 }
	od
}

/*
 * claimed and what follows: the worker, its request and the provider's answer
 */
inline hand_out(i)
{
#if CRASHES
	/* rule 1: the record comes first */
	MUST(1, D.st == sending && D.attempt == L.attempt);
#endif
#if RESTORES
	S[i].claim = L.claim;
#endif
	S[i].num = L.attempt; S[i].again = L.again; S[i].lease = L.lease;
	S[i].until = (L.again -> MIN(L.lease, KEY_ENDS) : L.lease);
	S[i].request = in_hand; S[i].answer = no_answer;
	L.handed = 1;
	slots++;
	flush_claim();
	printf("%d: claimed shows attempt %d\n", now, S[i].num)
}

#if HAS_KEY || WEAKENS || STRENGTHENS
#define CONTRACT_SAID_KEY true
#else
#define CONTRACT_SAID_KEY false
#endif

/* what a lost database handed out is no doing of this one */
#if RESTORES
#define IS_LOST(i) S[i].lost
#else
#define IS_LOST(i) false
#endif

inline send(i)
{
	byte j = 0;
	do
	:: j < slots ->
		/* rule 5: what may have been sent is sent again only under a key, or after a proof */
		MUST(5, j == i || !SENT(j) || S[j].settled || (S[i].again && CONTRACT_SAID_KEY) || IS_LOST(i));
		j++
	:: else -> break
	od;
	j = 0;
#if APPROVALS
	/* rule 6: not under an approval that has ended, nor after it was taken back, unless the answer named the attempt */
	MUST(6, !(said_revoked && S[i].num > named_out) || IS_LOST(i));
	MUST(6, now < L.approved_until || IS_LOST(i));
#endif
	S[i].request = underway;
	S[i].limit = MAX(S[i].lease, now + 1) + LATE;
	printf("%d: attempt %d is sent\n", now, S[i].num)
}
/* what the provider does: does it know the key? */
#if WEAKENS
#define TAKES_KEY (now < WEAKENS)
#elif STRENGTHENS
#define TAKES_KEY (now >= STRENGTHENS)
#else
#define TAKES_KEY HAS_KEY
#endif
#if RETENTION == 0
#define KEY_ALIVE (key_state != 0)
#else
#define KEY_ALIVE (key_state != 0 && now < key_at + RETENTION)
#endif

inline arrive(i)
{
	if
	:: TAKES_KEY && KEY_ALIVE && key_state == 2 -> S[i].request = over; S[i].answer = answer_200
	:: TAKES_KEY && KEY_ALIVE && key_state == 3 -> S[i].request = over; S[i].answer = answer_503
	:: TAKES_KEY && KEY_ALIVE && key_state == 1 && HELD_OFF -> S[i].request = over; S[i].answer = answer_busy
	:: else ->
		S[i].request = executing;
		if
		:: TAKES_KEY && !KEY_ALIVE -> key_state = 1; key_at = now
		:: else -> skip
		fi
	fi;
	printf("%d: attempt %d arrives\n", now, S[i].num)
}

inline act(i)
{
	printf("%d: attempt %d has its effect\n", now, S[i].num);
	/* rule 2: at most one effect; rule 8 and C13: none after the undo */
	MUST(2, effects == 0);
	MUST(8, !undone);
	/* rule 4: not_happened was said */
#if RESTORES
	MUST(4, (L.st != not_happened && (L.st != prepared || L.attempt == 0)) || old_truth);
#else
	MUST(4, L.st != not_happened && L.st != prepared);
#endif
	effects++;
	effect_at = now
}

inline reply(i, what, stored)
{
	S[i].request = over;
	S[i].answer = what;
	if
	:: key_state == 1 -> key_state = stored; key_at = (stored == 0 -> 0 : key_at)
	:: else -> skip
	fi
}

/* nobody asks any more what it was: fewer states */
inline tidy(i)
{
	if
	:: S[i].done && (S[i].request == in_hand || S[i].request == over) ->
		S[i].num = 0; S[i].again = 0; S[i].lease = 0; S[i].until = 0; S[i].limit = 0;
		S[i].answer = no_answer; S[i].told = 0
#if RESTORES
		; S[i].claim = 0; S[i].lost = 0
#endif
	:: S[i].request == over && !S[i].done -> S[i].lease = 0; S[i].until = 0; S[i].limit = 0; S[i].again = 0
	:: else -> skip
	fi
}

#ifdef WITHOUT_HANDED_ONCE
#define NOT_HANDED true
#else
#define NOT_HANDED (!L.handed)
#endif
#ifdef WITHOUT_SEND_WITHIN
#define IN_TIME(i) true
#else
#define IN_TIME(i) (now < S[i].until)
#endif
#ifdef WITHOUT_CLAIMED_CHECK
#define GATES_AGAIN true
#else
#define GATES_AGAIN GATES
#endif

#if RESTORES
#define SAME_TICKET(i) (L.claim == S[i].claim)
#else
#define SAME_TICKET(i) (L.attempt == S[i].num)
#endif

active [SLOTS] proctype Attempt()
{
	byte i = _pid - 2;		/* after Clock and Dispatcher */

	/* claimed */
	do
	:: d_step { slots == i && ROW_FREE && L.st == sending && L.lease > now && NOT_HANDED && GATES_AGAIN && !L.late ->
		hand_out(i) } ; break
	:: d_step { slots == i && ROW_FREE && L.st == sending && L.lease > now && !L.handed && (!GATES_AGAIN || L.late) ->
		give_back(GATES_AGAIN); printf("%d: claimed gives it back\n", now) }
	od;

	do
	/* the worker */
	:: d_step { !SENT(i) && !S[i].done && IN_TIME(i) -> send(i); tidy(i) }
	:: d_step { ROW_FREE && !SENT(i) && !S[i].done ->
		S[i].done = 1;
		printf("%d: attempt %d is released\n", now, S[i].num);
		if
		:: L.st == sending && SAME_TICKET(i) && L.lease > now -> give_back(true)
		:: else -> skip
		fi;
		tidy(i) }
	:: d_step { ROW_FREE && !SENT(i) && !S[i].done -> S[i].done = 1; record_refused(i, true); tidy(i) }	/* never_sent */
#if EXTENDS
	:: d_step { ROW_FREE && !SENT(i) && !S[i].done && L.st == sending && SAME_TICKET(i) && L.lease > now && L.lease < now + LEASE && GATES ->
		L.lease = now + LEASE;
#if APPROVALS
		L.lease = MIN(L.lease, L.approved_until);
#endif
		L.lease = (L.again -> MIN(L.lease, KEY_ENDS) : L.lease);
#ifndef WITHOUT_EXTEND_QUIET
		L.quiet = MAX(L.quiet, L.lease);
#endif
		S[i].lease = L.lease;
		S[i].until = L.lease;
		flush();
		printf("%d: the lease of attempt %d is extended to %d\n", now, S[i].num, L.lease); tidy(i) }
#endif
	:: d_step { ROW_FREE && SENT(i) && !S[i].done && !S[i].told && S[i].answer == no_answer -> S[i].told = 1; record_uncertain(i); tidy(i) }
	:: d_step { ROW_FREE && S[i].answer == answer_200 && !S[i].done -> S[i].done = 1; record_happened(i); tidy(i) }
	:: d_step { ROW_FREE && S[i].answer == answer_400 && !S[i].done -> S[i].done = 1; record_refused(i, true); tidy(i) }
	:: d_step { ROW_FREE && S[i].answer == answer_400 && !S[i].done -> S[i].done = 1; record_refused(i, false); tidy(i) }
	:: d_step { ROW_FREE && (S[i].answer == answer_503 || S[i].answer == answer_busy) && !S[i].done -> S[i].done = 1; record_uncertain(i); tidy(i) }
	/* the network and the provider */
	:: d_step { S[i].request == underway -> arrive(i); tidy(i) }
	:: d_step { S[i].request == underway -> S[i].request = over; S[i].answer = answer_400; S[i].settled = 1;
		printf("%d: attempt %d is refused before anything is done\n", now, S[i].num); tidy(i) }
	:: d_step { S[i].request == executing -> act(i); reply(i, answer_200, 2); tidy(i) }
	:: d_step { S[i].request == executing -> act(i); reply(i, answer_503, (STORES_ALL -> 3 : 0)); tidy(i) }
	:: d_step { S[i].request == executing -> reply(i, answer_503, (STORES_ALL -> 3 : 0)); S[i].settled = 1;
		printf("%d: attempt %d fails without effect\n", now, S[i].num); tidy(i) }
	od
}

/*
 * Somebody looks, a program or a human: it begins, it sees, it is recorded
 * (record_lookup, decide), with any time in between.
 */
#if LOOKS || HUMANS
byte look_began;
byte looking;			/* 0 no, 1 began, 2 saw nothing, 3 saw the effect */
bit by_human;

inline settle_all()
{
	byte m = 0;
	do
	:: m < slots -> S[m].settled = 1; m++
	:: else -> break
	od;
	m = 0
}

inline record_absent()
{
	printf("%d: absent is recorded, of a look at %d, human %d\n", now, look_began, by_human);
	if
	:: L.st != uncertain && L.st != given_up -> skip
	:: else ->
		if
#ifdef WITHOUT_HUMAN_QUIET
		:: !L.late && (by_human || look_began > ABSENT_AFTER) ->
#elif defined(WITHOUT_LOOK_BEGAN)
		:: !L.late && now > ABSENT_AFTER ->
#else
		:: !L.late && look_began > ABSENT_AFTER ->
#endif
			settle_not_happened(L.st == uncertain && L.tries < MAX_TRIES && GATES);
			settle_all()
		:: else -> skip
		fi
	fi
}

active proctype Looker()
{
	do
#if LOOKS
	:: d_step { looking == 0 && (L.st == uncertain || L.st == sending) && L.attempt > 0 -> looking = 1; look_began = now }
#endif
#if HUMANS
	:: d_step { looking == 0 && (L.st == uncertain || L.st == given_up) -> looking = 1; look_began = now; by_human = 1 }
#endif
	:: d_step { looking == 1 && (effects == 0 || now < effect_at + LAG) -> looking = 2 }
	:: d_step { looking == 1 && effects > 0 -> looking = 3 }
	:: d_step { looking == 2 && ROW_FREE -> record_absent(); looking = 0; look_began = 0; by_human = 0 }
	:: d_step { looking == 3 && ROW_FREE ->
		printf("%d: found is recorded\n", now);
		if
		:: L.attempt > 0 && L.st != happened -> settle_happened()
		:: else -> skip
		fi;
		looking = 0; look_began = 0; by_human = 0 }
	od
}
#endif

/*
 * approve.c: revoke_approval, approve_in_advance, approve
 */
#if APPROVALS
#ifdef WITHOUT_REVOKE_WAITS
#define REVOKE_MAY true
#else
#define REVOKE_MAY ROW_FREE
#endif

active proctype Approver()
{
	/* taken back */
	do
	:: d_step { REVOKE_MAY && !L.revoked ->
		L.revoked = 1; said_revoked = 1; named_out = L.attempt; flush();
		printf("%d: revoked; out is attempt %d\n", now, L.attempt) } ; break
	:: d_step { ROW_FREE && now >= L.approved_until -> skip } ; break
	od;
	/* and given once more */
	atomic { ROW_FREE ->
		L.revoked = 0; said_revoked = 0; L.approved_until = now + APPROVAL_TTL;
		L.st = (L.st == blocked -> prepared : L.st); flush();
		printf("%d: approved anew\n", now) }
}
#endif

/*
 * settle.c: abandon, retry
 */
#if HUMANS
active proctype Human()
{
	do
	:: d_step { ROW_FREE && L.st == uncertain -> L.st = given_up; said_given_up = 1; flush(); printf("%d: given up\n", now) } ; break
	:: d_step { now == LAST -> skip } ; break
	od
}
#endif

#if HUMANS || RESTORES
active [1 + RESTORES] proctype Retrier()
{
	d_step { ROW_FREE && L.st == not_happened && GATES -> 
#if RESTORES
		if
#ifndef WITHOUT_RETRY_CARE
		:: old_truth ->
			L.st = uncertain; L.attempt = L.attempt + 10; L.tries = 0; L.earlier = 1;
			L.first = backed_up_at; L.quiet = MAX(L.quiet, now + LEASE)
#endif
		:: else -> L.st = prepared; L.tries = 0
		fi;
		old_truth = 0;
#else
		L.st = prepared; L.tries = 0;
#endif
		L.late = 0;
		flush(); printf("%d: retried\n", now) }
}
#endif

/*
 * settle.c: compensate.  With the object the provider deletes the key.
 */
#if UNDO
byte undo_from;
active proctype Undoer()
{
#ifdef WITHOUT_ONLY_HAPPENED_UNDONE
	d_step { ROW_FREE && L.attempt > 0 ->
#else
	d_step { ROW_FREE && L.st == happened ->
#endif
#ifdef WITHOUT_UNDO_QUIET
		undo_from = now;
#else
		undo_from = MAX(L.quiet + LATE, now);
#endif
		printf("%d: compensate, due at %d\n", now, undo_from) }
	d_step { now >= undo_from ->
		/* rule 8: only what happened can be compensated */
		MUST(8, effects > 0);
		undone = 1; key_state = 0; key_at = 0; printf("%d: undone\n", now) }
}
#endif

/*
 * Disasters
 */
#if RESTORES
/* ledger_bind(): was it first asked for before window_until? */
#if defined(WITHOUT_WINDOW)
#define IN_WINDOW false
#elif defined(WITHOUT_FIRST_ASKED)
#define IN_WINDOW (now <= restored_at)
#else
#define IN_WINDOW true
#endif

inline lose_slots()
{
	byte n = 0;
	do
	:: n < slots -> S[n].lost = 1; n++
	:: else -> break
	od;
	n = 0
}

/* adopt.c: adopt('restored') */
inline adopt()
{
	if
	:: IS_OPEN ->
		L.st = uncertain;
		L.earlier = 1;
		L.first = (L.first == 0 -> backed_up_at : MIN(L.first, backed_up_at));
		L.quiet = MAX(L.quiet, now + LEASE);
#ifndef WITHOUT_ATTEMPT_GAP
		L.attempt = L.attempt + 10;
#endif
		no_ticket()
	:: else -> skip
	fi;
#ifndef WITHOUT_CLAIM_GAP
	L.claims = L.claims + 10;
#endif
#if APPROVALS && !defined(WITHOUT_EPOCH)
	L.approved_until = 0
#else
	skip
#endif
}
#endif

#if CRASHES
byte crashes;
active proctype Database()
{
	d_step { copy(D, L) }
	do
	/* what was not flushed by its own commit may still get to the disk */
	:: d_step { copy(D, L) }
	:: d_step { crashes < 2 ->
		crashes++;
		copy(L, D);
		claiming = 0; claim_again = 0;
		printf("%d: the server crashes\n", now);
		/* C10: what was answered is not gone */
		MUST(1, !said_happened || L.st == happened);
		MUST(1, !said_given_up || L.st == given_up);
		MUST(1, !said_revoked || L.revoked);
		lease_ends() }
	od
}
#endif

#if RESTORES
active proctype Backup()
{
	atomic { ROW_FREE && now <= BACKUP_BY -> copy(B, L); backed_up_at = now; printf("%d: backup\n", now) }
	atomic { ROW_FREE && now <= RESTORE_BY ->
		old_truth = (B.st == not_happened && L.attempt != B.attempt);
		copy(L, B);
		said_given_up = 0; said_happened = 0; happened_on_record = 0;
		lose_slots();
		restored_at = now;
		printf("%d: restored\n", now);
#ifndef WITHOUT_ADOPT
		adopt();
#endif
		lease_ends() }
}

/* what waits, or is not known any more, is asked for and approved after the restore, too */
active proctype Asker()
{
	do
	:: d_step { ROW_FREE && L.st == waiting ->
		if
		:: restored_at != 0 && IN_WINDOW ->
			L.st = uncertain; L.attempt = 10; L.first = backed_up_at; L.quiet = now + LEASE
		:: else -> L.st = prepared
		fi;
		flush(); printf("%d: prepared, or uncertain, with attempt %d\n", now, L.attempt) }
	od
}
#endif
