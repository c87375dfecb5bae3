# Everything through PgBouncer in transaction mode, with few connections to the server and many clients.  First the whole story at once: people
# who ask, people who approve, workers.  Each transaction may meet another connection, and each connection other roles.  Then the tests of
# pg_regress, one after the other.

use strict;
use warnings FATAL => 'all';

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use lib dirname(abs_path(__FILE__)) . '/../lib';

use IPC::Run;
use Pooler;
use PostgreSQL::Test::Utils;
use Tenants;
use Test::More;

plan skip_all => 'there is no PgBouncer here' unless Pooler::is_here();

my $top = abs_path(dirname(abs_path(__FILE__)) . '/../..');
# what pg_regress passes in the connection's options, which PgBouncer does not pass on
my $node = new_server('pooled', "intervalstyle = 'postgres_verbose'");

make_tenants($node);
add_member($node, 'ask', 'home:submitter:people');
add_member($node, 'anna', 'home:approver');
add_member($node, 'bert', 'home:approver');
add_member($node, 'wrk', 'home:worker');
add_member($node, 'other_wrk', 'home:worker');
$node->safe_psql('postgres', q{
	-- what came in at the provider, and through which connections
	CREATE TABLE lab.effects (intent_id text COLLATE "C", key uuid, attempt bigint, claim_id bigint, claim_pid int, claimed_pid int);
	CREATE TABLE lab.served (pid int, role text);
	GRANT ALL ON lab.effects, lab.served TO PUBLIC;
	UPDATE extaction.actions SET self_approval = false WHERE action = 'mail';
	-- a web server's login, which becomes whom it serves for one transaction
	CREATE ROLE door LOGIN NOINHERIT IN ROLE ask, anna, bert;
});
my $pooler = Pooler->start($node);

# pgbench through the pooler, in the background.  The scripts are left in a directory.
my $scripts = PostgreSQL::Test::Utils::tempdir;
sub clients
{
	my ($role, $script, @options) = @_;
	my $name = "$scripts/" . ($script =~ s/\W+/_/gr =~ s/^(.{1,60}).*/$1/sr) . '.sql';
	my $log = '';

	PostgreSQL::Test::Utils::append_to_file($name, $script) unless -e $name;
	return {
		log => \$log,
		run => IPC::Run::start([ $node->installed_command('pgbench'), '-n', '-f', $name, @options, $pooler->connstr('postgres', $role) ],
			'<', \undef, '>&', \$log, IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default))
	};
}

# Have they come to an end?
sub over
{
	my ($clients) = @_;

	$clients->{run}->pump_nb if $clients->{run}->pumpable;
	return !$clients->{run}->pumpable;
}

# What they complain of, when they have come to an end.
sub faults_of
{
	my ($clients) = @_;

	return $clients->{run}->finish && ${ $clients->{log} } !~ /ERROR|aborted|failed transactions: [1-9]/ ? '' : ${ $clients->{log} };
}

#
# The whole story at once
#

my ($askers, $each) = (8, 12);
my $asking = q{
\set n :n + 1
BEGIN;
SET LOCAL ROLE ask;
SELECT set_config('extaction.actor', format('person %s', :client_id), true);
INSERT INTO lab.served VALUES (pg_backend_pid(), current_user);
SELECT status FROM extaction.submit('home', format('of person %s no %s', :client_id, :n), 'mail', 'n', '{"text": "n"}');
COMMIT;
BEGIN;
SET LOCAL ROLE ask;
SELECT status FROM extaction.submit('home', format('of person %s no %s', :client_id, :n), 'mail', 'n', '{"text": "n"}', actor => format('person %s', :client_id));
COMMIT;
};
# Who takes many in one transaction takes them in the order of their names, as the ledger does: else approvers and workers deadlock.
my $approving = q{
BEGIN;
\if :client_id % 2 = 0
SET LOCAL ROLE anna;
\else
SET LOCAL ROLE bert;
\endif
INSERT INTO lab.served VALUES (pg_backend_pid(), current_user);
SELECT count(extaction.approve('home', p.request_digest))
FROM (SELECT * FROM (SELECT intent_id, request_digest FROM extaction.pending_approvals ORDER BY random() LIMIT 12) r ORDER BY intent_id) p;
COMMIT;
\sleep 5 ms
};
my $working = q{
SELECT coalesce(claim_id, 0) AS claim, pg_backend_pid() AS pid FROM extaction.claim('worker', 4, lease => '10 min', scope => 'home') \gset
\if :claim > 0
INSERT INTO lab.effects SELECT intent_id, idempotency_key, attempt, :claim::bigint, :pid::int, pg_backend_pid() FROM extaction.claimed(:claim::bigint);
SELECT count(r.status) FROM (SELECT * FROM lab.effects WHERE claim_id = :claim::bigint ORDER BY intent_id) e,
	LATERAL extaction.record_outcome('home', e.intent_id, e.attempt, 'happened', '{"id": "1"}') r;
\else
\sleep 20 ms
\endif
};

my $asks = clients('door', $asking, '-c', $askers, '-t', $each, '-D', 'n=0');
my $approvals = clients('door', $approving, '-c', 4, '-t', 40);
my $all = $askers * $each;
my $happened = 0;
my $faults = '';
foreach my $round (1 .. 200)
{
	$faults .= faults_of(clients('wrk', $working, '-c', 6, '-t', 10, '-M', 'extended'));
	if ($asks && over($asks)) { $faults .= faults_of($asks); $asks = undef; }
	if ($approvals && over($approvals))
	{
		$faults .= faults_of($approvals);
		$approvals = $asks || rows($node, 'SELECT count(*) FROM extaction.waiting') ? clients('door', $approving, '-c', 4, '-t', 20) : undef;
	}
	$happened = rows($node, q{SELECT count(*) FROM extaction.events WHERE kind = 'happened'});
	last if $faults ne '' || ($happened == $all && !$asks && !$approvals);
}
is($faults, '', 'no statement has failed');
is($happened, $all, 'all that was asked for has happened');
is(rows($node, q{SELECT count(*), count(DISTINCT intent_id), count(DISTINCT key) FROM lab.effects}), "$all|$all|$all", 'each of it once, under its own key');
is(rows($node, q{SELECT count(*) FROM extaction.intents i WHERE i.requester <> 'ask:' || substring(i.intent_id from '^of (.*) no ')}), '0',
	'each was asked for by whom SET LOCAL extaction.actor named in that transaction');
is(rows($node, q{SELECT string_agg(DISTINCT approver, ' ' ORDER BY approver) FROM extaction.approvals WHERE id LIKE 'of %'}), 'anna bert', 'and approved by whom SET LOCAL ROLE named');
is(rows($node, q{SELECT count(*) FROM lab.effects WHERE claim_pid <> claimed_pid}) > 0, 1, 'a ticket was claimed through one connection and read through another');
is(rows($node, q{SELECT max(roles) FROM (SELECT count(DISTINCT role) AS roles FROM lab.served GROUP BY pid) r}), '3', 'a connection has served all the roles');
cmp_ok(rows($node, q{SELECT count(DISTINCT pid) FROM (SELECT pid FROM lab.served UNION SELECT claim_pid FROM lab.effects UNION SELECT claimed_pid FROM lab.effects) p}),
	'<=', 4, 'and there were no more than four');
is(rows($node, 'SELECT * FROM extaction.verify()'), '', 'the ledger agrees with itself');

# Nothing is left on a connection for the next who gets it.
sub pooled
{
	my ($role, $sql) = @_;
	return $node->safe_psql('postgres', $sql, connstr => $pooler->connstr('postgres', $role)) =~ s/\n/ /gr;
}
is(pooled('door', q{SELECT DISTINCT current_setting('extaction.actor', true), current_user FROM generate_series(1, 1);} x 4), '|door |door |door |door',
	'no actor and no role is left on a connection');

# A ticket belongs to the role, whatever connection it comes through; and to no other role.
add_member($node, 'dora', 'home:submitter', 'home:approver');
$node->safe_psql('postgres', q{SELECT extaction.grant_access('home', 'wrk', 'auditor')});
$node->safe_psql('postgres', q{SET ROLE anna; SELECT extaction.approve_in_advance('home', 'last', 'mail', 'n', '{"text": "n"}')});
$node->safe_psql('postgres', q{SET ROLE dora; SELECT extaction.submit('home', 'last', 'mail', 'n', '{"text": "n"}')});
my $ticket = pooled('wrk', q{SELECT claim_id FROM extaction.claim('w', lease => '10 min')});
is(pooled('other_wrk', "SELECT count(*) FROM extaction.claimed($ticket)"), '0', 'another worker does not get the ticket');
is(pooled('wrk', "SELECT intent_id FROM extaction.claimed($ticket)"), 'last', 'the same one does');
is(pooled('wrk', "SELECT count(*) FROM extaction.claimed($ticket)"), '0', 'once');

# Statements that a driver prepares once, where PgBouncer keeps track of them (since 1.21).
SKIP:
{
	skip 'this PgBouncer does not keep prepared statements in transaction mode', 1 if Pooler::version() < 121;
	my $keeps = Pooler->start($node, max_prepared_statements => 20);
	my $other = $pooler;

	$pooler = $keeps;
	is(faults_of(clients('wrk', "SELECT status FROM extaction.find('home', 'last');\nSELECT count(*) FROM extaction.claim('w', scope => 'home');\n",
		'-c', 6, '-t', 20, '-M', 'prepared')), '', 'prepared statements');
	$pooler = $other;
	$keeps->stop;
}
$pooler->stop;

#
# The tests of pg_regress
#
# They keep roles, settings and temporary tables over many statements, which no pooler in transaction mode promises; so the one client gets the
# connection that it gave back last, and a new one for each test.  Every statement goes through the pooler nevertheless.
#

my %left_out = (
	hostile => 'begins a new session in the middle (\c), and gets the old connection with what is left on it');

my ($regress) = PostgreSQL::Test::Utils::slurp_file("$top/Makefile") =~ /^REGRESS = \\\n((?:\t.*\\\n)*\t.*\n)/m;
my @tests = grep { !$left_out{$_} } grep { $_ ne '\\' } split ' ', $regress;
my $dir = PostgreSQL::Test::Utils::tempdir;

symlink "$top/expected", "$dir/expected";
PostgreSQL::Test::Utils::append_to_file("$dir/launcher", qq{#!/bin/sh
# a new connection for a new test
psql -X -q -c RECONNECT "\$POOLER_ADMIN" >&2 || exit 1
exec "\$@"
});
chmod 0755, "$dir/launcher";
$node->safe_psql('postgres', 'CREATE DATABASE pooled_regression TEMPLATE template0');
$node->safe_psql('pooled_regression', "ALTER DATABASE pooled_regression SET $_")
	foreach "lc_messages TO 'C'", "lc_monetary TO 'C'", "lc_numeric TO 'C'", "lc_time TO 'C'", "bytea_output TO 'hex'", "timezone_abbreviations TO 'Default'";
$pooler = Pooler->start($node, server_round_robin => 0);
{
	local $ENV{POOLER_ADMIN} = $pooler->connstr('pgbouncer', 'pooler_admin');
	my ($pgxs, $bindir) = map { `pg_config --$_` =~ s/\n//r } 'pgxs', 'bindir';
	my $output = '';

	chdir $top;
	my $passed = IPC::Run::run(
		[ dirname($pgxs) . '/../test/regress/pg_regress', '--inputdir=test', "--outputdir=$dir", "--bindir=$bindir",
			'--use-existing', '--dbname=pooled_regression', "--launcher=$dir/launcher", "--host=$pooler->{dir}", "--port=$pooler->{port}", '--user=postgres', @tests ],
		'<', \undef, '>&', \$output);

	ok($passed, 'the tests of pg_regress pass: ' . join ' ', @tests) or diag($output, -e "$dir/regression.diffs" ? PostgreSQL::Test::Utils::slurp_file("$dir/regression.diffs") : '');
}
$pooler->stop;
$node->stop;
done_testing();
