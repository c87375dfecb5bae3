--
-- Views: a role sees only the scopes it is a member of.  None may be a bare UNION ALL: PostgreSQL takes such a view apart, and then
-- security_barrier holds nothing back.
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

CREATE VIEW extaction.intent_status WITH (security_barrier) AS
    SELECT i.scope, i.intent_id, i.batch_id, i.action, nullif(i.destination, '') AS destination,
           CASE WHEN w.state = 'sending' AND w.lease_until <= clock_timestamp() THEN 'uncertain'
                WHEN w.state IS NOT NULL THEN w.state
                WHEN o.kind = 'cancelled' THEN 'not_happened'
                ELSE coalesce(o.kind, 'uncertain') END AS state,
           coalesce(w.attempt, o.attempt) AS attempt, w.due_at, w.worker, w.lease_until, w.first_sent_at, w.last_code,
           w.gate, w.needs, o.detail ->> 'provider_ref' AS provider_ref, i.approval_id, i.requester, i.compensates,
           i.idempotency_key, encode(i.request_digest, 'hex') AS request_digest, i.recorded_at,
           coalesce(w.since, o.recorded_at, i.recorded_at) AS since
    FROM extaction.intents i
    LEFT JOIN extaction.worklist w ON w.scope = i.scope AND w.intent_id = i.intent_id
    LEFT JOIN LATERAL (SELECT e.kind, e.attempt, e.detail, e.recorded_at FROM extaction.events e
                       WHERE e.scope = i.scope AND e.intent_id = i.intent_id AND e.event_id > i.event_id
                         AND e.kind IN ('happened', 'not_happened', 'uncertain', 'cancelled')
                       ORDER BY e.event_id DESC LIMIT 1) o ON true
    WHERE i.scope IN (SELECT v.scope FROM extaction.visible_scopes v);
COMMENT ON VIEW extaction.intent_status IS
'Where every bound intent stands. due_at: when something is next to be done; infinity where only a human or an approval can go on.';

CREATE VIEW extaction.pending_approvals WITH (security_barrier) AS
    SELECT w.scope, encode(w.request_digest, 'hex') AS request_digest,
           CASE w.kind WHEN 'intent' THEN w.id END AS intent_id, CASE w.kind WHEN 'batch' THEN w.id END AS batch_id,
           r.action, r.destination, CASE r.kind WHEN 'batch' THEN r.payload -> 'payload' ELSE r.payload END AS payload, r.candidate_id, encode(r.candidate_digest, 'hex') AS candidate_digest,
           r.source_id, r.source_version, w.requester AS requested_by, w.since AS waiting_since, w.gate, w.needs,
           cardinality(p.approved_by)::bigint AS approvals, coalesce(a.approvals_required, 1) AS required, p.approved_by,
           coalesce(a.reversible, false) AS reversible,
           CASE WHEN r.source_id IS NOT NULL THEN s.source_version IS NULL OR s.source_version = r.source_version END
               AS source_is_current,
           (SELECT max(e.recorded_at) FROM extaction.events e
            WHERE e.scope = w.scope AND e.intent_id = CASE w.kind WHEN 'intent' THEN w.id ELSE '' END AND e.kind = 'superseded'
              AND (w.kind = 'intent' OR e.batch_id = w.id)) AS changed_since,
           (SELECT count(*) FROM extaction.intents i
            WHERE i.scope = r.scope AND i.destination = r.destination AND i.action = r.action AND i.payload = r.payload)
               AS same_content_before,
           (SELECT count(*) FROM extaction.events e
            WHERE e.scope = w.scope AND e.intent_id = CASE w.kind WHEN 'intent' THEN w.id ELSE '' END AND e.kind = 'rejected'
              AND (w.kind = 'intent' OR e.batch_id = w.id)) AS rejected_before,
           CASE r.kind WHEN 'batch' THEN jsonb_array_length(r.payload -> 'items')::bigint END AS batch_items,
           CASE r.kind WHEN 'batch' THEN jsonb_path_query_array(r.payload, '$.items[0 to 2]') END AS sample
    FROM (SELECT q.scope, q.kind, q.id, q.request_digest, q.gate, q.needs, q.requester, q.since FROM extaction.waiting q
          UNION ALL
          -- what was prepared, and stopped at the door
          SELECT k.scope, CASE WHEN b.batch_id IS NULL THEN 'intent' ELSE 'batch' END, coalesce(b.batch_id, i.intent_id),
                 coalesce(b.request_digest, i.request_digest), min(k.gate), min(k.needs), i.requester, min(k.since)
          FROM extaction.worklist k
          JOIN extaction.intents i ON i.scope = k.scope AND i.intent_id = k.intent_id
          LEFT JOIN extaction.batches b ON b.scope = i.scope AND b.batch_id = i.batch_id
          WHERE k.state = 'blocked'
          GROUP BY 1, 2, 3, 4, 7) w
    JOIN extaction.requests r USING (scope, request_digest)
    JOIN extaction.gates g USING (gate)
    LEFT JOIN extaction.actions a ON a.action = r.action
    LEFT JOIN LATERAL (SELECT s.source_version FROM extaction.sources s
                       WHERE s.scope = r.scope AND s.source_id = r.source_id
                       ORDER BY s.event_id DESC LIMIT 1) s ON true
    CROSS JOIN LATERAL (SELECT coalesce(array_agg(DISTINCT p.approver), '{}') AS approved_by
                        FROM extaction.approvals p
                        WHERE p.scope = w.scope AND p.kind = w.kind AND p.id = w.id AND p.request_digest = w.request_digest
                          AND p.expires_at > clock_timestamp() AND p.capability = coalesce(a.capability, a.action)
                          AND (a.self_approval OR p.approver <> w.requester)
                          AND p.epoch = (SELECT l.epoch FROM extaction.ledger l ORDER BY l.entry DESC LIMIT 1)
                          AND NOT EXISTS (SELECT FROM extaction.revocations v
                                          WHERE v.scope = p.scope AND v.approval_id = p.approval_id)) p
    CROSS JOIN LATERAL (SELECT ARRAY[current_user::text,
                                     current_user || ':' || current_setting('extaction.actor', true)] AS names) me
    WHERE w.scope IN (SELECT v.scope FROM extaction.visible_scopes v)
      AND g.who_can_fix = 'approver'
      AND (coalesce(a.self_approval, false) OR w.requester <> ALL (me.names))
      AND NOT p.approved_by && me.names
    ORDER BY reversible, w.since;
COMMENT ON VIEW extaction.pending_approvals IS
'What waits for the current role''s approval, dangerous first: everything that the digest covers, and what to know before saying yes. Without what the role itself asked for (unless the action allows that) or has already approved.';

-- next_step is the dear part, so it comes after the sort: LIMIT 100 asks for it a hundred times.
CREATE VIEW extaction.todo WITH (security_barrier) AS
    SELECT t.scope, t.intent_id, t.batch_id, t.state,
           coalesce(t.for_whom, CASE (n.next).step WHEN 'human' THEN 'approver' ELSE 'worker' END) AS for_whom,
           t.action, t.destination, coalesce(t.gate, (n.next).gate) AS gate, coalesce(t.needs, (n.next).needs, (n.next).reason) AS needs,
           coalesce(t.next_step, (n.next).step) AS next_step, t.since, t.attempt, t.request_digest, t.batch_items, t.sample
    FROM (SELECT u.state <> 'uncertain' AS later, u.* FROM (
          SELECT w.scope, w.intent_id, i.batch_id,
                 CASE w.state WHEN 'blocked' THEN 'blocked' ELSE 'uncertain' END AS state, g.who_can_fix AS for_whom,
                 i.action, nullif(i.destination, '') AS destination, w.gate, w.needs,
                 CASE WHEN w.state <> 'blocked' THEN NULL WHEN g.who_can_fix = 'approver' THEN 'approve' ELSE 'human' END AS next_step,
                 w.since, w.attempt,
                 encode(i.request_digest, 'hex') AS request_digest, NULL::bigint AS batch_items, NULL::jsonb AS sample
          FROM extaction.worklist w
          JOIN extaction.intents i ON i.scope = w.scope AND i.intent_id = w.intent_id
          LEFT JOIN extaction.gates g ON g.gate = w.gate
          WHERE w.scope IN (SELECT v.scope FROM extaction.visible_scopes v)
            AND (w.state IN ('uncertain', 'blocked') OR (w.state = 'sending' AND w.lease_until <= clock_timestamp()))
          UNION ALL
          SELECT w.scope, CASE w.kind WHEN 'intent' THEN w.id END, CASE w.kind WHEN 'batch' THEN w.id END,
                 'awaiting_approval', g.who_can_fix, r.action, r.destination, w.gate, w.needs,
                 CASE g.who_can_fix WHEN 'approver' THEN 'approve' ELSE 'human' END, w.since, NULL,
                 encode(w.request_digest, 'hex'),
                 CASE r.kind WHEN 'batch' THEN jsonb_array_length(r.payload -> 'items') END,
                 CASE r.kind WHEN 'batch' THEN jsonb_path_query_array(r.payload, '$.items[0 to 2]') END
          FROM extaction.waiting w
          JOIN extaction.requests r USING (scope, request_digest)
          JOIN extaction.gates g USING (gate)
          WHERE w.scope IN (SELECT v.scope FROM extaction.visible_scopes v)
          ) u ORDER BY later, u.since) t
    CROSS JOIN LATERAL (SELECT CASE WHEN NOT t.later THEN extaction.next_step(t.scope, t.intent_id) END AS next OFFSET 0) n
    ORDER BY t.later, t.since;
COMMENT ON VIEW extaction.todo IS
'Everything that waits for someone, uncertain first: where it stands, for whom it waits, which gate stops it, what it needs. A whole list that waits is one row, with the number of its items, the first three and its digest.';

CREATE VIEW extaction.batch_status WITH (security_barrier) AS
    SELECT b.scope, b.batch_id, b.action, encode(b.request_digest, 'hex') AS request_digest, b.approval_id, b.requester,
           b.recorded_at, b.total, s.*
    FROM extaction.batches b
    CROSS JOIN LATERAL (SELECT count(*) FILTER (WHERE i.state = 'prepared') AS prepared,
                               count(*) FILTER (WHERE i.state = 'sending') AS sending,
                               count(*) FILTER (WHERE i.state = 'uncertain') AS uncertain,
                               count(*) FILTER (WHERE i.state = 'blocked') AS blocked,
                               count(*) FILTER (WHERE i.state = 'happened') AS happened,
                               count(*) FILTER (WHERE i.state = 'not_happened') AS not_happened,
                               b.total - count(*) AS elsewhere,
                               (SELECT min(e.recorded_at) FROM extaction.events e
                                JOIN extaction.intents x USING (scope, intent_id)
                                WHERE x.scope = b.scope AND x.batch_id = b.batch_id AND e.kind = 'sending') AS first_sent_at,
                               (SELECT max(e.recorded_at) FROM extaction.events e
                                JOIN extaction.intents x USING (scope, intent_id)
                                WHERE x.scope = b.scope AND x.batch_id = b.batch_id AND e.kind = 'sending') AS last_sent_at,
                               min(i.since) FILTER (WHERE i.state = 'uncertain') AS oldest_uncertain
                        FROM extaction.intent_status i WHERE i.scope = b.scope AND i.batch_id = b.batch_id) s
    WHERE b.scope IN (SELECT v.scope FROM extaction.visible_scopes v);
COMMENT ON VIEW extaction.batch_status IS
'Every batch: how many of its items stand where, first and last send, oldest uncertain. elsewhere: items whose intent was bound before, by another batch or a submit of its own.';

CREATE VIEW extaction.batch_items WITH (security_barrier) AS
    SELECT b.scope, b.batch_id, t.position - 1 AS position, t.item ->> 'intent_id' AS intent_id, t.item ->> 'destination' AS destination,
           CASE WHEN i.batch_id = b.batch_id THEN 'created'
                WHEN i.request_digest = t.item ->> 'digest' THEN 'replayed'
                WHEN t.item ? 'digest' THEN 'conflict'
                WHEN i.request_digest = encode(extaction.digest(jsonb_build_object(
                    'v', 'extaction.request.v1', 'scope', b.scope, 'intent_id', t.item -> 'intent_id', 'action', b.action,
                    'destination', t.item -> 'destination', 'candidate', NULL,
                    'payload', l.payload || coalesce(t.item -> 'payload', '{}'))), 'hex') THEN 'replayed'
                ELSE 'conflict' END AS status,
           i.state, i.attempt, i.provider_ref, i.last_code, i.since
    FROM extaction.batches b
    JOIN extaction.requests r ON r.scope = b.scope AND r.request_digest = b.request_digest
    CROSS JOIN LATERAL (SELECT r.payload -> 'payload' AS payload, r.payload -> 'items' AS items OFFSET 0) l
    CROSS JOIN LATERAL jsonb_array_elements(l.items) WITH ORDINALITY t (item, position)
    LEFT JOIN extaction.intent_status i ON i.scope = b.scope AND i.intent_id = t.item ->> 'intent_id'
    WHERE b.scope IN (SELECT v.scope FROM extaction.visible_scopes v);
COMMENT ON VIEW extaction.batch_items IS
'Every item of every batch, in its order (position counts from 0, as in items[0]): created by it, replayed (bound before, to the same content) or in conflict (bound before, to another).';

CREATE VIEW extaction.approval_status WITH (security_barrier) AS
    SELECT p.scope, p.approval_id, p.kind, p.id, encode(p.request_digest, 'hex') AS request_digest, p.capability, p.approver, p.note,
           p.recorded_at, p.expires_at, r.recorded_at AS revoked_at, r.reason AS revoked_because, r.revoked_by,
           CASE WHEN r.approval_id IS NOT NULL THEN 'revoked'
                WHEN p.epoch <> (SELECT l.epoch FROM extaction.ledger l ORDER BY l.entry DESC LIMIT 1) THEN 'before_restore'
                WHEN p.expires_at <= clock_timestamp() THEN 'expired' ELSE 'valid' END AS status
    FROM extaction.approvals p
    LEFT JOIN extaction.revocations r ON r.scope = p.scope AND r.approval_id = p.approval_id
    WHERE p.scope IN (SELECT v.scope FROM extaction.visible_scopes v);
COMMENT ON VIEW extaction.approval_status IS 'Every approval: who, for what, until when, and whether it holds now (valid, expired, revoked, before_restore).';

CREATE VIEW extaction.grey_zone WITH (security_barrier) AS
    SELECT t.*
    FROM (SELECT u.scope, u.intent_id, u.attempt, u.since, n.recorded_at AS until,
                 coalesce(n.recorded_at, clock_timestamp()) - u.since AS duration, n.kind AS ended_by
          FROM (SELECT e.scope, e.intent_id, e.attempt, e.event_id, e.recorded_at AS since FROM extaction.events e
                WHERE e.kind = 'uncertain'
                  AND e.scope IN (SELECT v.scope FROM extaction.visible_scopes v)
                  AND 'uncertain' IS DISTINCT FROM (
                      SELECT p.kind FROM extaction.events p
                      WHERE p.scope = e.scope AND p.intent_id = e.intent_id AND p.event_id < e.event_id
                        AND p.kind IN ('uncertain', 'happened', 'not_happened', 'abandoned', 'sending')
                      ORDER BY p.event_id DESC LIMIT 1)) u
          LEFT JOIN LATERAL (SELECT e.kind, e.recorded_at FROM extaction.events e
                             WHERE e.scope = u.scope AND e.intent_id = u.intent_id AND e.event_id > u.event_id
                               AND e.kind IN ('happened', 'not_happened', 'abandoned', 'sending')
                             ORDER BY e.event_id LIMIT 1) n ON true
          UNION ALL
          SELECT w.scope, w.intent_id, w.attempt, w.lease_until, NULL, clock_timestamp() - w.lease_until, NULL
          FROM extaction.worklist w
          WHERE w.state = 'sending' AND w.lease_until <= clock_timestamp()
            AND w.scope IN (SELECT v.scope FROM extaction.visible_scopes v)) t;
COMMENT ON VIEW extaction.grey_zone IS
'How long each intent stood, or stands, in uncertain, and what ended it: happened, not_happened, abandoned, or sending (a resend). until and ended_by are NULL while it lasts.';

CREATE VIEW extaction.metrics WITH (security_barrier) AS
    WITH visible AS MATERIALIZED (SELECT v.scope FROM extaction.visible_scopes v),
    work AS MATERIALIZED (
        SELECT CASE WHEN w.state = 'sending' AND w.lease_until <= clock_timestamp() THEN 'uncertain' ELSE w.state END AS state,
               w.state = 'sending' AND w.lease_until <= clock_timestamp() AS lease_ended, w.due_at, w.since
        FROM extaction.worklist w WHERE w.scope IN (SELECT scope FROM visible))
    SELECT 'open_' || s.state AS metric, count(w.state) AS value
    FROM (VALUES ('prepared'), ('sending'), ('uncertain'), ('blocked')) s (state) LEFT JOIN work w USING (state)
    GROUP BY s.state
    UNION ALL
    SELECT 'awaiting_approval', count(*) FROM extaction.waiting q WHERE q.scope IN (SELECT scope FROM visible)
    UNION ALL
    SELECT 'leases_ended', count(*) FROM work WHERE lease_ended
    UNION ALL
    SELECT 'oldest_due_seconds', coalesce(extract(epoch FROM clock_timestamp() - min(due_at))::bigint, 0)
    FROM work WHERE state = 'prepared' AND due_at <= clock_timestamp()
    UNION ALL
    SELECT 'oldest_uncertain_seconds', coalesce(extract(epoch FROM clock_timestamp() - min(since))::bigint, 0)
    FROM work WHERE state = 'uncertain'
    UNION ALL
    SELECT 'pauses', count(*) FROM extaction.pauses p WHERE p.scope = '' OR p.scope IN (SELECT scope FROM visible)
    UNION ALL
    SELECT 'ledger_epoch', l.epoch FROM (SELECT l.epoch FROM extaction.ledger l ORDER BY l.entry DESC LIMIT 1) l
    UNION ALL
    SELECT 'timeline_changed', (l.timeline <> (SELECT c.timeline_id FROM pg_control_checkpoint() c))::int
    FROM (SELECT l.timeline FROM extaction.ledger l ORDER BY l.entry DESC LIMIT 1) l;
COMMENT ON VIEW extaction.metrics IS
'Numbers to watch, in the caller''s scopes; costs the open work, not the history. timeline_changed is 1 after a failover: see adopt.';

CREATE FUNCTION extaction.explain(scope text, intent_id text) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
    SELECT jsonb_build_object(
        'receipt', to_jsonb(f),
        'next_step', (SELECT to_jsonb(n) FROM extaction.next_step($1, $2) n),
        'gates', (SELECT jsonb_agg(to_jsonb(g)) FROM extaction.check_gates($1, $2) g),
        'timeline', (SELECT jsonb_agg(to_jsonb(t) ORDER BY t.event_id) FROM extaction.timeline t
                     WHERE t.scope = $1 AND t.intent_id = $2))
    FROM extaction.find($1, $2) f WHERE f.status IS NOT NULL
$$;
REVOKE ALL ON FUNCTION extaction.explain(text, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.explain(text, text) IS
'All that the ledger knows of an intent, for a human: receipt, gates, next step, timeline; NULL if the scope has no such intent. 42501 if the caller is no member. Any member.';

CREATE FUNCTION extaction.sent_to(scope text, destination text, since timestamptz DEFAULT NULL,
                                  OUT intent_id text, OUT action text, OUT state text, OUT attempt bigint,
                                  OUT provider_ref text, OUT recorded_at timestamptz, OUT request_digest text)
RETURNS SETOF record
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
    SELECT s.intent_id, s.action, s.state, s.attempt, s.provider_ref, s.recorded_at, s.request_digest
    FROM extaction.intent_status s
    WHERE s.scope = $1 AND s.destination = $2 AND s.state IN ('sending', 'uncertain', 'happened')
      AND ($3 IS NULL OR s.recorded_at >= $3)
    ORDER BY s.recorded_at
$$;
REVOKE ALL ON FUNCTION extaction.sent_to(text, text, timestamptz) FROM PUBLIC;
COMMENT ON FUNCTION extaction.sent_to(text, text, timestamptz) IS
'What has gone, or may have gone, to a destination: happened, uncertain, or being sent just now; prepared since the given time. Nothing in scopes that the caller is no member of. Any member.';

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
    WITH visible AS MATERIALIZED (SELECT v.scope FROM extaction.visible_scopes v),
    redacted AS MATERIALIZED (SELECT e.scope, e.intent_id, e.request_digest, e.detail FROM extaction.events e
                              WHERE e.kind = 'redacted' AND e.scope IN (SELECT scope FROM visible))
    SELECT i.scope, i.intent_id, 'request_digest'::text AS what,
           'the stored request does not have the digest that the intent is bound to'::text AS detail
    FROM extaction.intents i
    LEFT JOIN extaction.candidates c ON (c.scope, c.candidate_id, c.revision) = (i.scope, i.candidate_id, i.candidate_revision)
    WHERE i.scope IN (SELECT scope FROM visible)
      AND NOT (i.destination = '' AND i.payload = 'null' AND (i.scope, i.intent_id) IN (SELECT e.scope, e.intent_id FROM redacted e))
      AND i.request_digest IS DISTINCT FROM extaction.stored_digest(jsonb_build_object(
            'v', 'extaction.request.v1', 'scope', i.scope, 'intent_id', i.intent_id, 'action', i.action,
            'destination', i.destination, 'payload', i.payload,
            'candidate', CASE WHEN i.candidate_id IS NOT NULL THEN jsonb_build_object(
                'candidate_id', i.candidate_id, 'digest', encode(c.digest, 'hex'),
                'source_id', c.source_id, 'source_version', c.source_version) END))
    UNION ALL
    SELECT r.scope, r.intent_id, 'request_digest', 'a kept request does not have the digest that it is filed under'
    FROM extaction.requests r
    WHERE r.scope IN (SELECT scope FROM visible) AND r.kind = 'intent'
      AND NOT (r.destination = '' AND r.payload = 'null' AND (r.scope, r.intent_id) IN (SELECT e.scope, e.intent_id FROM redacted e))
      AND r.request_digest IS DISTINCT FROM extaction.stored_digest(jsonb_build_object(
            'v', 'extaction.request.v1', 'scope', r.scope, 'intent_id', r.intent_id, 'action', r.action,
            'destination', r.destination, 'payload', r.payload,
            'candidate', CASE WHEN r.candidate_id IS NOT NULL THEN jsonb_build_object(
                'candidate_id', r.candidate_id, 'digest', encode(r.candidate_digest, 'hex'),
                'source_id', r.source_id, 'source_version', r.source_version) END))
    UNION ALL
    SELECT r.scope, r.intent_id, 'request_digest', 'a kept list does not have the digest that it is filed under'
    FROM extaction.requests r
    -- taken out of the whole once, and not for each item
    CROSS JOIN LATERAL (SELECT r.payload -> 'payload' AS payload, r.payload -> 'items' AS items OFFSET 0) l
    CROSS JOIN LATERAL (SELECT jsonb_agg(jsonb_build_array(t.item -> 'intent_id', CASE
                                   WHEN t.item ? 'destination' THEN encode(extaction.stored_digest(jsonb_build_object(
                                       'v', 'extaction.request.v1', 'scope', r.scope, 'intent_id', t.item -> 'intent_id', 'action', r.action,
                                       'destination', t.item -> 'destination', 'candidate', NULL,
                                       'payload', l.payload || coalesce(t.item -> 'payload', '{}'))), 'hex')
                                   ELSE t.item ->> 'digest' END) ORDER BY t.position) AS items
                        FROM jsonb_array_elements(CASE jsonb_typeof(l.items) WHEN 'array' THEN l.items END)
                             WITH ORDINALITY t (item, position)) n
    WHERE r.scope IN (SELECT scope FROM visible) AND r.kind = 'batch'
      AND NOT (r.payload = 'null' AND (r.scope, r.request_digest) IN (SELECT e.scope, e.request_digest FROM redacted e))
      AND r.request_digest IS DISTINCT FROM extaction.stored_digest(jsonb_build_object(
            'v', 'extaction.batch.v1', 'scope', r.scope, 'batch_id', r.intent_id, 'action', r.action, 'items', n.items,
            'payload_digest', coalesce(encode(extaction.stored_digest(r.payload -> 'payload'), 'hex'), r.payload ->> 'payload_digest')))
    UNION ALL
    SELECT c.scope, NULL, 'candidate_digest', format('candidate %s revision %s does not have its digest', c.candidate_id, c.revision)
    FROM extaction.candidates c
    WHERE c.scope IN (SELECT scope FROM visible) AND c.digest IS DISTINCT FROM extaction.stored_digest(c.content)
      AND NOT (c.content = 'null' AND (c.scope, c.candidate_id, c.revision) IN (
               SELECT e.scope, k ->> 'candidate_id', (k ->> 'revision')::bigint
               FROM redacted e CROSS JOIN jsonb_array_elements(e.detail -> 'candidates') k))
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
    SELECT b.scope, b.batch_id, 'approval', format('approval %s is not there, or is for another request', b.approval_id)
    FROM extaction.batches b
    LEFT JOIN extaction.approvals a ON (a.scope, a.approval_id) = (b.scope, b.approval_id)
    WHERE b.scope IN (SELECT scope FROM visible)
      AND (a.kind, a.id, a.request_digest) IS DISTINCT FROM ('batch', b.batch_id, b.request_digest)
    UNION ALL
    SELECT i.scope, i.intent_id, 'batch', format('list %s is not there', i.batch_id)
    FROM extaction.intents i
    LEFT JOIN extaction.batches b ON (b.scope, b.batch_id) = (i.scope, i.batch_id)
    WHERE i.scope IN (SELECT scope FROM visible) AND i.batch_id IS NOT NULL AND b.batch_id IS NULL
    UNION ALL
    SELECT e.scope, e.intent_id, 'event', format('event %s (%s) is about an intent that is not there', e.event_id, e.kind)
    FROM extaction.events e
    LEFT JOIN extaction.intents i ON (i.scope, i.intent_id) = (e.scope, e.intent_id)
    WHERE e.scope IN (SELECT scope FROM visible) AND e.intent_id <> '' AND i.intent_id IS NULL
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
    WHERE i.scope IN (SELECT scope FROM visible) AND i.action = 'create_fake_task'
      AND EXISTS (SELECT FROM extaction.fake_task_requests q
                  WHERE q.scope = i.scope AND q.intent_id = i.intent_id AND q.answer = 'created')
      AND (h.n, x.n, t.n) <> (1, 1, 1)
    UNION ALL
    SELECT k.scope, k.intent_id, 'fake_task', 'the task is not the one that was asked for'
    FROM extaction.fake_tasks k
    JOIN extaction.intents i USING (scope, intent_id)
    WHERE k.scope IN (SELECT scope FROM visible)
      AND i.destination <> ''
      AND (k.title, k.assignee_person_ref, k.due_at) IS DISTINCT FROM
          (i.payload #>> '{task,title}', i.payload #>> '{task,assignee_person_ref}', i.payload #>> '{task,due_at}')
    UNION ALL
    SELECT x.scope, x.intent_id, 'fake_task', 'the provider did something for an intent that is not there'
    FROM (SELECT scope, intent_id FROM extaction.fake_task_executions
          UNION SELECT scope, intent_id FROM extaction.fake_tasks) x
    LEFT JOIN extaction.intents i USING (scope, intent_id)
    WHERE x.scope IN (SELECT scope FROM visible) AND i.action IS NULL
    UNION ALL
    SELECT n.scope, n.intent_id, 'request', format('the request of %s is not there', n.named_by)
    FROM (SELECT scope, id AS intent_id, request_digest, format('approval %s', approval_id) AS named_by
          FROM extaction.approvals
          UNION ALL
          SELECT scope, id, request_digest, 'what waits' FROM extaction.waiting
          UNION ALL
          SELECT scope, coalesce(nullif(intent_id, ''), batch_id), request_digest, format('event %s (%s)', event_id, kind)
          FROM extaction.events WHERE kind = 'blocked' AND detail ? 'requester' AND detail ->> 'gate' <> 'rejected') n
    LEFT JOIN extaction.requests r USING (scope, request_digest)
    WHERE n.scope IN (SELECT scope FROM visible) AND r.intent_id IS DISTINCT FROM n.intent_id
    UNION ALL
    SELECT e.scope, e.intent_id, 'outcome', format('event %s (%s) comes after it had happened', e.event_id, e.kind)
    FROM extaction.events e
    WHERE e.scope IN (SELECT scope FROM visible)
      AND e.kind IN ('not_happened', 'uncertain', 'cancelled', 'retried', 'sending', 'happened')
      AND EXISTS (SELECT FROM extaction.events h
                  WHERE h.scope = e.scope AND h.intent_id = e.intent_id AND h.kind = 'happened' AND h.event_id < e.event_id)
    UNION ALL
    SELECT e.scope, e.intent_id, e.kind, format('event %s is about approval %s, of which there is no such fact', e.event_id, e.approval_id)
    FROM extaction.events e
    WHERE e.scope IN (SELECT scope FROM visible)
      AND CASE e.kind
          WHEN 'approved' THEN NOT EXISTS (SELECT FROM extaction.approvals a WHERE (a.scope, a.approval_id) = (e.scope, e.approval_id))
          WHEN 'revoked' THEN NOT EXISTS (SELECT FROM extaction.revocations r WHERE (r.scope, r.approval_id) = (e.scope, e.approval_id))
          END
    UNION ALL
    SELECT a.scope, a.id, 'approval', format('approval %s is not one that %s is recorded to have given', a.approval_id, a.approver)
    FROM extaction.approvals a
    WHERE a.scope IN (SELECT scope FROM visible)
      AND (a.approver NOT IN (a.role, quote_ident(a.role), concat(a.role, ':', a.actor), concat(quote_ident(a.role), ':', a.actor))
           OR NOT EXISTS (SELECT FROM extaction.events e
                          WHERE e.scope = a.scope AND e.kind = 'approved' AND e.approval_id = a.approval_id
                            AND e.request_digest = a.request_digest AND e.role = a.role AND e."session_user" = a."session_user"
                            AND e.actor IS NOT DISTINCT FROM a.actor))
    UNION ALL
    SELECT r.scope, NULL, 'revocation', format('approval %s was not revoked, by the events', r.approval_id)
    FROM extaction.revocations r
    WHERE r.scope IN (SELECT scope FROM visible)
      AND NOT EXISTS (SELECT FROM extaction.events e
                      WHERE e.scope = r.scope AND e.kind = 'revoked' AND e.approval_id = r.approval_id)
    UNION ALL
    -- (a restore makes attempts of its own, 1000 higher; the fake provider has none; a late answer may speak of a lost attempt)
    SELECT e.scope, e.intent_id, 'outcome', format('event %s (%s) is about attempt %s, which never went out', e.event_id, e.kind, e.attempt)
    FROM extaction.events e
    JOIN extaction.intents i ON i.scope = e.scope AND i.intent_id = e.intent_id AND i.action <> 'create_fake_task'
    WHERE e.scope IN (SELECT scope FROM visible) AND e.kind IN ('happened', 'not_happened')
      AND coalesce(e.attempt, (e.kind = 'happened')::int) % 1000 <> 0
      AND NOT EXISTS (SELECT FROM extaction.events s
                      WHERE s.scope = e.scope AND s.intent_id = e.intent_id AND s.attempt = e.attempt
                        AND (s.kind = 'sending' OR s.detail #>> '{evidence,code}' = 'restored'
                             OR (s.kind = 'late_evidence' AND s.event_id < e.event_id)))
    UNION ALL
    SELECT scope, NULL, 'access', format('%s as %s: %s by access_changes, %s in scope_members', member_name, capability,
           coalesce(c.kind, 'unknown'), CASE WHEN m.member IS NULL THEN 'missing' ELSE 'there' END)
    FROM extaction.scope_members m
    FULL JOIN (SELECT DISTINCT ON (c.scope, c.member_name, c.capability) c.* FROM extaction.access_changes c
               ORDER BY c.scope, c.member_name, c.capability, c.event_id DESC) c USING (scope, member_name, capability)
    WHERE scope IN (SELECT scope FROM visible)
      AND ((m.member IS NOT NULL) <> coalesce(c.kind = 'granted', false)
           OR m.member IS NOT NULL AND m.vouches_for IS DISTINCT FROM c.vouches_for)
    UNION ALL
    SELECT NULL, NULL, 'action', format('action %s is not as it was last recorded in action_changes', a.action)
    FROM extaction.actions a
    -- column by column: a view that knew the row as a whole would stand in the way of a new column
    WHERE NOT EXISTS (
        SELECT FROM (SELECT c.new_row FROM extaction.action_changes c WHERE c.action = a.action ORDER BY c.recorded_at DESC LIMIT 1) c,
             jsonb_to_record(c.new_row) r (action text, provider text, operation text, capability text, description text,
                 reversible boolean, compensated_by text, destination_pattern text, approvals_required bigint, self_approval boolean,
                 approval_ttl interval, approval_ttl_max interval, request_ttl interval, max_attempts bigint, retry_delay interval,
                 call_timeout interval, enabled boolean)
        WHERE (a.action, a.provider, a.operation, a.capability, a.description, a.reversible, a.compensated_by, a.destination_pattern,
               a.approvals_required, a.self_approval, a.approval_ttl, a.approval_ttl_max, a.request_ttl, a.max_attempts, a.retry_delay,
               a.call_timeout, a.enabled) IS NOT DISTINCT FROM
              (r.action, r.provider, r.operation, r.capability, r.description, r.reversible, r.compensated_by, r.destination_pattern,
               r.approvals_required, r.self_approval, r.approval_ttl, r.approval_ttl_max, r.request_ttl, r.max_attempts, r.retry_delay,
               r.call_timeout, r.enabled))
    UNION ALL
    SELECT NULL, NULL, 'guard', format('table %s has not its guard %s: see repair_guards()', m.on_table, m.guard)
    FROM extaction.missing_guards() m
    UNION ALL
    SELECT NULL, NULL, 'guard', format('function %s is not the one that the extension came with', p.oid::regprocedure)
    FROM pg_proc p
    JOIN pg_language l ON l.oid = p.prolang
    WHERE p.pronamespace = 'extaction'::regnamespace::oid AND p.prorettype = 'trigger'::regtype::oid
      AND (l.lanname, p.prosrc, p.probin) IS DISTINCT FROM
          ('c', 'extaction_' || p.proname, (SELECT f.probin FROM pg_proc f WHERE f.oid = 'extaction.find(text,text)'::regprocedure::oid))
    UNION ALL
    SELECT NULL, NULL, 'guard', format('table %s has a rule, a trigger or a policy that can change what is written or read', c.oid::regclass)
    FROM pg_class c
    WHERE c.relnamespace = 'extaction'::regnamespace::oid AND c.relkind = 'r'
      AND (c.relrowsecurity
           OR EXISTS (SELECT FROM pg_rewrite w WHERE w.ev_class = c.oid)
           OR EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal AND t.tgtype & 3 = 3   -- row, before
                         AND t.tgfoid NOT IN (SELECT p.oid FROM pg_proc p WHERE p.pronamespace = 'extaction'::regnamespace::oid)));
COMMENT ON VIEW extaction.disagreements IS 'What verify() returns.';
