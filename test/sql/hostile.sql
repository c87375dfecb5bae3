--
-- What a hostile caller prepares: operators and functions on the search_path,
-- settings, code that others run for him.
--
\set SHOW_CONTEXT never
\pset null '-'
\set receipt 'status, gate, state, next_step, attempt, provider_ref IS NOT NULL AS task'

CREATE ROLE regress_mallory;
CREATE ROLE regress_desk;

SELECT * FROM story.begins('hostile');
SELECT * FROM story.begins('hostile elsewhere');
SELECT extaction.grant_access('hostile', 'regress_mallory', 'submitter');
SELECT extaction.grant_access('hostile', 'regress_desk', 'approver');
SELECT extaction.grant_access('hostile elsewhere', 'regress_mallory', 'approver');

-- a schema of his own, in which everything is equal to everything, nothing
-- differs, every name matches, everybody has every role, and time stands
-- still; what is used says so
CREATE SCHEMA trap AUTHORIZATION regress_mallory;
SET ROLE regress_mallory;
DO $$
DECLARE
    t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['text', 'bytea', 'bigint', 'integer', 'uuid', 'jsonb', 'boolean', 'oid', 'regrole', 'name', 'timestamptz', '"char"'] LOOP
        EXECUTE format('CREATE FUNCTION trap.yes(%1$s, %1$s) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS '
                       '$f$ BEGIN RAISE NOTICE ''trapped: = of %1$s''; RETURN true; END $f$', t);
        EXECUTE format('CREATE FUNCTION trap.no(%1$s, %1$s) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS '
                       '$f$ BEGIN RAISE NOTICE ''trapped: <> of %1$s''; RETURN false; END $f$', t);
        EXECUTE format('CREATE OPERATOR trap.= (FUNCTION = trap.yes, LEFTARG = %1$s, RIGHTARG = %1$s)', t);
        EXECUTE format('CREATE OPERATOR trap.<> (FUNCTION = trap.no, LEFTARG = %1$s, RIGHTARG = %1$s)', t);
        EXECUTE format('CREATE OPERATOR trap.~ (FUNCTION = trap.yes, LEFTARG = %1$s, RIGHTARG = %1$s)', t);
    END LOOP;
END $$;
-- these fit better than PostgreSQL's own where a regrole meets an oid, or a name a text
CREATE FUNCTION trap.yes(regrole, oid) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE NOTICE 'trapped: regrole = oid'; RETURN true; END $$;
CREATE OPERATOR trap.= (FUNCTION = trap.yes, LEFTARG = regrole, RIGHTARG = oid);
CREATE FUNCTION trap.yes(name, text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE NOTICE 'trapped: name = text'; RETURN true; END $$;
CREATE OPERATOR trap.= (FUNCTION = trap.yes, LEFTARG = name, RIGHTARG = text);
CREATE FUNCTION trap.pg_has_role(oid, oid, text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'trapped: pg_has_role'; RETURN true; END $$;
CREATE FUNCTION trap.pg_get_userbyid(oid) RETURNS name LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'trapped: pg_get_userbyid'; RETURN 'x'; END $$;
CREATE FUNCTION trap.string_to_array(text, text) RETURNS text[] LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'trapped: string_to_array'; RETURN '{}'; END $$;
CREATE FUNCTION trap.bool_or(boolean) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'trapped: bool_or'; RETURN true; END $$;
CREATE FUNCTION trap.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'trapped: clock_timestamp'; RETURN '2000-01-01'; END $$;
CREATE FUNCTION trap.now() RETURNS timestamptz LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'trapped: now'; RETURN '2000-01-01'; END $$;
CREATE FUNCTION trap.nextval(regclass) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'trapped: nextval'; RETURN 1; END $$;
CREATE FUNCTION trap.lpad(text, integer, text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'trapped: lpad'; RETURN 'task'; END $$;
CREATE FUNCTION trap.length(text) RETURNS integer LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'trapped: length'; RETURN 1; END $$;
CREATE FUNCTION trap.gen_random_uuid() RETURNS uuid LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'trapped: gen_random_uuid'; RETURN '00000000-0000-0000-0000-000000000000'; END $$;
CREATE FUNCTION trap.to_jsonb(anyelement) RETURNS jsonb LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'trapped: to_jsonb'; RETURN '{}'; END $$;
RESET ROLE;

--
-- On the search_path
--

-- first as it should be, so that every plan is kept
SELECT status FROM extaction.approve_fake_task('hostile', story.task('one'), approval_id => 'of one');
SELECT status FROM extaction.approve_fake_task('hostile', story.task('short'), clock_timestamp() + '100 ms', 'short');
SELECT status FROM extaction.approve_fake_task('hostile', story.task('revoked'), approval_id => 'revoked');
SELECT status FROM extaction.revoke_approval('hostile', 'revoked', 'no');
SET ROLE regress_mallory;
SELECT :receipt FROM extaction.submit_fake_task('hostile', story.task('one'));
SELECT :receipt FROM extaction.submit_fake_task('hostile', story.task('none'));
SELECT :receipt FROM extaction.submit_fake_task('hostile', story.task('one', 'Call Bob back'));
SELECT extaction.observe_source('hostile', 'letter-31', 'version 1');
SELECT story.until(clock_timestamp() + '110 ms');

-- then with the trap in front of pg_catalog; the trap works
SET search_path = trap, pg_catalog, public;
SELECT 'this'::text = 'that'::text AS equal;

-- the plans that were kept, and the same made anew: not one is trapped, and
-- the gates say what they said before
SELECT :receipt FROM extaction.submit_fake_task('hostile', story.task('none'));
DISCARD PLANS;
SELECT :receipt FROM extaction.submit_fake_task('hostile', story.task('none'));
SELECT :receipt FROM extaction.submit_fake_task('hostile', story.task('one', 'Call Bob back'));
SELECT :receipt FROM extaction.submit_fake_task('hostile', story.task('one', candidate_id => 'candidate-2'));
SELECT :receipt FROM extaction.submit_fake_task('hostile', story.task('none'), 'of one');
SELECT :receipt FROM extaction.submit_fake_task('hostile', story.task('short'));
SELECT :receipt FROM extaction.submit_fake_task('hostile', story.task('revoked'));
SELECT :receipt FROM extaction.submit_fake_task('hostile elsewhere', story.task('none'));
SELECT :receipt FROM extaction.submit_fake_task('hostile', story.task('one'));
SELECT status, state FROM extaction.find('hostile', 'one');
SELECT state, path FROM story.fault($$ SELECT extaction.find('no such scope', 'one') $$);
SELECT state, path FROM story.fault($$ SELECT extaction.approve_fake_task('hostile', story.task('none')) $$);
SELECT status, revision FROM extaction.propose('hostile', 'candidate-1', '{"title": "Call Ada back"}', 'letter-31', 'version 1');
SELECT extaction.observe_source('hostile', 'letter-31', 'version 1');

-- his search_path and his role are as he left them, also after an error
SHOW search_path;
SELECT extaction.find('no such scope', 'one');
SHOW search_path;
SELECT current_user;
DO $$
BEGIN
    PERFORM extaction.approve_fake_task('hostile', story.task('none'));
EXCEPTION WHEN insufficient_privilege THEN
    RAISE NOTICE '% with %', current_user, pg_catalog.current_setting('search_path');
END $$;
RESET search_path;
RESET ROLE;

-- a new session whose very first call is under the trap
\c -
\set SHOW_CONTEXT never
\pset null '-'
SET ROLE regress_mallory;
SET search_path = trap, pg_catalog, public;
SELECT :receipt FROM extaction.submit_fake_task('hostile', story.task('none'));
SELECT :receipt FROM extaction.submit_fake_task('hostile', story.task('one', 'Call Bob back'));
SELECT :receipt FROM extaction.submit_fake_task('hostile', story.task('one'));
SELECT state, path FROM story.fault($$ SELECT extaction.find('no such scope', 'one') $$);
RESET ROLE;
-- also those who decide
SELECT status, approvals FROM extaction.approve_fake_task('hostile', story.task('two'));
SELECT :receipt FROM extaction.submit_fake_task('hostile', story.task('two'));
SELECT extaction.create_scope('hostile new');
SELECT extaction.grant_access('hostile new', 'regress_desk', 'worker');
SELECT extaction.revoke_access('hostile new', 'regress_desk', 'worker');
UPDATE extaction.actions SET description = 'trapped?';
SELECT extaction.repair_guards();
SELECT * FROM extaction.verify();
RESET search_path;
UPDATE extaction.actions SET description = (SELECT old_row ->> 'description' FROM extaction.action_changes ORDER BY recorded_at DESC LIMIT 1);

-- tables of the same names in his temporary schema are none of the ledger's
SET ROLE regress_mallory;
CREATE TEMP TABLE approvals (scope text);
CREATE TEMP TABLE intents (scope text);
CREATE FUNCTION pg_temp.pg_has_role(oid, oid, text) RETURNS boolean LANGUAGE sql AS 'SELECT true';
SET search_path = pg_temp, pg_catalog;
DISCARD PLANS;
SELECT :receipt FROM extaction.submit_fake_task('hostile', story.task('none'));
SELECT state, path FROM story.fault($$ SELECT extaction.find('no such scope', 'one') $$);
RESET search_path;

-- settings that change what SQL means, or how values look
SET transform_null_equals = on;
SET standard_conforming_strings = off;
SET escape_string_warning = off;
SET bytea_output = 'escape';
SET extra_float_digits = -15;
SET DateStyle = 'SQL, DMY';
SET IntervalStyle = 'sql_standard';
SET TimeZone = 'Pacific/Kiritimati';
SET array_nulls = off;
SET quote_all_identifiers = on;
SET plan_cache_mode = 'force_custom_plan';
SET row_security = off;
DISCARD PLANS;
SELECT :receipt FROM extaction.submit_fake_task('hostile', story.task('none'));
SELECT :receipt FROM extaction.submit_fake_task('hostile', story.task('one', 'Call Bob back'));
SELECT r.status, r.request_digest = f.request_digest AS same_digest
FROM extaction.submit_fake_task('hostile', story.task('one')) r, extaction.find('hostile', 'one') f;
RESET ROLE;
SELECT * FROM extaction.verify();
RESET ALL;

-- whatever he has tried: two tasks
SELECT executions, tasks FROM extaction.fake_task_counts WHERE scope = 'hostile';
SELECT intent_id, task_id ~ '^fake-task-\d{4,}$' AS task_id FROM extaction.fake_tasks WHERE scope = 'hostile' ORDER BY 1;

--
-- Code that others run for him
--

-- a table whose index calls a function of his; as long as it is harmless
SET ROLE regress_mallory;
CREATE FUNCTION trap.tries(intent_id text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN 'nothing yet'; END $$;
CREATE TABLE trap.bait (id text PRIMARY KEY);
INSERT INTO trap.bait VALUES ('by index');
CREATE INDEX bait_index ON trap.bait (trap.tries(id));
CREATE MATERIALIZED VIEW trap.view AS SELECT trap.tries('by view') AS tried;
-- now it tries every verb that writes, and tells how it went
CREATE OR REPLACE FUNCTION trap.tries(intent_id text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    verb text;
    answers text[];
BEGIN
    FOREACH verb IN ARRAY ARRAY['approve_fake_task(%1$L, story.task(%2$L))', 'submit_fake_task(%1$L, story.task(%2$L))',
        'propose(%1$L, %2$L, ''{}'', ''s'', ''v'')', 'observe_source(%1$L, ''letter-31'', %2$L)', 'revoke_approval(%1$L, ''of one'', %2$L)',
        'grant_access(%1$L, ''regress_mallory'', ''owner'')', 'revoke_access(%1$L, ''regress_desk'', ''approver'')', 'create_scope(%2$L)']
    LOOP
        BEGIN
            EXECUTE format('SELECT extaction.' || verb, 'hostile', intent_id);
            answers := answers || (verb || ': done');
        EXCEPTION WHEN OTHERS THEN
            answers := answers || SQLERRM;
        END;
    END LOOP;
    RAISE NOTICE '% tried % verbs as %: %', intent_id, cardinality(answers), current_user,
        (SELECT string_agg(DISTINCT answer, ', ') FROM unnest(answers) answer);
    RETURN 'tried';
END $$;
RESET ROLE;
-- he may call them, elsewhere or here
GRANT EXECUTE ON FUNCTION extaction.create_scope(text), extaction.approve_fake_task(text, jsonb, timestamptz, text, text, text),
    extaction.revoke_approval(text, text, text, text), extaction.grant_access(text, text, text, text),
    extaction.revoke_access(text, text, text) TO regress_mallory;
CREATE TEMP TABLE rows_before AS SELECT * FROM story.rows();

-- a superuser cares for the database
REINDEX INDEX trap.bait_index;
REINDEX TABLE trap.bait;
ANALYZE trap.bait;
VACUUM FULL trap.bait;
CLUSTER trap.bait USING bait_pkey;
REFRESH MATERIALIZED VIEW trap.view;
CREATE INDEX bait_index_2 ON trap.bait (trap.tries(id));
-- nothing is written
SELECT * FROM story.rows() EXCEPT SELECT * FROM rows_before;

-- not even by one who may: it is not he who decides to run it
SELECT extaction.grant_access('hostile', 'regress_mallory', 'owner');
CREATE TEMP TABLE rows_before_2 AS SELECT * FROM story.rows();
REINDEX INDEX trap.bait_index;
REFRESH MATERIALIZED VIEW trap.view;
SET ROLE regress_mallory;
REINDEX INDEX trap.bait_index;
REFRESH MATERIALIZED VIEW trap.view;
RESET ROLE;
SELECT * FROM story.rows() EXCEPT SELECT * FROM rows_before_2;
-- to look is allowed
CREATE FUNCTION trap.looks(text) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT status FROM extaction.find('hostile', 'one') $$;
CREATE INDEX bait_index_3 ON trap.bait (trap.looks(id));
SELECT extaction.revoke_access('hostile', 'regress_mallory', 'owner');

--
-- Whose role counts
--

-- SET ROLE: the current role decides, the session is recorded beside it
SET ROLE regress_desk;
SELECT status FROM extaction.approve_fake_task('hostile', story.task('by desk'));
RESET ROLE;
SELECT approver, role, "session_user" = session_user AS my_session, "session_user" = role AS own_session
FROM extaction.approvals WHERE scope = 'hostile' AND id = 'by desk';
SET SESSION AUTHORIZATION regress_desk;
SELECT status FROM extaction.approve_fake_task('hostile', story.task('by desk itself'));
RESET SESSION AUTHORIZATION;
SELECT approver, role, "session_user" FROM extaction.approvals WHERE scope = 'hostile' AND id = 'by desk itself';

-- a SECURITY DEFINER function acts as who owns it, and only within
CREATE FUNCTION trap.desk_approves(intent_id text) RETURNS text LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$ SELECT status || ' as ' || current_user FROM extaction.approve_fake_task('hostile', story.task($1)) $$;
ALTER FUNCTION trap.desk_approves(text) OWNER TO regress_desk;
SET SESSION AUTHORIZATION regress_mallory;
SELECT state, path FROM story.fault($$ SELECT extaction.approve_fake_task('hostile', story.task('by wrapper')) $$);
SELECT trap.desk_approves('by wrapper');
SELECT current_user;
SELECT state, path FROM story.fault($$ SELECT extaction.approve_fake_task('hostile', story.task('by wrapper')) $$);
SELECT :receipt FROM extaction.submit_fake_task('hostile', story.task('by wrapper'));
RESET SESSION AUTHORIZATION;
SELECT approver, role, "session_user" FROM extaction.approvals WHERE scope = 'hostile' AND id = 'by wrapper';
SELECT kind, role, "session_user" FROM extaction.timeline WHERE scope = 'hostile' AND intent_id = 'by wrapper';

-- a wrapper of his own gives nobody what he has not
SET ROLE regress_mallory;
CREATE FUNCTION trap.mallory_approves(intent_id text) RETURNS text LANGUAGE sql SECURITY DEFINER
AS $$ SELECT status FROM extaction.approve_fake_task('hostile', story.task($1)) $$;
RESET ROLE;
SELECT state, path, message FROM story.fault($$ SELECT trap.mallory_approves('by wrapper') $$);

-- the functions of triggers cannot be called
SELECT state, message FROM story.fault('SELECT extaction.refuse_change()');
SELECT state, message FROM story.fault('SELECT extaction.record_action_change()');

--
-- Clean up
--
SELECT * FROM extaction.verify();
SET client_min_messages = warning;
DROP SCHEMA trap CASCADE;
DROP OWNED BY regress_mallory, regress_desk;
DROP ROLE regress_mallory, regress_desk;
