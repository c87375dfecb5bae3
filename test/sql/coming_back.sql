--
-- coming_back: record_outcome, record_lookup, decide, retry, abandon,
-- compensate
--
-- The ledger judges, it does not believe: happened needs something that says
-- so, not_happened a code that proves it, absence a look that began late
-- enough.  Whatever proves neither is uncertain.
--
SET client_min_messages = warning;
CREATE ROLE regress_back_worker;
CREATE ROLE regress_back_approver;
SELECT extaction.create_scope('back');
SELECT extaction.grant_access('back', 'regress_back_worker', 'worker');
SELECT extaction.grant_access('back', 'regress_back_approver', 'approver');
-- a good provider; one whose look-up proves nothing; one without a key, with nothing to look with
INSERT INTO extaction.contracts (provider, operation, version, key_carrier, retention, on_expired, on_replay, on_mismatch,
    on_concurrent, stores_failures, proves_not_happened, lookup, absence_is_proof, lookup_lag, late_arrival_bound)
VALUES ('back-good', 'do', 1, 'header', '24 hours', 'executes', 'first_result', 'rejects', 'executes_twice', 'all', '{400,401,ResourceExhausted}', 'by_key', true, '1 min', '10 min'),
       ('back-list', 'do', 1, 'header', '24 hours', 'executes', 'first_result', 'rejects', 'executes_twice', 'all', '{400}', 'by_marker', false, '1 min', '10 min'),
       ('back-unbounded', 'do', 1, 'header', '24 hours', 'executes', 'first_result', 'rejects', 'rejects', 'all', '{400}', 'by_key', true, NULL, NULL);
INSERT INTO extaction.actions (action, provider, operation, self_approval, call_timeout, max_attempts, retry_delay)
VALUES ('back_good', 'back-good', 'do', true, '10 s', 3, '5 s'), ('back_list', 'back-list', 'do', true, '10 s', 3, '5 s'),
       ('back_nokey', 'back-nokey', 'do', true, '10 s', 3, '5 s'), ('back_unbounded', 'back-unbounded', 'do', true, '10 s', 3, '5 s');

--
-- Errors first
--
SELECT story.ask('back', 'back_good');
SET ROLE regress_back_approver;
SELECT extaction.record_outcome('back', 'x', 1, 'happened');
SET ROLE regress_back_worker;
-- nothing was sent yet, no such intent, no such word, no such scope
SELECT extaction.record_outcome('back', 'x', 1, 'happened', '{}');
SELECT extaction.record_outcome('back', 'x', NULL, 'happened', '{}');
SELECT extaction.record_outcome('back', 'y', 1, 'happened', '{}');
SELECT extaction.record_outcome('back', 'x', 1, 'done', '{}');
SELECT extaction.record_outcome('elsewhere', 'x', 1, 'happened', '{}');
SELECT extaction.record_lookup('back', 'x', 'maybe');
SELECT extaction.record_lookup('back', 'y', 'found', '{}');
SELECT extaction.decide('back', 'x', 'found', 'I saw it');
SET ROLE regress_back_approver;
SELECT extaction.decide('back', 'x', 'unknown', 'I did not see it');
SELECT extaction.decide('back', 'x', 'found', NULL);
SELECT extaction.retry('back', 'x', '');
SELECT extaction.abandon('back', 'x', NULL);
RESET ROLE;

--
-- happened
--
SELECT story.claim('back');
-- with nothing that says so it is kept as uncertain
SELECT * FROM story.answer('back', 1, 'happened');
-- a code of ours that means "we do not know" is no proof
SELECT * FROM story.answer('back', 1, 'happened', 'timeout');
SELECT status, state FROM extaction.record_outcome('back', 'x', 1, 'happened', '{}');
-- evidence, or a provider's reference
SELECT status, state, next_step, needs, provider_ref, attempt FROM extaction.record_outcome('back', 'x', 1, 'happened', '{"code": 201}', 'msg-17');
-- the same again: no event
SELECT status, state, receipt_id, provider_ref FROM extaction.record_outcome('back', 'x', 1, 'happened', '{"code": 201}', 'msg-17');
-- it never changes: another answer is kept, no more
SELECT * FROM story.answer('back', 1, 'not_happened', '400');
SELECT * FROM story.answer('back', 1, 'uncertain', 'timeout');
SELECT status, state, needs FROM extaction.record_lookup('back', 'x', 'absent', '{}', looked_at => now());
SELECT status, state, needs FROM extaction.decide('back', 'x', 'absent', 'it is not there', now());
SELECT status, state FROM extaction.record_lookup('back', 'x', 'found', '{"id": "msg-17"}');
SELECT status, state, needs FROM extaction.retry('back', 'x', 'again');
SELECT status, state, needs FROM extaction.abandon('back', 'x', 'enough');
SELECT status, state, needs FROM extaction.cancel('back', 'x', 'enough');
SELECT kind, attempt, detail FROM extaction.timeline WHERE scope = 'back' AND intent_id = 'x' AND attempt IS NOT NULL AND kind <> 'sending';
SELECT count(*) FROM extaction.worklist WHERE scope = 'back' AND intent_id = 'x';
SELECT intent_id, state, attempt, provider_ref FROM extaction.sent_to('back', 'ada@example.org');

--
-- not_happened
--
SELECT story.ask('b2', 'back_good');
SELECT story.claim('b2');
-- no code, a code that proves nothing, codes of ours
SELECT o, c, a.* FROM (VALUES (1, NULL), (2, '500'), (3, '429'), (4, 'timeout'), (5, 'reset'), (6, 'in_progress'), (7, 'exists')) v (o, c),
    story.answer('b2', 1, 'not_happened', c) a ORDER BY o;
-- the same again: no event
SELECT status, receipt_id FROM extaction.record_outcome('b2', 'x', 1, 'not_happened', '{"code": "exists"}');
-- a listed code, as a number too; without retry_after it is closed
SELECT status, state, next_step, needs FROM extaction.record_outcome('b2', 'x', 1, 'not_happened', '{"code": 400}');
SELECT status, state, receipt_id FROM extaction.record_outcome('b2', 'x', 1, 'not_happened', '{"code": 400}');
SELECT count(*) FROM extaction.worklist WHERE scope = 'b2';
-- with retry_after it is prepared again, under the same key, and due then
SELECT story.ask('b3', 'back_good');
SELECT story.claim('b3');
SELECT * FROM story.answer('b3', 1, 'not_happened', 'ResourceExhausted', '1 h');
SELECT step, due_at - now() BETWEEN '59 min' AND '60 min' AS in_an_hour FROM extaction.next_step('b3', 'x');
SELECT story.claim('b3');
-- never_sent goes again by itself, after retry_delay
SELECT story.ask('b4', 'back_good');
SELECT story.claim('b4');
SELECT * FROM story.answer('b4', 1, 'not_happened', 'never_sent');
SELECT step, due_at - now() BETWEEN '3 s' AND '5 s' AS in_five_seconds FROM extaction.next_step('b4', 'x');
-- as long as there are attempts
SELECT story.later('b4', '10 s'), story.claim('b4');
SELECT * FROM story.answer('b4', 2, 'not_happened', 'never_sent');
SELECT story.later('b4', '10 s'), story.claim('b4');
SELECT * FROM story.answer('b4', 3, 'not_happened', 'never_sent');
-- and an approval
SELECT story.ask('b5', 'back_good', expires => '30 s');
SELECT story.claim('b5');
SELECT count(extaction.revoke_approval('b5', approval_id, 'no')) FROM extaction.approval_status WHERE scope = 'b5';
SELECT * FROM story.answer('b5', 1, 'not_happened', '400', '0');

--
-- uncertain, and an earlier attempt that is open
--
SELECT story.ask('c1', 'back_good');
SELECT story.claim('c1');
SELECT * FROM story.answer('c1', 1, 'uncertain', 'timeout');
SELECT * FROM story.answer('c1', 1, 'uncertain', 'timeout');
SELECT story.later('c1', '20 min'), story.claim('c1', 'resend');
-- a refusal of attempt 2 says nothing about attempt 1; nor does never_sent
SELECT * FROM story.answer('c1', 2, 'not_happened', '400', '0');
SELECT story.later('c1', '20 min'), story.claim('c1', 'resend');
SELECT * FROM story.answer('c1', 3, 'not_happened', 'never_sent', '0');
-- given up, that is as true as before
SELECT status, state, next_step FROM extaction.abandon('c1', 'x', 'nobody knows');
SELECT * FROM story.answer('c1', 3, 'not_happened', '401', '0');

--
-- late: the answer of an older attempt settles nothing; happened stops everything
--
SELECT story.ask('d1', 'back_good');
SELECT story.claim('d1');
SELECT * FROM story.answer('d1', 1, 'uncertain', 'timeout');
SELECT story.later('d1', '20 min'), story.claim('d1', 'resend');
SELECT * FROM story.answer('d1', 1, 'not_happened', '400');
SELECT * FROM story.at('d1');
SELECT * FROM story.answer('d1', 1, 'happened', '201');
-- attempt 2 stays out; whatever it says, nothing goes out any more
SELECT * FROM story.at('d1');
SELECT * FROM story.answer('d1', 2, 'not_happened', '400', '0');
SELECT story.later('d1', '20 min'), story.claim('d1', 'resend'), story.claim('d1');
SELECT for_whom, next_step, needs FROM extaction.todo WHERE scope = 'd1';
SELECT status, state, needs FROM extaction.record_lookup('d1', 'x', 'absent', '{}', looked_at => now());
SELECT status, state, needs FROM extaction.decide('d1', 'x', 'absent', 'not there', now());
SELECT status, state FROM extaction.decide('d1', 'x', 'found', 'the late answer says so');
-- an answer of the current attempt after its lease still settles it
SELECT story.ask('d2', 'back_good');
SELECT story.claim('d2');
SELECT story.later('d2', '20 min');
SELECT * FROM story.answer('d2', 1, 'happened', '201');

--
-- record_lookup
--
SELECT story.ask('e1', 'back_good');
-- what is prepared can't be looked up
SELECT status, state, needs FROM extaction.record_lookup('e1', 'x', 'absent', '{}', looked_at => now());
SELECT status, state, needs FROM extaction.record_lookup('e1', 'x', 'found', '{"id": 1}');
SELECT story.claim('e1');
-- nor can what a worker is just sending be missing
SELECT status, state, needs FROM extaction.record_lookup('e1', 'x', 'absent', '{}', looked_at => now());
SELECT * FROM story.answer('e1', 1, 'uncertain', 'reset');
-- absent: when the look began must be said, and lie after lease, late_arrival_bound and lookup_lag
SELECT status, state, needs FROM extaction.record_lookup('e1', 'x', 'absent', '{}');
SELECT status, state, needs FROM extaction.record_lookup('e1', 'x', 'absent', '{}', looked_at => now() + interval '1 day');
SELECT status, state, needs LIKE 'a look that begins after %' AS says_when FROM extaction.record_lookup('e1', 'x', 'absent', '{}', looked_at => now());
SELECT story.later('e1', '11 min');
SELECT status, state, needs LIKE 'a look that begins after %' AS says_when FROM extaction.record_lookup('e1', 'x', 'absent', '{}', looked_at => now());
-- unknown: by the cadence again
SELECT status, state, next_step FROM extaction.record_lookup('e1', 'x', 'unknown');
SELECT story.claim('e1', 'look');
SELECT story.later('e1', '3 min'), story.claim('e1', 'look');
-- the claim wrote when the look began; the program's own word does not count then
SELECT status, state, next_step, attempt FROM extaction.record_lookup('e1', 'x', 'absent', '{}');
SELECT kind, attempt, detail FROM extaction.timeline WHERE scope = 'e1' AND kind NOT IN ('approved', 'prepared', 'sending');
-- prepared again, under the same key; and found beats absent
SELECT story.claim('e1');
SELECT story.later('e1', '20 min');
SELECT status, state, provider_ref FROM extaction.record_lookup('e1', 'x', 'found', provider_ref => 'msg-18');
-- a look that was claimed and forgotten does not count for a later one
SELECT story.ask('e3', 'back_good'), story.claim('e3');
SELECT * FROM story.answer('e3', 1, 'uncertain', 'reset');
SELECT story.claim('e3', 'look'), story.later('e3', '20 min');
SELECT status, state FROM extaction.record_lookup('e3', 'x', 'absent', '{}', looked_at => now());
-- found with nothing to show is not proven
SELECT story.ask('e2', 'back_good'), story.claim('e2');
SELECT story.later('e2', '20 min');
SELECT status, state, needs FROM extaction.record_lookup('e2', 'x', 'found');
-- after some unknown looks it is a human's
DO $$ BEGIN FOR i IN 1..10 LOOP PERFORM extaction.record_lookup('e2', 'x', 'unknown'); END LOOP; END $$;
SELECT * FROM story.at('e2');
SELECT for_whom, needs FROM extaction.todo WHERE scope = 'e2';

--
-- Where the contract does not take absence as proof: a human's word, after the same time
--
SELECT story.ask('f1', 'back_list'), story.claim('f1');
SELECT story.later('f1', '11 min');
SELECT status, state, needs FROM extaction.record_lookup('f1', 'x', 'absent', '{}', looked_at => now());
SELECT status, state, needs FROM extaction.decide('f1', 'x', 'absent', 'I looked');
SELECT status, state, needs LIKE 'a look that begins after %' AS says_when FROM extaction.decide('f1', 'x', 'absent', 'I looked', now());
SELECT story.later('f1', '2 min');
SELECT status, state, next_step FROM extaction.decide('f1', 'x', 'absent', 'I looked again', now());
SELECT kind, detail FROM extaction.timeline WHERE scope = 'f1' AND kind IN ('decided', 'not_happened');
-- nothing bounds how late it may arrive: never proved absent
SELECT story.ask('f2', 'back_unbounded'), story.claim('f2');
SELECT story.later('f2', '1000 days');
SELECT status, state, needs FROM extaction.record_lookup('f2', 'x', 'absent', '{}', looked_at => now());
SELECT status, state, needs FROM extaction.decide('f2', 'x', 'absent', 'I looked', now());
-- a human's found is taken at once
SELECT status, state FROM extaction.decide('f2', 'x', 'found', 'I saw it', provider_ref => 'seen-1');
-- without any contract: no key, so a human; its hour and five minutes hold all the same
SELECT story.ask('f3', 'back_nokey'), story.claim('f3');
SELECT * FROM story.answer('f3', 1, 'uncertain', '500');
SELECT story.claim('f3', 'resend'), story.claim('f3', 'look');
-- and a worker is not told to come back for it at once
SELECT claimed, next_due_at FROM extaction.claim('w', 1, 'look', scope => 'f3');
SELECT story.later('f3', '60 min');
SELECT status, state FROM extaction.decide('f3', 'x', 'absent', 'I looked', now());
SELECT story.later('f3', '7 min');
SELECT status, state FROM extaction.decide('f3', 'x', 'absent', 'I looked', now());

--
-- absent, and the approval has ended: closed, not prepared
--
SELECT story.ask('f4', 'back_good'), story.claim('f4');
SELECT count(extaction.revoke_approval('f4', approval_id, 'no')) FROM extaction.approval_status WHERE scope = 'f4';
SELECT story.later('f4', '20 min');
SELECT status, state FROM extaction.decide('f4', 'x', 'absent', 'I looked', now());
-- a switch, by contrast, closes nothing
SELECT story.ask('f5', 'back_good'), story.claim('f5');
UPDATE extaction.actions SET enabled = false WHERE action = 'back_good';
SELECT * FROM story.answer('f5', 1, 'not_happened', 'never_sent');
UPDATE extaction.actions SET enabled = true WHERE action = 'back_good';

--
-- retry: only a closed not_happened, all gates asked again
--
SELECT status, state, gate, needs FROM extaction.retry('f4', 'x', 'once more');
-- which may be given, and then it goes
SELECT status, state FROM extaction.approve_in_advance('f4', 'x', 'back_good', 'ada@example.org', '{"n": 1}');
SELECT status, state FROM extaction.retry('f4', 'x', 'once more');
SELECT status, state, next_step FROM extaction.retry('b2', 'x', 'once more');
SELECT status, state, next_step FROM extaction.retry('b2', 'x', 'once more');
SELECT status, needs FROM extaction.retry('b2', 'y', 'once more');
SELECT story.claim('b2');
-- attempt 2, under the same key
SELECT state, attempt FROM extaction.find('b2', 'x');
SELECT status, needs FROM extaction.retry('b2', 'x', 'once more');
SELECT kind, attempt, detail FROM extaction.timeline WHERE scope = 'b2' AND kind IN ('retried', 'sending');

-- what was given back as never sent has nothing to be retried
SELECT story.ask('b6', 'back_good');
SELECT claim_id FROM extaction.claim('w', scope => 'b6') \gset
SELECT extaction.release(:claim_id);
SELECT status, needs FROM extaction.retry('b6', 'x', 'once more');

--
-- abandon: only uncertain; it stays uncertain, and leaves the list
--
SELECT story.ask('g1', 'back_good');
SELECT status, needs FROM extaction.abandon('g1', 'x', 'enough');
SELECT story.claim('g1');
SELECT status, needs FROM extaction.abandon('g1', 'x', 'enough');
SELECT story.later('g1', '2 min');
SELECT status, state, next_step FROM extaction.abandon('g1', 'x', 'enough');
SELECT status, state FROM extaction.abandon('g1', 'x', 'enough');
SELECT count(*) FROM extaction.todo WHERE scope = 'g1';
SELECT story.claim('g1', 'resend'), story.claim('g1', 'look');
SELECT kind, attempt FROM extaction.timeline WHERE scope = 'g1' AND kind NOT IN ('approved', 'prepared');
SELECT ended_by FROM extaction.grey_zone WHERE scope = 'g1';
-- what is found out later is taken all the same
SELECT * FROM story.answer('g1', 1, 'happened', '201');

--
-- compensate: only of what happened, no earlier than nothing can arrive any more
--
SELECT story.ask('h1', 'back_good'), story.claim('h1');
SELECT status, state, next_step, needs FROM extaction.compensate('h1', 'x', 'undo', 'back_good', 'ada@example.org', '{"undo": 1}', 'wrong address');
SELECT status, state, needs FROM extaction.compensate('h1', 'y', 'undo', 'back_good', 'ada@example.org', '{"undo": 1}', 'wrong address');
SELECT extaction.compensate('h1', 'x', 'undo', 'back_good', 'ada@example.org', '{"undo": 1}', '');
SELECT * FROM story.answer('h1', 1, 'uncertain', 'timeout');
SELECT status, state, needs FROM extaction.compensate('h1', 'x', 'undo', 'back_good', 'ada@example.org', '{"undo": 1}', 'wrong address');
SELECT * FROM story.answer('h1', 1, 'happened', '201');
-- it is a request like any other: it waits for its own approval
SELECT status, state, gate, request_digest AS digest FROM extaction.compensate('h1', 'x', 'undo', 'back_good', 'ada@example.org', '{"undo": 1}', 'wrong address') \gset
\echo :status :state :gate
SELECT status, state FROM extaction.approve('h1', :'digest');
SELECT compensates, due_at - now() BETWEEN '10 min 30 s' AND '11 min' AS after_lease_and_bound FROM extaction.intent_status WHERE scope = 'h1' AND intent_id = 'undo';
SELECT story.claim('h1');
SELECT kind, detail FROM extaction.timeline WHERE scope = 'h1' AND intent_id = 'x' AND kind = 'compensated';
SELECT status, state FROM extaction.compensate('h1', 'x', 'undo', 'back_good', 'ada@example.org', '{"undo": 1}', 'wrong address');
-- submitted by itself while it waits, it keeps its time and what it undoes
SELECT story.ask('h2', 'back_good'), story.claim('h2');
SELECT * FROM story.answer('h2', 1, 'happened', '201');
SELECT status FROM extaction.compensate('h2', 'x', 'undo', 'back_good', 'ada@example.org', '{"undo": 1}', 'wrong address');
UPDATE extaction.actions SET enabled = false WHERE action = 'back_good';
SELECT status, state, needs FROM extaction.approve_in_advance('h2', 'undo', 'back_good', 'ada@example.org', '{"undo": 1}');
UPDATE extaction.actions SET enabled = true WHERE action = 'back_good';
SELECT status, state FROM extaction.submit('h2', 'undo', 'back_good', 'ada@example.org', '{"undo": 1}');
SELECT compensates, due_at > now() + '10 min' AS after_lease_and_bound FROM extaction.intent_status WHERE scope = 'h2' AND intent_id = 'undo';
-- the other way round: submitted first, then said to be an undo
SELECT story.ask('h3', 'back_good'), story.claim('h3');
SELECT * FROM story.answer('h3', 1, 'happened', '201');
SELECT status FROM extaction.submit('h3', 'undo', 'back_good', 'ada@example.org', '{"undo": 1}');
SELECT status FROM extaction.compensate('h3', 'x', 'undo', 'back_good', 'ada@example.org', '{"undo": 1}', 'wrong address');
-- both again append nothing
SELECT status, receipt_id FROM extaction.compensate('h3', 'x', 'undo', 'back_good', 'ada@example.org', '{"undo": 1}', 'wrong address');
SELECT status, receipt_id FROM extaction.submit('h3', 'undo', 'back_good', 'ada@example.org', '{"undo": 1}');
SELECT status, state FROM extaction.approve_in_advance('h3', 'undo', 'back_good', 'ada@example.org', '{"undo": 1}');
SELECT compensates, due_at > now() + '10 min' AS after_lease_and_bound FROM extaction.intent_status WHERE scope = 'h3' AND intent_id = 'undo';

-- the facts agree with each other
SELECT * FROM extaction.verify();

SELECT count(extaction.revoke_access(scope, member_name, capability)) FROM extaction.scope_members WHERE member_name LIKE 'regress\_back\_%';
DELETE FROM extaction.actions WHERE action LIKE 'back\_%';
DROP ROLE regress_back_worker, regress_back_approver;
