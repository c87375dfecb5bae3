--
-- erasing: redact, redact_older_than
--
-- Personal data can be erased; digests, keys and events stay.  So an erased
-- intent is still replayed, another content under its name is still a
-- conflict, verify() still holds, and nothing goes out blank.
--
SET client_min_messages = warning;
\set SHOW_CONTEXT never
\pset null '-'
CREATE ROLE regress_erase_owner;
CREATE ROLE regress_erase_program;
SELECT extaction.create_scope('erase'), extaction.create_scope('erase-2');
SELECT count(extaction.grant_access('erase', r, c)) FROM (VALUES ('regress_erase_owner', 'owner'), ('regress_erase_program', 'submitter'), ('regress_erase_program', 'worker')) v (r, c);
INSERT INTO extaction.contracts (provider, operation, version, key_carrier, retention, on_expired, on_replay, on_mismatch,
    on_concurrent, stores_failures, proves_not_happened, lookup, absence_is_proof, lookup_lag, late_arrival_bound)
VALUES ('erase-mailer', 'send', 1, 'header', '24 hours', 'executes', 'first_result', 'rejects', 'rejects', 'all', '{400}', 'by_key', true, '0', '0');
INSERT INTO extaction.actions (action, provider, operation, self_approval, call_timeout, retry_delay, destination_pattern)
VALUES ('erase_mail', 'erase-mailer', 'send', true, '10 s', '0', '@example\.org$');

-- asks for something that is approved already; the same again is the same
CREATE FUNCTION regress_erase_ask(intent_id text, secret text DEFAULT 'Ada''s cancer', scope text DEFAULT 'erase') RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM extaction.approve_in_advance(scope, intent_id, 'erase_mail', 'ada@example.org', jsonb_build_object('body', secret));
    RETURN (SELECT concat_ws(' ', r.status, r.state, r.next_step) FROM extaction.submit(scope, intent_id, 'erase_mail', 'ada@example.org', jsonb_build_object('body', secret)) r);
END $$;
-- claims it and tells how it went
CREATE FUNCTION regress_erase_send(intent_id text, outcome text, evidence jsonb) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM extaction.claim('w', 10, scope => 'erase');
    RETURN (SELECT concat_ws(' ', r.status, r.state, r.next_step) FROM extaction.record_outcome('erase', intent_id, 1, outcome, evidence) r);
END $$;
CREATE FUNCTION regress_erase(intent_id text, OUT status text, OUT state text, OUT next_step text, OUT needs text)
LANGUAGE sql AS $$ SELECT status, state, next_step, needs FROM extaction.redact('erase', intent_id, 'she asked for it') $$;
-- in which tables a word still stands
CREATE FUNCTION regress_erase_where(word text) RETURNS TABLE (name text, n bigint)
LANGUAGE plpgsql AS $$
BEGIN
    FOR name IN SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'extaction'::regnamespace AND c.relkind = 'r' ORDER BY 1
    LOOP
        EXECUTE format('SELECT count(*) FROM extaction.%I t WHERE position($1 IN t::text) > 0 AND to_jsonb(t) ->> ''scope'' LIKE ''erase%%''', name) INTO n USING word;
        IF n > 0 THEN RETURN NEXT; END IF;
    END LOOP;
END $$;

--
-- One that happened
--
SELECT regress_erase_ask('done'), regress_erase_send('done', 'happened', '{"code": "202", "to": "ada@example.org"}');
SELECT * FROM regress_erase_where('ada@example.org') UNION ALL SELECT * FROM regress_erase_where('cancer');
SELECT idempotency_key AS key, request_digest AS digest FROM extaction.find('erase', 'done') \gset
-- the owner may, for a reason
SET ROLE regress_erase_program;
SELECT state FROM story.fault($$SELECT extaction.redact('erase', 'done', 'no')$$);
SELECT state FROM story.fault($$SELECT extaction.redact_older_than('erase', '1 day')$$);
SET ROLE regress_erase_owner;
SELECT state, path FROM story.fault($$SELECT extaction.redact('erase', 'done', NULL)$$);
SELECT state, message FROM story.fault($$SELECT extaction.redact('erase-2', 'done', 'x')$$);
SELECT * FROM regress_erase('done');
SELECT * FROM regress_erase('done');
SELECT * FROM regress_erase('unheard of');
RESET ROLE;
SELECT * FROM regress_erase_where('ada@example.org') UNION ALL SELECT * FROM regress_erase_where('cancer');
SELECT kind, detail FROM extaction.timeline WHERE scope = 'erase' AND intent_id = 'done';
-- it is still known, by the same key and digest
SELECT status, state, idempotency_key = :'key' AS same_key, request_digest = :'digest' AS same_digest FROM extaction.find('erase', 'done');
SELECT regress_erase_ask('done');
SELECT status, state, needs FROM extaction.submit('erase', 'done', 'erase_mail', 'ada@example.org', '{"body": "other"}');
SELECT extaction.canonical_request('erase', 'done');
SELECT destination, state FROM extaction.intent_status WHERE scope = 'erase' AND intent_id = 'done';
-- the same answer again is the same answer
SELECT status, state FROM extaction.record_outcome('erase', 'done', 1, 'happened', '{"code": "202", "to": "ada@example.org"}');
SELECT * FROM extaction.verify() WHERE scope = 'erase';
-- what the approval above kept anew can be erased anew
SELECT status FROM regress_erase('done');
SELECT * FROM regress_erase_where('cancer');

--
-- What may still go out is not erased
--
SELECT regress_erase_ask('prepared');
SELECT * FROM regress_erase('prepared');
SELECT claimed FROM extaction.claim('w', 1, scope => 'erase') \gset
SELECT * FROM regress_erase('prepared');
SELECT status FROM extaction.record_outcome('erase', 'prepared', 1, 'uncertain', '{"code": "timeout"}');
SELECT status FROM extaction.submit('erase', 'waits', 'erase_mail', 'ada@example.org', '{"body": "Ada''s cancer"}');
SELECT * FROM regress_erase('waits');
SELECT status FROM extaction.reject('erase', (SELECT request_digest FROM extaction.todo WHERE scope = 'erase' AND intent_id = 'waits'), 'no');
SELECT * FROM regress_erase('waits');
-- the rejection is still known, and the digest cannot be approved any more
SELECT status, gate FROM extaction.submit('erase', 'waits', 'erase_mail', 'ada@example.org', '{"body": "Ada''s cancer"}');
SELECT state, message FROM story.fault(format('SELECT extaction.approve(''erase'', %L)', extaction.request_digest('erase', 'waits', 'erase_mail', 'ada@example.org', '{"body": "Ada''s cancer"}')));

--
-- An uncertain one can be, and is never sent again
--
SELECT step FROM extaction.next_step('erase', 'prepared');
SELECT status, state, next_step FROM regress_erase('prepared');
SELECT step, reason FROM extaction.next_step('erase', 'prepared');
SELECT claimed FROM extaction.claim('w', 1, 'resend', scope => 'erase');
SELECT claim_id, claimed FROM extaction.claim('w', 1, 'look', scope => 'erase') \gset
SELECT step, destination, payload, payload_text, idempotency_key IS NOT NULL AS key FROM extaction.claimed(:claim_id);
-- absent: it is closed, where another would be prepared again
UPDATE extaction.worklist SET quiet_from = quiet_from - interval '1 hour' WHERE scope = 'erase';
SELECT status, state, next_step FROM extaction.record_lookup('erase', 'prepared', 'absent', '{"code": "404"}', clock_timestamp());
SELECT status, state, needs FROM extaction.retry('erase', 'prepared', 'again');
SELECT * FROM extaction.verify() WHERE scope = 'erase';

--
-- Candidates: the revision that went out
--
SELECT extaction.observe_source('erase', 'letter', '1');
SELECT status, revision FROM extaction.propose('erase', 'text', '{"body": "Ada''s cancer"}', 'letter', '1');
SELECT status FROM extaction.submit('erase', 'from text', 'erase_mail', 'ada@example.org', NULL, NULL, 'text');
SELECT status FROM extaction.approve('erase', (SELECT request_digest FROM extaction.todo WHERE scope = 'erase' AND intent_id = 'from text'));
SELECT regress_erase_send('from text', 'happened', '{"id": 1}');
SELECT status FROM regress_erase('from text');
SELECT * FROM regress_erase_where('cancer');
SELECT revision, content, digest = extaction.digest('{"body": "Ada''s cancer"}') AS same_digest FROM extaction.candidates WHERE scope = 'erase';
SELECT state, message, hint FROM story.fault($$SELECT extaction.submit('erase', 'more', 'erase_mail', 'ada@example.org', NULL, NULL, 'text')$$);
SELECT status, revision FROM extaction.propose('erase', 'text', '{"body": "Ada''s cancer"}', 'letter', '1');
SELECT state, path FROM story.fault($$SELECT extaction.propose('erase', 'nothing', 'null', 'letter', '1')$$);
SELECT * FROM extaction.verify() WHERE scope = 'erase';
-- somebody who blanks without saying so is found
BEGIN;
ALTER TABLE extaction.candidates DISABLE TRIGGER append_only;
UPDATE extaction.candidates SET content = 'null' WHERE scope = 'erase';
SELECT what, detail FROM extaction.verify() WHERE scope = 'erase';
ROLLBACK;

--
-- Lists
--
SELECT status, created FROM extaction.submit_batch('erase', 'w48', 'erase_mail', '{"subject": "Friday"}',
    '[{"intent_id": "m1", "destination": "ada@example.org", "payload": {"name": "Ada"}}, {"intent_id": "m2", "destination": "bob@example.org", "payload": {"name": "Bob"}}]');
SELECT status FROM extaction.approve('erase', (SELECT request_digest FROM extaction.todo WHERE scope = 'erase' AND batch_id = 'w48'));
SELECT claimed FROM extaction.claim('w', 2, scope => 'erase');
SELECT status FROM extaction.record_outcome('erase', 'm1', 1, 'happened', '{"id": 1}');
SELECT status FROM regress_erase('m1');
SELECT * FROM regress_erase_where('"Ada"');
SELECT position, intent_id, destination, status, state FROM extaction.batch_items WHERE scope = 'erase';
-- the list is still the list that was approved
SELECT status, created, replayed, conflict FROM extaction.submit_batch('erase', 'w48', 'erase_mail', '{"subject": "Friday"}',
    '[{"intent_id": "m1", "destination": "ada@example.org", "payload": {"name": "Ada"}}, {"intent_id": "m2", "destination": "bob@example.org", "payload": {"name": "Bob"}}]');
SELECT payload #> '{items,0,digest}' = to_jsonb(extaction.request_digest('erase', 'm1', 'erase_mail', 'ada@example.org', '{"subject": "Friday", "name": "Ada"}')) AS same_digest
FROM extaction.requests WHERE scope = 'erase' AND kind = 'batch';
-- and still can be revoked or approved again, for those that are left
SELECT status FROM extaction.revoke_approval('erase', (SELECT approval_id FROM extaction.batch_status WHERE scope = 'erase'), 'stop');
SELECT status FROM extaction.approve('erase', (SELECT request_digest FROM extaction.batch_status WHERE scope = 'erase'));
-- with the last item what they shared goes too
SELECT status FROM extaction.record_outcome('erase', 'm2', 1, 'happened', '{"id": 2}');
SELECT status FROM regress_erase('m2');
SELECT * FROM regress_erase_where('Friday');
SELECT payload - 'items' AS rest, payload ->> 'payload_digest' = encode(extaction.digest('{"subject": "Friday"}'), 'hex') AS same_digest
FROM extaction.requests WHERE scope = 'erase' AND kind = 'batch';
SELECT * FROM extaction.verify() WHERE scope = 'erase';

--
-- The first chapter's tasks
--
SELECT * FROM story.begins('erase-task');
SELECT status FROM extaction.approve_fake_task('erase-task', story.task('t', 'Call Ada about her cancer'));
SELECT status FROM extaction.submit_fake_task('erase-task', story.task('t', 'Call Ada about her cancer'));
SELECT status FROM extaction.redact('erase-task', 't', 'she asked for it');
SELECT * FROM regress_erase_where('Ada about');
SELECT status, provider_ref IS NOT NULL AS ref FROM extaction.submit_fake_task('erase-task', story.task('t', 'Call Ada about her cancer'));
SELECT status FROM extaction.submit_fake_task('erase-task', story.task('t', 'Call Bob'));
SELECT status, gate FROM extaction.submit_fake_task('erase-task', story.task('t2', 'Call Ada about her cancer'));
SELECT requests, executions, tasks FROM extaction.fake_task_counts WHERE scope = 'erase-task';
SELECT * FROM extaction.verify() WHERE scope = 'erase-task';

--
-- Whatever is older than
--
SELECT f.state, f.path FROM (VALUES ($$SELECT extaction.redact_older_than('erase', NULL)$$), ($$SELECT extaction.redact_older_than('erase', '-1 day')$$),
    ($$SELECT extaction.redact_older_than('erase', '1 day', 0)$$)) c (call), story.fault(c.call) f;
SELECT count(regress_erase_ask('old ' || n, 'secret ' || n)) FROM generate_series(1, 5) n;
SELECT claimed FROM extaction.claim('w', 5, scope => 'erase');
SELECT count(*) FROM generate_series(1, 3) n, extaction.record_outcome('erase', 'old ' || n, 1, 'happened', jsonb_build_object('id', n, 'of', 'secret'));
SELECT status FROM extaction.submit_batch('erase', 'never', 'erase_mail', '{"subject": "secret"}', '[{"intent_id": "n1", "destination": "ada@example.org"}]');
SELECT status FROM extaction.reject('erase', (SELECT request_digest FROM extaction.todo WHERE scope = 'erase' AND batch_id = 'never'), 'no');
SELECT extaction.set_wake_source('erase', 'mail'), extaction.wake('erase', 'mail', 'e1', 'secret');
-- nothing is that old
SELECT extaction.redact_older_than('erase', '1 day');
-- so many at most
SELECT extaction.redact_older_than('erase', '0', 2);
SELECT extaction.redact_older_than('erase', '0');
SELECT extaction.redact_older_than('erase', '0');
-- what is open, and what can still be submitted, is left
SELECT * FROM regress_erase_where('secret');
SELECT i.intent_id, w.state FROM extaction.intents i LEFT JOIN extaction.worklist w USING (scope, intent_id) WHERE i.scope = 'erase' AND i.payload::text ~ 'secret' ORDER BY 1;
SELECT extaction.wake('erase', 'mail', 'e1', 'secret'), extaction.wake('erase', 'mail', 'e1', 'other');
SELECT source, event_id, payload FROM extaction.next_wakeup('erase');
SELECT * FROM extaction.verify() WHERE scope = 'erase';
SELECT extaction.rebuild_worklist();

--
-- The pass through the guards is for these alone
--
SELECT state FROM story.fault('UPDATE extaction.intents SET payload = ''null''');
DO $$ BEGIN PERFORM extaction.redact('erase', 'old 1', 'x'); UPDATE extaction.intents SET payload = 'null'; EXCEPTION WHEN object_not_in_prerequisite_state THEN RAISE WARNING '%', SQLERRM; END $$;
BEGIN;
SAVEPOINT s;
SELECT extaction.redact('erase-2', NULL, 'x');
ROLLBACK TO s;
UPDATE extaction.intents SET payload = 'null';
ROLLBACK;
