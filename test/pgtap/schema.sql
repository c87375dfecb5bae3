-- The promises of the schema: what a program, a DBA, pg_dump or a driver may rely on.

BEGIN;
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pgtap;
CREATE EXTENSION IF NOT EXISTS extaction CASCADE;
SELECT no_plan();

CREATE TEMP VIEW owned AS
    SELECT d.classid, d.objid FROM pg_depend d JOIN pg_extension e ON d.refobjid = e.oid
    WHERE d.refclassid = 'pg_extension'::regclass AND e.extname = 'extaction' AND d.deptype = 'e';
CREATE TEMP VIEW relations AS
    SELECT c.* FROM pg_class c WHERE c.relnamespace = 'extaction'::regnamespace AND c.relkind IN ('r', 'v', 'S', 'm', 'p', 'f');
CREATE TEMP VIEW functions AS
    SELECT p.*, l.lanname FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang WHERE p.pronamespace = 'extaction'::regnamespace;


--
-- Answers: their members in order (new ones come at the end, before nothing)
--

CREATE FUNCTION pg_temp.members(name text) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT a.attname || ' ' || format_type(a.atttypid, a.atttypmod) FROM pg_attribute a JOIN pg_type t ON t.typrelid = a.attrelid
    WHERE t.typnamespace = 'extaction'::regnamespace AND t.typname = name AND NOT a.attisdropped AND a.attnum > 0 ORDER BY a.attnum $$;

SELECT results_eq($$ SELECT * FROM pg_temp.members('receipt') $$, ARRAY[
    'status text', 'state text', 'next_step text', 'needs text', 'gate text', 'provider_ref text', 'idempotency_key uuid',
    'scope text', 'intent_id text', 'attempt bigint', 'approval_id text', 'request_digest text', 'bound_digest text',
    'batch_id text', 'recorded_at timestamp with time zone', 'receipt_id bigint', 'detail jsonb'], 'receipt');
SELECT results_eq($$ SELECT * FROM pg_temp.members('approval_receipt') $$, ARRAY[
    'status text', 'approvals bigint', 'required bigint', 'state text', 'expires_at timestamp with time zone',
    'approval_id text', 'request_digest text', 'needs text', 'detail jsonb'], 'approval_receipt');
SELECT results_eq($$ SELECT * FROM pg_temp.members('proposal') $$, ARRAY[
    'status text', 'revision bigint', 'digest text', 'candidate_id text', 'detail jsonb'], 'proposal');


--
-- Tables and the columns that others rely on
--

CREATE TEMP TABLE promised (relation text, attribute text, type text);
INSERT INTO promised VALUES
    ('ledger', 'epoch', 'bigint'), ('ledger', 'ledger_id', 'uuid'), ('ledger', 'system_identifier', 'bigint'),
    ('ledger', 'database_oid', 'oid'), ('ledger', 'timeline', 'bigint'), ('ledger', 'kind', 'text'),
    ('ledger', 'backup_taken_at', 'timestamp with time zone'), ('ledger', 'window_until', 'timestamp with time zone'),
    ('ledger', 'recorded_at', 'timestamp with time zone'), ('ledger', 'role', 'text'),
    ('scopes', 'scope', 'text'),
    ('scope_members', 'scope', 'text'), ('scope_members', 'member', 'regrole'), ('scope_members', 'member_name', 'text'),
    ('scope_members', 'capability', 'text'), ('scope_members', 'vouches_for', 'text'),
    ('access_changes', 'scope', 'text'), ('action_changes', 'old_row', 'jsonb'), ('action_changes', 'new_row', 'jsonb'),
    ('actions', 'action', 'text'), ('actions', 'provider', 'text'), ('actions', 'operation', 'text'),
    ('actions', 'capability', 'text'), ('actions', 'description', 'text'), ('actions', 'reversible', 'boolean'),
    ('actions', 'compensated_by', 'text'), ('actions', 'destination_pattern', 'text'), ('actions', 'approvals_required', 'bigint'),
    ('actions', 'self_approval', 'boolean'), ('actions', 'approval_ttl', 'interval'), ('actions', 'approval_ttl_max', 'interval'),
    ('actions', 'request_ttl', 'interval'), ('actions', 'max_attempts', 'bigint'), ('actions', 'retry_delay', 'interval'),
    ('actions', 'call_timeout', 'interval'), ('actions', 'enabled', 'boolean'),
    ('sources', 'scope', 'text'), ('sources', 'source_id', 'text'), ('sources', 'source_version', 'text'),
    ('candidates', 'scope', 'text'), ('candidates', 'candidate_id', 'text'), ('candidates', 'revision', 'bigint'),
    ('candidates', 'source_id', 'text'), ('candidates', 'source_version', 'text'), ('candidates', 'content', 'jsonb'),
    ('candidates', 'digest', 'bytea'),
    ('requests', 'scope', 'text'), ('requests', 'request_digest', 'bytea'), ('requests', 'intent_id', 'text'), ('requests', 'payload', 'jsonb'),
    ('approvals', 'scope', 'text'), ('approvals', 'approval_id', 'text'), ('approvals', 'request_digest', 'bytea'),
    ('approvals', 'expires_at', 'timestamp with time zone'),
    ('revocations', 'scope', 'text'), ('revocations', 'approval_id', 'text'), ('revocations', 'reason', 'text'),
    ('intents', 'scope', 'text'), ('intents', 'intent_id', 'text'), ('intents', 'event_id', 'bigint'),
    ('intents', 'recorded_at', 'timestamp with time zone'), ('intents', 'action', 'text'), ('intents', 'destination', 'text'),
    ('intents', 'payload', 'jsonb'), ('intents', 'candidate_id', 'text'), ('intents', 'request_digest', 'bytea'),
    ('intents', 'batch_id', 'text'), ('intents', 'approval_id', 'text'), ('intents', 'contract_version', 'bigint'),
    ('intents', 'idempotency_key', 'uuid'), ('intents', 'compensates', 'text'), ('intents', 'requester', 'text'),
    ('intents', 'session_user', 'text'), ('intents', 'actor', 'text'), ('intents', 'not_before', 'timestamp with time zone'),
    ('events', 'scope', 'text'), ('events', 'intent_id', 'text'), ('events', 'event_id', 'bigint'),
    ('events', 'recorded_at', 'timestamp with time zone'), ('events', 'kind', 'text'), ('events', 'attempt', 'bigint'),
    ('events', 'batch_id', 'text'), ('events', 'request_digest', 'bytea'), ('events', 'approval_id', 'text'),
    ('events', 'role', 'text'), ('events', 'session_user', 'text'), ('events', 'actor', 'text'),
    ('events', 'due_at', 'timestamp with time zone'), ('events', 'lease_until', 'timestamp with time zone'), ('events', 'detail', 'jsonb'),
    ('waiting', 'scope', 'text'), ('waiting', 'kind', 'text'), ('waiting', 'id', 'text'), ('waiting', 'request_digest', 'bytea'),
    ('waiting', 'gate', 'text'), ('waiting', 'needs', 'text'), ('waiting', 'requester', 'text'), ('waiting', 'since', 'timestamp with time zone'),
    ('wake_sources', 'scope', 'text'), ('wake_sources', 'source', 'text'), ('wake_sources', 'secret', 'bytea'),
    ('wakeups', 'scope', 'text'), ('wakeups', 'source', 'text'), ('wakeups', 'event_id', 'text'), ('wakeups', 'payload', 'text'),
    ('fake_task_requests', 'scope', 'text'), ('fake_task_executions', 'scope', 'text'), ('fake_tasks', 'scope', 'text'),
    ('fake_tasks', 'assignee_person_ref', 'text'),
    ('fake_task_counts', 'scope', 'text'), ('fake_task_counts', 'requests', 'bigint'), ('fake_task_counts', 'executions', 'bigint'),
    ('fake_task_counts', 'tasks', 'bigint'),
    ('gates', 'gate', 'text'), ('gates', 'meaning', 'text'), ('gates', 'who_can_fix', 'text'),
    ('todo', 'scope', 'text'), ('todo', 'intent_id', 'text'), ('todo', 'batch_id', 'text'), ('todo', 'state', 'text'),
    ('todo', 'for_whom', 'text'), ('todo', 'action', 'text'), ('todo', 'destination', 'text'), ('todo', 'gate', 'text'),
    ('todo', 'needs', 'text'), ('todo', 'next_step', 'text'), ('todo', 'since', 'timestamp with time zone'),
    ('todo', 'attempt', 'bigint'), ('todo', 'request_digest', 'text'),
    ('timeline', 'scope', 'text'), ('timeline', 'event_id', 'bigint'), ('timeline', 'kind', 'text'), ('timeline', 'request_digest', 'text');
SELECT col_type_is('extaction', relation, attribute, type, format('%s.%s is %s', relation, attribute, type)) FROM promised;

SELECT bag_eq($$ SELECT attname FROM pg_attribute WHERE attrelid = 'extaction.waiting'::regclass AND attnum = ANY
    (SELECT unnest(conkey) FROM pg_constraint WHERE conrelid = 'extaction.waiting'::regclass AND contype = 'p') $$,
    ARRAY['scope', 'kind', 'id']::name[], 'waiting: primary key');
SELECT bag_eq($$ SELECT attname FROM pg_attribute WHERE attrelid = 'extaction.events'::regclass AND attnum = ANY
    (SELECT unnest(conkey) FROM pg_constraint WHERE conrelid = 'extaction.events'::regclass AND contype = 'p') $$,
    ARRAY['scope', 'intent_id', 'event_id']::name[], 'events: primary key');
SELECT bag_eq($$ SELECT attname FROM pg_attribute WHERE attrelid = 'extaction.intents'::regclass AND attnum = ANY
    (SELECT unnest(conkey) FROM pg_constraint WHERE conrelid = 'extaction.intents'::regclass AND contype = 'p') $$,
    ARRAY['scope', 'intent_id']::name[], 'intents: primary key');


--
-- Rules for every table
--

SELECT is_empty($$ SELECT r.relname FROM relations r WHERE r.relkind = 'r'
    AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = r.oid AND i.indisprimary) $$, 'every table has a primary key');
SELECT is_empty($$ SELECT r.relname FROM relations r JOIN pg_index i ON i.indrelid = r.oid AND i.indisprimary
    JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum = i.indkey[0]
    WHERE a.attname <> 'scope' AND r.relname NOT IN ('ledger', 'actions', 'action_changes', 'contracts') $$,
    'every primary key begins with scope, but those of the ledger and the catalogue');
SELECT is_empty($$ SELECT r.relname, a.attname FROM relations r JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0
    JOIN pg_index i ON i.indrelid = r.oid AND a.attnum = ANY (i.indkey)
    WHERE a.attcollation NOT IN (0, '"C"'::regcollation) $$, 'every indexed text column is COLLATE "C"');
SELECT is_empty($$ SELECT r.relname, a.attname FROM relations r JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0
    WHERE r.relkind = 'r' AND a.atttypid = 'text'::regtype
      AND (a.attname IN ('scope', 'id', 'action', 'destination', 'capability', 'source_version', 'member_name', 'approver', 'requester', 'revoked_by')
           OR a.attname LIKE '%\_id') AND a.attcollation <> '"C"'::regcollation $$, 'every identifier is COLLATE "C"');
SELECT is_empty($$ SELECT conrelid::regclass, conname FROM pg_constraint JOIN relations r ON r.oid = conrelid WHERE contype = 'f' $$,
    'there are no foreign keys');
SELECT is_empty($$ SELECT r.relname FROM relations r WHERE r.relkind IN ('r', 'S')
    AND NOT r.oid = ANY ((SELECT extconfig FROM pg_extension WHERE extname = 'extaction')::oid[]) $$,
    'every table and sequence is marked for dump');
SELECT is_empty($$ SELECT o::regclass FROM pg_extension, unnest(extconfig) o WHERE extname = 'extaction'
    GROUP BY o HAVING count(*) > 1 $$, 'none of them twice');
SELECT is_empty($$ SELECT r.relname FROM relations r WHERE r.relkind = 'r' AND (r.relrowsecurity OR r.relpersistence <> 'p') $$,
    'no table is unlogged or has row security, which would break a restore');


--
-- Guards
--

SELECT set_eq($$ SELECT relname::text FROM relations WHERE relkind = 'r' $$,
    $$ SELECT * FROM extaction.fact_tables()
       UNION ALL VALUES ('actions'), ('scope_members'), ('worklist'), ('waiting'), ('pauses'), ('wake_sources'), ('unread_wakeups') $$,
    'every table is a fact table, but for the catalogue, the members and the worklists');
SELECT is(t.tgenabled::text || ' ' || t.tgtype || ' ' || t.tgfoid::regprocedure, 'A 58 extaction.refuse_change()',
    format('%s refuses update, delete and truncate, always', f))
FROM extaction.fact_tables() f
LEFT JOIN pg_trigger t ON t.tgrelid = format('extaction.%I', f)::regclass AND t.tgname = 'append_only';
SELECT is_empty($$ SELECT t.tgrelid::regclass, t.tgname FROM pg_trigger t JOIN relations r ON r.oid = t.tgrelid WHERE t.tgenabled <> 'A' $$,
    'every trigger is always enabled');
SELECT throws_ok(format('UPDATE extaction.%I SET %I = %2$I', f, a.attname), '55000', NULL, format('%s: UPDATE is refused', f))
FROM extaction.fact_tables() f
JOIN pg_attribute a ON a.attrelid = format('extaction.%I', f)::regclass AND a.attnum = 1;
SELECT throws_ok(format('DELETE FROM extaction.%I', f), '55000', NULL, format('%s: DELETE is refused', f)) FROM extaction.fact_tables() f;
SELECT throws_ok(format('TRUNCATE extaction.%I', f), '55000', NULL, format('%s: TRUNCATE is refused', f)) FROM extaction.fact_tables() f;
SELECT throws_ok('TRUNCATE extaction.actions', '55000', NULL, 'actions: TRUNCATE is refused');
SET session_replication_role = replica;
SELECT throws_ok(format('DELETE FROM extaction.%I', f), '55000', NULL, format('%s: DELETE is refused to a replica, too', f)) FROM extaction.fact_tables() f;
RESET session_replication_role;

-- a superuser can drop one, but not in secret
DROP TRIGGER append_only ON extaction.intents;
ALTER TABLE extaction.events ENABLE TRIGGER append_only;
ALTER TABLE extaction.approvals DISABLE TRIGGER append_only;
ALTER TABLE extaction.actions ENABLE TRIGGER record_action_change;
ALTER TABLE extaction.actions DISABLE TRIGGER refuse_truncate;
DROP TRIGGER append_only ON extaction.sources;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON extaction.sources
    FOR EACH STATEMENT WHEN (false) EXECUTE FUNCTION extaction.refuse_change();
ALTER TABLE extaction.sources ENABLE ALWAYS TRIGGER append_only;
SELECT results_eq($$ SELECT substring(detail FROM '^table (\w+) ') FROM extaction.verify() WHERE what = 'guard' ORDER BY 1 $$,
    ARRAY['actions', 'actions', 'approvals', 'events', 'intents', 'sources'], 'verify() names every guard that is gone');
SELECT is(extaction.repair_guards(), 6::bigint, 'repair_guards() sets them again');
SELECT is_empty($$ SELECT * FROM extaction.verify() $$, 'then verify() has nothing to say');
SELECT is(extaction.repair_guards(), 0::bigint, 'and there is nothing to repair');
SELECT is_empty($$ SELECT t.tgname FROM pg_trigger t JOIN relations r ON r.oid = t.tgrelid
    WHERE NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_trigger'::regclass AND d.objid = t.oid AND d.refobjid = r.oid) $$,
    'a repaired guard goes with its table');


--
-- Rules for every function
--

SELECT is_empty($$ SELECT proname FROM functions WHERE prosecdef $$, 'every function is SECURITY INVOKER');
SELECT is_empty($$ SELECT proname FROM functions WHERE lanname <> 'c'
    AND NOT coalesce(proconfig, '{}') && ARRAY['search_path=pg_catalog, pg_temp'] $$, 'every function that is not C has its own search_path');
SELECT is_empty($$ SELECT proname FROM functions GROUP BY proname HAVING count(*) > 1 $$, 'no function has an overload');
SELECT is_empty($$ SELECT proname, t::regtype FROM functions, unnest(proargtypes::oid[]) t
    WHERE t::regtype NOT IN ('text', 'jsonb', 'bigint', 'timestamptz', 'uuid', 'interval', 'boolean', 'text[]', 'extaction.receipt') $$,
    'parameters have types that every driver can send');
SELECT is_empty($$ SELECT proname FROM functions WHERE provariadic <> 0 OR prokind <> 'f' $$, 'there are only plain functions');
SELECT is_empty($$ SELECT proname FROM functions WHERE prorettype <> 'trigger'::regtype
    AND cardinality(coalesce(proargnames, '{}')) < pronargs $$, 'every parameter has a name');
SELECT is_empty($$ SELECT proname FROM functions WHERE proname NOT IN ('actor') AND 'actor' = ANY (proargnames[1:pronargs])
    AND proargnames[pronargs] <> 'actor' $$, 'actor is the last parameter');
SELECT is_empty($$ SELECT proname FROM functions WHERE proargnames[1] <> 'scope' AND 'scope' = ANY (proargnames[1:pronargs])
    AND proname NOT IN ('idempotency_key', 'claim', 'verify') $$, 'scope is the first parameter');
SELECT volatility_is('extaction', f, 'stable', f || ' is STABLE') FROM unnest(ARRAY['find', 'request_digest', 'verify']::name[]) f;
SELECT volatility_is('extaction', f, 'immutable', f || ' is IMMUTABLE')
FROM unnest(ARRAY['canonical', 'digest', 'strict_json', 'idempotency_key']::name[]) f;
SELECT volatility_is('extaction', f, 'volatile', f || ' is VOLATILE')
FROM unnest(ARRAY['submit_fake_task', 'approve_fake_task', 'revoke_approval', 'propose', 'observe_source', 'create_scope',
                  'grant_access', 'revoke_access']::name[]) f;
SELECT is(pg_get_function_arguments(('extaction.' || f)::regproc), a, f || ': its parameters')
FROM (VALUES
    ('submit_fake_task', 'scope text, request jsonb, approval_id text DEFAULT NULL::text, actor text DEFAULT NULL::text'),
    ('approve_fake_task', 'scope text, request jsonb, expires_at timestamp with time zone DEFAULT NULL::timestamp with time zone, approval_id text DEFAULT NULL::text, capability text DEFAULT ''create_fake_task''::text, actor text DEFAULT NULL::text'),
    ('revoke_approval', 'scope text, approval_id text, reason text, actor text DEFAULT NULL::text'),
    ('propose', 'scope text, candidate_id text, content jsonb, source_id text, source_version text, actor text DEFAULT NULL::text'),
    ('find', 'scope text, intent_id text'),
    ('request_digest', 'scope text, intent_id text, action text, destination text, payload jsonb, candidate_id text DEFAULT NULL::text'),
    ('grant_access', 'scope text, role text, capability text, vouches_for text DEFAULT NULL::text'),
    ('revoke_access', 'scope text, role text, capability text'),
    ('create_scope', 'scope text')) AS promised(f, a);


--
-- Rules for every object
--

SELECT is_empty($$ SELECT relname FROM relations WHERE relkind = 'v' AND relname <> 'gates'
    AND NOT coalesce(reloptions, '{}') @> ARRAY['security_barrier=true'] AND NOT coalesce(reloptions, '{}') @> ARRAY['security_barrier'] $$,
    'every view is a security barrier');
SELECT is_empty($$ SELECT relname FROM relations WHERE obj_description(oid, 'pg_class') IS NULL $$, 'every table, view and sequence has a comment');
SELECT is_empty($$ SELECT proname FROM functions WHERE obj_description(oid, 'pg_proc') IS NULL $$, 'every function has a comment');
SELECT is_empty($$ SELECT t.typname FROM pg_type t JOIN pg_class c ON c.oid = t.typrelid
    WHERE t.typnamespace = 'extaction'::regnamespace AND c.relkind = 'c' AND obj_description(t.oid, 'pg_type') IS NULL $$, 'every type has a comment');
SELECT isnt(obj_description(oid, 'pg_extension'), NULL, 'the extension has a comment') FROM pg_extension WHERE extname = 'extaction';
SELECT is_empty($$ SELECT relname FROM relations r WHERE NOT EXISTS (SELECT FROM owned WHERE objid = r.oid) $$, 'every relation belongs to the extension');
SELECT is_empty($$ SELECT proname FROM functions r WHERE NOT EXISTS (SELECT FROM owned WHERE objid = r.oid) $$, 'every function belongs to the extension');
SELECT is_empty($$ SELECT pg_describe_object(classid, objid, 0) FROM owned
    WHERE classid = 'pg_proc'::regclass AND objid NOT IN (SELECT oid FROM functions)
       OR classid = 'pg_class'::regclass AND objid NOT IN (SELECT oid FROM pg_class WHERE relnamespace = 'extaction'::regnamespace) $$,
    'the extension makes nothing outside its schema');
SELECT is_empty($$ SELECT proname FROM functions, aclexplode(coalesce(proacl, acldefault('f', proowner))) a WHERE a.grantee = 0 $$,
    'no function is open to PUBLIC');
SELECT is_empty($$ SELECT relname FROM relations,
    aclexplode(coalesce(relacl, acldefault(CASE relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", relowner))) a WHERE a.grantee = 0 $$,
    'no table, view or sequence is open to PUBLIC');
SELECT is_empty($$ SELECT nspname FROM pg_namespace, aclexplode(coalesce(nspacl, acldefault('n', nspowner))) a
    WHERE nspname = 'extaction' AND a.grantee = 0 $$, 'the schema is not open to PUBLIC');
SELECT is_empty($$ SELECT attrelid::regclass FROM pg_attribute JOIN relations r ON r.oid = attrelid WHERE attacl IS NOT NULL $$,
    'there are no privileges on single columns');

SELECT finish();
ROLLBACK;
