--
-- Facts are only inserted.  For those who can switch the guards off there is
-- verify(), which finds guards that are gone and facts that contradict each
-- other.
--
\set SHOW_CONTEXT never
\pset null '-'

SELECT * FROM story.begins('guards');
SELECT status FROM extaction.approve_fake_task('guards', story.task('done'), approval_id => 'of done');
SELECT status FROM extaction.submit_fake_task('guards', story.task('done'));
SELECT status FROM extaction.submit_fake_task('guards', story.task('done', 'Call Bob back'));
SELECT status FROM extaction.submit_fake_task('guards', story.task('waits'));
SELECT status FROM extaction.approve_fake_task('guards', story.task('taken back'), approval_id => 'taken back');
SELECT status FROM extaction.revoke_approval('guards', 'taken back', 'no');

--
-- Nobody changes a fact
--

-- the tables of facts: all but those that are worked on
SELECT string_agg(relname, ' ' ORDER BY relname) FILTER (WHERE relname IN (SELECT extaction.fact_tables())) AS facts,
       string_agg(relname, ' ' ORDER BY relname) FILTER (WHERE relname NOT IN (SELECT extaction.fact_tables())) AS others
FROM pg_class WHERE relnamespace = 'extaction'::regnamespace AND relkind = 'r';

-- an error in full
DELETE FROM extaction.intents;

-- no way to change a row is open, not even where it would change none
CREATE TEMP TABLE change (no serial, way text, statement text);
INSERT INTO change (way, statement) VALUES
    ('UPDATE', 'UPDATE extaction.%1$I SET %2$I = %2$I'),
    ('UPDATE of nothing', 'UPDATE extaction.%1$I SET %2$I = %2$I WHERE false'),
    ('DELETE', 'DELETE FROM extaction.%1$I'),
    ('DELETE in WITH', 'WITH d AS (DELETE FROM extaction.%1$I RETURNING 1) SELECT count(*) FROM d'),
    ('TRUNCATE', 'TRUNCATE extaction.%1$I'),
    ('TRUNCATE CASCADE', 'TRUNCATE extaction.scope_members, extaction.%1$I RESTART IDENTITY CASCADE'),
    ('upsert', 'INSERT INTO extaction.%1$I SELECT * FROM extaction.%1$I ON CONFLICT ON CONSTRAINT %3$I DO UPDATE SET %2$I = excluded.%2$I'),
    ('MERGE', 'MERGE INTO extaction.%1$I USING (SELECT 1) s ON true WHEN MATCHED THEN DELETE');

SELECT way, f.state, count(*) AS tables
FROM extaction.fact_tables() fact,
    LATERAL (SELECT attname FROM pg_attribute WHERE attrelid = ('extaction.' || fact)::regclass AND attnum = 1) a,
    change,
    story.fault(format(statement, fact, attname, fact || '_pkey')) f
GROUP BY no, way, f.state ORDER BY no;

-- nor with triggers off, as replication and restores have them
SET session_replication_role = replica;
SELECT way, f.state, count(*) AS tables
FROM extaction.fact_tables() fact,
    LATERAL (SELECT attname FROM pg_attribute WHERE attrelid = ('extaction.' || fact)::regclass AND attnum = 1) a,
    change,
    story.fault(format(statement, fact, attname, fact || '_pkey')) f
GROUP BY no, way, f.state ORDER BY no;
RESET session_replication_role;

-- the catalogue is edited, but not emptied behind the back of action_changes
SELECT state FROM story.fault('TRUNCATE extaction.actions');

-- a table of the extension cannot be dropped
SELECT state, message FROM story.fault('DROP TABLE extaction.intents');

--
-- A guard that is gone is found, and set again
--
SELECT * FROM extaction.verify();
SELECT extaction.repair_guards();

CREATE TEMP TABLE tampering (no serial, how text, statement text);
INSERT INTO tampering (how, statement) VALUES
    ('disabled', 'ALTER TABLE extaction.intents DISABLE TRIGGER append_only'),
    ('all disabled, as for a restore', 'ALTER TABLE extaction.intents DISABLE TRIGGER ALL'),
    ('enabled, but not always, as after a restore', 'ALTER TABLE extaction.intents ENABLE TRIGGER append_only'),
    ('for replicas only', 'ALTER TABLE extaction.intents ENABLE REPLICA TRIGGER append_only'),
    ('renamed', 'ALTER TRIGGER append_only ON extaction.intents RENAME TO nothing'),
    ('dropped', 'DROP TRIGGER append_only ON extaction.intents'),
    ('of other events', 'CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE ON extaction.intents
        FOR EACH STATEMENT EXECUTE FUNCTION extaction.refuse_change(); ALTER TABLE extaction.intents ENABLE ALWAYS TRIGGER append_only'),
    ('for each row', 'DROP TRIGGER append_only ON extaction.intents; CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON extaction.intents
        FOR EACH ROW EXECUTE FUNCTION extaction.refuse_change(); ALTER TABLE extaction.intents ENABLE ALWAYS TRIGGER append_only'),
    ('of another function', 'CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON extaction.intents
        FOR EACH STATEMENT EXECUTE FUNCTION pg_temp.lets_through(); ALTER TABLE extaction.intents ENABLE ALWAYS TRIGGER append_only'),
    ('with a condition', 'CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON extaction.intents
        FOR EACH STATEMENT WHEN (false) EXECUTE FUNCTION extaction.refuse_change(); ALTER TABLE extaction.intents ENABLE ALWAYS TRIGGER append_only'),
    ('of one column', 'CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OF actor OR DELETE OR TRUNCATE ON extaction.intents
        FOR EACH STATEMENT EXECUTE FUNCTION extaction.refuse_change(); ALTER TABLE extaction.intents ENABLE ALWAYS TRIGGER append_only');
CREATE FUNCTION pg_temp.lets_through() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';

-- tampers, asks verify(), repairs, asks again and tries to change a fact; and undoes it all
CREATE FUNCTION pg_temp.guard(statement text, OUT finds text, OUT repaired bigint, OUT finds_then bigint, OUT change text)
LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE statement;
    SELECT string_agg(what, ' ') INTO finds FROM extaction.verify();
    repaired := extaction.repair_guards();
    SELECT count(*) INTO finds_then FROM extaction.verify();
    SELECT state INTO change FROM story.fault('UPDATE extaction.intents SET payload = ''{}''');
    RAISE SQLSTATE 'STORY';
EXCEPTION WHEN SQLSTATE 'STORY' THEN
END $$;
SELECT how, g.* FROM tampering, pg_temp.guard(statement) g ORDER BY no;

-- the catalogue's own triggers are guards too: without them a change is not kept
SELECT how, g.finds IS NOT NULL AS finds, g.repaired, g.finds_then
FROM (VALUES (1, 'disabled', 'ALTER TABLE extaction.actions DISABLE TRIGGER record_action_change'),
             (2, 'not always', 'ALTER TABLE extaction.actions ENABLE TRIGGER record_action_change'),
             (3, 'dropped', 'DROP TRIGGER record_action_change ON extaction.actions'),
             (4, 'may be emptied', 'DROP TRIGGER refuse_truncate ON extaction.actions')) v (no, how, statement),
    pg_temp.guard(statement) g
ORDER BY no;

-- only the extension's owner repairs
CREATE ROLE regress_guard;
SELECT extaction.grant_access('guards', 'regress_guard', 'owner');
SET ROLE regress_guard;
SELECT state, message FROM story.fault('SELECT extaction.repair_guards()');
-- but every owner and auditor can see
SELECT count(*) FROM extaction.verify();
RESET ROLE;
SELECT extaction.revoke_access('guards', 'regress_guard', 'owner');
DROP ROLE regress_guard;

--
-- Facts that were changed nevertheless
--

-- switches the guard off, changes, switches it on again, asks verify(), and undoes it all
CREATE FUNCTION pg_temp.tampered(fact_table text, change text, OUT finds text)
LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ALTER TABLE extaction.%I DISABLE TRIGGER append_only', fact_table);
    EXECUTE format(change, 'extaction.' || fact_table);
    EXECUTE format('ALTER TABLE extaction.%I ENABLE ALWAYS TRIGGER append_only', fact_table);
    SELECT string_agg(DISTINCT concat_ws(' ', intent_id, what), ', ') INTO finds FROM extaction.verify() WHERE scope = 'guards';
    RAISE SQLSTATE 'STORY';
EXCEPTION
    WHEN SQLSTATE 'STORY' THEN
        NULL;
    WHEN OTHERS THEN
        finds := 'ERROR: ' || SQLERRM;
END $$;

SELECT fact_table, what, coalesce(substring(f.finds, '^ERROR.*'), (f.finds IS NOT NULL)::text) AS found
FROM (VALUES
    (1, 'intents', 'payload', $$ UPDATE %s SET payload = jsonb_set(payload, '{task,title}', '"Pay Bob"') WHERE scope = 'guards' $$),
    (2, 'intents', 'payload: not canonical', $$ UPDATE %s SET payload = payload || '{"n": 9007199254740993}' WHERE scope = 'guards' $$),
    (3, 'intents', 'destination', $$ UPDATE %s SET destination = 'other' WHERE scope = 'guards' $$),
    (4, 'intents', 'action', $$ UPDATE %s SET action = 'other' WHERE scope = 'guards' $$),
    (5, 'intents', 'intent_id', $$ UPDATE %s SET intent_id = 'other' WHERE scope = 'guards' $$),
    (6, 'intents', 'scope', $$ UPDATE %s SET scope = 'guards 2' WHERE scope = 'guards' $$),
    (7, 'intents', 'digest', $$ UPDATE %s SET request_digest = sha256('x') WHERE scope = 'guards' $$),
    (8, 'intents', 'key', $$ UPDATE %s SET idempotency_key = gen_random_uuid() WHERE scope = 'guards' $$),
    (9, 'intents', 'candidate', $$ UPDATE %s SET candidate_id = NULL WHERE scope = 'guards' $$),
    (10, 'intents', 'approval', $$ UPDATE %s SET approval_id = 'other' WHERE scope = 'guards' $$),
    (11, 'intents', 'deleted', $$ DELETE FROM %s WHERE scope = 'guards' $$),
    (12, 'candidates', 'content', $$ UPDATE %s SET content = '{"title": "Pay Bob"}' WHERE scope = 'guards' $$),
    (13, 'candidates', 'content: not canonical', $$ UPDATE %s SET content = '{"n": 1e400}' WHERE scope = 'guards' $$),
    (14, 'candidates', 'content and digest', $$ UPDATE %s SET content = '{"title": "Pay Bob"}', digest = extaction.digest('{"title": "Pay Bob"}') WHERE scope = 'guards' $$),
    (15, 'candidates', 'source_version', $$ UPDATE %s SET source_version = 'version 2' WHERE scope = 'guards' $$),
    (16, 'candidates', 'deleted', $$ DELETE FROM %s WHERE scope = 'guards' $$),
    (17, 'requests', 'payload', $$ UPDATE %s SET payload = jsonb_set(payload, '{task,title}', '"Pay Bob"') WHERE scope = 'guards' AND intent_id = 'waits' $$),
    (18, 'requests', 'payload: not canonical', $$ UPDATE %s SET payload = payload || '{"n": 1e400}' WHERE scope = 'guards' AND intent_id = 'waits' $$),
    (19, 'requests', 'candidate', $$ UPDATE %s SET candidate_digest = sha256('x') WHERE scope = 'guards' AND intent_id = 'waits' $$),
    (20, 'requests', 'digest', $$ UPDATE %s SET request_digest = sha256('x') WHERE scope = 'guards' AND intent_id = 'waits' $$),
    (21, 'requests', 'deleted, of what waits', $$ DELETE FROM %s WHERE scope = 'guards' AND intent_id = 'waits' $$),
    (22, 'requests', 'deleted, of an approval', $$ DELETE FROM %s WHERE scope = 'guards' AND intent_id = 'taken back' $$),
    (23, 'approvals', 'digest', $$ UPDATE %s SET request_digest = sha256('x') WHERE scope = 'guards' AND approval_id = 'of done' $$),
    (24, 'approvals', 'of another intent', $$ UPDATE %s SET id = 'other' WHERE scope = 'guards' AND approval_id = 'of done' $$),
    (25, 'approvals', 'deleted', $$ DELETE FROM %s WHERE scope = 'guards' AND approval_id = 'of done' $$),
    (26, 'revocations', 'deleted', $$ DELETE FROM %s WHERE scope = 'guards' $$),
    (27, 'events', 'happened: deleted', $$ DELETE FROM %s WHERE scope = 'guards' AND kind = 'happened' $$),
    (28, 'events', 'happened twice', $$ INSERT INTO %s (scope, intent_id, kind, role, "session_user") VALUES ('guards', 'done', 'happened', 'x', 'x') $$),
    (29, 'events', 'of an intent that never was', $$ INSERT INTO %s (scope, intent_id, kind, role, "session_user") VALUES ('guards', 'never', 'happened', 'x', 'x') $$),
    (30, 'fake_tasks', 'deleted', $$ DELETE FROM %s WHERE scope = 'guards' $$),
    (31, 'fake_tasks', 'title', $$ UPDATE %s SET title = 'Pay Bob' WHERE scope = 'guards' $$),
    (32, 'fake_task_executions', 'a second', $$ INSERT INTO %s (scope, intent_id, idempotency_key, task_id) VALUES ('guards', 'done', gen_random_uuid(), 'x') $$),
    (33, 'fake_task_executions', 'of an intent that never was', $$ INSERT INTO %s (scope, intent_id, idempotency_key, task_id) VALUES ('guards', 'never', gen_random_uuid(), 'x') $$),
    (34, 'fake_task_executions', 'deleted', $$ DELETE FROM %s WHERE scope = 'guards' $$),
    (35, 'ledger', 'ledger_id', $$ UPDATE %s SET ledger_id = gen_random_uuid() $$)) v (no, fact_table, what, change),
    pg_temp.tampered(fact_table, change) f
ORDER BY no;

-- and all is as it was
SELECT * FROM extaction.verify();
