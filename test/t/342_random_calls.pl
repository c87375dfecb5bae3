# Random calls of every function by several sessions at once, in databases of several encodings: no internal error, no crash, nothing left
# open, and a ledger that verifies.  EXTACTION_FUZZ_SECONDS=3600 makes it an hour's.  Skipped without psycopg 3.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use ExtactionTest;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my $seconds = $ENV{EXTACTION_FUZZ_SECONDS} || 20;
my $seed = seed();
my $python = -x '/usr/bin/python3' ? '/usr/bin/python3' : 'python3';
my $program = "$FindBin::RealBin/../fuzz/random_calls.py";

plan skip_all => 'psycopg 3 is not installed'
  if !eval { IPC::Run::run([ $python, '-c', 'import psycopg' ], '>', \my $said, '2>&1') };

my $node = new_server('random_calls');
$node->append_conf('postgresql.conf', 'max_prepared_transactions = 8');
$node->restart;

# Most of the time in UTF8; the others are for what converts.
my %share = (UTF8 => 0.6, LATIN1 => 0.15, SQL_ASCII => 0.1, EUC_JP => 0.15);

foreach my $encoding (sort keys %share)
{
	my $database = lc $encoding;

	$node->safe_psql('postgres', "CREATE DATABASE $database TEMPLATE template0 ENCODING '$encoding' LC_COLLATE 'C' LC_CTYPE 'C'");
	local %ENV = (%ENV, PGHOST => $node->host, PGPORT => $node->port, PGDATABASE => $database);
	my $ok = IPC::Run::run([ $python, $program, '--seconds', $seconds * $share{$encoding}, '--seed', $seed, '--log', $node->logfile ], '>', \my $output, '2>&1');

	ok($ok, "$encoding: no call did harm") or diag($output);
	note($output);
	my ($calls) = $output =~ /: (\d+) calls/;

	cmp_ok($calls // 0, '>', 20, "$encoding: there were calls");
	$node->safe_psql('postgres', "DROP DATABASE $database");
}

done_testing();
