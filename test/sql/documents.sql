--
-- What is not taken: malformed documents, identifiers and dates.  Each is an
-- error with an SQLSTATE, the member's path for a program, and a detail and a
-- hint for a human; nothing is written.
--
\set SHOW_CONTEXT never
\pset null '-'

SELECT * FROM story.begins('documents');
CREATE TEMP TABLE rows_before AS SELECT * FROM story.rows();

-- what submit_fake_task says to a document
CREATE FUNCTION pg_temp.says(document jsonb, OUT state text, OUT path text, OUT message text, OUT detail text, OUT hint text)
LANGUAGE sql AS $$
    SELECT * FROM story.fault(format('SELECT extaction.submit_fake_task(''documents'', %L)', document));
$$;

-- an error in full
SELECT extaction.submit_fake_task('documents', '{"schema_version": "task-request.v1", "task": {}}');

--
-- Not a document at all
--
SELECT what, f.*
FROM (VALUES
    (1, 'NULL', NULL),
    (2, 'null', 'null'),
    (3, 'a number', '42'),
    (4, 'an array', jsonb_build_array(story.task('x'))),
    (5, 'a string', '"call Ada"'),
    (6, 'encoded twice', to_jsonb(story.task('x')::text)),
    (7, 'encoded twice, with blanks', to_jsonb(E' \n' || story.task('x')::text || E'\n')),
    (8, 'encoded thrice', to_jsonb(to_jsonb(story.task('x')::text)::text)),
    (9, 'an identity decision', '{"decision": "same_person", "person_ref": "person/7", "decided_by": "anna"}'),
    (10, 'empty', '{}')) v (no, what, document), pg_temp.says(document) f
ORDER BY no;

--
-- Members: unknown, missing, wrongly typed
--
CREATE TEMP TABLE member AS
SELECT no, path, string_to_array(path, '.') AS keys
FROM unnest(ARRAY['schema_version', 'fixture_kind', 'request_id', 'intent_id', 'operation', 'provider', 'candidate_ref',
    'candidate_ref.candidate_id', 'candidate_ref.candidate_digest', 'candidate_ref.source_id', 'candidate_ref.source_version',
    'task', 'task.title', 'task.assignee_person_ref', 'task.due_at']) WITH ORDINALITY u (path, no);

CREATE TEMP TABLE fault AS
SELECT k.no AS kind_no, k.kind, m.no, m.path AS member,
       CASE WHEN k.value IS NULL THEN story.task('x') #- m.keys ELSE jsonb_set(story.task('x'), m.keys, k.value) END AS document
FROM member m,
    (VALUES (1, 'missing', NULL), (2, 'null', 'null'), (3, 'a number', '1'), (4, 'true', 'true'), (5, 'an array', '["x"]'),
            (6, 'an object', '{"x": "x"}'), (7, 'a string', '"x"'), (8, 'an empty string', '""'), (9, 'a blank', '" "'),
            (10, 'two lines', '"x\ny"'), (11, '256 bytes', to_jsonb(repeat('x', 256))), (12, 'not NFC', '"e\u0301"')) k (no, kind, value);

-- the fault of each, and which members have it
SELECT kind, f.state, regexp_replace(f.detail, '^[^:]*: ', '') AS fault, string_agg(member, ' ' ORDER BY no) AS members
FROM fault, pg_temp.says(document) f
WHERE f.state IS NOT NULL
GROUP BY kind_no, kind, f.state, fault
ORDER BY kind_no, fault;

-- the path is that of the member, or of what is wrong in it; the approver is told the same: no rows
SELECT member, kind, f.path, g.detail
FROM fault, pg_temp.says(document) f,
    story.fault(format('SELECT extaction.approve_fake_task(''documents'', %L)', document)) g
WHERE f.state IS NOT NULL AND (f.path <> member AND f.path <> member || '.x' OR f.detail NOT LIKE f.path || ': %' OR f IS DISTINCT FROM g);

-- members that are not known, wherever they are
SELECT f.state, f.path, f.detail
FROM (VALUES
    (1, '{priority}', '"high"'),
    (2, '{task,assignee}', '"Bob"'),
    (3, '{candidate_ref,revision}', '"1"'),
    (4, '{Task}', '{}'),
    (5, '{""}', 'null'),
    (6, '{odd name}', 'null'),
    -- a number that no double shows is not taken either; where it may not be at all, that is what is said
    (7, '{amount}', '9007199254740993'),
    (8, '{task,title}', '9007199254740993'),
    (9, '{task,due_at}', '1e400')) v (no, at, value),
    pg_temp.says(jsonb_set(story.task('x'), at::text[], value::jsonb)) f
ORDER BY no;

-- a name as long as a book is cut
SELECT f.state, octet_length(f.path) < 2000 AS path, octet_length(f.detail) < 2000 AS detail
FROM pg_temp.says(story.task('x') || jsonb_build_object(repeat('x', 100000), 1)) f;

-- other versions
SELECT v, f.state, f.path, f.detail
FROM unnest(ARRAY['task-request.v2', 'task-request.v1 ', 'Task-request.v1', 'task-request.v10', 'task-request.v']) v,
    pg_temp.says(jsonb_set(story.task('x'), '{schema_version}', to_jsonb(v))) f;

-- digests: 32 bytes in hex
SELECT v, f.state, f.path, f.detail
FROM unnest(ARRAY['x', repeat('0', 63), repeat('0', 65), repeat('g', 64), 'md5:' || repeat('0', 64), '\x' || repeat('0', 62), 'sha256:']) v,
    pg_temp.says(jsonb_set(story.task('x'), '{candidate_ref,candidate_digest}', to_jsonb(v))) f;

--
-- Dates are real ones, and none is understood that RFC 3339 does not have
--
SELECT f.state, f.detail, string_agg(v, ' | ' ORDER BY no) AS "not a date"
FROM unnest(ARRAY['tomorrow', 'now', '31.12.2026', '12/31/2026', '20261231', '2026-1-1', '2026-13-01', '2026-00-10', '2026-02-29',
    '2026-04-31', '2026-12-31 ', '2026-12-31T', '2026-12-31T12:00', '2026-12-31T12:00:00', '2026-12-31 12:00:00Z', '2026-12-31T24:00:00Z',
    '2026-12-31T12:60:00Z', '2026-12-31T12:00:00.Z', '2026-12-31T12:00:00+0200', '2026-12-31T12:00:00+02', '2026-12-31T12:00:00+24:00',
    '2026-12-31T12:00:00Z[UTC]', '-2026-12-31', '12026-12-31', 'infinity']) WITH ORDINALITY u (v, no),
    pg_temp.says(jsonb_set(story.task('x'), '{task,due_at}', to_jsonb(v))) f
GROUP BY 1, 2 ORDER BY 2;

-- no rows: each of these is taken
SELECT v, f.*
FROM unnest(ARRAY['2026-12-31', '2024-02-29', '0001-01-01', '9999-12-31', '2026-12-31T12:00:00Z', '2026-12-31t12:00:00z',
    '2026-12-31T23:59:60Z', '2026-12-31T12:00:00.123456789Z', '2026-12-31T12:00:00+02:00', '2026-12-31T12:00:00-00:00']) v,
    pg_temp.says(jsonb_set(story.task('x'), '{task,due_at}', to_jsonb(v))) f
WHERE f.state IS NOT NULL;

--
-- Identifiers and arguments
--
CREATE TEMP TABLE call (no serial, what text, call text);
INSERT INTO call (what, call) VALUES
    ('scope', 'extaction.create_scope(%s)'),
    ('scope', 'extaction.observe_source(%s, ''s'', ''v'')'),
    ('source_id', 'extaction.observe_source(''documents'', %s, ''v'')'),
    ('source_version', 'extaction.observe_source(''documents'', ''s'', %s)'),
    ('actor', 'extaction.observe_source(''documents'', ''s'', ''v'', %s)'),
    ('scope', 'extaction.propose(%s, ''c'', ''{}'', ''s'', ''v'')'),
    ('candidate_id', 'extaction.propose(''documents'', %s, ''{}'', ''s'', ''v'')'),
    ('source_id', 'extaction.propose(''documents'', ''c'', ''{}'', %s, ''v'')'),
    ('source_version', 'extaction.propose(''documents'', ''c'', ''{}'', ''s'', %s)'),
    ('actor', 'extaction.propose(''documents'', ''c'', ''{}'', ''s'', ''v'', %s)'),
    ('scope', 'extaction.submit_fake_task(%s, story.task(''x''))'),
    ('approval_id', 'extaction.submit_fake_task(''documents'', story.task(''x''), %s)'),
    ('actor', 'extaction.submit_fake_task(''documents'', story.task(''x''), NULL, %s)'),
    ('scope', 'extaction.approve_fake_task(%s, story.task(''x''))'),
    ('approval_id', 'extaction.approve_fake_task(''documents'', story.task(''x''), NULL, %s)'),
    ('capability', 'extaction.approve_fake_task(''documents'', story.task(''x''), NULL, NULL, %s)'),
    ('actor', 'extaction.approve_fake_task(''documents'', story.task(''x''), NULL, NULL, ''create_fake_task'', %s)'),
    ('scope', 'extaction.revoke_approval(%s, ''a'', ''r'')'),
    ('approval_id', 'extaction.revoke_approval(''documents'', %s, ''r'')'),
    ('actor', 'extaction.revoke_approval(''documents'', ''a'', ''r'', %s)'),
    ('scope', 'extaction.find(%s, ''i'')'),
    ('intent_id', 'extaction.find(''documents'', %s)'),
    ('scope', 'extaction.request_digest(%s, ''i'', ''a'', ''d'', ''{}'')'),
    ('intent_id', 'extaction.request_digest(''documents'', %s, ''a'', ''d'', ''{}'')'),
    ('action', 'extaction.request_digest(''documents'', ''i'', %s, ''d'', ''{}'')'),
    ('destination', 'extaction.request_digest(''documents'', ''i'', ''a'', %s, ''{}'')'),
    ('candidate_id', 'extaction.request_digest(''documents'', ''i'', ''a'', ''d'', ''{}'', %s)'),
    ('scope', 'extaction.grant_access(%s, current_user, ''owner'')'),
    ('role', 'extaction.grant_access(''documents'', %s, ''owner'')'),
    ('capability', 'extaction.grant_access(''documents'', current_user, %s)'),
    ('vouches_for', 'extaction.grant_access(''documents'', current_user, ''owner'', %s)'),
    ('scope', 'extaction.revoke_access(%s, current_user, ''owner'')'),
    ('role', 'extaction.revoke_access(''documents'', %s, ''owner'')'),
    ('capability', 'extaction.revoke_access(''documents'', current_user, %s)');

-- the same everywhere
SELECT v.name, f.state, f.message = 'invalid ' || what AND f.path = what AS says_which, f.detail, count(*) AS calls
FROM call,
    (VALUES (1, 'empty', ''), (2, '256 bytes', repeat('x', 256)), (3, '256 bytes in 128 characters', repeat('é', 128)),
            (4, 'a line break', E'a\nb'), (5, 'a tab', E'\ta'), (6, 'DEL', E'a\x7f'), (7, 'U+0085', U&'a\0085'),
            (8, 'NFD', U&'e\0301'), (9, 'a singleton', U&'\212B'), (10, 'excluded from composition', U&'\0958')) v (no, name, value),
    story.fault('SELECT ' || format(call, quote_literal(value))) f
GROUP BY v.no, v.name, f.state, says_which, f.detail ORDER BY v.no, f.detail;

-- NULL: an error where it means nothing; a NULL actor, vouches_for, candidate_id or approval_id is none
SELECT f.state, f.path, f.message, string_agg(substring(call, 'extaction\.(\w+)'), ' ' ORDER BY no) AS calls
FROM call, story.fault('SELECT ' || format(call, 'NULL')) f
WHERE what NOT IN ('actor', 'vouches_for')
  AND (what, call) NOT IN (SELECT what, call FROM call WHERE what = 'approval_id' AND call NOT LIKE '%revoke%'
                           UNION SELECT what, call FROM call WHERE what = 'candidate_id' AND call LIKE '%request_digest%')
GROUP BY 1, 2, 3 ORDER BY 2, 1, 3;

-- documents in other places
SELECT call, f.*
FROM (VALUES
    (1, $$ extaction.propose('documents', 'c', NULL, 's', 'v') $$),
    (2, $$ extaction.propose('documents', 'c', '"{\"title\": \"x\"}"', 's', 'v') $$),
    (3, $$ extaction.propose('documents', 'c', '{"lines": [{"price": 0.1}, {"price": 9007199254740993}]}', 's', 'v') $$),
    (4, $$ extaction.request_digest('documents', 'i', 'a', 'd', NULL) $$),
    (5, $$ extaction.request_digest('documents', 'i', 'a', 'd', '[]') $$),
    (6, $$ extaction.request_digest('documents', 'i', 'a', 'd', '"{}"') $$),
    (7, $$ extaction.request_digest('documents', 'i', 'a', 'd', '{"lines": [{"price": 1e400}]}') $$),
    (8, $$ extaction.request_digest('documents', 'i', 'a', 'd', '{}', 'never proposed') $$)) v (no, call),
    story.fault('SELECT ' || call) f
ORDER BY no;

-- an identifier may be 255 bytes long, and anything but controls
SELECT f.* FROM unnest(ARRAY[repeat('x', 255), repeat('é', 127) || 'x', 'Ünï/çødé 😀 "quoted" ''quoted'' \ $1 %s', ' ', U&'x\0302']) i,
    story.fault(format('SELECT extaction.find(''documents'', %L)', i)) f
WHERE f.state IS NOT NULL;

--
-- Too large: refused before it is unpacked
--

-- 17 MB; as little on disk as it may be
CREATE TEMP TABLE large AS SELECT story.task('x', repeat('x', 17 * 1024 * 1024)) AS document;
SELECT pg_column_size(document) < 1024 * 1024 AS small_on_disk FROM large;
SELECT f.state, f.message, f.detail, f.hint
FROM large, unnest(ARRAY[
    'SELECT extaction.submit_fake_task(''documents'', document) FROM large',
    'SELECT extaction.approve_fake_task(''documents'', document) FROM large',
    'SELECT extaction.propose(''documents'', ''c'', document, ''s'', ''v'') FROM large',
    'SELECT extaction.request_digest(''documents'', ''i'', ''a'', ''d'', document) FROM large']) c,
    story.fault(c) f;
DROP TABLE large;

-- the limit is a setting
SET extaction.max_document_size = '1kB';
SELECT f.state, f.message FROM pg_temp.says(story.task('x', repeat('x', 1000))) f;
RESET extaction.max_document_size;

--
-- Nothing is written
--
SELECT * FROM story.rows() EXCEPT SELECT * FROM rows_before;
SELECT intent_id, gate FROM extaction.todo WHERE scope = 'documents';
SELECT requests, executions, tasks FROM extaction.fake_task_counts WHERE scope = 'documents';
