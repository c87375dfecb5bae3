--
-- mended: what the catalogue or the access has stopped goes on by itself when
-- that is mended; what waits for too long ends
--
-- No approver is asked about these gates, and so no approval lets it go on:
-- sweep() does.
--
SET client_min_messages = warning;
\pset null '-'
CREATE ROLE regress_mended_program;
CREATE ROLE regress_mended_anna;
CREATE ROLE regress_mended_worker;
CREATE ROLE regress_mended_other;
SELECT extaction.create_scope('mended'), extaction.create_scope('mended-2');
SELECT count(extaction.grant_access(s, r, c)) FROM (VALUES ('mended', 'regress_mended_program', 'submitter'), ('mended', 'regress_mended_anna', 'approver'),
    ('mended', 'regress_mended_worker', 'worker'), ('mended-2', 'regress_mended_other', 'worker')) v (s, r, c);
INSERT INTO extaction.actions (action, provider, operation, destination_pattern, call_timeout) VALUES ('mended_do', 'mended', 'do', '^ok', '10 s'), ('mended_off', 'mended', 'do', NULL, '10 s');

CREATE FUNCTION regress_mended_submit(intent_id text, action text, destination text DEFAULT 'ok') RETURNS text LANGUAGE sql AS $$
    SELECT concat_ws(' ', status, state, next_step, gate) FROM extaction.submit('mended', $1, $2, $3, '{"n": 1}')
$$;
CREATE FUNCTION regress_mended_approve(intent_id text, action text, destination text DEFAULT 'ok') RETURNS text LANGUAGE sql AS $$
    SELECT concat_ws(' ', status, state) FROM extaction.approve_in_advance('mended', $1, $2, $3, '{"n": 1}')
$$;
CREATE FUNCTION regress_mended_list(batch_id text, destination text DEFAULT 'ok') RETURNS text LANGUAGE sql AS $$
    SELECT concat_ws(' ', status, gate) FROM extaction.submit_batch('mended', $1, 'mended_do', '{}', jsonb_build_array(
        jsonb_build_object('intent_id', $1 || '/1', 'destination', 'ok'), jsonb_build_object('intent_id', $1 || '/2', 'destination', $2)))
$$;
-- where everything stands
CREATE FUNCTION regress_mended_stands(OUT name text, OUT state text, OUT gate text, OUT for_whom text) RETURNS SETOF record LANGUAGE sql AS $$
    SELECT coalesce(intent_id, batch_id), state, gate, for_whom FROM extaction.todo WHERE scope = 'mended'
    UNION ALL SELECT intent_id, state, NULL, NULL FROM extaction.intent_status WHERE scope = 'mended' AND state = 'prepared' ORDER BY 1
$$;
-- a sweep in the worker's name
CREATE PROCEDURE regress_mended_sweep() LANGUAGE plpgsql AS $$
BEGIN
    SET LOCAL ROLE regress_mended_worker;
    RAISE WARNING 'swept %', extaction.sweep();
END $$;

--
-- An action that nobody knew, one that was switched off, a destination that was not allowed
--
UPDATE extaction.actions SET enabled = false WHERE action = 'mended_off';
SET ROLE regress_mended_anna;
SELECT regress_mended_approve('off', 'mended_off'), regress_mended_approve('far', 'mended_do', 'far');
SET ROLE regress_mended_program;
SELECT regress_mended_submit('unknown', 'mended_new'), regress_mended_submit('off', 'mended_off'), regress_mended_submit('far', 'mended_do', 'far'),
       regress_mended_submit('waits', 'mended_do'), regress_mended_list('list', 'far');
RESET ROLE;
CALL regress_mended_sweep();
SELECT * FROM regress_mended_stands();
INSERT INTO extaction.actions (action, provider, operation) VALUES ('mended_new', 'mended', 'do');
UPDATE extaction.actions SET enabled = true WHERE action = 'mended_off';
UPDATE extaction.actions SET destination_pattern = '^(ok|far)' WHERE action = 'mended_do';
-- a worker of elsewhere does not move it
SET ROLE regress_mended_other;
SELECT extaction.sweep();
RESET ROLE;
-- what was approved goes on, the rest is an approver's now
CALL regress_mended_sweep();
SELECT * FROM regress_mended_stands();
SELECT requester FROM extaction.intent_status WHERE scope = 'mended' AND intent_id = 'off';
CALL regress_mended_sweep();
SET ROLE regress_mended_anna;
SELECT coalesce(intent_id, batch_id) AS name, gate FROM extaction.pending_approvals WHERE scope = 'mended' ORDER BY 1;
SELECT a.status, a.state FROM extaction.pending_approvals p, extaction.approve('mended', p.request_digest) a ORDER BY p.intent_id;
RESET ROLE;
SELECT * FROM regress_mended_stands();

--
-- Who asked for it had no access for a while
--
SET ROLE regress_mended_program;
SELECT regress_mended_submit('left', 'mended_do');
RESET ROLE;
SELECT extaction.revoke_access('mended', 'regress_mended_program', 'submitter');
SET ROLE regress_mended_anna;
SELECT regress_mended_approve('left', 'mended_do');
RESET ROLE;
CALL regress_mended_sweep();
SELECT name, gate, for_whom FROM regress_mended_stands() WHERE name = 'left';
SELECT extaction.grant_access('mended', 'regress_mended_program', 'submitter');
CALL regress_mended_sweep();
SELECT name, state FROM regress_mended_stands() WHERE name = 'left';

--
-- What claim found blocked
--
UPDATE extaction.actions SET destination_pattern = '^ok' WHERE action = 'mended_do';
SELECT claimed, blocked FROM extaction.claim('w', 100, lease => '1 min', action => 'mended_do', scope => 'mended');
SELECT name, gate FROM regress_mended_stands() WHERE state = 'blocked';
CALL regress_mended_sweep();
UPDATE extaction.actions SET destination_pattern = NULL WHERE action = 'mended_do';
CALL regress_mended_sweep();
SELECT name, state FROM regress_mended_stands() WHERE name IN ('far', 'list/2');
SELECT kind, role FROM extaction.timeline WHERE scope = 'mended' AND intent_id = 'far';

--
-- A fake task goes on only when its caller submits it again
--
SELECT * FROM story.begins('mended');
SELECT status FROM extaction.approve_fake_task('mended', story.task('task'));
UPDATE extaction.actions SET enabled = false WHERE action = 'create_fake_task';
SELECT status, gate FROM extaction.submit_fake_task('mended', story.task('task'));
UPDATE extaction.actions SET enabled = true WHERE action = 'create_fake_task';
CALL regress_mended_sweep();
SELECT executions, for_whom FROM story.after('mended', 'task');
SELECT status FROM extaction.submit_fake_task('mended', story.task('task'));

--
-- request_ttl: nobody said yes in time
--
UPDATE extaction.actions SET request_ttl = '1 hour' WHERE action = 'mended_do';
SET ROLE regress_mended_program;
SELECT regress_mended_submit('late', 'mended_do'), regress_mended_submit('fresh', 'mended_do'), regress_mended_list('late list'), regress_mended_submit('other action', 'mended_off');
RESET ROLE;
UPDATE extaction.waiting SET since = since - interval '61 min' WHERE scope = 'mended' AND id IN ('late', 'late list', 'other action');
CALL regress_mended_sweep();
SELECT name, state FROM regress_mended_stands() WHERE name LIKE 'late%' OR name IN ('fresh', 'other action');
SELECT intent_id, batch_id, kind, role, detail ->> 'reason' AS reason FROM extaction.timeline WHERE scope = 'mended' AND kind = 'cancelled';
-- too late for an approver, but not for who asks again
SET ROLE regress_mended_anna;
SELECT status, needs FROM extaction.approve('mended', extaction.request_digest('mended', 'late', 'mended_do', 'ok', '{"n": 1}'));
SET ROLE regress_mended_program;
SELECT regress_mended_submit('late', 'mended_do'), regress_mended_list('late list');
RESET ROLE;
CALL regress_mended_sweep();
SELECT name, state FROM regress_mended_stands() WHERE name LIKE 'late%';

-- the facts agree with each other
SELECT * FROM extaction.verify() WHERE scope = 'mended' OR scope IS NULL;

DROP PROCEDURE regress_mended_sweep;
DROP FUNCTION regress_mended_submit, regress_mended_approve, regress_mended_list, regress_mended_stands;
SELECT count(extaction.revoke_access(scope, member_name, capability)) FROM extaction.scope_members WHERE member_name LIKE 'regress\_mended\_%';
DELETE FROM extaction.actions WHERE action LIKE 'mended\_%';
DROP ROLE regress_mended_program, regress_mended_anna, regress_mended_worker, regress_mended_other;
