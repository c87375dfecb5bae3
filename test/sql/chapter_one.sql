--
-- Chapter one: a task is created at a provider, and asking again does not
-- create it again.
--
-- The counts are three measurements of the fake provider: requests that
-- arrived, executions, tasks that exist.
--
\pset null '-'
\set counts 'SELECT requests, executions, tasks FROM extaction.fake_task_counts WHERE scope = ''chapter one'';'

SELECT * FROM story.begins('chapter one');
:counts

--
-- The first call
--

-- a human approves exactly this; nothing is executed by it
SELECT status, approvals, required, state, approval_id, needs
FROM extaction.approve_fake_task('chapter one', story.task('call-back'), approval_id => 'approval-1');
:counts

-- created; 1, 1, 1
SELECT status, state, next_step, gate, needs, provider_ref, scope, intent_id, attempt, approval_id, detail
FROM extaction.submit_fake_task('chapter one', story.task('call-back'), approval_id => 'approval-1');
:counts

--
-- The same again
--

-- another process, which has only the document: replayed; 2, 1, 1
\c -
\pset null '-'
SELECT status, state, next_step, gate, needs, provider_ref, attempt, approval_id
FROM extaction.submit_fake_task('chapter one', story.task('call-back'));
:counts

-- the members in another order, as text: the same digest, replayed; 3, 1, 1
SELECT r.status, r.provider_ref, r.request_digest = f.request_digest AS same_digest,
       r.bound_digest = f.request_digest AS bound_to_it, r.idempotency_key = f.idempotency_key AS same_key
FROM extaction.submit_fake_task('chapter one', '
       {"task": {"due_at": null, "assignee_person_ref": null, "title": "Call Ada back"},
        "candidate_ref": {"source_version": "version 1", "source_id": "letter-31",
                          "candidate_digest": "aa26d362aa154deccc29d974799cbe4d1884460744bfc09da297d227f6dddf8e",
                          "candidate_id": "candidate-1"},
        "provider": "fake-task-provider.v1", "operation": "create_task", "intent_id": "call-back",
        "request_id": "request-1", "fixture_kind": "test", "schema_version": "task-request.v1"}') r,
     extaction.find('chapter one', 'call-back') f;
:counts

-- the digest is of the whole request, with the candidate that it comes from;
-- the key is of ledger, scope and intent, and of nothing else
SELECT f.request_digest = encode(extaction.digest(jsonb_build_object('v', 'extaction.request.v1',
           'scope', 'chapter one', 'intent_id', 'call-back', 'action', 'create_fake_task',
           'destination', 'fake-task-provider.v1', 'payload', story.task('call-back'),
           'candidate', jsonb_build_object('candidate_id', 'candidate-1',
               'digest', story.task('') #> '{candidate_ref,candidate_digest}',
               'source_id', 'letter-31', 'source_version', 'version 1'))), 'hex') AS digest,
       f.idempotency_key = extaction.idempotency_key((SELECT ledger_id FROM extaction.ledger),
           'chapter one', 'call-back') AS key
FROM extaction.find('chapter one', 'call-back') f;

--
-- The same intent, other content
--

-- with the old approval it does not even get to the provider: 3, 1, 1
SELECT status, gate, state, provider_ref
FROM extaction.submit_fake_task('chapter one', story.task('call-back', 'Call Bob back'), 'approval-1');
:counts

-- with an approval of its own it gets there: conflict; 4, 1, 1
SELECT status, approvals, state
FROM extaction.approve_fake_task('chapter one', story.task('call-back', 'Call Bob back'), approval_id => 'approval-2');
SELECT r.status, r.state, r.next_step, r.gate, r.needs, r.provider_ref, r.idempotency_key, r.attempt, r.detail,
       r.request_digest <> r.bound_digest AS other_digest, r.bound_digest = f.request_digest AS bound_to_first
FROM extaction.submit_fake_task('chapter one', story.task('call-back', 'Call Bob back')) r,
     extaction.find('chapter one', 'call-back') f;
:counts

-- the first task is as it was
SELECT task_id, intent_id, title FROM extaction.fake_tasks WHERE scope = 'chapter one';
SELECT status, state, provider_ref, approval_id FROM extaction.find('chapter one', 'call-back');

-- and the first caller still gets its replay: 5, 1, 1
SELECT status, provider_ref FROM extaction.submit_fake_task('chapter one', story.task('call-back'));
:counts

--
-- Another intent, the same content
--

-- the approval of the first intent is none of the second: 5, 1, 1
SELECT status, gate, state, next_step
FROM extaction.submit_fake_task('chapter one', story.task('call-back-again'), 'approval-1');
:counts

-- with its own: created, a second task; 6, 2, 2
SELECT status FROM extaction.approve_fake_task('chapter one', story.task('call-back-again'));
SELECT status, state, provider_ref
FROM extaction.submit_fake_task('chapter one', story.task('call-back-again'));
:counts

--
-- What is known afterwards
--

-- nobody is guessed to do it, and no date
SELECT task_id, intent_id, title, assignee_person_ref, due_at
FROM extaction.fake_tasks WHERE scope = 'chapter one' ORDER BY task_id;

-- what is known is kept as it was written
SELECT status FROM extaction.approve_fake_task('chapter one', jsonb_set(story.task('call-carol'), '{task}',
    '{"title": "Call Carol", "assignee_person_ref": "person/7", "due_at": "2026-12-31T12:00:00.50+02:00"}'));
SELECT status FROM extaction.submit_fake_task('chapter one', jsonb_set(story.task('call-carol'), '{task}',
    '{"title": "Call Carol", "assignee_person_ref": "person/7", "due_at": "2026-12-31T12:00:00.50+02:00"}'));
SELECT title, assignee_person_ref, due_at FROM extaction.fake_tasks WHERE scope = 'chapter one' AND intent_id = 'call-carol';

-- an intent that was never heard of
SELECT find IS NULL AS unknown FROM extaction.find('chapter one', 'call-nobody');

-- the provider's own books
SELECT intent_id, answer, count(*) FROM extaction.fake_task_requests WHERE scope = 'chapter one'
GROUP BY 1, 2 ORDER BY 1, 2;

-- the whole log, in order
SELECT kind, intent_id, approval_id LIKE 'approval-_' AS named, attempt, detail ->> 'gate' AS gate, detail ->> 'provider_ref' AS provider_ref
FROM extaction.timeline WHERE scope = 'chapter one';

-- replays need not be logged; the provider counts them all the same
SELECT requests FROM extaction.fake_task_counts WHERE scope = 'chapter one';
SET extaction.log_replays = off;
SELECT status, receipt_id FROM extaction.submit_fake_task('chapter one', story.task('call-back'));
RESET extaction.log_replays;
SELECT requests FROM extaction.fake_task_counts WHERE scope = 'chapter one';
SELECT count(*) FROM extaction.timeline WHERE scope = 'chapter one' AND kind = 'replayed';

-- nobody has to see to anything: no rows
SELECT intent_id, gate FROM extaction.todo WHERE scope = 'chapter one';

-- every digest, key and book agrees: no rows
SELECT * FROM extaction.verify();
