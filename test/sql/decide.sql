--
-- decide: approve, reject, approve_in_advance, revoke_approval; the gates that
-- ask about approvals, at submit and again at claim
--
SET client_min_messages = warning;
CREATE ROLE regress_decide_program;
CREATE ROLE regress_decide_anna;
CREATE ROLE regress_decide_bert;
CREATE ROLE regress_decide_web;
CREATE ROLE regress_decide_worker;
SELECT extaction.create_scope('decide');
SELECT count(extaction.grant_access('decide', r, c)) FROM (VALUES
    ('regress_decide_program', 'submitter'), ('regress_decide_anna', 'approver'), ('regress_decide_anna', 'submitter'),
    ('regress_decide_bert', 'approver'), ('regress_decide_worker', 'worker')) v (r, c);
-- a web application speaks for many people
SELECT extaction.grant_access('decide', 'regress_decide_web', 'approver', 'users of the web application');
SELECT extaction.grant_access('decide', 'regress_decide_web', 'submitter', 'users of the web application');
INSERT INTO extaction.actions (action, provider, operation, approvals_required, self_approval, approval_ttl, approval_ttl_max, destination_pattern, reversible)
VALUES ('decide_one', 'decide-mailer', 'send', 1, false, '1 hour', '2 hours', NULL, true),
       ('decide_two', 'decide-mailer', 'send', 2, false, '1 hour', NULL, NULL, false),
       ('decide_self', 'decide-mailer', 'send', 1, true, '1 hour', NULL, '^ok:', true);

-- what a program asks for; the digest is what is approved
CREATE FUNCTION regress_decide_ask(intent_id text, action text, n int DEFAULT 1, destination text DEFAULT 'ok:1', actor text DEFAULT NULL)
RETURNS TABLE (status text, state text, gate text)
LANGUAGE sql AS $$ SELECT status, state, gate FROM extaction.submit('decide', $1, $2, $4, jsonb_build_object('n', $3), actor => $5) $$;
CREATE FUNCTION regress_decide_digest(intent_id text, action text, n int DEFAULT 1, destination text DEFAULT 'ok:1') RETURNS text
LANGUAGE sql AS $$ SELECT extaction.request_digest('decide', $1, $2, $4, jsonb_build_object('n', $3)) $$;
-- one claim, as far as it is the same at every run
CREATE FUNCTION regress_decide_claim() RETURNS TABLE (claimed bigint, blocked bigint)
LANGUAGE sql AS $$ SELECT claimed, blocked FROM extaction.claim('w', 10, scope => 'decide') $$;

--
-- Errors first
--
SET ROLE regress_decide_program;
-- a program may not approve
SELECT extaction.approve('decide', repeat('0', 64));
SET ROLE regress_decide_anna;
-- not a digest; a request that nobody made; another scope
SELECT extaction.approve('decide', 'abc');
SELECT extaction.approve('decide', repeat('0', 64));
\echo :LAST_ERROR_SQLSTATE
SELECT extaction.approve('elsewhere', repeat('0', 64));
SELECT extaction.reject('decide', repeat('0', 64), 'no');
SELECT extaction.revoke_approval('decide', 'none', 'no');
\echo :LAST_ERROR_SQLSTATE
-- a rejection and a revocation say why
SELECT extaction.reject('decide', repeat('0', 64), '');

--
-- approved: what waits goes on without another submit
--
SET ROLE regress_decide_program;
SELECT * FROM regress_decide_ask('a1', 'decide_one');
SET ROLE regress_decide_anna;
-- not before the time that was asked for: the default end is the action's approval_ttl
SELECT status, approvals, required, state, needs, expires_at - now() BETWEEN '59 min' AND '61 min' AS in_an_hour
FROM extaction.approve('decide', regress_decide_digest('a1', 'decide_one'), note => 'fine') \g
-- once more: already approved, nothing new is written
SELECT status, approvals, required, state FROM extaction.approve('decide', regress_decide_digest('a1', 'decide_one'));
SELECT kind FROM extaction.timeline WHERE scope = 'decide' AND intent_id = 'a1';
-- a digest may also be given as \x... or sha256:...
SELECT status FROM extaction.approve('decide', '\x' || regress_decide_digest('a1', 'decide_one'));
SELECT status FROM extaction.approve('decide', 'sha256:' || regress_decide_digest('a1', 'decide_one'));
-- a longer wish is another approval, capped by approval_ttl_max
SELECT status, expires_at - now() BETWEEN '119 min' AND '121 min' AS in_two_hours
FROM extaction.approve('decide', regress_decide_digest('a1', 'decide_one'), expires_at => now() + '1 week');
SELECT approver, note, status FROM extaction.approval_status WHERE scope = 'decide' AND id = 'a1' ORDER BY expires_at;
-- it is prepared in the name of who asked
SET ROLE regress_decide_program;
SELECT requester, state FROM extaction.intent_status WHERE scope = 'decide' AND intent_id = 'a1';
SELECT * FROM regress_decide_ask('a1', 'decide_one');

--
-- superseded: another content waits now
--
SELECT * FROM regress_decide_ask('a2', 'decide_one', 1);
SELECT * FROM regress_decide_ask('a2', 'decide_one', 2);
SET ROLE regress_decide_anna;
SELECT status, state, needs LIKE '%' || regress_decide_digest('a2', 'decide_one', 2) || '%' AS names_the_other
FROM extaction.approve('decide', regress_decide_digest('a2', 'decide_one', 1));
SELECT status, needs LIKE '%' || regress_decide_digest('a2', 'decide_one', 2) || '%' AS names_the_other
FROM extaction.reject('decide', regress_decide_digest('a2', 'decide_one', 1), 'no');
SELECT status, state FROM extaction.approve('decide', regress_decide_digest('a2', 'decide_one', 2));

--
-- closed: cancelled, or bound to another content
--
SELECT status, needs FROM extaction.approve('decide', regress_decide_digest('a2', 'decide_one', 1));
SET ROLE regress_decide_program;
SELECT * FROM regress_decide_ask('a3', 'decide_one');
SELECT status FROM extaction.cancel('decide', 'a3', 'never mind');
SET ROLE regress_decide_anna;
SELECT status, needs FROM extaction.approve('decide', regress_decide_digest('a3', 'decide_one'));
SELECT status, needs FROM extaction.reject('decide', regress_decide_digest('a3', 'decide_one'), 'no');
SET ROLE regress_decide_program;
SELECT status FROM extaction.cancel('decide', 'a2', 'never mind');
SET ROLE regress_decide_anna;
SELECT status, needs FROM extaction.approve('decide', regress_decide_digest('a2', 'decide_one', 2));

--
-- not_yours: approver and requester are two
--
SELECT * FROM regress_decide_ask('a4', 'decide_one');
SELECT status, approvals, state, needs FROM extaction.approve('decide', regress_decide_digest('a4', 'decide_one'));
-- not on my list, but on another's
SELECT count(*) FROM extaction.pending_approvals WHERE intent_id = 'a4';
SET ROLE regress_decide_bert;
SELECT requested_by FROM extaction.pending_approvals WHERE intent_id = 'a4';
SELECT status, state FROM extaction.approve('decide', regress_decide_digest('a4', 'decide_one'));
-- nor does my own approval in advance help me
SET ROLE regress_decide_anna;
SELECT status, state FROM extaction.approve_in_advance('decide', 'a5', 'decide_one', 'ok:1', '{"n": 1}');
SELECT * FROM regress_decide_ask('a5', 'decide_one');
SET ROLE regress_decide_bert;
SELECT approvals, required, approved_by FROM extaction.pending_approvals WHERE intent_id = 'a5';
SET ROLE regress_decide_program;
-- but another program may use it
SELECT * FROM regress_decide_ask('a5', 'decide_one');
-- unless the action allows it
SET ROLE regress_decide_anna;
SELECT * FROM regress_decide_ask('a6', 'decide_self');
SELECT count(*) FROM extaction.pending_approvals WHERE intent_id = 'a6';
SELECT status, state FROM extaction.approve('decide', regress_decide_digest('a6', 'decide_self'));

--
-- rejected
--
SET ROLE regress_decide_program;
SELECT * FROM regress_decide_ask('a7', 'decide_one');
SET ROLE regress_decide_anna;
SELECT status, approvals, needs FROM extaction.reject('decide', regress_decide_digest('a7', 'decide_one'), 'too loud');
-- again, and an approval after it
SELECT status FROM extaction.reject('decide', regress_decide_digest('a7', 'decide_one'), 'far too loud');
SELECT status, needs FROM extaction.approve('decide', regress_decide_digest('a7', 'decide_one'));
SELECT status, needs FROM extaction.approve_in_advance('decide', 'a7', 'decide_one', 'ok:1', '{"n": 1}');
SELECT kind, detail FROM extaction.timeline WHERE scope = 'decide' AND intent_id = 'a7' AND kind <> 'blocked';
-- what is approved and prepared can't be rejected any more
SELECT status, state, needs FROM extaction.reject('decide', regress_decide_digest('a5', 'decide_one'), 'on second thought');

--
-- Two of two
--
SET ROLE regress_decide_program;
SELECT * FROM regress_decide_ask('b1', 'decide_two');
SET ROLE regress_decide_anna;
-- the first of two: it still waits
SELECT status, approvals, required, state, needs FROM extaction.approve('decide', regress_decide_digest('b1', 'decide_two'));
-- the same one twice is one
SELECT status, approvals, required, state FROM extaction.approve('decide', regress_decide_digest('b1', 'decide_two'));
SELECT status, approvals, required, state FROM extaction.approve('decide', regress_decide_digest('b1', 'decide_two'), expires_at => now() + '5 hours');
-- not on her list any more, but on the other's
SELECT count(*) FROM extaction.pending_approvals WHERE intent_id = 'b1';
SET ROLE regress_decide_bert;
SELECT approvals, required, approved_by, gate FROM extaction.pending_approvals WHERE intent_id = 'b1';
SELECT status, approvals, required, state, needs FROM extaction.approve('decide', regress_decide_digest('b1', 'decide_two'));
-- the requester's own does not count as one of the two
SET ROLE regress_decide_anna;
SELECT * FROM regress_decide_ask('b2', 'decide_two');
SELECT status, approvals, required FROM extaction.approve('decide', regress_decide_digest('b2', 'decide_two'));
SET ROLE regress_decide_bert;
SELECT status, approvals, required, state FROM extaction.approve('decide', regress_decide_digest('b2', 'decide_two'));
-- one says yes, one says no: no
SET ROLE regress_decide_program;
SELECT * FROM regress_decide_ask('b3', 'decide_two');
SET ROLE regress_decide_bert;
SELECT status FROM extaction.approve('decide', regress_decide_digest('b3', 'decide_two'));
SET ROLE regress_decide_anna;
SELECT status FROM extaction.reject('decide', regress_decide_digest('b3', 'decide_two'), 'no');
SET ROLE regress_decide_program;
SELECT * FROM regress_decide_ask('b3', 'decide_two');

--
-- Vouched actors: the role and the person together are who acts
--
SET ROLE regress_decide_web;
-- it must say for whom it speaks
SELECT * FROM regress_decide_ask('c1', 'decide_two');
SELECT * FROM regress_decide_ask('c1', 'decide_two', actor => 'zoe');
-- zoe asked for it; two others are two approvers
SELECT status, needs FROM extaction.approve('decide', regress_decide_digest('c1', 'decide_two'), actor => 'zoe');
SELECT status, approvals FROM extaction.approve('decide', regress_decide_digest('c1', 'decide_two'), actor => 'yan');
SELECT status, approvals FROM extaction.approve('decide', regress_decide_digest('c1', 'decide_two'), actor => 'yan');
SET extaction.actor = 'zoe';
SELECT count(*) AS zoes_list FROM extaction.pending_approvals WHERE intent_id = 'c1';
SET extaction.actor = 'yan';
SELECT count(*) AS yans_list FROM extaction.pending_approvals WHERE intent_id = 'c1';
SET extaction.actor = 'xia';
SELECT count(*) AS xias_list FROM extaction.pending_approvals WHERE intent_id = 'c1';
SELECT status, approvals, state FROM extaction.approve('decide', regress_decide_digest('c1', 'decide_two'));
RESET extaction.actor;
SELECT approver, status FROM extaction.approval_status WHERE scope = 'decide' AND id = 'c1' ORDER BY approver;
-- of a role that does not vouch, an actor is a claim that gates ignore
SET ROLE regress_decide_anna;
SELECT * FROM regress_decide_ask('c2', 'decide_one', actor => 'somebody');
SELECT status FROM extaction.approve('decide', regress_decide_digest('c2', 'decide_one'), actor => 'somebody else');

--
-- expires_at: judged by the clock, half-open; an end in the past does not help
--
SET ROLE regress_decide_program;
SELECT * FROM regress_decide_ask('d1', 'decide_one');
SET ROLE regress_decide_anna;
SELECT status, approvals, state, needs FROM extaction.approve('decide', regress_decide_digest('d1', 'decide_one'), expires_at => now() - interval '1 s');
SELECT gate FROM extaction.todo WHERE intent_id = 'd1';
SELECT status, approvals, state FROM extaction.approve('decide', regress_decide_digest('d1', 'decide_one'));

--
-- At claim every gate is asked again; a new approval lets go on what was blocked
--
RESET ROLE;
SELECT extaction.pause('decide', NULL, 'only what follows');
SELECT count(extaction.cancel('decide', intent_id, 'make room')) > 0 AS room FROM extaction.intent_status WHERE scope = 'decide' AND state = 'prepared';
SELECT extaction.resume('decide');
SET ROLE regress_decide_anna;
SELECT status FROM extaction.approve_in_advance('decide', 'e1', 'decide_one', 'ok:1', '{"n": 1}', approval_id => 'decide-e1');
SELECT status FROM extaction.approve_in_advance('decide', 'e2', 'decide_one', 'ok:1', '{"n": 1}', expires_at => clock_timestamp() + '2 s');
SELECT status FROM extaction.approve_in_advance('decide', 'e3', 'decide_one', 'ok:1', '{"n": 1}');
SELECT status FROM extaction.approve_in_advance('decide', 'e4', 'decide_self', 'ok:1', '{"n": 1}');
SELECT status FROM extaction.approve_in_advance('decide', 'e5', 'decide_one', 'ok:1', '{"n": 1}', expires_at => clock_timestamp() + '20 s');
SET ROLE regress_decide_program;
SELECT r.* FROM (VALUES ('e1', 'decide_one'), ('e2', 'decide_one'), ('e3', 'decide_one'), ('e4', 'decide_self'), ('e5', 'decide_one')) v (i, a), regress_decide_ask(i, a) r;
SET ROLE regress_decide_bert;
-- e1: revoked, by another approver; nothing is out
SELECT status, approvals, state, needs FROM extaction.revoke_approval('decide', 'decide-e1', 'no more');
-- a second time changes nothing
SELECT status FROM extaction.revoke_approval('decide', 'decide-e1', 'no more');
-- e3: now two must approve; e4: other destinations only
RESET ROLE;
UPDATE extaction.actions SET approvals_required = 2 WHERE action = 'decide_one';
UPDATE extaction.actions SET destination_pattern = '^new:' WHERE action = 'decide_self';
SELECT pg_sleep(2.1);
SET ROLE regress_decide_worker;
SELECT * FROM regress_decide_claim();
SELECT intent_id, state, attempt, gate, next_step, for_whom FROM extaction.todo WHERE scope = 'decide' AND intent_id LIKE 'e_' ORDER BY intent_id;
RESET ROLE;
UPDATE extaction.actions SET approvals_required = 1 WHERE action = 'decide_one';
UPDATE extaction.actions SET destination_pattern = NULL WHERE action = 'decide_self';
-- e5 has an approval too short for a whole call, so for claim it has ended; the others go on with a new approval
SET ROLE regress_decide_bert;
SELECT v.i, a.status, a.state, a.needs FROM (VALUES ('e1', 'decide_one'), ('e2', 'decide_one'), ('e3', 'decide_one'), ('e4', 'decide_self')) v (i, a),
    extaction.approve('decide', regress_decide_digest(i, a)) a ORDER BY i;
SET ROLE regress_decide_worker;
SELECT * FROM regress_decide_claim();
SELECT intent_id, state, attempt FROM extaction.intent_status WHERE scope = 'decide' AND intent_id LIKE 'e_' ORDER BY 1;
SET ROLE regress_decide_anna;
SELECT status, state FROM extaction.approve('decide', regress_decide_digest('e5', 'decide_one'), expires_at => now() + '30 min');
SET ROLE regress_decide_worker;
SELECT * FROM regress_decide_claim();

--
-- revoke_approval when it is too late: which attempts are out
--
SET ROLE regress_decide_anna;
SELECT status, state, needs, detail FROM extaction.revoke_approval('decide', (SELECT approval_id FROM extaction.approval_status WHERE id = 'e2' AND status = 'valid'), 'oh no');

--
-- A requester who lost access: the gate is scope_denied
--
SELECT status FROM extaction.approve_in_advance('decide', 'f1', 'decide_one', 'ok:1', '{"n": 1}');
SET ROLE regress_decide_program;
SELECT * FROM regress_decide_ask('f1', 'decide_one');
SELECT * FROM regress_decide_ask('f2', 'decide_one');
RESET ROLE;
SELECT extaction.revoke_access('decide', 'regress_decide_program', 'submitter');
SET ROLE regress_decide_worker;
SELECT * FROM regress_decide_claim();
SELECT intent_id, state, gate, for_whom FROM extaction.todo WHERE scope = 'decide' AND intent_id LIKE 'f_' ORDER BY 1;
-- what waited does not go on either
SET ROLE regress_decide_anna;
SELECT status, state, needs FROM extaction.approve('decide', regress_decide_digest('f2', 'decide_one'));
RESET ROLE;
SELECT extaction.grant_access('decide', 'regress_decide_program', 'submitter');
SET ROLE regress_decide_anna;
SELECT v.i, a.status, a.state FROM (VALUES ('f1'), ('f2')) v (i), extaction.approve('decide', regress_decide_digest(i, 'decide_one')) a;

--
-- approve_in_advance of what waits already, and of what is bound to other content
--
SET ROLE regress_decide_program;
SELECT * FROM regress_decide_ask('g1', 'decide_one');
SET ROLE regress_decide_anna;
SELECT status, state FROM extaction.approve_in_advance('decide', 'g1', 'decide_one', 'ok:1', '{"n": 1}');
SELECT status, state, needs FROM extaction.approve_in_advance('decide', 'g1', 'decide_one', 'ok:1', '{"n": 2}');

-- the facts agree with each other
RESET ROLE;
SELECT * FROM extaction.verify();

DROP FUNCTION regress_decide_ask, regress_decide_digest, regress_decide_claim;
SELECT count(extaction.revoke_access(scope, member_name, capability)) FROM extaction.scope_members WHERE member_name LIKE 'regress\_decide\_%';
DELETE FROM extaction.actions WHERE action LIKE 'decide\_%';
DROP ROLE regress_decide_program, regress_decide_anna, regress_decide_bert, regress_decide_web, regress_decide_worker;
