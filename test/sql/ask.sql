--
-- ask: submit in every branch, cancel, and looking at what was asked
--
-- One mail action with one approver.  Whatever a program asks for is either
-- created, replayed, in conflict or blocked; expected things never raise.
--
SET client_min_messages = warning;
CREATE ROLE regress_ask_program;
CREATE ROLE regress_ask_approver;
CREATE ROLE regress_ask_stranger;
SELECT extaction.create_scope('ask');
SELECT extaction.grant_access('ask', 'regress_ask_program', 'submitter');
SELECT extaction.grant_access('ask', 'regress_ask_approver', 'approver');
-- the stranger is at home in another scope
SELECT extaction.create_scope('ask-elsewhere');
SELECT extaction.grant_access('ask-elsewhere', 'regress_ask_stranger', 'submitter');
INSERT INTO extaction.actions (action, provider, operation, destination_pattern)
VALUES ('ask_mail', 'ask-mailer', 'send', '^[^@]+@example\.org$');

--
-- Errors: what is no request at all
--
SET ROLE regress_ask_program;
-- no name
SELECT extaction.submit('ask', '', 'ask_mail', 'ada@example.org', '{}');
-- no payload and no candidate
SELECT extaction.submit('ask', 'm1', 'ask_mail', 'ada@example.org');
-- not an object
SELECT extaction.submit('ask', 'm1', 'ask_mail', 'ada@example.org', '[1]');
-- an object in a string: encoded twice by a driver
SELECT extaction.submit('ask', 'm1', 'ask_mail', 'ada@example.org', '"{\"subject\": \"hi\"}"');
-- a number that a double cannot show
SELECT extaction.submit('ask', 'm1', 'ask_mail', 'ada@example.org', '{"n": 9007199254740993}');
-- a candidate that nobody proposed
SELECT extaction.submit('ask', 'm1', 'ask_mail', 'ada@example.org', candidate_id => 'c0');
\echo :LAST_ERROR_SQLSTATE

--
-- A stranger learns nothing, and nothing is written
--
SET ROLE regress_ask_stranger;
-- blocked by scope_denied, for a scope that is there ...
SELECT status, state, gate, needs, request_digest, receipt_id FROM extaction.submit('ask', 'm1', 'ask_mail', 'ada@example.org', '{}');
-- ... and for one that is not: the same answer
SELECT status, state, gate, needs, request_digest, receipt_id FROM extaction.submit('ask-nowhere', 'm1', 'ask_mail', 'ada@example.org', '{}');
-- looking is refused in the same words, too
SELECT extaction.find('ask', 'm1');
SELECT extaction.find('ask-nowhere', 'm1');
SELECT extaction.next_step('ask', 'm1');
SELECT * FROM extaction.check_gates('ask', 'm1');
SELECT extaction.explain('ask', 'm1');
SELECT extaction.cancel('ask', 'm1', 'why not');
SELECT count(*) FROM extaction.sent_to('ask', 'ada@example.org');
SELECT count(*) FROM extaction.todo WHERE scope = 'ask';
RESET ROLE;
SELECT count(*) FROM extaction.timeline WHERE scope = 'ask';

--
-- Blocked: the request waits with its content, gate and needs
--
SET ROLE regress_ask_program;
-- nobody has approved it: blocked, awaiting approval, next step approve
SELECT status, state, next_step, gate, needs, receipt_id IS NOT NULL AS recorded
FROM extaction.submit('ask', 'm1', 'ask_mail', 'ada@example.org', '{"subject": "hi"}');
-- the same content again appends nothing
SELECT status, state, gate, receipt_id FROM extaction.submit('ask', 'm1', 'ask_mail', 'ada@example.org', '{"subject": "hi"}');
SELECT kind, detail ->> 'gate' AS gate FROM extaction.timeline WHERE scope = 'ask' AND intent_id = 'm1';
-- find shows the waiting one, with no key and no bound digest
SELECT status, state, next_step, gate, bound_digest, idempotency_key, attempt FROM extaction.find('ask', 'm1');
-- an approver sees all that the digest covers; who asked does not see it as his to approve
SELECT count(*) FROM extaction.pending_approvals;
SET ROLE regress_ask_approver;
SELECT intent_id, action, destination, payload, requested_by, approvals, required, approved_by, reversible, gate, same_content_before, rejected_before, changed_since
FROM extaction.pending_approvals WHERE scope = 'ask';
SELECT intent_id, state, for_whom, gate, needs, next_step FROM extaction.todo WHERE scope = 'ask';
SET ROLE regress_ask_program;
-- other content takes its place, and its caller is told so
SELECT status, state, gate, regexp_replace(needs, '[0-9a-f]{64}', '<digest>') AS needs
FROM extaction.submit('ask', 'm1', 'ask_mail', 'ada@example.org', '{"subject": "hello"}');
SELECT kind, detail ? 'replaced' AS names_both FROM extaction.timeline WHERE scope = 'ask' AND intent_id = 'm1';
RESET ROLE;
SELECT payload FROM extaction.waiting JOIN extaction.requests USING (scope, request_digest) WHERE scope = 'ask';
SET ROLE regress_ask_approver;
SELECT payload, changed_since IS NOT NULL AS changed FROM extaction.pending_approvals WHERE scope = 'ask';

--
-- Other gates before the approval, in their order
--
SET ROLE regress_ask_program;
-- an action that the catalogue does not have
SELECT status, next_step, gate, needs FROM extaction.submit('ask', 'g1', 'ask_fax', 'ada@example.org', '{}');
-- a destination that does not match
SELECT status, next_step, gate, needs FROM extaction.submit('ask', 'g2', 'ask_mail', 'ada@example.com', '{}');
RESET ROLE;
UPDATE extaction.actions SET enabled = false WHERE action = 'ask_mail';
SET ROLE regress_ask_program;
SELECT status, next_step, gate, needs FROM extaction.submit('ask', 'g3', 'ask_mail', 'ada@example.org', '{}');
RESET ROLE;
UPDATE extaction.actions SET enabled = true WHERE action = 'ask_mail';
-- what is wrong with g1, g2 and g3 is for others than an approver
SELECT intent_id, state, for_whom, gate, next_step FROM extaction.todo WHERE scope = 'ask' ORDER BY intent_id;
SET ROLE regress_ask_approver;
SELECT intent_id FROM extaction.pending_approvals WHERE scope = 'ask' ORDER BY 1;
-- the same asked again, now that the action is on, has another gate: recorded
SET ROLE regress_ask_program;
SELECT status, gate, receipt_id IS NOT NULL AS recorded FROM extaction.submit('ask', 'g3', 'ask_mail', 'ada@example.org', '{}');
SELECT intent_id, gate, passes FROM extaction.check_gates('ask', 'g3') g, (SELECT 'g3' AS intent_id) i WHERE NOT passes;

--
-- Created, replayed, conflict
--
SET ROLE regress_ask_approver;
-- in advance: a yes to a request that nobody has made yet
SELECT status, approvals, required, state, approval_id
FROM extaction.approve_in_advance('ask', 'm2', 'ask_mail', 'bob@example.org', '{"subject": "hi", "to": {"name": "Bob"}}', approval_id => 'ask-a2');
SET ROLE regress_ask_program;
SELECT status, state, next_step, gate, needs, approval_id, attempt, idempotency_key IS NOT NULL AS has_key,
       request_digest = bound_digest AS bound
FROM extaction.submit('ask', 'm2', 'ask_mail', 'bob@example.org', '{"to": {"name": "Bob"}, "subject": "hi"}');
-- the same again, members in another order: nothing goes out
SELECT status, state, next_step, gate, approval_id
FROM extaction.submit('ask', 'm2', 'ask_mail', 'bob@example.org', '{"subject": "hi", "to": {"name": "Bob"}}');
-- the key is computed from ledger, scope and intent
RESET ROLE;
SELECT r.idempotency_key = extaction.idempotency_key(l.ledger_id, 'ask', 'm2') AS computed
FROM extaction.find('ask', 'm2') r, (SELECT ledger_id FROM extaction.ledger ORDER BY entry DESC LIMIT 1) l;
SET ROLE regress_ask_program;
-- other words: conflict, the differing path and no more; the first stays as it was
SELECT status, state, next_step, gate, needs, idempotency_key, approval_id, provider_ref, request_digest <> bound_digest AS differs
FROM extaction.submit('ask', 'm2', 'ask_mail', 'bob@example.org', '{"subject": "ho", "to": {"name": "Eve", "cc": 1}}');
-- a missing member, null for a missing member
SELECT status, needs FROM extaction.submit('ask', 'm2', 'ask_mail', 'bob@example.org', '{"to": {"name": "Bob"}}');
SELECT status, needs FROM extaction.submit('ask', 'm2', 'ask_mail', 'bob@example.org', '{"subject": "hi", "to": {"name": "Bob"}, "cc": null}');
-- other destination, other action
SELECT status, needs FROM extaction.submit('ask', 'm2', 'ask_mail', 'eve@example.org', '{"subject": "hi", "to": {"name": "Bob"}}');
SELECT status, needs FROM extaction.submit('ask', 'm2', 'ask_fax', 'bob@example.org', '{"subject": "hi", "to": {"name": "Bob"}}');
-- the log has each of them, the state is untouched
SELECT kind, count(*) FROM extaction.timeline WHERE scope = 'ask' AND intent_id = 'm2' GROUP BY kind ORDER BY min(event_id);
SELECT state, attempt FROM extaction.intent_status WHERE scope = 'ask' AND intent_id = 'm2';
-- replays are not logged if the DBA says so (for a role: ALTER ROLE ... SET); conflicts are, always
SET extaction.log_replays = off;
RESET ROLE;
SET extaction.log_replays = off;
SET ROLE regress_ask_program;
SELECT status, receipt_id FROM extaction.submit('ask', 'm2', 'ask_mail', 'bob@example.org', '{"subject": "hi", "to": {"name": "Bob"}}');
SELECT status, receipt_id IS NOT NULL AS recorded FROM extaction.submit('ask', 'm2', 'ask_mail', 'bob@example.org', '{"subject": "other"}');
RESET ROLE;
RESET extaction.log_replays;
SET ROLE regress_ask_program;
-- in a read-only transaction a replay is answered, and nothing is written
BEGIN READ ONLY;
SELECT status, state, receipt_id FROM extaction.submit('ask', 'm2', 'ask_mail', 'bob@example.org', '{"subject": "hi", "to": {"name": "Bob"}}');
SELECT status, state, receipt_id FROM extaction.submit('ask', 'm2', 'ask_mail', 'bob@example.org', '{"subject": "other"}');
COMMIT;
-- accepted() raises for those who want an exception
SELECT (extaction.accepted(extaction.submit('ask', 'm2', 'ask_mail', 'bob@example.org', '{"subject": "hi", "to": {"name": "Bob"}}'))).status;
SELECT (extaction.accepted(extaction.submit('ask', 'm2', 'ask_mail', 'bob@example.org', '{"subject": "other"}'))).status;
SELECT (extaction.accepted(extaction.submit('ask', 'm9', 'ask_mail', 'bob@example.org', '{"subject": "other"}'))).status;

--
-- approval_id: only the named approval is tried
--
SET ROLE regress_ask_approver;
SELECT status FROM extaction.approve_in_advance('ask', 'm3', 'ask_mail', 'cy@example.org', '{"n": 1}', approval_id => 'ask-a3');
SELECT status FROM extaction.approve_in_advance('ask', 'm4', 'ask_mail', 'cy@example.org', '{"n": 1}', approval_id => 'ask-a4');
-- an id can be used once
SELECT status FROM extaction.approve_in_advance('ask', 'm5', 'ask_mail', 'cy@example.org', '{"n": 1}', approval_id => 'ask-a4');
SET ROLE regress_ask_program;
-- one that is for another intent is none
SELECT status, gate, approval_id FROM extaction.submit('ask', 'm3', 'ask_mail', 'cy@example.org', '{"n": 1}', approval_id => 'ask-a4');
-- one that is for other content: the gate says what has changed
SELECT status, gate FROM extaction.submit('ask', 'm3', 'ask_mail', 'cy@example.org', '{"n": 2}', approval_id => 'ask-a3');
SELECT status, gate FROM extaction.submit('ask', 'm3', 'ask_mail', 'di@example.org', '{"n": 1}');
SELECT status, gate FROM extaction.submit('ask', 'm3', 'ask_mail', 'cy@example.org', '{"n": 1, "m": null}');
-- the right one
SELECT status, state, approval_id FROM extaction.submit('ask', 'm3', 'ask_mail', 'cy@example.org', '{"n": 1}', approval_id => 'ask-a3');
-- a replay needs no approval, whichever is named
SELECT status, approval_id FROM extaction.submit('ask', 'm3', 'ask_mail', 'cy@example.org', '{"n": 1}', approval_id => 'nonsense');
-- nothing waits under its name any more
SELECT intent_id FROM extaction.todo WHERE scope = 'ask' AND intent_id = 'm3';

--
-- A rejected digest
--
SELECT status, request_digest AS digest FROM extaction.submit('ask', 'm6', 'ask_mail', 'ed@example.org', '{"n": 1}') \gset m6_
SET ROLE regress_ask_approver;
SELECT status, state FROM extaction.reject('ask', :'m6_digest', 'too rude');
SET ROLE regress_ask_program;
-- again: blocked by rejected, with the reason, and nothing waits
SELECT status, state, next_step, gate, needs FROM extaction.submit('ask', 'm6', 'ask_mail', 'ed@example.org', '{"n": 1}');
SELECT extaction.find('ask', 'm6');
SELECT count(*) FROM extaction.todo WHERE scope = 'ask' AND intent_id = 'm6';
-- other content waits anew, and shows that it was rejected before
SELECT status, gate FROM extaction.submit('ask', 'm6', 'ask_mail', 'ed@example.org', '{"n": 2}');
SET ROLE regress_ask_approver;
SELECT payload, rejected_before FROM extaction.pending_approvals WHERE intent_id = 'm6';
SET ROLE regress_ask_program;
-- the rejected content does not take its place
SELECT status, gate FROM extaction.submit('ask', 'm6', 'ask_mail', 'ed@example.org', '{"n": 1}');
SET ROLE regress_ask_approver;
SELECT payload FROM extaction.pending_approvals WHERE intent_id = 'm6';

--
-- Candidates: the payload may be the candidate's content
--
SET ROLE regress_ask_program;
SELECT extaction.observe_source('ask', 'order-7', 'v1');
SELECT status, revision FROM extaction.propose('ask', 'c1', '{"subject": "from a model"}', 'order-7', 'v1');
SELECT extaction.request_digest('ask', 'm7', 'ask_mail', 'flo@example.org', NULL, 'c1') AS digest \gset m7_
SELECT status, gate, request_digest = :'m7_digest' AS same FROM extaction.submit('ask', 'm7', 'ask_mail', 'flo@example.org', candidate_id => 'c1');
-- without its candidate it is another request
SELECT request_digest = :'m7_digest' AS same FROM extaction.submit('ask', 'm7', 'ask_mail', 'flo@example.org', '{"subject": "from a model"}');
SELECT request_digest = :'m7_digest' AS same FROM extaction.submit('ask', 'm7', 'ask_mail', 'flo@example.org', candidate_id => 'c1');
SET ROLE regress_ask_approver;
SELECT payload, candidate_id, source_id, source_version, source_is_current FROM extaction.pending_approvals WHERE intent_id = 'm7';
SELECT status, state FROM extaction.approve('ask', :'m7_digest');
SET ROLE regress_ask_program;
SELECT status, state FROM extaction.submit('ask', 'm7', 'ask_mail', 'flo@example.org', candidate_id => 'c1');
-- after a revision the same words are other content: a conflict in the candidate
SELECT status, revision FROM extaction.propose('ask', 'c1', '{"subject": "from a better model"}', 'order-7', 'v1');
SELECT status, needs FROM extaction.submit('ask', 'm7', 'ask_mail', 'flo@example.org', candidate_id => 'c1');
SELECT status, needs FROM extaction.submit('ask', 'm7', 'ask_mail', 'flo@example.org', '{"subject": "from a model"}', candidate_id => 'c1');
-- and the bound one is stopped at claim, since what was approved is not current
SELECT gate FROM extaction.check_gates('ask', 'm7') WHERE NOT passes;
-- a source that has moved on stops a new request
SELECT extaction.observe_source('ask', 'order-7', 'v2');
SELECT status, gate FROM extaction.submit('ask', 'm8', 'ask_mail', 'flo@example.org', candidate_id => 'c1');
SET ROLE regress_ask_approver;
SELECT source_is_current FROM extaction.pending_approvals WHERE intent_id = 'm8';
SELECT status, state, needs FROM extaction.approve('ask', (SELECT request_digest FROM extaction.pending_approvals WHERE intent_id = 'm8'));
SELECT gate, for_whom FROM extaction.todo WHERE intent_id = 'm8';

--
-- not_before
--
SELECT status FROM extaction.approve_in_advance('ask', 'm10', 'ask_mail', 'gil@example.org', '{}');
SET ROLE regress_ask_program;
SELECT status, state, next_step FROM extaction.submit('ask', 'm10', 'ask_mail', 'gil@example.org', '{}', not_before => '2100-01-01 00:00+00');
SELECT step, due_at = '2100-01-01 00:00+00' AS then_due FROM extaction.next_step('ask', 'm10');
-- it is no part of the content
SELECT status FROM extaction.submit('ask', 'm10', 'ask_mail', 'gil@example.org', '{}');
-- it is kept while the request waits
SELECT status, request_digest AS digest FROM extaction.submit('ask', 'm11', 'ask_mail', 'gil@example.org', '{}', not_before => '2100-01-01 00:00+00') \gset m11_
SET ROLE regress_ask_approver;
SELECT status, state FROM extaction.approve('ask', :'m11_digest');
SELECT due_at = '2100-01-01 00:00+00' AS then_due FROM extaction.next_step('ask', 'm11');

--
-- cancel: only what never went out
--
SET ROLE regress_ask_program;
-- what is not there
SELECT status, state, needs FROM extaction.cancel('ask', 'nothing', 'changed my mind');
-- a reason is needed
SELECT extaction.cancel('ask', 'm11', NULL);
SELECT extaction.cancel('ask', 'm11', '');
-- what is prepared: done, then replayed; it did not happen
SELECT status, state, next_step, receipt_id IS NOT NULL AS recorded FROM extaction.cancel('ask', 'm11', 'changed my mind');
SELECT status, state, receipt_id FROM extaction.cancel('ask', 'm11', 'changed my mind');
-- for ever: the intent is bound, so the same again is a replay that shows it
SELECT status, state, next_step FROM extaction.submit('ask', 'm11', 'ask_mail', 'gil@example.org', '{}');
SELECT kind, detail ->> 'reason' AS reason FROM extaction.timeline WHERE scope = 'ask' AND intent_id = 'm11';
-- what waits: done; nothing is bound, so it may be asked for again
SELECT status, state, next_step FROM extaction.cancel('ask', 'm6', 'never mind');
SELECT status, state FROM extaction.cancel('ask', 'm6', 'never mind');
SELECT status, gate FROM extaction.submit('ask', 'm6', 'ask_mail', 'ed@example.org', '{"n": 3}');
-- an approver may cancel, too; a stranger may not
SET ROLE regress_ask_approver;
SELECT status, state FROM extaction.cancel('ask', 'm6', 'never mind');
SET ROLE regress_ask_stranger;
SELECT extaction.cancel('ask', 'm2', 'why not');

--
-- explain and sent_to
--
SET ROLE regress_ask_program;
SELECT e -> 'receipt' ->> 'state' AS state, e -> 'next_step' ->> 'step' AS step, jsonb_array_length(e -> 'gates') AS gates,
       jsonb_path_query_array(e, '$.timeline[*].kind') AS kinds
FROM extaction.explain('ask', 'm3') e;
SELECT extaction.explain('ask', 'nothing');
SELECT count(*) AS gates, bool_and(passes) AS all_pass FROM extaction.check_gates('ask', 'm3');
SELECT count(*) FROM extaction.check_gates('ask', 'nothing');
-- nothing has been sent yet
SELECT * FROM extaction.sent_to('ask', 'cy@example.org');

-- the facts agree with each other
RESET ROLE;
SELECT * FROM extaction.verify();

SELECT count(extaction.revoke_access(scope, member_name, capability)) FROM extaction.scope_members WHERE member_name LIKE 'regress\_ask\_%';
DELETE FROM extaction.actions WHERE action LIKE 'ask\_%';
DROP ROLE regress_ask_program, regress_ask_approver, regress_ask_stranger;
