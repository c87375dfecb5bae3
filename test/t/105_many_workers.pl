# Eight processes do everything at once, for some seconds, to 200 intents, at a provider that keeps its word and loses answers:
# nothing is handed out twice, sent twice without a right to, or said to have happened that did not.
use strict;
use warnings FATAL => 'all';

use lib 'test/lib';
use IPC::Run;
use Outside;
use PostgreSQL::Test::Utils;
use Test::More;

my $seconds = $ENV{EXTACTION_MIX_SECONDS} || 8;
my $node = new_server('mix', 'max_connections = 30');
make_tools($node);

# The provider: it does what comes under a key once, however often it comes; it refuses some for good; it answers, or the answer is
# lost.  What comes later than late_arrival_bound after the lease it never gets: that is what the bound promises.
$node->safe_psql('postgres', q{
	INSERT INTO extaction.contracts (provider, operation, version, key_carrier, key_name, retention, on_expired, on_replay, on_mismatch,
		on_concurrent, stores_failures, proves_not_happened, lookup, absence_is_proof, lookup_lag, late_arrival_bound)
	SELECT 'lab', 'send', 2, 'header', 'Idempotency-Key', '24 hours', 'executes', 'first_result', 'rejects', 'rejects', 'all',
		'{400}', 'by_key', true, '0', '300 ms';
	UPDATE extaction.actions SET call_timeout = '20 ms', max_attempts = 8, retry_delay = '50 ms' WHERE action = 'lab_mail';
	CREATE TABLE lab.effects (key uuid PRIMARY KEY, attempt bigint);
	CREATE TABLE lab.errors (worker text, message text);
	CREATE TABLE lab.done (what text, said text);

	CREATE FUNCTION lab.call(e extaction.envelope, me text) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		fate double precision := random();
	BEGIN
		IF clock_timestamp() >= e.lease_until + interval '100 ms' THEN
			RETURN 'timeout';
		END IF;
		INSERT INTO lab.sends (intent_id, key, attempt, step, worker) VALUES (e.intent_id, e.idempotency_key, e.attempt, e.step, me);
		IF EXISTS (SELECT FROM lab.effects f WHERE f.key = e.idempotency_key) THEN
			RETURN 'ok';
		END IF;
		CASE WHEN fate < 0.25 THEN
			RETURN '400';
		WHEN fate < 0.75 THEN
			RETURN 'timeout';
		ELSE
			INSERT INTO lab.effects VALUES (e.idempotency_key, e.attempt) ON CONFLICT DO NOTHING;
		END CASE;
		RETURN CASE WHEN random() < 0.3 THEN 'timeout' ELSE 'ok' END;
	END $$;

	CREATE PROCEDURE lab.tell(e extaction.envelope, answer text) LANGUAGE plpgsql AS $$
	BEGIN
		INSERT INTO lab.done
		SELECT 'outcome', r.status FROM extaction.record_outcome('lab', e.intent_id, e.attempt,
			CASE answer WHEN 'ok' THEN 'happened' WHEN '400' THEN 'not_happened' ELSE 'uncertain' END,
			CASE WHEN answer <> 'ok' THEN jsonb_build_object('code', answer) END,
			CASE WHEN answer = 'ok' THEN e.intent_id END,
			CASE WHEN answer = '400' AND random() < 0.7 THEN interval '30 ms' END) r;
		COMMIT;
	END $$;

	CREATE PROCEDURE lab.take(what text, me text) LANGUAGE plpgsql AS $$
	DECLARE
		t extaction.ticket;
		e extaction.envelope;
		todo extaction.envelope[];
		began timestamptz;
		answer text;
		late extaction.envelope;
		late_answer text;
	BEGIN
		SELECT * INTO t FROM extaction.claim('one name for all', 1 + (random() * 5)::int, what,
			lease => CASE WHEN random() < 0.3 THEN interval '50 ms' ELSE interval '400 ms' END, scope => 'lab');
		COMMIT;
		IF t.claim_id IS NULL OR random() < 0.1 THEN
			RETURN;			-- nothing, or it dies here
		END IF;
		IF random() < 0.1 THEN
			INSERT INTO lab.done VALUES ('release', extaction.release(t.claim_id) > 0);
			COMMIT;
			RETURN;
		END IF;
		IF random() < 0.2 THEN
			PERFORM extaction.extend(t.claim_id, '500 ms');
			COMMIT;
		END IF;
		began := clock_timestamp();
		todo := ARRAY(SELECT c FROM extaction.claimed(t.claim_id) c);
		COMMIT;
		FOREACH e IN ARRAY todo LOOP
			INSERT INTO lab.handed VALUES (e.intent_id, e.attempt, e.step, me);
			COMMIT;
			IF e.step = 'look' THEN
				answer := CASE WHEN EXISTS (SELECT FROM lab.effects f WHERE f.key = e.idempotency_key) THEN 'found'
				               WHEN random() < 0.2 THEN 'unknown' ELSE 'absent' END;
				INSERT INTO lab.done SELECT 'look', r.status || ' ' || answer
				FROM extaction.record_lookup('lab', e.intent_id, answer, '{"by": "the list"}') r;
				COMMIT;
				CONTINUE;
			END IF;
			IF clock_timestamp() - began > e.send_within THEN
				PERFORM extaction.release(t.claim_id, ARRAY[e.intent_id]);
				COMMIT;
				CONTINUE;
			END IF;
			answer := lab.call(e, me);
			COMMIT;
			IF random() < 0.2 THEN		-- it dies before it says anything, or says it much later
				late := e;
				late_answer := answer;
				CONTINUE;
			END IF;
			CALL lab.tell(e, answer);
		END LOOP;
		IF late.intent_id IS NOT NULL AND random() < 0.7 THEN
			PERFORM pg_sleep(random() * 0.8);
			COMMIT;
			CALL lab.tell(late, late_answer);
		END IF;
	END $$;

	CREATE PROCEDURE lab.decide_one() LANGUAGE plpgsql AS $$
	DECLARE
		one text;
		looked timestamptz;
		there boolean;
	BEGIN
		SELECT w.intent_id INTO one FROM extaction.worklist w WHERE w.state = 'uncertain' ORDER BY random() LIMIT 1;
		COMMIT;
		looked := clock_timestamp();
		there := EXISTS (SELECT FROM lab.effects f JOIN extaction.intents i ON i.idempotency_key = f.key WHERE i.intent_id = one);
		COMMIT;
		IF one IS NOT NULL THEN
			INSERT INTO lab.done SELECT 'decide', r.status || ' ' || there
			FROM extaction.decide('lab', one, CASE WHEN there THEN 'found' ELSE 'absent' END, 'I looked', looked) r;
		END IF;
		COMMIT;
	END $$;

	CREATE PROCEDURE lab.mix(me text, span interval) LANGUAGE plpgsql AS $$
	DECLARE
		until timestamptz := clock_timestamp() + span;
		one text;
	BEGIN
		WHILE clock_timestamp() < until LOOP
			CASE (random() * 11)::int
				WHEN 0, 1, 2 THEN CALL lab.take('send', me);
				WHEN 3, 4 THEN CALL lab.take('resend', me);
				WHEN 5, 6 THEN CALL lab.take('look', me);
				WHEN 7 THEN PERFORM extaction.sweep();
				WHEN 8 THEN CALL lab.decide_one();
				WHEN 9 THEN
					SELECT i.intent_id INTO one FROM extaction.intents i ORDER BY random() LIMIT 1;
					INSERT INTO lab.done SELECT 'retry', r.status FROM extaction.retry('lab', one, 'again') r;
				WHEN 10 THEN
					IF random() < 0.05 THEN
						SELECT i.intent_id INTO one FROM extaction.intents i ORDER BY random() LIMIT 1;
						INSERT INTO lab.done SELECT 'abandon', r.status FROM extaction.abandon('lab', one, 'enough') r;
					END IF;
				ELSE PERFORM pg_sleep(0.01);
			END CASE;
			COMMIT;
		END LOOP;
	END $$;
});
$node->safe_psql('postgres', "DO \$\$ BEGIN FOR g IN 1 .. 200 LOOP CALL lab.ask('n' || g); END LOOP; END \$\$");

my @workers = map {
	my %worker = (out => '', err => '');
	$worker{run} = IPC::Run::start(
		[ $node->installed_command('psql'), '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'),
			'-c', "CALL lab.mix('w$_', '$seconds s')" ],
		'<', \undef, '>', \$worker{out}, '2>', \$worker{err},
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	\%worker;
} 1 .. 8;
$_->{run}->finish foreach @workers;
is(join('', map { $_->{err} } @workers), '', 'no process met an error, a deadlock among them');

note rows($node, "SELECT what, said, count(*) FROM lab.done GROUP BY 1, 2 ORDER BY 1, 2");
note rows($node, "SELECT state, count(*) FROM extaction.intent_status GROUP BY 1 ORDER BY 1");
note rows($node, "SELECT step, count(*) FROM lab.handed GROUP BY 1 ORDER BY 1") . ', sends ' . rows($node, 'SELECT count(*) FROM lab.sends');
cmp_ok(rows($node, "SELECT count(*) FROM lab.sends"), '>', 100, 'much was sent');

is(rows($node, "SELECT intent_id, attempt, count(*) FROM lab.handed WHERE step <> 'look' GROUP BY 1, 2 HAVING count(*) > 1"), '',
	'each attempt was handed out at most once');
is(rows($node, 'SELECT intent_id, attempt, count(*) FROM lab.sends GROUP BY 1, 2 HAVING count(*) > 1'), '', 'and sent at most once');
is(rows($node, 'SELECT s.intent_id FROM lab.sends s WHERE NOT EXISTS (SELECT FROM extaction.timeline t
	WHERE t.kind = \'sending\' AND t.intent_id = s.intent_id AND t.attempt = s.attempt AND t.recorded_at < s.at)'), '',
	'what was sent was on record before');
is(rows($node, "SELECT i.intent_id FROM extaction.intent_status i WHERE i.state = 'happened'
	AND NOT EXISTS (SELECT FROM lab.effects f WHERE f.key = i.idempotency_key)"), '', 'what is said to have happened did');
is(rows($node, "SELECT i.intent_id FROM extaction.intent_status i WHERE i.state = 'not_happened'
	AND EXISTS (SELECT FROM lab.effects f WHERE f.key = i.idempotency_key)"), '', 'what is said not to have happened did not');
is(rows($node, "SELECT intent_id FROM lab.sends GROUP BY 1 HAVING count(DISTINCT key) > 1"), '', 'one key for all attempts');
is(rows($node, q{
	SELECT again.intent_id, again.attempt
	FROM extaction.events again
	WHERE again.kind = 'sending' AND again.detail ->> 'step' = 'send'
	  AND EXISTS (SELECT FROM lab.sends s WHERE s.intent_id = again.intent_id AND s.attempt = again.attempt)
	  AND EXISTS (SELECT FROM extaction.events before JOIN lab.sends s USING (intent_id, attempt)
	              WHERE before.intent_id = again.intent_id AND before.kind = 'sending' AND before.event_id < again.event_id
	                AND NOT EXISTS (SELECT FROM extaction.events e WHERE e.intent_id = again.intent_id AND e.kind = 'not_happened'
	                                AND e.event_id > before.event_id AND e.event_id < again.event_id))}), '',
	'no second send without a resend, a proof, or a human');
is(rows($node, q{
	SELECT s.intent_id FROM extaction.events s JOIN extaction.events h USING (scope, intent_id)
	WHERE s.kind = 'sending' AND h.kind IN ('happened', 'late_evidence') AND h.detail ->> 'outcome' = 'happened'
	  AND h.event_id < s.event_id}), '', 'nothing goes out after happened is on record');
is(rows($node, q{SELECT intent_id, attempt FROM extaction.timeline WHERE kind = 'sending' GROUP BY 1, 2 HAVING count(*) > 1}), '',
	'no attempt is given twice');
is(rows($node, "SELECT intent_id FROM extaction.timeline WHERE kind = 'happened' GROUP BY 1 HAVING count(*) > 1"), '', 'happened is said once');
is(rows($node, q{SELECT h.intent_id FROM extaction.events h JOIN extaction.events e USING (scope, intent_id) WHERE h.kind = 'happened'
	AND e.kind IN ('not_happened', 'uncertain', 'retried', 'abandoned') AND e.event_id > h.event_id}), '', 'and never changed');
is(rows($node, 'SELECT * FROM extaction.verify()'), '', 'verify has nothing against it');
is(rows($node, 'SELECT extaction.rebuild_worklist()'), '0', 'the worklist is what the facts say');

$node->stop;
done_testing();
