--
-- What must not get through: each is stopped by a gate before it reaches the
-- provider, is answered by a receipt, and is on somebody's list.
--
-- story.after() shows the provider's numbers, which stay 0 until the last
-- part of this file, and the row on todo.
--
\set SHOW_CONTEXT never
\pset null '-'
\set receipt 'status, gate, state, next_step, attempt, provider_ref, receipt_id IS NOT NULL AS logged'

SELECT * FROM story.begins('broken');

--
-- Nobody has approved
--

-- approval_missing
SELECT :receipt, needs FROM extaction.submit_fake_task('broken', story.task('nobody'));
SELECT * FROM story.after('broken', 'nobody');

-- nothing is bound; what waits can be found
SELECT status, gate, state, next_step, provider_ref, idempotency_key, bound_digest
FROM extaction.find('broken', 'nobody');

-- an approval that nobody gave
SELECT :receipt, approval_id FROM extaction.submit_fake_task('broken', story.task('nobody'), 'approved-by-the-boss');

-- a document that is something else, in an approval's place
SELECT :receipt FROM extaction.submit_fake_task('broken', story.task('nobody'), '{"decision": "same_person", "person_ref": "person/7"}');
SELECT * FROM story.after('broken', 'nobody');

-- such a document on several lines, or a long one, has not even the form of an approval_id
SELECT * FROM story.fault($$ SELECT extaction.submit_fake_task('broken', story.task('nobody'), E'{\n"decision": "same_person"\n}') $$);
SELECT * FROM story.fault($$ SELECT extaction.submit_fake_task('broken', story.task('nobody'), repeat('x', 256)) $$);
SELECT * FROM story.fault($$ SELECT extaction.submit_fake_task('broken', story.task('nobody'), '') $$);
SELECT :receipt FROM extaction.submit_fake_task('broken', story.task('nobody'), repeat('x', 255));

-- the approval of another intent
SELECT status FROM extaction.approve_fake_task('broken', story.task('other'), approval_id => 'of other');
SELECT :receipt FROM extaction.submit_fake_task('broken', story.task('nobody'), 'of other');

-- the approval of another scope
SELECT * FROM story.begins('broken elsewhere');
SELECT status FROM extaction.approve_fake_task('broken elsewhere', story.task('nobody'), approval_id => 'of elsewhere');
SELECT :receipt FROM extaction.submit_fake_task('broken', story.task('nobody'), 'of elsewhere');
SELECT :receipt FROM extaction.submit_fake_task('broken', story.task('nobody'));
SELECT * FROM story.after('broken', 'nobody');

--
-- The candidate or its source has changed
--

-- approved for the first revision; then the program reads the letter again
SELECT status FROM extaction.approve_fake_task('broken', story.task('revised'), approval_id => 'of revised');
SELECT status, revision FROM extaction.propose('broken', 'candidate-1', '{"title": "Call Ada today"}', 'letter-31', 'version 1');

-- candidate_changed: with the old document
SELECT :receipt FROM extaction.submit_fake_task('broken', story.task('revised'));
-- and with a document that names the new revision, but the old approval
SELECT :receipt FROM extaction.submit_fake_task('broken',
    story.task('revised', content => '{"title":"Call Ada today"}'), 'of revised');
SELECT * FROM story.after('broken', 'revised');

-- the same content again is a revision too, and the digest of revision 1 is
-- current again: with it, nothing has changed
SELECT status, revision FROM extaction.propose('broken', 'candidate-1', '{"title": "Call Ada back"}', 'letter-31', 'version 1');
BEGIN;
SELECT status, gate FROM extaction.submit_fake_task('broken', story.task('revised'));
ROLLBACK;

-- a candidate that nobody proposed; one that another scope has
SELECT status FROM extaction.propose('broken elsewhere', 'candidate-2', '{"title": "Call Ada back"}', 'letter-31', 'version 1');
SELECT status FROM extaction.approve_fake_task('broken', story.task('no candidate', candidate_id => 'candidate-2'));
SELECT :receipt FROM extaction.submit_fake_task('broken', story.task('no candidate', candidate_id => 'candidate-2'));

-- another candidate than the approved one
SELECT status FROM extaction.propose('broken', 'candidate-3', '{"title": "Call Ada back"}', 'letter-31', 'version 1');
SELECT :receipt FROM extaction.submit_fake_task('broken', story.task('revised', candidate_id => 'candidate-3'), 'of revised');
SELECT * FROM story.after('broken', 'no candidate');

-- source_changed: the letter has a new version
SELECT status FROM extaction.approve_fake_task('broken', story.task('corrected'), approval_id => 'of corrected');
SELECT extaction.observe_source('broken', 'letter-31', 'version 2');
SELECT :receipt FROM extaction.submit_fake_task('broken', story.task('corrected'));
SELECT * FROM story.after('broken', 'corrected');
-- the candidate read again, with the same words: still another request
SELECT status, revision FROM extaction.propose('broken', 'candidate-1', '{"title": "Call Ada back"}', 'letter-31', 'version 2');
SELECT :receipt FROM extaction.submit_fake_task('broken', story.task('corrected'));
SELECT :receipt FROM extaction.submit_fake_task('broken', story.task('corrected', source_version => 'version 2'), 'of corrected');
-- nor may the document claim a version that the candidate was not read from
SELECT extaction.observe_source('broken', 'letter-31', 'version 3');
SELECT status FROM extaction.approve_fake_task('broken', story.task('claims', source_version => 'version 3'));
SELECT :receipt FROM extaction.submit_fake_task('broken', story.task('claims', source_version => 'version 3'));
SELECT * FROM story.after('broken', 'claims');

-- both: the candidate is named first
SELECT status, revision FROM extaction.propose('broken', 'candidate-1', '{"title": "Write to Ada"}', 'letter-31', 'version 3');
SELECT :receipt FROM extaction.submit_fake_task('broken', story.task('corrected'));

-- back to what the rest of this file speaks of
SELECT extaction.observe_source('broken', 'letter-31', 'version 1');
SELECT status, revision FROM extaction.propose('broken', 'candidate-1', '{"title": "Call Ada back"}', 'letter-31', 'version 1');

--
-- What was approved is altered: the gate names which
--
SELECT status FROM extaction.approve_fake_task('broken', story.task('altered'), approval_id => 'of altered');

-- with the old approval named, and not named: the same answers
SELECT what, status, gate, approval_id
FROM (VALUES
    (1, 'title',       jsonb_set(story.task('altered'), '{task,title}', '"Call Bob back"')),
    (2, 'title''s case', jsonb_set(story.task('altered'), '{task,title}', '"Call ADA back"')),
    (3, 'assignee',    jsonb_set(story.task('altered'), '{task,assignee_person_ref}', '"person/7"')),
    (4, 'date',        jsonb_set(story.task('altered'), '{task,due_at}', '"2026-12-31"')),
    (5, 'request_id',  jsonb_set(story.task('altered'), '{request_id}', '"request-2"')),
    (6, 'provider',    jsonb_set(story.task('altered'), '{provider}', '"other-provider.v1"')),
    (7, 'operation',   jsonb_set(story.task('altered'), '{operation}', '"delete_task"')),
    (8, 'all three',   jsonb_set(jsonb_set(jsonb_set(story.task('altered'), '{operation}', '"delete_task"'),
                                 '{provider}', '"other-provider.v1"'), '{task,title}', '"Call Bob back"')),
    (9, 'provider and title', jsonb_set(jsonb_set(story.task('altered'),
                                 '{provider}', '"other-provider.v1"'), '{task,title}', '"Call Bob back"')),
    (10, 'title and candidate', story.task('altered', 'Call Bob back', 'candidate-3'))) v (no, what, document),
    (VALUES ('of altered'), (NULL)) a (named),
    LATERAL extaction.submit_fake_task('broken', document, named) r
ORDER BY no, named;
SELECT * FROM story.after('broken', 'altered');

-- each refusal is kept in full, for who has to see to it
SELECT count(DISTINCT e.request_digest) AS refused, count(DISTINCT r.request_digest) AS kept
FROM extaction.events e LEFT JOIN extaction.requests r USING (scope, request_digest)
WHERE e.scope = 'broken' AND e.intent_id = 'altered' AND e.kind = 'blocked';

-- the list has one row for the intent: the last that was asked for
SELECT request_digest AS last FROM extaction.submit_fake_task('broken', story.task('altered', 'Call Carol')) \gset
SELECT request_digest = :'last' AS is_last FROM extaction.todo WHERE scope = 'broken' AND intent_id = 'altered';

-- an approver can only allow what the provider does
SELECT * FROM story.fault($$ SELECT extaction.approve_fake_task('broken', jsonb_set(story.task('altered'), '{operation}', '"delete_task"')) $$);
SELECT * FROM story.fault($$ SELECT extaction.approve_fake_task('broken', jsonb_set(story.task('altered'), '{provider}', '"other-provider.v1"')) $$);

--
-- The approval is for something else: capability
--
SELECT status, approvals, required
FROM extaction.approve_fake_task('broken', story.task('publish'), capability => 'publish', approval_id => 'to publish');
SELECT :receipt FROM extaction.submit_fake_task('broken', story.task('publish'), 'to publish');
SELECT :receipt FROM extaction.submit_fake_task('broken', story.task('publish'));
SELECT * FROM story.after('broken', 'publish');

--
-- The approval has ended
--

-- an end that has passed gives an approval that holds for nothing, and says so
SELECT status, approvals, needs FROM extaction.approve_fake_task('broken', story.task('late'), expires_at => '2020-01-01 00:00+00');

-- one that ends soon; every approval is judged by the clock, at the moment it is used
SELECT status, expires_at AS ends
FROM extaction.approve_fake_task('broken', story.task('late'), clock_timestamp() + '100 ms', 'ends soon') \gset
SELECT story.until(:'ends');
SELECT :receipt FROM extaction.submit_fake_task('broken', story.task('late'), 'ends soon');
SELECT :receipt FROM extaction.submit_fake_task('broken', story.task('late'));
SELECT * FROM story.after('broken', 'late');

-- one that ends while a transaction that began before is open: for now() it
-- holds, for the gate it does not
SELECT status, expires_at AS ends
FROM extaction.approve_fake_task('broken', story.task('meanwhile'), clock_timestamp() + '1 s', 'ends meanwhile') \gset
BEGIN;
SELECT now() < :'ends' AS holds_at_begin;
SELECT story.until(:'ends');
SELECT now() < :'ends' AS holds_at_begin;
SELECT :receipt FROM extaction.submit_fake_task('broken', story.task('meanwhile'), 'ends meanwhile');
COMMIT;
SELECT * FROM story.after('broken', 'meanwhile');

-- the same in REPEATABLE READ
SELECT status, expires_at AS ends
FROM extaction.approve_fake_task('broken', story.task('meanwhile'), clock_timestamp() + '1 s') \gset
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT now() < :'ends' AS holds_at_begin;
SELECT story.until(:'ends');
SELECT :receipt FROM extaction.submit_fake_task('broken', story.task('meanwhile'));
COMMIT;

-- without an end of its own it lasts as long as the catalogue says, and never longer than that allows
SELECT count(*) FROM extaction.approve_fake_task('broken', story.task('lasts'), approval_id => 'a day')
WHERE expires_at BETWEEN clock_timestamp() + '23 hours 59 minutes' AND clock_timestamp() + '24 hours';
BEGIN;
UPDATE extaction.actions SET approval_ttl_max = '1 hour' WHERE action = 'create_fake_task';
SELECT count(*) FROM extaction.approve_fake_task('broken', story.task('capped'), clock_timestamp() + '1 year')
WHERE expires_at BETWEEN clock_timestamp() + '59 minutes' AND clock_timestamp() + '1 hour';
SELECT count(*) FROM extaction.approve_fake_task('broken', story.task('capped too'), 'infinity')
WHERE expires_at BETWEEN clock_timestamp() + '59 minutes' AND clock_timestamp() + '1 hour';
ROLLBACK;

--
-- The approval was taken back
--
SELECT status FROM extaction.approve_fake_task('broken', story.task('regretted'), approval_id => 'regretted');

-- for a reason, and one that exists
SELECT * FROM story.fault($$ SELECT extaction.revoke_approval('broken', 'regretted', NULL) $$);
SELECT * FROM story.fault($$ SELECT extaction.revoke_approval('broken', 'regretted', '') $$);
SELECT * FROM story.fault($$ SELECT extaction.revoke_approval('broken', 'never given', 'why not') $$);
SELECT * FROM story.fault($$ SELECT extaction.revoke_approval('broken', 'of elsewhere', 'why not') $$);

SELECT status, approvals, state, approval_id FROM extaction.revoke_approval('broken', 'regretted', 'Ada has called');
SELECT :receipt FROM extaction.submit_fake_task('broken', story.task('regretted'), 'regretted');
SELECT :receipt FROM extaction.submit_fake_task('broken', story.task('regretted'));
SELECT * FROM story.after('broken', 'regretted');

-- again: the same answer, but no second fact
SELECT status FROM extaction.revoke_approval('broken', 'regretted', 'Ada has called twice');
SELECT count(*), min(reason) AS reason FROM extaction.revocations WHERE scope = 'broken';
SELECT kind, detail FROM extaction.timeline WHERE scope = 'broken' AND kind = 'revoked';

-- it does not come back under its name
SELECT state, path, message FROM story.fault($$ SELECT extaction.approve_fake_task('broken', story.task('regretted'), approval_id => 'regretted') $$);
-- nor can its name be used for something else
SELECT state, path, message FROM story.fault($$ SELECT extaction.approve_fake_task('broken', story.task('something else'), approval_id => 'of altered') $$);

-- with a new approval it goes; but not if the old one is insisted on
SELECT status, approvals FROM extaction.approve_fake_task('broken', story.task('regretted'), approval_id => 'anew');
SELECT :receipt FROM extaction.submit_fake_task('broken', story.task('regretted'), 'regretted');

-- nothing has got through so far: 0, 0, 0
SELECT requests, executions, tasks FROM extaction.fake_task_counts WHERE scope = 'broken';

-- everything waits for somebody
SELECT intent_id, state, for_whom, action, destination, gate, next_step FROM extaction.todo WHERE scope = 'broken' ORDER BY intent_id;

-- every refusal is in the log
SELECT detail ->> 'gate' AS gate, count(*) FROM extaction.timeline
WHERE scope = 'broken' AND kind = 'blocked' GROUP BY 1 ORDER BY 1;

--
-- What was stopped goes on when it is put right, and leaves the list
--

-- created, and the row is gone
SELECT status, gate, provider_ref IS NOT NULL AS task FROM extaction.submit_fake_task('broken', story.task('regretted'));
SELECT * FROM story.after('broken', 'regretted');
SELECT status, approvals FROM extaction.approve_fake_task('broken', story.task('nobody'));
SELECT status, gate FROM extaction.submit_fake_task('broken', story.task('nobody'));
SELECT * FROM story.after('broken', 'nobody');
-- beside an approval for something else, one that holds is enough
SELECT status, approvals FROM extaction.approve_fake_task('broken', story.task('publish'));
SELECT status, gate FROM extaction.submit_fake_task('broken', story.task('publish'));
SELECT * FROM story.after('broken', 'publish');
-- and the first approval of 'altered' still lets through what it is for
SELECT status, gate, approval_id FROM extaction.submit_fake_task('broken', story.task('altered'));
SELECT * FROM story.after('broken', 'altered');

--
-- After it has happened, the gates are crossed all the same
--

-- other content with an approval of its own: conflict, +1 request, nothing built
SELECT status, gate, state FROM extaction.submit_fake_task('broken', story.task('altered', 'Call Bob back'));
SELECT * FROM story.after('broken', 'altered');
SELECT status FROM extaction.approve_fake_task('broken', story.task('altered', 'Call Bob back'));
SELECT status, gate, state, next_step FROM extaction.submit_fake_task('broken', story.task('altered', 'Call Bob back'));
-- it has had its answer, and waits for no approver any more
SELECT * FROM story.after('broken', 'altered');
-- which is no answer to a third content that waits
SELECT status, gate FROM extaction.submit_fake_task('broken', story.task('altered', 'Call Dora'));
SELECT status FROM extaction.submit_fake_task('broken', story.task('altered', 'Call Bob back'));
SELECT * FROM story.after('broken', 'altered');

-- a replay under an approval that was taken back: blocked; too late for the first time, and it says so
SELECT status, state, needs, detail FROM extaction.revoke_approval('broken', 'anew', 'regretted after all');
SELECT :receipt FROM extaction.submit_fake_task('broken', story.task('regretted'));
SELECT status, state, provider_ref IS NOT NULL AS task, gate FROM extaction.find('broken', 'regretted');
SELECT * FROM story.after('broken', 'regretted');
-- with another approval: the same task
SELECT status FROM extaction.approve_fake_task('broken', story.task('regretted'), approval_id => 'for the replay');
SELECT status, approval_id FROM extaction.submit_fake_task('broken', story.task('regretted'));
SELECT * FROM story.after('broken', 'regretted');

--
-- The caller's transaction
--

-- ROLLBACK leaves nothing
SELECT status FROM extaction.approve_fake_task('broken', story.task('rolled back'));
CREATE TEMP TABLE rows_before AS SELECT * FROM story.rows();
BEGIN;
SELECT status FROM extaction.submit_fake_task('broken', story.task('rolled back'));
SELECT status FROM extaction.submit_fake_task('broken', story.task('rolled back'));
SELECT status FROM extaction.submit_fake_task('broken', story.task('rolled back', 'Call Bob back'));
SELECT status FROM extaction.approve_fake_task('broken', story.task('rolled back', 'Call Bob back'));
SELECT status FROM extaction.submit_fake_task('broken', story.task('rolled back', 'Call Bob back'));
ROLLBACK;
SELECT * FROM story.rows() EXCEPT SELECT * FROM rows_before;
SELECT find IS NULL AS unknown FROM extaction.find('broken', 'rolled back');

-- nor does ROLLBACK TO: then it is created by who comes next
BEGIN;
SAVEPOINT s;
SELECT status FROM extaction.submit_fake_task('broken', story.task('rolled back'));
ROLLBACK TO s;
SELECT status FROM extaction.submit_fake_task('broken', story.task('rolled back'));
SELECT status FROM extaction.submit_fake_task('broken', story.task('rolled back'));
COMMIT;

-- REPEATABLE READ and SERIALIZABLE: one session sees what it did itself
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT status FROM extaction.submit_fake_task('broken', story.task('repeatable'));
SELECT status FROM extaction.approve_fake_task('broken', story.task('repeatable'));
SELECT status FROM extaction.submit_fake_task('broken', story.task('repeatable'));
SELECT status FROM extaction.submit_fake_task('broken', story.task('repeatable'));
SELECT status, state FROM extaction.find('broken', 'repeatable');
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT status FROM extaction.approve_fake_task('broken', story.task('serializable'));
SELECT status FROM extaction.submit_fake_task('broken', story.task('serializable'));
SELECT status FROM extaction.submit_fake_task('broken', story.task('serializable'));
COMMIT;

-- many in one statement: one that is stopped does not stop the others
SELECT intent_id, status, gate
FROM unnest(ARRAY['serializable', 'never approved', 'repeatable']) i, extaction.submit_fake_task('broken', story.task(i));

-- READ ONLY says so itself
BEGIN READ ONLY;
SELECT state, message FROM story.fault($$ SELECT extaction.submit_fake_task('broken', story.task('read only')) $$);
ROLLBACK;

--
-- The same intent_id in two scopes is two intents
--
SELECT status FROM extaction.submit_fake_task('broken elsewhere', story.task('nobody'));
SELECT a.request_digest <> b.request_digest AS digests_differ, a.idempotency_key <> b.idempotency_key AS keys_differ,
       a.provider_ref <> b.provider_ref AS tasks_differ
FROM extaction.find('broken', 'nobody') a, extaction.find('broken elsewhere', 'nobody') b;
SELECT requests, executions, tasks FROM extaction.fake_task_counts WHERE scope = 'broken elsewhere';

-- accepted(): who wants an exception gets one, with the gate for a program
SELECT status FROM extaction.accepted((SELECT r FROM extaction.submit_fake_task('broken', story.task('repeatable')) r));
SELECT * FROM story.fault($$ SELECT extaction.accepted(extaction.submit_fake_task('broken', story.task('unaccepted'))) $$);
SELECT * FROM story.fault($$ SELECT extaction.accepted(extaction.submit_fake_task('broken', story.task('altered', 'Call Bob back'))) $$);
SELECT extaction.accepted(NULL) IS NULL AS nothing;
-- and then nothing of the refusal is left
SELECT find IS NULL AS unknown FROM extaction.find('broken', 'unaccepted');

-- after all this, assignee and date are still not guessed, and every digest, key and book agrees
SELECT count(*) AS tasks, count(assignee_person_ref) AS assigned, count(due_at) AS dated
FROM extaction.fake_tasks WHERE scope LIKE 'broken%';
SELECT * FROM extaction.verify();
