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
    PRIMARY KEY (scope, member_name, capability)
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
COMMENT ON COLUMN extaction.actions.request_ttl IS 'how long a request may wait for somebody before sweep() withdraws it; NULL = for ever';
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

CREATE TABLE extaction.contracts (
    provider            text COLLATE "C" NOT NULL,
    operation           text COLLATE "C" NOT NULL,
    version             bigint      NOT NULL CHECK (version >= 1),
    shipped             boolean     NOT NULL DEFAULT false,
    valid_from          timestamptz NOT NULL DEFAULT now(),
    key_carrier         text        NOT NULL CHECK (key_carrier IN ('header', 'field', 'resource_name', 'natural_id', 'in_database', 'none')),
    key_name            text,
    key_max_bytes       bigint      CHECK (key_max_bytes > 0),
    scope_parts         text[],
    retention           interval    CHECK (retention >= '0'),
    on_expired          text        NOT NULL DEFAULT 'unknown' CHECK (on_expired IN ('executes', 'rejects', 'unknown')),
    on_replay           text        NOT NULL DEFAULT 'unknown'
        CHECK (on_replay IN ('first_result', 'present_state', 'exists', 'exists_with_id', 'silent', 'none', 'unknown')),
    replay_marker       text,
    on_mismatch         text        NOT NULL DEFAULT 'unknown'
        CHECK (on_mismatch IN ('rejects', 'replays_first', 'executes', 'not_compared', 'unknown')),
    on_concurrent       text        NOT NULL DEFAULT 'unknown'
        CHECK (on_concurrent IN ('rejects', 'waits', 'may_fail', 'executes_twice', 'unknown')),
    stores_failures     text        NOT NULL DEFAULT 'unknown'
        CHECK (stores_failures IN ('all', 'success_and_4xx', 'success', 'none', 'resumes', 'unknown')),
    failures_roll_back  boolean     NOT NULL DEFAULT false,
    proves_not_happened text[]      NOT NULL DEFAULT '{}',
    lookup              text        NOT NULL DEFAULT 'none' CHECK (lookup IN ('by_key', 'by_own_id', 'by_marker', 'by_event', 'none')),
    absence_is_proof    boolean     NOT NULL DEFAULT false,
    lookup_lag          interval    CHECK (lookup_lag >= '0'),
    late_arrival_bound  interval    CHECK (late_arrival_bound >= '0'),
    min_retry_delay     interval    CHECK (min_retry_delay >= '0'),
    source              text,
    checked_on          date,
    PRIMARY KEY (provider, operation, version, shipped)
);
COMMENT ON TABLE extaction.contracts IS
'What providers promise about idempotency: dated, versioned rows, never changed; add a version instead. In force: the highest valid_from not in the future, then the highest version. doc/contracts.md explains every column. Shipped rows come with the extension and are not dumped.';

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
    kind             text COLLATE "C" NOT NULL,
    PRIMARY KEY (scope, request_digest)
);
COMMENT ON TABLE extaction.requests IS
'What was asked for, in full: written by an approval or a refusal, so that both can be read and compared; an approved submit writes the intent instead. Of kind ''batch'', intent_id is the batch_id and the payload holds the shared payload and the items.';

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
-- what differs most comes first: to go down it compares one text at a time
CREATE INDEX approvals_subject ON extaction.approvals (id, scope, kind);
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

CREATE TABLE extaction.batches (
    scope            text COLLATE "C" NOT NULL,
    batch_id         text COLLATE "C" NOT NULL,
    event_id         bigint           NOT NULL DEFAULT nextval('extaction.event_id_seq'),
    recorded_at      timestamptz      NOT NULL DEFAULT clock_timestamp(),
    action           text COLLATE "C" NOT NULL,
    request_digest   bytea            NOT NULL,
    approval_id      text COLLATE "C" NOT NULL,
    total            bigint           NOT NULL,
    requester        text COLLATE "C" NOT NULL,
    role             text             NOT NULL,
    "session_user"   text             NOT NULL,
    actor            text,
    not_before       timestamptz,
    PRIMARY KEY (scope, batch_id)
);
COMMENT ON TABLE extaction.batches IS
'Lists that were approved as a whole and bound to one digest for ever. The list itself is in requests, its items are in intents.';

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

CREATE INDEX intents_batch ON extaction.intents (scope, batch_id) WHERE batch_id IS NOT NULL;
CREATE INDEX intents_destination ON extaction.intents (destination, scope);

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

-- An intent may have been asked for again any number of times: what settled it, or forbade it, is found without walking those.
CREATE INDEX events_verdicts ON extaction.events (intent_id, scope, event_id)
    WHERE kind IN ('happened', 'not_happened', 'uncertain', 'cancelled', 'late_evidence', 'rejected');

CREATE SEQUENCE extaction.claim_id_seq;
COMMENT ON SEQUENCE extaction.claim_id_seq IS 'Numbers the tickets that claim gives out.';

CREATE TABLE extaction.worklist (
    scope         text COLLATE "C" NOT NULL,
    intent_id     text COLLATE "C" NOT NULL,
    state         text COLLATE "C" NOT NULL,
    action        text COLLATE "C" NOT NULL,
    attempt       bigint      NOT NULL DEFAULT 0,
    due_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    claim_id      bigint,
    claimed_by    text COLLATE "C",
    handed_at     timestamptz,
    worker        text,
    lease_until   timestamptz,
    first_sent_at timestamptz,
    quiet_from    timestamptz,
    last_code     text,
    gate          text,
    needs         text,
    since         timestamptz NOT NULL DEFAULT clock_timestamp(),
    tries         bigint      NOT NULL DEFAULT 0,
    claim_step    text,
    earlier_open  boolean     NOT NULL DEFAULT false,
    late_found    boolean     NOT NULL DEFAULT false,
    answered_at   timestamptz,
    look_began_at timestamptz,
    lookups       bigint      NOT NULL DEFAULT 0,
    PRIMARY KEY (scope, intent_id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX worklist_due ON extaction.worklist (state, due_at);
CREATE INDEX worklist_claim ON extaction.worklist (claim_id) WHERE claim_id IS NOT NULL;
COMMENT ON TABLE extaction.worklist IS
'One row for every bound intent that still needs something, and nothing else; can be rebuilt from the facts (rebuild_worklist). due_at: when something is next to be done; of one that is being sent or looked up, the end of its lease; infinity where only a human or an approval can go on.';
COMMENT ON COLUMN extaction.worklist.state IS 'prepared, sending, uncertain or blocked';
COMMENT ON COLUMN extaction.worklist.attempt IS 'the last time of going out, also the fencing number; never given twice, so a released attempt leaves a gap';
COMMENT ON COLUMN extaction.worklist.tries IS 'attempts that may have been sent: what max_attempts counts';
COMMENT ON COLUMN extaction.worklist.first_sent_at IS 'the claim of the first attempt: retention counts from it';
COMMENT ON COLUMN extaction.worklist.quiet_from IS 'the greatest lease_until of all attempts; quiet periods count from it';
COMMENT ON COLUMN extaction.worklist.earlier_open IS 'an attempt before the last may still act: no refusal of the last proves anything';
COMMENT ON COLUMN extaction.worklist.late_found IS 'an older attempt has said happened: nothing goes out any more';
COMMENT ON COLUMN extaction.worklist.since IS 'when it came into its state';

CREATE TABLE extaction.pauses (
    scope       text COLLATE "C" NOT NULL,
    action      text COLLATE "C" NOT NULL,
    reason      text             NOT NULL,
    recorded_at timestamptz      NOT NULL DEFAULT clock_timestamp(),
    role        text             NOT NULL,
    PRIMARY KEY (scope, action)
);
COMMENT ON TABLE extaction.pauses IS 'What claim skips for now; '''' in a column = all.';

CREATE TABLE extaction.waiting (
    scope          text COLLATE "C" NOT NULL,
    kind           text COLLATE "C" NOT NULL,
    id             text COLLATE "C" NOT NULL,
    request_digest bytea            NOT NULL,
    gate           text             NOT NULL,
    needs          text             NOT NULL,
    requester      text COLLATE "C" NOT NULL,
    since          timestamptz      NOT NULL DEFAULT clock_timestamp(),
    role           text             NOT NULL,
    "session_user" text             NOT NULL,
    actor          text,
    not_before     timestamptz,
    compensates    text COLLATE "C",
    PRIMARY KEY (scope, kind, id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
COMMENT ON TABLE extaction.waiting IS 'Worklist: what a gate stopped and somebody has to see to. The request itself is in requests.';

CREATE TABLE extaction.wake_sources (
    scope       text COLLATE "C" NOT NULL,
    source      text COLLATE "C" NOT NULL,
    secret      bytea            CHECK (octet_length(secret) > 0),
    recorded_at timestamptz      NOT NULL DEFAULT clock_timestamp(),
    role        text             NOT NULL DEFAULT current_user,
    PRIMARY KEY (scope, source)
);
COMMENT ON TABLE extaction.wake_sources IS
'Who may wake a scope: see set_wake_source. secret: the key of its HMAC-SHA256 signatures; NULL = it does not sign. For the owner of the extension only.';

CREATE TABLE extaction.wakeups (
    scope          text COLLATE "C" NOT NULL,
    source         text COLLATE "C" NOT NULL,
    event_id       text COLLATE "C" NOT NULL,
    wakeup_id      bigint           NOT NULL DEFAULT nextval('extaction.event_id_seq'),
    recorded_at    timestamptz      NOT NULL DEFAULT clock_timestamp(),
    payload        text,
    payload_digest bytea            NOT NULL,
    role           text             NOT NULL,
    "session_user" text             NOT NULL,
    actor          text,
    PRIMARY KEY (scope, source, event_id)
);
COMMENT ON TABLE extaction.wakeups IS
'What listed sources told us: the first payload under the id that the source gave its event. Data: nothing leads from it to an approval or an intent. payload is NULL where it has been erased; payload_digest, SHA-256 of its UTF-8 bytes, stays.';

CREATE TABLE extaction.unread_wakeups (
    scope     text COLLATE "C" NOT NULL,
    wakeup_id bigint           NOT NULL,
    source    text COLLATE "C" NOT NULL,
    event_id  text COLLATE "C" NOT NULL,
    PRIMARY KEY (scope, wakeup_id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
COMMENT ON TABLE extaction.unread_wakeups IS 'Worklist: the wakeups that next_wakeup has not given to anybody.';

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
