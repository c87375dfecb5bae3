-- Who may call and see what: the table below, for every function and view there is; and whose rows a view shows.

BEGIN;
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pgtap;
CREATE EXTENSION IF NOT EXISTS extaction CASCADE;
SELECT no_plan();

-- s submitter, a approver, w worker, u auditor, o owner; '' nobody but the owner of the extension
CREATE TEMP TABLE matrix (kind text, name text, holders text);
INSERT INTO matrix VALUES
    ('schema',   'extaction',            'sawuo'),
    ('view', 'access', 'sawuo'),
    ('view', 'approval_status', 'sawuo'),
    ('view', 'batch_items', 'sawuo'),
    ('view', 'batch_status', 'sawuo'),
    ('view', 'disagreements', 'uo'),
    ('view', 'fake_task_counts', 'sawuo'),
    ('view', 'folded_waiting', ''),
    ('view', 'folded_worklist', ''),
    ('view', 'gates', 'sawuo'),
    ('view', 'grey_zone', 'sawuo'),
    ('view', 'intent_status', 'sawuo'),
    ('view', 'metrics', 'sawuo'),
    ('view', 'pending_approvals', 'sawuo'),
    ('view', 'sequences_behind', 'uo'),
    ('view', 'timeline', 'sawuo'),
    ('view', 'todo', 'sawuo'),
    ('view', 'visible_scopes', 'sawuo'),
    ('view', 'worklist_disagreements', 'uo'),
    ('function', 'abandon', 'ao'),
    ('function', 'accepted', 'sawuo'),
    ('function', 'adopt', ''),
    ('function', 'approve', 'ao'),
    ('function', 'approve_batch_in_advance', 'ao'),
    ('function', 'approve_fake_task', 'ao'),
    ('function', 'approve_in_advance', 'ao'),
    ('function', 'cancel', 'sao'),
    ('function', 'canonical', 'sawuo'),
    ('function', 'canonical_request', 'sawuo'),
    ('function', 'check_gates', 'sawuo'),
    ('function', 'claim', 'wo'),
    ('function', 'claimed', 'wo'),
    ('function', 'compensate', 'so'),
    ('function', 'contract_proof', 'sawuo'),
    ('function', 'contract_step', 'sawuo'),
    ('function', 'create_scope', ''),
    ('function', 'decide', 'ao'),
    ('function', 'digest', 'sawuo'),
    ('function', 'drop_wake_source', 'o'),
    ('function', 'explain', 'sawuo'),
    ('function', 'extend', 'wo'),
    ('function', 'fact_tables', 'uo'),
    ('function', 'find', 'sawuo'),
    ('function', 'forget_catalogue', ''),
    ('function', 'gate_list', 'sawuo'),
    ('function', 'grant_access', 'o'),
    ('function', 'idempotency_key', 'sawuo'),
    ('function', 'missing_guards', 'uo'),
    ('function', 'next_step', 'sawuo'),
    ('function', 'next_wakeup', 'swo'),
    ('function', 'observe_source', 'swo'),
    ('function', 'pause', 'o'),
    ('function', 'propose', 'so'),
    ('function', 'rebuild_worklist', ''),
    ('function', 'record_action_change', ''),
    ('function', 'record_lookup', 'wo'),
    ('function', 'record_outcome', 'wo'),
    ('function', 'redact', 'o'),
    ('function', 'redact_older_than', 'o'),
    ('function', 'refuse_change', ''),
    ('function', 'reject', 'ao'),
    ('function', 'release', 'wo'),
    ('function', 'repair_access', ''),
    ('function', 'repair_guards', ''),
    ('function', 'repair_sequences', ''),
    ('function', 'request_digest', 'sawuo'),
    ('function', 'resume', 'o'),
    ('function', 'retry', 'ao'),
    ('function', 'revoke_access', 'o'),
    ('function', 'revoke_approval', 'ao'),
    ('function', 'sent_to', 'sawuo'),
    ('function', 'set_wake_source', 'o'),
    ('function', 'stored_digest', 'uo'),
    ('function', 'strict_json', 'sawuo'),
    ('function', 'submit', 'so'),
    ('function', 'submit_batch', 'so'),
    ('function', 'submit_fake_task', 'so'),
    ('function', 'sweep', 'wo'),
    ('function', 'verify', 'uo'),
    ('function', 'wake', 'swo');
-- no table or sequence is open to anybody
INSERT INTO matrix SELECT CASE relkind WHEN 'S' THEN 'sequence' ELSE 'table' END, relname, ''
FROM pg_class WHERE relnamespace = 'extaction'::regnamespace AND relkind IN ('r', 'S');

SELECT set_eq($$ SELECT name FROM matrix WHERE kind = 'function' $$,
    $$ SELECT proname::text FROM pg_proc WHERE pronamespace = 'extaction'::regnamespace $$, 'the table names every function');
SELECT set_eq($$ SELECT name FROM matrix WHERE kind = 'view' $$,
    $$ SELECT relname::text FROM pg_class WHERE relnamespace = 'extaction'::regnamespace AND relkind = 'v' $$, 'the table names every view');

CREATE TEMP TABLE roles (letter text, capability text, role text);
INSERT INTO roles SELECT left(capability, 1), capability, 'tap_' || capability FROM unnest(ARRAY['submitter', 'approver', 'worker', 'owner']) capability;
INSERT INTO roles VALUES ('u', 'auditor', 'tap_auditor'), ('-', NULL, 'tap_nobody');

CREATE ROLE tap_submitter;
CREATE ROLE tap_approver;
CREATE ROLE tap_worker;
CREATE ROLE tap_auditor;
CREATE ROLE tap_owner;
CREATE ROLE tap_nobody;
SELECT is(extaction.create_scope('tap'), 'created', 'a scope');
SELECT is(extaction.create_scope('tap other'), 'created', 'another scope');

CREATE FUNCTION pg_temp.privileges(role text) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT kind || ' ' || name FROM matrix
    WHERE CASE kind
          WHEN 'schema' THEN has_schema_privilege(role, name, 'USAGE')
          WHEN 'function' THEN has_function_privilege(role, (SELECT oid FROM pg_proc WHERE pronamespace = 'extaction'::regnamespace AND proname = name), 'EXECUTE')
          WHEN 'sequence' THEN has_sequence_privilege(role, 'extaction.' || name, 'USAGE, SELECT, UPDATE')
          WHEN 'table' THEN has_table_privilege(role, 'extaction.' || name, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')
          ELSE has_table_privilege(role, 'extaction.' || name, 'SELECT') END $$;
CREATE FUNCTION pg_temp.expected(letters text) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT kind || ' ' || name FROM matrix WHERE holders ~ ('[' || letters || ']') $$;

-- one capability
SELECT is_empty(format('SELECT * FROM pg_temp.privileges(%L)', role), role || ' has nothing before') FROM roles;
SELECT is(extaction.grant_access('tap', role, capability), 'granted', capability || ' is granted') FROM roles WHERE capability IS NOT NULL;
SELECT set_eq(format('SELECT * FROM pg_temp.privileges(%L)', role), format('SELECT * FROM pg_temp.expected(%L)', letter),
    role || ' has what the table says') FROM roles;
SELECT is_empty($$ SELECT r.role, c.relname FROM roles r, pg_class c WHERE c.relnamespace = 'extaction'::regnamespace AND c.relkind = 'v'
    AND has_table_privilege(r.role, c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER, REFERENCES') $$, 'nobody may write to a view');
SELECT is_empty($$ SELECT r.role FROM roles r WHERE has_schema_privilege(r.role, 'extaction', 'CREATE') $$, 'nobody may make anything in the schema');
SELECT is_empty($$ SELECT p.proname, a.grantee::regrole FROM pg_proc p, aclexplode(p.proacl) a WHERE p.pronamespace = 'extaction'::regnamespace
    AND a.is_grantable AND a.grantee <> p.proowner $$, 'nobody may pass a function on');

-- two capabilities, in two scopes: what is taken back leaves what the other needs
SELECT is(extaction.grant_access('tap', 'tap_nobody', first.capability), 'granted', format('%s in one scope', first.capability))
    || E'\n' || is(extaction.grant_access('tap other', 'tap_nobody', second.capability), 'granted', format('%s in another', second.capability))
    || E'\n' || set_eq($$ SELECT * FROM pg_temp.privileges('tap_nobody') $$, format('SELECT * FROM pg_temp.expected(%L)', first.letter || second.letter),
                       format('%s and %s have what the table says', first.capability, second.capability))
    || E'\n' || is(extaction.revoke_access('tap', 'tap_nobody', first.capability), 'revoked', format('%s is taken back', first.capability))
    || E'\n' || set_eq($$ SELECT * FROM pg_temp.privileges('tap_nobody') $$, format('SELECT * FROM pg_temp.expected(%L)', second.letter),
                       format('%s has what the table says', second.capability))
    || E'\n' || is(extaction.revoke_access('tap other', 'tap_nobody', second.capability), 'revoked', format('%s is taken back', second.capability))
    || E'\n' || is_empty($$ SELECT * FROM pg_temp.privileges('tap_nobody') $$, 'and nothing is left')
FROM roles first, roles second WHERE first.capability IS NOT NULL AND second.capability IS NOT NULL;

-- in the other scope, too, everybody is a stranger: not one row, and 42501 or scope_denied
SELECT extaction.observe_source('tap other', 'letter', 'v1') \g /dev/null
SELECT extaction.propose('tap other', 'candidate', '{"title": "call"}', 'letter', 'v1') \g /dev/null
CREATE FUNCTION pg_temp.request() RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT jsonb_build_object(
        'schema_version', 'task-request.v1', 'fixture_kind', 'tap', 'request_id', 'r',
        'intent_id', 'intent', 'operation', 'create_task', 'provider', 'fake-task-provider.v1',
        'candidate_ref', '{"candidate_id": "candidate", "candidate_digest": "6a2752437821dcf6485f2c7c889336a616e15d2485aacd9b54541e5e2c231689",
                           "source_id": "letter", "source_version": "v1"}'::jsonb,
        'task', '{"title": "call", "assignee_person_ref": null, "due_at": null}'::jsonb) $$;
SELECT is((extaction.submit_fake_task('tap other', pg_temp.request())).gate, 'approval_missing', 'something waits in the other scope');
SELECT is((extaction.approve_fake_task('tap other', pg_temp.request(), approval_id => 'yes')).status, 'approved', 'and is approved');
SELECT is((extaction.submit_fake_task('tap other', pg_temp.request())).status, 'created', 'and done');
SELECT is((extaction.submit_fake_task('tap other', jsonb_set(pg_temp.request(), '{task,title}', '"x"'))).status, 'blocked', 'and something else waits');

-- (each role looks, and what it saw is judged afterwards: pgTAP itself cannot run as it)
CREATE TEMP TABLE seen (role text, what text, answer text);
GRANT ALL ON seen, roles, matrix TO PUBLIC;
CREATE FUNCTION pg_temp.try(what text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    answer text;
BEGIN
    BEGIN
        EXECUTE what INTO answer;
    EXCEPTION WHEN OTHERS THEN
        answer := SQLSTATE;
    END;
    INSERT INTO seen VALUES (current_user, what, answer);
END $$;
CREATE FUNCTION pg_temp.look() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    call text;
BEGIN
    FOREACH call IN ARRAY ARRAY['access', 'timeline', 'todo', 'fake_task_counts', 'visible_scopes'] LOOP
        PERFORM pg_temp.try(format('SELECT count(*) FROM extaction.%I WHERE scope = ''tap other''', call));
    END LOOP;
    PERFORM pg_temp.try('SELECT count(*) FROM extaction.verify() WHERE scope = ''tap other''');
    FOREACH call IN ARRAY ARRAY[
        'approve_fake_task(''tap other'', pg_temp.request())', 'revoke_approval(''tap other'', ''yes'', ''no'')',
        'find(''tap other'', ''intent'')', 'request_digest(''tap other'', ''i'', ''a'', ''d'', ''{}'')',
        'propose(''tap other'', ''c'', ''{}'', ''letter'', ''v1'')', 'observe_source(''tap other'', ''letter'', ''v2'')',
        'grant_access(''tap other'', ''tap_nobody'', ''owner'')', 'revoke_access(''tap other'', ''postgres'', ''owner'')',
        'create_scope(''tap other'')'] LOOP
        PERFORM pg_temp.try('SELECT * FROM extaction.' || call);
    END LOOP;
    PERFORM pg_temp.try('SELECT gate FROM extaction.submit_fake_task(''tap other'', pg_temp.request())');
END $$;
SET ROLE tap_submitter; SELECT pg_temp.look() \g /dev/null
SET ROLE tap_approver; SELECT pg_temp.look() \g /dev/null
SET ROLE tap_worker; SELECT pg_temp.look() \g /dev/null
SET ROLE tap_auditor; SELECT pg_temp.look() \g /dev/null
SET ROLE tap_owner; SELECT pg_temp.look() \g /dev/null
SET ROLE tap_nobody; SELECT pg_temp.look() \g /dev/null
RESET ROLE;
SELECT ok(CASE WHEN what LIKE 'SELECT count%' THEN answer = '0' OR answer = '42501' AND role NOT IN ('tap_owner', 'tap_auditor')
               ELSE answer IN ('42501', 'scope_denied') END,
    format('%s, a stranger: %s: %s', role, what, answer)) FROM seen;
SELECT is_empty($$ SELECT role, what FROM seen WHERE role = 'tap_nobody' AND answer <> '42501' $$, 'who is nobody gets 42501 from everything');
SELECT is((SELECT count(*) FROM extaction.timeline WHERE scope = 'tap other'), 5::bigint, 'and none of them left a trace there');
SELECT is_empty($$ SELECT * FROM extaction.scope_members WHERE scope = 'tap other' AND member_name LIKE 'tap%' $$, 'or became a member');

-- a member through another role; a name that is not the same any more does not count
CREATE ROLE tap_team;
CREATE ROLE tap_inherits IN ROLE tap_team;
CREATE ROLE tap_noinherit NOINHERIT IN ROLE tap_team;
SELECT is(extaction.grant_access('tap', 'tap_team', 'auditor'), 'granted', 'a team');
SELECT is((SELECT count(*) FROM (SELECT set_config('role', 'tap_inherits', true)) s, extaction.visible_scopes v), 1::bigint, 'a member of the team sees the scope');
RESET ROLE;
SELECT is(has_schema_privilege('tap_noinherit', 'extaction', 'USAGE'), false, 'one that does not inherit has to SET ROLE first');
ALTER ROLE tap_auditor RENAME TO tap_renamed;
SELECT is((SELECT counts FROM extaction.access WHERE scope = 'tap' AND member = 'tap_auditor'), false, 'a role that was renamed does not count');
DELETE FROM seen;
SET ROLE tap_renamed;
SELECT pg_temp.try('SELECT count(*) FROM extaction.visible_scopes') \g /dev/null
SELECT pg_temp.try('SELECT extaction.find(''tap'', ''intent'')') \g /dev/null
RESET ROLE;
SELECT bag_eq('SELECT answer FROM seen', ARRAY['0', '42501'], 'and has no access');

SELECT finish();
ROLLBACK;
