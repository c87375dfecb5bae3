--
-- Elsewhere: what does not come along by itself when the rows are brought to another database
--

-- Logical replication and a copy of the tables alone carry no sequences.  An event that got an old number would seem to have
-- happened before what it follows.  A ticket leaves no fact behind but what was sent with it, under a higher number.
CREATE VIEW extaction.sequences_behind WITH (security_barrier) AS
    WITH event AS (
        SELECT max(e.event_id) AS highest
        FROM (SELECT max(event_id) FROM extaction.access_changes
              UNION ALL SELECT max(event_id) FROM extaction.sources
              UNION ALL SELECT max(event_id) FROM extaction.approvals
              UNION ALL SELECT max(event_id) FROM extaction.revocations
              UNION ALL SELECT max(event_id) FROM extaction.batches
              UNION ALL SELECT max(wakeup_id) FROM extaction.wakeups
              UNION ALL SELECT max(event_id) FROM extaction.intents
              UNION ALL SELECT max(event_id) FROM extaction.events) e (event_id)),
    counted (sequence, last_value, is_called, highest) AS (
        SELECT 'event_id_seq', s.last_value, s.is_called, e.highest FROM extaction.event_id_seq s, event e
        UNION ALL
        SELECT 'claim_id_seq', s.last_value, s.is_called,
               greatest((SELECT max(claim_id) FROM extaction.worklist),
                        CASE WHEN NOT s.is_called THEN (SELECT max(event_id) FROM extaction.events WHERE kind = 'sending') END)
        FROM extaction.claim_id_seq s
        UNION ALL
        SELECT 'fake_task_request_seq', s.last_value, s.is_called, (SELECT max(request_no) FROM extaction.fake_task_requests)
        FROM extaction.fake_task_request_seq s
        UNION ALL
        SELECT 'fake_task_execution_seq', s.last_value, s.is_called, (SELECT max(execution_no) FROM extaction.fake_task_executions)
        FROM extaction.fake_task_execution_seq s
        UNION ALL
        SELECT 'fake_task_seq', s.last_value, s.is_called,
               (SELECT max(substring(task_id FROM '^fake-task-(\d{1,18})$')::bigint) FROM extaction.fake_tasks)
        FROM extaction.fake_task_seq s)
    SELECT c.sequence, CASE WHEN c.is_called THEN c.last_value ELSE 0 END AS last_value, c.highest
    FROM counted c
    WHERE c.highest > CASE WHEN c.is_called THEN c.last_value ELSE 0 END;
COMMENT ON VIEW extaction.sequences_behind IS
'Sequences that would give a number again which the facts have already; part of verify(). Logical replication leaves them so.';

CREATE FUNCTION extaction.repair_sequences() RETURNS bigint
LANGUAGE sql SET search_path = pg_catalog, pg_temp
AS $$
    SELECT count(setval(format('extaction.%I', s.sequence)::regclass, s.highest)) FROM extaction.sequences_behind s
$$;
REVOKE ALL ON FUNCTION extaction.repair_sequences() FROM PUBLIC;
COMMENT ON FUNCTION extaction.repair_sequences() IS
'Sets every sequence of sequences_behind behind the last number in the facts, and returns how many. adopt() does it by itself. For the owner of the extension.';

CREATE FUNCTION extaction.repair_access() RETURNS bigint
LANGUAGE sql SET search_path = pg_catalog, pg_temp
AS $$
    SELECT count(extaction.grant_access(m.scope, m.member_name, m.capability, m.vouches_for))
    FROM (SELECT * FROM extaction.scope_members ORDER BY scope, member_name, capability) m
    WHERE pg_get_userbyid(m.member::oid) = m.member_name
$$;
REVOKE ALL ON FUNCTION extaction.repair_access() FROM PUBLIC;
COMMENT ON FUNCTION extaction.repair_access() IS
'Gives every member the SQL privileges of its capabilities again, and returns how many memberships there are: where the members came without them (logical replication, a restore of the data alone), and after an upgrade that brought new functions. For the owner of the extension.';
