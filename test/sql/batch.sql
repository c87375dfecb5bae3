--
-- batch: one approval over a whole list
--
SET client_min_messages = warning;
CREATE ROLE regress_batch_program;
CREATE ROLE regress_batch_anna;
CREATE ROLE regress_batch_bert;
CREATE ROLE regress_batch_web;
CREATE ROLE regress_batch_worker;
SELECT extaction.create_scope('shop');
SELECT extaction.create_scope('batch');
SELECT count(extaction.grant_access(s, r, c)) FROM (VALUES
    ('shop', 'regress_batch_program', 'submitter'), ('shop', 'regress_batch_anna', 'approver'),
    ('batch', 'regress_batch_program', 'submitter'), ('batch', 'regress_batch_anna', 'approver'), ('batch', 'regress_batch_anna', 'submitter'),
    ('batch', 'regress_batch_bert', 'approver'), ('batch', 'regress_batch_worker', 'worker')) v (s, r, c);
SELECT extaction.grant_access('batch', 'regress_batch_web', c, 'users of the web application') FROM unnest('{submitter,approver}'::text[]) c;
INSERT INTO extaction.contracts (provider, operation, version, key_carrier, retention, on_expired, on_replay, on_mismatch,
    on_concurrent, stores_failures, proves_not_happened, lookup, absence_is_proof, lookup_lag, late_arrival_bound)
VALUES ('batch', 'send', 1, 'header', '24 hours', 'executes', 'first_result', 'rejects', 'rejects', 'all', '{400}', 'by_key', true, '0', '0');
INSERT INTO extaction.actions (action, provider, operation, approvals_required, self_approval, destination_pattern, call_timeout)
VALUES ('send_mail', 'batch', 'send', 1, false, NULL, '10 s'), ('batch_two', 'batch', 'send', 2, false, NULL, '10 s'),
       ('batch_home', 'batch', 'send', 1, true, '@example\.org$', '10 s');

-- n items: m1 to m1@example.org with {"n": 1}, and on
CREATE FUNCTION regress_batch_items(n int, first int DEFAULT 1) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_agg(jsonb_build_object('intent_id', 'm' || i, 'destination', format('m%s@example.org', i), 'payload', jsonb_build_object('n', i)) ORDER BY i)
    FROM generate_series(first, first + n - 1) i
$$;
-- the same list, with intents named after it
CREATE FUNCTION regress_batch_list(batch_id text, n int DEFAULT 3) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_agg(jsonb_set(t.item, '{intent_id}', to_jsonb($1 || '/' || (t.item ->> 'intent_id'))) ORDER BY t.n)
    FROM jsonb_array_elements(regress_batch_items($2)) WITH ORDINALITY t (item, n)
$$;
-- submits that list
CREATE FUNCTION regress_batch_submit(batch_id text, action text DEFAULT 'send_mail', n int DEFAULT 3, approval_id text DEFAULT NULL, actor text DEFAULT NULL)
RETURNS TABLE (status text, gate text, total bigint, created bigint, replayed bigint, conflict bigint) LANGUAGE sql AS $$
    SELECT status, gate, total, created, replayed, conflict
    FROM extaction.submit_batch('batch', $1, $2, '{"subject": "Friday"}', regress_batch_list($1, $3), $4, actor => $5)
$$;
-- the digest of the last one that was refused
CREATE FUNCTION regress_batch_waits(batch_id text) RETURNS text LANGUAGE sql AS $$
    SELECT request_digest FROM extaction.todo WHERE scope = 'batch' AND todo.batch_id = $1 AND state = 'awaiting_approval'
$$;
-- where its items stand
CREATE FUNCTION regress_batch_stands(batch_id text) RETURNS TABLE (intent_id text, status text, state text, attempt bigint) LANGUAGE sql AS $$
    SELECT intent_id, status, state, attempt FROM extaction.batch_items WHERE scope = 'batch' AND batch_items.batch_id = $1 ORDER BY position
$$;

-- only what it asked for is due
CREATE FUNCTION regress_batch_due(batch_id text) RETURNS bigint LANGUAGE sql AS $$
    WITH u AS (UPDATE extaction.worklist SET due_at = CASE WHEN intent_id LIKE batch_id || '/%' THEN now() ELSE 'infinity' END
               WHERE scope = 'batch' AND state = 'prepared' RETURNING due_at)
    SELECT count(*) FROM u WHERE due_at < 'infinity'
$$;

--
-- The digest: what any JCS library and any sha256 make of it
--
SET ROLE regress_batch_program;
SELECT status, gate, total, created, request_digest
FROM extaction.submit_batch('shop', 'w48', 'send_mail', '{"subject": "Friday"}',
    '[{"intent_id": "m1", "destination": "a@example.org", "payload": {"name": "A"}}, {"intent_id": "m2", "destination": "b@example.org", "payload": {"name": "B"}}]');
-- an item's digest is that of the request it is on its own
SELECT encode(sha256(convert_to(extaction.canonical(jsonb_build_object(
    'v', 'extaction.batch.v1', 'scope', 'shop', 'batch_id', 'w48', 'action', 'send_mail',
    'payload_digest', encode(extaction.digest('{"subject": "Friday"}'), 'hex'),
    'items', jsonb_build_array(
        jsonb_build_array('m1', extaction.request_digest('shop', 'm1', 'send_mail', 'a@example.org', '{"subject": "Friday", "name": "A"}')),
        jsonb_build_array('m2', extaction.request_digest('shop', 'm2', 'send_mail', 'b@example.org', '{"subject": "Friday", "name": "B"}'))))), 'UTF8')), 'hex') AS from_outside;
-- one word, one recipient, one place in the order, one name: each another list
SELECT what, request_digest <> '39f5f43fc13862d3064e2eb4081d4efdd00e8bae468b4f7e2d2a3ab4a43782e4' AS other_digest
FROM (VALUES
    ('word', 'w48', '{"subject": "Monday"}'::jsonb, '[{"intent_id": "m1", "destination": "a@example.org", "payload": {"name": "A"}}, {"intent_id": "m2", "destination": "b@example.org", "payload": {"name": "B"}}]'::jsonb),
    ('recipient', 'w48', '{"subject": "Friday"}', '[{"intent_id": "m1", "destination": "a@example.org", "payload": {"name": "A"}}, {"intent_id": "m2", "destination": "b@example.org", "payload": {"name": "B"}}, {"intent_id": "m3", "destination": "c@example.org"}]'),
    ('address', 'w48', '{"subject": "Friday"}', '[{"intent_id": "m1", "destination": "a@example.org", "payload": {"name": "A"}}, {"intent_id": "m2", "destination": "b@example.com", "payload": {"name": "B"}}]'),
    ('order', 'w48', '{"subject": "Friday"}', '[{"intent_id": "m2", "destination": "b@example.org", "payload": {"name": "B"}}, {"intent_id": "m1", "destination": "a@example.org", "payload": {"name": "A"}}]'),
    ('name', 'w49', '{"subject": "Friday"}', '[{"intent_id": "m1", "destination": "a@example.org", "payload": {"name": "A"}}, {"intent_id": "m2", "destination": "b@example.org", "payload": {"name": "B"}}]'),
    ('null', 'w48', '{"subject": "Friday"}', '[{"intent_id": "m1", "destination": "a@example.org", "payload": {"name": "A", "cc": null}}, {"intent_id": "m2", "destination": "b@example.org", "payload": {"name": "B"}}]')) v (what, batch_id, payload, items),
    extaction.submit_batch('shop', batch_id, 'send_mail', payload, items);
-- what waits is the last that was asked for
SELECT batch_id, gate, count(*) FROM extaction.todo WHERE scope = 'shop' GROUP BY 1, 2 ORDER BY 1;

--
-- Malformed lists: nothing of them is taken, and the error names the place
--
\set call 'SELECT extaction.submit_batch(''batch'', ''bad'', ''send_mail'', ''{}'', '
SELECT what, f.state, f.path, f.message, f.detail
FROM (VALUES
    ('not a list', $$'{}'$$), ('not a list', $$'"x"'$$), ('not a list', $$'1'$$), ('null', 'NULL'), ('JSON null', $$'null'$$), ('nobody', $$'[]'$$),
    ('encoded twice', $$to_jsonb('{"intent_id": "m1"}'::text)$$),
    ('not an object', $$'["m1"]'$$), ('a list', $$'[[]]'$$), ('null', $$'[null]'$$),
    ('no name', $$'[{"destination": "a"}]'$$), ('no destination', $$jsonb_set(regress_batch_items(18), '{17}', '{"intent_id": "x"}')$$),
    ('a number', $$jsonb_set(regress_batch_items(18), '{17,destination}', '7')$$), ('an object', $$jsonb_set(regress_batch_items(2), '{1,intent_id}', '{}')$$),
    ('empty', $$jsonb_set(regress_batch_items(2), '{1,intent_id}', '""')$$), ('too long', $$jsonb_set(regress_batch_items(2), '{0,destination}', to_jsonb(repeat('x', 256)))$$),
    ('control character', $$jsonb_set(regress_batch_items(2), '{0,destination}', '"a\nb"')$$),
    ('not NFC', $$jsonb_set(regress_batch_items(2), '{0,intent_id}', '"e\u0301"')$$),
    ('unknown member', $$jsonb_set(regress_batch_items(3), '{2,colour}', '"red"')$$),
    ('payload no object', $$jsonb_set(regress_batch_items(3), '{2,payload}', '[]')$$), ('payload null', $$jsonb_set(regress_batch_items(3), '{2,payload}', 'null')$$),
    ('payload encoded twice', $$jsonb_set(regress_batch_items(3), '{2,payload}', to_jsonb('{"n": 1}'::text))$$),
    ('a lossy number', $$jsonb_set(regress_batch_items(3), '{2,payload}', '{"a": [1, 9007199254740993]}')$$),
    ('twice', $$jsonb_set(regress_batch_items(18), '{17,intent_id}', '"m5"')$$), ('thrice', $$jsonb_set(jsonb_set(regress_batch_items(9), '{2,intent_id}', '"m8"'), '{5,intent_id}', '"m8"')$$)) v (what, items),
    story.fault(:'call' || items || ')') f;
SELECT what, f.state, f.path, f.message, f.detail
FROM (VALUES ('null', 'NULL'), ('JSON null', $$'null'$$), ('not an object', $$'[1]'$$), ('a string', $$'"x"'$$), ('encoded twice', $$to_jsonb('{"subject": "x"}'::text)$$),
             ('a lossy number', $$'{"price": 0.1000000000000000055}'$$)) v (what, payload),
    story.fault('SELECT extaction.submit_batch(''batch'', ''bad'', ''send_mail'', ' || payload || ', regress_batch_items(1))') f;
SELECT f.state, f.path FROM (VALUES ('NULL, ''b'', ''send_mail'''), ('''batch'', NULL, ''send_mail'''), ('''batch'', ''b'', NULL'), ('''batch'', '''', ''send_mail''')) v (names),
    story.fault('SELECT extaction.submit_batch(' || names || ', ''{}'', regress_batch_items(1))') f;
RESET ROLE;
SET extaction.max_document_size = '2kB';
SET ROLE regress_batch_program;
SELECT f.state, f.path, f.message FROM story.fault('SELECT extaction.submit_batch(''batch'', ''bad'', ''send_mail'', ''{}'', regress_batch_items(60))') f;
SELECT f.state, f.path, f.message FROM story.fault('SELECT extaction.submit_batch(''batch'', ''bad'', ''send_mail'', jsonb_build_object(''text'', repeat(''x'', 3000)), regress_batch_items(1))') f;
RESET ROLE;
RESET extaction.max_document_size;
SELECT count(*) AS nothing FROM extaction.timeline WHERE scope = 'batch';

--
-- A stranger, and an action that nobody knows
--
SELECT extaction.create_scope('elsewhere');
SET ROLE regress_batch_program;
SELECT status, gate, total, created, needs FROM extaction.submit_batch('elsewhere', 'b', 'send_mail', '{}', regress_batch_items(2));
SELECT status, gate, total, created, needs FROM extaction.submit_batch('no such scope', 'b', 'send_mail', '{}', regress_batch_items(2));
SELECT * FROM regress_batch_submit('unknown', 'batch_none');
SELECT for_whom, next_step, gate FROM extaction.todo WHERE scope = 'batch' AND batch_id = 'unknown';

--
-- Blocked: one row for the whole list, with its count, its digest and a sample
--
SELECT * FROM regress_batch_submit('b1', n => 5);
-- once more: nothing is appended
SELECT * FROM regress_batch_submit('b1', n => 5);
SELECT kind, intent_id, batch_id, detail ->> 'gate' AS gate FROM extaction.timeline WHERE scope = 'batch' AND batch_id = 'b1';
SELECT count(*) AS intents FROM extaction.intent_status WHERE scope = 'batch';
SELECT intent_id, batch_id, state, for_whom, action, gate, next_step, batch_items, sample, request_digest = regress_batch_waits('b1') AS list_digest
FROM extaction.todo WHERE scope = 'batch' AND batch_id = 'b1';
SET ROLE regress_batch_anna;
SELECT intent_id, batch_id, action, payload, requested_by, approvals, required, batch_items, sample, reversible, rejected_before
FROM extaction.pending_approvals WHERE scope = 'batch' AND batch_id = 'b1';

--
-- Approved: the whole list goes on, in the name of who asked for it
--
SELECT status, approvals, required, state FROM extaction.approve('batch', regress_batch_waits('b1'));
SELECT * FROM regress_batch_stands('b1');
SELECT DISTINCT requester, state FROM extaction.intent_status WHERE scope = 'batch' AND batch_id = 'b1';
SELECT kind, count(*) FROM extaction.timeline WHERE scope = 'batch' AND batch_id = 'b1' GROUP BY 1 ORDER BY 1;
SELECT count(*) AS waits FROM extaction.todo WHERE scope = 'batch' AND batch_id = 'b1';
-- the same list again: a replay, nothing is done; another under its name: a conflict
SET ROLE regress_batch_program;
SELECT * FROM regress_batch_submit('b1', n => 5);
SELECT * FROM regress_batch_submit('b1', n => 6);
SELECT count(*) AS items FROM extaction.intent_status WHERE scope = 'batch' AND batch_id = 'b1';
SELECT kind, count(*) FROM extaction.timeline WHERE scope = 'batch' AND batch_id = 'b1' GROUP BY 1 ORDER BY 1;
-- and so in a transaction that may write nothing
BEGIN READ ONLY;
SELECT * FROM regress_batch_submit('b1', n => 5);
COMMIT;

--
-- An item's payload: the shared one, with the item's own members laid over it, not merged deeper; null is a value
--
SET ROLE regress_batch_anna;
\set items '[{"intent_id": "p/own", "destination": "d", "payload": {"text": {"en": "Hello"}, "cc": null}}, {"intent_id": "p/none", "destination": "d"}, {"intent_id": "p/empty", "destination": "d", "payload": {}}]'
SELECT status FROM extaction.approve_batch_in_advance('batch', 'payloads', 'send_mail', '{"text": {"en": "Hi", "de": "Hallo"}, "cc": "x", "bcc": null}', :'items');
SET ROLE regress_batch_program;
SELECT status, created FROM extaction.submit_batch('batch', 'payloads', 'send_mail', '{"text": {"en": "Hi", "de": "Hallo"}, "cc": "x", "bcc": null}', :'items');
SELECT i.intent_id, extaction.canonical_request('batch', i.intent_id),
       encode(sha256(convert_to(extaction.canonical_request('batch', i.intent_id), 'UTF8')), 'hex') = i.request_digest AS proves
FROM extaction.intent_status i WHERE scope = 'batch' AND batch_id = 'payloads' ORDER BY 1;

--
-- Bound before: by a submit of its own, with the same content or another; by another list
--
SET ROLE regress_batch_anna;
SELECT a.status FROM (VALUES ('mixed/m1', 1), ('mixed/m2', 22)) v (i, n), extaction.approve_in_advance('batch', i, 'send_mail',
    split_part(i, '/', 2) || '@example.org', jsonb_build_object('subject', 'Friday', 'n', n)) a;
SET ROLE regress_batch_program;
SELECT s.status FROM (VALUES ('mixed/m1', 1), ('mixed/m2', 22), ('mixed/m3', 3)) v (i, n), extaction.submit('batch', i, 'send_mail',
    split_part(i, '/', 2) || '@example.org', jsonb_build_object('subject', 'Friday', 'n', n)) s;
SELECT * FROM regress_batch_submit('mixed');
SET ROLE regress_batch_anna;
SELECT status FROM extaction.approve('batch', regress_batch_waits('mixed'));
SELECT * FROM regress_batch_stands('mixed');
-- m3 had waited on its own: the list has brought it on, so nobody is asked any more
SELECT count(*) AS waits FROM extaction.pending_approvals WHERE scope = 'batch' AND intent_id = 'mixed/m3';
SELECT state, next_step, gate, batch_id FROM extaction.find('batch', 'mixed/m3');
-- what was bound first stays as it is
SELECT intent_id, batch_id, state FROM extaction.intent_status WHERE scope = 'batch' AND intent_id LIKE 'mixed/%' ORDER BY 1;
SELECT total, prepared, elsewhere FROM extaction.batch_status WHERE scope = 'batch' AND batch_id = 'mixed';
SET ROLE regress_batch_program;
SELECT * FROM regress_batch_submit('mixed');
-- an item on its own, after the list: a replay with its key, or a conflict that says where
SELECT status, state, batch_id, idempotency_key IS NOT NULL AS has_key FROM extaction.submit('batch', 'mixed/m3', 'send_mail', 'm3@example.org', '{"subject": "Friday", "n": 3}');
SELECT status, state, batch_id, needs FROM extaction.submit('batch', 'mixed/m3', 'send_mail', 'm3@example.org', '{"subject": "Friday", "n": 4}');
-- another list with the same items
SELECT status, gate FROM extaction.submit_batch('batch', 'mixed again', 'send_mail', '{"subject": "Friday"}', regress_batch_list('mixed', 4));
SET ROLE regress_batch_anna;
SELECT status FROM extaction.approve('batch', regress_batch_waits('mixed again'));
SELECT * FROM regress_batch_stands('mixed again');
SELECT total, prepared, elsewhere FROM extaction.batch_status WHERE scope = 'batch' AND batch_id = 'mixed again';

--
-- Approved in advance; a named approval; an approval of another list
--
SELECT status, approvals, state, approval_id FROM extaction.approve_batch_in_advance('batch', 'b2', 'send_mail', '{"subject": "Friday"}', regress_batch_list('b2'), approval_id => 'yes b2');
SELECT status FROM extaction.approve_batch_in_advance('batch', 'b2', 'send_mail', '{"subject": "Friday"}', regress_batch_list('b2'));
SELECT status FROM extaction.approve_batch_in_advance('batch', 'b3', 'send_mail', '{"subject": "Friday"}', regress_batch_list('b3'), approval_id => 'yes b3');
SET ROLE regress_batch_program;
SELECT status, gate, created FROM extaction.submit_batch('batch', 'b2', 'send_mail', '{"subject": "Friday"}', regress_batch_list('b2'), 'yes b3');
SELECT * FROM regress_batch_submit('b2', n => 4);
SELECT * FROM regress_batch_submit('b2', approval_id => 'yes b2');
-- an approval of the list is none of an item on its own
SELECT status, gate FROM extaction.submit('batch', 'b3/m1', 'send_mail', 'm1@example.org', '{"subject": "Friday", "n": 1}', 'yes b3');
SELECT status FROM extaction.cancel('batch', 'b3/m1', 'only a try');
SELECT * FROM regress_batch_submit('b3');
-- with a time: none goes out before it
SET ROLE regress_batch_anna;
SELECT status FROM extaction.approve_batch_in_advance('batch', 'later', 'send_mail', '{"subject": "Friday"}', regress_batch_list('later'));
SET ROLE regress_batch_program;
SELECT status, created FROM extaction.submit_batch('batch', 'later', 'send_mail', '{"subject": "Friday"}', regress_batch_list('later'), not_before => now() + '1 day');
SELECT DISTINCT due_at - now() > '23 h' AS tomorrow FROM extaction.intent_status WHERE scope = 'batch' AND batch_id = 'later';
-- also if it waited before; what the program says of an actor is recorded
SELECT status FROM extaction.submit_batch('batch', 'later 2', 'send_mail', '{"subject": "Friday"}', regress_batch_list('later 2'), not_before => now() + '1 day', actor => 'a claim');
SET ROLE regress_batch_anna;
SELECT status FROM extaction.approve('batch', regress_batch_waits('later 2'));
SELECT DISTINCT due_at - now() > '23 h' AS tomorrow FROM extaction.intent_status WHERE scope = 'batch' AND batch_id = 'later 2';
SELECT DISTINCT role, actor FROM extaction.timeline WHERE scope = 'batch' AND batch_id = 'later 2' AND kind = 'prepared';

--
-- Who may say yes: not who asked; two of two; each person of a role that vouches
--
SELECT * FROM regress_batch_submit('mine');
SELECT status, approvals, state FROM extaction.approve('batch', regress_batch_waits('mine'));
SELECT count(*) AS on_my_list FROM extaction.pending_approvals WHERE batch_id = 'mine';
SET ROLE regress_batch_bert;
SELECT status, approvals, state FROM extaction.approve('batch', regress_batch_waits('mine'));
SET ROLE regress_batch_program;
SELECT * FROM regress_batch_submit('two', 'batch_two');
SET ROLE regress_batch_anna;
SELECT status, approvals, required, state, needs FROM extaction.approve('batch', regress_batch_waits('two'));
SET ROLE regress_batch_bert;
SELECT approvals, required, approved_by, gate FROM extaction.pending_approvals WHERE batch_id = 'two';
SELECT status, approvals, required, state FROM extaction.approve('batch', regress_batch_waits('two'));
SET ROLE regress_batch_web;
SELECT * FROM regress_batch_submit('vouched', 'batch_two');
SELECT * FROM regress_batch_submit('vouched', 'batch_two', actor => 'zoe');
SELECT status FROM extaction.approve('batch', regress_batch_waits('vouched'), actor => 'zoe');
SELECT status, approvals FROM extaction.approve('batch', regress_batch_waits('vouched'), actor => 'yan');
SELECT status, approvals, state FROM extaction.approve('batch', regress_batch_waits('vouched'), actor => 'xia');
SELECT DISTINCT requester, state FROM extaction.intent_status WHERE scope = 'batch' AND batch_id = 'vouched';

--
-- No
--
SET ROLE regress_batch_program;
SELECT * FROM regress_batch_submit('no');
SET ROLE regress_batch_anna;
SELECT status, state FROM extaction.reject('batch', regress_batch_waits('no'), 'too many');
SELECT count(*) AS waits FROM extaction.todo WHERE scope = 'batch' AND batch_id = 'no';
SET ROLE regress_batch_program;
SELECT status, gate, needs, created FROM extaction.submit_batch('batch', 'no', 'send_mail', '{"subject": "Friday"}', regress_batch_list('no'));
SELECT * FROM regress_batch_submit('no', n => 2);
SET ROLE regress_batch_anna;
SELECT batch_items, rejected_before FROM extaction.pending_approvals WHERE batch_id = 'no';
SELECT status FROM extaction.reject('batch', regress_batch_waits('no'), 'still too many');
SELECT status, needs FROM extaction.approve_batch_in_advance('batch', 'no', 'send_mail', '{"subject": "Friday"}', regress_batch_list('no'));
-- what is prepared already can only be taken back
SELECT request_digest FROM extaction.batch_status WHERE scope = 'batch' AND batch_id = 'b1' \gset
SELECT status, state, needs FROM extaction.reject('batch', :'request_digest', 'on second thought');

--
-- A list that another one took the place of
--
SET ROLE regress_batch_program;
SELECT request_digest AS first FROM extaction.submit_batch('batch', 'b4', 'send_mail', '{"subject": "Friday"}', regress_batch_list('b4', 3)) \gset
SELECT needs LIKE '%' || :'first' || '%' AS names_the_first FROM extaction.submit_batch('batch', 'b4', 'send_mail', '{"subject": "Friday"}', regress_batch_list('b4', 4));
SET ROLE regress_batch_anna;
SELECT status, needs LIKE '%' || regress_batch_waits('b4') || '%' AS names_the_other FROM extaction.approve('batch', :'first');
SELECT status FROM extaction.approve('batch', regress_batch_waits('b4'));
SELECT status FROM extaction.approve('batch', :'first');

--
-- Taken back: before anything went out, and after
--
SELECT status, state, detail FROM extaction.revoke_approval('batch', 'yes b2', 'no more');
RESET ROLE;
SELECT regress_batch_due('b2');
SET ROLE regress_batch_worker;
SELECT claimed, blocked FROM extaction.claim('w', 3, scope => 'batch') t;
SELECT * FROM regress_batch_stands('b2');
SELECT intent_id, batch_id, state, gate, for_whom, batch_items FROM extaction.todo WHERE scope = 'batch' AND state = 'blocked' ORDER BY 1;
-- one row for the approver, not one for each item
SET ROLE regress_batch_anna;
SELECT batch_id, intent_id, gate, batch_items FROM extaction.pending_approvals WHERE scope = 'batch' AND batch_id = 'b2';
SELECT status, state FROM extaction.approve('batch', (SELECT request_digest FROM extaction.pending_approvals WHERE batch_id = 'b2'));
SELECT * FROM regress_batch_stands('b2');
RESET ROLE;
SELECT regress_batch_due('b3');
SET ROLE regress_batch_worker;
SELECT claim_id FROM extaction.claim('w', 2, scope => 'batch') \gset
SELECT intent_id, batch_id, attempt, destination, payload_text FROM extaction.claimed(:claim_id) ORDER BY 1;
-- one of them never left
SELECT extaction.release(:claim_id, '{b3/m2}');
SET ROLE regress_batch_anna;
SELECT status, state, detail, needs FROM extaction.revoke_approval('batch', 'yes b3', 'no more');
SELECT * FROM regress_batch_stands('b3');

--
-- An approval that has ended
--
SELECT status, needs FROM extaction.approve_batch_in_advance('batch', 'ended', 'send_mail', '{"subject": "Friday"}', regress_batch_list('ended'), expires_at => now() - interval '1 s');
SET ROLE regress_batch_program;
SELECT * FROM regress_batch_submit('ended');
SET ROLE regress_batch_anna;
SELECT status, approvals, state FROM extaction.approve('batch', regress_batch_waits('ended'));

--
-- One destination that the action does not allow stops the whole list, and is named
--
SET ROLE regress_batch_program;
SELECT status, gate, needs, created FROM extaction.submit_batch('batch', 'home', 'batch_home', '{}',
    jsonb_set(regress_batch_items(20), '{17,destination}', '"m18@example.com"'));
SELECT batch_id, for_whom, gate, needs, batch_items FROM extaction.todo WHERE scope = 'batch' AND batch_id = 'home';
SET ROLE regress_batch_anna;
SELECT status, needs FROM extaction.approve('batch', regress_batch_waits('home'));
SELECT count(*) AS bound FROM extaction.intent_status WHERE scope = 'batch' AND action = 'batch_home';

--
-- One item withdrawn; the others go on
--
SET ROLE regress_batch_program;
SELECT status, state FROM extaction.cancel('batch', 'b1/m2', 'has left');
SELECT status FROM extaction.cancel('batch', 'b1/m2', 'has left');
SELECT * FROM regress_batch_stands('b1');
-- it stays withdrawn, also when the list is submitted again
SELECT * FROM regress_batch_submit('b1', n => 5);
SELECT state FROM extaction.find('batch', 'b1/m2');

--
-- How far it is
--
RESET ROLE;
SELECT regress_batch_due('b1');
SET ROLE regress_batch_worker;
SELECT claimed FROM extaction.claim('w', 3, scope => 'batch');
SELECT r.intent_id, r.status, r.state FROM (VALUES ('m1', 'happened', '200'), ('m3', 'not_happened', '400'), ('m4', 'uncertain', 'timeout')) l (item, outcome, code),
    LATERAL extaction.record_outcome('batch', 'b1/' || item, 1, outcome, jsonb_build_object('code', code)) r;
SELECT total, prepared, sending, uncertain, blocked, happened, not_happened, elsewhere, first_sent_at <= last_sent_at AS sent, oldest_uncertain > last_sent_at AS oldest
FROM extaction.batch_status WHERE scope = 'batch' AND batch_id = 'b1';

--
-- All or nothing: a time-out in the middle leaves nothing behind
--
RESET ROLE;
CREATE TABLE regress_batch_large AS SELECT regress_batch_items(20000, 100001) AS items;
GRANT SELECT ON regress_batch_large TO PUBLIC;
SET ROLE regress_batch_anna;
SELECT status FROM regress_batch_large, extaction.approve_batch_in_advance('batch', 'large', 'send_mail', '{"subject": "Friday"}', items);
SET ROLE regress_batch_program;
\set SHOW_CONTEXT never
SET statement_timeout = '100 ms';
SELECT status FROM regress_batch_large, extaction.submit_batch('batch', 'large', 'send_mail', '{"subject": "Friday"}', items);
RESET statement_timeout;
SELECT count(*) AS bound FROM extaction.intent_status WHERE scope = 'batch' AND batch_id = 'large';
SELECT count(*) AS known FROM extaction.batch_status WHERE scope = 'batch' AND batch_id = 'large';
SELECT status, total, created FROM regress_batch_large, extaction.submit_batch('batch', 'large', 'send_mail', '{"subject": "Friday"}', items);
SELECT status, total, replayed FROM regress_batch_large, extaction.submit_batch('batch', 'large', 'send_mail', '{"subject": "Friday"}', items);

-- the facts agree with each other
RESET ROLE;
SELECT * FROM extaction.verify() WHERE scope IN ('batch', 'shop') OR scope IS NULL;

DROP TABLE regress_batch_large;
DROP FUNCTION regress_batch_items, regress_batch_list, regress_batch_submit, regress_batch_waits, regress_batch_stands, regress_batch_due;
SELECT count(extaction.revoke_access(scope, member_name, capability)) FROM extaction.scope_members WHERE member_name LIKE 'regress\_batch\_%';
DELETE FROM extaction.actions WHERE action IN ('send_mail', 'batch_two', 'batch_home');
DROP ROLE regress_batch_program, regress_batch_anna, regress_batch_bert, regress_batch_web, regress_batch_worker;
