# The programs of doc/drivers.md, run as they stand, each with its own driver; without the driver that one is skipped.  All print the same.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use ExtactionTest;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my $page = slurp_file("$FindBin::RealBin/../../doc/drivers.md");
my $dir = PostgreSQL::Test::Utils::tempdir();
my $node = new_server('drivers');
my ($promised) = $page =~ /^```\n(.*?)^```$/ms;

# JDBC has no Unix sockets.
$node->append_conf('postgresql.conf', "listen_addresses = '127.0.0.1'");
$node->restart;

# A program of the page, written to a file: the nth block in that language.
sub program
{
	my ($language, $nth, $name) = @_;
	my @blocks = $page =~ /^```$language\n(.*?)^```$/gms;
	my $file = "$dir/$name";

	append_to_file($file, $blocks[ $nth - 1 ] // die("$language: no block $nth"));
	return $file;
}

# What a command says, and whether it succeeded.
sub run_quietly
{
	my (@command) = @_;
	my $output = '';
	my $ok = eval { IPC::Run::run(\@command, '<', \undef, '>', \$output, '2>&1') };

	return ($ok, $output);
}

# Runs a program, unless the probe, a command that needs the driver, fails.
sub try_driver
{
	my ($name, $probe, @command) = @_;

  SKIP:
	{
		my ($there) = run_quietly(@$probe);

		skip("$name is not installed", 1) if !$there;
		my ($ok, $output) = run_quietly(@command);

		is($output, $promised, "$name: prints what the page says");
	}
	return;
}

my @setup = $page =~ /^```sql\n(.*?)^```$/gms;

is(scalar(@setup), 2, 'the page sets up a database');
$node->safe_psql('postgres', "SET client_min_messages = warning; $_") for @setup;

$ENV{PGHOST} = $node->host;
$ENV{PGPORT} = $node->port;
$ENV{PGDATABASE} = 'postgres';
$ENV{PGUSER} = 'shop_app';
$ENV{JDBC_URL} = 'jdbc:postgresql://127.0.0.1:' . $node->port . '/postgres?user=shop_app';

my ($python) = grep { -x } '/usr/bin/python3';
my $psycopg3 = program('python', 1, 'psycopg3.py');
my $psycopg2 = program('python', 2, 'psycopg2_.py');
my $node_pg = program('javascript', 1, 'orders.js');
my $java = program('java', 1, 'Orders.java');
my $go = program('go', 1, 'orders.go');
my $jar = '/usr/share/java/postgresql.jar';

$python //= 'python3';
try_driver('psql', ['true'], $node->installed_command('psql'), '-X', '-q', '-f', program('psql', 1, 'orders.sql'));
try_driver('psycopg 3', [ $python, '-c', 'import psycopg' ], $python, $psycopg3);
try_driver('psycopg2', [ $python, '-c', 'import psycopg2' ], $python, $psycopg2);

# npm's module is found where NODE_PATH says, Debian's by itself
try_driver('node pg', [ 'node', '-e', 'require("pg")' ], 'node', $node_pg);
try_driver('JDBC', [ 'sh', '-c', "command -v java javac && test -e $jar" ], 'java', '-cp', $jar, $java);

# Debian's Go libraries are in a workspace of the old kind
{
	local %ENV = (%ENV, GO111MODULE => 'off', GOPATH => '/usr/share/gocode', GOCACHE => "$dir/gocache", GOFLAGS => '');

	try_driver('pgx', [ 'sh', '-c', 'command -v go && test -d /usr/share/gocode/src/github.com/jackc/pgx' ], 'go', 'run', $go);
}

delete $ENV{PGUSER};
is($node->safe_psql('postgres', "SELECT count(DISTINCT kind) FROM extaction.timeline WHERE intent_id = 'gold/1'"),
	'1', 'the same refused request again appends nothing');
is(disagreements($node, 'postgres'), '', 'verify() has nothing to say');

$node->stop;
done_testing();
