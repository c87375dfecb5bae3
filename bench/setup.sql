-- What the benchmarks need: a scope with one candidate, the task-request.v1
-- documents, a plain table, and approvals made in bulk.

SET client_min_messages = warning;
DROP SCHEMA IF EXISTS bench CASCADE;
CREATE EXTENSION IF NOT EXISTS extaction CASCADE;
CREATE SCHEMA bench;

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'bench_submitter') THEN
        CREATE ROLE bench_submitter LOGIN;
    END IF;
END
$$;
GRANT USAGE ON SCHEMA bench TO bench_submitter;

-- A scope of its own for every run, so that runs may follow each other in one database.
SELECT 'bench-' || to_char(clock_timestamp(), 'YYYYMMDD-HH24MISS') AS scope \gset
SELECT extaction.create_scope(:'scope') \g /dev/null
SELECT extaction.grant_access(:'scope', 'bench_submitter', 'submitter') \g /dev/null
SELECT extaction.observe_source(:'scope', 'letter-31', 'version 1') \g /dev/null
SELECT digest FROM extaction.propose(:'scope', 'candidate-1', '{"title": "Call Ada back"}', 'letter-31', 'version 1') \gset

SELECT format('CREATE FUNCTION bench.scope() RETURNS text LANGUAGE sql IMMUTABLE AS $f$ SELECT %L::text $f$', :'scope') \gexec

-- The payload of intent number n: every contestant makes it from text, as a driver does.
SELECT format('CREATE FUNCTION bench.document(n text) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $f$ SELECT (%L || n || %L)::jsonb $f$',
    '{"schema_version": "task-request.v1", "fixture_kind": "bench", "request_id": "request-1", "intent_id": "order-',
    format('", "operation": "create_task", "provider": "fake-task-provider.v1", "candidate_ref": {"candidate_id": "candidate-1", '
           '"candidate_digest": "%s", "source_id": "letter-31", "source_version": "version 1"}, '
           '"task": {"title": "Call Ada back", "assignee_person_ref": null, "due_at": null}}', :'digest')) \gexec

-- The plain INSERT: the same payload under the same unique key.
CREATE TABLE bench.plain (
    scope       text COLLATE "C" NOT NULL,
    intent_id   text COLLATE "C" NOT NULL,
    payload     jsonb            NOT NULL,
    recorded_at timestamptz      NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (scope, intent_id)
);
GRANT INSERT ON bench.plain TO bench_submitter;

-- Approves intents first..last, as approve_fake_task would have done, one by one.
CREATE FUNCTION bench.approve(first bigint, last bigint) RETURNS void LANGUAGE sql AS $$
    WITH asked AS (
        SELECT n, bench.document(n::text) AS payload
        FROM generate_series(first, last) n
    ), request AS (
        SELECT a.n, a.payload, extaction.digest(jsonb_build_object(
                   'v', 'extaction.request.v1', 'scope', bench.scope(), 'intent_id', 'order-' || a.n,
                   'action', 'create_fake_task', 'destination', 'fake-task-provider.v1', 'payload', a.payload,
                   'candidate', jsonb_build_object(
                       'candidate_id', 'candidate-1', 'digest', a.payload #>> '{candidate_ref,candidate_digest}',
                       'source_id', 'letter-31', 'source_version', 'version 1'))) AS digest
        FROM asked a
    ), kept AS (
        INSERT INTO extaction.requests (scope, request_digest, intent_id, action, destination, payload, candidate_id,
                                        candidate_digest, source_id, source_version, role, "session_user", kind)
        SELECT bench.scope(), r.digest, 'order-' || r.n, 'create_fake_task', 'fake-task-provider.v1', r.payload, 'candidate-1',
               decode(r.payload #>> '{candidate_ref,candidate_digest}', 'hex'), 'letter-31', 'version 1',
               'bench_approver', 'bench_approver', 'intent'
        FROM request r
    )
    INSERT INTO extaction.approvals (scope, approval_id, kind, id, request_digest, capability, expires_at, epoch, approver,
                                     role, "session_user")
    SELECT bench.scope(), 'approval-' || r.n, 'intent', 'order-' || r.n, r.digest, 'create_fake_task',
           clock_timestamp() + interval '1 day', (SELECT max(epoch) FROM extaction.ledger), 'bench_approver',
           'bench_approver', 'bench_approver'
    FROM request r
$$;

-- CPU seconds that ended backends of this server have used so far, in clock ticks; Linux only.
CREATE FUNCTION bench.ticks_of_ended_backends() RETURNS bigint LANGUAGE sql AS $$
    SELECT f[14]::bigint + f[15]::bigint
    FROM regexp_split_to_array(regexp_replace(pg_read_file(
             '/proc/' || split_part(pg_read_file('postmaster.pid'), E'\n', 1) || '/stat', 0, 10000), '^.*\) ', ''), ' ') f
$$;

-- Payloads to hash: a mail of about 300 bytes, and 10 kB and 1 MB of order lines.
CREATE TABLE bench.payloads (name text PRIMARY KEY, payload jsonb NOT NULL);
INSERT INTO bench.payloads
SELECT '300 B', jsonb_build_object('to', 'ada@example.org', 'subject', 'Quittung 4711 für Ihre Bestellung', 'total', 120.10,
                                   'currency', 'EUR', 'lines', jsonb_build_array(
                                       jsonb_build_object('article', 'tea, green', 'count', 2, 'price', 7.95),
                                       jsonb_build_object('article', 'teapot', 'count', 1, 'price', 104.20)),
                                   'paid', true, 'note', NULL, 'text', 'Vielen Dank! Wir senden es noch heute ab.')
UNION ALL
SELECT name, jsonb_build_object('order', 4711, 'lines', (
           SELECT jsonb_agg(jsonb_build_object('article', 'article number ' || n, 'count', n % 7 + 1, 'price', n % 900 + 0.95,
                                               'sent', n % 3 = 0, 'note', CASE n % 4 WHEN 0 THEN 'für ' || md5(n::text) END))
           FROM generate_series(1, lines) n))
FROM (VALUES ('10 kB', 110), ('1 MB', 10500)) size (name, lines);

-- Bytes of payload text that get hashed in a second.  The document is made flat in memory first, so that nobody is
-- measured unpacking TOAST.
CREATE FUNCTION bench.bytes_a_second(payload_name text, contestant text, times bigint) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
    began timestamptz := clock_timestamp();
    bytes bigint;
BEGIN
    EXECUTE format('WITH flat AS MATERIALIZED (SELECT payload || jsonb_build_object(''made'', ''flat'') AS payload'
                   '                           FROM bench.payloads WHERE name = $1)'
                   ' SELECT sum(octet_length(%s)) / 32 * max(f.bytes)'
                   ' FROM (SELECT payload, octet_length(payload::text) AS bytes FROM flat OFFSET 0) f, generate_series(1, $2)',
                   CASE contestant WHEN 'plain' THEN 'sha256(convert_to(payload::text, ''UTF8''))'
                                   WHEN 'extaction' THEN 'extaction.digest(payload)' END)
    INTO bytes USING payload_name, times;
    RETURN bytes / extract(epoch FROM clock_timestamp() - began);
END
$$;
