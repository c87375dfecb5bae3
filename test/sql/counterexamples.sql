--
-- counterexamples: how the protocol broke before it had the rules that it has
-- (doc/contracts.md), one trace each, as far as one session can play it.  C10,
-- C11 and C15 need crashes, two sessions or another cluster and are elsewhere.
--
SET client_min_messages = warning;
-- concurrent requests execute twice; concurrent ones wait; stores successes only; short bounds
INSERT INTO extaction.contracts (provider, operation, version, key_carrier, retention, on_expired, on_replay, on_mismatch,
    on_concurrent, stores_failures, proves_not_happened, lookup, absence_is_proof, lookup_lag, late_arrival_bound, min_retry_delay)
VALUES ('cx-twice', 'do', 1, 'header', '24 hours', 'executes', 'first_result', 'rejects', 'executes_twice', 'all', '{400}', 'by_key', true, '1 min', '10 min', NULL),
       ('cx-twice-blind', 'do', 1, 'header', '24 hours', 'executes', 'first_result', 'rejects', 'executes_twice', 'all', '{400}', 'none', false, NULL, '10 min', NULL),
       ('cx-success', 'do', 1, 'header', '24 hours', 'executes', 'first_result', 'rejects', 'waits', 'success', '{400}', 'none', false, NULL, '0', NULL),
       ('cx-waits', 'do', 1, 'header', '24 hours', 'executes', 'first_result', 'rejects', 'waits', 'all', '{400}', 'none', false, NULL, '0', NULL),
       ('cx-slow', 'do', 1, 'header', '24 hours', 'executes', 'first_result', 'rejects', 'waits', 'all', '{400}', 'none', false, NULL, '0', '5 min'),
       ('cx-announced', 'do', 1, 'header', '24 hours', 'executes', 'first_result', 'rejects', 'waits', 'all', '{400}', 'none', false, NULL, '0', NULL);
INSERT INTO extaction.actions (action, provider, operation, self_approval, call_timeout)
SELECT 'cx_' || p, 'cx-' || p, 'do', true, '10 s' FROM unnest('{twice,twice-blind,success,waits,slow,announced}'::text[]) p;

--
-- C1: claimed is read twice, both send.  Each attempt is handed out once.
--
SELECT story.ask('C1', 'cx_waits');
SELECT claim_id FROM extaction.claim('w', lease => '1 min', scope => 'C1') \gset
SELECT count(*) FROM extaction.claimed(:claim_id);
SELECT count(*) FROM extaction.claimed(:claim_id);
SELECT handed_at IS NOT NULL AS handed FROM extaction.worklist WHERE scope = 'C1';

--
-- C2: a slow worker sends after its lease.  Leases are longer than call_timeout, send_within
-- leaves room for the call, and a lease with no room for it is not handed out.
--
SELECT story.ask('C2', 'cx_waits');
SELECT claimed FROM extaction.claim('w', lease => '10 s', scope => 'C2');
SELECT claim_id FROM extaction.claim('w', lease => '15 s', scope => 'C2') \gset
SELECT send_within <= '5 s' AS short, send_within + call_timeout <= lease_until - clock_timestamp() + interval '1 s' AS within_the_lease FROM extaction.claimed(:claim_id);
SELECT extaction.release(:claim_id);
SELECT claim_id FROM extaction.claim('w', lease => '15 s', scope => 'C2') \gset
SELECT story.later('C2', '6 s');
SELECT count(*) FROM extaction.claimed(:claim_id);
SELECT state FROM extaction.find('C2', 'x');

--
-- C3: a lawful send late in the lease, a look-up that counts its quiet period from the claim.
-- It counts from the greatest lease_until of all attempts.
--
SELECT story.ask('C3', 'cx_twice'), story.claim('C3', lease => '30 min');
SELECT * FROM story.answer('C3', 1, 'uncertain', 'timeout');
SELECT story.later('C3', '35 min');
SELECT status, state FROM extaction.record_lookup('C3', 'x', 'absent', '{}', looked_at => now());
SELECT story.later('C3', '7 min');
SELECT status, state FROM extaction.record_lookup('C3', 'x', 'absent', '{}', looked_at => now());
-- a shorter lease later does not lower it
SELECT story.ask('C3b', 'cx_waits'), story.claim('C3b', lease => '30 min');
SELECT * FROM story.answer('C3b', 1, 'uncertain', 'timeout');
SELECT story.claim('C3b', 'resend', '1 min');
SELECT quiet_from - now() > '25 min' AS from_the_first FROM extaction.worklist WHERE scope = 'C3b';

--
-- C4: the key lives to 24 h, a resend is granted before and arrives after.
-- now + lease + late_arrival_bound + 2 min must lie before the claim of attempt 1 + retention.
--
SELECT story.ask('C4', 'cx_waits', expires => '10 days'), story.claim('C4');
SELECT story.later('C4', '23 h 50 min');
SELECT * FROM story.at('C4');
-- a long lease is as dangerous as a late moment
SELECT story.claim('C4', 'resend', '30 min');
BEGIN;
SELECT story.claim('C4', 'resend', '1 min');
ROLLBACK;
SELECT story.later('C4', '8 min');
SELECT * FROM story.at('C4');
SELECT story.claim('C4', 'resend', '1 min');
-- nor can an extended lease outlive the key
SELECT story.ask('C4b', 'cx_waits', expires => '10 days'), story.claim('C4b');
SELECT story.later('C4b', '23 h 50 min');
SELECT claim_id FROM extaction.claim('w', 1, 'resend', lease => '1 min', scope => 'C4b') \gset
SELECT extaction.extend(:claim_id, '1 h') - now() BETWEEN '7 min' AND '8 min' AS ends_in_time;

--
-- C5: a timeout is reported while the request still executes.  It is in flight until
-- quiet_from + late_arrival_bound, unless concurrent requests are rejected or wait.
--
SELECT story.ask('C5', 'cx_twice-blind'), story.claim('C5');
SELECT * FROM story.answer('C5', 1, 'uncertain', 'timeout');
SELECT story.claim('C5', 'resend');
SELECT step, due_at - now() BETWEEN '10 min 50 s' AND '11 min' AS after_lease_and_bound FROM extaction.next_step('C5', 'x');
SELECT story.later('C5', '10 min 30 s'), story.claim('C5', 'resend');
SELECT story.later('C5', '1 min'), story.claim('C5', 'resend');

--
-- C6: an effect, then 503, and only successes are stored: no resend, also not after a timeout.
--
SELECT story.ask('C6', 'cx_success'), story.claim('C6');
SELECT * FROM story.answer('C6', 1, 'uncertain', '503');
SELECT * FROM story.answer('C6', 1, 'uncertain', 'timeout');
SELECT story.later('C6', '1 h'), story.claim('C6', 'resend');

-- What a late answer of an older attempt says of the key is as true of every later one.
SELECT story.ask('C6b', 'cx_waits'), story.claim('C6b');
SELECT story.later('C6b', '2 min'), story.claim('C6b', 'resend');
SELECT * FROM story.answer('C6b', 1, 'uncertain', 'mismatch');
SELECT story.later('C6b', '2 min'), story.claim('C6b', 'resend');
SELECT * FROM story.at('C6b');
-- also if the later one has answered before
SELECT story.ask('C6c', 'cx_twice'), story.claim('C6c');
SELECT story.later('C6c', '15 min'), story.claim('C6c', 'resend');
SELECT * FROM story.answer('C6c', 2, 'uncertain', 'timeout');
SELECT story.later('C6c', '15 min');
SELECT * FROM story.at('C6c');
SELECT * FROM story.answer('C6c', 1, 'not_happened', 'stored_failure');
SELECT * FROM story.at('C6c');
SELECT story.claim('C6c', 'resend');
-- nor do the facts forget it
SELECT f.intent_id, f.last_code FROM extaction.folded_worklist f WHERE f.scope IN ('C6b', 'C6c') ORDER BY f.scope;

--
-- C7: a look that was answered early is recorded late; a human looks at once.
-- Absence counts from the beginning of the look.
--
SELECT story.ask('C7', 'cx_twice'), story.claim('C7');
SELECT * FROM story.answer('C7', 1, 'uncertain', 'timeout');
SELECT story.claim('C7', 'look', '1 day');
SELECT story.later('C7', '1 h');
SELECT status, state FROM extaction.record_lookup('C7', 'x', 'absent', '{}');
SELECT status, state FROM extaction.decide('C7', 'x', 'absent', 'I looked then', now() - interval '1 h');
SELECT status, state FROM extaction.decide('C7', 'x', 'absent', 'I looked now', now());

--
-- C8: uncertain, the approval expires, blocked; a new approval, prepared, a second send.
-- Only a prepared intent can become blocked.
--
SELECT story.ask('C8', 'cx_waits'), story.claim('C8');
SELECT story.later('C8', '2 min');
SELECT count(extaction.revoke_approval('C8', approval_id, 'no')) FROM extaction.approval_status WHERE scope = 'C8';
SELECT story.claim('C8', 'resend'), story.claim('C8');
SELECT state, gate, next_step FROM extaction.todo WHERE scope = 'C8';
SELECT status, state FROM extaction.approve_in_advance('C8', 'x', 'cx_waits', 'ada@example.org', '{"n": 1}');
SELECT story.claim('C8');
-- also if the gate stops it between claim and claimed
SELECT claim_id FROM extaction.claim('w', 1, 'resend', lease => '1 min', scope => 'C8') \gset
SELECT count(extaction.revoke_approval('C8', approval_id, 'no')) FROM extaction.approval_status WHERE scope = 'C8' AND status = 'valid';
SELECT count(*) FROM extaction.claimed(:claim_id);
SELECT * FROM story.at('C8');

--
-- C9: attempt 1 reports happened while attempt 2 is out; attempt 2 is lost.  No attempt 3.
--
SELECT story.ask('C9', 'cx_waits'), story.claim('C9');
SELECT story.later('C9', '2 min'), story.claim('C9', 'resend');
SELECT * FROM story.answer('C9', 1, 'happened', '200');
SELECT story.later('C9', '2 min'), extaction.sweep() >= 1 AS swept;
SELECT story.claim('C9'), story.claim('C9', 'resend');
SELECT * FROM story.at('C9');
-- nor if attempt 2 is given back as never sent
SELECT story.ask('C9b', 'cx_waits'), story.claim('C9b');
SELECT story.later('C9b', '20 min');
SELECT status FROM extaction.decide('C9b', 'x', 'absent', 'I looked', now());
SELECT claim_id FROM extaction.claim('w', lease => '1 min', scope => 'C9b') \gset
SELECT * FROM story.answer('C9b', 1, 'happened', '200');
SELECT extaction.release(:claim_id);
SELECT story.claim('C9b'), story.claim('C9b', 'resend');
SELECT * FROM story.at('C9b');

--
-- C12: the approval ends between claim and send.  The lease ends no later.
--
SELECT story.ask('C12', 'cx_waits', expires => '30 s');
SELECT lease_until - clock_timestamp() BETWEEN '25 s' AND '30 s' AS by_the_approval FROM extaction.claim('w', lease => '10 min', scope => 'C12');
SELECT story.ask('C12b', 'cx_waits', expires => '8 s');
SELECT claimed, blocked FROM extaction.claim('w', lease => '10 min', scope => 'C12b');

--
-- C13: attempt 1 is delayed, the resend happened, the undo deletes the object and its key.
-- The undo is due no earlier than the greatest lease + late_arrival_bound.
--
SELECT story.ask('C13', 'cx_twice'), story.claim('C13', lease => '30 min');
SELECT * FROM story.answer('C13', 1, 'happened', '200');
SELECT status FROM extaction.approve_in_advance('C13', 'undo', 'cx_twice', 'ada@example.org', '{"undo": 1}');
SELECT status, state FROM extaction.compensate('C13', 'x', 'undo', 'cx_twice', 'ada@example.org', '{"undo": 1}', 'mistake');
SELECT due_at - now() BETWEEN '39 min' AND '40 min' AS after_lease_and_bound FROM extaction.next_step('C13', 'undo');
SELECT story.claim('C13');

--
-- C14: a weaker contract is announced for tomorrow; a resend granted today executes tomorrow.
--
SELECT story.ask('C14', 'cx_announced'), story.claim('C14');
SELECT story.later('C14', '2 min');
SELECT * FROM story.at('C14');
INSERT INTO extaction.contracts (provider, operation, version, valid_from, key_carrier) VALUES ('cx-announced', 'do', 2, now() + interval '1 day', 'none');
SELECT * FROM story.at('C14');
SELECT story.claim('C14', 'resend');
SELECT * FROM story.answer('C14', 1, 'not_happened', '400');
-- a contract that comes after the first send makes no key of it
INSERT INTO extaction.actions (action, provider, operation, self_approval, call_timeout) VALUES ('cx_none', 'cx-none', 'do', true, '10 s');
SELECT story.ask('C14b', 'cx_none'), story.claim('C14b');
SELECT story.later('C14b', '2 min');
INSERT INTO extaction.contracts (provider, operation, version, key_carrier, retention, on_expired, on_replay, on_mismatch,
    on_concurrent, stores_failures, proves_not_happened, lookup, absence_is_proof, lookup_lag, late_arrival_bound)
VALUES ('cx-none', 'do', 1, 'header', '24 hours', 'executes', 'first_result', 'rejects', 'waits', 'all', '{400}', 'none', false, NULL, '0');
SELECT story.claim('C14b', 'resend');
SELECT * FROM story.at('C14b');
SELECT * FROM story.answer('C14b', 1, 'not_happened', '400');

-- an earlier attempt is open, also of what was given up, and was blocked before it went out
SELECT story.ask('open', 'cx_waits');
SELECT count(extaction.revoke_approval('open', approval_id, 'no')) FROM extaction.approval_status WHERE scope = 'open';
SELECT story.claim('open');
SELECT status, state FROM extaction.approve_in_advance('open', 'x', 'cx_waits', 'ada@example.org', '{"n": 1}');
SELECT story.claim('open');
SELECT story.later('open', '2 min'), story.claim('open', 'resend');
SELECT story.later('open', '2 min');
SELECT status, state FROM extaction.abandon('open', 'x', 'enough');
SELECT status, state FROM story.answer('open', 2, 'not_happened', '400');

--
-- Condition 7 of a resend: the delay counts from the last answer, or from the end of the last lease
--
SELECT story.ask('C7c', 'cx_slow'), story.claim('C7c');
SELECT * FROM story.answer('C7c', 1, 'uncertain', 'timeout');
SELECT step, due_at - now() BETWEEN '4 min 50 s' AND '5 min' AS after_the_delay FROM extaction.next_step('C7c', 'x');
SELECT story.later('C7c', '6 min'), story.claim('C7c', 'resend');
-- attempt 2 is lost: its lease has just ended
SELECT story.later('C7c', '61 s');
SELECT step, due_at - now() BETWEEN '4 min 50 s' AND '5 min' AS after_the_delay FROM extaction.next_step('C7c', 'x');

-- the facts agree with each other
SELECT * FROM extaction.verify();

DELETE FROM extaction.actions WHERE action LIKE 'cx\_%';
