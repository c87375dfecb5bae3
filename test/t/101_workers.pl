# Eight processes with one worker name, each restarting inside its leases: every intent is handed out once and sent once.
use strict;
use warnings FATAL => 'all';

use lib 'test/lib';
use IPC::Run;
use Outside;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_server('workers', 'autovacuum = off');
make_tools($node);

# A worker that begins with every ticket of its name that it can find, as one does that restarts and looks what it had; it sends,
# forgets one answer in five, and goes on till nothing is left.
$node->safe_psql('postgres', q{
	CREATE PROCEDURE lab.hand_out(ticket bigint, me text) LANGUAGE plpgsql AS $$
	DECLARE
		e extaction.envelope;
		todo extaction.envelope[];
	BEGIN
		todo := ARRAY(SELECT c FROM extaction.claimed(ticket) c);
		COMMIT;
		FOREACH e IN ARRAY todo LOOP
			INSERT INTO lab.sends (intent_id, key, attempt, step, worker) VALUES (e.intent_id, e.idempotency_key, e.attempt, e.step, me);
			COMMIT;
			IF random() < 0.8 THEN
				PERFORM extaction.record_outcome('lab', e.intent_id, e.attempt, 'happened', provider_ref => e.intent_id);
			END IF;
			COMMIT;
		END LOOP;
	END $$;
	CREATE PROCEDURE lab.work(me text) LANGUAGE plpgsql AS $$
	DECLARE
		ticket bigint;
		t extaction.ticket;
	BEGIN
		FOR ticket IN SELECT DISTINCT w.claim_id FROM extaction.worklist w WHERE w.worker = 'the worker' LOOP
			CALL lab.hand_out(ticket, me);
		END LOOP;
		LOOP
			SELECT * INTO t FROM extaction.claim('the worker', 1 + (random() * 6)::int, lease => '1 h', scope => 'lab');
			COMMIT;
			EXIT WHEN t.claim_id IS NULL AND NOT EXISTS (SELECT FROM extaction.worklist w WHERE w.state = 'prepared');
			CONTINUE WHEN t.claim_id IS NULL;
			IF random() < 0.2 THEN		-- it stops before it has read its ticket, and begins anew
				CALL lab.work(me);
				RETURN;
			END IF;
			CALL lab.hand_out(t.claim_id, me);
		END LOOP;
	END $$;
});

foreach my $intents (20, 500)
{
	$node->safe_psql('postgres', 'TRUNCATE lab.sends');

	$node->safe_psql('postgres', "DO \$\$ BEGIN FOR g IN 1 .. $intents LOOP CALL lab.ask('n-$intents-' || g); END LOOP; END \$\$");

	my @workers = map {
		my %worker = (out => '', err => '');
		$worker{run} = IPC::Run::start(
			[ $node->installed_command('psql'), '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'),
				'-c', "CALL lab.work('w$_')" ],
			'<', \undef, '>', \$worker{out}, '2>', \$worker{err},
			IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
		\%worker;
	} 1 .. 8;
	$_->{run}->finish foreach @workers;
	is(join('', map { $_->{err} } @workers), '', "$intents intents: no worker met an error");

	# what stopped before it had read its ticket is the only thing left: the next start of the worker reads it
	$node->safe_psql('postgres', "CALL lab.work('last')");
	is(rows($node, 'SELECT count(*), count(DISTINCT key), max(attempt) FROM lab.sends'), "$intents|$intents|1",
		"$intents intents, $intents sends");
	is(rows($node, q{SELECT count(*), count(DISTINCT (intent_id, attempt)) FROM extaction.timeline WHERE kind = 'sending'
	                  AND intent_id LIKE 'n-} . $intents . q{-%'}), "$intents|$intents", 'each claimed once');
	cmp_ok(rows($node, 'SELECT count(DISTINCT worker) FROM lab.sends'), '>', 1, 'by more than one process') if $intents > 20;
	is(rows($node, "SELECT count(*) FROM extaction.worklist WHERE state = 'prepared' OR (state = 'sending' AND handed_at IS NULL)"), '0', 'none left to send');
	is(rows($node, 'SELECT * FROM extaction.verify()'), '', 'verify has nothing against it');

	# the leases end: the right to look, not to send
	$node->safe_psql('postgres', "CALL lab.later('2 h')");
	is(rows($node, "SELECT claimed FROM extaction.claim('the worker', 1000, lease => '1 h', scope => 'lab')"), '0',
		'an ended lease is not the right to send');
	is(rows($node, "SELECT count(*) FROM extaction.worklist WHERE state <> 'uncertain'"), '0', 'what was not answered is uncertain');
}

$node->stop;
done_testing();
