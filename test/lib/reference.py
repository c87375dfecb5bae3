"""The ledger once more, small and slow: what every verb does to the intents of one scope.

Written from doc/states.md, doc/contracts.md and the design, not from src/, so that test/t/312_random.pl can play both side by side.  Times are
whole microseconds, None is no time; the clock stands still while a verb runs.
"""

SECOND = 1000000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

MARGIN = 2 * MINUTE         # extaction.retention_margin
LEASE_MARGIN = 30 * SECOND  # what a lease is longer than the call, if nobody says
MAX_LOOKUPS = 10
OWN_CODES = {'never_sent', 'timeout', 'reset', 'in_progress', 'mismatch', 'exists', 'stored_failure'}
CAREFUL = ['resend', 'wait', 'look', 'human']
GATE_STEP = {'action_disabled': 'human', 'rejected': 'human'}   # for all others an approver is asked

# what an action without a contract counts as
NO_CONTRACT = dict(key='none', retention=None, on_expired='executes', on_replay='none', on_concurrent='executes_twice', stores='none',
                   rolls_back=False, proves=(), lookup='none', absence=False, lag=5 * MINUTE, late=HOUR, delay=0)


class Refused(Exception):
    """An error with this SQLSTATE."""


class Action:
    def __init__(self, name, max_attempts=3, retry_delay=30 * SECOND, call_timeout=10 * SECOND, ttl=DAY):
        self.name, self.max_attempts, self.retry_delay, self.call_timeout, self.ttl = name, max_attempts, retry_delay, call_timeout, ttl
        self.enabled = True
        self.paused = False
        self.contracts = []     # (valid_from, version, contract)

    def in_force(self, now):
        past = [c for c in self.contracts if c[0] <= now]
        return max(past, key=lambda c: c[:2]) if past else None


class Intent:
    def __init__(self, name, action):
        self.name, self.action = name, action
        self.kept = set()           # contents that somebody could approve
        self.rejected = set()
        self.approvals = []         # dicts: id, content, until, revoked
        self.waiting = None         # (content, gate)
        self.asked = None           # what became of it last while nothing was bound: blocked, rejected, cancelled
        self.not_before = None
        self.bound = None           # the content, for ever
        self.pinned = None
        self.recorded_at = None
        self.open = False
        self.outcome = None         # the last one: happened, not_happened, uncertain, cancelled
        self.outcome_attempt = 0
        self.said = []              # (kind, attempt, outcome, evidence)
        self.out = set()            # attempts that may be with somebody
        self.attempt = 0
        self.tries = 0
        self.first = None
        self.first_ever = None
        self.quiet = None
        self.earlier = self.late = False
        self.fresh()

    def fresh(self):
        """a row of the worklist that nobody has touched"""
        self.last_code = self.answered_at = self.look_began = None
        self.lookups = 0
        self.gate = None
        self.no_ticket()

    def no_ticket(self):
        self.ticket = self.step = self.lease = None
        self.handed = False

    def enter(self, state, due):
        self.state, self.due, self.gate = state, due, None
        self.no_ticket()

    # where it stands

    def stands(self, now):
        if self.open:
            return 'uncertain' if self.state == 'sending' and self.lease <= now else self.state
        if self.bound is None:
            return 'awaiting_approval' if self.waiting else None
        return 'not_happened' if self.outcome == 'cancelled' else self.outcome or 'uncertain'

    def contracts(self, now):
        """pinned, in force, announced"""
        force = self.action.in_force(now)
        rows = [c for c in self.action.contracts if c[0] > now or c == force or c == self.pinned]
        found = [c[2] for c in rows]
        return found + [NO_CONTRACT] if self.pinned is None else found

    def gate_of(self, content, now):
        """the first gate that stops it, of the approval that comes furthest"""
        if not self.action.enabled:
            return 'action_disabled'
        if content in self.rejected:
            return 'rejected'
        same = [a for a in self.approvals if a['content'] == content]
        order = ['approval_missing', 'approval_revoked', 'approval_expired', 'content_changed', None]
        furthest = 'approval_missing'
        for a in same or self.approvals:
            gate = ('approval_revoked' if a['revoked'] else 'approval_expired' if now >= a['until'] else
                    'content_changed' if a['content'] != content else None)
            if order.index(gate) > order.index(furthest):
                furthest = gate
        return furthest

    def approved_until(self, now):
        return max(a['until'] for a in self.approvals if a['content'] == self.bound and not a['revoked'] and now < a['until'])

    def look_due(self):
        if not self.lookups or self.look_began is None:
            return 0
        return self.look_began + min(1440, 2 ** (self.lookups - 1)) * MINUTE

    def next(self, now, lease=None):
        """(step, due)"""
        state = self.stands(now)
        if self.bound is None:
            return (GATE_STEP.get(self.waiting[1], 'approve'), None)
        if not self.open:
            return ('done', None)
        if state == 'prepared':
            return ('send', self.due)
        if state == 'sending':
            return ('wait', self.lease)
        if state == 'blocked':
            return (GATE_STEP.get(self.gate, 'approve'), None)
        if self.step == 'look' and self.lease > now:
            return ('wait', self.lease)
        lease = lease if lease is not None else self.action.call_timeout + LEASE_MARGIN
        steps = [self.under(c, now, lease) for c in self.contracts(now)]
        return max(steps, key=lambda s: (CAREFUL.index(s[0]), s[1] or 0))

    def under(self, c, now, lease):
        """the rule about sending again, under one contract"""
        first = self.recorded_at if self.first is None else self.first
        quiet = now if self.quiet is None else self.quiet
        can_look = c['lookup'] != 'none' and self.lookups < MAX_LOOKUPS
        look = ('look', max(self.look_due(), now)) if can_look else ('human', None)
        if self.last_code == 'mismatch':
            return ('human', None)
        if (self.late or c['key'] == 'none' or c['on_replay'] not in ('first_result', 'exists', 'exists_with_id') or
                self.gate_of(self.bound, now) or self.tries >= self.action.max_attempts or c['late'] is None or c['retention'] is None or
                not (c['stores'] == 'all' or c['rolls_back']) or self.last_code == 'stored_failure'):
            return look
        held_off = c['on_concurrent'] in ('rejects', 'waits')
        in_flight = not held_off and now < quiet + c['late']
        when = max(now, quiet + c['late']) if in_flight else now
        if c['delay']:
            when = max(when, (quiet if self.answered_at is None else self.answered_at) + c['delay'])
        if c['on_expired'] != 'rejects' and when + lease + c['late'] + MARGIN >= first + c['retention']:
            return look
        if when <= now:
            return ('resend', now)
        if in_flight and can_look:
            return look
        return ('wait', when)


class Ledger:
    """The verbs.  Each returns the status that the receipt has."""

    def __init__(self):
        self.intents = {}
        self.now = 0

    def tell(self, i, kind, attempt, outcome=None, evidence=None):
        i.said.append((kind, attempt, outcome, evidence))
        if kind in ('happened', 'not_happened', 'uncertain', 'cancelled'):
            i.outcome, i.outcome_attempt = kind, attempt
        if kind in ('released', 'not_happened'):
            i.out.discard(attempt)
        elif attempt and (kind == 'happened' or (kind == 'late_evidence' and outcome == 'happened')):
            i.out.add(attempt)

    # asking

    def bind(self, i, content):
        i.bound, i.recorded_at, i.open, i.pinned = content, self.now, True, i.action.in_force(self.now)
        i.waiting = None
        i.enter('prepared', self.now if i.not_before is None else i.not_before)

    def submit(self, i, content, not_before=None):
        if i.bound is not None:
            return 'replayed' if i.bound == content else 'conflict'
        if i.waiting and i.waiting[0] == content and i.not_before is not None:
            not_before = max(i.not_before, not_before or 0)     # an undo that waits stays one, however it is asked for again
        gate = i.gate_of(content, self.now)
        if gate is None:
            i.not_before = not_before
            self.bind(i, content)
            return 'created'
        i.asked = 'blocked'
        if gate != 'rejected':
            i.waiting, i.not_before = (content, gate), not_before
            i.kept.add(content)
        return 'blocked'

    def cancel(self, i):
        if not i.waiting and 'cancelled' == (i.asked if i.bound is None else i.outcome):
            return 'replayed'
        never_out = i.open and not i.tries and not i.late and i.stands(self.now) in ('prepared', 'blocked')
        if not (i.waiting or never_out):
            return 'refused'
        if never_out:
            self.tell(i, 'cancelled', i.attempt)
            i.open = False
        i.waiting, i.asked = None, 'cancelled'
        return 'done'

    def compensate(self, i, undo, content):
        quiet = [None if c['late'] is None else (i.quiet or 0) + c['late'] for c in i.contracts(self.now)] if i.bound is not None else []
        if i.stands(self.now) != 'happened' or None in quiet:
            return 'refused'
        if undo.bound is None:
            return self.submit(undo, content, max(quiet))
        return self.submit(undo, content)

    # deciding

    def why_not(self, i, content):
        if i.bound is not None and (i.bound != content or (not i.open and i.outcome != 'not_happened')):
            return 'closed'
        return 'rejected' if content in i.rejected else None

    def why_not_waiting(self, i, content):
        if i.bound is not None or (i.waiting and i.waiting[0] == content):
            return None
        if i.waiting:
            return 'superseded'
        return None if any(a['content'] == content for a in i.approvals) else 'closed'

    def approve(self, i, content, until, in_advance):
        if not in_advance and content not in i.kept:
            raise Refused('42704')
        status = self.why_not(i, content) or (None if in_advance else self.why_not_waiting(i, content))
        if status:
            return status
        if any(a['content'] == content and not a['revoked'] and a['until'] > self.now + i.action.call_timeout and
               (until is None or a['until'] >= until) for a in i.approvals):
            status = 'already_approved'
        else:
            status = 'approved'
            i.kept.add(content)
            i.approvals.append(dict(id=None, content=content, until=self.now + i.action.ttl if until is None else until, revoked=False))
        gate = i.gate_of(content, self.now)
        if i.open and i.state == 'blocked':
            if gate in (None, 'action_disabled'):       # a switch only stops claim
                i.enter('prepared', self.now)
            else:
                i.gate = gate
        elif i.waiting and i.waiting[0] == content:
            if gate is None:
                self.bind(i, content)
            else:
                i.waiting = (content, gate)
        return status

    def reject(self, i, content):
        if content not in i.kept:
            raise Refused('42704')
        if content in i.rejected:
            return 'rejected'
        if i.bound is not None:
            return 'closed' if self.why_not(i, content) or not i.open else 'too_late'
        status = self.why_not_waiting(i, content)
        if status is None:
            i.rejected.add(content)
            i.waiting, i.asked = None, 'rejected'
        return status or 'rejected'

    def revoke(self, i, approval):
        approval['revoked'] = True
        return 'too_late' if approval['content'] == i.bound and i.out else 'revoked'

    # going out

    def sweep(self):
        """also what the catalogue stopped, and stops no more, goes on"""
        moved = self.end_leases()
        for i in self.intents.values():
            if i.waiting and i.waiting[1] == 'action_disabled' and i.action.enabled:
                gate = i.gate_of(i.waiting[0], self.now)
                if gate is None:
                    self.bind(i, i.waiting[0])
                else:
                    i.waiting = (i.waiting[0], gate)
                moved += 1
        return moved

    def end_leases(self):
        ended = [i for i in self.intents.values() if i.open and i.state == 'sending' and i.lease <= self.now]
        for i in ended:
            self.end_lease(i)
        return len(ended)

    def end_lease(self, i):
        i.enter('uncertain', i.lease)
        if i.last_code not in ('mismatch', 'stored_failure'):
            i.last_code = 'lease_ended'
        self.tell(i, 'uncertain', i.attempt)

    def claim(self, ticket, most, step, lease):
        """(claimed, blocked)"""
        self.end_leases()
        claimed = blocked = 0
        due = [i for i in self.intents.values() if i.open and i.state == ('prepared' if step == 'send' else 'uncertain') and
               i.due <= self.now and (i.ticket is None or i.lease <= self.now) and i.action.enabled and not i.action.paused]
        for i in sorted(due, key=lambda i: (i.due, i.name)):
            if claimed == most:
                break
            if step == 'look':
                if any(c['lookup'] == 'none' for c in i.contracts(self.now)) or i.look_due() > self.now:
                    continue
                i.enter('uncertain', self.now + lease)
                i.look_began, i.lease = self.now, self.now + lease
            else:
                again = step == 'resend'
                if again:
                    what, when = i.next(self.now, lease)
                    if what != 'resend' or when > self.now:
                        continue
                gate = i.gate_of(i.bound, self.now)
                until = None if gate else min(self.now + lease, i.approved_until(self.now))
                if gate is None and until - self.now <= i.action.call_timeout:
                    gate = 'approval_expired'
                if gate:
                    if not again:
                        i.enter('blocked', None)
                        i.gate = gate
                        blocked += 1
                    continue
                i.earlier = i.earlier or again
                i.last_code = i.answered_at = None
                i.attempt += 1
                i.tries += 1
                i.first = self.now if i.first is None else i.first
                i.quiet = until if i.quiet is None else max(i.quiet, until)
                i.out.add(i.attempt)
                i.enter('sending', until)
                i.lease = until
            i.ticket, i.step = ticket, step
            claimed += 1
        return (claimed, blocked)

    def holds(self, ticket):
        return sorted((i for i in self.intents.values() if i.open and i.ticket == ticket and i.lease > self.now), key=lambda i: i.name)

    def room(self, i, lease):
        """until when a call may begin"""
        if i.step == 'resend':
            for c in i.contracts(self.now):
                if c['on_expired'] != 'rejects' and c['retention'] is not None:
                    lease = min(lease, i.first + c['retention'] - (c['late'] or 0) - MARGIN)
        return lease - i.action.call_timeout

    def claimed(self, ticket):
        shown = []
        for i in self.holds(ticket):
            if i.handed:
                continue
            if i.step != 'look':
                gate = i.gate_of(i.bound, self.now)
                if gate or self.room(i, i.lease) <= self.now or i.late:
                    self.give_back(i, gate)
                    continue
            i.handed = True
            shown.append((i.name, i.attempt, i.step))
        return shown

    def give_back(self, i, gate=None):
        if i.step == 'look':
            i.enter('uncertain', self.now)
            return
        again = i.step == 'resend'
        i.tries -= 1
        if not again and not i.tries and not i.late:
            i.first = None
        self.tell(i, 'released', i.attempt)
        if again or i.late:
            i.enter('uncertain', self.now)
        elif gate in (None, 'action_disabled'):
            i.enter('prepared', self.now)
        else:
            i.enter('blocked', None)
            i.gate = gate

    def release(self, ticket):
        held = self.holds(ticket)
        for i in held:
            self.give_back(i)
        return len(held)

    def extend(self, ticket, lease):
        held = self.holds(ticket)
        for i in held:
            wanted = self.now + lease
            if i.step != 'look':
                if i.gate_of(i.bound, self.now):
                    continue
                wanted = min(wanted, i.approved_until(self.now))
                wanted = self.room(i, wanted) + i.action.call_timeout
            if wanted > i.lease:
                i.lease = i.due = wanted
                if i.step != 'look':
                    i.quiet = max(i.quiet, wanted)
        return min((i.lease for i in held), default=None)

    # coming back

    def record_outcome(self, i, attempt, outcome, code, retry_after=None):
        if i.bound is None:
            raise Refused('42704')
        if attempt < 1 or attempt > i.attempt:
            raise Refused('22023')
        fits = lambda kind: (kind, attempt, outcome, code) in i.said
        if fits(outcome) or fits('late_evidence') or (i.open and i.state == 'uncertain' and fits('uncertain')):
            return 'replayed'
        current = attempt == i.attempt and (i.state in ('sending', 'uncertain') if i.open else i.outcome == 'uncertain')
        if not current:
            self.tell(i, 'late_evidence', attempt, outcome, code)
            if outcome == 'happened':
                self.stop(i, attempt, outcome, code)
            elif (code in ('mismatch', 'stored_failure') and i.open and i.state in ('sending', 'uncertain') and
                  i.last_code not in ('mismatch', 'stored_failure')):
                i.last_code = code      # it is said of the key, and so of every later attempt
            return 'late'
        if i.open:
            i.answered_at = self.now
            if i.last_code not in ('mismatch', 'stored_failure'):
                i.last_code = code
        if outcome == 'uncertain':
            return self.stays_uncertain(i, attempt, outcome, code, 'recorded')
        if outcome == 'happened':
            if code is None or (code in OWN_CODES and code != 'exists'):
                return self.stays_uncertain(i, attempt, outcome, code, 'not_proven')
            self.tell(i, 'happened', attempt, outcome, code)
            i.open = False
            return 'recorded'
        proven = code == 'never_sent' or (code is not None and code not in OWN_CODES and
                                          all(code in c['proves'] for c in i.contracts(self.now)))
        if i.late or i.earlier or not proven:
            return self.stays_uncertain(i, attempt, outcome, code, 'not_proven')
        again = (retry_after is not None or code == 'never_sent') and i.open and i.tries < i.action.max_attempts and self.lasts(i)
        self.not_happened(i, attempt, code, again, self.now + (i.action.retry_delay if retry_after is None else retry_after))
        return 'recorded'

    def lasts(self, i):
        """a switch only stops claim"""
        return i.gate_of(i.bound, self.now) in (None, 'action_disabled')

    def not_happened(self, i, attempt, evidence, again, due):
        self.tell(i, 'not_happened', attempt, 'not_happened', evidence)
        i.earlier = False
        i.lookups, i.look_began = 0, None
        if again:
            i.enter('prepared', due)
        else:
            i.open = False

    def stays_uncertain(self, i, attempt, outcome, evidence, status, looked=False, look_after=0):
        if i.open:
            i.enter('uncertain', self.now)
            step, due = i.next(self.now)
            if due is not None:
                i.due = max(due, self.now)
            if step == 'look':
                i.due = max(i.due, look_after)
        elif outcome == 'happened':
            i.late = True       # of what was given up, somebody says so, if without proof: it can only be found
        self.tell(i, 'late_evidence' if not i.open else 'looked' if looked else 'uncertain', attempt, outcome, evidence)
        return status

    def stop(self, i, attempt, outcome, evidence):
        """somebody says that it happened: nothing goes out any more"""
        if i.outcome == 'happened':
            return
        i.late = True
        if not i.open:
            i.fresh()
            i.open, i.state = True, None
        if i.state != 'sending':
            i.enter('uncertain', self.now)
            self.tell(i, 'uncertain', attempt, outcome, evidence)

    def finding(self, i, finding, evidence, looked_at=None, human=False):
        """record_lookup, decide"""
        if i.bound is None:
            raise Refused('42704')
        state = i.stands(self.now)
        outcome = dict(found='happened', absent='not_happened', unknown='uncertain')[finding]
        if state != 'uncertain':
            if outcome == state:
                return 'replayed'
            if not (finding == 'found' and i.attempt > 0):
                return 'not_proven'
        if finding == 'found':
            if not human and evidence is None:
                return self.stays_uncertain(i, i.attempt, outcome, evidence, 'not_proven')
            self.tell(i, 'happened', i.attempt, outcome, evidence)
            i.open = False
            return 'recorded'
        if finding == 'absent':
            return self.absent(i, evidence, looked_at, human)
        if not i.open:
            return 'replayed'
        i.lookups += 1
        if i.look_began is None or looked_at is not None:
            i.look_began = self.now if looked_at is None else looked_at
        return self.stays_uncertain(i, i.attempt, outcome, evidence, 'recorded', looked=True)

    def absent(self, i, evidence, looked_at, human):
        contracts = i.contracts(self.now)
        began = looked_at
        if not human and i.step == 'look' and i.lease > self.now:
            began = i.look_began

        def stays(look=False, after=0):
            if look and not human and i.open:
                i.lookups += 1
                i.look_began = began
            return self.stays_uncertain(i, i.attempt, 'not_happened', evidence, 'not_proven', look and not human and i.open, after)

        if began is None or began > self.now:
            return stays()
        if i.late or (not human and not all(c['absence'] and c['lookup'] != 'none' for c in contracts)):
            return stays(look=True)
        if any(c['late'] is None or (c['lag'] is None and c['lookup'] != 'none') for c in contracts):
            return stays(look=True)
        quiet = max(i.quiet + c['late'] + (c['lag'] or 0) for c in contracts)
        if began <= quiet:
            return stays(after=quiet + 1)
        self.not_happened(i, i.attempt, evidence, i.open and i.tries < i.action.max_attempts and self.lasts(i), self.now)
        return 'recorded'

    def retry(self, i):
        if i.open and i.stands(self.now) == 'prepared' and i.outcome == 'not_happened':
            return 'replayed'
        if i.open or i.bound is None or i.outcome != 'not_happened' or i.gate_of(i.bound, self.now):
            return 'refused'
        i.tries = 0
        i.fresh()
        i.open = True
        i.enter('prepared', self.now)
        return 'done'

    def abandon(self, i):
        if i.stands(self.now) != 'uncertain':
            return 'refused'
        if not i.open:
            return 'replayed'
        if i.state == 'sending':
            self.end_lease(i)
        i.open = False
        return 'done'
