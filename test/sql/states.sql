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
    WHERE line LIKE '| %' AND cardinality(c) = 8 AND c[3] <> 'verb';
CREATE TEMP TABLE states_doc_before AS
    SELECT c[2] AS state, c[3] AS says, c[4] AS list
    FROM regexp_split_to_table(:'document', '\n') line,
         LATERAL (SELECT array_agg(trim(p) ORDER BY o) FROM regexp_split_to_table(line, '\|') WITH ORDINALITY t (p, o)) f (c)
    WHERE line LIKE '| %' AND cardinality(c) = 6 AND c[2] <> 'state';

-- time goes by
CREATE FUNCTION states_later(in_scope text) RETURNS void LANGUAGE sql AS $$
    UPDATE extaction.worklist SET due_at = due_at - interval '1 h', lease_until = lease_until - interval '1 h', first_sent_at = first_sent_at - interval '1 h',
        quiet_from = quiet_from - interval '1 h', since = since - interval '1 h', answered_at = answered_at - interval '1 h', look_began_at = look_began_at - interval '1 h'
    WHERE scope = in_scope
$$;

-- an intent "x" in that state, in a scope of its own; the last ticket
CREATE FUNCTION states_bring(s text, state text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    ticket bigint;
BEGIN
    PERFORM extaction.create_scope(s);
    IF state = 'not known' THEN RETURN NULL; END IF;
    PERFORM extaction.submit(s, 'x', 'states_do', 'd', '{"n": 1}');
    IF state = 'awaiting_approval' THEN RETURN NULL; END IF;
    IF state = 'rejected' THEN
        PERFORM extaction.reject(s, extaction.request_digest(s, 'x', 'states_do', 'd', '{"n": 1}'), 'no');
        RETURN NULL;
    END IF;
    PERFORM extaction.approve_in_advance(s, 'x', 'states_do', 'd', '{"n": 1}', approval_id => 'a');
    IF state = 'prepared' THEN RETURN NULL; END IF;
    IF state = 'cancelled' THEN PERFORM extaction.cancel(s, 'x', 'no'); RETURN NULL; END IF;
    IF state = 'blocked' THEN
        PERFORM extaction.revoke_approval(s, 'a', 'no');
        PERFORM extaction.claim('w', scope => s);
        RETURN NULL;
    END IF;
    ticket := (SELECT claim_id FROM extaction.claim('w', lease => '1 min', scope => s));
    CASE state
        WHEN 'sending' THEN NULL;
        WHEN 'released' THEN PERFORM extaction.release(ticket);
        WHEN 'lease ended' THEN PERFORM states_later(s);
        WHEN 'happened' THEN PERFORM extaction.record_outcome(s, 'x', 1, 'happened', '{"code": 200}');
        WHEN 'not_happened' THEN PERFORM extaction.record_outcome(s, 'x', 1, 'not_happened', '{"code": 400}');
        WHEN 'prepared again' THEN PERFORM extaction.record_outcome(s, 'x', 1, 'not_happened', '{"code": 400}', retry_after => '0');
        ELSE
            PERFORM extaction.record_outcome(s, 'x', 1, 'uncertain', '{"code": "timeout"}');
            PERFORM states_later(s);
            CASE state
                WHEN 'uncertain' THEN NULL;
                WHEN 'looked up' THEN ticket := (SELECT claim_id FROM extaction.claim('w', 1, 'look', '1 min', scope => s));
                WHEN 'given up' THEN PERFORM extaction.abandon(s, 'x', 'enough');
                WHEN 'sending again' THEN ticket := (SELECT claim_id FROM extaction.claim('w', 1, 'resend', '1 min', scope => s));
                WHEN 'late happened' THEN
                    PERFORM extaction.claim('w', 1, 'resend', '1 min', scope => s);
                    PERFORM extaction.record_outcome(s, 'x', 2, 'uncertain', '{"code": "timeout"}');
                    PERFORM extaction.record_outcome(s, 'x', 1, 'happened', '{"code": 200}');
                    PERFORM states_later(s);
            END CASE;
    END CASE;
    RETURN ticket;
END $$;

-- what the verb answers
CREATE FUNCTION states_call(s text, verb text, ticket bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    digest text := extaction.request_digest(s, 'x', 'states_do', 'd', '{"n": 1}');
    last bigint := coalesce((SELECT attempt FROM extaction.find(s, 'x')), 1);
    t extaction.ticket;
BEGIN
    RETURN CASE verb
        WHEN 'submit, the same' THEN (SELECT status FROM extaction.submit(s, 'x', 'states_do', 'd', '{"n": 1}'))
        WHEN 'submit, other content' THEN (SELECT status FROM extaction.submit(s, 'x', 'states_do', 'd', '{"n": 2}'))
        WHEN 'approve' THEN (SELECT status FROM extaction.approve(s, digest))
        WHEN 'approve_in_advance' THEN (SELECT status FROM extaction.approve_in_advance(s, 'x', 'states_do', 'd', '{"n": 1}'))
        WHEN 'reject' THEN (SELECT status FROM extaction.reject(s, digest, 'no'))
        WHEN 'revoke_approval' THEN (SELECT status FROM extaction.revoke_approval(s, 'a', 'no'))
        WHEN 'cancel' THEN (SELECT status FROM extaction.cancel(s, 'x', 'no'))
        WHEN 'retry' THEN (SELECT status FROM extaction.retry(s, 'x', 'again'))
        WHEN 'abandon' THEN (SELECT status FROM extaction.abandon(s, 'x', 'enough'))
        WHEN 'compensate' THEN (SELECT status FROM extaction.compensate(s, 'x', 'undo', 'states_do', 'd', '{"undo": 1}', 'mistake'))
        WHEN 'claim send' THEN (SELECT 'claimed ' || claimed FROM extaction.claim('w', scope => s))
        WHEN 'claim resend' THEN (SELECT 'claimed ' || claimed FROM extaction.claim('w', 1, 'resend', scope => s))
        WHEN 'claim look' THEN (SELECT 'claimed ' || claimed FROM extaction.claim('w', 1, 'look', scope => s))
        WHEN 'extend' THEN CASE WHEN extaction.extend(coalesce(ticket, 0), '5 min') IS NULL THEN 'nothing' ELSE 'extended' END
        WHEN 'release' THEN 'released ' || extaction.release(coalesce(ticket, 0))
        WHEN 'sweep' THEN CASE WHEN extaction.sweep() IS NOT NULL THEN 'swept' END
        WHEN 'outcome happened' THEN (SELECT status FROM extaction.record_outcome(s, 'x', last, 'happened', '{"code": 201}'))
        WHEN 'outcome not_happened, proven' THEN (SELECT status FROM extaction.record_outcome(s, 'x', last, 'not_happened', '{"code": "400"}'))
        WHEN 'outcome not_happened, unproven' THEN (SELECT status FROM extaction.record_outcome(s, 'x', last, 'not_happened', '{"code": 500}'))
        WHEN 'outcome uncertain' THEN (SELECT status FROM extaction.record_outcome(s, 'x', last, 'uncertain', '{"code": "reset"}'))
        WHEN 'older attempt happened' THEN (SELECT status FROM extaction.record_outcome(s, 'x', last - 1, 'happened', '{"code": 202}'))
        WHEN 'lookup found' THEN (SELECT status FROM extaction.record_lookup(s, 'x', 'found', '{"id": 1}'))
        WHEN 'lookup absent' THEN (SELECT status FROM extaction.record_lookup(s, 'x', 'absent', '{}', looked_at => clock_timestamp()))
        WHEN 'lookup unknown' THEN (SELECT status FROM extaction.record_lookup(s, 'x', 'unknown'))
        WHEN 'decide found' THEN (SELECT status FROM extaction.decide(s, 'x', 'found', 'I saw it'))
        WHEN 'decide absent' THEN (SELECT status FROM extaction.decide(s, 'x', 'absent', 'I looked', looked_at => clock_timestamp()))
    END;
EXCEPTION WHEN OTHERS THEN
    RETURN 'error ' || SQLSTATE;
END $$;

-- every verb in every state
CREATE TEMP TABLE states_found (state text, verb text, status text, state_after text, list text, events text);
CREATE TEMP TABLE states_found_before (state text, says text, list text);
CREATE FUNCTION states_stands(s text, OUT says text, OUT list text) LANGUAGE sql AS $$
    SELECT coalesce((SELECT f.state FROM extaction.find(s, 'x') f WHERE f.status IS NOT NULL), '–'),
           CASE WHEN EXISTS (SELECT FROM extaction.worklist w WHERE w.scope = s AND w.intent_id = 'x') THEN 'worklist'
                WHEN EXISTS (SELECT FROM extaction.waiting w WHERE w.scope = s AND w.id = 'x') THEN 'waiting' ELSE '–' END
$$;
CREATE PROCEDURE states_play() LANGUAGE plpgsql AS $$
DECLARE
    before record;
    r record;
    s text;
    ticket bigint;
    seen bigint;
    answer text;
BEGIN
    FOR r IN SELECT v.verb, t.state, row_number() OVER () AS n
             FROM unnest('{not known,awaiting_approval,rejected,prepared,released,prepared again,blocked,sending,sending again,lease ended,uncertain,looked up,late happened,happened,not_happened,cancelled,given up}'::text[]) WITH ORDINALITY t (state, to_),
                  unnest('{"submit, the same","submit, other content",approve,approve_in_advance,reject,revoke_approval,cancel,claim send,claim resend,claim look,extend,release,sweep,outcome happened,"outcome not_happened, proven","outcome not_happened, unproven",outcome uncertain,older attempt happened,lookup found,lookup absent,lookup unknown,decide found,decide absent,retry,abandon,compensate}'::text[]) WITH ORDINALITY v (verb, vo)
             ORDER BY v.vo, t.to_
    LOOP
        s := 'states ' || r.n;
        ticket := states_bring(s, r.state);
        seen := (SELECT coalesce(max(event_id), 0) FROM extaction.timeline t WHERE t.scope = s);
        SELECT * INTO before FROM states_stands(s);
        INSERT INTO states_found_before VALUES (r.state, before.says, before.list);
        answer := states_call(s, r.verb, ticket);
        INSERT INTO states_found
        SELECT r.state, r.verb, answer, CASE WHEN a.says = before.says THEN '=' ELSE a.says END,
               CASE WHEN a.list = before.list THEN '=' ELSE a.list END,
               coalesce((SELECT string_agg(t.kind, ' + ' ORDER BY t.event_id) FROM extaction.timeline t
                         WHERE t.scope = s AND t.intent_id = 'x' AND t.event_id > seen), '–')
        FROM states_stands(s) a;
        -- nothing of it is in the way of the next
        DELETE FROM extaction.worklist w WHERE w.scope = s;
        COMMIT;
    END LOOP;
END $$;
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

DROP PROCEDURE states_play;
DROP FUNCTION states_stands, states_call, states_bring, states_later;
DELETE FROM extaction.actions WHERE action = 'states_do';
