# In the middle of a campaign the server is gone, and another one takes over: a synchronous standby, an asynchronous one that was
# behind, a base backup.  Workers send to the provider outside all the time, half of it without any key.  From the synchronous standby
# nothing is missing.  From the others something is: adopt('restored', ...), ask again for everything, and no effect comes twice.
use strict;
use warnings FATAL => 'all';

use lib 'test/lib';
use Campaign;
use ExtactionTest qw(seed);
use Kill;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Provider;
use Test::More;
use Time::HiRes qw(sleep);

my $seed = seed();
note "seed $seed";
srand $seed;
my $provider = Provider->new;

synchronous();
loses('asynchronous', \&left_behind);
loses('backup', \&from_backup);
done_testing();

sub new_primary
{
	my ($name) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init(allows_streaming => 1);
	$node->append_conf('postgresql.conf', "autovacuum = off\nmax_connections = 40\nwal_writer_delay = 10s\n");
	$node->start;
	return $node;
}

sub new_standby
{
	my ($name, $primary) = @_;
	my $standby = PostgreSQL::Test::Cluster->new($name);

	$primary->backup('base');
	$standby->init_from_backup($primary, 'base', has_streaming => 1);
	$standby->start;
	return $standby;
}

sub synchronous
{
	my $primary = new_primary('sync_primary');
	my $campaign = Campaign->new(node => $primary, provider => $provider, prefix => 's');
	my $standby = new_standby('sync_standby', $primary);

	$primary->append_conf('postgresql.conf', "synchronous_standby_names = 'sync_standby'");
	$primary->reload;
	$primary->poll_query_until('postgres', "SELECT sync_state = 'sync' FROM pg_stat_replication") or die 'no synchronous standby';

	$campaign->begin(int rand 1_000_000_000, 4);
	sleep 2 + rand;
	kill_for_good($primary);
	$campaign->finish;
	$standby->promote;
	$campaign->{node} = $standby;
	is_deeply([ $campaign->faults ], [], 'synchronous: nothing that was answered is lost');
	cmp_ok(scalar @{ $campaign->{handed} }, '>', 10, 'synchronous: much was sent');

	$campaign->begin(int rand 1_000_000_000, 4);
	sleep 1;
	$campaign->finish;
	is_deeply([ $campaign->faults ], [], 'synchronous: it goes on, with nothing to adopt');
	is_deeply([ $campaign->settle, $campaign->faults ], [], 'synchronous: to its end');
	$standby->stop;
	return;
}

# Two ways to a server that lacks the end.  Each lets the campaign run, and answers with the server and since when it lacks.
sub left_behind
{
	my ($primary, $campaign) = @_;
	my $standby = new_standby('left_behind', $primary);
	my $since;

	$campaign->begin(int rand 1_000_000_000, 4);
	sleep 1 + rand;
	$since = $primary->safe_psql('postgres', 'SELECT clock_timestamp()');
	$primary->wait_for_catchup($standby, 'replay', $primary->lsn('flush'));
	$standby->stop('immediate');
	sleep 1 + rand;
	kill_for_good($primary);
	$campaign->finish;
	$standby->start;
	$standby->promote;
	return ($standby, $since);
}

sub from_backup
{
	my ($primary, $campaign) = @_;
	my $restored = PostgreSQL::Test::Cluster->new('restored');
	my $since;

	$campaign->begin(int rand 1_000_000_000, 4);
	sleep 1 + rand;
	$since = $primary->safe_psql('postgres', 'SELECT clock_timestamp()');
	$primary->backup('base');
	sleep 1 + rand;
	kill_for_good($primary);
	$campaign->finish;
	$restored->init_from_backup($primary, 'base');
	$restored->start;
	return ($restored, $since);
}

sub loses
{
	my ($name, $way) = @_;
	my $primary = new_primary($name);
	# of a refusal that is closed, a retry in the lost time would be an effect that only the provider knows; a batch asks for itself
	my $campaign = Campaign->new(node => $primary, provider => $provider, prefix => substr($name, 0, 1), lossy => 1,
		weights => { retry => 0, batch => 0, approved_batch => 0, cancel => 0, revoke => 0, abandon => 0,
			compensate => 0, redact => 0 });
	my ($node, $since) = $way->($primary, $campaign);

	$campaign->{node} = $node;
	is_deeply([ $campaign->faults ], [], "$name: what is there is right");
	my %before = map { ("@$_" => 1) } @{ $campaign->{handed} };
	my $known = $node->safe_psql('postgres', "SELECT count(*) FROM extaction.timeline WHERE kind = 'sending'");
	cmp_ok(scalar keys %before, '>', $known, "$name: not all that was handed out is on record");

	# its owner says what it is; callers ask again for everything, and somebody approves again
	$node->safe_psql('postgres', "SELECT extaction.adopt('restored', '$since', clock_timestamp() + interval '1 h')");
	my $book = $provider->book;
	my %named = map { ($_->[0] => 1) } @{ $campaign->{handed} };
	my @names = sort keys %named;
	my $again = '';
	foreach my $intent (@names)
	{
		my $request = $campaign->request($intent);
		$again .= "SELECT status FROM extaction.approve_in_advance($request) \\g /dev/null\n"
		  . "SELECT intent_id, status, state, idempotency_key FROM extaction.submit($request);\n";
	}
	my %answer = map { my @row = split /\|/, $_, -1; ($row[0] => \@row) } split /\n/, $node->safe_psql('postgres', $again);
	is_deeply([ grep { $answer{$_}[1] !~ /^(created|replayed)$/ } @names ], [], "$name: asked for again, each is new or known");
	is_deeply([ grep { $answer{$_}[2] !~ /^(uncertain|happened|not_happened)$/ } @names ], [], "$name: nothing that may have gone out is prepared");
	is_deeply([ grep { $book->{$_} && join(' ', keys %{ $book->{$_}{keys} }) ne $answer{$_}[3] } @names ], [], "$name: under the same keys");
	cmp_ok(scalar(grep { $_->[1] eq 'created' } values %answer), '>', 0, "$name: some of it was lost");

	# the old workers come back with what they have
	my $stands = 'SELECT intent_id, state FROM extaction.intent_status ORDER BY 1';
	my $as_it_was = $node->safe_psql('postgres', $stands);
	my $late = join '', map { "SELECT status FROM extaction.record_outcome('camp', '$_->[0]', $_->[1], 'not_happened', '{\"code\": \"never_sent\"}');\n" }
	  @{ $campaign->{handed} };
	my %said = map { ($_ => 1) } split /\n/, $node->safe_psql('postgres', $late);
	is_deeply([ sort keys %said ], ['late'], "$name: what old workers say is late");
	is($node->safe_psql('postgres', $stands), $as_it_was, "$name: and changes nothing");

	# time goes by, and then all is sent again, looked up, decided
	$node->safe_psql('postgres', q{UPDATE extaction.worklist SET due_at = due_at - '3 h'::interval, quiet_from = quiet_from - '3 h'::interval,
		first_sent_at = first_sent_at - '3 h'::interval WHERE due_at < 'infinity'});
	is_deeply([ $campaign->settle, $campaign->faults ], [], "$name: all comes to its end, and no effect comes twice");
	$book = $provider->book;
	my %state = map { ($_->[0] => $_->[1]) } $campaign->see($stands);
	is_deeply([ grep { $book->{$_} && ($state{$_} eq 'happened') != ($book->{$_}{effects} == 1) } @names ], [], "$name: what happened, happened once");
	cmp_ok(scalar(grep { $book->{$_} && $book->{$_}{requests} > 1 && $book->{$_}{effects} == 1 } @names), '>', 0, "$name: and some were sent again");
	$node->stop;
	return;
}
