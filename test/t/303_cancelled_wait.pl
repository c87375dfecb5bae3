# A commit whose wait for the synchronous standby is cancelled is a success with a warning, and everybody sees it.  A ticket of such a
# commit shows nothing before the standby has it: after a failover nobody would know that it was sent.
use strict;
use warnings FATAL => 'all';

use lib 'test/lib';
use Outside;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Session;
use Test::More;

my $primary = new_server('primary', 'wal_level = replica', 'max_wal_senders = 5', 'restart_after_crash = on', 'autovacuum = off');
make_tools($primary);
$primary->safe_psql('postgres', "CALL lab.ask('$_')") foreach qw(cancelled terminated killed forgotten);
$primary->backup('base');

# Without a synchronous standby nothing waits.
$primary->safe_psql('postgres', "CALL lab.ask('alone')");
is(rows($primary, "SELECT lab.claim('w', 5)") ne '' && rows($primary, 'SELECT intent_id FROM extaction.claimed(1) WHERE intent_id = \'alone\''),
	'alone', 'no synchronous standby is named: a ticket is shown at once');
$primary->safe_psql('postgres', 'SELECT extaction.release(1)');
is(rows($primary, "SELECT status FROM extaction.cancel('lab', 'alone', 'enough')"), 'done', 'and this one is out of the way');

# From here on one is named, and it is not there.
$primary->append_conf('postgresql.conf', "synchronous_standby_names = 'absent'");
$primary->reload;

# A claim, begun and waiting for the standby: the session, and the ticket it will have.
sub waiting_claim
{
	my ($name) = @_;
	my $session = Session->new($primary);

	$session->tell("SELECT claim_id FROM extaction.claim('$name', 1, lease => '1 h', scope => 'lab')");
	waits($session);
	return ($session, $primary->safe_psql('postgres', 'SELECT last_value FROM extaction.claim_id_seq'));
}

sub waits
{
	my ($session) = @_;

	$primary->poll_query_until('postgres', "SELECT wait_event = 'SyncRep' FROM pg_stat_activity WHERE pid = " . $session->backend)
	  or die 'nobody waits for the standby';
	return;
}

# Nothing is shown of the ticket, however one asks.
sub shows_nothing
{
	my ($ticket, $name) = @_;
	my $session = Session->new($primary);
	my $said;

	$session->tell("SELECT 'shown ' || intent_id FROM extaction.claimed($ticket)");
	waits($session);
	$primary->safe_psql('postgres', 'SELECT pg_cancel_backend(' . $session->backend . ')');
	$said = $session->answer;
	unlike($said, qr/^shown /m, "$name: claimed waits, and shows nothing when it is cancelled");
	like($said, qr/ERROR:  55000/, "$name: it says why");
	is(state($ticket), 'sending|f', "$name: it is not handed out");

	$said = $session->ask("SET statement_timeout = '50 ms'; SELECT 'shown ' || intent_id FROM extaction.claimed($ticket)");
	unlike($said, qr/^shown /m, "$name: nor when its time is over");
	like($said, qr/ERROR:  55000/, "$name: it says why");
	is($session->ask('RESET statement_timeout; SELECT 1'), '1', "$name: the session goes on");

	$session->tell("SELECT 'shown ' || intent_id FROM extaction.claimed($ticket)");
	waits($session);
	$primary->safe_psql('postgres', 'SELECT pg_terminate_backend(' . $session->backend . ')');
	unlike($session->answer // '', qr/^shown /m, "$name: nor when it is terminated");
	$session->end;
	is(state($ticket), 'sending|f', "$name: still not handed out");
	return;
}

sub state
{
	my ($ticket) = @_;

	return rows($primary, "SELECT state, handed_at IS NOT NULL FROM extaction.worklist WHERE claim_id = $ticket");
}

# As long as the claim waits, nobody sees it.
my ($session, $ticket) = waiting_claim('one');
my @tickets = ($ticket);
is(rows($primary, "SELECT count(*) FROM extaction.claimed($ticket)"), '0', 'a claim that waits is nobody\'s to see');
is(rows($primary, "SELECT count(*) FROM extaction.worklist WHERE state = 'sending'"), '0', 'nor on the list');

$primary->safe_psql('postgres', 'SELECT pg_cancel_backend(' . $session->backend . ')');
like($session->answer, qr/WARNING:.*^$ticket$/ms, 'cancelled: a warning, and success');
$session->end;
shows_nothing($ticket, 'cancelled');

($session, $ticket) = waiting_claim('two');
push @tickets, $ticket;
$primary->safe_psql('postgres', 'SELECT pg_terminate_backend(' . $session->backend . ')');
$session->answer;
$session->end;
$primary->poll_query_until('postgres', "SELECT count(*) = 1 FROM extaction.worklist WHERE claim_id = $ticket") or die;
shows_nothing($ticket, 'terminated');

($session, $ticket) = waiting_claim('three');
push @tickets, $ticket;
kill 'KILL', $session->backend;
$session->end;
$primary->poll_query_until('postgres', "SELECT count(*) = 1 FROM extaction.worklist WHERE claim_id = $ticket") or die;
is(state($ticket), 'sending|f', 'killed: on disk here, and nowhere else');
shows_nothing($ticket, 'killed');

# Who looks at nothing does not wait, and what asks for no permission neither.
is(rows($primary, 'SELECT count(*) FROM extaction.claimed(4711)'), '0', 'a ticket that holds nothing: no wait');
like(state_of($primary, 'cancelled'), qr{^sending\|2\|}, 'reading does not wait');

# This is what it is for: a standby that takes over now knows nothing of the three.
my $other = PostgreSQL::Test::Cluster->new('other');
$other->init_from_backup($primary, 'base');
$other->start;
is(rows($other, "SELECT count(*) FROM extaction.worklist WHERE state = 'prepared'"), '4', 'a failover would send them all again');
$other->stop;

# It comes, and gets what it lacked.
my $standby = PostgreSQL::Test::Cluster->new('absent');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;
foreach my $ticket (@tickets)
{
	my $worker = Session->new($primary);
	my $shown = "SELECT 'shown ' || count(*) FROM extaction.claimed($ticket)";

	is($worker->ask($shown), 'shown 1', "ticket $ticket is shown as soon as the standby has it");
	is($worker->ask($shown), 'shown 0', "ticket $ticket is shown once");
	$worker->end;
}
$primary->stop('immediate');
$standby->promote;
is(rows($standby, "SELECT count(*) FROM extaction.worklist WHERE state = 'sending'"), '3', 'after a failover they are out');
is(rows($standby, "SELECT count(*) FROM extaction.claimed($_)"), '0', "ticket $_ is not shown again") foreach @tickets;
is(rows($standby, 'SELECT * FROM extaction.verify()'), '', 'verify has nothing against it');

$standby->stop;
done_testing();
