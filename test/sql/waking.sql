--
-- waking: wake, next_wakeup, set_wake_source, drop_wake_source
--
-- A wakeup is data: it comes from a listed source, is signed if the source has
-- a secret, is taken once per id, and leads to nothing but a row to read.
--
\set SHOW_CONTEXT never
\pset null '-'

SELECT * FROM story.begins('wake');
SELECT extaction.create_scope('wake-2');
CREATE ROLE regress_wake_hook;
CREATE ROLE regress_wake_auditor;
SELECT extaction.grant_access('wake', 'regress_wake_hook', 'worker'), extaction.grant_access('wake', 'regress_wake_auditor', 'auditor');

--
-- Who may wake
--
SELECT extaction.set_wake_source('wake', 'open');
SELECT extaction.set_wake_source('wake', 'open');
SELECT extaction.set_wake_source('wake', 'mail', 's3cret'), extaction.set_wake_source('wake', 'mail', 'S3cret'), extaction.set_wake_source('wake', 'mail', 'S3cret');
SELECT f.* FROM unnest(ARRAY['', '\x', '\xzz', '\xabc']) s, story.fault(format('SELECT extaction.set_wake_source(''wake'', ''odd'', %L)', s)) f;

-- an owner lists sources, a worker uses them, an auditor does neither, and nobody reads the secrets
SET ROLE regress_wake_hook;
SELECT state, message FROM story.fault($$SELECT extaction.set_wake_source('wake', 'mine', 'x')$$);
SELECT state, message FROM story.fault($$SELECT extaction.drop_wake_source('wake', 'mail')$$);
SELECT state, message FROM story.fault('SELECT secret FROM extaction.wake_sources');
SELECT extaction.wake('wake', 'open', 'e1', 'hello');
SELECT state, message FROM story.fault($$SELECT extaction.wake('wake-2', 'open', 'e1', 'hello')$$)
UNION ALL SELECT state, replace(message, 'nowhere', 'wake-2') FROM story.fault($$SELECT extaction.wake('nowhere', 'open', 'e1', 'hello')$$);
SET ROLE regress_wake_auditor;
SELECT state FROM story.fault($$SELECT extaction.wake('wake', 'open', 'e2', 'hello')$$);
SELECT state FROM story.fault($$SELECT * FROM extaction.next_wakeup('wake')$$);
RESET ROLE;

--
-- What is taken
--
-- once per id; the first content counts
SELECT extaction.wake('wake', 'open', 'e1', 'hello') AS again, extaction.wake('wake', 'open', 'e1', 'other') AS other,
       extaction.wake('wake', 'open', 'e2', 'hello') AS same_content_other_id, extaction.wake('wake', 'elsewhere', 'e1', 'hello') AS unlisted;
-- an id is the source's own
SELECT extaction.set_wake_source('wake', 'second'), extaction.wake('wake', 'second', 'e1', 'other');
-- the payload is kept as it came, whatever it is
SELECT extaction.wake('wake', 'open', 'any', E'{"a":1,\n"a":2} \x01 é') = 'accepted' AS kept,
       extaction.wake('wake', 'open', 'empty', '');
SELECT f.state, f.path, f.message FROM (VALUES
    ($$SELECT extaction.wake('wake', 'open', 'e3', NULL)$$), ($$SELECT extaction.wake('wake', 'open', NULL, 'x')$$),
    ($$SELECT extaction.wake('wake', 'open', '', 'x')$$), ($$SELECT extaction.wake('wake', NULL, 'e3', 'x')$$),
    ($$SELECT extaction.wake('wake', 'open', 'e3', repeat('x', 17000000))$$)) c (call), story.fault(c.call) f;

-- a source with a secret signs: HMAC-SHA256 of the payload, in hex
SELECT w.given, extaction.wake('wake', 'mail', 'm1', '{"letter": 7}', w.signature)
FROM (SELECT encode(hmac('{"letter": 7}', 'S3cret', 'sha256'), 'hex') AS good, encode(hmac('{"letter": 7}', 's3cret', 'sha256'), 'hex') AS old) s,
    LATERAL (VALUES (1, 'none', NULL), (2, 'empty', ''), (3, 'old secret', s.old), (4, 'too short', left(s.good, 63)), (5, 'not hex', repeat('z', 64)),
                    (6, 'other digest', encode(hmac('{"letter": 7}', 'S3cret', 'sha1'), 'hex')), (7, 'first digit', translate(left(s.good, 1), '0123456789abcdef', '123456789abcdef0') || substr(s.good, 2)),
                    (8, 'last digit', left(s.good, 63) || translate(right(s.good, 1), '0123456789abcdef', '123456789abcdef0')),
                    (9, 'right', s.good), (10, 'right, as in a header', 'sha256=' || upper(s.good))) w (n, given, signature)
ORDER BY w.n;
-- whoever cannot sign does not learn what is there
SELECT extaction.wake('wake', 'mail', 'm1', '{"letter": 7}', 'bad') AS same, extaction.wake('wake', 'mail', 'm1', '{"letter": 8}') AS other;
SELECT extaction.wake('wake', 'mail', 'm1', '{"letter": 8}', encode(hmac('{"letter": 8}', 'S3cret', 'sha256'), 'hex'));
-- a secret of bytes, a payload outside ASCII: RFC 4231, test case 2 and 1
SELECT extaction.set_wake_source('wake', 'rfc', 'Jefe'),
       extaction.wake('wake', 'rfc', '2', 'what do ya want for nothing?', '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843');
SELECT extaction.set_wake_source('wake', 'rfc', '\x0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b'),
       extaction.wake('wake', 'rfc', '1', 'Hi There', 'b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7');
SELECT extaction.set_wake_source('wake', 'rfc', 'ключ'),
       extaction.wake('wake', 'rfc', '3', 'привет', encode(hmac(convert_to('привет', 'UTF8'), convert_to('ключ', 'UTF8'), 'sha256'), 'hex'));
-- pgcrypto may be anywhere, and a hmac of somebody else's is not asked
CREATE SCHEMA wake_trap;
CREATE FUNCTION wake_trap.hmac(bytea, bytea, text) RETURNS bytea LANGUAGE sql AS $$ SELECT decode(repeat('00', 32), 'hex') $$;
CREATE FUNCTION pg_temp.hmac(bytea, bytea, text) RETURNS bytea LANGUAGE sql AS $$ SELECT decode(repeat('00', 32), 'hex') $$;
SET search_path = wake_trap, public;
SELECT extaction.wake('wake', 'rfc', '4', 'x', repeat('00', 32));
RESET search_path;
CREATE SCHEMA wake_home;
ALTER EXTENSION pgcrypto SET SCHEMA wake_home;
SELECT extaction.wake('wake', 'rfc', '4', 'x', encode(wake_home.hmac(convert_to('x', 'UTF8'), convert_to('ключ', 'UTF8'), 'sha256'), 'hex'));
DROP FUNCTION wake_trap.hmac(bytea, bytea, text), pg_temp.hmac(bytea, bytea, text);
ALTER EXTENSION pgcrypto SET SCHEMA public;
SELECT extaction.wake('wake', 'rfc', '5', 'x', encode(hmac(convert_to('x', 'UTF8'), convert_to('ключ', 'UTF8'), 'sha256'), 'hex'));
DROP SCHEMA wake_trap, wake_home;

-- taken off the list, it is a stranger; what it told stays
SELECT extaction.drop_wake_source('wake', 'second'), extaction.drop_wake_source('wake', 'second');
SELECT extaction.wake('wake', 'second', 'e1', 'other'), extaction.wake('wake', 'second', 'e9', 'other');
SELECT source, event_id, payload FROM extaction.wakeups WHERE scope = 'wake' AND source = 'second';

--
-- Reading
--
SET ROLE regress_wake_hook;
SELECT source, event_id, payload, recorded_at <= clock_timestamp() AS then, wakeup_id > 0 AS numbered FROM extaction.next_wakeup('wake');
-- what is read in a transaction that fails is unread
BEGIN;
SELECT source, event_id FROM extaction.next_wakeup('wake');
ROLLBACK;
SELECT source, event_id FROM extaction.next_wakeup('wake');
SELECT source, event_id, payload FROM extaction.next_wakeup('wake', 'mail', 10);
SELECT source, event_id FROM extaction.next_wakeup('wake', 'mail', 10);
SELECT source, event_id FROM extaction.next_wakeup('wake', max_wakeups => 3);
SELECT source, event_id FROM extaction.next_wakeup('wake', max_wakeups => 10000);
SELECT source, event_id FROM extaction.next_wakeup('wake');
SELECT f.state, f.path, f.message FROM unnest(ARRAY[0, -1, 10001]) n, story.fault(format('SELECT * FROM extaction.next_wakeup(''wake'', NULL, %s)', n)) f;
SELECT f.state FROM story.fault($$SELECT * FROM extaction.next_wakeup('wake-2')$$) f;
RESET ROLE;
-- a duplicate of what was read is not read again
SELECT extaction.wake('wake', 'open', 'e1', 'hello');
SELECT count(*) FROM extaction.next_wakeup('wake');

--
-- Nothing leads from a wakeup to an approval or an intent
--
-- a request waits, an intent is prepared, another is uncertain; the payload names them all and orders everything
SELECT status FROM extaction.submit_fake_task('wake', story.task('waits'));
SELECT extaction.sweep() >= 0 AS swept;
CREATE TEMP TABLE before AS SELECT * FROM story.rows();
CREATE TEMP TABLE list AS SELECT * FROM extaction.waiting;
SELECT extaction.wake('wake', 'open', request_digest, jsonb_build_object('approve', request_digest, 'scope', 'wake', 'intent_id', 'waits', 'verb', 'approve')::text)
FROM extaction.todo WHERE scope = 'wake';
SELECT extaction.wake('wake', 'open', 'sql', $$'); SELECT extaction.approve('wake', ''); --$$);
SELECT count(*) FROM extaction.next_wakeup('wake', max_wakeups => 10);
SELECT extaction.sweep() >= 0 AS swept;
SELECT name, now.n - before.n AS more FROM before JOIN story.rows() now USING (name) WHERE now.n <> before.n;
SELECT count(*) AS changed FROM (TABLE list EXCEPT TABLE extaction.waiting) d;
-- and no view, function or trigger knows the wakeups but their own; one reads their highest number
SELECT DISTINCT pg_describe_object(d.classid, d.objid, 0) FROM pg_depend d
WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = ANY (ARRAY['extaction.wakeups', 'extaction.unread_wakeups', 'extaction.wake_sources']::regclass[])
  AND d.classid IN ('pg_rewrite'::regclass, 'pg_proc'::regclass);
SELECT p.oid::regproc FROM pg_proc p WHERE p.pronamespace = 'extaction'::regnamespace AND p.prosrc ~ 'wake' ORDER BY 1;
SELECT tgname FROM pg_trigger WHERE tgrelid = ANY (ARRAY['extaction.wakeups', 'extaction.unread_wakeups', 'extaction.wake_sources']::regclass[]);
DROP TABLE before, list;
