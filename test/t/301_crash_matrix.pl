# Everything dies, with something inside or just after every verb: by kill -9 of a backend, pg_ctl stop -m immediate, kill -9 of the
# whole server; with synchronous_commit on and off.  A provider outside counts effects.  After each: what was in the middle is undone
# and can be done again, what was answered is there, nothing is handed out twice; and at the end everything has happened once.
use strict;
use warnings FATAL => 'all';

use lib 'test/lib';
use Campaign;
use Kill;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Provider;
use Session;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('matrix');
$node->init;
$node->append_conf('postgresql.conf', "restart_after_crash = on\nautovacuum = off\nwal_writer_delay = 10s\nmax_connections = 40\n");
$node->start;
my $provider = Provider->new;
my $campaign = Campaign->new(node => $node, provider => $provider);
my ($sync, $how, $name, %ticket, %session, %key);

foreach my $case (map { my $on = $_; map { [ $on, $_ ] } qw(backend immediate server) } qw(on off))
{
	($sync, $how) = @$case;
	$name = "synchronous_commit $sync, $how";
	crash();
	recover();
}
is($node->safe_psql('postgres', "SELECT count(*) FROM extaction.intent_status WHERE state <> 'happened'"), '0', 'all of it has happened');
my $book = $provider->book;
is_deeply([ grep { $book->{$_}{effects} != 1 } sort keys %$book ], [], 'once');
is(scalar keys %$book, $node->safe_psql('postgres', 'SELECT count(*) FROM extaction.intents'), 'outside, too');
$node->stop;
done_testing();

# Names of this round, and what is asked for under them.
sub intent { return "r0-$sync-$how-$_[0]"; }

sub request
{
	my ($step, $action) = @_;

	return "'camp', '" . intent($step) . "', '" . ($action // 'plain') . "', 'x\@out', '{\"text\": \"$step\"}'";
}

sub batch
{
	my ($step) = @_;
	my $items = join ', ', map { '{"intent_id": "' . intent("$step-$_") . "\", \"destination\": \"$_\@out\"}" } 1 .. 3;

	return "'camp', '" . intent($step) . "', 'plain', '{\"text\": \"all\"}', '[$items]'";
}

# One statement, in a session of its own.
sub run
{
	my ($sql) = @_;

	return $node->safe_psql('postgres', "SET synchronous_commit = $sync; $sql");
}

sub state { return run("SELECT state, attempt FROM extaction.find('camp', '" . intent($_[0]) . "')"); }

sub prepare
{
	my ($step, $action) = @_;
	my $request = request($step, $action);

	run("SELECT status FROM extaction.approve_in_advance($request)");
	$key{$step} = run("SELECT idempotency_key FROM extaction.submit($request)");
	return;
}

# It is the only one that is prepared.
sub claim
{
	my ($step) = @_;

	$ticket{$step} = run("SELECT claim_id FROM extaction.claim('w', lease => '1 h', scope => 'camp')");
	is(state($step), 'sending|1', "$name, $step: claimed");
	return;
}

sub hand_out { return run("SELECT count(*) FROM extaction.claimed($ticket{$_[0]})"); }

sub send_out
{
	my ($step, $fate, $action) = @_;

	return $provider->call('send', $action // 'plain', $key{$step}, intent($step), 1, time + 3600, $fate);
}

sub outcome
{
	my ($step, $what) = @_;

	return "SELECT status FROM extaction.record_outcome('camp', '" . intent($step) . "', 1, $what)";
}

sub lookup { return "SELECT status FROM extaction.record_lookup('camp', '" . intent($_[0]) . "', 'found', provider_ref => 'r')"; }

sub decide
{
	my ($step, $finding) = @_;

	return "SELECT status FROM extaction.decide('camp', '" . intent($step) . "', '$finding', 'I looked', clock_timestamp())";
}

sub approve
{
	my ($step) = @_;

	return "SELECT status FROM extaction.approve('camp', (SELECT encode(request_digest, 'hex') FROM extaction.waiting WHERE id = '"
	  . intent($step) . "'))";
}

# Time goes by for all that is open: leases end, and quiet periods.
sub later
{
	run(q{UPDATE extaction.worklist SET due_at = due_at - '2 h'::interval, lease_until = lease_until - '2 h'::interval,
		first_sent_at = first_sent_at - '2 h'::interval, quiet_from = quiet_from - '2 h'::interval WHERE due_at < 'infinity'});
	return;
}

# A session that is in the middle of a statement when the crash comes: it waits for a lock.
sub in_the_middle
{
	my ($step, $sql) = @_;
	my $session = $session{$step} = Session->new($node, before => "SET synchronous_commit = $sync");

	$session->tell($sql);
	$node->poll_query_until('postgres', "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = " . $session->backend)
	  or die "$step does not wait";
	return;
}

# Brings one intent to every step, and lets everything die.
sub crash
{
	# sent, and nobody knows; with what came of it at the provider
	foreach my $of ([ 'lookup', 'lost' ], [ 'decide', 'lost' ], [ 'absent', 'dropped' ], [ 'resend', 'lost', 'keyed' ])
	{
		my ($step, $fate, $action) = @$of;

		prepare($step, $action);
		claim($step);
		is(hand_out($step), '1', "$name, $step: handed out");
		is(send_out($step, $fate, $action), undef, "$name, $step: no answer");
		is(run(outcome($step, "'uncertain', '{\"code\": \"timeout\"}'")), 'recorded', "$name, $step: uncertain");
	}
	later();
	foreach my $step (qw(between handed sent outcome recorded))
	{
		prepare($step);
		claim($step);
		next if $step eq 'between';
		is(hand_out($step), '1', "$name, $step: handed out");
		next if $step eq 'handed';
		like(send_out($step, 'ok'), qr/^ok/, "$name, $step: sent");
		is(run(outcome($step, "'happened', provider_ref => 'r'")), 'recorded', "$name, $step: recorded") if $step eq 'recorded';
	}
	prepare('claim');
	run('SELECT status FROM extaction.submit(' . request($_) . ')') foreach qw(approve approved);
	run('SELECT status FROM extaction.approve_in_advance(' . request('submit') . ')');
	run('SELECT status FROM extaction.approve_batch_in_advance(' . batch('batch') . ')');
	run('SELECT status FROM extaction.submit_batch(' . batch('list') . ')');
	is(run(approve('approved')), 'approved', "$name, approved: approved");
	run("SELECT status FROM extaction.approve_in_advance('camp', '" . intent('batch-2') . "', 'plain', 'other', '{}')");
	prepare('submitted');

	# somebody has bound the same and does not commit; then nobody can append
	my $gate = Session->new($node);
	$gate->ask('BEGIN; SELECT status FROM extaction.submit(' . request('submit') . ')');
	$gate->ask("SELECT status FROM extaction.submit('camp', '" . intent('batch-2') . "', 'plain', 'other', '{}')");
	in_the_middle('submit', 'SELECT status FROM extaction.submit(' . request('submit') . ')');
	in_the_middle('batch', 'SELECT status FROM extaction.submit_batch(' . batch('batch') . ')');
	$gate->ask('LOCK TABLE extaction.events IN SHARE MODE');
	in_the_middle('approve', approve('approve'));
	in_the_middle('list', approve('list'));
	in_the_middle('claim', "SELECT claim_id FROM extaction.claim('w', lease => '1 h', scope => 'camp')");
	in_the_middle('resend', "SELECT claim_id FROM extaction.claim('w', 1, 'resend', '1 h', scope => 'camp')");
	in_the_middle('outcome', outcome('outcome', "'happened', provider_ref => 'r'"));
	in_the_middle('lookup', lookup('lookup'));
	in_the_middle('decide', decide('decide', 'found'));
	in_the_middle('absent', decide('absent', 'absent'));

	my @inside = values %session;
	kill_server($node, $how, $inside[ rand @inside ]->backend);
	is($_->answer, undef, "$name: a session is gone") foreach @inside;
	$_->end foreach @inside, $gate;
	%session = ();
	return;
}

# What is there, and how it goes on.
sub recover
{
	is($node->safe_psql('postgres', 'SELECT * FROM extaction.verify()'), '', "$name: verify has nothing against it");
	my $bound = "SELECT count(*) FROM extaction.intents WHERE intent_id LIKE '" . intent('%s') . "'";
	is(run(sprintf $bound, 'submit'), '0', "$name, in submit: not bound");
	is(run('SELECT status FROM extaction.submit(' . request('submit') . ')'), 'created', "$name, in submit: the next one is the first");
	is(run(sprintf $bound, 'batch-_'), '0', "$name, in submit_batch: nothing of it is bound");
	is(run('SELECT status, created FROM extaction.submit_batch(' . batch('batch') . ')'), 'created|3', "$name, in submit_batch: again");
	is(state('approve'), 'awaiting_approval|', "$name, in approve: it waits");
	is(run(approve('approve')), 'approved', "$name, in approve: again");
	is(run(sprintf $bound, 'list-_'), '0', "$name, in approve of a batch: nothing is bound");
	is(run(approve('list')), 'approved', "$name, in approve of a batch: again");
	is(run(sprintf $bound, 'list-_'), '3', "$name, in approve of a batch: all of it");
	is(state('approved'), 'prepared|', "$name, after approve: prepared");
	is(state('claim'), 'prepared|', "$name, in claim: prepared as before");

	# nothing flushes behind the last submit but the verbs that the crash has undone
	my $again = run('SELECT status, idempotency_key FROM extaction.submit(' . request('submitted') . ')');
	like($again, $sync eq 'on' ? qr/^replayed\|/ : qr/^(created|replayed|blocked)\|/, "$name, after submit: there, or as if never asked for");
	is($again =~ s/^\w+\|//r, $key{submitted}, "$name, after submit: the same key") unless $again =~ /^blocked/;
	run('SELECT status FROM extaction.approve_in_advance(' . request('submitted') . ')');
	run('SELECT status FROM extaction.submit(' . request('submitted') . ')');

	is(state($_), 'sending|1', "$name, $_: it is out") foreach qw(between handed sent outcome);
	is(hand_out('between'), '1', "$name, between claim and claimed: the ticket holds");
	is(hand_out($_), '0', "$name, $_: not handed out again") foreach qw(between handed sent outcome);
	like(send_out('between', 'ok'), qr/^ok/, "$name, between claim and claimed: sent");
	is(run(outcome('between', "'happened', provider_ref => 'r'")), 'recorded', "$name, between claim and claimed: recorded");
	is(run(outcome('outcome', "'happened', provider_ref => 'r'")), 'recorded', "$name, in record_outcome: again");
	is(run(outcome('recorded', "'happened', provider_ref => 'r'")), 'replayed', "$name, after record_outcome: it is there");
	is(state($_), 'uncertain|1', "$name, $_: as before") foreach qw(lookup decide absent resend);
	is(run(lookup('lookup')), 'recorded', "$name, in record_lookup: again");
	is(run(decide('decide', 'found')), 'recorded', "$name, in decide: again");
	is(run(decide('absent', 'absent')), 'recorded', "$name, in decide, absent: again");
	is_deeply([ $campaign->faults ], [], "$name: ledger and provider agree");
	later();
	is_deeply([ $campaign->settle ], [], "$name: everything comes to its end");
	is_deeply([ $campaign->faults ], [], "$name: and is right");
	return;
}
