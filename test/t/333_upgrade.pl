# ALTER EXTENSION UPDATE: from every older version that has a script, what comes out is what CREATE EXTENSION makes, object by
# object; and a ledger that was filled before goes on.  There is a version 0.9 for this test only.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use ExtactionTest;
use Filled;
use MadeUp;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Schema;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('upgrade');
my $scripts = $node->config_data('--sharedir') . '/extension';

plan skip_all => "$scripts is not writable: run it by dev/with-server" unless -w $scripts;

my ($script, @pieces) = make_up(slurp_file("$scripts/extaction--1.0.sql"));

sub put
{
	my ($file, $content) = @_;

	unlink "$scripts/$file";
	append_to_file("$scripts/$file", $content);
	return;
}

put('extaction--0.9.sql', $script);
put('extaction--0.9--1.0.sql', join("\n", map { $_->[1] } @pieces));

$node->init;
$node->append_conf('postgresql.conf', "autovacuum = off\n");
$node->start;

# A database with the extension as it is after these statements; what it has for objects.
sub made_by
{
	my ($database, @statements) = @_;

	$node->safe_psql('postgres', "CREATE DATABASE $database");
	$node->safe_psql($database, join(';', 'SET client_min_messages = warning', @statements));
	return schema_of($node, $database);
}

my $fresh = made_by('fresh', 'CREATE EXTENSION extaction CASCADE');
my $shipped = 'SELECT to_jsonb(c) - \'valid_from\' FROM extaction.contracts c WHERE shipped ORDER BY provider, operation, version';
my @older = split /\n/, $node->safe_psql(
	'fresh', q{
	SELECT p.source
	FROM pg_extension_update_paths('extaction') p
	JOIN pg_available_extensions a ON a.name = 'extaction' AND a.default_version = p.target
	JOIN pg_available_extension_versions v ON v.name = 'extaction' AND v.version = p.source
	WHERE p.path IS NOT NULL ORDER BY 1});

cmp_ok(scalar @older, '>=', 1, 'there is an older version');
foreach my $version (@older)
{
	my $database = "from_$version" =~ s/\W/_/gr;

	isnt(differences($fresh, made_by($database, "CREATE EXTENSION extaction VERSION '$version' CASCADE")), '', "$version: was another one");
	$node->safe_psql($database, 'ALTER EXTENSION extaction UPDATE');
	is(differences($fresh, schema_of($node, $database)), '', "$version: upgraded is as fresh");
	is($node->safe_psql($database, $shipped), $node->safe_psql('fresh', $shipped), "$version: the same contracts");
}

# The comparison sees what is left out, whatever it is.
foreach my $left_out (@pieces)
{
	my ($name) = @$left_out;
	my $version = 'without_' . $name =~ s/\W/_/gr;

	put("extaction--0.9--$version.sql", join("\n", map { $_->[1] } grep { $_ != $left_out } @pieces));
	my $schema = made_by($version, "CREATE EXTENSION extaction VERSION '0.9' CASCADE", "ALTER EXTENSION extaction UPDATE TO '$version'");
	isnt(differences([ grep { !/^version / } @$fresh ], [ grep { !/^version / } @$schema ]), '', "$name: it would be seen to be missing");
}

# A ledger that was filled before, by the library that is newer; and a session that saw it all.
$node->safe_psql('postgres', 'CREATE DATABASE filled');
$node->safe_psql('filled', "SET client_min_messages = warning; CREATE EXTENSION extaction VERSION '0.9' CASCADE");
my $first = fill_every_table($node, 'filled');
my $session = $node->background_psql('filled');
my $again = "SELECT status FROM extaction.submit_fake_task('shop', request('first', 'A'))";
is($session->query_safe($again), 'replayed', 'a session at work');
my $rows = rows_of($node, 'filled');
$rows->{pauses} = $node->safe_psql('filled', 'SELECT t::text FROM extaction.pauses t');		# the mark for dump is missing

$node->safe_psql('filled', 'ALTER EXTENSION extaction UPDATE');
my $upgraded = rows_of($node, 'filled');
like($upgraded->{fake_tasks}, qr/^\(.*,fake-task-0001,.*-.*:.*\)$/m, 'the new column is filled');
s/,[^,]*\)$/)/mg foreach $upgraded->{fake_tasks};
is($upgraded->{$_}, $rows->{$_}, "$_ has the same rows") foreach grep { $_ !~ /^(event_id_seq|events)$/ } sort keys %$rows;
is(disagreements($node, 'filled'), '', 'verify() has nothing to say');
is($session->query_safe($again), 'replayed', 'the session goes on');
$session->quit;
like(($node->psql('filled', 'SET ROLE anna; SELECT * FROM extaction.grey_zone'))[2], qr/permission denied/, 'members may not use what is new');
$node->safe_psql('filled', 'SELECT extaction.repair_access()');
is($node->safe_psql('filled', 'SET ROLE anna; SELECT count(*) FROM extaction.grey_zone'), '0', 'now they may');
is(submit($node, 'filled', 'first', 'A'), $first =~ s/^created/replayed/r, 'the same again is replayed, same task, same key');
is($node->safe_psql('filled', "SELECT extaction.resume('shop', 'post')"), 'resumed', 'what was paused before');
is($node->safe_psql('filled', "SELECT claimed FROM extaction.claim('w', 10)"), '1', 'goes out');
is(disagreements($node, 'filled'), '', 'verify() still has nothing to say');

# Some later version will add columns: nothing stands in the way, and verify() does not take it for a change.
my @tables = split /\n/, $node->safe_psql('filled', "SELECT oid::regclass FROM pg_class WHERE relnamespace = 'extaction'::regnamespace AND relkind = 'r'");
foreach my $table (@tables)
{
	my $sql = "BEGIN; ALTER TABLE $table ADD COLUMN made_up boolean NOT NULL DEFAULT true; SELECT * FROM extaction.verify(); ROLLBACK";

	is($node->safe_psql('filled', $sql), '', "$table can have a new column");
}

# In a dump the privileges are there, too.
$node->command_ok([ 'pg_dump', '-Fc', '-f', "$PostgreSQL::Test::Utils::tmp_check/upgraded", '-d', $node->connstr('filled') ], 'dump');
$node->safe_psql('postgres', 'CREATE DATABASE restored TEMPLATE template0');
$node->command_ok([ 'pg_restore', '-e', '-d', $node->connstr('restored'), "$PostgreSQL::Test::Utils::tmp_check/upgraded" ], 'restore');
is($node->safe_psql('restored', 'SET ROLE anna; SELECT count(*) FROM extaction.grey_zone'), '0', 'members may use what is new, restored');

$node->stop;
done_testing();
