
--
-- The fold: what the worklists should be, by the facts alone
--

CREATE VIEW extaction.folded_worklist WITH (security_barrier) AS
    SELECT f.*
    FROM (SELECT i.scope, i.intent_id,
                 CASE WHEN s.happened THEN NULL
                      WHEN l.kind IS NULL THEN CASE WHEN w.window_until IS NULL THEN 'prepared' ELSE 'uncertain' END
                      WHEN l.kind = 'released' THEN l.detail ->> 'state'
                      WHEN l.kind = 'not_happened' THEN CASE WHEN l.due_at IS NOT NULL THEN 'prepared' END
                      WHEN l.kind = 'retried' THEN 'prepared'
                      WHEN l.kind IN ('uncertain', 'looked') THEN 'uncertain'
                      WHEN l.kind IN ('sending', 'blocked') THEN l.kind END AS state,
                 i.action, greatest(s.attempt, CASE WHEN w.window_until IS NOT NULL THEN 1000 ELSE 0 END) AS attempt,
                 coalesce(CASE l.kind WHEN 'sending' THEN s.quiet_from WHEN 'blocked' THEN 'infinity' ELSE l.due_at END,
                          CASE WHEN l.kind IS NULL THEN i.not_before END, l.recorded_at, i.recorded_at) AS due_at,
                 CASE l.kind WHEN 'sending' THEN s.quiet_from END AS lease_until,
                 least(s.first_sent_at, CASE WHEN s.restored THEN w0.backup_taken_at END, w.backup_taken_at) AS first_sent_at,
                 coalesce(s.quiet_from, CASE WHEN w.window_until IS NOT NULL THEN i.recorded_at + coalesce(
                     (SELECT max(a.call_timeout) + '30 seconds' FROM extaction.actions a), '1 hour') END) AS quiet_from,
                 s.last_code, CASE l.kind WHEN 'blocked' THEN l.detail ->> 'gate' WHEN 'released' THEN l.detail ->> 'gate' END AS gate,
                 CASE l.kind WHEN 'blocked' THEN l.detail ->> 'needs' WHEN 'released' THEN l.detail ->> 'needs' END AS needs,
                 coalesce(l.recorded_at, i.recorded_at) AS since, s.tries, s.earlier_open OR s.restored OR (w.window_until IS NOT NULL AND s.never_settled) AS earlier_open,
                 s.late_found, s.answered_at, s.looked_at AS look_began_at, s.lookups
          FROM extaction.intents i
          LEFT JOIN LATERAL (SELECT e.* FROM extaction.events e
                             WHERE e.scope = i.scope AND e.intent_id = i.intent_id AND e.event_id > i.event_id
                               AND e.kind IN ('sending', 'released', 'happened', 'not_happened', 'uncertain', 'looked',
                                              'cancelled', 'abandoned', 'retried', 'blocked')
                               AND NOT (e.kind = 'blocked' AND e.detail ? 'requester')   -- a request that waits, not the intent
                             ORDER BY e.event_id DESC LIMIT 1) l ON true
          -- the window of a restore in which, or before which, it was first asked for
          LEFT JOIN LATERAL (SELECT g.window_until, g.backup_taken_at FROM extaction.ledger g
                             WHERE g.recorded_at <= i.recorded_at ORDER BY g.entry DESC LIMIT 1) g ON true
          LEFT JOIN LATERAL (SELECT g.window_until, g.backup_taken_at
                             WHERE g.window_until IS NOT NULL AND least(i.recorded_at, (
                                 SELECT min(e.recorded_at) FROM extaction.events e
                                 WHERE e.scope = i.scope AND CASE WHEN i.batch_id IS NULL THEN e.intent_id = i.intent_id
                                                                  ELSE e.intent_id = '' AND e.batch_id = i.batch_id END)) < g.window_until) w ON true
          LEFT JOIN LATERAL (SELECT min(r.backup_taken_at) AS backup_taken_at FROM extaction.ledger r
                             WHERE r.kind = 'restored' AND r.recorded_at > i.recorded_at) w0 ON true
          CROSS JOIN LATERAL (
              SELECT coalesce(bool_or(e.kind = 'happened'), false) AS happened,
                     max(e.attempt) AS attempt,
                     min(e.recorded_at) FILTER (WHERE e.kind = 'sending' AND NOT e.given_back) AS first_sent_at,
                     max(e.lease_until) AS quiet_from,
                     -- what stops every resend is not undone by another answer, of whatever attempt since the last was sent
                     (array_agg(e.detail #>> '{evidence,code}'
                                ORDER BY CASE WHEN e.detail #>> '{evidence,code}' IN ('mismatch', 'stored_failure') THEN e.event_id END, e.event_id DESC)
                        FILTER (WHERE e.event_id > e.last_sending AND
                                (e.kind IN ('uncertain', 'not_happened')
                                 OR (e.kind = 'late_evidence' AND e.detail #>> '{evidence,code}' IN ('mismatch', 'stored_failure')))))[1] AS last_code,
                     count(DISTINCT e.attempt) FILTER (WHERE e.kind = 'sending' AND NOT e.given_back AND e.event_id > e.last_retry) AS tries,
                     coalesce(bool_or(e.kind = 'sending' AND NOT e.given_back AND e.event_id > e.last_settled
                                      AND e.attempt < e.last_attempt), false) AS earlier_open,
                     coalesce(bool_or(e.kind = 'uncertain' AND e.detail #>> '{evidence,code}' = 'restored'
                                      AND e.event_id > e.last_settled), false) AS restored,
                     count(*) FILTER (WHERE e.kind = 'not_happened') = 0 AS never_settled,
                     coalesce(bool_or(e.kind = 'late_evidence' AND e.detail ->> 'outcome' = 'happened'), false) AS late_found,
                     max(e.recorded_at) FILTER (WHERE e.kind IN ('uncertain', 'not_happened') AND e.event_id > e.last_sending
                         AND e.detail #>> '{evidence,code}' NOT IN ('lease_ended', 'restored')) AS answered_at,
                     max(e.recorded_at) FILTER (WHERE e.kind = 'looked' AND e.event_id > e.looks_from) AS looked_at,
                     count(*) FILTER (WHERE e.kind = 'looked' AND e.event_id > e.looks_from) AS lookups
              FROM (SELECT e.*,
                           EXISTS (SELECT FROM extaction.events b
                                   WHERE b.scope = e.scope AND b.intent_id = e.intent_id AND b.attempt = e.attempt
                                     AND b.kind = 'released') AS given_back,
                           coalesce(max(e.event_id) FILTER (WHERE e.kind = 'retried') OVER (), 0) AS last_retry,
                           coalesce(max(e.event_id) FILTER (WHERE e.kind = 'not_happened') OVER (), 0) AS last_settled,
                           coalesce(max(e.event_id) FILTER (WHERE e.kind IN ('not_happened', 'abandoned')) OVER (), 0) AS looks_from,
                           max(e.attempt) FILTER (WHERE e.kind = 'sending') OVER () AS last_attempt,
                           coalesce(max(e.event_id) FILTER (WHERE e.kind = 'sending') OVER (), 0) AS last_sending
                    FROM extaction.events e
                    WHERE e.scope = i.scope AND e.intent_id = i.intent_id AND e.event_id > i.event_id) e) s) f
    WHERE f.state IS NOT NULL;
COMMENT ON VIEW extaction.folded_worklist IS
'What the worklist should be by the facts of every intent: what rebuild_worklist() writes and verify() compares with. For the owner of the extension.';

CREATE VIEW extaction.folded_waiting WITH (security_barrier) AS
    SELECT b.scope, 'intent'::text AS kind, b.intent_id AS id, b.request_digest, b.detail ->> 'gate' AS gate,
           b.detail ->> 'needs' AS needs, coalesce(b.detail ->> 'requester', b.role) AS requester, b.recorded_at AS since,
           b.role, b."session_user", b.actor, b.due_at AS not_before, b.detail ->> 'compensates' AS compensates
    FROM (SELECT DISTINCT ON (e.scope, e.intent_id) e.*
          FROM extaction.events e
          WHERE e.kind IN ('blocked', 'cancelled', 'rejected', 'abandoned', 'happened', 'replayed') AND e.intent_id <> ''
            AND NOT (e.kind = 'blocked' AND e.detail ->> 'gate' = 'rejected')
          ORDER BY e.scope, e.intent_id, e.event_id DESC) b
    LEFT JOIN extaction.intents i ON i.scope = b.scope AND i.intent_id = b.intent_id
    WHERE b.kind = 'blocked'
      AND NOT EXISTS (SELECT FROM extaction.events c      -- a conflict is an answer to that very request
                      WHERE c.scope = b.scope AND c.intent_id = b.intent_id AND c.event_id > b.event_id
                        AND c.kind = 'conflict' AND c.request_digest = b.request_digest)
      -- under the name of a bound intent only a fake task waits, one that was stopped after it had happened
      AND (i.intent_id IS NULL
           OR (i.action = 'create_fake_task' AND b.detail ? 'requester'
               AND EXISTS (SELECT FROM extaction.events h
                           WHERE h.scope = b.scope AND h.intent_id = b.intent_id AND h.kind = 'happened' AND h.event_id < b.event_id)))
    UNION ALL
    SELECT b.scope, 'batch', b.batch_id, b.request_digest, b.detail ->> 'gate', b.detail ->> 'needs',
           coalesce(b.detail ->> 'requester', b.role), b.recorded_at, b.role, b."session_user", b.actor, b.due_at, NULL
    FROM (SELECT DISTINCT ON (e.scope, e.batch_id) e.*
          FROM extaction.events e
          WHERE e.kind IN ('blocked', 'cancelled', 'rejected') AND e.intent_id = ''
            AND NOT (e.kind = 'blocked' AND e.detail ->> 'gate' = 'rejected')
          ORDER BY e.scope, e.batch_id, e.event_id DESC) b
    WHERE b.kind = 'blocked'
      AND NOT EXISTS (SELECT FROM extaction.batches t WHERE t.scope = b.scope AND t.batch_id = b.batch_id);
COMMENT ON VIEW extaction.folded_waiting IS
'What "waiting" should be by the facts: see folded_worklist.';

CREATE VIEW extaction.worklist_disagreements WITH (security_barrier) AS
    WITH visible AS MATERIALIZED (SELECT v.scope FROM extaction.visible_scopes v)
    SELECT coalesce(f.scope, w.scope) AS scope, coalesce(f.intent_id, w.intent_id) AS intent_id, 'worklist'::text AS what,
           format('by the facts it is %s (attempt %s), in the worklist %s (attempt %s)', coalesce(f.state, 'closed'), f.attempt,
                  coalesce(w.state, 'missing'), w.attempt) AS detail
    FROM extaction.folded_worklist f
    FULL JOIN extaction.worklist w ON w.scope = f.scope AND w.intent_id = f.intent_id
    WHERE coalesce(f.scope, w.scope) IN (SELECT scope FROM visible)
      AND (f.state, f.attempt, f.tries, f.earlier_open, f.late_found)
          IS DISTINCT FROM (w.state, w.attempt, w.tries, w.earlier_open, w.late_found)
    UNION ALL
    SELECT coalesce(f.scope, w.scope), coalesce(f.id, w.id), 'waiting',
           format('by the facts %s waits, in the list %s', coalesce(encode(f.request_digest, 'hex'), 'nothing'),
                  coalesce(encode(w.request_digest, 'hex'), 'nothing'))
    FROM extaction.folded_waiting f
    FULL JOIN extaction.waiting w ON w.scope = f.scope AND w.kind = f.kind AND w.id = f.id
    WHERE coalesce(f.scope, w.scope) IN (SELECT scope FROM visible)
      AND (f.request_digest, f.requester) IS DISTINCT FROM (w.request_digest, w.requester);
COMMENT ON VIEW extaction.worklist_disagreements IS 'Where the worklists and the fold of the facts differ; part of verify().';

-- (to compile what these two run takes longer than to run it: no JIT)
CREATE FUNCTION extaction.rebuild_worklist() RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
DECLARE
    differed bigint;
BEGIN
    LOCK TABLE extaction.worklist, extaction.waiting IN SHARE ROW EXCLUSIVE MODE;
    SELECT count(*) INTO differed FROM extaction.worklist_disagreements;
    DELETE FROM extaction.worklist;
    INSERT INTO extaction.worklist (scope, intent_id, state, action, attempt, due_at, lease_until, first_sent_at, quiet_from,
                                    last_code, gate, needs, since, tries, earlier_open, late_found, answered_at,
                                    look_began_at, lookups)
    SELECT f.scope, f.intent_id, f.state, f.action, f.attempt, f.due_at, f.lease_until, f.first_sent_at, f.quiet_from,
           f.last_code, f.gate, f.needs, f.since, f.tries, f.earlier_open, f.late_found, f.answered_at,
           f.look_began_at, f.lookups
    FROM extaction.folded_worklist f;
    DELETE FROM extaction.waiting;
    INSERT INTO extaction.waiting (scope, kind, id, request_digest, gate, needs, requester, since, role, "session_user", actor,
                                   not_before, compensates)
    SELECT f.scope, f.kind, f.id, f.request_digest, f.gate, f.needs, f.requester, f.since, f.role, f."session_user", f.actor,
           f.not_before, f.compensates
    FROM extaction.folded_waiting f;
    RETURN differed;
END
$$;
REVOKE ALL ON FUNCTION extaction.rebuild_worklist() FROM PUBLIC;
COMMENT ON FUNCTION extaction.rebuild_worklist() IS
'Makes worklist and waiting anew from the facts; answers how many rows differed. Running tickets are lost: their workers can still record outcomes. For the owner of the extension.';

CREATE FUNCTION extaction.verify(OUT scope text, OUT intent_id text, OUT what text, OUT detail text) RETURNS SETOF record
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
    SELECT scope, intent_id, what, detail FROM extaction.disagreements
    UNION ALL
    SELECT scope, intent_id, what, detail FROM extaction.worklist_disagreements
    UNION ALL
    SELECT NULL, NULL, 'sequence', format('%s gave %s last, the facts have %s: see repair_sequences()', sequence, last_value, highest)
    FROM extaction.sequences_behind
$$;
REVOKE ALL ON FUNCTION extaction.verify() FROM PUBLIC;
COMMENT ON FUNCTION extaction.verify() IS
'Recomputes every digest and key of the caller''s scopes, folds the facts of every intent and compares with the worklist, looks for facts that contradict each other, for guards that are gone and for sequences that lag behind. One row per disagreement; none = fine. It cannot notice rows that somebody removed together with everything that names them. Auditor or owner.';
