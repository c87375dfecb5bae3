--
-- going_out: claim, claimed, extend, release, sweep, pause and resume
--
-- claim writes "sending, attempt n" and must be committed before claimed shows
-- what to send.  Each row of a ticket is handed out once.  A lease that ended
-- is the right to look, not to send.
--
SET client_min_messages = warning;
CREATE ROLE regress_out_worker;
CREATE ROLE regress_out_other;
CREATE ROLE regress_out_program;
SELECT extaction.create_scope('out');
SELECT extaction.create_scope('out-2');
SELECT count(extaction.grant_access(s, r, c)) FROM (VALUES
    ('out', 'regress_out_worker', 'worker'), ('out-2', 'regress_out_worker', 'worker'), ('out', 'regress_out_other', 'worker'),
    ('out', 'regress_out_program', 'submitter')) v (s, r, c);
-- a provider that keeps the key for a day
INSERT INTO extaction.contracts (provider, operation, version, key_carrier, key_name, retention, on_expired, on_replay, on_mismatch,
    on_concurrent, stores_failures, proves_not_happened, lookup, absence_is_proof, lookup_lag, late_arrival_bound)
VALUES ('out-mailer', 'send', 1, 'header', 'Idempotency-Key', '24 hours', 'executes', 'first_result', 'rejects',
        'rejects', 'all', '{400}', 'by_key', true, '0', '0');
INSERT INTO extaction.actions (action, provider, operation, self_approval, call_timeout, max_attempts)
VALUES ('out_mail', 'out-mailer', 'send', true, '10 s', 2), ('out_slow', 'out-slow', 'send', true, '5 min', 2);

-- asks for something that is approved already
CREATE FUNCTION regress_out_ask(intent_id text, action text DEFAULT 'out_mail', expires_at timestamptz DEFAULT NULL,
                                scope text DEFAULT 'out', payload jsonb DEFAULT '{"n": 1}') RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM extaction.approve_in_advance(scope, intent_id, action, 'ada@example.org', payload, expires_at => expires_at);
    RETURN (SELECT r.status FROM extaction.submit(scope, intent_id, action, 'ada@example.org', payload) r);
END $$;
-- time goes by for all that is open
CREATE FUNCTION regress_out_later(by interval) RETURNS void
LANGUAGE sql AS $$
    UPDATE extaction.worklist SET due_at = due_at - by, lease_until = lease_until - by, first_sent_at = first_sent_at - by,
        quiet_from = quiet_from - by, since = since - by, answered_at = answered_at - by, look_began_at = look_began_at - by
    WHERE scope LIKE 'out%'
$$;

--
-- Errors first
--
SET ROLE regress_out_program;
-- a program may not claim
SELECT extaction.claim('w');
SET ROLE regress_out_worker;
SELECT extaction.claim('w', 0);
SELECT extaction.claim('w', 10001);
SELECT extaction.claim('w', 1, 'recieve');
SELECT extaction.claim('w', 1, lease => '0');
SELECT extaction.claim(NULL);
SELECT extaction.claim('w', scope => 'elsewhere');
SELECT extaction.claimed(NULL);
SELECT extaction.extend(1, NULL);
SELECT extaction.extend(1, '-1 s');
-- not in REPEATABLE READ or stricter, and not read only
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT extaction.claim('w');
ROLLBACK;
\echo :LAST_ERROR_SQLSTATE
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT * FROM extaction.claimed(1);
ROLLBACK;
BEGIN READ ONLY;
SELECT extaction.claim('w');
ROLLBACK;
-- nothing to claim: no ticket
SELECT * FROM extaction.claim('w', scope => 'out');
SELECT * FROM extaction.claimed(4711);

--
-- Lease and call_timeout: a call begins and ends within its lease
--
RESET ROLE;
SELECT regress_out_ask('a1');
SET ROLE regress_out_worker;
SELECT claimed FROM extaction.claim('w', lease => '10 s', scope => 'out');
\echo :LAST_ERROR_SQLSTATE
-- without a lease: the longest call_timeout of what may be met, and 30 s
BEGIN;
SELECT claimed, lease_until - clock_timestamp() BETWEEN '36 s' AND '40 s' AS long_enough FROM extaction.claim('w', action => 'out_mail', scope => 'out');
ROLLBACK;
BEGIN;
SELECT claimed, lease_until - clock_timestamp() BETWEEN '325 s' AND '330 s' AS long_enough FROM extaction.claim('w', scope => 'out', provider => NULL);
ROLLBACK;

--
-- Two transactions: what is not committed can't be read as sendable
--
BEGIN;
SELECT claim_id, claimed FROM extaction.claim('w', lease => '1 min', scope => 'out') \gset
\set VERBOSITY sqlstate
SELECT * FROM extaction.claimed(:claim_id);
ROLLBACK;
BEGIN;
SAVEPOINT s;
SELECT claim_id FROM extaction.claim('w', lease => '1 min', scope => 'out') \gset
RELEASE s;
SAVEPOINT s2;
SELECT * FROM extaction.claimed(:claim_id);
ROLLBACK TO s2;
ROLLBACK;
\set VERBOSITY default
-- rolled back: it is prepared as before
SELECT state, attempt, worker FROM extaction.intent_status WHERE scope = 'out' AND intent_id = 'a1';

--
-- The envelope, handed out once
--
SELECT claim_id, claimed FROM extaction.claim('w', lease => '1 min', scope => 'out') \gset
SELECT state, attempt, worker FROM extaction.intent_status WHERE scope = 'out' AND intent_id = 'a1';
SELECT step, due_at > now() AS later FROM extaction.next_step('out', 'a1');
-- another role does not get it, under the same number
SET ROLE regress_out_other;
SELECT count(*) FROM extaction.claimed(:claim_id);
SELECT extaction.release(:claim_id);
SELECT extaction.extend(:claim_id, '1 h');
SET ROLE regress_out_worker;
SELECT intent_id, attempt, step, action, provider, operation, destination, payload, payload_text, key_carrier, key_name, call_timeout,
       send_within BETWEEN '45 s' AND '50 s' AS within, lookup, batch_id, detail
FROM extaction.claimed(:claim_id);
SELECT count(*) FROM extaction.claimed(:claim_id);
-- nor can it be claimed again
SELECT claimed FROM extaction.claim('w', lease => '1 min', scope => 'out');
SELECT claimed FROM extaction.claim('w', 1, 'resend', lease => '1 min', scope => 'out');
SELECT claimed FROM extaction.claim('w', 1, 'look', lease => '1 min', scope => 'out');

--
-- What is sent is byte for byte what the approval's digest covers
--
RESET ROLE;
SELECT regress_out_ask('a2', payload => '{"b": 1.50, "a": "é 😀", "list": [2, 1], "z": null}');
SET ROLE regress_out_worker;
SELECT claim_id FROM extaction.claim('w', lease => '1 min', scope => 'out') \gset
CREATE TEMP TABLE regress_out_envelope AS SELECT * FROM extaction.claimed(:claim_id);
SELECT payload_text FROM regress_out_envelope;
SELECT request_digest = encode(sha256(convert_to(
           '{"action":"' || action || '","candidate":null,"destination":"' || destination || '","intent_id":"' || intent_id ||
           '","payload":' || payload_text || ',"scope":"' || scope || '","v":"extaction.request.v1"}', 'UTF8')), 'hex') AS same_bytes
FROM regress_out_envelope;
RESET ROLE;
SELECT e.request_digest = s.request_digest AS same_digest, e.approval_id = s.approval_id AS same_approval, e.idempotency_key = s.idempotency_key AS same_key
FROM regress_out_envelope e, extaction.approval_status s2, extaction.intent_status s
WHERE s.scope = 'out' AND s.intent_id = 'a2' AND s2.scope = 'out' AND s2.approval_id = e.approval_id AND s2.request_digest = e.request_digest;

--
-- release: never sent, prepared again, not counted; but the number is used up
--
SET ROLE regress_out_worker;
SELECT extaction.release(:claim_id, '{other}');
SELECT extaction.release(:claim_id, '{a2,other}');
SELECT extaction.release(:claim_id);
SELECT state, attempt, first_sent_at FROM extaction.intent_status WHERE scope = 'out' AND intent_id = 'a2';
-- the answer of an attempt that was given back settles nothing
SELECT status, state FROM extaction.record_outcome('out', 'a2', 1, 'not_happened', '{"code": 400}');
-- max_attempts is 2, and one that was given back is none: claimed as attempts 2 and 3
SELECT claim_id FROM extaction.claim('w', lease => '1 min', scope => 'out') \gset
SELECT attempt, step FROM extaction.claimed(:claim_id);
SELECT status, state FROM extaction.record_outcome('out', 'a2', 2, 'not_happened', '{"code": 400}', retry_after => '0');
SELECT claim_id FROM extaction.claim('w', lease => '1 min', scope => 'out') \gset
SELECT attempt, step FROM extaction.claimed(:claim_id);
SELECT status, state, next_step FROM extaction.record_outcome('out', 'a2', 3, 'not_happened', '{"code": 400}', retry_after => '0');
SELECT kind, attempt FROM extaction.timeline WHERE scope = 'out' AND intent_id = 'a2' AND kind <> 'approved';

--
-- extend: later, never earlier, never beyond the approval
--
RESET ROLE;
SELECT regress_out_ask('b1', expires_at => clock_timestamp() + '10 min');
SET ROLE regress_out_worker;
SELECT claim_id FROM extaction.claim('w', lease => '1 min', scope => 'out') \gset
SELECT extaction.extend(:claim_id, '5 min') - now() BETWEEN '295 s' AND '301 s' AS five_minutes;
SELECT extaction.extend(:claim_id, '1 min') - now() BETWEEN '295 s' AND '301 s' AS still_five;
SELECT extaction.extend(:claim_id, '1 h') - now() BETWEEN '590 s' AND '601 s' AS ten_by_the_approval;
SELECT lease_until > now() + '9 min' AS extended, attempt FROM extaction.intent_status WHERE scope = 'out' AND intent_id = 'b1';
SELECT extaction.extend(4711, '1 h');
RESET ROLE;
SELECT quiet_from = lease_until AS quiet_from_its_end FROM extaction.worklist WHERE scope = 'out' AND intent_id = 'b1';
-- a lease ends no later than the approval, and what is left must hold a whole call
SELECT regress_out_ask('b2', expires_at => clock_timestamp() + '20 s');
SELECT regress_out_ask('b3', expires_at => clock_timestamp() + '9 s');
SET ROLE regress_out_worker;
SELECT claimed, blocked, lease_until - now() BETWEEN '15 s' AND '20 s' AS by_the_approval
FROM extaction.claim('w', 5, lease => '1 min', scope => 'out');
SELECT intent_id, gate FROM extaction.todo WHERE scope = 'out' AND state = 'blocked';

--
-- A lease that ended: uncertain for any reader at once; sweep writes it down
--
RESET ROLE;
SELECT regress_out_ask('c1');
SET ROLE regress_out_worker;
SELECT claim_id FROM extaction.claim('w', lease => '1 min', scope => 'out') \gset
RESET ROLE;
SELECT regress_out_later('2 min');
SET ROLE regress_out_worker;
SELECT state, next_step, attempt FROM extaction.find('out', 'c1');
SELECT state FROM extaction.intent_status WHERE scope = 'out' AND intent_id = 'c1';
SELECT state, next_step FROM extaction.todo WHERE scope = 'out' AND intent_id = 'c1';
SELECT ended_by FROM extaction.grey_zone WHERE scope = 'out' AND intent_id = 'c1';
SELECT count(*) FROM extaction.timeline WHERE scope = 'out' AND intent_id = 'c1' AND kind = 'uncertain';
-- the ticket is worth nothing any more: nothing to send, extend or give back
SELECT count(*) FROM extaction.claimed(:claim_id);
SELECT extaction.extend(:claim_id, '1 h'), extaction.release(:claim_id);
-- a1, b2 and c1 (b1's lease is longer)
SELECT extaction.sweep();
SELECT extaction.sweep();
SELECT intent_id, attempt, detail FROM extaction.timeline WHERE scope = 'out' AND kind = 'uncertain' ORDER BY intent_id;
-- it is not free: no claim to send finds it; a resend under the same key does
SELECT claimed FROM extaction.claim('w', 10, lease => '1 min', scope => 'out');
RESET ROLE;
SELECT s.status FROM extaction.record_lookup('out', 'a1', 'found', '{"id": 1}') s;
SELECT s.status FROM extaction.record_lookup('out', 'b2', 'found', '{"id": 2}') s;
SET ROLE regress_out_worker;
SELECT claim_id FROM extaction.claim('w', 10, 'resend', lease => '1 min', scope => 'out') \gset
SELECT intent_id, attempt, step, payload_text FROM extaction.claimed(:claim_id);
-- a resend given back is uncertain again, not prepared
SELECT extaction.release(:claim_id);
SELECT state, next_step, attempt FROM extaction.find('out', 'c1');
-- a claim to look: the state stays, attempt and number of tries too
SELECT claim_id FROM extaction.claim('w', 10, 'look', lease => '1 min', scope => 'out') \gset
SELECT intent_id, attempt, step, lookup FROM extaction.claimed(:claim_id);
SELECT state, next_step, attempt FROM extaction.find('out', 'c1');
SELECT claimed FROM extaction.claim('w', 10, 'look', lease => '1 min', scope => 'out');
SELECT claimed FROM extaction.claim('w', 10, 'resend', lease => '1 min', scope => 'out');
SELECT extaction.release(:claim_id);
SELECT state, next_step FROM extaction.find('out', 'c1');

--
-- claimed asks the gates once more
--
RESET ROLE;
SELECT regress_out_ask('d1');
SELECT regress_out_ask('d2');
SET ROLE regress_out_worker;
SELECT claim_id, claimed FROM extaction.claim('w', 10, lease => '1 min', scope => 'out') \gset
RESET ROLE;
SELECT status, detail FROM extaction.revoke_approval('out', (SELECT approval_id FROM extaction.intent_status WHERE scope = 'out' AND intent_id = 'd1'), 'stop');
SET ROLE regress_out_worker;
SELECT intent_id FROM extaction.claimed(:claim_id);
SELECT intent_id, state, gate FROM extaction.todo WHERE scope = 'out' AND intent_id = 'd1';
SELECT kind, attempt, detail ->> 'gate' AS gate FROM extaction.timeline WHERE scope = 'out' AND intent_id = 'd1';
RESET ROLE;
SELECT status, state FROM extaction.record_outcome('out', 'd2', 1, 'happened', provider_ref => 'msg-1');

--
-- Switches: what is paused or disabled is skipped, not blocked
--
SELECT regress_out_ask('e1');
SELECT regress_out_ask('e1', scope => 'out-2');
SET ROLE regress_out_worker;
SELECT extaction.pause('out', reason => 'no right');
RESET ROLE;
SELECT extaction.pause('out');
SELECT extaction.pause('out', reason => 'maintenance');
SELECT extaction.pause('out', reason => 'maintenance');
SET ROLE regress_out_worker;
SELECT claimed, blocked FROM extaction.claim('w', 10, lease => '1 min', scope => 'out');
BEGIN;
SELECT claimed, blocked FROM extaction.claim('w', 10, lease => '1 min', action => 'out_mail');
ROLLBACK;
RESET ROLE;
SELECT extaction.resume('out');
SELECT extaction.resume('out');
-- one action, everywhere
SELECT extaction.pause(NULL, 'out_mail', 'provider is down');
SET ROLE regress_out_worker;
SELECT claimed, blocked FROM extaction.claim('w', 10, lease => '1 min', action => 'out_mail');
RESET ROLE;
SELECT extaction.resume(NULL, 'out_mail');
UPDATE extaction.actions SET enabled = false WHERE action = 'out_mail';
SET ROLE regress_out_worker;
SELECT claimed, blocked FROM extaction.claim('w', 10, lease => '1 min', action => 'out_mail');
SELECT state, gate FROM extaction.find('out', 'e1');
RESET ROLE;
UPDATE extaction.actions SET enabled = true WHERE action = 'out_mail';
-- disabled between claim and claimed: given back, prepared
SET ROLE regress_out_worker;
SELECT claim_id FROM extaction.claim('w', 10, lease => '1 min', scope => 'out') \gset
RESET ROLE;
UPDATE extaction.actions SET enabled = false WHERE action = 'out_mail';
SET ROLE regress_out_worker;
SELECT count(*) FROM extaction.claimed(:claim_id);
SELECT state, attempt, gate FROM extaction.find('out', 'e1');
RESET ROLE;
UPDATE extaction.actions SET enabled = true WHERE action = 'out_mail';

--
-- Fair by due time, and filters
--
SELECT regress_out_ask('f' || i) FROM generate_series(1, 4) i;
SELECT regress_out_ask('f5', 'out_slow');
UPDATE extaction.worklist SET due_at = now() - CASE intent_id WHEN 'f1' THEN interval '1 min' WHEN 'f2' THEN '3 min' WHEN 'f3' THEN '2 min' WHEN 'f4' THEN '4 min' WHEN 'f5' THEN '5 min' END
WHERE scope = 'out' AND intent_id LIKE 'f_';
SET ROLE regress_out_worker;
SELECT claimed FROM extaction.claim('w', 2, lease => '10 min', scope => 'out', action => 'out_mail');
SELECT intent_id FROM extaction.intent_status WHERE scope = 'out' AND intent_id LIKE 'f_' AND state = 'sending' ORDER BY 1;
-- by provider, by action, by scope
SELECT claimed FROM extaction.claim('w', 10, lease => '10 min', scope => 'out', provider => 'out-nobody');
SELECT claimed FROM extaction.claim('w', 10, lease => '10 min', scope => 'out', provider => 'out-slow');
SELECT intent_id FROM extaction.intent_status WHERE scope = 'out' AND intent_id LIKE 'f_' AND state = 'sending' ORDER BY 1;
SELECT claimed, next_due_at FROM extaction.claim('w', 10, lease => '10 min', scope => 'out', action => 'out_mail');
SELECT claimed FROM extaction.claim('w', 10, lease => '10 min', scope => 'out-2');
-- a role that is a worker in one scope claims there only
RESET ROLE;
SELECT regress_out_ask('g1');
SELECT regress_out_ask('g1', scope => 'out-2');
SET ROLE regress_out_other;
SELECT claimed FROM extaction.claim('w', 10, lease => '10 min', action => 'out_mail');
SELECT extaction.claim('w', 10, scope => 'out-2');
RESET ROLE;
SELECT scope, state FROM extaction.intent_status WHERE scope LIKE 'out%' AND intent_id = 'g1' ORDER BY 1;
-- not before its time; next_due_at says when
SELECT status FROM extaction.approve_in_advance('out-2', 'h1', 'out_mail', 'ada@example.org', '{"n": 1}', expires_at => '2100-01-01 00:00+00');
UPDATE extaction.worklist SET due_at = '2100-01-01 00:00+00' WHERE scope = 'out-2';
SET ROLE regress_out_worker;
SELECT claimed, next_due_at = '2100-01-01 00:00+00' AS then_due FROM extaction.claim('w', 10, lease => '10 min', scope => 'out-2');

-- one that a gate stops does not keep others from going: max_intents counts what is claimed
RESET ROLE;
SELECT extaction.create_scope('out-3');
SELECT regress_out_ask('i' || i, scope => 'out-3') FROM generate_series(1, 3) i;
SELECT count(extaction.revoke_approval('out-3', approval_id, 'no')) FROM extaction.intent_status WHERE scope = 'out-3' AND intent_id IN ('i1', 'i2');
SELECT claimed, blocked FROM extaction.claim('w', 1, lease => '10 min', scope => 'out-3');

-- the facts agree with each other
SELECT * FROM extaction.verify();

DROP FUNCTION regress_out_ask, regress_out_later;
DROP TABLE regress_out_envelope;
SELECT count(extaction.revoke_access(scope, member_name, capability)) FROM extaction.scope_members WHERE member_name LIKE 'regress\_out\_%';
DELETE FROM extaction.actions WHERE action LIKE 'out\_%';
DROP ROLE regress_out_worker, regress_out_other, regress_out_program;
