--
-- states: doc/states.md, row by row
--
-- The table there is read, an intent is brought into each state, each verb is
-- called on it, and what comes of it is compared.  So the table can't rot, and
-- neither a state nor a verb can be left out.
--
SET client_min_messages = warning;
INSERT INTO extaction.contracts (provider, operation, version, key_carrier, retention, on_expired, on_replay, on_mismatch,
    on_concurrent, stores_failures, proves_not_happened, lookup, absence_is_proof, lookup_lag, late_arrival_bound)
VALUES ('states', 'do', 1, 'header', '24 hours', 'executes', 'first_result', 'rejects', 'rejects', 'all', '{400}', 'by_key', true, '0', '0');
INSERT INTO extaction.actions (action, provider, operation, self_approval, call_timeout) VALUES ('states_do', 'states', 'do', true, '10 s');

-- the rows of the table: | state, state | verb | status | state after | list | events |



\set document `cat "$PG_ABS_SRCDIR/../doc/states.md"`
CREATE TEMP TABLE states_doc AS
    SELECT trim(s) AS state, c[3] AS verb, c[4] AS status, c[5] AS state_after, c[6] AS list, c[7] AS events
    FROM regexp_split_to_table(:'document', '\n') line,
         LATERAL (SELECT array_agg(trim(p) ORDER BY o) FROM regexp_split_to_table(line, '\|') WITH ORDINALITY t (p, o)) f (c),
         LATERAL regexp_split_to_table(c[2], ', ') s
    WHERE line LIKE '| %' AND cardinality(c) = 8 AND c[2] <> 'state';
CREATE TEMP TABLE states_doc_before AS
    SELECT c[2] AS state, c[3] AS says, c[4] AS list
    FROM regexp_split_to_table(:'document', '\n') line,
         LATERAL (SELECT array_agg(trim(p) ORDER BY o) FROM regexp_split_to_table(line, '\|') WITH ORDINALITY t (p, o)) f (c)
    WHERE line LIKE '| %' AND cardinality(c) = 6 AND c[2] <> 'state';

-- time goes by
CREATE FUNCTION states_later(i text) RETURNS void LANGUAGE sql AS $$
    UPDATE extaction.worklist SET due_at = due_at - interval '1 h', lease_until = lease_until - interval '1 h', first_sent_at = first_sent_at - interval '1 h',
        quiet_from = quiet_from - interval '1 h', since = since - interval '1 h', answered_at = answered_at - interval '1 h', look_began_at = look_began_at - interval '1 h'
    WHERE scope = 'states' AND intent_id = i
$$;

-- an intent in that state; its last ticket
CREATE FUNCTION states_bring(i text, state text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    ticket bigint;
BEGIN
    IF state = 'not known' THEN RETURN NULL; END IF;
    PERFORM extaction.submit('states', i, 'states_do', 'd', '{"n": 1}');
    IF state = 'awaiting_approval' THEN RETURN NULL; END IF;
    IF state = 'withdrawn' THEN
        PERFORM extaction.cancel('states', i, 'no');
        RETURN NULL;
    END IF;
    IF state = 'rejected' THEN
        PERFORM extaction.reject('states', extaction.request_digest('states', i, 'states_do', 'd', '{"n": 1}'), 'no');
        RETURN NULL;
    END IF;
    PERFORM extaction.approve_in_advance('states', i, 'states_do', 'd', '{"n": 1}', approval_id => i);
    IF state = 'prepared' THEN RETURN NULL; END IF;
    IF state = 'cancelled' THEN PERFORM extaction.cancel('states', i, 'no'); RETURN NULL; END IF;
    IF state = 'blocked' THEN
        PERFORM extaction.revoke_approval('states', i, 'no');
        PERFORM extaction.claim('w', scope => 'states');
        RETURN NULL;
    END IF;
    ticket := (SELECT claim_id FROM extaction.claim('w', lease => '1 min', scope => 'states'));
    CASE state
        WHEN 'sending' THEN NULL;
        WHEN 'released' THEN PERFORM extaction.release(ticket);
        WHEN 'lease ended' THEN PERFORM states_later(i);
        WHEN 'happened' THEN PERFORM extaction.record_outcome('states', i, 1, 'happened', '{"code": 200}');
        WHEN 'not_happened' THEN PERFORM extaction.record_outcome('states', i, 1, 'not_happened', '{"code": 400}');
        WHEN 'prepared again' THEN PERFORM extaction.record_outcome('states', i, 1, 'not_happened', '{"code": 400}', retry_after => '0');
        ELSE
            PERFORM extaction.record_outcome('states', i, 1, 'uncertain', '{"code": "timeout"}');
            PERFORM states_later(i);
            CASE state
                WHEN 'uncertain' THEN NULL;
                WHEN 'mismatch' THEN PERFORM extaction.record_outcome('states', i, 1, 'uncertain', '{"code": "mismatch"}');
                WHEN 'looked up' THEN ticket := (SELECT claim_id FROM extaction.claim('w', 1, 'look', '1 min', scope => 'states'));
                WHEN 'given up' THEN PERFORM extaction.abandon('states', i, 'enough');
                WHEN 'sending again' THEN ticket := (SELECT claim_id FROM extaction.claim('w', 1, 'resend', '1 min', scope => 'states'));
                WHEN 'late happened' THEN
                    PERFORM extaction.claim('w', 1, 'resend', '1 min', scope => 'states');
                    PERFORM extaction.record_outcome('states', i, 2, 'uncertain', '{"code": "timeout"}');
                    PERFORM extaction.record_outcome('states', i, 1, 'happened', '{"code": 200}');
                    PERFORM states_later(i);
            END CASE;
    END CASE;
    RETURN ticket;
END $$;

-- what the verb answers
CREATE FUNCTION states_call(i text, verb text, ticket bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    digest text := extaction.request_digest('states', i, 'states_do', 'd', '{"n": 1}');
    last bigint := coalesce((SELECT attempt FROM extaction.find('states', i)), 1);
    t extaction.ticket;
BEGIN
    RETURN CASE verb
        WHEN 'submit, the same' THEN (SELECT status FROM extaction.submit('states', i, 'states_do', 'd', '{"n": 1}'))
        WHEN 'submit, other content' THEN (SELECT status FROM extaction.submit('states', i, 'states_do', 'd', '{"n": 2}'))
        WHEN 'approve' THEN (SELECT status FROM extaction.approve('states', digest))
        WHEN 'approve_in_advance' THEN (SELECT status FROM extaction.approve_in_advance('states', i, 'states_do', 'd', '{"n": 1}'))
        WHEN 'reject' THEN (SELECT status FROM extaction.reject('states', digest, 'no'))
        WHEN 'revoke_approval' THEN (SELECT status FROM extaction.revoke_approval('states', i, 'no'))
        WHEN 'cancel' THEN (SELECT status FROM extaction.cancel('states', i, 'no'))
        WHEN 'retry' THEN (SELECT status FROM extaction.retry('states', i, 'again'))
        WHEN 'abandon' THEN (SELECT status FROM extaction.abandon('states', i, 'enough'))
        WHEN 'compensate' THEN (SELECT status FROM extaction.compensate('states', i, i || ' undo', 'states_do', 'd', '{"undo": 1}', 'mistake'))
        WHEN 'claim send' THEN (SELECT 'claimed ' || claimed FROM extaction.claim('w', scope => 'states'))
        WHEN 'claim resend' THEN (SELECT 'claimed ' || claimed FROM extaction.claim('w', 1, 'resend', scope => 'states'))
        WHEN 'claim look' THEN (SELECT 'claimed ' || claimed FROM extaction.claim('w', 1, 'look', scope => 'states'))
        WHEN 'extend' THEN CASE WHEN extaction.extend(coalesce(ticket, 0), '5 min') IS NULL THEN 'nothing' ELSE 'extended' END
        WHEN 'release' THEN 'released ' || extaction.release(coalesce(ticket, 0))
        WHEN 'sweep' THEN CASE WHEN extaction.sweep() IS NOT NULL THEN 'swept' END
        WHEN 'outcome happened' THEN (SELECT status FROM extaction.record_outcome('states', i, last, 'happened', '{"code": 201}'))
        WHEN 'outcome not_happened, proven' THEN (SELECT status FROM extaction.record_outcome('states', i, last, 'not_happened', '{"code": "400"}'))
        WHEN 'outcome not_happened, unproven' THEN (SELECT status FROM extaction.record_outcome('states', i, last, 'not_happened', '{"code": 500}'))
        WHEN 'outcome uncertain' THEN (SELECT status FROM extaction.record_outcome('states', i, last, 'uncertain', '{"code": "reset"}'))
        WHEN 'older attempt happened' THEN (SELECT status FROM extaction.record_outcome('states', i, last - 1, 'happened', '{"code": 202}'))
        WHEN 'lookup found' THEN (SELECT status FROM extaction.record_lookup('states', i, 'found', '{"id": 1}'))
        WHEN 'lookup absent' THEN (SELECT status FROM extaction.record_lookup('states', i, 'absent', '{}', looked_at => clock_timestamp()))
        WHEN 'lookup unknown' THEN (SELECT status FROM extaction.record_lookup('states', i, 'unknown'))
        WHEN 'decide found' THEN (SELECT status FROM extaction.decide('states', i, 'found', 'I saw it'))
        WHEN 'decide absent' THEN (SELECT status FROM extaction.decide('states', i, 'absent', 'I looked', looked_at => clock_timestamp()))
    END;
EXCEPTION WHEN OTHERS THEN
    RETURN 'error ' || SQLSTATE;
END $$;

-- every verb in every state
CREATE TEMP TABLE states_found (state text, verb text, status text, state_after text, list text, events text);
CREATE TEMP TABLE states_found_before (state text, says text, list text);
CREATE FUNCTION states_stands(i text, OUT says text, OUT list text) LANGUAGE sql AS $$
    SELECT coalesce((SELECT f.state FROM extaction.find('states', i) f WHERE f.status IS NOT NULL), '–'),
           CASE WHEN EXISTS (SELECT FROM extaction.worklist w WHERE w.scope = 'states' AND w.intent_id = i) THEN 'worklist'
                WHEN EXISTS (SELECT FROM extaction.waiting w WHERE w.scope = 'states' AND w.id = i) THEN 'waiting' ELSE '–' END
$$;
CREATE PROCEDURE states_play() LANGUAGE plpgsql AS $$
DECLARE
    before record;
    r record;
    i text;
    ticket bigint;
    seen bigint;
    answer text;
BEGIN
    FOR r IN SELECT v.verb, t.state, row_number() OVER () AS n
             FROM unnest('{not known,awaiting_approval,rejected,withdrawn,prepared,released,prepared again,blocked,sending,sending again,lease ended,uncertain,mismatch,looked up,late happened,happened,not_happened,cancelled,given up}'::text[]) t (state),
                  unnest('{"submit, the same","submit, other content",approve,approve_in_advance,reject,revoke_approval,cancel,claim send,claim resend,claim look,extend,release,sweep,outcome happened,"outcome not_happened, proven","outcome not_happened, unproven",outcome uncertain,older attempt happened,lookup found,lookup absent,lookup unknown,decide found,decide absent,retry,abandon,compensate}'::text[]) v (verb)
    LOOP
        i := r.n || ' ' || r.state || ', ' || r.verb;
        ticket := states_bring(i, r.state);
        seen := (SELECT coalesce(max(event_id), 0) FROM extaction.timeline t WHERE t.scope = 'states' AND t.intent_id = i);
        SELECT * INTO before FROM states_stands(i);
        INSERT INTO states_found_before VALUES (r.state, before.says, before.list);
        answer := states_call(i, r.verb, ticket);
        INSERT INTO states_found
        SELECT r.state, r.verb, answer, CASE WHEN a.says = before.says THEN '=' ELSE a.says END,
               CASE WHEN a.list = before.list THEN '=' ELSE a.list END,
               coalesce((SELECT string_agg(t.kind, ' + ' ORDER BY t.event_id) FROM extaction.timeline t
                         WHERE t.scope = 'states' AND t.intent_id = i AND t.event_id > seen), '–')
        FROM states_stands(i) a;
        -- out of the way of the next
        UPDATE extaction.worklist SET due_at = 'infinity' WHERE scope = 'states' AND intent_id = i;
        COMMIT;
    END LOOP;
END $$;
SELECT extaction.create_scope('states');
CALL states_play();

-- what the document says, and what there is: nothing differs, nothing is missing
SELECT count(*) AS pairs, count(DISTINCT state) AS states, count(DISTINCT verb) AS verbs FROM states_found;
SELECT 'document' AS says, d.* FROM (TABLE states_doc EXCEPT TABLE states_found) d
UNION ALL
SELECT 'extension', f.* FROM (TABLE states_found EXCEPT TABLE states_doc) f
ORDER BY verb, state, says;
SELECT 'document' AS says, d.* FROM (TABLE states_doc_before EXCEPT TABLE states_found_before) d
UNION ALL
SELECT 'extension', f.* FROM (TABLE states_found_before EXCEPT TABLE states_doc_before) f
ORDER BY 2, 1;
-- each pair has one row
SELECT state, verb, count(*) FROM states_doc GROUP BY 1, 2 HAVING count(*) > 1;

-- and the facts alone tell the same of every one of them, whatever was called
SELECT * FROM extaction.verify();
SELECT f.intent_id, f AS by_the_facts, w AS worklist
FROM (SELECT intent_id, gate, earlier_open, late_found, coalesce(last_code = 'mismatch', false) AS mismatch, lookups
      FROM extaction.folded_worklist WHERE scope = 'states') f
FULL JOIN (SELECT intent_id, gate, earlier_open, late_found, coalesce(last_code = 'mismatch', false) AS mismatch, lookups
           FROM extaction.worklist WHERE scope = 'states') w USING (intent_id)
WHERE f IS DISTINCT FROM w ORDER BY 1;

DROP PROCEDURE states_play;
DROP FUNCTION states_stands, states_call, states_bring, states_later;
DELETE FROM extaction.actions WHERE action = 'states_do';
