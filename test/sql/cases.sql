--
-- cases: what went wrong elsewhere, each with the right value
--
SET client_min_messages = warning;
-- a good provider with a key for a day; eventually consistent; without a key; one that stores failures
INSERT INTO extaction.contracts (provider, operation, version, key_carrier, retention, on_expired, on_replay, on_mismatch,
    on_concurrent, stores_failures, proves_not_happened, lookup, absence_is_proof, lookup_lag, late_arrival_bound)
VALUES ('cases-pay', 'pay', 1, 'header', '24 hours', 'executes', 'first_result', 'rejects', 'rejects', 'all', '{400,401}', 'by_key', true, '1 min', '10 min'),
       ('cases-nolook', 'pay', 1, 'header', '24 hours', 'executes', 'first_result', 'rejects', 'rejects', 'all', '{400}', 'none', false, NULL, '10 min'),
       ('cases-list', 'start', 1, 'header', '24 hours', 'executes', 'first_result', 'rejects', 'rejects', 'all', '{400}', 'by_marker', false, '5 min', '10 min'),
       ('cases-weak', 'pay', 1, 'header', '24 hours', 'executes', 'first_result', 'rejects', 'rejects', 'all', '{400}', 'by_key', true, '0', '0');
INSERT INTO extaction.actions (action, provider, operation, self_approval, call_timeout)
VALUES ('cases_pay', 'cases-pay', 'pay', true, '10 s'), ('cases_nolook', 'cases-nolook', 'pay', true, '10 s'), ('cases_start', 'cases-list', 'start', true, '10 s'),
       ('cases_comment', 'cases-nokey', 'comment', true, '10 s'), ('cases_weak', 'cases-weak', 'pay', true, '10 s');

--
-- "Already in progress" is no refusal: uncertain, then look or resend
--
SELECT story.ask('cases 1', 'cases_pay'), story.claim('cases 1');
SELECT * FROM story.answer('cases 1', 1, 'not_happened', 'in_progress');
SELECT story.claim('cases 1'), story.claim('cases 1', 'look');
-- the same, where there is nothing to look with
SELECT story.ask('cases 1b', 'cases_nolook'), story.claim('cases 1b');
SELECT * FROM story.answer('cases 1b', 1, 'not_happened', 'in_progress');

--
-- "Parameter mismatch" on attempt 2, while attempt 1 had started the machine:
-- no retry, no new key; a human, and todo says why
--
SELECT story.ask('cases 2', 'cases_start'), story.claim('cases 2');
SELECT idempotency_key AS key FROM extaction.find('cases 2', 'x') \gset
SELECT story.later('cases 2', '2 min'), story.claim('cases 2', 'resend');
SELECT * FROM story.answer('cases 2', 2, 'not_happened', 'mismatch', '0');
SELECT story.later('cases 2', '1 h'), story.claim('cases 2', 'resend'), story.claim('cases 2');
SELECT for_whom, state, next_step, needs FROM extaction.todo WHERE scope = 'cases 2';
-- another answer of the same attempt does not make it forgotten
SELECT * FROM story.answer('cases 2', 2, 'uncertain', 'timeout');
SELECT * FROM story.answer('cases 2', 2, 'uncertain');
SELECT idempotency_key = :'key' AS same_key FROM extaction.find('cases 2', 'x');

--
-- A 500 although the comment was created: one send only where there is no key
--
SELECT story.ask('cases 3', 'cases_comment'), story.claim('cases 3');
SELECT * FROM story.answer('cases 3', 1, 'not_happened', '500', '0');
SELECT story.later('cases 3', '1 day'), story.claim('cases 3'), story.claim('cases 3', 'resend');
SELECT count(*) AS sends FROM extaction.timeline WHERE scope = 'cases 3' AND kind = 'sending';

--
-- 401 or 429 on attempt 2 after a lost attempt 1: still uncertain
--
SELECT story.ask('cases 4', 'cases_pay'), story.claim('cases 4');
SELECT story.later('cases 4', '2 min'), story.claim('cases 4', 'resend');
SELECT * FROM story.answer('cases 4', 2, 'not_happened', '429', '0');
SELECT * FROM story.answer('cases 4', 2, 'not_happened', '401', '0');

--
-- A provider stores failures and replays its 500 for a day: resends stop
--
SELECT story.ask('cases 5', 'cases_pay'), story.claim('cases 5');
SELECT * FROM story.answer('cases 5', 1, 'uncertain', 'stored_failure');
SELECT story.later('cases 5', '1 h'), story.claim('cases 5', 'resend');
SELECT * FROM story.at('cases 5');

--
-- A lock ended by time-out: the right to look, not to send
--
SELECT story.ask('cases 6', 'cases_start'), story.claim('cases 6');
SELECT story.later('cases 6', '2 min'), story.claim('cases 6');
SELECT state FROM extaction.find('cases 6', 'x');

--
-- A rescuer that updated by id alone: a late result is evidence, the outcome stays
--
SELECT story.ask('cases 7', 'cases_pay'), story.claim('cases 7');
SELECT story.later('cases 7', '2 min'), story.claim('cases 7', 'resend');
SELECT * FROM story.answer('cases 7', 2, 'happened', '200');
SELECT * FROM story.answer('cases 7', 1, 'not_happened', '400');
SELECT * FROM story.at('cases 7');
SELECT kind, attempt FROM extaction.timeline WHERE scope = 'cases 7' AND kind IN ('happened', 'late_evidence', 'not_happened');

--
-- A new key at each try: the key depends on nothing that changes
--
SELECT story.ask('cases 8', 'cases_pay'), story.claim('cases 8');
SELECT idempotency_key AS key FROM extaction.find('cases 8', 'x') \gset
SELECT status, idempotency_key = :'key' AS same_key FROM extaction.submit('cases 8', 'x', 'cases_pay', 'ada@example.org', '{"n": 1}');
SELECT story.later('cases 8', '2 min'), story.claim('cases 8', 'resend');
SELECT idempotency_key = :'key' AS same_key, attempt FROM extaction.find('cases 8', 'x');

--
-- A key used again after its retention: at 23 h 58 min of 24 h it is look, not resend
--
SELECT story.ask('cases 9', 'cases_pay', expires => '10 days'), story.claim('cases 9');
SELECT story.later('cases 9', '23 h'), story.at('cases 9');
SELECT story.later('cases 9', '58 min'), story.at('cases 9');
SELECT story.claim('cases 9', 'resend');
SELECT reason FROM extaction.next_step('cases 9', 'x');

--
-- A contract weakened between prepare and retry: the weaker one counts, the pinned one stays on record
--
SELECT story.ask('cases 10', 'cases_weak'), story.claim('cases 10');
SELECT story.later('cases 10', '2 min'), story.at('cases 10');
INSERT INTO extaction.contracts (provider, operation, version, key_carrier, retention, on_expired, on_replay, on_mismatch,
    on_concurrent, stores_failures, proves_not_happened, lookup, absence_is_proof, lookup_lag, late_arrival_bound)
VALUES ('cases-weak', 'pay', 2, 'header', '24 hours', 'executes', 'first_result', 'rejects', 'rejects', 'success', '{}', 'by_key', false, '0', '0');
SELECT * FROM story.at('cases 10');
SELECT story.claim('cases 10', 'resend');
-- a refusal that only the older one lists proves nothing; nor does absence
SELECT * FROM story.answer('cases 10', 1, 'not_happened', '400');
SELECT status, needs FROM extaction.record_lookup('cases 10', 'x', 'absent', '{}', looked_at => now());
SELECT contract_version FROM extaction.intents WHERE scope = 'cases 10';

--
-- null sent where the approval had no such member: not equal
--
SELECT story.ask('cases 11', 'cases_pay');
SELECT status, needs FROM extaction.submit('cases 11', 'x', 'cases_pay', 'ada@example.org', '{"n": 1, "due": null}');
SELECT status FROM extaction.approve_in_advance('cases 11', 'y', 'cases_pay', 'ada@example.org', '{"n": 1}');
SELECT status, gate FROM extaction.submit('cases 11', 'y', 'cases_pay', 'ada@example.org', '{"n": 1, "due": null}');

--
-- Half a batch: ok, refused, lost; each on its own
--
SELECT story.ask('cases 12', 'cases_pay', i) FROM unnest('{m1,m2,m3}'::text[]) i;
SELECT story.claim('cases 12');
SELECT * FROM story.answer('cases 12', 1, 'happened', '200', intent_id => 'm1');
SELECT * FROM story.answer('cases 12', 1, 'not_happened', '400', intent_id => 'm2');
SELECT story.later('cases 12', '2 min');
SELECT intent_id, state FROM extaction.intent_status WHERE scope = 'cases 12' ORDER BY 1;

--
-- An empty look-up at once after the send, from an eventually consistent list
--
SELECT story.ask('cases 13', 'cases_start'), story.claim('cases 13');
SELECT * FROM story.answer('cases 13', 1, 'uncertain', 'timeout');
SELECT story.claim('cases 13', 'look');
SELECT status, state, needs FROM extaction.record_lookup('cases 13', 'x', 'absent', '{"found": 0}');
-- where absence is proof, after the quiet period: not_happened, prepared again under the same key
SELECT story.ask('cases 13b', 'cases_pay'), story.claim('cases 13b');
SELECT * FROM story.answer('cases 13b', 1, 'uncertain', 'timeout');
SELECT idempotency_key AS key FROM extaction.find('cases 13b', 'x') \gset
SELECT story.claim('cases 13b', 'look');
SELECT status, state, needs LIKE 'a look that begins after %' AS too_early FROM extaction.record_lookup('cases 13b', 'x', 'absent', '{"found": 0}');
SELECT story.later('cases 13b', '12 min 1 s'), story.claim('cases 13b', 'look');
SELECT status, state, next_step, idempotency_key = :'key' AS same_key FROM extaction.record_lookup('cases 13b', 'x', 'absent', '{"found": 0}');
SELECT kind FROM extaction.timeline WHERE scope = 'cases 13b' AND kind = 'not_happened';

--
-- Compensating something still uncertain: refused, with the reason
--
SELECT story.ask('cases 14', 'cases_pay'), story.claim('cases 14');
SELECT * FROM story.answer('cases 14', 1, 'uncertain', 'timeout');
SELECT status, state, needs FROM extaction.compensate('cases 14', 'x', 'undo', 'cases_pay', 'ada@example.org', '{"undo": 1}', 'mistake');

--
-- Two processes of one name, one restarting inside its lease: 20 intents, 20 sends
--
SELECT count(story.ask('cases 15', 'cases_pay', 'i' || i)) FROM generate_series(1, 20) i;
SELECT claim_id AS one FROM extaction.claim('w', 10, lease => '1 min', scope => 'cases 15') \gset
SELECT claim_id AS two FROM extaction.claim('w', 20, lease => '1 min', scope => 'cases 15') \gset
CREATE TEMP TABLE regress_cases_sent (scope text, intent_id text);
INSERT INTO regress_cases_sent SELECT scope, intent_id FROM extaction.claimed(:one);
-- it restarts, knows its ticket, and asks again; so does its namesake
INSERT INTO regress_cases_sent SELECT scope, intent_id FROM extaction.claimed(:one);
INSERT INTO regress_cases_sent SELECT scope, intent_id FROM extaction.claimed(:two);
INSERT INTO regress_cases_sent SELECT scope, intent_id FROM extaction.claimed(:two);
SELECT claimed FROM extaction.claim('w', 20, lease => '1 min', scope => 'cases 15');
SELECT count(*) AS sends, count(DISTINCT intent_id) AS intents FROM regress_cases_sent;

--
-- A late "happened" of attempt 1, after a human said absent and attempt 2 is prepared
--
SELECT story.ask('cases 16', 'cases_pay'), story.claim('cases 16');
SELECT story.later('cases 16', '20 min');
SELECT status, state FROM extaction.decide('cases 16', 'x', 'absent', 'I looked', now());
SELECT * FROM story.answer('cases 16', 1, 'happened', '200');
SELECT story.claim('cases 16'), story.claim('cases 16', 'resend');
SELECT for_whom, next_step, needs FROM extaction.todo WHERE scope = 'cases 16';
SELECT status, state FROM extaction.decide('cases 16', 'x', 'found', 'it is there', evidence => '{"late": 1}');
-- or already out: what is out stays out, and is the last
SELECT story.ask('cases 17', 'cases_pay'), story.claim('cases 17');
SELECT story.later('cases 17', '20 min');
SELECT status, state FROM extaction.decide('cases 17', 'x', 'absent', 'I looked', now());
SELECT story.claim('cases 17');
SELECT * FROM story.answer('cases 17', 1, 'happened', '200');
SELECT story.later('cases 17', '20 min'), story.claim('cases 17'), story.claim('cases 17', 'resend');
SELECT status, state FROM extaction.decide('cases 17', 'x', 'absent', 'I looked', now());
-- or closed by then: it is on the list again
SELECT story.ask('cases 18', 'cases_pay'), story.claim('cases 18');
SELECT * FROM story.answer('cases 18', 1, 'not_happened', '400');
SELECT status, state FROM extaction.retry('cases 18', 'x', 'again');
SELECT story.claim('cases 18');
SELECT * FROM story.answer('cases 18', 2, 'not_happened', '400');
SELECT * FROM story.answer('cases 18', 1, 'happened', '200');
SELECT for_whom, state, next_step FROM extaction.todo WHERE scope = 'cases 18';
-- given up again, the late word still counts: absence is not taken
SELECT status, state FROM extaction.abandon('cases 18', 'x', 'enough');
SELECT status, state FROM extaction.decide('cases 18', 'x', 'absent', 'I looked', now() - interval '1 s');
SELECT * FROM story.answer('cases 18', 2, 'not_happened', 'never_sent');
SELECT state FROM extaction.find('cases 18', 'x');

-- the facts agree with each other
SELECT * FROM extaction.verify();

DROP TABLE regress_cases_sent;
DELETE FROM extaction.actions WHERE action LIKE 'cases\_%';
