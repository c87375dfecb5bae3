/* extaction--1.0.sql: the schema as a book, put together from the pieces in sql/ (see the Makefile) */

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

-- Nor may a name below be found in the schema of pgcrypto, which CREATE EXTENSION has put on the search_path.
SET LOCAL search_path = pg_catalog, pg_temp;

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

CREATE TYPE extaction.ticket AS (
    claim_id    bigint,
    claimed     bigint,
    blocked     bigint,
    lease_until timestamptz,
    next_due_at timestamptz
);
COMMENT ON TYPE extaction.ticket IS
'Answer to claim: the right to send (or look) until lease_until, once the claim is committed. claim_id is NULL when there was nothing to claim; next_due_at says when something will be. blocked: how many a gate stopped.';

CREATE TYPE extaction.envelope AS (
    scope           text,
    intent_id       text,
    attempt         bigint,
    step            text,
    action          text,
    provider        text,
    operation       text,
    destination     text,
    payload         jsonb,
    payload_text    text,
    idempotency_key uuid,
    key_carrier     text,
    key_name        text,
    call_timeout    interval,
    send_within     interval,
    lease_until     timestamptz,
    provider_ref    text,
    lookup          text,
    approval_id     text,
    request_digest  text,
    batch_id        text,
    detail          jsonb
);
COMMENT ON TYPE extaction.envelope IS
'What a worker sends (step send, resend) or looks up (step look). payload_text is the canonical text, the same bytes at every attempt. send_within: begin the call no later than this after calling claimed, by a monotonic clock; otherwise release.';

CREATE TYPE extaction.step AS (
    step   text,
    reason text,
    due_at timestamptz,
    gate   text,
    needs  text
);
COMMENT ON TYPE extaction.step IS
'Answer to next_step: approve, send, wait, resend, look, human or done; why; and when (NULL = at once, or nothing to wait for). gate, needs: what stops it, if it is blocked or waits, or would stop it from being sent again.';

CREATE TYPE extaction.batch_receipt AS (
    status         text,
    needs          text,
    gate           text,
    total          bigint,
    created        bigint,
    replayed       bigint,
    conflict       bigint,
    scope          text,
    batch_id       text,
    request_digest text,
    recorded_at    timestamptz,
    detail         jsonb
);
COMMENT ON TYPE extaction.batch_receipt IS
'Answer to submit_batch. status: created (the list is bound and prepared now), replayed (the same list again), conflict (the batch is bound to another list: nothing was done) or blocked (a gate says no to the whole: nothing was done); created, replayed and conflict count the items.';
