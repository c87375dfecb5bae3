-- The same protocol written by hand in PL/pgSQL: tables of the same shape (with their indexes and guards), the same rows
-- written, the same gates asked, under the same protection (SECURITY DEFINER, pinned search_path).  Written to be fast: one
-- look-up, the gates as one expression, no names or dates checked beyond their presence.  Its digest is that of jsonb's own
-- text, for want of a canonical form.

CREATE TABLE bench.ledger               (LIKE extaction.ledger INCLUDING ALL);
CREATE TABLE bench.scope_members        (LIKE extaction.scope_members INCLUDING ALL);
CREATE TABLE bench.actions              (LIKE extaction.actions INCLUDING ALL);
CREATE TABLE bench.contracts            (LIKE extaction.contracts INCLUDING ALL);
CREATE TABLE bench.sources              (LIKE extaction.sources INCLUDING ALL);
CREATE TABLE bench.candidates           (LIKE extaction.candidates INCLUDING ALL);
CREATE TABLE bench.requests             (LIKE extaction.requests INCLUDING ALL);
CREATE TABLE bench.approvals            (LIKE extaction.approvals INCLUDING ALL);
CREATE TABLE bench.revocations          (LIKE extaction.revocations INCLUDING ALL);
CREATE TABLE bench.intents              (LIKE extaction.intents INCLUDING ALL);
CREATE TABLE bench.events               (LIKE extaction.events INCLUDING ALL);
CREATE TABLE bench.waiting              (LIKE extaction.waiting INCLUDING ALL);
CREATE TABLE bench.fake_task_requests   (LIKE extaction.fake_task_requests INCLUDING ALL);
CREATE TABLE bench.fake_task_executions (LIKE extaction.fake_task_executions INCLUDING ALL);
CREATE TABLE bench.fake_tasks           (LIKE extaction.fake_tasks INCLUDING ALL);

-- The facts of this run's scope.
INSERT INTO bench.ledger SELECT * FROM extaction.ledger;
INSERT INTO bench.scope_members SELECT * FROM extaction.scope_members;
INSERT INTO bench.actions SELECT * FROM extaction.actions;
INSERT INTO bench.contracts SELECT * FROM extaction.contracts;
INSERT INTO bench.sources SELECT * FROM extaction.sources WHERE scope = bench.scope();
INSERT INTO bench.candidates SELECT * FROM extaction.candidates WHERE scope = bench.scope();

SELECT format('CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON bench.%I'
              ' FOR EACH STATEMENT EXECUTE FUNCTION extaction.refuse_change()', f)
FROM extaction.fact_tables() f WHERE to_regclass(format('bench.%I', f)) IS NOT NULL \gexec

CREATE FUNCTION bench.request_digest(scope text, intent_id text, payload jsonb) RETURNS bytea LANGUAGE sql STABLE AS $$
    SELECT sha256(convert_to(jsonb_build_object(
        'v', 'request.v1', 'scope', scope, 'intent_id', intent_id, 'action', 'create_fake_task',
        'destination', payload ->> 'provider', 'payload', payload, 'candidate', payload -> 'candidate_ref')::text, 'UTF8'))
$$;

-- Approvals for intents first..last.
CREATE FUNCTION bench.approve_by_hand(first bigint, last bigint) RETURNS void LANGUAGE sql AS $$
    WITH asked AS (
        SELECT n, bench.document(n::text) AS payload
        FROM generate_series(first, last) n
    ), request AS (
        SELECT a.n, a.payload, bench.request_digest(bench.scope(), 'order-' || a.n, a.payload) AS digest
        FROM asked a
    ), kept AS (
        INSERT INTO bench.requests (scope, request_digest, intent_id, action, destination, payload, candidate_id,
                                    candidate_digest, source_id, source_version, role, "session_user", kind)
        SELECT bench.scope(), r.digest, 'order-' || r.n, 'create_fake_task', 'fake-task-provider.v1', r.payload, 'candidate-1',
               decode(r.payload #>> '{candidate_ref,candidate_digest}', 'hex'), 'letter-31', 'version 1',
               'bench_approver', 'bench_approver', 'intent'
        FROM request r
    )
    INSERT INTO bench.approvals (scope, approval_id, kind, id, request_digest, capability, expires_at, epoch, approver,
                                 role, "session_user")
    SELECT bench.scope(), 'approval-' || r.n, 'intent', 'order-' || r.n, r.digest, 'create_fake_task',
           clock_timestamp() + interval '1 day', (SELECT max(epoch) FROM bench.ledger), 'bench_approver',
           'bench_approver', 'bench_approver'
    FROM request r
$$;

CREATE FUNCTION bench.submit_fake_task(p_scope text, p_request jsonb, p_approval_id text DEFAULT NULL, p_actor text DEFAULT NULL)
RETURNS extaction.receipt LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_intent_id text  := p_request ->> 'intent_id';
    v_ref       jsonb := p_request -> 'candidate_ref';
    v_task      jsonb := p_request -> 'task';
    v_digest    bytea;
    v_key       uuid;
    v_facts     record;
    v_gate      text;
    v_receipt   extaction.receipt;
BEGIN
    IF (p_request - '{schema_version,fixture_kind,request_id,intent_id,operation,provider,candidate_ref,task}'::text[] = '{}'
        AND v_ref - '{candidate_id,candidate_digest,source_id,source_version}'::text[] = '{}'
        AND v_task - '{title,assignee_person_ref,due_at}'::text[] = '{}'
        AND p_request ->> 'schema_version' = 'task-request.v1'
        AND p_request ?& '{fixture_kind,request_id,intent_id,operation,provider,candidate_ref,task}'::text[]
        AND v_ref ?& '{candidate_id,candidate_digest,source_id,source_version}'::text[]
        AND v_task ?& '{title,assignee_person_ref,due_at}'::text[]
        AND octet_length(v_intent_id) BETWEEN 1 AND 255
        AND length(v_ref ->> 'candidate_digest') = 64) IS NOT TRUE THEN
        RAISE invalid_parameter_value USING MESSAGE = 'request is not a task-request.v1 document';
    END IF;
    v_digest := sha256(convert_to(jsonb_build_object(
        'v', 'request.v1', 'scope', p_scope, 'intent_id', v_intent_id, 'action', 'create_fake_task',
        'destination', p_request ->> 'provider', 'payload', p_request, 'candidate', v_ref)::text, 'UTF8'));

    PERFORM pg_advisory_xact_lock(hashtextextended(p_scope || '/' || v_intent_id, 0));

    SELECT l.ledger_id, l.window_until, m.vouching, m.allowed,
           a.enabled, coalesce(a.capability, a.action) AS capability, a.approvals_required, a.self_approval,
           a.destination_pattern IS NULL OR p_request ->> 'provider' ~ a.destination_pattern AS destination_allowed,
           c.revision, c.digest AS candidate_digest, c.source_id, c.source_version, s.source_version AS current_version,
           i.request_digest AS bound_digest, i.idempotency_key, o.detail ->> 'provider_ref' AS provider_ref,
           n.reason AS rejected, k.version AS contract_version, k.shipped AS contract_shipped, w.id IS NOT NULL AS waits,
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
    LEFT JOIN bench.actions a ON a.action = 'create_fake_task'
    LEFT JOIN LATERAL (SELECT c.* FROM bench.candidates c
                       WHERE c.scope = p_scope AND c.candidate_id = v_ref ->> 'candidate_id'
                       ORDER BY c.revision DESC LIMIT 1) c ON true
    LEFT JOIN LATERAL (SELECT s.* FROM bench.sources s
                       WHERE s.scope = p_scope AND s.source_id = v_ref ->> 'source_id'
                       ORDER BY s.event_id DESC LIMIT 1) s ON true
    LEFT JOIN bench.intents i ON i.scope = p_scope AND i.intent_id = v_intent_id
    LEFT JOIN LATERAL (SELECT e.detail FROM bench.events e
                       WHERE e.scope = i.scope AND e.intent_id = i.intent_id AND e.kind = 'happened'
                       ORDER BY e.event_id DESC LIMIT 1) o ON true
    LEFT JOIN LATERAL (SELECT e.detail ->> 'reason' AS reason FROM bench.events e
                       WHERE e.scope = p_scope AND e.intent_id = v_intent_id AND e.kind = 'rejected'
                         AND e.request_digest = v_digest
                       ORDER BY e.event_id DESC LIMIT 1) n ON true
    LEFT JOIN LATERAL (SELECT k.version, k.shipped FROM bench.contracts k
                       WHERE k.provider = a.provider AND k.operation = a.operation AND k.valid_from <= clock_timestamp()
                       ORDER BY k.valid_from DESC, k.version DESC, k.shipped LIMIT 1) k ON true
    LEFT JOIN bench.waiting w ON w.scope = p_scope AND w.kind = 'intent' AND w.id = v_intent_id
    LEFT JOIN bench.approvals p ON p.scope = p_scope AND p.kind = 'intent' AND p.id = v_intent_id
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
        WHEN v_facts.candidate_digest IS DISTINCT FROM decode(v_ref ->> 'candidate_digest', 'hex') THEN 'candidate_changed'
        WHEN v_facts.source_id IS DISTINCT FROM v_ref ->> 'source_id'
          OR v_facts.source_version IS DISTINCT FROM v_ref ->> 'source_version'
          OR v_facts.current_version <> v_ref ->> 'source_version' THEN 'source_changed'
        WHEN v_facts.approved_capability <> v_facts.capability THEN 'capability_not_granted'
        WHEN NOT v_facts.self_approval AND v_facts.approver = session_user THEN 'self_approval'
        WHEN v_facts.approvals_required > 1 THEN 'approvals_insufficient' END;
    IF v_facts.vouching AND p_actor IS NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = 'the role must name an actor';
    END IF;

    v_receipt.scope := p_scope;
    v_receipt.intent_id := v_intent_id;
    v_receipt.request_digest := encode(v_digest, 'hex');
    v_receipt.approval_id := v_facts.approval_id;
    v_receipt.gate := v_gate;
    IF v_gate IS NOT NULL THEN
        v_receipt.status := 'blocked';
        INSERT INTO bench.requests (scope, request_digest, intent_id, action, destination, payload, candidate_id,
                                    candidate_digest, source_id, source_version, role, "session_user", actor, kind)
        VALUES (p_scope, v_digest, v_intent_id, 'create_fake_task', p_request ->> 'provider', p_request,
                v_ref ->> 'candidate_id', decode(v_ref ->> 'candidate_digest', 'hex'), v_ref ->> 'source_id',
                v_ref ->> 'source_version', session_user, session_user, p_actor, 'intent')
        ON CONFLICT (scope, request_digest) DO NOTHING;
        INSERT INTO bench.events (scope, intent_id, kind, request_digest, approval_id, role, "session_user", actor, detail)
        VALUES (p_scope, v_intent_id, 'blocked', v_digest, v_facts.approval_id, session_user, session_user, p_actor,
                jsonb_build_object('gate', v_gate));
        RETURN v_receipt;
    END IF;

    IF v_facts.bound_digest IS NULL THEN
        v_key := encode(substr(sha256(convert_to(v_facts.ledger_id || '/' || p_scope || '/' || v_intent_id, 'UTF8')), 1, 16),
                        'hex')::uuid;
        INSERT INTO bench.intents (scope, intent_id, action, destination, payload, candidate_id, candidate_revision,
                                   request_digest, approval_id, idempotency_key, requester, role, "session_user", actor,
                                   contract_version, contract_shipped)
        VALUES (p_scope, v_intent_id, 'create_fake_task', p_request ->> 'provider', p_request, v_ref ->> 'candidate_id',
                v_facts.revision, v_digest, v_facts.approval_id, v_key, session_user, session_user, session_user, p_actor,
                v_facts.contract_version, v_facts.contract_shipped)
        ON CONFLICT (scope, intent_id) DO NOTHING;
        IF NOT FOUND THEN
            RAISE serialization_failure USING MESSAGE = 'another session was first';
        END IF;

        INSERT INTO bench.fake_task_requests (scope, intent_id, request_digest, answer)
        VALUES (p_scope, v_intent_id, v_digest, 'created');
        v_receipt.provider_ref := nextval('extaction.fake_task_seq');
        v_receipt.provider_ref := 'fake-task-' || lpad(v_receipt.provider_ref, greatest(4, length(v_receipt.provider_ref)), '0');
        INSERT INTO bench.fake_task_executions (scope, intent_id, idempotency_key, task_id)
        VALUES (p_scope, v_intent_id, v_key, v_receipt.provider_ref);
        INSERT INTO bench.fake_tasks (scope, task_id, intent_id, title, assignee_person_ref, due_at)
        VALUES (p_scope, v_receipt.provider_ref, v_intent_id, v_task ->> 'title', v_task ->> 'assignee_person_ref',
                v_task ->> 'due_at');

        v_receipt.status := 'created';
        v_receipt.state := 'happened';
        v_receipt.next_step := 'done';
        v_receipt.attempt := 1;
        v_receipt.idempotency_key := v_key;
        v_receipt.bound_digest := v_receipt.request_digest;
        v_receipt.detail := jsonb_build_object('provider_ref', v_receipt.provider_ref);
        INSERT INTO bench.events (scope, intent_id, kind, attempt, request_digest, approval_id, role, "session_user", actor, detail)
        VALUES (p_scope, v_intent_id, 'happened', 1, v_digest, v_facts.approval_id, session_user, session_user, p_actor,
                v_receipt.detail)
        RETURNING event_id, recorded_at INTO v_receipt.receipt_id, v_receipt.recorded_at;
        IF v_facts.waits THEN
            DELETE FROM bench.waiting w WHERE w.scope = p_scope AND w.kind = 'intent' AND w.id = v_intent_id;
        END IF;
        RETURN v_receipt;
    END IF;

    INSERT INTO bench.fake_task_requests (scope, intent_id, request_digest, answer)
    VALUES (p_scope, v_intent_id, v_digest, CASE WHEN v_facts.bound_digest = v_digest THEN 'replayed' ELSE 'conflict' END)
    RETURNING answer INTO v_receipt.status;
    v_receipt.state := 'happened';
    IF v_receipt.status = 'replayed' THEN
        v_receipt.next_step := 'done';
        v_receipt.idempotency_key := v_facts.idempotency_key;
        v_receipt.provider_ref := v_facts.provider_ref;
    END IF;
    INSERT INTO bench.events (scope, intent_id, kind, request_digest, approval_id, role, "session_user", actor)
    VALUES (p_scope, v_intent_id, v_receipt.status, v_digest, v_facts.approval_id, session_user, session_user, p_actor)
    RETURNING event_id, recorded_at INTO v_receipt.receipt_id, v_receipt.recorded_at;
    RETURN v_receipt;
END
$$;
GRANT EXECUTE ON FUNCTION bench.submit_fake_task(text, jsonb, text, text) TO bench_submitter;
