--
-- A fake task and another request under the name of one intent.  A fake task passes the gates each time that it is asked for, so one that is bound
-- may wait again; under the name of anything else that is bound, nothing waits.  The lists are always what the facts say: no rows from verify()
--
SET client_min_messages = warning;
SELECT * FROM story.begins('same name');
INSERT INTO extaction.actions (action, provider, operation, self_approval) VALUES ('same_mail', 'same', 'send', true);
CREATE VIEW waits AS SELECT id, gate FROM extaction.waiting WHERE scope = 'same name';

-- bound as a plain intent of the fake task's action; then as a task, then as something else again
SELECT status FROM extaction.approve_in_advance('same name', 'a', 'create_fake_task', 'd', '{"x": 1}');
SELECT status FROM extaction.submit('same name', 'a', 'create_fake_task', 'd', '{"x": 1}');
SELECT status, state, gate FROM extaction.submit_fake_task('same name', story.task('a'));
SELECT * FROM waits;
SELECT status FROM extaction.submit('same name', 'a', 'create_fake_task', 'd', '{"x": 2}');
SELECT * FROM waits;
SELECT * FROM extaction.verify() WHERE scope = 'same name';

-- bound to another action: the task does not wait
SELECT status FROM extaction.approve_in_advance('same name', 'b', 'same_mail', 'd', '{"x": 1}');
SELECT status FROM extaction.submit('same name', 'b', 'same_mail', 'd', '{"x": 1}');
SELECT status, state, gate FROM extaction.submit_fake_task('same name', story.task('b'));
SELECT * FROM waits WHERE id = 'b';
SELECT * FROM extaction.verify() WHERE scope = 'same name';

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

DROP VIEW waits;
DELETE FROM extaction.actions WHERE action = 'same_mail';
