-- Chapter one of extaction, told by a real server: a task is created at a
-- provider, and asking again does not create it again.

\set QUIET on
\pset footer off
\pset null '-'
SET client_min_messages = warning;
CREATE EXTENSION extaction CASCADE;

-- what to show of a receipt
\set receipt 'status, gate, provider_ref, left(request_digest, 12) AS request_digest, needs'
\set counts 'SELECT requests, executions, tasks FROM extaction.fake_task_counts;'

\echo
\echo '1. A scope is made on purpose; a program reads a letter and proposes a task.'
\echo
SELECT extaction.create_scope('office');
SELECT extaction.observe_source('office', 'letter-31', 'version 1');
SELECT status, revision, left(digest, 12) AS digest
FROM extaction.propose('office', 'candidate-1', '{"title": "Call Ada back"}', 'letter-31', 'version 1');
SELECT jsonb_build_object(
         'schema_version', 'task-request.v1', 'fixture_kind', 'demo', 'request_id', 'request-1',
         'intent_id', 'letter-31/call-back', 'operation', 'create_task', 'provider', 'fake-task-provider.v1',
         'candidate_ref', jsonb_build_object('candidate_id', 'candidate-1', 'candidate_digest', digest,
                                             'source_id', 'letter-31', 'source_version', 'version 1'),
         'task', jsonb_build_object('title', 'Call Ada back', 'assignee_person_ref', NULL, 'due_at', NULL)) AS request
FROM extaction.propose('office', 'candidate-1', '{"title": "Call Ada back"}', 'letter-31', 'version 1')
\gset

\echo '2. The program submits. Nobody has approved: the gate stops it, and nothing reaches the provider.'
\echo
SELECT :receipt FROM extaction.submit_fake_task('office', :'request');
:counts

\echo '3. It waits for a human.'
\echo
SELECT intent_id, gate, for_whom, next_step, left(request_digest, 12) AS request_digest FROM extaction.todo;

\echo '4. A human approves exactly this request, and the program submits again.'
\echo
SELECT status, approvals, required, left(request_digest, 12) AS request_digest
FROM extaction.approve_fake_task('office', :'request');
SELECT :receipt FROM extaction.submit_fake_task('office', :'request');
:counts

\echo '5. Did the answer arrive? Another process is not sure, and sends the same again: 2 requests, 1 execution, 1 task.'
\echo
\connect -
SET client_min_messages = warning;
SELECT :receipt FROM extaction.submit_fake_task('office', :'request');
:counts

\echo '6. Somebody changes the text and uses the old approval.'
\echo
SELECT :receipt
FROM extaction.submit_fake_task('office', jsonb_set(:'request', '{task,title}', '"Call Ada and Bob back"'));
:counts

\echo '7. The changed text gets an approval of its own. But this intent has been done, with the first text.'
\echo
SELECT status, approvals, required, left(request_digest, 12) AS request_digest
FROM extaction.approve_fake_task('office', jsonb_set(:'request', '{task,title}', '"Call Ada and Bob back"'));
SELECT :receipt
FROM extaction.submit_fake_task('office', jsonb_set(:'request', '{task,title}', '"Call Ada and Bob back"'));
:counts

\echo '8. Whoever really wants a second task names a second intent.'
\echo
SELECT status FROM extaction.approve_fake_task('office', jsonb_set(:'request', '{intent_id}', '"letter-31/call-back-again"'));
SELECT :receipt
FROM extaction.submit_fake_task('office', jsonb_set(:'request', '{intent_id}', '"letter-31/call-back-again"'));
:counts

\echo '9. The letter was corrected since: what was approved for its old version no longer goes out.'
\echo
SELECT extaction.observe_source('office', 'letter-31', 'version 2');
SELECT status FROM extaction.approve_fake_task('office', jsonb_set(:'request', '{intent_id}', '"letter-31/third"'));
SELECT :receipt
FROM extaction.submit_fake_task('office', jsonb_set(:'request', '{intent_id}', '"letter-31/third"'));
:counts

\echo 'The tasks at the provider:'
\echo
SELECT task_id, intent_id, title, assignee_person_ref, due_at FROM extaction.fake_tasks ORDER BY task_id;

\echo 'The whole log:'
\echo
SELECT event_id, kind, intent_id, left(request_digest, 12) AS request_digest, detail ->> 'gate' AS gate,
       detail ->> 'provider_ref' AS provider_ref
FROM extaction.timeline;

\echo 'Every digest, key and guard checked again (no row = fine):'
\echo
SELECT * FROM extaction.verify();
