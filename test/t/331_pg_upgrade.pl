# pg_upgrade, from a cluster of the same major version and of every older one that Debian has put on this machine: not a row
# changes, and nothing goes out until the owner has said that the ledger was moved.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use Cwd;
use ExtactionTest;
use Filled;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Schema;
use Test::More;

my $tree = getcwd();
my $work = PostgreSQL::Test::Utils::tempdir();
my ($major) = `pg_config --version` =~ /^PostgreSQL (\d+)/;

chdir $work or die;		# where pg_upgrade leaves its logs
upgrade_from($major);
upgrade_from($_) foreach grep { -e "/usr/lib/postgresql/$_/lib/pgxs" && -e "/usr/lib/postgresql/$_/bin/postgres" } 15 .. $major - 1;

# A PostgreSQL of another major version, with the extension.
sub install
{
	my ($from) = @_;
	my $bindir;

	# it is built in a tree of its own, without the bitcode that needs that version's compiler
	mkdir "$work/tree-$from" or die;
	system("tar -C '$tree' --exclude=./tmp_check --exclude=./results -cf - . | tar -C '$work/tree-$from' -xf -") == 0 or die;
	IPC::Run::run([ 'env', "PG_CONFIG=/usr/lib/postgresql/$from/bin/pg_config", "$work/tree-$from/dev/install-into", "$work/$from", 'with_llvm=no' ],
		'>', \$bindir)
	  or die("PostgreSQL $from: the extension was not installed");
	return $bindir =~ s{/bin\n\z}{}r;
}

# PostgreSQL 18 began to switch checksums on by default, and both have to be alike.
sub init_both
{
	my ($old, $new, $from) = @_;

	$old->init;
	$new->init($from < 18 && $major >= 18 ? (extra => ['--no-data-checksums']) : ());
	$_->append_conf('postgresql.conf', "autovacuum = off\n") foreach $old, $new;
	return;
}

sub pg_upgrade
{
	my ($old, $new) = @_;

	return ('pg_upgrade', '--no-sync', '-s', $new->host, '-d', $old->data_dir, '-D', $new->data_dir, '-p', $old->port, '-P', $new->port,
		'-b', $old->config_data('--bindir'), '-B', $new->config_data('--bindir'));
}

# Does a table survive that has nothing to do with us?  Between some of Debian's builds none does: the older server (seen in its 17.12) gives
# every column the option pg_attver, which pg_dump writes down and the newer server does not know.
sub can_upgrade
{
	my ($from, $install_path) = @_;
	my $old = PostgreSQL::Test::Cluster->new("plain_old_$from", install_path => $install_path);
	my $new = PostgreSQL::Test::Cluster->new("plain_new_$from");

	init_both($old, $new, $from);
	$old->start;
	$old->safe_psql('postgres', 'CREATE TABLE plain (n int)');
	$old->stop;
	return IPC::Run::run([ pg_upgrade($old, $new) ], '>', \my $said, '2>&1');
}

sub upgrade_from
{
	my ($from) = @_;
	my $install_path = $from == $major ? undef : install($from);

	if (defined $install_path && !can_upgrade($from, $install_path))
	{
		diag "$from to $major: left out, for pg_upgrade of these builds loses even a plain table";
		return;
	}
	my $old = PostgreSQL::Test::Cluster->new("old_$from", defined $install_path ? (install_path => $install_path) : ());
	my $new = PostgreSQL::Test::Cluster->new("new_$from");
	my $name = "$from to $major";

	init_both($old, $new, $from);
	$old->start;
	$old->safe_psql('postgres', 'CREATE DATABASE books');
	my $first = fill_every_table($old, 'books');
	my $rows = rows_of($old, 'books');
	my $schema = schema_of($old, 'books');
	$old->stop;

	my @pg_upgrade = pg_upgrade($old, $new);
	$new->command_ok([ @pg_upgrade, '--check' ], "$name: pg_upgrade sees nothing against it");
	$new->command_ok(\@pg_upgrade, "$name: pg_upgrade");
	$new->start;

	my $upgraded = rows_of($new, 'books');
	is($upgraded->{$_}, $rows->{$_}, "$name: $_ has the same rows") foreach sort keys %$rows;
	# views come back with other parentheses, and every major version has its own words
	my @schemas = map { [ grep { !/ Type: VIEW; / } @$_ ] } $schema, schema_of($new, 'books');
	is(differences(@schemas), '', "$name: every object is as it was") if $from == $major;
	is($new->safe_psql('books', "SELECT count(*) FROM pg_trigger WHERE tgrelid::regclass::text LIKE 'extaction.%' AND tgenabled <> 'A'"),
		'0', "$name: every guard is always enabled");
	is(disagreements($new, 'books'), '', "$name: verify() has nothing to say");

	# nothing goes out before it is adopted
	foreach my $verb ("claim('w')", 'claimed(1)')
	{
		my (undef, undef, $stderr) = $new->psql('books', "\\set VERBOSITY sqlstate\nSELECT * FROM extaction.$verb");
		like($stderr, qr/ERROR:  55000/, "$name: $verb is refused");
	}
	is(submit($new, 'books', 'first', 'A'), $first =~ s/^created/replayed/r, "$name: the same again is replayed, same task, same key");
	like($new->safe_psql('books', "SELECT extaction.adopt('moved')"), qr/^moved/, "$name: adopted");
	$new->safe_psql('books', "SELECT extaction.resume('shop', 'post')");
	is($new->safe_psql('books', "SELECT claimed FROM extaction.claim('w', 10)"), '1', "$name: what was due goes out");
	like($new->safe_psql('books', "SET ROLE anna; SELECT status FROM extaction.submit_fake_task('shop', public.request('third', 'A'))"),
		qr/^created$/, "$name: a member goes on");
	is(disagreements($new, 'books'), '', "$name: verify() still has nothing to say");
	$new->stop;
	return;
}

done_testing();
