# Random verbs against the extension and against a small model of it (test/lib/reference.py), side by side: after each verb every receipt,
# state, next step, attempt and due time is the same, and at the end of each round the facts alone say the same as the worklist.
#
# The server's clock is libfaketime's, and stands still until the player moves it: so days pass in no time, and a round can be played again.
# A difference names its seed and round: EXTACTION_SEED=... ROUND=... plays that round alone; PLAY_SECONDS=... or ROUNDS=... plays longer than usual.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";
use ExtactionTest;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($library) = glob '/usr/lib/*/faketime/libfaketime.so.1';
my $python = '/usr/bin/python3';

plan skip_all => 'libfaketime is not installed' if !defined $library;
plan skip_all => 'psycopg2 is not installed' if system("$python -c 'import psycopg2' 2>/dev/null") != 0;

my $clock = "$PostgreSQL::Test::Utils::tmp_check/clock";
my $seed = seed();
my $rounds = $ENV{ROUNDS} // (defined $ENV{ROUND} ? 1 : 0);
my $node = PostgreSQL::Test::Cluster->new('random');

append_to_file($clock, "2031-01-01 00:00:00\n");
$node->init;
$node->append_conf('postgresql.conf', "autovacuum = off\nfsync = off\nlog_min_messages = warning\nlog_min_error_statement = panic\n");
{
	local @ENV{qw(LD_PRELOAD FAKETIME_TIMESTAMP_FILE FAKETIME_NO_CACHE FAKETIME_DONT_FAKE_MONOTONIC TZ)} = ($library, $clock, 1, 1, 'UTC');
	$node->start;
}
$node->safe_psql('postgres', 'SET client_min_messages = warning; CREATE EXTENSION extaction CASCADE');
is($node->safe_psql('postgres', "SELECT clock_timestamp() = '2031-01-01 00:00:00Z'"), 't', 'time stands still') for 1 .. 2;

local @ENV{qw(PGHOST PGPORT PGDATABASE)} = ($node->host, $node->port, 'postgres');
my $said = '';
my $fine = IPC::Run::run(
	[ $python, "$FindBin::RealBin/../lib/random_play.py", $clock, $seed, $ENV{PLAY_SECONDS} // 30, $rounds, $ENV{ROUND} // 1 ],
	'>', \$said, '2>&1');

note($said) if $fine;
diag($said) if !$fine;
ok($fine, "the extension does what the model does (EXTACTION_SEED=$seed)");
is($node->safe_psql('postgres', 'SELECT * FROM extaction.verify()'), '', 'verify has nothing against it');

$node->stop;
done_testing();
