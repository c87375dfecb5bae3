/* extaction--1.0.sql: the schema as a book: types, tables, guards, functions, views, dump marks */

-- complain if the script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION extaction" to load this file. \quit

-- A schema that somebody else made can hold traps (and its owner can drop what we put there), so it must be ours.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace n
                   WHERE n.nspname OPERATOR(pg_catalog.=) 'extaction'
                     AND n.nspowner OPERATOR(pg_catalog.=) current_user::pg_catalog.regrole) THEN
        RAISE insufficient_privilege USING
            MESSAGE = 'schema "extaction" belongs to another role',
            HINT = 'Drop the schema; CREATE EXTENSION makes its own.';
    END IF;
END
$$;

REVOKE ALL ON SCHEMA extaction FROM PUBLIC;


--
-- Types: the answers
--

CREATE TYPE extaction.receipt AS (
    status          text,
    state           text,
    next_step       text,
    needs           text,
    gate            text,
    provider_ref    text,
    idempotency_key uuid,
    scope           text,
    intent_id       text,
    attempt         bigint,
    approval_id     text,
    request_digest  text,
    bound_digest    text,
    batch_id        text,
    recorded_at     timestamptz,
    receipt_id      bigint,
    detail          jsonb
);
COMMENT ON TYPE extaction.receipt IS
'Answer to a verb about one intent. status: what this call did; state: where the intent stands; next_step: what comes next; needs: in words, what is missing; digests are lower-case hex; receipt_id: the event that this call appended, NULL if none.';

CREATE TYPE extaction.approval_receipt AS (
    status         text,
    approvals      bigint,
    required       bigint,
    state          text,
    expires_at     timestamptz,
    approval_id    text,
    request_digest text,
    needs          text,
    detail         jsonb
);
COMMENT ON TYPE extaction.approval_receipt IS
'Answer to a verb about an approval. approvals of required: how many valid approvals of different identities the request has now.';

CREATE TYPE extaction.proposal AS (
    status       text,
    revision     bigint,
    digest       text,
    candidate_id text,
    detail       jsonb
);
COMMENT ON TYPE extaction.proposal IS
'Answer to propose. status: created, replayed (the same content, source and version again: no new revision) or revised; digest: SHA-256 of the canonical content, lower-case hex.';


--
-- Tables: identifiers are COLLATE "C", so that no collation upgrade can corrupt the unique indexes everything rests on.
-- No foreign keys: a parallel restore would violate them; the C code checks, verify() proves.
--

CREATE SEQUENCE extaction.event_id_seq;
COMMENT ON SEQUENCE extaction.event_id_seq IS
'Numbers every recorded fact. Orders the facts of one intent; neither dense nor ordered across scopes.';

CREATE TABLE extaction.ledger (
    entry             bigint      PRIMARY KEY,
    epoch             bigint      NOT NULL,
    ledger_id         uuid        NOT NULL,
    system_identifier bigint      NOT NULL,
    database_oid      oid         NOT NULL,
    timeline          bigint      NOT NULL,
    kind              text        NOT NULL,
    backup_taken_at   timestamptz,
    window_until      timestamptz,
    recorded_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    role              text        NOT NULL
);
COMMENT ON TABLE extaction.ledger IS
'Who this ledger is and where it lives: the last entry counts. The first is written by the first create_scope.';

CREATE TABLE extaction.scopes (
    scope          text COLLATE "C" PRIMARY KEY,
    recorded_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    role           text        NOT NULL,
    "session_user" text        NOT NULL
);
COMMENT ON TABLE extaction.scopes IS 'Namespaces of callers, made on purpose by create_scope.';

CREATE TABLE extaction.scope_members (
    scope       text COLLATE "C" NOT NULL,
    member      regrole          NOT NULL,
    member_name text COLLATE "C" NOT NULL,
    capability  text COLLATE "C" NOT NULL,
    vouches_for text,
    recorded_at timestamptz      NOT NULL DEFAULT clock_timestamp(),
    granted_by  text             NOT NULL,
    PRIMARY KEY (scope, member, capability)
);
COMMENT ON TABLE extaction.scope_members IS
'Who may do what in a scope, now. A row counts only while member and member_name agree: a dropped role is dumped as a bare number, which another cluster may have given to somebody else.';

CREATE TABLE extaction.access_changes (
    scope          text COLLATE "C" NOT NULL,
    event_id       bigint           NOT NULL DEFAULT nextval('extaction.event_id_seq'),
    recorded_at    timestamptz      NOT NULL DEFAULT clock_timestamp(),
    kind           text             NOT NULL,
    member_name    text COLLATE "C" NOT NULL,
    capability     text COLLATE "C" NOT NULL,
    vouches_for    text,
    role           text             NOT NULL,
    "session_user" text             NOT NULL,
    PRIMARY KEY (scope, event_id)
);
COMMENT ON TABLE extaction.access_changes IS 'Every grant_access and revoke_access, appended.';

CREATE TABLE extaction.actions (
    action              text COLLATE "C" PRIMARY KEY CHECK (octet_length(action) BETWEEN 1 AND 255),
    provider            text COLLATE "C" NOT NULL,
    operation           text COLLATE "C" NOT NULL,
    capability          text COLLATE "C",
    description         text,
    reversible          boolean  NOT NULL DEFAULT false,
    compensated_by      text COLLATE "C",
    destination_pattern text CHECK (destination_pattern IS NULL OR ('' ~ destination_pattern) IS NOT NULL),
    approvals_required  bigint   NOT NULL DEFAULT 1 CHECK (approvals_required >= 1),
    self_approval       boolean  NOT NULL DEFAULT false,
    approval_ttl        interval NOT NULL DEFAULT '24 hours' CHECK (approval_ttl > '0'),
    approval_ttl_max    interval CHECK (approval_ttl_max > '0'),
    request_ttl         interval CHECK (request_ttl > '0'),
    max_attempts        bigint   NOT NULL DEFAULT 5 CHECK (max_attempts >= 1),
    retry_delay         interval NOT NULL DEFAULT '30 seconds' CHECK (retry_delay >= '0'),
    call_timeout        interval NOT NULL DEFAULT '30 seconds' CHECK (call_timeout > '0'),
    enabled             boolean  NOT NULL DEFAULT true
);
COMMENT ON TABLE extaction.actions IS
'The catalogue: one row per kind of external action. Edit it with plain SQL; every change is kept in action_changes.';
COMMENT ON COLUMN extaction.actions.capability IS 'what an approval must name; NULL = the action''s name';
COMMENT ON COLUMN extaction.actions.destination_pattern IS 'POSIX regular expression that a destination must match; NULL = any';
COMMENT ON COLUMN extaction.actions.approvals_required IS 'how many different identities must approve';
COMMENT ON COLUMN extaction.actions.self_approval IS 'may the requester''s own approval count?';
COMMENT ON COLUMN extaction.actions.approval_ttl IS 'how long an approval lasts if it does not say';
COMMENT ON COLUMN extaction.actions.approval_ttl_max IS 'how long an approval may last at most; NULL = no cap';

CREATE TABLE extaction.action_changes (
    change_id      uuid             PRIMARY KEY DEFAULT gen_random_uuid(),
    action         text COLLATE "C" NOT NULL,
    recorded_at    timestamptz      NOT NULL DEFAULT clock_timestamp(),
    kind           text             NOT NULL,
    old_row        jsonb,
    new_row        jsonb,
    role           text             NOT NULL,
    "session_user" text             NOT NULL
);
COMMENT ON TABLE extaction.action_changes IS
'Every change of the catalogue, old row and new. Keyed by a uuid, because a restore fires the trigger again before or after these rows come back.';

CREATE TABLE extaction.sources (
    scope          text COLLATE "C" NOT NULL,
    source_id      text COLLATE "C" NOT NULL,
    event_id       bigint           NOT NULL DEFAULT nextval('extaction.event_id_seq'),
    source_version text COLLATE "C" NOT NULL,
    recorded_at    timestamptz      NOT NULL DEFAULT clock_timestamp(),
    role           text             NOT NULL,
    "session_user" text             NOT NULL,
    actor          text,
    PRIMARY KEY (scope, source_id, event_id)
);
COMMENT ON TABLE extaction.sources IS 'Observed versions of the sources that candidates are read from; the last one is current.';

CREATE TABLE extaction.candidates (
    scope          text COLLATE "C" NOT NULL,
    candidate_id   text COLLATE "C" NOT NULL,
    revision       bigint           NOT NULL,
    source_id      text COLLATE "C" NOT NULL,
    source_version text COLLATE "C" NOT NULL,
    content        jsonb            NOT NULL,
    digest         bytea            NOT NULL,
    recorded_at    timestamptz      NOT NULL DEFAULT clock_timestamp(),
    role           text             NOT NULL,
    "session_user" text             NOT NULL,
    actor          text,
    PRIMARY KEY (scope, candidate_id, revision)
);
COMMENT ON TABLE extaction.candidates IS 'What programs proposed, every revision; digest is SHA-256 of the canonical content.';

CREATE TABLE extaction.requests (
    scope            text COLLATE "C" NOT NULL,
    request_digest   bytea            NOT NULL,
    intent_id        text COLLATE "C" NOT NULL,
    action           text COLLATE "C" NOT NULL,
    destination      text COLLATE "C" NOT NULL,
    payload          jsonb            NOT NULL,
    candidate_id     text COLLATE "C",
    candidate_digest bytea,
    source_id        text COLLATE "C",
    source_version   text COLLATE "C",
    recorded_at      timestamptz      NOT NULL DEFAULT clock_timestamp(),
    role             text             NOT NULL,
    "session_user"   text             NOT NULL,
    actor            text,
    PRIMARY KEY (scope, request_digest)
);
COMMENT ON TABLE extaction.requests IS
'What was asked for, in full: written by an approval or a refusal, so that both can be read and compared; an approved submit writes the intent instead.';

CREATE TABLE extaction.approvals (
    scope          text COLLATE "C" NOT NULL,
    approval_id    text COLLATE "C" NOT NULL,
    kind           text COLLATE "C" NOT NULL,
    id             text COLLATE "C" NOT NULL,
    event_id       bigint           NOT NULL DEFAULT nextval('extaction.event_id_seq'),
    recorded_at    timestamptz      NOT NULL DEFAULT clock_timestamp(),
    request_digest bytea            NOT NULL,
    capability     text COLLATE "C" NOT NULL,
    expires_at     timestamptz      NOT NULL,
    epoch          bigint           NOT NULL,
    approver       text COLLATE "C" NOT NULL,
    note           text,
    role           text             NOT NULL,
    "session_user" text             NOT NULL,
    actor          text,
    PRIMARY KEY (scope, approval_id)
);
CREATE INDEX approvals_subject ON extaction.approvals (scope, kind, id);
COMMENT ON TABLE extaction.approvals IS
'Who allowed which request (kind ''intent'' or ''batch'', id and digest), with which capability, until when. Checked every time it is used, never only when it is given.';

CREATE TABLE extaction.revocations (
    scope          text COLLATE "C" NOT NULL,
    approval_id    text COLLATE "C" NOT NULL,
    event_id       bigint           NOT NULL DEFAULT nextval('extaction.event_id_seq'),
    recorded_at    timestamptz      NOT NULL DEFAULT clock_timestamp(),
    reason         text             NOT NULL,
    revoked_by     text COLLATE "C" NOT NULL,
    role           text             NOT NULL,
    "session_user" text             NOT NULL,
    actor          text,
    PRIMARY KEY (scope, approval_id)
);
COMMENT ON TABLE extaction.revocations IS 'Approvals that were taken back, and why.';

CREATE TABLE extaction.intents (
    scope              text COLLATE "C" NOT NULL,
    intent_id          text COLLATE "C" NOT NULL,
    event_id           bigint           NOT NULL DEFAULT nextval('extaction.event_id_seq'),
    recorded_at        timestamptz      NOT NULL DEFAULT clock_timestamp(),
    action             text COLLATE "C" NOT NULL,
    destination        text COLLATE "C" NOT NULL,
    payload            jsonb            NOT NULL,
    candidate_id       text COLLATE "C",
    candidate_revision bigint,
    request_digest     bytea            NOT NULL,
    batch_id           text COLLATE "C",
    approval_id        text COLLATE "C" NOT NULL,
    contract_version   bigint,
    contract_shipped   boolean,
    idempotency_key    uuid             NOT NULL,
    compensates        text COLLATE "C",
    requester          text COLLATE "C" NOT NULL,
    role               text             NOT NULL,
    "session_user"     text             NOT NULL,
    actor              text,
    not_before         timestamptz,
    PRIMARY KEY (scope, intent_id)
);
COMMENT ON TABLE extaction.intents IS
'One row per intent, bound for ever to one digest and one idempotency key. The row is the intent''s own first event ("prepared"); what came after is in events.';

CREATE TABLE extaction.events (
    scope          text COLLATE "C" NOT NULL,
    intent_id      text COLLATE "C" NOT NULL,
    event_id       bigint           NOT NULL DEFAULT nextval('extaction.event_id_seq'),
    recorded_at    timestamptz      NOT NULL DEFAULT clock_timestamp(),
    kind           text COLLATE "C" NOT NULL,
    attempt        bigint,
    batch_id       text COLLATE "C",
    request_digest bytea,
    approval_id    text COLLATE "C",
    role           text             NOT NULL,
    "session_user" text             NOT NULL,
    actor          text,
    due_at         timestamptz,
    lease_until    timestamptz,
    detail         jsonb,
    PRIMARY KEY (scope, intent_id, event_id)
);
COMMENT ON TABLE extaction.events IS
'What happened to an intent after it was prepared, and what was refused; appended, never changed. intent_id is '''' where a fact concerns a batch only. The view timeline shows intents and events together.';

CREATE TABLE extaction.waiting (
    scope          text COLLATE "C" NOT NULL,
    kind           text COLLATE "C" NOT NULL,
    id             text COLLATE "C" NOT NULL,
    request_digest bytea            NOT NULL,
    gate           text             NOT NULL,
    needs          text             NOT NULL,
    requester      text COLLATE "C" NOT NULL,
    since          timestamptz      NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (scope, kind, id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
COMMENT ON TABLE extaction.waiting IS 'Worklist: what a gate stopped and somebody has to see to. The request itself is in requests.';

CREATE SEQUENCE extaction.fake_task_request_seq;
CREATE SEQUENCE extaction.fake_task_execution_seq;
CREATE SEQUENCE extaction.fake_task_seq;
COMMENT ON SEQUENCE extaction.fake_task_request_seq IS 'Numbers the requests that reached the fake provider.';
COMMENT ON SEQUENCE extaction.fake_task_execution_seq IS 'Numbers what the fake provider executed.';
COMMENT ON SEQUENCE extaction.fake_task_seq IS 'Numbers the fake tasks: fake-task-0001 and on.';

CREATE TABLE extaction.fake_task_requests (
    scope          text COLLATE "C" NOT NULL,
    request_no     bigint           NOT NULL DEFAULT nextval('extaction.fake_task_request_seq'),
    intent_id      text COLLATE "C" NOT NULL,
    request_digest bytea            NOT NULL,
    answer         text             NOT NULL,
    recorded_at    timestamptz      NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (scope, request_no)
);
COMMENT ON TABLE extaction.fake_task_requests IS
'The fake provider''s own books: every request that reached it, and its answer (created, replayed, conflict).';

CREATE TABLE extaction.fake_task_executions (
    scope           text COLLATE "C" NOT NULL,
    execution_no    bigint           NOT NULL DEFAULT nextval('extaction.fake_task_execution_seq'),
    intent_id       text COLLATE "C" NOT NULL,
    idempotency_key uuid             NOT NULL,
    task_id         text COLLATE "C" NOT NULL,
    recorded_at     timestamptz      NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (scope, execution_no)
);
COMMENT ON TABLE extaction.fake_task_executions IS
'The fake provider''s own books: every time it did something. Not unique by intent on purpose: a second execution could be counted.';

CREATE TABLE extaction.fake_tasks (
    scope               text COLLATE "C" NOT NULL,
    task_id             text COLLATE "C" NOT NULL,
    intent_id           text COLLATE "C" NOT NULL,
    title               text             NOT NULL,
    assignee_person_ref text,
    due_at              text,
    recorded_at         timestamptz      NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (scope, task_id)
);
COMMENT ON TABLE extaction.fake_tasks IS
'The tasks that exist at the fake provider. An unknown assignee or date stays null; nothing is guessed. due_at is kept as it was written.';


--
-- Guards: facts are only inserted, by anyone
--

CREATE FUNCTION extaction.fact_tables() RETURNS SETOF text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$ VALUES ('ledger'), ('scopes'), ('access_changes'), ('action_changes'), ('sources'), ('candidates'), ('requests'),
             ('approvals'), ('revocations'), ('intents'), ('events'),
             ('fake_task_requests'), ('fake_task_executions'), ('fake_tasks') $$;
REVOKE ALL ON FUNCTION extaction.fact_tables() FROM PUBLIC;
COMMENT ON FUNCTION extaction.fact_tables() IS 'The tables whose rows are never changed or deleted: each has the guard trigger "append_only".';

CREATE FUNCTION extaction.refuse_change() RETURNS trigger
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_refuse_change';
REVOKE ALL ON FUNCTION extaction.refuse_change() FROM PUBLIC;
COMMENT ON FUNCTION extaction.refuse_change() IS 'Trigger function of the guards: refuses UPDATE, DELETE and TRUNCATE with SQLSTATE 55000, superusers included.';

CREATE FUNCTION extaction.repair_guards() RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    fact_table text;
    repaired bigint := 0;
BEGIN
    FOR fact_table IN
        SELECT f FROM extaction.fact_tables() f
        WHERE NOT EXISTS (SELECT FROM pg_trigger t
                          WHERE t.tgrelid = pg_catalog.format('extaction.%I', f)::regclass
                            AND t.tgname = 'append_only' AND t.tgenabled = 'A'
                            AND t.tgtype = 58 AND t.tgfoid = 'extaction.refuse_change()'::regprocedure)
    LOOP
        EXECUTE pg_catalog.format('DROP TRIGGER IF EXISTS append_only ON extaction.%I', fact_table);
        EXECUTE pg_catalog.format('CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON extaction.%I'
                                  ' FOR EACH STATEMENT EXECUTE FUNCTION extaction.refuse_change()', fact_table);
        EXECUTE pg_catalog.format('ALTER TABLE extaction.%I ENABLE ALWAYS TRIGGER append_only', fact_table);
        repaired := repaired + 1;
    END LOOP;
    RETURN repaired;
END
$$;
REVOKE ALL ON FUNCTION extaction.repair_guards() FROM PUBLIC;
COMMENT ON FUNCTION extaction.repair_guards() IS
'Sets every guard that is missing or not "enabled always" (as pg_restore --disable-triggers leaves them), and returns how many. For the owner of the extension.';

SELECT extaction.repair_guards();

CREATE FUNCTION extaction.record_action_change() RETURNS trigger
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_record_action_change';
REVOKE ALL ON FUNCTION extaction.record_action_change() FROM PUBLIC;
COMMENT ON FUNCTION extaction.record_action_change() IS 'Trigger function: appends old and new row of the catalogue to action_changes.';

CREATE TRIGGER record_action_change AFTER INSERT OR UPDATE OR DELETE ON extaction.actions
    FOR EACH ROW EXECUTE FUNCTION extaction.record_action_change();
ALTER TABLE extaction.actions ENABLE ALWAYS TRIGGER record_action_change;

CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON extaction.actions
    FOR EACH STATEMENT EXECUTE FUNCTION extaction.refuse_change();
ALTER TABLE extaction.actions ENABLE ALWAYS TRIGGER refuse_truncate;


--
-- Functions: documents, digests and keys
--

CREATE FUNCTION extaction.canonical(document jsonb) RETURNS text
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'extaction_canonical';
REVOKE ALL ON FUNCTION extaction.canonical(jsonb) FROM PUBLIC;
COMMENT ON FUNCTION extaction.canonical(jsonb) IS
'The RFC 8785 (JCS) text of a document. 22023 if a number is not exactly what its ECMAScript form shows (send it as a string); 54001 if nested too deep. Any member of a scope.';

CREATE FUNCTION extaction.digest(document jsonb) RETURNS bytea
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'extaction_digest';
REVOKE ALL ON FUNCTION extaction.digest(jsonb) FROM PUBLIC;
COMMENT ON FUNCTION extaction.digest(jsonb) IS
'SHA-256 (32 bytes) of the canonical text in UTF-8. Errors as canonical. Any member of a scope.';

CREATE FUNCTION extaction.strict_json(document text) RETURNS jsonb
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'extaction_strict_json';
REVOKE ALL ON FUNCTION extaction.strict_json(text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.strict_json(text) IS
'Reads JSON text from outside: refuses duplicate member names (22030) and numbers without an exact canonical form (22023), which jsonb would silently merge or keep. Any member of a scope.';

CREATE FUNCTION extaction.idempotency_key(ledger_id uuid, scope text, intent_id text) RETURNS uuid
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'extaction_idempotency_key';
REVOKE ALL ON FUNCTION extaction.idempotency_key(uuid, text, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.idempotency_key(uuid, text, text) IS
'The key that travels with every attempt of an intent: version-8 UUID (RFC 9562) of SHA-256 over ledger, scope and intent_id, each with its length in front. Any member of a scope.';

CREATE FUNCTION extaction.request_digest(scope text, intent_id text, action text, destination text, payload jsonb,
                                         candidate_id text DEFAULT NULL) RETURNS text
LANGUAGE c STABLE AS 'MODULE_PATHNAME', 'extaction_request_digest';
REVOKE ALL ON FUNCTION extaction.request_digest(text, text, text, text, jsonb, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.request_digest(text, text, text, text, jsonb, text) IS
'What an approval of this request would be bound to: SHA-256 of its canonical text, lower-case hex. With a candidate, of its newest revision. payload NULL with a candidate: the candidate''s content. Any member of the scope.';


--
-- Functions: scopes and access
--

CREATE FUNCTION extaction.create_scope(scope text) RETURNS text
LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'extaction_create_scope';
REVOKE ALL ON FUNCTION extaction.create_scope(text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.create_scope(text) IS
'Makes a scope and its caller the owner; answers created, or exists if the caller already owns it. The very first call also makes the ledger''s own row. 42501 if the scope is another''s. Superusers, and roles that were granted EXECUTE.';

CREATE FUNCTION extaction.grant_access(scope text, role text, capability text, vouches_for text DEFAULT NULL) RETURNS text
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_grant_access';
REVOKE ALL ON FUNCTION extaction.grant_access(text, text, text, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.grant_access(text, text, text, text) IS
'Gives a role a capability in a scope (submitter, approver, worker, auditor, owner) and the SQL privileges it needs; answers granted or unchanged. vouches_for, a note such as "users of the web app", marks a role that speaks for many people: it must then name an actor in every call, and role and actor together are the identity. 42501 not the owner, 42704 no such role, 22023 no such capability. Owner.';

CREATE FUNCTION extaction.revoke_access(scope text, role text, capability text) RETURNS text
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_revoke_access';
REVOKE ALL ON FUNCTION extaction.revoke_access(text, text, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.revoke_access(text, text, text) IS
'Takes a capability back; answers revoked or unchanged. 55000 if it is the last owner. Owner.';


--
-- Functions: asking
--

CREATE FUNCTION extaction.observe_source(scope text, source_id text, source_version text, actor text DEFAULT NULL) RETURNS text
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_observe_source';
REVOKE ALL ON FUNCTION extaction.observe_source(text, text, text, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.observe_source(text, text, text, text) IS
'Records which version of a source is current; answers observed or unchanged. Approvals of candidates read from another version no longer pass. Submitter or worker.';

CREATE FUNCTION extaction.propose(scope text, candidate_id text, content jsonb, source_id text, source_version text,
                                  actor text DEFAULT NULL) RETURNS extaction.proposal
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_propose';
REVOKE ALL ON FUNCTION extaction.propose(text, text, jsonb, text, text, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.propose(text, text, jsonb, text, text, text) IS
'Records what a program proposes and the source version it was read from. A new revision, unless content, source and version are all the same. Allows nothing. Submitter.';

CREATE FUNCTION extaction.submit_fake_task(scope text, request jsonb, approval_id text DEFAULT NULL,
                                           actor text DEFAULT NULL) RETURNS extaction.receipt
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_submit_fake_task';
REVOKE ALL ON FUNCTION extaction.submit_fake_task(text, jsonb, text, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.submit_fake_task(text, jsonb, text, text) IS
'The whole trip to a provider inside the database, for a task-request.v1 document: gates, then the fake provider, which counts requests, executions and tasks (fake_task_counts). status created, replayed, conflict or blocked (gate and needs say why; approve, then submit again). 22023 malformed document (path in the detail), 40001 in REPEATABLE READ or stricter when another caller was first. Submitter; anybody else is blocked by the gate scope_denied.';

CREATE FUNCTION extaction.find(scope text, intent_id text) RETURNS extaction.receipt
LANGUAGE c STABLE AS 'MODULE_PATHNAME', 'extaction_find';
REVOKE ALL ON FUNCTION extaction.find(text, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.find(text, text) IS
'Where an intent stands, as a receipt with status found; NULL if the scope has no such intent. 42501 if the caller is no member. Any member.';

CREATE FUNCTION extaction.accepted(answer extaction.receipt) RETURNS extaction.receipt
LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'extaction_accepted';
REVOKE ALL ON FUNCTION extaction.accepted(extaction.receipt) FROM PUBLIC;
COMMENT ON FUNCTION extaction.accepted(extaction.receipt) IS
'Passes a receipt through, but raises on status conflict (23505) and blocked (42501, the gate in the constraint-name field), for callers who want an exception. The error rolls back what the verb recorded. Any member.';


--
-- Functions: deciding
--

CREATE FUNCTION extaction.approve_fake_task(scope text, request jsonb, expires_at timestamptz DEFAULT NULL,
                                            approval_id text DEFAULT NULL, capability text DEFAULT 'create_fake_task',
                                            actor text DEFAULT NULL) RETURNS extaction.approval_receipt
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_approve_fake_task';
REVOKE ALL ON FUNCTION extaction.approve_fake_task(text, jsonb, timestamptz, text, text, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.approve_fake_task(text, jsonb, timestamptz, text, text, text) IS
'Allows exactly this request until expires_at (default: now + the action''s approval_ttl; capped by approval_ttl_max). Executes nothing: the caller submits. status approved, or already_approved if the same identity''s approval still holds. 22023 malformed document or an end in the past, 23505 approval_id used before. Approver.';

CREATE FUNCTION extaction.revoke_approval(scope text, approval_id text, reason text, actor text DEFAULT NULL)
RETURNS extaction.approval_receipt
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_revoke_approval';
REVOKE ALL ON FUNCTION extaction.revoke_approval(text, text, text, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.revoke_approval(text, text, text, text) IS
'Takes an approval back; waits for transactions that are just using it. status revoked, or too_late if the request has already gone out (detail says which attempts). 42704 no such approval. Approver.';


--
-- Views: a role sees only the scopes it is a member of
--

CREATE VIEW extaction.visible_scopes WITH (security_barrier) AS
    SELECT DISTINCT m.scope
    FROM extaction.scope_members m
    WHERE pg_get_userbyid(m.member::oid) = m.member_name AND pg_has_role(m.member::oid, 'USAGE');
COMMENT ON VIEW extaction.visible_scopes IS 'The scopes that the current role is a member of, with whatever capability.';

CREATE FUNCTION extaction.gate_list(OUT gate text, OUT meaning text, OUT who_can_fix text) RETURNS SETOF record
LANGUAGE c IMMUTABLE AS 'MODULE_PATHNAME', 'extaction_gate_list';
REVOKE ALL ON FUNCTION extaction.gate_list() FROM PUBLIC;
COMMENT ON FUNCTION extaction.gate_list() IS 'What the view gates shows.';

CREATE VIEW extaction.gates AS
    SELECT g.ordinality AS position, g.gate, g.meaning, g.who_can_fix
    FROM extaction.gate_list() WITH ORDINALITY g;
COMMENT ON VIEW extaction.gates IS 'The gates, in the order in which the first failure is named.';

CREATE VIEW extaction.access WITH (security_barrier) AS
    SELECT m.scope, m.member_name AS member, m.capability, m.vouches_for,
           pg_get_userbyid(m.member::oid) = m.member_name AS counts, m.recorded_at AS since, m.granted_by
    FROM extaction.scope_members m
    WHERE m.scope IN (SELECT v.scope FROM extaction.visible_scopes v);
COMMENT ON VIEW extaction.access IS
'Who may do what in a scope. counts is false for a role that was dropped or renamed since: it has no access.';

CREATE VIEW extaction.timeline WITH (security_barrier) AS
    SELECT t.*
    FROM (SELECT i.scope, i.intent_id, i.event_id, i.recorded_at, 'prepared'::text AS kind, NULL::bigint AS attempt, i.batch_id,
                 encode(i.request_digest, 'hex') AS request_digest, i.approval_id, i.role, i."session_user", i.actor,
                 NULL::timestamptz AS due_at, NULL::timestamptz AS lease_until, NULL::jsonb AS detail
          FROM extaction.intents i
          UNION ALL
          SELECT e.scope, e.intent_id, e.event_id, e.recorded_at, e.kind, e.attempt, e.batch_id,
                 encode(e.request_digest, 'hex'), e.approval_id, e.role, e."session_user", e.actor,
                 e.due_at, e.lease_until, e.detail
          FROM extaction.events e) t
    WHERE t.scope IN (SELECT v.scope FROM extaction.visible_scopes v)
    ORDER BY t.event_id;
COMMENT ON VIEW extaction.timeline IS 'The whole log of the caller''s scopes, in order: every intent as its first event ("prepared"), and every event.';

CREATE VIEW extaction.todo WITH (security_barrier) AS
    SELECT w.scope, CASE w.kind WHEN 'intent' THEN w.id END AS intent_id, CASE w.kind WHEN 'batch' THEN w.id END AS batch_id,
           'awaiting_approval'::text AS state, g.who_can_fix AS for_whom, r.action, r.destination, w.gate, w.needs,
           CASE g.who_can_fix WHEN 'approver' THEN 'approve' ELSE 'human' END AS next_step, w.since, NULL::bigint AS attempt,
           encode(w.request_digest, 'hex') AS request_digest
    FROM extaction.waiting w
    JOIN extaction.requests r USING (scope, request_digest)
    JOIN extaction.gates g USING (gate)
    WHERE w.scope IN (SELECT v.scope FROM extaction.visible_scopes v)
    ORDER BY w.since;
COMMENT ON VIEW extaction.todo IS 'Everything that waits for someone: what a gate stopped, why, what it needs and of whom.';

CREATE VIEW extaction.fake_task_counts WITH (security_barrier) AS
    SELECT s.scope,
           (SELECT count(*) FROM extaction.fake_task_requests r WHERE r.scope = s.scope) AS requests,
           (SELECT count(*) FROM extaction.fake_task_executions x WHERE x.scope = s.scope) AS executions,
           (SELECT count(*) FROM extaction.fake_tasks t WHERE t.scope = s.scope) AS tasks
    FROM extaction.scopes s
    WHERE s.scope IN (SELECT v.scope FROM extaction.visible_scopes v);
COMMENT ON VIEW extaction.fake_task_counts IS
'The fake provider''s three numbers, counted apart: requests that reached it, executions, tasks that exist.';

--
-- verify: what the facts say of themselves
--

CREATE VIEW extaction.disagreements WITH (security_barrier) AS
    WITH visible AS MATERIALIZED (SELECT v.scope FROM extaction.visible_scopes v)
    SELECT i.scope, i.intent_id, 'request_digest'::text AS what,
           'the stored request does not have the digest that the intent is bound to'::text AS detail
    FROM extaction.intents i
    LEFT JOIN extaction.candidates c ON (c.scope, c.candidate_id, c.revision) = (i.scope, i.candidate_id, i.candidate_revision)
    WHERE i.scope IN (SELECT scope FROM visible)
      AND i.request_digest IS DISTINCT FROM extaction.digest(jsonb_build_object(
            'v', 'extaction.request.v1', 'scope', i.scope, 'intent_id', i.intent_id, 'action', i.action,
            'destination', i.destination, 'payload', i.payload,
            'candidate', CASE WHEN i.candidate_id IS NOT NULL THEN jsonb_build_object(
                'candidate_id', i.candidate_id, 'digest', encode(c.digest, 'hex'),
                'source_id', c.source_id, 'source_version', c.source_version) END))
    UNION ALL
    SELECT r.scope, r.intent_id, 'request_digest', 'a kept request does not have the digest that it is filed under'
    FROM extaction.requests r
    WHERE r.scope IN (SELECT scope FROM visible)
      AND r.request_digest IS DISTINCT FROM extaction.digest(jsonb_build_object(
            'v', 'extaction.request.v1', 'scope', r.scope, 'intent_id', r.intent_id, 'action', r.action,
            'destination', r.destination, 'payload', r.payload,
            'candidate', CASE WHEN r.candidate_id IS NOT NULL THEN jsonb_build_object(
                'candidate_id', r.candidate_id, 'digest', encode(r.candidate_digest, 'hex'),
                'source_id', r.source_id, 'source_version', r.source_version) END))
    UNION ALL
    SELECT c.scope, NULL, 'candidate_digest', format('candidate %s revision %s does not have its digest', c.candidate_id, c.revision)
    FROM extaction.candidates c
    WHERE c.scope IN (SELECT scope FROM visible) AND c.digest IS DISTINCT FROM extaction.digest(c.content)
    UNION ALL
    SELECT i.scope, i.intent_id, 'idempotency_key', 'the key is not the one of this ledger, scope and intent'
    FROM extaction.intents i
    WHERE i.scope IN (SELECT scope FROM visible)
      AND NOT EXISTS (SELECT FROM (SELECT DISTINCT ledger_id FROM extaction.ledger) l
                      WHERE extaction.idempotency_key(l.ledger_id, i.scope, i.intent_id) = i.idempotency_key)
    UNION ALL
    SELECT i.scope, i.intent_id, 'approval', format('approval %s is not there, or is for another request', i.approval_id)
    FROM extaction.intents i
    LEFT JOIN extaction.approvals a ON (a.scope, a.approval_id) = (i.scope, i.approval_id)
    WHERE i.scope IN (SELECT scope FROM visible) AND i.batch_id IS NULL
      AND (a.kind, a.id, a.request_digest) IS DISTINCT FROM ('intent', i.intent_id, i.request_digest)
    UNION ALL
    SELECT e.scope, e.intent_id, 'event', format('event %s (%s) is about an intent that is not there', e.event_id, e.kind)
    FROM extaction.events e
    LEFT JOIN extaction.intents i ON (i.scope, i.intent_id) = (e.scope, e.intent_id)
    WHERE e.scope IN (SELECT scope FROM visible) AND i.intent_id IS NULL
      AND e.kind IN ('happened', 'replayed', 'conflict')
    UNION ALL
    SELECT i.scope, i.intent_id, 'fake_task',
           format('%s happened, %s executions, %s tasks, where each should be 1', h.n, x.n, t.n)
    FROM extaction.intents i
    CROSS JOIN LATERAL (SELECT count(*) AS n FROM extaction.events e
                        WHERE e.scope = i.scope AND e.intent_id = i.intent_id AND e.kind = 'happened') h
    LEFT JOIN (SELECT scope, intent_id, count(*) AS n FROM extaction.fake_task_executions GROUP BY 1, 2) x0
           ON (x0.scope, x0.intent_id) = (i.scope, i.intent_id)
    LEFT JOIN (SELECT scope, intent_id, count(*) AS n FROM extaction.fake_tasks GROUP BY 1, 2) t0
           ON (t0.scope, t0.intent_id) = (i.scope, i.intent_id)
    CROSS JOIN LATERAL (SELECT coalesce(x0.n, 0) AS n) x
    CROSS JOIN LATERAL (SELECT coalesce(t0.n, 0) AS n) t
    WHERE i.scope IN (SELECT scope FROM visible) AND i.action = 'create_fake_task' AND (h.n, x.n, t.n) <> (1, 1, 1)
    UNION ALL
    SELECT NULL, NULL, 'guard', format('table %s is not guarded: see repair_guards()', f)
    FROM extaction.fact_tables() f
    WHERE NOT EXISTS (SELECT FROM pg_trigger t
                      WHERE t.tgrelid = format('extaction.%I', f)::regclass
                        AND t.tgname = 'append_only' AND t.tgenabled = 'A'
                        AND t.tgtype = 58 AND t.tgfoid = 'extaction.refuse_change()'::regprocedure);
COMMENT ON VIEW extaction.disagreements IS 'What verify() returns.';

CREATE FUNCTION extaction.verify(OUT scope text, OUT intent_id text, OUT what text, OUT detail text) RETURNS SETOF record
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$ SELECT scope, intent_id, what, detail FROM extaction.disagreements $$;
REVOKE ALL ON FUNCTION extaction.verify() FROM PUBLIC;
COMMENT ON FUNCTION extaction.verify() IS
'Recomputes every digest and key of the caller''s scopes, looks for facts that contradict each other and for guards that are gone. One row per disagreement; none = fine. It cannot notice rows that somebody removed together with everything that names them. Auditor or owner.';


--
-- Dump marks: every table and sequence that holds data
--

SELECT pg_extension_config_dump('extaction.event_id_seq', '');
SELECT pg_extension_config_dump('extaction.ledger', '');
SELECT pg_extension_config_dump('extaction.scopes', '');
SELECT pg_extension_config_dump('extaction.scope_members', '');
SELECT pg_extension_config_dump('extaction.access_changes', '');
SELECT pg_extension_config_dump('extaction.actions', '');
SELECT pg_extension_config_dump('extaction.action_changes', '');
SELECT pg_extension_config_dump('extaction.sources', '');
SELECT pg_extension_config_dump('extaction.candidates', '');
SELECT pg_extension_config_dump('extaction.requests', '');
SELECT pg_extension_config_dump('extaction.approvals', '');
SELECT pg_extension_config_dump('extaction.revocations', '');
SELECT pg_extension_config_dump('extaction.intents', '');
SELECT pg_extension_config_dump('extaction.events', '');
SELECT pg_extension_config_dump('extaction.waiting', '');
SELECT pg_extension_config_dump('extaction.fake_task_request_seq', '');
SELECT pg_extension_config_dump('extaction.fake_task_execution_seq', '');
SELECT pg_extension_config_dump('extaction.fake_task_seq', '');
SELECT pg_extension_config_dump('extaction.fake_task_requests', '');
SELECT pg_extension_config_dump('extaction.fake_task_executions', '');
SELECT pg_extension_config_dump('extaction.fake_tasks', '');
