--
-- The rule about sending again: contract_step, contract_proof, the rows that ship
--
SET client_min_messages = warning;

-- Attempt 1 was claimed at 0 with a lease of 2 minutes and its answer was lost; now it is 1:00.  The next lease would be 1 minute, the margin is 2.
-- So an attempt may be in flight until 0:12, and a resend must begin before 24:00 - 1 - 10 - 2 minutes = 23:47.  In the cases times are given as the
-- span since 0, and only what differs from this is said.
CREATE FUNCTION pg_temp.zero() RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$ SELECT timestamptz '2026-06-01 00:00:00+00' $$;

CREATE FUNCTION pg_temp.contract(differs jsonb) RETURNS jsonb LANGUAGE sql AS $$
SELECT jsonb '{"key_carrier": "header", "on_replay": "first_result", "on_mismatch": "rejects", "on_concurrent": "rejects", "on_expired": "executes",
               "stores_failures": "all", "failures_roll_back": false, "retention": "24 hours", "late_arrival_bound": "10 min", "lookup_lag": "1 min",
               "lookup": "by_key", "absence_is_proof": false, "min_retry_delay": null}' || differs
$$;

CREATE FUNCTION pg_temp.contracts(differs jsonb) RETURNS jsonb LANGUAGE sql AS $$
SELECT coalesce(jsonb_agg(pg_temp.contract(d) ORDER BY n), '[]')
FROM jsonb_array_elements(CASE jsonb_typeof(differs) WHEN 'array' THEN differs ELSE jsonb_build_array(differs) END) WITH ORDINALITY AS e (d, n)
$$;

CREATE FUNCTION pg_temp.situation(differs jsonb) RETURNS jsonb LANGUAGE sql AS $$
SELECT jsonb_object_agg(key, CASE WHEN key IN ('now', 'first_sent_at', 'quiet_from', 'last_answer_at', 'look_due_at') AND jsonb_typeof(value) = 'string'
                                  THEN to_jsonb(pg_temp.zero() + (value #>> '{}')::interval) ELSE value END)
FROM jsonb_each('{"now": "1:00", "first_sent_at": "0", "quiet_from": "0:02", "lease": "1 min", "margin": "2 min", "last_code": "timeout",
                  "last_answer_at": "0:01", "gates_pass": true, "bytes_stored": true, "attempts_left": true, "late_found": false,
                  "lookups": 0, "max_lookups": 5, "look_due_at": null}'::jsonb || differs)
$$;

CREATE TEMP TABLE cases (
    id        serial PRIMARY KEY,
    name      text NOT NULL,
    contracts jsonb NOT NULL,     -- what differs; an array for several contracts
    situation jsonb NOT NULL,     -- what differs
    step      text NOT NULL,
    due       interval,           -- since 0; null for a human
    reason    text                -- a part of it, where it matters
);

\set ECHO none
INSERT INTO cases (name, contracts, situation, step, due, reason) VALUES
-- nothing differs
('all seven conditions hold',                              '{}', '{}', 'resend', '1:00', 'protects'),
-- condition 1: a key, whose replay tells
('key_carrier header',                                     '{"key_carrier": "header"}',        '{}', 'resend', '1:00', NULL),
('key_carrier field',                                      '{"key_carrier": "field"}',         '{}', 'resend', '1:00', NULL),
('key_carrier resource_name',                              '{"key_carrier": "resource_name"}', '{}', 'resend', '1:00', NULL),
('key_carrier natural_id',                                 '{"key_carrier": "natural_id"}',    '{}', 'resend', '1:00', NULL),
('key_carrier in_database',                                '{"key_carrier": "in_database"}',   '{}', 'resend', '1:00', NULL),
('key_carrier none: never resent',                         '{"key_carrier": "none"}',          '{}', 'look', '1:00', 'no idempotency key'),
('key_carrier null is none',                               '{"key_carrier": null}',            '{}', 'look', '1:00', 'no idempotency key'),
('on_replay first_result',                                 '{"on_replay": "first_result"}',    '{}', 'resend', '1:00', NULL),
('on_replay exists can be compared',                       '{"on_replay": "exists"}',          '{}', 'resend', '1:00', NULL),
('on_replay exists_with_id can be compared',               '{"on_replay": "exists_with_id"}',  '{}', 'resend', '1:00', NULL),
('on_replay present_state cannot be told from a refusal',  '{"on_replay": "present_state"}',   '{}', 'look', '1:00', 'first result'),
('on_replay silent tells nothing',                         '{"on_replay": "silent"}',          '{}', 'look', '1:00', 'first result'),
('on_replay none',                                         '{"on_replay": "none"}',            '{}', 'look', '1:00', 'first result'),
('on_replay unknown',                                      '{"on_replay": "unknown"}',         '{}', 'look', '1:00', 'first result'),
('on_replay null is unknown',                              '{"on_replay": null}',              '{}', 'look', '1:00', 'first result'),
('redacted: the bytes are gone',                           '{}', '{"bytes_stored": false}',    'look', '1:00', 'no longer whole'),
('redacted, nothing to look with',                         '{"lookup": "none"}', '{"bytes_stored": false}', 'human', NULL, 'no longer whole'),
-- the same bytes every time, so on_mismatch never matters
('on_mismatch rejects',                                    '{"on_mismatch": "rejects"}',       '{}', 'resend', '1:00', NULL),
('on_mismatch replays_first',                              '{"on_mismatch": "replays_first"}', '{}', 'resend', '1:00', NULL),
('on_mismatch executes',                                   '{"on_mismatch": "executes"}',      '{}', 'resend', '1:00', NULL),
('on_mismatch not_compared',                               '{"on_mismatch": "not_compared"}',  '{}', 'resend', '1:00', NULL),
('on_mismatch unknown',                                    '{"on_mismatch": "unknown"}',       '{}', 'resend', '1:00', NULL),
-- condition 2: gates
('a gate stops it',                                        '{}', '{"gates_pass": false}', 'look', '1:00', 'gate'),
('a gate stops it, nothing to look with',                  '{"lookup": "none"}', '{"gates_pass": false}', 'human', NULL, 'gate'),
-- condition 3: in flight until 0:12
('rejects: no quiet period needed',                        '{"on_concurrent": "rejects"}',        '{"now": "0:01"}', 'resend', '0:01', NULL),
('waits: no quiet period needed',                          '{"on_concurrent": "waits"}',          '{"now": "0:01"}', 'resend', '0:01', NULL),
('may_fail in flight',                                     '{"on_concurrent": "may_fail"}',       '{"now": "0:01"}', 'look', '0:01', 'still arrive'),
('executes_twice in flight',                               '{"on_concurrent": "executes_twice"}', '{"now": "0:01"}', 'look', '0:01', 'still arrive'),
('on_concurrent unknown in flight',                        '{"on_concurrent": "unknown"}',        '{"now": "0:01"}', 'look', '0:01', 'still arrive'),
('on_concurrent null in flight',                           '{"on_concurrent": null}',             '{"now": "0:01"}', 'look', '0:01', 'still arrive'),
('may_fail after the quiet period',                        '{"on_concurrent": "may_fail"}',       '{}', 'resend', '1:00', NULL),
('executes_twice after the quiet period',                  '{"on_concurrent": "executes_twice"}', '{}', 'resend', '1:00', NULL),
('on_concurrent unknown after the quiet period',           '{"on_concurrent": "unknown"}',        '{}', 'resend', '1:00', NULL),
('the lease is over, the request is not',                  '{"on_concurrent": "unknown"}', '{"now": "0:02"}', 'look', '0:02', 'still arrive'),
('a microsecond before the quiet period ends',             '{"on_concurrent": "unknown"}', '{"now": "0:11:59.999999"}', 'look', '0:11:59.999999', 'still arrive'),
('the quiet period ends',                                  '{"on_concurrent": "unknown"}', '{"now": "0:12"}', 'resend', '0:12', NULL),
('in flight, nothing to look with: wait for the end',      '{"on_concurrent": "unknown", "lookup": "none"}', '{"now": "0:11:59.999999"}', 'wait', '0:12', 'still arrive'),
('quiet, nothing to look with',                            '{"on_concurrent": "unknown", "lookup": "none"}', '{"now": "0:12"}', 'resend', '0:12', NULL),
('in flight, looked often enough: wait for the end',       '{"on_concurrent": "unknown"}', '{"now": "0:03", "lookups": 5}', 'wait', '0:12', 'still arrive'),
('quiet_from is the greatest lease end',                   '{"on_concurrent": "unknown"}', '{"quiet_from": "0:55"}', 'look', '1:00', 'still arrive'),
('late_arrival_bound 0',                                   '{"on_concurrent": "unknown", "late_arrival_bound": 0}', '{"now": "0:02"}', 'resend', '0:02', NULL),
('a longer late_arrival_bound',                            '{"on_concurrent": "unknown", "late_arrival_bound": "1 hour"}', '{}', 'look', '1:00', 'still arrive'),
('no use waiting: the key would be gone by then',          '{"on_concurrent": "unknown", "lookup": "none", "retention": "20 min"}', '{"now": "0:03"}', 'human', NULL, 'expire'),
('late_arrival_bound null: never',                         '{"late_arrival_bound": null}', '{"now": "23:00"}', 'look', '23:00', 'how late'),
('late_arrival_bound null, expired keys refused: never',   '{"late_arrival_bound": null, "on_expired": "rejects"}', '{}', 'look', '1:00', 'how late'),
-- condition 4: the key outlives the resend
('a microsecond before it is too late',                    '{}', '{"now": "23:46:59.999999"}', 'resend', '23:46:59.999999', NULL),
('too late: a resend could arrive with the key gone',      '{}', '{"now": "23:47"}', 'look', '23:47', 'expire'),
('at 23:58 of 24 hours',                                   '{}', '{"now": "23:58"}', 'look', '23:58', 'expire'),
('past the retention, nothing to look with',               '{"lookup": "none"}', '{"now": "25:00"}', 'human', NULL, 'expire'),
('a shorter lease: just in time',                          '{}', '{"now": "23:47", "lease": "59.999999"}', 'resend', '23:47', NULL),
('a longer lease: too late',                               '{}', '{"now": "23:46:59.999999", "lease": "60.000001"}', 'look', '23:46:59.999999', 'expire'),
('a smaller margin: just in time',                         '{}', '{"now": "23:47", "margin": "0:01:59.999999"}', 'resend', '23:47', NULL),
('no margin',                                              '{}', '{"now": "23:49", "margin": 0}', 'look', '23:49', 'expire'),
('a smaller late_arrival_bound: just in time',             '{"late_arrival_bound": "0:09:59.999999"}', '{"now": "23:47"}', 'resend', '23:47', NULL),
('the retention counts from the first send',               '{}', '{"now": "23:47", "quiet_from": "23:40", "last_answer_at": "23:39"}', 'look', '23:47', 'expire'),
('a first send one microsecond later: just in time',       '{}', '{"now": "23:47", "first_sent_at": "0:00:00.000001"}', 'resend', '23:47', NULL),
('a longer retention',                                     '{"retention": "30 days"}', '{"now": "25:00"}', 'resend', '25:00', NULL),
('kept for ever',                                          '{"retention": "1000 years"}', '{"now": "876000:00"}', 'resend', '876000:00', NULL),
('a retention shorter than the bound',                     '{"retention": "5 min"}', '{"now": "0:00:01"}', 'look', '0:00:01', 'expire'),
('retention null: never',                                  '{"retention": null}', '{}', 'look', '1:00', 'how long'),
('retention null, expired keys refused: never',            '{"retention": null, "on_expired": "rejects"}', '{}', 'look', '1:00', 'how long'),
('an expired key is refused',                              '{"on_expired": "rejects"}', '{"now": "25:00"}', 'resend', '25:00', NULL),
('an expired key executes',                                '{"on_expired": "executes"}', '{"now": "25:00"}', 'look', '25:00', 'expire'),
('on_expired unknown',                                     '{"on_expired": "unknown"}', '{"now": "25:00"}', 'look', '25:00', 'expire'),
('on_expired null is unknown',                             '{"on_expired": null}', '{"now": "25:00"}', 'look', '25:00', 'expire'),
-- condition 5: what a failed answer leaves
('stores_failures all',                                    '{"stores_failures": "all"}',             '{"last_code": "503"}', 'resend', '1:00', NULL),
('stores_failures success_and_4xx',                        '{"stores_failures": "success_and_4xx"}', '{"last_code": "503"}', 'look', '1:00', 'failed answer'),
('stores_failures success',                                '{"stores_failures": "success"}',         '{"last_code": "503"}', 'look', '1:00', 'failed answer'),
('stores_failures none',                                   '{"stores_failures": "none"}',            '{"last_code": "503"}', 'look', '1:00', 'failed answer'),
('stores_failures resumes',                                '{"stores_failures": "resumes"}',         '{"last_code": "503"}', 'look', '1:00', 'failed answer'),
('stores_failures unknown',                                '{"stores_failures": "unknown"}',         '{"last_code": "503"}', 'look', '1:00', 'failed answer'),
('stores_failures null is unknown',                        '{"stores_failures": null}',              '{"last_code": "503"}', 'look', '1:00', 'failed answer'),
('a timeout can hide the same 503',                        '{"stores_failures": "success"}',         '{}', 'look', '1:00', 'failed answer'),
('only successes stored, but failures roll back',          '{"stores_failures": "success", "failures_roll_back": true}', '{}', 'resend', '1:00', NULL),
('nothing stored, but failures roll back',                 '{"stores_failures": "none", "failures_roll_back": true}', '{}', 'resend', '1:00', NULL),
('failures_roll_back null is false',                       '{"stores_failures": "none", "failures_roll_back": null}', '{}', 'look', '1:00', 'failed answer'),
-- condition 6: the last answer
('a stored failure: resends stop',                         '{}', '{"last_code": "stored_failure"}', 'look', '1:00', 'stored a failure'),
('a stored failure, nothing to look with',                 '{"lookup": "none"}', '{"last_code": "stored_failure"}', 'human', NULL, 'stored a failure'),
('a mismatch is for a human',                              '{}', '{"last_code": "mismatch"}', 'human', NULL, 'other content'),
('a mismatch, nothing to look with',                       '{"lookup": "none"}', '{"last_code": "mismatch"}', 'human', NULL, 'other content'),
('a mismatch, even without a key',                         '{"key_carrier": "none"}', '{"last_code": "mismatch"}', 'human', NULL, 'other content'),
('in progress is no refusal',                              '{}', '{"last_code": "in_progress"}', 'resend', '1:00', NULL),
('in progress, a second one executes too',                 '{"on_concurrent": "executes_twice"}', '{"last_code": "in_progress", "now": "0:03"}', 'look', '0:03', 'still arrive'),
('reset',                                                  '{}', '{"last_code": "reset"}', 'resend', '1:00', NULL),
('no answer at all',                                       '{}', '{"last_code": null, "last_answer_at": null}', 'resend', '1:00', NULL),
('500 and all stored',                                     '{}', '{"last_code": "500"}', 'resend', '1:00', NULL),
-- condition 7: the delay that the provider asks for
('min_retry_delay: a microsecond before',                  '{"min_retry_delay": "30 s"}', '{"now": "0:01:29.999999"}', 'wait', '0:01:30', 'delay'),
('min_retry_delay has passed',                             '{"min_retry_delay": "30 s"}', '{"now": "0:01:30"}', 'resend', '0:01:30', NULL),
('min_retry_delay 0',                                      '{"min_retry_delay": 0}', '{"now": "0:01"}', 'resend', '0:01', NULL),
('min_retry_delay without an answer: from the lease end',  '{"min_retry_delay": "30 s"}', '{"now": "0:02:29.999999", "last_answer_at": null}', 'wait', '0:02:30', 'delay'),
('min_retry_delay, nothing to look with',                  '{"min_retry_delay": "30 s", "lookup": "none"}', '{"now": "0:01:10"}', 'wait', '0:01:30', 'delay'),
('min_retry_delay and in flight: look',                    '{"min_retry_delay": "1 hour", "on_concurrent": "unknown"}', '{"now": "0:03"}', 'look', '0:03', 'still arrive'),
('min_retry_delay and in flight, no look: the later',      '{"min_retry_delay": "1 hour", "on_concurrent": "unknown", "lookup": "none"}', '{"now": "0:03"}', 'wait', '1:01', 'still arrive'),
('min_retry_delay and in flight, no look: still the later', '{"min_retry_delay": "30 s", "on_concurrent": "unknown", "lookup": "none"}', '{"now": "0:01:10"}', 'wait', '0:12', 'still arrive'),
('min_retry_delay over, but in flight, no look',           '{"min_retry_delay": "30 s", "on_concurrent": "unknown", "lookup": "none"}', '{"now": "0:03"}', 'wait', '0:12', 'still arrive'),
('min_retry_delay beyond the retention',                   '{"min_retry_delay": "24 hours"}', '{}', 'look', '1:00', 'expire'),
-- looking
('lookup by_key',                                          '{"stores_failures": "none", "lookup": "by_key"}',    '{}', 'look', '1:00', NULL),
('lookup by_own_id',                                       '{"stores_failures": "none", "lookup": "by_own_id"}', '{}', 'look', '1:00', NULL),
('lookup by_marker',                                       '{"stores_failures": "none", "lookup": "by_marker"}', '{}', 'look', '1:00', NULL),
('lookup by_event',                                        '{"stores_failures": "none", "lookup": "by_event"}',  '{}', 'look', '1:00', NULL),
('lookup none',                                            '{"stores_failures": "none", "lookup": "none"}',      '{}', 'human', NULL, 'failed answer'),
('lookup null is none',                                    '{"stores_failures": "none", "lookup": null}',        '{}', 'human', NULL, 'failed answer'),
('a look may come at once, however it lags',               '{"stores_failures": "none", "lookup_lag": "1 day"}', '{"now": "0:01"}', 'look', '0:01', NULL),
('lookup_lag null',                                        '{"stores_failures": "none", "lookup_lag": null}',    '{"now": "0:01"}', 'look', '0:01', NULL),
('absence as proof makes no resend',                       '{"stores_failures": "none", "absence_is_proof": true}', '{}', 'look', '1:00', NULL),
('the next look is due later',                             '{"stores_failures": "none"}', '{"look_due_at": "1:30", "lookups": 1}', 'look', '1:30', NULL),
('the next look is due now',                               '{"stores_failures": "none"}', '{"look_due_at": "1:00", "lookups": 1}', 'look', '1:00', NULL),
('the next look was due',                                  '{"stores_failures": "none"}', '{"look_due_at": "0:30", "lookups": 1}', 'look', '1:00', NULL),
('one look is left',                                       '{"stores_failures": "none"}', '{"lookups": 4}', 'look', '1:00', NULL),
('looked often enough',                                    '{"stores_failures": "none"}', '{"lookups": 5}', 'human', NULL, 'not found out'),
('looked often enough, but a resend is safe',              '{}', '{"lookups": 5}', 'resend', '1:00', NULL),
-- attempts, and late answers of older ones
('no attempts are left',                                   '{}', '{"attempts_left": false}', 'look', '1:00', 'attempts'),
('no attempts are left, nothing to look with',             '{"lookup": "none"}', '{"attempts_left": false}', 'human', NULL, 'attempts'),
('no attempts are left: no use waiting',                   '{"lookup": "none", "min_retry_delay": "2 hours"}', '{"attempts_left": false}', 'human', NULL, 'attempts'),
('an older attempt happened: look',                        '{}', '{"late_found": true}', 'look', '1:00', 'reported to have happened'),
('an older attempt happened, nothing to look with',        '{"lookup": "none"}', '{"late_found": true}', 'human', NULL, 'reported to have happened'),
('an older attempt happened, looked often enough',         '{}', '{"late_found": true, "lookups": 5}', 'human', NULL, 'not found out'),
-- no contract, and an empty one
('no contract: no key, nothing to look with',              '[]', '{}', 'human', NULL, 'no idempotency key'),
('no contract, in flight: no use waiting',                 '[]', '{"now": "0:03"}', 'human', NULL, 'no idempotency key'),
-- several contracts: the most careful answer
('two that allow it',                                      '[{}, {}]', '{}', 'resend', '1:00', NULL),
('pinned allows, in force waits',                          '[{}, {"min_retry_delay": "2 hours"}]', '{}', 'wait', '2:01', NULL),
('pinned waits, in force allows',                          '[{"min_retry_delay": "2 hours"}, {}]', '{}', 'wait', '2:01', NULL),
('both wait: the later',                                   '[{"min_retry_delay": "2 hours"}, {"min_retry_delay": "3 hours"}]', '{}', 'wait', '3:01', NULL),
('both wait, other way round: the later',                  '[{"min_retry_delay": "3 hours"}, {"min_retry_delay": "2 hours"}]', '{}', 'wait', '3:01', NULL),
('wait and look: look',                                    '[{"min_retry_delay": "2 hours"}, {"stores_failures": "success"}]', '{}', 'look', '1:00', 'failed answer'),
('look and human: human',                                  '[{"stores_failures": "success"}, {"retention": null, "lookup": "none"}]', '{}', 'human', NULL, 'how long'),
('human and resend: human',                                '[{"lookup": "none", "key_carrier": "none"}, {}]', '{}', 'human', NULL, NULL),
('the third, announced one is the weakest',                '[{}, {}, {"retention": "1 hour"}]', '{}', 'look', '1:00', 'expire'),
('a later, stronger contract does not mend the pinned one', '[{"stores_failures": "success"}, {}]', '{}', 'look', '1:00', 'failed answer'),
-- columns that the rule does not ask
('other columns have no say',
 '{"provider": "p", "operation": "o", "version": 7, "shipped": true, "valid_from": "x", "key_name": "K", "key_max_bytes": 36, "scope_parts": ["a"],
   "replay_marker": "R", "source": "s", "checked_on": "2026-12-01", "proves_not_happened": ["400"]}', '{"last_code": "400"}', 'resend', '1:00', NULL);
\set ECHO all

CREATE TEMP VIEW answers AS
SELECT c.id, c.name, c.step AS expected, c.due AS expected_due, c.reason AS expected_reason, a.step, a.due_at - pg_temp.zero() AS due, a.reason
FROM cases c, LATERAL extaction.contract_step(pg_temp.contracts(c.contracts), pg_temp.situation(c.situation)) a;

-- wrong answers: none
SELECT name, expected, step, expected_due, due, expected_reason, reason
FROM answers
WHERE step <> expected OR due IS DISTINCT FROM expected_due OR strpos(reason, expected_reason) = 0
ORDER BY id;
SELECT step, count(*) FROM answers GROUP BY step ORDER BY step;

-- every reason the rule can give occurs in some case
SELECT step, reason, count(*) > 0 AS covered FROM answers GROUP BY step, reason ORDER BY step, reason COLLATE "C";


--
-- Of any two contracts the answer is never less careful than that of each; their order does not matter
--
CREATE FUNCTION pg_temp.careful(step text) RETURNS int LANGUAGE sql AS $$ SELECT array_position('{resend,wait,look,human}', step) $$;

CREATE TEMP TABLE alone AS
SELECT row_number() OVER () AS n, pg_temp.contracts(contracts) AS contracts, pg_temp.situation(situation) AS situation
FROM (SELECT DISTINCT contracts FROM cases WHERE jsonb_typeof(contracts) = 'object') AS c,
     (VALUES ('{}'::jsonb), ('{"now": "0:03"}'), ('{"now": "23:47", "last_code": "503"}')) AS s (situation);

SELECT count(*) > 10000 AS many_pairs,
       count(*) FILTER (WHERE pg_temp.careful(together.step) <> greatest(pg_temp.careful(a.step), pg_temp.careful(b.step))) AS wrong
FROM alone x JOIN alone y USING (situation),
     LATERAL extaction.contract_step(x.contracts || y.contracts, situation) AS together,
     LATERAL extaction.contract_step(x.contracts, situation) AS a,
     LATERAL extaction.contract_step(y.contracts, situation) AS b;


--
-- Counterexamples (C3 to C6, C9, C13, C14) and cases that went wrong elsewhere
--

-- C3: claimed at 0:00, sent at 0:03, lease until 0:05; a look at 0:13 counts from the end of the lease, not from the claim
SELECT absent_after - pg_temp.zero() AS absent_after, absent_after < pg_temp.zero() + interval '0:13' AS taken_at_0_13
FROM extaction.contract_proof(pg_temp.contracts('{"absence_is_proof": true}'), '', pg_temp.zero() + interval '0:05');

-- C4: effect at 0, the key lives to 9; granted at 7, sent at 8, arrived at 9: two effects. So it is not granted
SELECT now, a.step, a.reason
FROM generate_series(0, 9) AS now,
     LATERAL extaction.contract_step(
         pg_temp.contracts('{"retention": "9 min", "late_arrival_bound": "1 min"}'),
         pg_temp.situation(jsonb_build_object('now', now || ' min', 'quiet_from', '1 min', 'lease', '1 min', 'margin', '1 min'))) AS a;

-- C5: a timeout is reported while the request is still executing, and the provider would execute both
SELECT now, on_concurrent, a.step
FROM (VALUES (interval '0:01'), ('0:12')) AS n (now), (VALUES ('executes_twice'), ('rejects')) AS o (on_concurrent),
     LATERAL extaction.contract_step(pg_temp.contracts(jsonb_build_object('on_concurrent', on_concurrent)),
                                     pg_temp.situation(jsonb_build_object('now', now))) AS a
ORDER BY now, on_concurrent;

-- C6: effect, then 503, and only successes are stored; a timeout can hide the same 503
SELECT code, a.step, a.reason
FROM (VALUES ('503'), ('timeout')) AS v (code),
     LATERAL extaction.contract_step(pg_temp.contracts('{"stores_failures": "success"}'), pg_temp.situation(jsonb_build_object('last_code', code))) AS a;

-- C9: attempt 1 says happened while attempt 2 is out and lost
SELECT step, reason FROM extaction.contract_step(pg_temp.contracts('{}'), pg_temp.situation('{"late_found": true}'));

-- C13: compensating waits until nothing can arrive
SELECT quiet_after - pg_temp.zero() AS quiet_after
FROM extaction.contract_proof(pg_temp.contracts('[{}, {"late_arrival_bound": "1 hour"}]'), '', pg_temp.zero() + interval '0:02');

-- C14: a weaker contract is announced for tomorrow
SELECT step, reason FROM extaction.contract_step(pg_temp.contracts('[{"version": 1}, {"version": 2, "valid_from": "tomorrow", "key_carrier": "none"}]'),
                                                 pg_temp.situation('{}'));

-- a provider replays its stored 500 for a day: the resends stop
SELECT now, a.step
FROM (VALUES (interval '1:00'), ('12:00'), ('23:00')) AS n (now),
     LATERAL extaction.contract_step(pg_temp.contracts('{}'), pg_temp.situation(jsonb_build_object('now', now, 'last_code', 'stored_failure'))) AS a;


--
-- What proves that nothing happened
--
CREATE FUNCTION pg_temp.proof(differs jsonb, code text) RETURNS TABLE (not_happened boolean, absence boolean, absent_after interval, quiet_after interval)
LANGUAGE sql AS $$
SELECT p.not_happened, p.absence_is_proof, p.absent_after - pg_temp.zero(), p.quiet_after - pg_temp.zero()
FROM extaction.contract_proof(pg_temp.contracts(differs), code, pg_temp.zero() + interval '0:02') p
$$;

SELECT name, p.*
FROM (VALUES
    (1,  'listed',                                 '{"proves_not_happened": ["400", "401"]}', '401'),
    (2,  'not listed',                             '{"proves_not_happened": ["400", "401"]}', '402'),
    (3,  'nothing listed',                         '{}', '400'),
    (4,  'a prefix',                               '{"proves_not_happened": ["400"]}', '40'),
    (5,  'listed by one of two',                   '[{"proves_not_happened": ["400"]}, {"proves_not_happened": []}]', '400'),
    (6,  'listed by both',                         '[{"proves_not_happened": ["400"]}, {"proves_not_happened": ["401", "400"]}]', '400'),
    (7,  'our own codes never are',                '{"proves_not_happened": ["timeout", "in_progress", "mismatch"]}', 'in_progress'),
    (8,  'absence as proof',                       '{"absence_is_proof": true}', ''),
    (9,  'absence as proof, by one of two',        '[{"absence_is_proof": true}, {}]', ''),
    (10, 'absence as proof, by both: the later',   '[{"absence_is_proof": true}, {"absence_is_proof": true, "lookup_lag": "5 min", "late_arrival_bound": "9 min"}]', ''),
    (11, 'absence as proof, nothing to look with', '{"absence_is_proof": true, "lookup": "none"}', ''),
    (12, 'late_arrival_bound null: never',         '{"late_arrival_bound": null}', ''),
    (13, 'lookup_lag null: never absent',          '{"lookup_lag": null}', ''),
    (14, 'lookup_lag null, no look-up to lag',     '{"lookup_lag": null, "lookup": "none"}', ''),
    (15, 'null in one of two',                     '[{}, {"late_arrival_bound": null}]', ''),
    (16, 'no contract',                            '[]', '400')
) AS v (n, name, differs, code), LATERAL pg_temp.proof(differs::jsonb, code) AS p
ORDER BY n;


--
-- Documents: spans in every style, times in any zone, slips refused
--
SELECT retention, a.step
FROM (VALUES ('"24:00:00"'::jsonb), ('"1 day"'), ('"P1D"'), ('"PT24H"'), ('"@ 1 day"'), ('"0-0 1 0:00"'), ('86400'), ('86400.000001'), ('"1000 years"'), ('"1000-0"'), ('"178000000 years"')) AS v (retention),
     LATERAL extaction.contract_step(pg_temp.contracts(jsonb_build_object('retention', retention)), pg_temp.situation('{"now": "23:47"}')) AS a;
SELECT now, a.due_at = '2026-06-01 00:30+00' AS same
FROM (VALUES ('2026-06-01T00:30:00Z'), ('2026-06-01T02:30:00+02:00'), ('2026-05-31T17:30:00.000000-07')) AS v (now),
     LATERAL extaction.contract_step(pg_temp.contracts('{}'), pg_temp.situation('{}') || jsonb_build_object('now', now)) AS a;

CREATE FUNCTION pg_temp.fault(contracts jsonb, situation jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    state text; fault text; path text;
BEGIN
    RETURN (SELECT step FROM extaction.contract_step(contracts, situation));
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, fault = PG_EXCEPTION_DETAIL, path = CONSTRAINT_NAME;
    RETURN concat_ws(' | ', state, path, fault);
END
$$;

SELECT pg_temp.fault(c::jsonb, pg_temp.situation('{}') || s::jsonb)
FROM (VALUES
    (1, '{}', '{}'),
    (2, '"[]"', '{}'),
    (3, '[{}, 1]', '{}'),
    (4, '[{}, {"on_replays": "exists"}]', '{}'),
    (5, '[{"on_replay": "First_Result"}]', '{}'),
    (6, '[{"on_replay": 1}]', '{}'),
    (7, '[{"failures_roll_back": "yes"}]', '{}'),
    (8, '[{"proves_not_happened": "400"}]', '{}'),
    (9, '[{"proves_not_happened": [400]}]', '{}'),
    (10, '[{"retention": "-1 day"}]', '{}'),
    (11, '[{"retention": "1 day ago"}]', '{}'),
    (12, '[{"retention": -5}]', '{}'),
    (13, '[{"retention": "1 day -1 hour"}]', '{}'),
    (14, '[{"retention": true}]', '{}'),
    (15, '[{"version": 1.5}]', '{}'),
    (16, '[{"version": -1}]', '{}'),
    (17, '[]', '{"now": "now"}'),
    (18, '[]', '{"now": "2026-06-01 00:30:00Z"}'),
    (19, '[]', '{"now": "2026-06-01T00:30:00"}'),
    (20, '[]', '{"now": "2026-06-01T00:30:00 Europe/Berlin"}'),
    (21, '[]', '{"now": null}'),
    (22, '[]', '{"lease": null}'),
    (23, '[]', '{"gate_pass": true}'),
    (24, '[]', '{"lookups": "3"}'),
    (25, (SELECT jsonb_agg('{}'::jsonb) FROM generate_series(1, 101))::text, '{}')
) AS v (n, c, s)
ORDER BY n;
SELECT pg_temp.fault('[]', '[]'), extaction.contract_step('[]', NULL) IS NULL AS strict;


--
-- The rows that ship
--
SELECT count(*) AS rows, count(DISTINCT (provider, operation)) AS operations, bool_and(shipped AND version = 1) AS first_version,
       bool_and(late_arrival_bound IS NOT NULL AND lookup_lag IS NOT NULL) AS bounds_known, bool_and(source <> '') AS source_named,
       count(*) FILTER (WHERE key_max_bytes < 36) AS too_short_for_a_uuid
FROM extaction.contracts WHERE shipped;
SELECT provider, operation FROM extaction.contracts WHERE shipped AND absence_is_proof ORDER BY provider;

-- no word but those that the rule knows: contract_step would refuse it. What follows when the answer was lost: at once, after an hour, after a day
SELECT c.provider, c.operation, at_once.step AS "at 0:01", hour.step AS "at 1:00", day.step AS "at 24:00", hour.reason AS "at 1:00 because"
FROM extaction.contracts c,
     LATERAL extaction.contract_step(jsonb_build_array(to_jsonb(c)), pg_temp.situation('{"now": "0:01"}')) AS at_once,
     LATERAL extaction.contract_step(jsonb_build_array(to_jsonb(c)), pg_temp.situation('{"now": "1:00"}')) AS hour,
     LATERAL extaction.contract_step(jsonb_build_array(to_jsonb(c)), pg_temp.situation('{"now": "24:00"}')) AS day
WHERE c.shipped
ORDER BY c.provider COLLATE "C", c.operation COLLATE "C";

-- no row lists a code of our own: none
SELECT c.provider, c.operation, code
FROM extaction.contracts c, unnest(c.proves_not_happened) AS code
WHERE c.shipped AND NOT (SELECT not_happened FROM extaction.contract_proof(jsonb_build_array(to_jsonb(c)), code, pg_temp.zero()));
