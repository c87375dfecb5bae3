"""Plays random verbs against the extension and against the reference (reference.py), and compares after each of them.

    random_play.py CLOCKFILE SEED SECONDS ROUNDS [FIRST]

The server's clock is the time written in CLOCKFILE, and stands still (libfaketime): time passes only when we say so, for the server and the
reference alike, so every comparison is exact and every round can be played again from its seed and number.  A round is a scope and some actions
of its own.  Ends with the first difference, which it tells with all that was called in that round.
"""
import datetime
import json
import random
import sys
import time

import psycopg2

from reference import DAY, HOUR, MINUTE, SECOND, Action, Intent, Ledger, Refused

KEYED = dict(key='header', retention=DAY, on_expired='executes', on_replay='first_result', on_concurrent='rejects', stores='all',
             rolls_back=False, proves=('400',), lookup='by_key', absence=True, lag=MINUTE, late=10 * MINUTE, delay=0)
CONTRACTS = dict(
    keyed=KEYED,
    forever=dict(KEYED, retention=10000 * DAY, late=0, lag=0),
    twice=dict(KEYED, on_concurrent='executes_twice', absence=False),
    blind=dict(KEYED, on_concurrent='waits', lookup='none', absence=False, lag=None, late=0, delay=5 * MINUTE),
    twice_blind=dict(KEYED, on_concurrent='executes_twice', lookup='none', absence=False, lag=None),
    successes=dict(KEYED, stores='success', proves=()),
    rolls_back=dict(KEYED, stores='success', rolls_back=True, on_replay='exists', on_expired='rejects', retention=HOUR),
    silent=dict(KEYED, on_replay='silent'),
    marker=dict(KEYED, key='none', retention=None, on_replay='none', on_concurrent='executes_twice', stores='none', lookup='by_marker'),
    unbounded=dict(KEYED, late=None),
    unlagged=dict(KEYED, lag=None, on_concurrent='may_fail'),
)
JUMPS = [SECOND, 5 * SECOND, 9 * SECOND, 20 * SECOND, 30 * SECOND, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 11 * MINUTE, 30 * MINUTE,
         HOUR, 2 * HOUR, 21 * HOUR, 23 * HOUR + 45 * MINUTE, 2 * DAY]
CODES = [None, 'timeout', 'reset', 'in_progress', 'mismatch', 'exists', 'stored_failure', 'never_sent', '400', '401', '500', '200', '400', 'timeout']


class Difference(Exception):
    pass


def stamp(us):
    return (datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=us)).isoformat() + 'Z'


def span(us):
    return f'{us} microseconds'


class Round:
    def __init__(self, player, number):
        self.player, self.number = player, number
        self.random = random.Random(f'{player.seed}/{number}')
        self.scope = f'r{number}'
        self.ledger = Ledger()
        self.ledger.now = player.now
        self.tickets = []
        self.log = []
        self.actions = []
        self.counts = player.counts

    def sql(self, text, *args):
        self.player.cursor.execute(text, args)
        return self.player.cursor.fetchall()

    def set_up(self):
        self.sql('SELECT extaction.create_scope(%s)', self.scope)
        for kind in self.random.sample(sorted(CONTRACTS), 2) + ([None] if self.random.random() < 0.3 else []):
            action = Action(f'{self.scope}-{kind}', max_attempts=self.random.choice([2, 3, 5]))
            self.sql("INSERT INTO extaction.actions (action, provider, operation, self_approval, max_attempts, retry_delay, call_timeout)"
                     " VALUES (%s, %s, 'do', true, %s, '30 s', '10 s') RETURNING 1", action.name, action.name, action.max_attempts)
            self.actions.append(action)
            if kind:
                self.announce(action, kind, 0)
        for n in range(self.random.choice([1, 2, 3])):
            self.add_intent(f'i{n}', self.random.choice(self.actions))

    def add_intent(self, name, action):
        self.ledger.intents[name] = Intent(name, action)
        return self.ledger.intents[name]

    def announce(self, action, kind, ahead):
        c = CONTRACTS[kind]
        version = len(action.contracts) + 1
        valid_from = self.ledger.now + ahead
        self.sql("INSERT INTO extaction.contracts (provider, operation, version, valid_from, key_carrier, retention, on_expired, on_replay,"
                 " on_mismatch, on_concurrent, stores_failures, failures_roll_back, proves_not_happened, lookup, absence_is_proof, lookup_lag,"
                 " late_arrival_bound, min_retry_delay) VALUES (%s, 'do', %s, %s, %s, %s, %s, %s, 'rejects', %s, %s, %s, %s, %s, %s, %s, %s, %s)"
                 " RETURNING 1", action.name, version, stamp(valid_from), c['key'],
                 None if c['retention'] is None else span(c['retention']), c['on_expired'], c['on_replay'], c['on_concurrent'], c['stores'],
                 c['rolls_back'], list(c['proves']), c['lookup'], c['absence'], None if c['lag'] is None else span(c['lag']),
                 None if c['late'] is None else span(c['late']), span(c['delay']) if c['delay'] else None)
        action.contracts.append((valid_from, version, c))

    def pass_time(self, us):
        self.player.set_clock(self.player.now + us)
        self.ledger.now = self.player.now
        self.log.append(stamp(self.ledger.now))

    # one step

    def step(self):
        intent = self.ledger.intents[self.random.choice(sorted(self.ledger.intents))]
        asking = intent.bound is None and self.random.random() < 0.8
        verbs = ASKING if asking else list(VERBS)
        verb = self.random.choices(verbs, [VERBS[v][0] for v in verbs])[0]
        self.counts[verb] = self.counts.get(verb, 0) + 1
        VERBS[verb][1](self, intent)

    def both(self, told, reference, text, *args):
        """Calls both; their first answers have to be the same.  Returns the extension's row, None after an error."""
        self.log.append(f'{stamp(self.ledger.now)} {told}')
        try:
            expected = reference()
        except Refused as refused:
            expected = 'error ' + str(refused)
        try:
            row = self.sql(text, *args)[0]
            got = row[0]
        except psycopg2.Error as error:
            row, got = None, 'error ' + str(error.pgcode)
        self.log[-1] += f' -> {got}'
        if expected != got:
            raise Difference(f'{told}: the reference says {expected}, the extension {got}')
        key = f'{told.split("(")[0]} {expected if isinstance(expected, str) else ""}'
        self.player.answers[key] = self.player.answers.get(key, 0) + 1
        self.compare(told)
        return row

    def compare(self, told):
        names = sorted(self.ledger.intents)
        rows = self.sql(
            'SELECT n, f.state, f.next_step, coalesce(f.attempt, 0), f.gate,'
            " CASE WHEN isfinite(s.due_at) THEN (extract(epoch FROM s.due_at) * 1000000)::bigint END"
            ' FROM unnest(%s) n LEFT JOIN LATERAL extaction.find(%s, n) f ON true LEFT JOIN LATERAL extaction.next_step(%s, n) s ON true',
            names, self.scope, self.scope)
        for name, *got in rows:
            i = self.ledger.intents[name]
            state = i.stands(self.ledger.now)
            if state is None:
                expected = [None, None, 0, None, None]
            else:
                step, due = i.next(self.ledger.now)
                gate = i.gate if i.open else i.waiting[1] if i.waiting else None
                expected = [state, step, i.attempt if i.open else i.outcome_attempt, gate, due]
            if got != expected:
                raise Difference(f'after {told}: of {name} the reference says {expected}, the extension {got}')

    def end(self):
        self.compare_fold()
        if self.number % 20 == 0:       # they read the whole ledger, with all the rounds before
            self.compare_all()

    def compare_all(self):
        wrong = self.sql('SELECT * FROM extaction.verify()')
        if wrong:
            raise Difference(f'verify() finds {wrong}')
        differed = self.sql('SELECT extaction.rebuild_worklist()')[0][0]
        if differed:
            raise Difference(f'rebuild_worklist() found {differed} rows that differed')

    def compare_fold(self):
        """More than verify() compares: what the rule about sending again rests on, but for first_sent_at: where attempts were given back
        and the intent was off the list in between, it is the earliest or a later one of several claims, all of them true."""
        columns = 'state, attempt, tries, gate, earlier_open, late_found, lookups, quiet_from'
        for name, folded, kept in self.sql(
                f"SELECT w.intent_id, to_jsonb(f), to_jsonb(k) FROM extaction.worklist w"
                f" JOIN extaction.folded_worklist d USING (scope, intent_id),"
                f" LATERAL (SELECT {', '.join('d.' + c for c in columns.split(', '))}, d.last_code IN ('mismatch', 'stored_failure') IS TRUE AS stops) f,"
                f" LATERAL (SELECT {', '.join('w.' + c for c in columns.split(', '))}, w.last_code IN ('mismatch', 'stored_failure') IS TRUE AS stops) k"
                f" WHERE w.scope = %s", self.scope):
            if folded['stops'] or kept['late_found'] or kept['state'] not in ('sending', 'uncertain'):
                folded['stops'] = kept['stops']     # the facts may be the more careful; or there is no resend to stop
            differ = {c: (folded[c], kept[c]) for c in folded if folded[c] != kept[c]}
            if differ:
                raise Difference(f'of {name}, {kept["state"]}, the facts say otherwise than the worklist: {differ}')


# the verbs

def content(r):
    return r.random.choice('aaaab')


def payload(what):
    return json.dumps({'text': what})


def submit(r, i):
    what = content(r)
    r.both(f'submit({i.name}, {i.action.name}, {what})', lambda: r.ledger.submit(i, what),
           "SELECT status FROM extaction.submit(%s, %s, %s, 'd', %s)", r.scope, i.name, i.action.name, payload(what))


def digest(r, i, what):
    return r.sql("SELECT extaction.request_digest(%s, %s, %s, 'd', %s)", r.scope, i.name, i.action.name, payload(what))[0][0]


def ends(r):
    ahead = r.random.choice([None, None, None, 12 * SECOND, 40 * SECOND, HOUR, 10 * DAY])
    return None if ahead is None else r.ledger.now + ahead


def know_approval(r, i, row):
    if row and row[0] in ('approved', 'already_approved'):
        for a in i.approvals:
            if a['id'] is None:
                a['id'] = row[1]


def approve(r, i):
    what, until = content(r), ends(r)
    row = r.both(f'approve({i.name}, {what}, {until and stamp(until)})', lambda: r.ledger.approve(i, what, until, False),
                 'SELECT status, approval_id FROM extaction.approve(%s, %s, %s)', r.scope, digest(r, i, what), until and stamp(until))
    know_approval(r, i, row)


def approve_in_advance(r, i):
    what, until = content(r), ends(r)
    row = r.both(f'approve_in_advance({i.name}, {what}, {until and stamp(until)})', lambda: r.ledger.approve(i, what, until, True),
                 "SELECT status, approval_id FROM extaction.approve_in_advance(%s, %s, %s, 'd', %s, expires_at => %s)",
                 r.scope, i.name, i.action.name, payload(what), until and stamp(until))
    know_approval(r, i, row)


def reject(r, i):
    what = content(r)
    r.both(f'reject({i.name}, {what})', lambda: r.ledger.reject(i, what),
           "SELECT status FROM extaction.reject(%s, %s, 'no')", r.scope, digest(r, i, what))


def revoke(r, i):
    known = [a for a in i.approvals if a['id']]
    if known:
        a = r.random.choice(known)
        r.both(f'revoke_approval({i.name}, {a["content"]})', lambda: r.ledger.revoke(i, a),
               "SELECT status FROM extaction.revoke_approval(%s, %s, 'no')", r.scope, a['id'])


def wish(name):
    def call(r, i):
        r.both(f'{name}({i.name})', lambda: getattr(r.ledger, name)(i),
               f"SELECT status FROM extaction.{name}(%s, %s, 'because')", r.scope, i.name)
    return call


def compensate(r, i):
    if i.name.endswith('-undo'):
        return
    undo = r.ledger.intents.get(i.name + '-undo') or r.add_intent(i.name + '-undo', i.action)
    r.both(f'compensate({i.name})', lambda: r.ledger.compensate(i, undo, 'a'),
           "SELECT status FROM extaction.compensate(%s, %s, %s, %s, 'd', %s, 'mistake')", r.scope, i.name, undo.name, undo.action.name, payload('a'))


def claim(step):
    def call(r, i):
        most, lease = r.random.choice([1, 2, 5]), r.random.choice([11 * SECOND, MINUTE, 30 * MINUTE])
        ticket = object()
        row = r.both(f'claim({step}, {most}, {span(lease)})', lambda: '%d claimed, %d blocked' % r.ledger.claim(ticket, most, step, lease),
                     "SELECT claimed || ' claimed, ' || blocked || ' blocked', claim_id FROM extaction.claim('w', %s, %s, %s, scope => %s)",
                     most, step, span(lease), r.scope)
        if row[1] is not None:
            r.tickets.append((ticket, row[1]))
            if r.random.random() < 0.6:
                show(r, ticket, row[1])
    return call


def show(r, ticket, number):
    r.both(f'claimed({number})', lambda: ', '.join(f'{n} {a} {s}' for n, a, s in r.ledger.claimed(ticket)),
           "SELECT coalesce(string_agg(intent_id || ' ' || attempt || ' ' || step, ', '), '') FROM extaction.claimed(%s)", number)


def with_ticket(verb):
    def call(r, i):
        if r.tickets:
            verb(r, *r.random.choice(r.tickets[-4:]))
    return call


def extend(r, ticket, number):
    lease = r.random.choice([5 * SECOND, 5 * MINUTE, HOUR, DAY])
    r.both(f'extend({number}, {span(lease)})', lambda: r.ledger.extend(ticket, lease),
           'SELECT (extract(epoch FROM extaction.extend(%s, %s)) * 1000000)::bigint', number, span(lease))


def release(r, ticket, number):
    r.both(f'release({number})', lambda: r.ledger.release(ticket), 'SELECT extaction.release(%s)', number)


def sweep(r, i):
    # it also sweeps what earlier rounds have left
    r.both('sweep()', lambda: r.ledger.sweep() is not None, 'SELECT extaction.sweep() IS NOT NULL')


def record_outcome(r, i):
    attempt = max(0, i.attempt - r.random.choice([0, 0, 0, 0, 1, 1, 2, -1]))
    outcome, code = r.random.choice(['happened', 'not_happened', 'not_happened', 'uncertain', 'uncertain']), r.random.choice(CODES)
    after = r.random.choice([None, None, 0, MINUTE])
    r.both(f'record_outcome({i.name}, {attempt}, {outcome}, {code}, {after})',
           lambda: r.ledger.record_outcome(i, attempt, outcome, code, after),
           'SELECT status FROM extaction.record_outcome(%s, %s, %s, %s, %s, retry_after => %s)', r.scope, i.name, attempt, outcome,
           json.dumps({'code': code}) if code else None, None if after is None else span(after))


def looked_at(r):
    return r.random.choice([None, r.ledger.now, r.ledger.now, r.ledger.now, r.ledger.now - MINUTE, r.ledger.now + MINUTE])


def record_lookup(r, i):
    finding = r.random.choice(['found', 'absent', 'absent', 'absent', 'unknown'])
    when = looked_at(r)
    if finding == 'unknown' and when:
        when = min(when, r.ledger.now)
    evidence = r.random.choice(['list', 'list', 'list', None])
    r.both(f'record_lookup({i.name}, {finding}, {evidence}, {when and stamp(when)})', lambda: r.ledger.finding(i, finding, evidence, when),
           'SELECT status FROM extaction.record_lookup(%s, %s, %s, %s, looked_at => %s)', r.scope, i.name, finding,
           json.dumps({'by': evidence}) if evidence else None, when and stamp(when))


def decide(r, i):
    finding, when = r.random.choice(['found', 'absent', 'absent', 'absent']), looked_at(r)
    r.both(f'decide({i.name}, {finding}, {when and stamp(when)})', lambda: r.ledger.finding(i, finding, 'human', when, True),
           'SELECT status FROM extaction.decide(%s, %s, %s, %s, looked_at => %s, evidence => %s)', r.scope, i.name, finding, 'I looked',
           when and stamp(when), json.dumps({'by': 'human'}))


def switch_action(r, i):
    r.pass_time(SECOND)             # verify() tells changes of the catalogue apart by their time
    a = i.action
    a.enabled = not a.enabled if r.random.random() < 0.4 else True
    r.both(f'enabled({a.name}, {a.enabled})', lambda: 1, 'UPDATE extaction.actions SET enabled = %s WHERE action = %s RETURNING 1', a.enabled, a.name)


def pause(r, i):
    a = i.action
    a.paused = not a.paused
    r.both(f'pause({a.name}, {a.paused})', lambda: 'paused' if a.paused else 'resumed',
           "SELECT extaction.pause(%s, %s, 'wait')" if a.paused else 'SELECT extaction.resume(%s, %s)', r.scope, a.name)


def announce(r, i):
    if len(i.action.contracts) < 3:
        kind, ahead = r.random.choice(sorted(CONTRACTS)), r.random.choice([0, 0, HOUR, DAY])
        r.log.append(f'{stamp(r.ledger.now)} announce({i.action.name}, {kind}, {span(ahead)})')
        r.announce(i.action, kind, ahead)
        r.compare(r.log[-1])


def later(r, i):
    r.pass_time(r.random.choice(JUMPS))
    r.compare('some time')


VERBS = {
    'submit': (8, submit), 'approve': (5, approve), 'approve_in_advance': (5, approve_in_advance), 'reject': (1, reject),
    'revoke_approval': (2, revoke), 'cancel': (1, wish('cancel')), 'claim send': (12, claim('send')), 'claim resend': (8, claim('resend')),
    'claim look': (5, claim('look')), 'claimed': (4, with_ticket(show)), 'extend': (3, with_ticket(extend)),
    'release': (3, with_ticket(release)), 'sweep': (1, sweep), 'record_outcome': (16, record_outcome), 'record_lookup': (7, record_lookup),
    'decide': (5, decide), 'retry': (4, wish('retry')), 'abandon': (2, wish('abandon')), 'compensate': (2, compensate),
    'enabled': (2, switch_action), 'pause': (1, pause), 'announce': (1, announce), 'later': (22, later),
}

# most of what can be called for an intent that is not bound is soon told
ASKING = ['submit', 'approve', 'approve_in_advance', 'reject', 'cancel', 'enabled']


class Player:
    def __init__(self, clock, seed):
        self.clock, self.seed = clock, seed
        self.counts, self.answers = {}, {}
        self.cursor = None

    def set_clock(self, now):
        self.now = now
        with open(self.clock, 'w') as file:
            file.write(stamp(now)[:-1].replace('T', ' ') + '\n')

    def connect(self):
        connection = psycopg2.connect('')
        connection.autocommit = True
        self.cursor = connection.cursor()


def main():
    clock, seed, seconds, rounds = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
    first = int(sys.argv[5]) if len(sys.argv) > 5 else 1
    player = Player(clock, seed)
    with open(clock) as file:
        began = datetime.datetime.strptime(file.read().strip(), '%Y-%m-%d %H:%M:%S')
    player.set_clock(int((began - datetime.datetime(1970, 1, 1)).total_seconds()) * SECOND)
    player.connect()
    started = time.monotonic()
    number = first
    while (number < first + rounds) if rounds else (time.monotonic() < started + seconds):
        r = Round(player, number)
        try:
            r.set_up()
            for _ in range(r.random.choice([20, 60, 150])):
                r.step()
            r.end()
            if number == first + rounds - 1 or (not rounds and time.monotonic() >= started + seconds):
                r.compare_all()
        except Difference as difference:
            print('\n'.join(r.log))
            print(f'round {number} of EXTACTION_SEED={seed}: {difference}')
            return 1
        number += 1
    print(f'{number - first} rounds, {sum(player.counts.values())} verbs')
    for key in sorted(player.answers):
        print(f'{player.answers[key]:6} {key}')
    return 0


sys.exit(main())
