--
-- A fake task and another request under the name of one intent.  What submit() has bound is submit()'s to answer: nothing waits under its name, and
-- the fake provider is not asked.  A fake task that has happened passes the gates each time that it is asked for, so it may wait again.  The lists are
-- always what the facts say: no rows from verify()
--
SET client_min_messages = warning;
SELECT * FROM story.begins('same name');
INSERT INTO extaction.actions (action, provider, operation, self_approval) VALUES ('same_mail', 'same', 'send', true);
CREATE VIEW waits AS SELECT id, gate FROM extaction.waiting WHERE scope = 'same name';
CREATE FUNCTION bind(intent_id text, action text DEFAULT 'create_fake_task') RETURNS text LANGUAGE sql AS $$
    SELECT (extaction.approve_in_advance('same name', intent_id, action, 'd', '{"x": 1}')).status || ', ' ||
           (extaction.submit('same name', intent_id, action, 'd', '{"x": 1}')).status
$$;

-- bound by submit(), of the fake task's action or of another: a conflict, that says where the intent really stands
SELECT bind('a'), bind('b', 'same_mail');
SELECT status, state, next_step, needs FROM extaction.submit_fake_task('same name', story.task('a'));
SELECT status, state, next_step, needs FROM extaction.submit_fake_task('same name', story.task('b'));
SELECT * FROM waits;
SELECT status FROM extaction.approve_fake_task('same name', story.task('a'));
SELECT status, state FROM extaction.submit_fake_task('same name', story.task('a'));

-- with a worker: nobody takes it off the list by something that was never on it
SELECT claim_id FROM extaction.claim('w', action => 'create_fake_task') \gset
SELECT intent_id, attempt FROM extaction.claimed(:claim_id);
SELECT status, state FROM extaction.submit_fake_task('same name', story.task('a'));
SELECT status, state, needs FROM extaction.cancel('same name', 'a', 'not wanted');
SELECT * FROM extaction.verify() WHERE scope = 'same name';

-- the very document, by the other door: it did not happen because somebody said so
SELECT status FROM extaction.approve_fake_task('same name', story.task('e'));
SELECT status, state FROM extaction.submit('same name', 'e', 'create_fake_task', 'fake-task-provider.v1', story.task('e'),
    candidate_id => story.task('e') #>> '{candidate_ref,candidate_id}');
SELECT status, state, provider_ref FROM extaction.submit_fake_task('same name', story.task('e'));
SELECT count(*) FROM extaction.fake_task_requests WHERE scope = 'same name';

-- a worker says that it happened: from then on it is as if the fake provider had done it
SELECT status, state FROM extaction.record_outcome('same name', 'a', 1, 'happened', provider_ref => 'theirs');
SELECT status, state, attempt, gate FROM extaction.submit_fake_task('same name', story.task('a'));

-- a task that has happened waits for a new approval; what comes of that is in its timeline
SELECT status FROM extaction.approve_fake_task('same name', story.task('c'), approval_id => 'first');
SELECT status, state FROM extaction.submit_fake_task('same name', story.task('c'));
SELECT status FROM extaction.revoke_approval('same name', 'first', 'not any more');
SELECT status, state, gate FROM extaction.submit_fake_task('same name', story.task('c'));
SELECT * FROM waits WHERE id = 'c';
SELECT status FROM extaction.approve_fake_task('same name', story.task('c'), approval_id => 'second');
SELECT status, state, gate FROM extaction.submit_fake_task('same name', story.task('c'));
SELECT * FROM waits WHERE id = 'c';
SELECT kind FROM extaction.timeline WHERE scope = 'same name' AND intent_id = 'c' ORDER BY event_id;
SELECT * FROM extaction.verify() WHERE scope = 'same name';

-- waiting again, it is answered by the other door too: by a replay, by a conflict about the very request; and it can be withdrawn
CREATE FUNCTION wait_again(changed jsonb DEFAULT NULL) RETURNS text LANGUAGE sql AS $$
    SELECT (extaction.revoke_approval('same name', a.approval_id, 'again')).status FROM extaction.approvals a
    WHERE a.scope = 'same name' AND a.id = 'c' AND NOT EXISTS (
        SELECT FROM extaction.revocations r WHERE r.scope = a.scope AND r.approval_id = a.approval_id);
    SELECT t.status
    FROM extaction.submit_fake_task('same name', coalesce(changed, story.task('c'))) t
$$;
CREATE FUNCTION by_submit(task jsonb) RETURNS text LANGUAGE sql AS $$
    SELECT s.status || ', ' || s.state
    FROM extaction.submit('same name', 'c', 'create_fake_task', 'fake-task-provider.v1', task, candidate_id => task #>> '{candidate_ref,candidate_id}') s
$$;
SELECT wait_again();
SELECT id, gate FROM waits;
SELECT by_submit(story.task('c'));
SELECT id, gate FROM waits;
SELECT wait_again();
SET extaction.log_replays = off;
SELECT by_submit(story.task('c'));
RESET extaction.log_replays;
SELECT id, gate FROM waits;
SELECT wait_again();
SELECT by_submit(jsonb_set(story.task('c'), '{task,title}', '"another"'));
SELECT id, gate FROM waits;
SELECT status, state FROM extaction.cancel('same name', 'c', 'not wanted');
SELECT id, gate FROM waits;
SELECT wait_again(jsonb_set(story.task('c'), '{task,title}', '"another"'));
SELECT by_submit(jsonb_set(story.task('c'), '{task,title}', '"another"'));
SELECT id, gate FROM waits;

SELECT * FROM extaction.verify() WHERE scope = 'same name';

-- what was rejected does not wait again
SELECT status, state, gate FROM extaction.submit_fake_task('same name', story.task('d'));
SELECT status FROM extaction.reject('same name', (SELECT encode(request_digest, 'hex') FROM extaction.waiting WHERE id = 'd' AND scope = 'same name'), 'no');
SELECT status, state, gate FROM extaction.submit_fake_task('same name', story.task('d'));
SELECT id, gate FROM waits;
SELECT * FROM extaction.verify() WHERE scope = 'same name';

DROP FUNCTION wait_again, by_submit, bind;
DROP VIEW waits;
SELECT status FROM extaction.cancel('same name', 'b', 'tidied up');
SELECT status FROM extaction.cancel('same name', 'e', 'tidied up');
DELETE FROM extaction.actions WHERE action = 'same_mail';
