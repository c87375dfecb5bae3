--
-- Who may do what: members and strangers, owners, roles that speak for many
-- people, and the catalogue's rules about who must approve.
--
\set SHOW_CONTEXT never
\pset null '-'
\set receipt 'status, gate, state, next_step, provider_ref IS NOT NULL AS task, receipt_id IS NOT NULL AS logged'

CREATE ROLE regress_owner;
CREATE ROLE regress_program;
CREATE ROLE regress_anna;
CREATE ROLE regress_bert;
CREATE ROLE regress_auditor;
CREATE ROLE regress_ui;
CREATE ROLE regress_elsewhere;
CREATE ROLE regress_stranger;

--
-- A scope is made on purpose
--

-- not by anybody: create_scope is for superusers, and for whom they let
SET ROLE regress_owner;
SELECT * FROM story.fault($$ SELECT extaction.create_scope('access') $$);
RESET ROLE;
GRANT USAGE ON SCHEMA extaction TO regress_owner;
GRANT EXECUTE ON FUNCTION extaction.create_scope(text) TO regress_owner;
SET ROLE regress_owner;
SELECT extaction.create_scope('access');
-- again: it exists
SELECT extaction.create_scope('access');
SELECT member, capability, vouches_for, counts, granted_by FROM extaction.access;
RESET ROLE;

-- a name that is taken is taken
GRANT USAGE ON SCHEMA extaction TO regress_elsewhere;
GRANT EXECUTE ON FUNCTION extaction.create_scope(text) TO regress_elsewhere;
SET ROLE regress_elsewhere;
SELECT * FROM story.fault($$ SELECT extaction.create_scope('access') $$);
SELECT * FROM story.begins('access elsewhere');
RESET ROLE;

-- a scope and its members may be made in one statement
BEGIN;
SELECT extaction.create_scope('access at once'), extaction.grant_access('access at once', 'regress_anna', 'approver');
ROLLBACK;

--
-- The owner gives access
--
SET ROLE regress_owner;
SELECT * FROM story.begins('access');

-- errors first
SELECT what, f.*
FROM (VALUES
    (1, 'no such role', $$ extaction.grant_access('access', 'regress_nobody', 'submitter') $$),
    (2, 'PUBLIC', $$ extaction.grant_access('access', 'public', 'submitter') $$),
    (3, 'no such capability', $$ extaction.grant_access('access', 'regress_anna', 'admin') $$),
    (4, 'case', $$ extaction.grant_access('access', 'regress_anna', 'Approver') $$),
    (5, 'two at once', $$ extaction.grant_access('access', 'regress_anna', 'submitter,approver') $$),
    (6, 'no such scope', $$ extaction.grant_access('acces', 'regress_anna', 'submitter') $$),
    (7, 'somebody else''s', $$ extaction.grant_access('access elsewhere', 'regress_anna', 'submitter') $$),
    (8, 'the last owner', $$ extaction.revoke_access('access', 'regress_owner', 'owner') $$),
    (9, 'revoke nothing', $$ extaction.revoke_access('access', 'regress_anna', 'admin') $$)) v (no, what, call),
    story.fault('SELECT ' || call) f
ORDER BY no;

SELECT extaction.grant_access('access', 'regress_program', 'submitter');
SELECT extaction.grant_access('access', 'regress_anna', 'approver');
SELECT extaction.grant_access('access', 'regress_bert', 'approver');
SELECT extaction.grant_access('access', 'regress_auditor', 'auditor');
-- again, and what was not there
SELECT extaction.grant_access('access', 'regress_anna', 'approver');
SELECT extaction.revoke_access('access', 'regress_anna', 'worker');
SELECT extaction.revoke_access('access', 'regress_nobody', 'worker');
SELECT member, capability, counts, granted_by FROM extaction.access ORDER BY member;
RESET ROLE;
SET ROLE regress_elsewhere;
SELECT extaction.grant_access('access elsewhere', 'regress_elsewhere', 'submitter');
RESET ROLE;

-- a member has the verbs of its capability, and no others (pgTAP looks at everything)
SELECT r.role::text, string_agg(p.proname, ' ' ORDER BY p.proname) FILTER (WHERE has_function_privilege(r.role, p.oid, 'EXECUTE')) AS verbs
FROM unnest('{regress_owner,regress_program,regress_anna,regress_auditor,regress_stranger}'::regrole[]) WITH ORDINALITY r (role, no),
    pg_proc p
WHERE p.pronamespace = 'extaction'::regnamespace
  AND p.proname IN ('create_scope', 'grant_access', 'revoke_access', 'observe_source', 'propose', 'submit_fake_task', 'find',
                    'approve_fake_task', 'revoke_approval', 'verify', 'repair_guards')
GROUP BY r.no, r.role ORDER BY r.no;
-- nobody has a table or a sequence: no rows
SELECT r.role::text, c.relname
FROM unnest('{regress_owner,regress_program,regress_anna,regress_auditor,regress_stranger}'::regrole[]) r (role), pg_class c
WHERE c.relnamespace = 'extaction'::regnamespace AND c.relkind IN ('r', 'S')
  AND CASE c.relkind WHEN 'S' THEN has_sequence_privilege(r.role, c.oid, 'USAGE,SELECT,UPDATE')
           ELSE has_table_privilege(r.role, c.oid, 'SELECT,INSERT,UPDATE,DELETE,TRUNCATE,REFERENCES,TRIGGER') END;

--
-- Each does its part
--
SET ROLE regress_program;
SELECT :receipt FROM extaction.submit_fake_task('access', story.task('call-back'));
SELECT state, path, message FROM story.fault($$ SELECT extaction.approve_fake_task('access', story.task('call-back')) $$);
RESET ROLE;
SET ROLE regress_anna;
SELECT intent_id, gate, for_whom FROM extaction.todo;
SELECT status, approvals, required FROM extaction.approve_fake_task('access', story.task('call-back'));
SELECT state, path, message FROM story.fault($$ SELECT extaction.submit_fake_task('access', story.task('call-back')) $$);
SELECT state, path, message FROM story.fault($$ SELECT extaction.propose('access', 'c', '{}', 's', 'v') $$);
SELECT state, path, message FROM story.fault($$ SELECT extaction.grant_access('access', 'regress_anna', 'owner') $$);
SELECT state, path, message FROM story.fault($$ SELECT * FROM extaction.verify() $$);
RESET ROLE;
SET ROLE regress_program;
SELECT :receipt FROM extaction.submit_fake_task('access', story.task('call-back'));
RESET ROLE;
SET ROLE regress_auditor;
SELECT status, state FROM extaction.find('access', 'call-back');
SELECT requests, executions, tasks FROM extaction.fake_task_counts;
SELECT kind, role, session_user = current_setting('session_authorization') AS session FROM extaction.timeline;
SELECT count(*) AS disagreements FROM extaction.verify();
SELECT state, path, message FROM story.fault($$ SELECT extaction.submit_fake_task('access', story.task('call-back')) $$);
SELECT state, path, message FROM story.fault($$ SELECT extaction.revoke_approval('access', 'x', 'x') $$);
SELECT state, message FROM story.fault($$ SELECT * FROM extaction.intents $$);
RESET ROLE;

-- a capability of another kind lets in by function, and is stopped by the scope: no trace is left of it
SET ROLE regress_owner;
SELECT extaction.grant_access('access', 'regress_elsewhere', 'auditor');
RESET ROLE;
SET ROLE regress_elsewhere;
SELECT :receipt, needs, detail FROM extaction.submit_fake_task('access', story.task('call-back'));
SELECT * FROM story.fault($$ SELECT extaction.approve_fake_task('access', story.task('call-back')) $$);
RESET ROLE;
SET ROLE regress_owner;
SELECT extaction.revoke_access('access', 'regress_elsewhere', 'auditor');
RESET ROLE;

--
-- A stranger can neither submit nor look
--

-- without any capability: permission denied
SET ROLE regress_stranger;
SELECT state, message FROM story.fault($$ SELECT extaction.submit_fake_task('access', story.task('call-back')) $$);
SELECT state, message FROM story.fault($$ SELECT extaction.find('access', 'call-back') $$);
SELECT state, message FROM story.fault($$ SELECT * FROM extaction.todo $$);
RESET ROLE;

-- with capabilities elsewhere: a receipt that says the same of a scope that is there and of one that is not
SET ROLE regress_elsewhere;
SELECT :receipt, idempotency_key, bound_digest, needs
FROM unnest(ARRAY['access', 'no such scope']) s, extaction.submit_fake_task(s, story.task('call-back'));
SELECT a.* IS NOT DISTINCT FROM b.* AS look_the_same
FROM (SELECT status, state, next_step, needs, gate, provider_ref, idempotency_key, attempt, approval_id, bound_digest, batch_id, receipt_id, detail
      FROM extaction.submit_fake_task('access', story.task('call-back'))) a,
     (SELECT status, state, next_step, needs, gate, provider_ref, idempotency_key, attempt, approval_id, bound_digest, batch_id, receipt_id, detail
      FROM extaction.submit_fake_task('no such scope', story.task('call-back'))) b;
-- and so do the errors
SELECT split_part(call, '(', 1) AS call, a.state, a.path, a.message,
       a.state = b.state AND a.path = b.path AND replace(a.message, '"access"', '"no such scope"') = b.message
       AND a.detail = b.detail AND a.hint = b.hint AS look_the_same
FROM unnest(ARRAY['find(%L, ''call-back'')', 'find(%L, ''nothing'')', 'request_digest(%L, ''i'', ''a'', ''d'', ''{}'')',
                  'approve_fake_task(%L, story.task(''call-back''))', 'revoke_approval(%L, ''x'', ''x'')',
                  'observe_source(%L, ''letter-31'', ''version 9'')', 'propose(%L, ''candidate-1'', ''{}'', ''s'', ''v'')',
                  'grant_access(%L, ''regress_elsewhere'', ''owner'')', 'revoke_access(%L, ''regress_owner'', ''owner'')']) call,
    story.fault(format('SELECT extaction.' || call, 'access')) a,
    story.fault(format('SELECT extaction.' || call, 'no such scope')) b;
-- the views show nothing of it: no rows
SELECT scope FROM extaction.todo WHERE scope = 'access' UNION ALL
SELECT scope FROM extaction.timeline WHERE scope = 'access' UNION ALL
SELECT scope FROM extaction.access WHERE scope = 'access' UNION ALL
SELECT scope FROM extaction.fake_task_counts WHERE scope = 'access' UNION ALL
SELECT scope FROM extaction.disagreements WHERE scope = 'access' UNION ALL
SELECT scope FROM extaction.visible_scopes WHERE scope = 'access';
-- not even to a function that is cheaper than the views' own conditions
CREATE FUNCTION pg_temp.peep(text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS
$$ BEGIN IF $1 LIKE 'access%' AND $1 <> 'access elsewhere' THEN RAISE NOTICE 'saw %', $1; END IF; RETURN true; END $$;
SELECT count(*) FROM extaction.timeline WHERE pg_temp.peep(scope);
SELECT count(*) FROM extaction.access WHERE pg_temp.peep(scope);
SELECT count(*) FROM extaction.fake_task_counts WHERE pg_temp.peep(scope);
SELECT count(*) FROM extaction.todo WHERE pg_temp.peep(scope);
RESET ROLE;
-- and nothing of its visit is in the scope: no rows
SELECT kind FROM extaction.timeline WHERE scope = 'access' AND role = 'regress_elsewhere';
SELECT requests, executions, tasks FROM extaction.fake_task_counts WHERE scope = 'access';

--
-- A role that belongs to a member has what the member has
--
CREATE ROLE regress_carol IN ROLE regress_anna;
CREATE ROLE regress_dora NOINHERIT IN ROLE regress_anna;
SET ROLE regress_carol;
SELECT status, approvals FROM extaction.approve_fake_task('access', story.task('inherited'));
RESET ROLE;
SET ROLE regress_dora;
SELECT state, message FROM story.fault($$ SELECT extaction.approve_fake_task('access', story.task('inherited')) $$);
SET ROLE regress_anna;
-- each is somebody: two people have approved it
SELECT status, approvals FROM extaction.approve_fake_task('access', story.task('inherited'));
RESET ROLE;
SELECT approver, role FROM extaction.approvals WHERE scope = 'access' AND id = 'inherited' ORDER BY 1;
DROP ROLE regress_carol, regress_dora;

--
-- A role that vouches for many people
--
SET ROLE regress_owner;
SELECT extaction.grant_access('access', 'regress_ui', 'approver', 'users of the web application');
SELECT extaction.grant_access('access', 'regress_ui', 'submitter', 'users of the web application');
SELECT extaction.grant_access('access', 'regress_ui', 'submitter', 'users of the web application');
SELECT member, capability, vouches_for FROM extaction.access WHERE vouches_for IS NOT NULL ORDER BY capability;
RESET ROLE;

SET ROLE regress_ui;
-- it must say for whom it speaks
SELECT * FROM story.fault($$ SELECT extaction.approve_fake_task('access', story.task('vouched')) $$);
SELECT state, path, message FROM story.fault($$ SELECT extaction.submit_fake_task('access', story.task('vouched')) $$);
SELECT state, path, message FROM story.fault($$ SELECT extaction.propose('access', 'c', '{}', 's', 'v') $$);
-- with the argument
SELECT status, approvals FROM extaction.approve_fake_task('access', story.task('vouched'), actor => 'anna');
-- or with the setting; the argument goes before it, and the empty string is none
SET extaction.actor = 'bert';
SELECT status, approvals FROM extaction.approve_fake_task('access', story.task('vouched'));
SELECT status, approvals FROM extaction.approve_fake_task('access', story.task('vouched'), actor => 'anna');
SET extaction.actor = '';
SELECT state, path, message FROM story.fault($$ SELECT extaction.approve_fake_task('access', story.task('vouched')) $$);
SET extaction.actor = E'an\na';
SELECT * FROM story.fault($$ SELECT extaction.approve_fake_task('access', story.task('vouched')) $$);
RESET extaction.actor;
RESET ROLE;
-- the identity is the role and the actor
SELECT approver, role, actor FROM extaction.approvals WHERE scope = 'access' AND id = 'vouched' ORDER BY 1;

-- what it vouches for in one capability, it vouches for in all: else anna could approve
-- through regress_ui what anna asked for through regress_ui
SET ROLE regress_owner;
SELECT extaction.grant_access('access', 'regress_ui', 'approver');
RESET ROLE;
SET ROLE regress_ui;
SELECT state, path, message FROM story.fault($$ SELECT extaction.approve_fake_task('access', story.task('vouched')) $$);
RESET ROLE;
SET ROLE regress_owner;
SELECT extaction.grant_access('access', 'regress_ui', 'approver', 'users of the web application');
RESET ROLE;

-- what any other role says of an actor is a claim: kept, and nothing is decided by it
SET ROLE regress_anna;
SELECT status, approvals FROM extaction.approve_fake_task('access', story.task('claimed'), actor => 'anna');
SELECT status, approvals FROM extaction.approve_fake_task('access', story.task('claimed'), actor => 'bert');
RESET ROLE;
SELECT approver, role, actor FROM extaction.approvals WHERE scope = 'access' AND id = 'claimed';

-- nobody gets another's identity by a choice of names
CREATE ROLE "regress_ui:anna";
SET ROLE regress_owner;
SELECT extaction.grant_access('access', 'regress_ui:anna', 'approver');
RESET ROLE;
SET ROLE "regress_ui:anna";
SELECT status, approvals FROM extaction.approve_fake_task('access', story.task('vouched'));
RESET ROLE;
SELECT approver, role, actor FROM extaction.approvals WHERE scope = 'access' AND id = 'vouched' ORDER BY 1;

--
-- Who must approve: the catalogue
--
CREATE TEMP TABLE action_before AS SELECT * FROM extaction.actions WHERE action = 'create_fake_task';
CREATE TEMP TABLE changes_before AS SELECT change_id FROM extaction.action_changes;

-- two different people, and not the one who asks
UPDATE extaction.actions SET self_approval = false, approvals_required = 2 WHERE action = 'create_fake_task';
SET ROLE regress_ui;
SELECT :receipt FROM extaction.submit_fake_task('access', story.task('four eyes'), actor => 'anna');
-- the requester's own approval does not count
SELECT status, approvals, required FROM extaction.approve_fake_task('access', story.task('four eyes'), actor => 'anna', approval_id => 'by anna');
SELECT :receipt FROM extaction.submit_fake_task('access', story.task('four eyes'), actor => 'anna');
-- one other is not enough
SELECT status, approvals, required FROM extaction.approve_fake_task('access', story.task('four eyes'), actor => 'bert', approval_id => 'by bert');
SELECT :receipt FROM extaction.submit_fake_task('access', story.task('four eyes'), actor => 'anna');
-- nor the same one twice
SELECT status, approvals, required FROM extaction.approve_fake_task('access', story.task('four eyes'), actor => 'bert', expires_at => 'infinity', approval_id => 'by bert, longer');
SELECT :receipt FROM extaction.submit_fake_task('access', story.task('four eyes'), actor => 'anna');
RESET ROLE;
SELECT * FROM story.after('access', 'four eyes');
-- an approval that ends, or names another capability, is none of the two
SET ROLE regress_anna;
SELECT status FROM extaction.approve_fake_task('access', story.task('four eyes'), capability => 'publish', approval_id => 'to publish');
SELECT status, approvals, required FROM extaction.approve_fake_task('access', story.task('four eyes'), clock_timestamp() + '1 s', 'short');
SELECT expires_at AS ends FROM extaction.approve_fake_task('access', story.task('four eyes'), approval_id => 'short') \gset
RESET ROLE;
SELECT story.until(:'ends');
SET ROLE regress_ui;
SELECT :receipt FROM extaction.submit_fake_task('access', story.task('four eyes'), actor => 'anna');
RESET ROLE;
-- and one that was taken back neither
SET ROLE regress_bert;
SELECT status, approvals, required FROM extaction.approve_fake_task('access', story.task('four eyes'), approval_id => 'by regress_bert');
SELECT status, approvals, required FROM extaction.revoke_approval('access', 'by regress_bert', 'not sure');
RESET ROLE;
SET ROLE regress_ui;
SELECT :receipt FROM extaction.submit_fake_task('access', story.task('four eyes'), actor => 'anna');
RESET ROLE;
-- with a second person's it goes
SET ROLE regress_bert;
SELECT status, approvals, required FROM extaction.approve_fake_task('access', story.task('four eyes'));
RESET ROLE;
SET ROLE regress_ui;
SELECT :receipt FROM extaction.submit_fake_task('access', story.task('four eyes'), actor => 'anna');
RESET ROLE;
SELECT * FROM story.after('access', 'four eyes');

-- regress_anna is not regress_ui:anna; and for one who claims to be somebody else, it is still himself
UPDATE extaction.actions SET approvals_required = 1 WHERE action = 'create_fake_task';
SET ROLE regress_owner;
SELECT status FROM extaction.approve_fake_task('access', story.task('owner''s own'), actor => 'bert');
SELECT :receipt FROM extaction.submit_fake_task('access', story.task('owner''s own'), actor => 'anna');
RESET ROLE;
SET ROLE regress_anna;
SELECT status FROM extaction.approve_fake_task('access', story.task('owner''s own'));
RESET ROLE;
SET ROLE regress_owner;
SELECT :receipt FROM extaction.submit_fake_task('access', story.task('owner''s own'), actor => 'anna');

-- the action's capability, its destination, its switch, and the action itself; an approval does not help
RESET ROLE;
BEGIN;
UPDATE extaction.actions SET capability = 'create_task_for_others' WHERE action = 'create_fake_task';
SELECT :receipt FROM extaction.submit_fake_task('access', story.task('four eyes'), actor => 'x');
SELECT status FROM extaction.approve_fake_task('access', story.task('renamed'), capability => 'create_task_for_others');
UPDATE extaction.actions SET self_approval = true WHERE action = 'create_fake_task';
SELECT :receipt FROM extaction.submit_fake_task('access', story.task('renamed'));
UPDATE extaction.actions SET destination_pattern = '^other-provider\.' WHERE action = 'create_fake_task';
SELECT :receipt FROM extaction.submit_fake_task('access', story.task('renamed'));
SELECT * FROM story.after('access', 'renamed');
UPDATE extaction.actions SET destination_pattern = '^fake-task-provider\.v\d$' WHERE action = 'create_fake_task';
SELECT :receipt FROM extaction.submit_fake_task('access', story.task('renamed'));
UPDATE extaction.actions SET enabled = false WHERE action = 'create_fake_task';
SELECT :receipt FROM extaction.submit_fake_task('access', story.task('renamed'));
SELECT * FROM story.after('access', 'renamed');
DELETE FROM extaction.actions WHERE action = 'create_fake_task';
SELECT :receipt FROM extaction.submit_fake_task('access', story.task('renamed'));
SELECT * FROM story.after('access', 'renamed');
SELECT * FROM story.fault($$ SELECT extaction.approve_fake_task('access', story.task('gone')) $$);
ROLLBACK;

-- what would make no sense is refused
SELECT change, f.state, f.path
FROM unnest(ARRAY['approvals_required = 0', 'approvals_required = NULL', 'destination_pattern = ''(''', 'approval_ttl = ''0''',
                  'approval_ttl = ''-1 day''', 'approval_ttl_max = ''0''', 'max_attempts = 0', 'call_timeout = ''0''', 'retry_delay = ''-1 s''',
                  'action = ''''']) change,
    story.fault('UPDATE extaction.actions SET ' || change) f;

-- a member may not touch the catalogue
SET ROLE regress_owner;
SELECT state, message FROM story.fault($$ UPDATE extaction.actions SET self_approval = true $$);
RESET ROLE;

-- back as it was; each change was kept, old row and new, and who made it
UPDATE extaction.actions a SET self_approval = b.self_approval, approvals_required = b.approvals_required
FROM action_before b WHERE a.action = b.action;
SELECT * FROM extaction.actions EXCEPT SELECT * FROM action_before;
SELECT kind, action, old_row -> 'approvals_required' AS old_required, new_row -> 'approvals_required' AS new_required,
       old_row -> 'self_approval' AS old_self, new_row -> 'self_approval' AS new_self, role = current_user AS by_me
FROM extaction.action_changes WHERE change_id NOT IN (SELECT change_id FROM changes_before) ORDER BY recorded_at;
-- a change that changes nothing is none, and one that is rolled back neither
UPDATE extaction.actions SET enabled = enabled;
SELECT count(*) FROM extaction.action_changes WHERE change_id NOT IN (SELECT change_id FROM changes_before);
-- a new action, and it is gone
INSERT INTO extaction.actions (action, provider, operation) VALUES ('regress_mail', 'mail', 'send');
DELETE FROM extaction.actions WHERE action = 'regress_mail';
SELECT kind, old_row ->> 'provider' AS old, new_row ->> 'provider' AS new
FROM extaction.action_changes WHERE action = 'regress_mail' ORDER BY recorded_at;
SELECT state FROM story.fault('TRUNCATE extaction.actions');

--
-- Access is taken back
--
SET ROLE regress_owner;
SELECT extaction.revoke_access('access', 'regress_anna', 'approver');
SELECT extaction.revoke_access('access', 'regress_anna', 'approver');
RESET ROLE;
SELECT has_schema_privilege('regress_anna', 'extaction', 'USAGE') AS schema,
       has_function_privilege('regress_anna', 'extaction.revoke_approval(text,text,text,text)', 'EXECUTE') AS function,
       has_table_privilege('regress_anna', 'extaction.todo', 'SELECT') AS view;
SET ROLE regress_anna;
SELECT state, message FROM story.fault($$ SELECT extaction.approve_fake_task('access', story.task('x')) $$);
RESET ROLE;

-- a role keeps what it needs elsewhere, or for its other capabilities
SET ROLE regress_owner;
SELECT extaction.grant_access('access', 'regress_elsewhere', 'submitter');
SELECT extaction.revoke_access('access', 'regress_elsewhere', 'submitter');
SELECT extaction.revoke_access('access', 'regress_ui', 'submitter');
RESET ROLE;
SELECT r AS role, f AS function, has_function_privilege(r, f, 'EXECUTE')
FROM unnest(ARRAY['regress_elsewhere', 'regress_ui']) r,
    unnest(ARRAY['extaction.submit_fake_task(text,jsonb,text,text)', 'extaction.propose(text,text,jsonb,text,text,text)', 'extaction.find(text,text)',
                 'extaction.approve_fake_task(text,jsonb,timestamptz,text,text,text)', 'extaction.grant_access(text,text,text,text)']) f
ORDER BY 1, 2;

-- an owner may go when there is another
SET ROLE regress_owner;
SELECT extaction.grant_access('access', 'regress_bert', 'owner');
SELECT extaction.revoke_access('access', 'regress_owner', 'owner');
SELECT state, message FROM story.fault($$ SELECT extaction.grant_access('access', 'regress_owner', 'owner') $$);
RESET ROLE;
SET ROLE regress_bert;
SELECT extaction.grant_access('access', 'regress_owner', 'owner');
SELECT extaction.revoke_access('access', 'regress_bert', 'owner');
RESET ROLE;

-- every change of access was kept
SELECT kind, member_name, capability, vouches_for, role FROM extaction.access_changes WHERE scope = 'access' ORDER BY event_id;

--
-- A dropped role takes its access with it
--
SET ROLE regress_owner;
SELECT extaction.grant_access('access', 'regress_anna', 'auditor');
RESET ROLE;
-- its name and its number must both be the same: renamed, it has no access
ALTER ROLE regress_anna RENAME TO regress_anne;
SET ROLE regress_anne;
SELECT state, path FROM story.fault($$ SELECT extaction.find('access', 'call-back') $$);
SELECT count(*) FROM extaction.timeline;
RESET ROLE;
ALTER ROLE regress_anne RENAME TO regress_anna;
SET ROLE regress_anna;
SELECT status FROM extaction.find('access', 'call-back');
RESET ROLE;
-- and a namesake has none either
DROP OWNED BY regress_anna;
DROP ROLE regress_anna;
CREATE ROLE regress_anna;
SELECT member, capability, counts FROM extaction.access WHERE scope = 'access' AND member = 'regress_anna';
GRANT USAGE ON SCHEMA extaction TO regress_anna;
GRANT EXECUTE ON FUNCTION extaction.find(text, text), extaction.submit_fake_task(text, jsonb, text, text) TO regress_anna;
GRANT SELECT ON extaction.timeline TO regress_anna;
SET ROLE regress_anna;
SELECT state, path, message FROM story.fault($$ SELECT extaction.find('access', 'call-back') $$);
SELECT :receipt FROM extaction.submit_fake_task('access', story.task('call-back'));
SELECT count(*) FROM extaction.timeline;
RESET ROLE;
-- what is left of the old one can be cleared away
SET ROLE regress_owner;
SELECT extaction.revoke_access('access', 'regress_anna', 'auditor');
SELECT count(*) FROM extaction.access WHERE member = 'regress_anna';
RESET ROLE;

-- a scope whose last owner was dropped is not lost: a superuser gives it to another
DROP OWNED BY regress_elsewhere;
DROP ROLE regress_elsewhere;
SELECT member, capability, counts FROM extaction.access WHERE scope = 'access elsewhere' ORDER BY 2;
SET ROLE regress_owner;
SELECT state, path FROM story.fault($$ SELECT extaction.grant_access('access elsewhere', 'regress_owner', 'owner') $$);
RESET ROLE;
SELECT extaction.grant_access('access elsewhere', current_user, 'owner');
SELECT requests FROM extaction.fake_task_counts WHERE scope = 'access elsewhere';
SELECT state, path FROM story.fault($$ SELECT extaction.grant_access('no such scope', current_user, 'owner') $$);

--
-- Clean up
--
SET client_min_messages = warning;
DROP OWNED BY regress_owner, regress_program, regress_anna, regress_bert, regress_auditor, regress_ui, "regress_ui:anna", regress_stranger;
DROP ROLE regress_owner, regress_program, regress_anna, regress_bert, regress_auditor, regress_ui, "regress_ui:anna", regress_stranger;
