# Rounds of everything at random, each ended by a kill at a random moment: of a backend, the server, the whole machine's processes, a
# worker, the provider.  After each, ledger, provider and what was answered agree; after some, all is brought to its end.
#
# EXTACTION_ROUNDS or EXTACTION_SECONDS say how long (make soak), EXTACTION_SEED repeats the choices of a run.
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
use Time::HiRes qw(sleep time);

my $seconds = $ENV{EXTACTION_SECONDS} || ($ENV{EXTACTION_ROUNDS} ? 0 : 15);
my $rounds = $ENV{EXTACTION_ROUNDS} || 1_000_000;
my $seed = seed();
my $soak = $ENV{EXTACTION_ROUNDS} || $ENV{EXTACTION_SECONDS};
my $per_ledger = $soak ? 40 : 8;	# then a new one, or verify() would take all the time
my $workers = 4;
my %killed;
my ($done, $answers, $bad) = (0, 0, 0);
my $began = time;

diag "seed $seed" if $soak;
note "seed $seed: EXTACTION_SEED=$seed repeats the choices";
srand $seed;

# fsync makes no difference to a killed process; what was not written does
my $node = PostgreSQL::Test::Cluster->new('kills');
$node->init;
$node->append_conf('postgresql.conf', "restart_after_crash = on\nautovacuum = off\nwal_writer_delay = 10s\nmax_connections = 40\n"
	  . "log_min_messages = fatal\ncheckpoint_timeout = 1h\n");
$node->start;
my $provider = Provider->new;

eval { ledger() until $bad || finished(); 1 } or check(undef, "round $done", $@);
is($bad, 0, "$done rounds, $answers answers, seed $seed: " . tally());
my $said = delete $killed{said};
note join ', ', map { "$_ $said->{$_}" } sort keys %$said;
diag join ', ', map { "$_ $said->{$_}" } sort keys %$said if $soak;
# kept or not, which is the worker's choice
cmp_ok(($said->{$_} // 0) + ($said->{"$_?"} // 0), '>', 0, "$_ was played") foreach qw(submit approve handed record_outcome);

$node->stop('immediate');
done_testing();

# A ledger, from its beginning to its end.
sub ledger
{
	my $database = "camp$done";
	$node->safe_psql('postgres', "CREATE DATABASE $database");
	my $campaign = Campaign->new(node => $node, provider => $provider, database => $database, prefix => "l$done");

	for (my $round = 1; $round <= $per_ledger && !$bad && !finished(); $round++)
	{
		$campaign->begin(int rand 1_000_000_000, $workers);
		sleep 0.1 + 2.5 * rand() ** 2;
		my $how = kill_something($campaign);
		$campaign->finish;
		wait_until_up($node, $database);
		$done++;
		check($campaign, "round $done, $how", $campaign->faults);
		diag sprintf('%d rounds, %.0f s, %d answers, %s', $done, time - $began, $answers + $campaign->{answers}, tally())
		  if $soak && $done % 20 == 0;
	}
	check($campaign, 'at the end', $campaign->settle, $campaign->faults) unless $bad;
	$answers += $campaign->{answers};
	$killed{said}{$_} += $campaign->{count}{$_} foreach keys %{ $campaign->{count} };
	$node->safe_psql('postgres', "DROP DATABASE $database") unless $bad;
	return;
}

sub finished
{
	return $done >= $rounds || ($seconds && time - $began > $seconds);
}

sub tally
{
	return join ', ', map { "$_ $killed{$_}" } grep { $_ ne 'said' } sort keys %killed;
}

sub check
{
	my ($campaign, $when, @faults) = @_;

	return unless @faults;
	$bad++;
	diag "seed $seed, $when: $_" foreach @faults;
	return unless $campaign;
	my %intents = map { /^(l\d+r\d+w\d+-\S*?):/ ? ($1 => 1) : () } @faults;
	my @some = sort keys %intents;
	splice @some, 5 if @some > 5;
	diag "$_:\n" . $campaign->story($_) foreach @some;
	return;
}

# Who dies, and how; afterwards the server is up or on its way.
sub kill_something
{
	my ($campaign) = @_;
	my $chance = rand;
	my $how = $chance < 0.35 ? 'backend' : $chance < 0.6 ? 'immediate' : $chance < 0.85 ? 'server' : $chance < 0.95 ? 'worker' : 'provider';

	$killed{$how}++;
	if ($how eq 'backend')
	{
		my @backends = backends($node, $campaign->{database});
		kill_server($node, $how, $backends[ rand @backends ]) if @backends;
	}
	elsif ($how eq 'immediate' || $how eq 'server')
	{
		kill_server($node, $how);
	}
	elsif ($how eq 'worker')
	{
		kill 'KILL', $campaign->{workers}[ rand @{ $campaign->{workers} } ];
		sleep rand 0.3;
	}
	else
	{
		$provider->kill9;
		sleep rand 0.3;
		$provider->start;
	}
	return $how;
}
