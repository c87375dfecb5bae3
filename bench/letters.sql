-- Letters: what submit, submit_batch and the workers are measured with.  Comes after setup.sql.

SET client_min_messages = warning;

-- An action of our own.  Its scope's role submits and works.
INSERT INTO extaction.actions (action, provider, operation, description, call_timeout)
VALUES ('bench_letter', 'bench-post', 'send', 'a letter of the benchmark', '10 seconds') ON CONFLICT (action) DO NOTHING;
SELECT extaction.grant_access(bench.scope(), 'bench_submitter', 'worker') \g /dev/null
GRANT bench_submitter TO CURRENT_USER;

CREATE FUNCTION bench.letter(n text) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT ('{"subject": "The club meets on Friday", "from": "club@example.org", "name": "Member ' || n || '", "member": ' || n
            || ', "text": "Dear member, we meet on Friday at eight, in the usual place. Please bring last year''s minutes, '
            || 'and tell us by Wednesday if you would like to eat with us. The board."}')::jsonb
$$;
CREATE FUNCTION bench.address(n text) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT 'member-' || n || '@example.org' $$;

-- Approves letters first..last, as approve_in_advance would have done, one by one.
CREATE FUNCTION bench.approve_letters(first bigint, last bigint) RETURNS void LANGUAGE sql AS $$
    WITH request AS (
        SELECT n, bench.letter(n::text) AS payload, extaction.digest(jsonb_build_object(
                   'v', 'extaction.request.v1', 'scope', bench.scope(), 'intent_id', 'letter-' || n, 'action', 'bench_letter',
                   'destination', bench.address(n::text), 'payload', bench.letter(n::text), 'candidate', NULL)) AS digest
        FROM generate_series(first, last) n
    ), kept AS (
        INSERT INTO extaction.requests (scope, request_digest, intent_id, action, destination, payload, role, "session_user", kind)
        SELECT bench.scope(), r.digest, 'letter-' || r.n, 'bench_letter', bench.address(r.n::text), r.payload,
               'bench_approver', 'bench_approver', 'intent'
        FROM request r
    )
    INSERT INTO extaction.approvals (scope, approval_id, kind, id, request_digest, capability, expires_at, epoch, approver,
                                     role, "session_user")
    SELECT bench.scope(), 'letter-' || r.n, 'intent', 'letter-' || r.n, r.digest, 'bench_letter',
           clock_timestamp() + interval '1 day', (SELECT max(epoch) FROM extaction.ledger), 'bench_approver',
           'bench_approver', 'bench_approver'
    FROM request r
$$;

-- What a worker has in its hands, between claimed and record_outcome.
CREATE UNLOGGED TABLE bench.sent (claim_id bigint, scope text COLLATE "C", intent_id text COLLATE "C", attempt bigint);
CREATE INDEX ON bench.sent (claim_id);
GRANT SELECT, INSERT, DELETE ON bench.sent TO bench_submitter;
