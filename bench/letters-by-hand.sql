-- Letters by hand: what submit and the workers' verbs do, in PL/pgSQL and SQL, over the tables of by-hand.sql and a worklist of
-- the same shape.  As one writes it: the gates are one query, work is taken with SKIP LOCKED and all of it in one statement.

CREATE TABLE bench.worklist (LIKE extaction.worklist INCLUDING ALL);
CREATE TABLE bench.batches  (LIKE extaction.batches INCLUDING ALL);
ALTER TABLE bench.worklist SET (fillfactor = 50);

INSERT INTO bench.scope_members SELECT * FROM extaction.scope_members m WHERE m.scope = bench.scope() ON CONFLICT DO NOTHING;
INSERT INTO bench.actions SELECT * FROM extaction.actions ON CONFLICT DO NOTHING;

CREATE FUNCTION bench.letter_digest(n_scope text, intent_id text, destination text, payload jsonb) RETURNS bytea LANGUAGE sql STABLE AS $$
    SELECT sha256(convert_to(jsonb_build_object(
        'v', 'request.v1', 'scope', n_scope, 'intent_id', intent_id, 'action', 'bench_letter',
        'destination', destination, 'payload', payload, 'candidate', NULL)::text, 'UTF8'))
$$;
CREATE FUNCTION bench.letter_key(ledger_id uuid, n_scope text, intent_id text) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT encode(substr(sha256(convert_to(ledger_id || '/' || n_scope || '/' || intent_id, 'UTF8')), 1, 16), 'hex')::uuid
$$;

CREATE FUNCTION bench.approve_letters_by_hand(first bigint, last bigint) RETURNS void LANGUAGE sql AS $$
    INSERT INTO bench.approvals (scope, approval_id, kind, id, request_digest, capability, expires_at, epoch, approver,
                                 role, "session_user")
    SELECT bench.scope(), 'letter-' || n, 'intent', 'letter-' || n,
           bench.letter_digest(bench.scope(), 'letter-' || n, bench.address(n::text), bench.letter(n::text)), 'bench_letter',
           clock_timestamp() + interval '1 day', (SELECT max(epoch) FROM bench.ledger), 'bench_approver',
           'bench_approver', 'bench_approver'
    FROM generate_series(first, last) n
$$;

CREATE FUNCTION bench.submit(p_scope text, p_intent_id text, p_action text, p_destination text, p_payload jsonb,
                             p_approval_id text DEFAULT NULL, p_actor text DEFAULT NULL)
RETURNS extaction.receipt LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_digest  bytea;
    v_facts   record;
    v_gate    text;
    v_receipt extaction.receipt;
BEGIN
    IF (octet_length(p_intent_id) BETWEEN 1 AND 255 AND octet_length(p_destination) BETWEEN 1 AND 255
        AND jsonb_typeof(p_payload) = 'object') IS NOT TRUE THEN
        RAISE invalid_parameter_value USING MESSAGE = 'not a request';
    END IF;
    v_digest := sha256(convert_to(jsonb_build_object(
        'v', 'request.v1', 'scope', p_scope, 'intent_id', p_intent_id, 'action', p_action,
        'destination', p_destination, 'payload', p_payload, 'candidate', NULL)::text, 'UTF8'));

    SELECT l.ledger_id, l.window_until, m.vouching, m.allowed,
           a.enabled, coalesce(a.capability, a.action) AS capability, a.approvals_required, a.self_approval,
           a.destination_pattern IS NULL OR p_destination ~ a.destination_pattern AS destination_allowed,
           i.request_digest AS bound_digest, i.idempotency_key, n.reason AS rejected,
           k.version AS contract_version, k.shipped AS contract_shipped, w.id IS NOT NULL AS waits,
           p.approval_id, p.request_digest AS approved_digest, p.approver, p.capability AS approved_capability, p.expires_at,
           p.epoch = l.epoch AS this_epoch, r.approval_id IS NOT NULL AS revoked
    INTO v_facts
    FROM (SELECT 1) AS always
    LEFT JOIN LATERAL (SELECT l.* FROM bench.ledger l ORDER BY l.entry DESC LIMIT 1) l ON true
    CROSS JOIN LATERAL (SELECT count(*) > 0 AS allowed, bool_and(m.vouches_for IS NOT NULL) AS vouching
                        FROM bench.scope_members m
                        WHERE m.scope = p_scope AND m.capability IN ('submitter', 'owner')
                          AND pg_get_userbyid(m.member::oid) = m.member_name
                          AND pg_has_role(session_user, m.member::oid, 'USAGE')) m
    LEFT JOIN bench.actions a ON a.action = p_action
    LEFT JOIN bench.intents i ON i.scope = p_scope AND i.intent_id = p_intent_id
    LEFT JOIN LATERAL (SELECT e.detail ->> 'reason' AS reason FROM bench.events e
                       WHERE e.scope = p_scope AND e.intent_id = p_intent_id AND e.kind = 'rejected'
                         AND e.request_digest = v_digest
                       ORDER BY e.event_id DESC LIMIT 1) n ON true
    LEFT JOIN LATERAL (SELECT k.version, k.shipped FROM bench.contracts k
                       WHERE k.provider = a.provider AND k.operation = a.operation AND k.valid_from <= clock_timestamp()
                       ORDER BY k.valid_from DESC, k.version DESC, k.shipped LIMIT 1) k ON true
    LEFT JOIN bench.waiting w ON w.scope = p_scope AND w.kind = 'intent' AND w.id = p_intent_id
    LEFT JOIN bench.approvals p ON p.scope = p_scope AND p.kind = 'intent' AND p.id = p_intent_id
              AND p.approval_id = coalesce(p_approval_id, p.approval_id)
    LEFT JOIN bench.revocations r ON r.scope = p_scope AND r.approval_id = p.approval_id
    ORDER BY p.request_digest = v_digest DESC NULLS LAST, r.approval_id IS NULL DESC, p.expires_at DESC
    LIMIT 1;

    v_gate := CASE
        WHEN NOT v_facts.allowed THEN 'scope_denied'
        WHEN v_facts.enabled IS NULL THEN 'action_unknown'
        WHEN NOT v_facts.enabled THEN 'action_disabled'
        WHEN NOT v_facts.destination_allowed THEN 'destination_not_allowed'
        WHEN v_facts.rejected IS NOT NULL THEN 'rejected'
        WHEN v_facts.approval_id IS NULL THEN 'approval_missing'
        WHEN v_facts.revoked THEN 'approval_revoked'
        WHEN clock_timestamp() >= v_facts.expires_at OR NOT v_facts.this_epoch THEN 'approval_expired'
        WHEN v_facts.approved_digest <> v_digest THEN 'content_changed'
        WHEN v_facts.approved_capability <> v_facts.capability THEN 'capability_not_granted'
        WHEN NOT v_facts.self_approval AND v_facts.approver = session_user THEN 'self_approval'
        WHEN v_facts.approvals_required > 1 THEN 'approvals_insufficient' END;
    IF v_facts.bound_digest IS NOT NULL OR v_gate IS NOT NULL OR (v_facts.vouching AND p_actor IS NULL) THEN
        RAISE EXCEPTION 'the benchmark has no such case: %', coalesce(v_gate, 'bound');
    END IF;

    v_receipt.idempotency_key := encode(substr(sha256(convert_to(v_facts.ledger_id || '/' || p_scope || '/' || p_intent_id, 'UTF8')),
                                               1, 16), 'hex')::uuid;
    INSERT INTO bench.intents (scope, intent_id, action, destination, payload, request_digest, approval_id, idempotency_key,
                               requester, role, "session_user", actor, contract_version, contract_shipped)
    VALUES (p_scope, p_intent_id, p_action, p_destination, p_payload, v_digest, v_facts.approval_id, v_receipt.idempotency_key,
            session_user, session_user, session_user, p_actor, v_facts.contract_version, v_facts.contract_shipped)
    ON CONFLICT (scope, intent_id) DO NOTHING
    RETURNING event_id, recorded_at INTO v_receipt.receipt_id, v_receipt.recorded_at;
    IF NOT FOUND THEN
        RAISE serialization_failure USING MESSAGE = 'another session was first';
    END IF;
    INSERT INTO bench.worklist (scope, intent_id, action, state, due_at, since)
    VALUES (p_scope, p_intent_id, p_action, 'prepared', v_receipt.recorded_at, v_receipt.recorded_at);
    IF v_facts.waits THEN
        DELETE FROM bench.waiting w WHERE w.scope = p_scope AND w.kind = 'intent' AND w.id = p_intent_id;
    END IF;
    v_receipt.status := 'created';
    v_receipt.state := 'prepared';
    v_receipt.next_step := 'send';
    v_receipt.scope := p_scope;
    v_receipt.intent_id := p_intent_id;
    v_receipt.approval_id := v_facts.approval_id;
    v_receipt.request_digest := encode(v_digest, 'hex');
    v_receipt.bound_digest := v_receipt.request_digest;
    RETURN v_receipt;
END
$$;

-- A batch: its items in a table.
CREATE UNLOGGED TABLE bench.items (intent_id text COLLATE "C", destination text COLLATE "C", payload jsonb);
CREATE TABLE bench.shared AS
SELECT bench.letter('0') - '{name,member}'::text[] AS payload;

-- The plain rows of a batch: tables like intents and worklist, one sha256 a row.
CREATE PROCEDURE bench.insert_batch(p_batch_id text) LANGUAGE sql AS $$
    WITH bound AS (
        INSERT INTO bench.intents (scope, intent_id, action, destination, payload, request_digest, batch_id, approval_id,
                                   idempotency_key, requester, role, "session_user")
        SELECT bench.scope(), t.intent_id, 'bench_letter', t.destination, s.payload || t.payload,
               sha256(convert_to(jsonb_build_object('v', 'request.v1', 'scope', bench.scope(), 'intent_id', t.intent_id,
                                                    'action', 'bench_letter', 'destination', t.destination,
                                                    'payload', s.payload || t.payload, 'candidate', NULL)::text, 'UTF8')),
               p_batch_id, p_batch_id, md5(t.intent_id)::uuid, 'bench_submitter', 'bench_submitter', 'bench_submitter'
        FROM bench.items t, bench.shared s
        RETURNING intent_id, recorded_at
    )
    INSERT INTO bench.worklist (scope, intent_id, action, state, due_at, since)
    SELECT bench.scope(), b.intent_id, 'bench_letter', 'prepared', b.recorded_at, b.recorded_at FROM bound b
$$;

-- Taking work: the gates of the batch, and SKIP LOCKED.
CREATE FUNCTION bench.claim(p_worker text, p_max bigint, OUT claim_id bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_now      timestamptz := clock_timestamp();
BEGIN
    claim_id := nextval('extaction.claim_id_seq');
    WITH due AS (
        SELECT w.scope, w.intent_id, i.request_digest, b.approval_id, least(v_now + a.call_timeout + interval '30 s', p.expires_at) AS lease_until
        FROM bench.worklist w
        JOIN bench.intents i ON i.scope = w.scope AND i.intent_id = w.intent_id
        JOIN bench.batches b ON b.scope = i.scope AND b.batch_id = i.batch_id
        JOIN bench.actions a ON a.action = w.action AND a.enabled
        JOIN bench.approvals p ON p.scope = b.scope AND p.kind = 'batch' AND p.id = b.batch_id AND p.request_digest = b.request_digest
             AND p.expires_at > v_now AND p.capability = coalesce(a.capability, a.action) AND p.approver <> i.requester
        WHERE w.state = 'prepared' AND w.due_at <= v_now AND w.claim_id IS NULL
          AND EXISTS (SELECT FROM bench.scope_members m WHERE m.scope = w.scope AND m.capability IN ('worker', 'owner')
                      AND pg_get_userbyid(m.member::oid) = m.member_name AND pg_has_role(session_user, m.member::oid, 'USAGE'))
          AND NOT EXISTS (SELECT FROM bench.revocations r WHERE r.scope = p.scope AND r.approval_id = p.approval_id)
          AND NOT EXISTS (SELECT FROM extaction.pauses z WHERE z.scope IN ('', w.scope) AND z.action IN ('', w.action))
        ORDER BY w.due_at LIMIT p_max FOR UPDATE OF w SKIP LOCKED
    ), taken AS (
        UPDATE bench.worklist w
        SET state = 'sending', attempt = w.attempt + 1, tries = w.tries + 1, due_at = d.lease_until, claim_id = claim.claim_id,
            claimed_by = session_user, worker = p_worker, claim_step = 'send', lease_until = d.lease_until, since = v_now,
            first_sent_at = coalesce(w.first_sent_at, v_now), quiet_from = greatest(w.quiet_from, d.lease_until)
        FROM due d WHERE w.scope = d.scope AND w.intent_id = d.intent_id
        RETURNING w.scope, w.intent_id, w.attempt, d.request_digest, d.approval_id, w.lease_until
    )
    INSERT INTO bench.events (scope, intent_id, kind, attempt, request_digest, approval_id, lease_until, role, "session_user", detail)
    SELECT t.scope, t.intent_id, 'sending', t.attempt, t.request_digest, t.approval_id, t.lease_until, session_user, session_user,
           jsonb_build_object('step', 'send', 'worker', p_worker)
    FROM taken t;
END
$$;

CREATE FUNCTION bench.claimed(p_claim_id bigint) RETURNS TABLE (scope text, intent_id text, attempt bigint, destination text,
    payload jsonb, payload_text text, idempotency_key uuid, lease_until timestamptz, request_digest text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    UPDATE bench.worklist w SET handed_at = clock_timestamp()
    FROM bench.intents i
    WHERE w.claim_id = p_claim_id AND w.claimed_by = session_user AND w.handed_at IS NULL AND w.lease_until > clock_timestamp()
      AND i.scope = w.scope AND i.intent_id = w.intent_id
      AND EXISTS (SELECT FROM bench.approvals p WHERE p.scope = i.scope AND p.kind = 'batch' AND p.id = i.batch_id AND p.expires_at > clock_timestamp()
                  AND NOT EXISTS (SELECT FROM bench.revocations r WHERE r.scope = p.scope AND r.approval_id = p.approval_id))
    RETURNING w.scope, w.intent_id, w.attempt, i.destination, i.payload, i.payload::text, i.idempotency_key, w.lease_until,
              encode(i.request_digest, 'hex')
$$;

CREATE FUNCTION bench.record_outcome(p_scope text, p_intent_id text, p_attempt bigint, p_outcome text, p_evidence jsonb)
RETURNS extaction.receipt LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_work    record;
    v_receipt extaction.receipt;
BEGIN
    IF NOT EXISTS (SELECT FROM bench.scope_members m WHERE m.scope = p_scope AND m.capability IN ('worker', 'owner')
                   AND pg_get_userbyid(m.member::oid) = m.member_name AND pg_has_role(session_user, m.member::oid, 'USAGE')) THEN
        RAISE insufficient_privilege USING MESSAGE = 'not a worker';
    END IF;
    SELECT w.state, w.attempt, i.request_digest, i.idempotency_key, i.approval_id, i.batch_id INTO v_work
    FROM bench.worklist w JOIN bench.intents i ON i.scope = w.scope AND i.intent_id = w.intent_id
    WHERE w.scope = p_scope AND w.intent_id = p_intent_id FOR UPDATE OF w;
    IF NOT FOUND OR v_work.attempt <> p_attempt OR v_work.state <> 'sending' OR p_outcome <> 'happened' OR p_evidence IS NULL THEN
        RAISE EXCEPTION 'the benchmark has no such case';
    END IF;
    v_receipt.detail := jsonb_build_object('outcome', p_outcome, 'evidence', p_evidence);
    INSERT INTO bench.events (scope, intent_id, kind, attempt, request_digest, role, "session_user", detail)
    VALUES (p_scope, p_intent_id, p_outcome, p_attempt, v_work.request_digest, session_user, session_user, v_receipt.detail)
    RETURNING event_id, recorded_at INTO v_receipt.receipt_id, v_receipt.recorded_at;
    DELETE FROM bench.worklist w WHERE w.scope = p_scope AND w.intent_id = p_intent_id;
    v_receipt.status := 'recorded';
    v_receipt.state := p_outcome;
    v_receipt.next_step := 'done';
    v_receipt.scope := p_scope;
    v_receipt.intent_id := p_intent_id;
    v_receipt.attempt := p_attempt;
    v_receipt.idempotency_key := v_work.idempotency_key;
    v_receipt.approval_id := v_work.approval_id;
    v_receipt.batch_id := v_work.batch_id;
    v_receipt.request_digest := encode(v_work.request_digest, 'hex');
    v_receipt.bound_digest := v_receipt.request_digest;
    RETURN v_receipt;
END
$$;

-- New items, and the list of them as submit_batch takes it.
CREATE PROCEDURE bench.new_items(batch_id text, many bigint) LANGUAGE sql AS $$
    TRUNCATE bench.items;
    INSERT INTO bench.items
    SELECT batch_id || '/' || n, bench.address(n::text), jsonb_build_object('name', 'Member ' || n, 'member', n)
    FROM generate_series(1, many) n
$$;
CREATE FUNCTION bench.item_list() RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_agg(jsonb_build_object('intent_id', t.intent_id, 'destination', t.destination, 'payload', t.payload)) FROM bench.items t
$$;

-- Approves a batch of these items, for either contestant.
CREATE PROCEDURE bench.approve_batch(batch_id text) LANGUAGE plpgsql AS $$
DECLARE
    v_approved extaction.approval_receipt;
BEGIN
    v_approved := extaction.approve_batch_in_advance(bench.scope(), batch_id, 'bench_letter', (SELECT payload FROM bench.shared), bench.item_list());
    INSERT INTO bench.approvals SELECT * FROM extaction.approvals a WHERE a.scope = bench.scope() AND a.approval_id = v_approved.approval_id;
    INSERT INTO bench.batches (scope, batch_id, action, request_digest, approval_id, total, requester, role, "session_user")
    SELECT bench.scope(), batch_id, 'bench_letter', decode(v_approved.request_digest, 'hex'), v_approved.approval_id, 0, 'bench_submitter',
           'bench_submitter', 'bench_submitter';
END
$$;

CREATE FUNCTION bench.memory(name text) RETURNS bigint LANGUAGE sql AS $$
    SELECT (regexp_match(pg_read_file('/proc/self/status'), name || ':\s+(\d+) kB'))[1]::bigint
$$;

GRANT SELECT ON bench.items, bench.shared, bench.plain TO bench_submitter;
