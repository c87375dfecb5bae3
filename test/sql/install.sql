--
-- How the extension comes into a database, and that it opens nothing.
--
-- Every other test starts from here: it finds the extension installed, and
-- the schema "story" with what the tests share.
--
\set SHOW_CONTEXT never

--
-- What must not be there when it comes
--

-- pgcrypto is needed, and named
CREATE EXTENSION extaction;
CREATE EXTENSION pgcrypto;

-- somebody else's schema of that name is refused: its owner could drop what
-- is put into it
CREATE ROLE regress_squatter;
CREATE SCHEMA extaction AUTHORIZATION regress_squatter;
CREATE EXTENSION extaction;
SELECT count(*) AS extensions FROM pg_extension WHERE extname = 'extaction';
DROP SCHEMA extaction;
DROP ROLE regress_squatter;

-- a trap in pgcrypto's schema, which is on the search_path of every install
-- script: these fit the script's own comparisons better than any of
-- PostgreSQL's
CREATE FUNCTION public.trap(oid, regprocedure) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT true';
CREATE OPERATOR public.= (FUNCTION = public.trap, LEFTARG = oid, RIGHTARG = regprocedure);
CREATE FUNCTION public.trap(oid, regclass) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT true';
CREATE OPERATOR public.= (FUNCTION = public.trap, LEFTARG = oid, RIGHTARG = regclass);
CREATE FUNCTION public.format(text, text, bigint) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT ''trapped''';

CREATE EXTENSION extaction;

-- nothing of the extension has stepped into it: no rows
SELECT DISTINCT pg_describe_object(d.refclassid, d.refobjid, 0) AS trap,
       pg_describe_object('pg_class'::regclass, r.ev_class, 0) AS used_by
FROM pg_depend d JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
WHERE r.ev_class IN (SELECT objid FROM pg_depend
                     WHERE classid = 'pg_class'::regclass AND refclassid = 'pg_extension'::regclass
                       AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'extaction'))
  AND (d.refclassid = 'pg_operator'::regclass
       AND d.refobjid IN (SELECT oid FROM pg_operator WHERE oprnamespace <> 'pg_catalog'::regnamespace)
    OR d.refclassid = 'pg_proc'::regclass
       AND d.refobjid IN (SELECT oid FROM pg_proc WHERE pronamespace = 'public'::regnamespace))
ORDER BY 1, 2;

-- and so the trap can go, and the extension stays
DROP OPERATOR public.= (oid, regprocedure);
DROP OPERATOR public.= (oid, regclass);
DROP FUNCTION public.trap(oid, regprocedure), public.trap(oid, regclass), public.format(text, text, bigint);

--
-- What it is
--

SELECT extname, extversion, extrelocatable, n.nspname AS schema,
       extowner::regrole = current_user::regrole AS mine
FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
WHERE extname = 'extaction';

-- every object of it is in its schema, but the schema itself: no rows
SELECT pg_describe_object(classid, objid, 0)
FROM pg_depend d, pg_identify_object(classid, objid, 0) o
WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e'
  AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'extaction')
  AND o.type NOT IN ('schema', 'trigger', 'rule') AND o.schema IS DISTINCT FROM 'extaction';

-- it cannot go elsewhere
ALTER EXTENSION extaction SET SCHEMA public;

-- nothing has happened yet: no scope, no ledger, no action
SELECT (SELECT count(*) FROM extaction.scopes) AS scopes,
       (SELECT count(*) FROM extaction.ledger) AS ledger,
       (SELECT count(*) FROM extaction.actions) AS actions,
       (SELECT count(*) FROM extaction.action_changes) AS action_changes;

--
-- Nothing is open to PUBLIC
--

-- neither the schema, nor a table, view, sequence or function: no rows
SELECT 'schema' AS kind, nspname::text AS name, a.privilege_type
FROM pg_namespace, aclexplode(coalesce(nspacl, acldefault('n', nspowner))) a
WHERE nspname = 'extaction' AND a.grantee = 0
UNION ALL
SELECT 'relation', relname, a.privilege_type
FROM pg_class, aclexplode(coalesce(relacl, acldefault(CASE relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", relowner))) a
WHERE relnamespace = 'extaction'::regnamespace AND a.grantee = 0
UNION ALL
SELECT 'function', proname, a.privilege_type
FROM pg_proc, aclexplode(coalesce(proacl, acldefault('f', proowner))) a
WHERE pronamespace = 'extaction'::regnamespace AND a.grantee = 0;

-- the caller decides what happens, not the owner: SECURITY INVOKER: no rows
SELECT oid::regprocedure FROM pg_proc
WHERE pronamespace = 'extaction'::regnamespace AND prosecdef;

-- a stranger gets nowhere
CREATE ROLE regress_stranger;
SET ROLE regress_stranger;
SELECT extaction.create_scope('mine');
SELECT * FROM extaction.todo;
SELECT extaction.canonical('{}');
RESET ROLE;
DROP ROLE regress_stranger;

--
-- Settings
--

-- the library is loaded with the first call, no preloading
LOAD 'extaction';
SELECT name, setting, unit, context FROM pg_settings WHERE name LIKE 'extaction.%' ORDER BY name;

-- the prefix is reserved: a slip of the pen is an error
SET extaction.acter = 'ui:anna';
\set VERBOSITY sqlstate
SET extaction.max_document_size = 0;
\set VERBOSITY default

-- what a caller might set to hide something, only a superuser may
CREATE ROLE regress_stranger;
SET ROLE regress_stranger;
SET extaction.log_replays = off;
SET extaction.max_document_size = '1GB';
RESET ROLE;
DROP ROLE regress_stranger;

--
-- What the tests share
--
CREATE SCHEMA story;
GRANT USAGE ON SCHEMA story TO PUBLIC;

-- a task-request.v1 document; what a test does not care about is the same everywhere
CREATE FUNCTION story.task(intent_id text, title text DEFAULT 'Call Ada back',
                           candidate_id text DEFAULT 'candidate-1', content text DEFAULT '{"title":"Call Ada back"}',
                           source_version text DEFAULT 'version 1') RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
RETURN jsonb_build_object(
    'schema_version', 'task-request.v1', 'fixture_kind', 'test', 'request_id', 'request-1',
    'intent_id', intent_id, 'operation', 'create_task', 'provider', 'fake-task-provider.v1',
    'candidate_ref', jsonb_build_object('candidate_id', candidate_id,
        'candidate_digest', encode(sha256(convert_to(content, 'UTF8')), 'hex'),
        'source_id', 'letter-31', 'source_version', source_version),
    'task', jsonb_build_object('title', title, 'assignee_person_ref', NULL, 'due_at', NULL));

-- the scope, source and candidate that such a document speaks of
CREATE FUNCTION story.begins(scope text) RETURNS TABLE (scope_is text, source_is text, candidate_is text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    scope_is := extaction.create_scope(scope);
    source_is := extaction.observe_source(scope, 'letter-31', 'version 1');
    SELECT p.status INTO candidate_is
    FROM extaction.propose(scope, 'candidate-1', '{"title": "Call Ada back"}', 'letter-31', 'version 1') p;
    RETURN NEXT;
END $$;

-- what an error says: to a program (state, path), and to a human; a call
-- without error is undone too
CREATE FUNCTION story.fault(call text, OUT state text, OUT path text, OUT message text, OUT detail text, OUT hint text)
LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE call;
    RAISE SQLSTATE 'STORY';
EXCEPTION
    WHEN SQLSTATE 'STORY' THEN
        message := 'no error';
    WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, path = CONSTRAINT_NAME, message = MESSAGE_TEXT,
        detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
END $$;

-- how many rows there are in each table of the ledger
CREATE FUNCTION story.rows() RETURNS TABLE (name text, n bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    FOR name IN SELECT c.relname FROM pg_class c
                WHERE c.relnamespace = 'extaction'::regnamespace AND c.relkind = 'r' ORDER BY 1
    LOOP
        EXECUTE format('SELECT count(*) FROM extaction.%I', name) INTO n;
        RETURN NEXT;
    END LOOP;
END $$;

-- what a call leaves behind: the provider's three numbers, and who has to see to the intent
CREATE FUNCTION story.after(scope text, intent_id text)
RETURNS TABLE (requests bigint, executions bigint, tasks bigint, todo text, for_whom text, next_step text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT c.requests, c.executions, c.tasks, t.gate, t.for_whom, t.next_step
    FROM extaction.fake_task_counts c
    LEFT JOIN extaction.todo t ON t.scope = c.scope AND t.intent_id = $2
    WHERE c.scope = $1;
END $$;

-- waits until a moment has passed
CREATE FUNCTION story.until(moment timestamptz) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    WHILE clock_timestamp() < moment LOOP
        PERFORM pg_sleep(0.01);
    END LOOP;
    RETURN 'has passed';
END $$;

--
-- What is shared by the tests about going out and coming back: one scope a
-- case, intents of the same content
--

-- asks for what is approved already
CREATE FUNCTION story.ask(scope text, action text, intent_id text DEFAULT 'x', expires interval DEFAULT '1 day') RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM extaction.create_scope(scope);
    PERFORM extaction.approve_in_advance(scope, intent_id, action, 'ada@example.org', '{"n": 1}', expires_at => clock_timestamp() + expires);
    RETURN (SELECT r.status || ' ' || r.state FROM extaction.submit(scope, intent_id, action, 'ada@example.org', '{"n": 1}') r);
END $$;

-- claims in a scope: how many
CREATE FUNCTION story.claim(scope text, step text DEFAULT 'send', lease interval DEFAULT '1 min') RETURNS bigint
LANGUAGE sql AS $$ SELECT claimed FROM extaction.claim('w', 10, $2, $3, scope => $1) $$;

-- an attempt's answer
CREATE FUNCTION story.answer(scope text, attempt bigint, outcome text, code text DEFAULT NULL, retry_after interval DEFAULT NULL, intent_id text DEFAULT 'x',
                             OUT status text, OUT state text, OUT next_step text, OUT needs text)
LANGUAGE sql AS $$
    SELECT status, state, next_step, needs
    FROM extaction.record_outcome($1, $6, $2, $3, CASE WHEN $4 IS NOT NULL THEN jsonb_build_object('code', $4) END, retry_after => $5)
$$;

-- where it stands
CREATE FUNCTION story.at(scope text, intent_id text DEFAULT 'x', OUT state text, OUT next_step text, OUT attempt bigint)
LANGUAGE sql AS $$ SELECT state, next_step, attempt FROM extaction.find($1, $2) $$;

-- time goes by for what is open in a scope
CREATE FUNCTION story.later(scope text, by interval) RETURNS void
LANGUAGE sql AS $$
    UPDATE extaction.worklist w SET due_at = due_at - $2, lease_until = lease_until - $2, first_sent_at = first_sent_at - $2,
        quiet_from = quiet_from - $2, since = since - $2, answered_at = answered_at - $2, look_began_at = look_began_at - $2
    WHERE w.scope = $1
$$;
