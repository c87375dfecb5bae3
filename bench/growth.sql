-- A history: intents that were sent and have happened, in batches of 50,000, with their events.  Only inserts, so the guards
-- have nothing against it.  Digests are not those of the requests: verify() would say so.

CREATE EXTENSION IF NOT EXISTS pg_stat_statements;

CREATE PROCEDURE bench.add_history(first bigint, last bigint) LANGUAGE sql AS $$
    WITH batch AS (
        INSERT INTO extaction.batches (scope, batch_id, recorded_at, action, request_digest, approval_id, total, requester, role, "session_user")
        SELECT bench.scope(), 'history-' || b, now() - interval '30 days', 'bench_letter', sha256(('batch' || b)::bytea), 'history-' || b,
               50000, 'bench_submitter', 'bench_submitter', 'bench_submitter'
        FROM generate_series(first / 50000, last / 50000) b ON CONFLICT DO NOTHING
    ), intent AS (
        INSERT INTO extaction.intents (scope, intent_id, recorded_at, action, destination, payload, request_digest, batch_id, approval_id,
                                       idempotency_key, requester, role, "session_user")
        SELECT bench.scope(), format('history-%s/%s', n / 50000, n), now() - interval '30 days', 'bench_letter', bench.address(n::text),
               jsonb_build_object('subject', 'The club meets on Friday', 'name', 'Member ' || n), sha256(n::text::bytea),
               'history-' || n / 50000, 'history-' || n / 50000, md5(n::text)::uuid,
               'bench_submitter', 'bench_submitter', 'bench_submitter'
        FROM generate_series(first, last) n
    )
    INSERT INTO extaction.events (scope, intent_id, recorded_at, kind, attempt, request_digest, batch_id, role, "session_user", detail)
    SELECT bench.scope(), format('history-%s/%s', n / 50000, n), now() - interval '30 days', kind, 1, sha256(n::text::bytea),
           'history-' || n / 50000, 'bench_submitter', 'bench_submitter', detail::jsonb
    FROM generate_series(first, last) n
    CROSS JOIN (VALUES ('sending', '{"step": "send", "worker": "w"}'),
                       ('happened', '{"outcome": "happened", "evidence": {"code": "250"}}')) e (kind, detail)
$$;

-- Work that is done: it comes onto the worklist ahead of all other, and leaves it.
CREATE PROCEDURE bench.add_work_done(many bigint) LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO extaction.worklist (scope, intent_id, state, action, due_at)
    SELECT bench.scope(), 'done-' || n, 'prepared', 'bench_letter', now() - interval '1 day' + n * interval '1 ms'
    FROM generate_series(1, many) n;
    COMMIT;
    UPDATE extaction.worklist SET state = 'sending', due_at = now() - interval '1 hour', lease_until = now() + interval '1 hour'
    WHERE intent_id LIKE 'done-%';
    COMMIT;
    DELETE FROM extaction.worklist WHERE intent_id LIKE 'done-%';
END
$$;

-- Mean milliseconds and blocks of the statements measured last.
CREATE FUNCTION bench.measured() RETURNS TABLE (what text, ms float8, blocks float8, first_ms float8) LANGUAGE sql AS $$
    SELECT substring(s.query FROM '/\* (.*) \*/'), (s.total_exec_time - s.max_exec_time) / greatest(s.calls - 1, 1),
           (s.shared_blks_hit + s.shared_blks_read)::float8 / s.calls, s.max_exec_time
    FROM public.pg_stat_statements s WHERE s.toplevel AND s.query LIKE '%/* % */%'
$$;
