# A filled ledger survives pg_dump and pg_restore, in every format, into another cluster: row by row, and then the work goes on.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use ExtactionTest;
use Filled;
use PostgreSQL::Test::Utils;
use Test::More;

my $source = new_server('source');
my $target = new_server('target');
my $bare = new_server('bare');
my $dumps = $PostgreSQL::Test::Utils::tmp_check;

my $first = fill_every_table($source, 'postgres');
my $rows = rows_of($source, 'postgres');
cmp_ok(scalar keys %$rows, '>=', 21, 'at least 21 tables and sequences are marked for dump');
isnt($rows->{$_}, '', "$_ is filled") foreach sort keys %$rows;
my $privileges = q{
	SELECT c.relname, c.relacl::text FROM pg_class c WHERE relnamespace = 'extaction'::regnamespace AND relkind IN ('v', 'r', 'S')
	UNION ALL SELECT p.proname, p.proacl::text FROM pg_proc p WHERE pronamespace = 'extaction'::regnamespace
	UNION ALL SELECT 'schema', nspacl::text FROM pg_namespace WHERE nspname = 'extaction' ORDER BY 1};
my $source_privileges = $source->safe_psql('postgres', $privileges);

# Dumps in every format, and the roles.
my %dumps = (
	plain => ['-Fp'], inserts => [ '-Fp', '--column-inserts' ], apart => ['-Fp'],
	custom => ['-Fc'], tar => ['-Ft'], directory => [ '-Fd', '-j4' ]);

sub dump_it
{
	my ($name, @options) = @_;

	$source->command_ok([ 'pg_dump', @options, '-f', "$dumps/$name", '-d', $source->connstr('postgres') ], "$name: dump");
	return;
}

dump_it($_, @{ $dumps{$_} }) foreach grep { $_ ne 'apart' } sort keys %dumps;
# first the schema alone, then the data alone
dump_it('schema_alone', '--schema-only');
dump_it('data_alone', '--data-only');
append_to_file("$dumps/apart", slurp_file("$dumps/schema_alone") . slurp_file("$dumps/data_alone"));

my $roles = `pg_dumpall --roles-only -d '@{[ $source->connstr('postgres') ]}'`;
$roles =~ s/^(CREATE|ALTER) ROLE \Q@{[ $source->safe_psql('postgres', 'SELECT current_user') ]}\E\b.*\n//gm;
$target->safe_psql('postgres', "CREATE ROLE somebody_before;\n$roles");

sub restore
{
	my ($node, $format, $database) = @_;

	$node->safe_psql('postgres', "CREATE DATABASE $database TEMPLATE template0");
	return ($dumps{$format} // ['-Fc'])->[0] eq '-Fp'
	  ? [ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', "$dumps/$format", '-d', $node->connstr($database) ]
	  : [ 'pg_restore', ($format eq 'directory' ? '-j4' : ()), '-e', '-d', $node->connstr($database), "$dumps/$format" ];
}

foreach my $format (sort keys %dumps)
{
	$target->command_ok(restore($target, $format, $format), "$format: restore");

	my $restored = rows_of($target, $format);
	is($restored->{$_}, $rows->{$_}, "$format: $_ has the same rows") foreach sort keys %$rows;
	is($target->safe_psql($format, $privileges), $source_privileges, "$format: the same privileges");
	is($target->safe_psql($format, "SELECT count(*), count(*) FILTER (WHERE tgenabled = 'A') FROM pg_trigger WHERE tgrelid::regclass::text LIKE 'extaction.%'"),
		$source->safe_psql('postgres', "SELECT count(*), count(*) FROM pg_trigger WHERE tgrelid::regclass::text LIKE 'extaction.%'"),
		"$format: every guard is there, always");
	is(disagreements($target, $format), '', "$format: verify() has nothing to say");

	# and the work goes on
	is(submit($target, $format, 'first', 'A'), $first =~ s/^created/replayed/r, "$format: the same again is replayed, same task, same key");
	like(submit($target, $format, 'revoked', 'A'), qr/^blocked\|approval_revoked/, "$format: what was revoked stays revoked");
	like($target->safe_psql($format, "SET ROLE anna; SELECT status, provider_ref FROM extaction.submit_fake_task('shop', public.request('third', 'A'))"),
		qr/^created\|fake-task-0303$/, "$format: a member goes on, and task numbers too");
	is($target->safe_psql($format, "SET ROLE bert; SELECT status FROM extaction.approve_fake_task('shop', public.request('fourth', 'A'))"),
		'approved', "$format: so does the approver");
	my ($ret, $stdout, $stderr) = $target->psql($format, "SET ROLE somebody_before; SELECT * FROM extaction.todo");
	like($stderr, qr/permission denied/, "$format: a stranger stays a stranger");
	is($target->safe_psql($format, "SELECT extaction.create_scope('new'), (SELECT count(*) FROM extaction.ledger), (SELECT count(*) FROM extaction.actions WHERE action = 'create_fake_task')"),
		'created|1|1', "$format: a new scope does not begin the ledger anew");
	$target->safe_psql($format, "UPDATE extaction.actions SET enabled = true WHERE action = 'send_mail'");
	is($target->safe_psql($format, "SELECT count(*) FROM extaction.action_changes") - (split /\n/, $rows->{action_changes}),
		1, "$format: the next change of the catalogue is one row more");
	is(disagreements($target, $format), '', "$format: verify() still has nothing to say");
}

# Over a ledger that is there, which has gone on since.
$target->command_ok([ 'pg_restore', '-e', '-j4', '--clean', '--if-exists', '-d', $target->connstr('tar'), "$dumps/directory" ],
	'over another ledger: restore');
my $again = rows_of($target, 'tar');
is($again->{$_}, $rows->{$_}, "over another ledger: $_ has the same rows") foreach sort keys %$rows;

# Tables may come back in any order.  The catalogue before its history: the trigger that records every change fires for rows that
# are nothing new.
my $list = `pg_restore -l "$dumps/custom"`;
my ($actions) = $list =~ /^(.*TABLE DATA extaction actions .*\n)/m;
$list =~ s/\Q$actions\E//;
$list =~ s/^(.*TABLE DATA extaction action_changes )/$actions$1/m;
append_to_file("$dumps/list", $list);
my $command = restore($target, 'custom', 'reordered');
splice @$command, 1, 0, '-L', "$dumps/list";
$target->command_ok($command, 'the catalogue before its history: restore');
is(rows_of($target, 'reordered')->{action_changes}, $rows->{action_changes}, 'the catalogue before its history: the restore has not written history');

# The role that was dropped is a bare number now, and this cluster may have given that to somebody else.
like($rows->{scope_members}, qr/^\(shop,\d+,gone,submitter/m, 'the member that was dropped is a bare number');
$target->safe_psql('custom', q{
	CREATE ROLE mallory;
	GRANT USAGE ON SCHEMA extaction TO mallory;
	GRANT SELECT ON extaction.access, extaction.timeline TO mallory;
	GRANT EXECUTE ON FUNCTION extaction.digest, extaction.submit_fake_task TO mallory;
	UPDATE extaction.scope_members SET member = 'mallory' WHERE member_name = 'gone'});
is($target->safe_psql('custom', "SET ROLE mallory; SELECT (SELECT count(*) FROM extaction.access), (SELECT count(*) FROM extaction.timeline)"),
	'0|0', 'who has got its number sees nothing');
is($target->safe_psql('custom', "SET ROLE mallory; SELECT status, gate FROM extaction.submit_fake_task('shop', public.request('third', 'A'))"),
	'blocked|scope_denied', 'and may do nothing');
is($target->safe_psql('custom', "SELECT counts FROM extaction.access WHERE member = 'gone'"), 'f', 'the view access says so');
is($target->safe_psql('custom', "SELECT extaction.revoke_access('shop', 'gone', 'submitter')"), 'revoked', 'and it can be taken off the list by its name');

# Its number may even be that of another member, with the same capability.
my $taken = $target->safe_psql('postgres', "SELECT 'anna'::regrole::oid");
is($source->safe_psql('postgres', "SELECT count(*) FROM pg_roles WHERE oid = $taken"), '0', 'the number of a member there is free here');
$source->safe_psql('postgres', "UPDATE extaction.scope_members SET member = $taken WHERE member_name = 'gone'");
$source->command_ok([ 'pg_dump', '-Fc', '-f', "$dumps/taken", '-d', $source->connstr('postgres') ], 'a number that is taken: dump');
$target->command_ok(restore($target, 'taken', 'taken'), 'a number that is taken: restore');
is($target->safe_psql('taken', 'SELECT count(*) FROM extaction.scope_members'), $source->safe_psql('postgres', 'SELECT count(*) FROM extaction.scope_members'),
	'a number that is taken: all members are there');

# Without the roles nobody is a member: the restore says so, and they can be brought in afterwards.
my $restore = restore($bare, 'custom', 'bare');
my ($stdout, $stderr);
ok(!IPC::Run::run([ grep { $_ ne '-e' } @$restore ], '>', \$stdout, '2>', \$stderr), 'without the roles a restore does not succeed');
like($stderr, qr/role "anna" does not exist/, 'it names the role');
is($bare->safe_psql('bare', 'SELECT count(*) FROM extaction.scope_members'), '0', 'nobody is a member, rather than somebody else');
my $restored = rows_of($bare, 'bare');
is($restored->{$_}, $rows->{$_}, "without the roles: $_ has the same rows") foreach grep { $_ ne 'scope_members' } sort keys %$rows;
$bare->safe_psql('postgres', $roles);
$bare->command_ok([ 'pg_restore', '-e', '--data-only', '--schema=extaction', '--table=scope_members', '-d', $bare->connstr('bare'), "$dumps/custom" ],
	'when the roles are there, the members can be restored alone');
my $members = 'SELECT scope, member_name, capability, vouches_for FROM extaction.scope_members ORDER BY 1, 2, 3';
is($bare->safe_psql('bare', $members), $source->safe_psql('postgres', $members), 'and are all there');
is(submit($bare, 'bare', 'first', 'A'), $first =~ s/^created/replayed/r, 'and the work goes on');

# Only the data, with triggers disabled: pg_restore leaves them "origin".
$target->safe_psql('postgres', 'CREATE DATABASE data TEMPLATE template0');
$target->safe_psql('data', 'SET client_min_messages = warning; CREATE EXTENSION extaction CASCADE');
$target->command_ok([ 'pg_restore', '-e', '--data-only', '--disable-triggers', '--schema=extaction', '-d', $target->connstr('data'), "$dumps/custom" ],
	'data only: restore');
$restored = rows_of($target, 'data');
is($restored->{$_}, $rows->{$_}, "data only: $_ has the same rows") foreach sort keys %$rows;
my $triggers = "SELECT tgrelid::regclass, tgname FROM pg_trigger WHERE tgrelid::regclass::text LIKE 'extaction.%' AND tgenabled <> 'A' ORDER BY 1, 2";
my $loose = () = $target->safe_psql('data', $triggers) =~ /^/gm;
cmp_ok($loose, '>', 0, 'data only: pg_restore left triggers that are not always fired');
is($target->safe_psql('data', "SELECT count(*) FROM extaction.verify() WHERE what = 'guard'"), $loose, 'data only: verify() names each of them');
is($target->safe_psql('data', 'SELECT extaction.repair_guards()'), $loose, 'data only: repair_guards() sets each of them');
is($target->safe_psql('data', $triggers), '', 'data only: now all are always fired');
is(disagreements($target, 'data'), '', 'data only: verify() has nothing to say');
is($target->safe_psql('data', 'SELECT extaction.repair_guards()'), '0', 'data only: and there is nothing left to repair');

# The members came without the privileges that a dump of the schema has.
like(($target->psql('data', 'SET ROLE anna; SELECT * FROM extaction.todo'))[2], qr/permission denied/, 'data only: a member can do nothing');
is($target->safe_psql('data', 'SELECT extaction.repair_access()'), $target->safe_psql('data', 'SELECT count(*) FROM extaction.access WHERE counts'),
	'data only: repair_access() takes care of every member that counts');
is($target->safe_psql('data', 'SET ROLE anna; SELECT count(*) FROM extaction.todo WHERE false'), '0', 'data only: a member can do its work');
is(rows_of($target, 'data')->{access_changes}, $rows->{access_changes}, 'data only: which is no change of access');

$_->stop foreach $source, $target, $bare;
done_testing();
