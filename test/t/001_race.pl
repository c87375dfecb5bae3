# Many first callers of one intent at once, each a process of its own: one creates, and everybody else is answered.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use ExtactionTest;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_server('race');
my $clients = 24;

make_shop($node, 'postgres');
$node->safe_psql('postgres', 'CREATE TABLE answers (intent_id text, client int, status text, task text, key uuid)');

# A submit by each client at once.  They line up behind the lock number 1.  $title is an SQL expression over :client_id.
sub start_race
{
	my ($intent_id, $title) = @_;
	my $file = $PostgreSQL::Test::Utils::tmp_check . "/$intent_id.sql";
	my $output = '';

	append_to_file($file, qq{
SELECT pg_advisory_lock_shared(1);
INSERT INTO answers
SELECT '$intent_id', :client_id, status, provider_ref, idempotency_key
FROM extaction.submit_fake_task('shop', request('$intent_id', $title));
});
	my $pgbench = IPC::Run::start(
		[ $node->installed_command('pgbench'), '-n', '-c', $clients, '-j', 4, '-t', 1, '-f', $file, '-d', $node->connstr('postgres') ],
		'>', \$output, '2>&1');
	return sub { ok($pgbench->finish, "$intent_id: no client failed") or diag($output); };
}

sub wait_for_waiting
{
	my ($what, $intent_id) = @_;

	$node->poll_query_until('postgres',
		"SELECT count(*) = $clients FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%$what%'")
	  or die("$intent_id: the clients did not line up");
	return;
}

sub answers
{
	my ($intent_id) = @_;

	return $node->safe_psql('postgres',
		"SELECT string_agg(n || ' ' || status, ', ' ORDER BY status) FROM (SELECT status, count(*) AS n FROM answers WHERE intent_id = '$intent_id' GROUP BY status) a");
}

sub one_task_one_key
{
	my ($intent_id) = @_;

	is( $node->safe_psql('postgres',
			"SELECT count(DISTINCT task), count(DISTINCT key) FROM answers WHERE intent_id = '$intent_id'"),
		'1|1',
		"$intent_id: everybody who asked for the same got the same task and key");
	return;
}

my $gate = $node->background_psql('postgres');
my $finish;

# All ask for the same.
$node->safe_psql('postgres', "SELECT yes('same', 'A')");
$gate->query_safe('SELECT pg_advisory_lock(1)');
$finish = start_race('same', "'A'");
wait_for_waiting('advisory', 'same');
$gate->query_safe('SELECT pg_advisory_unlock(1)');
$finish->();
is(answers('same'), '1 created, 23 replayed', 'same: one created, all others replayed');
is(counts($node, 'postgres', 'same'), '24|1|1', 'same: 24 requests, 1 execution, 1 task');
one_task_one_key('same');

# Half of them ask for something else, which is approved as well.
$node->safe_psql('postgres', "SELECT yes('halves', 'A'), yes('halves', 'B')");
$gate->query_safe('SELECT pg_advisory_lock(1)');
$finish = start_race('halves', "CASE WHEN :client_id % 2 = 0 THEN 'A' ELSE 'B' END");
wait_for_waiting('advisory', 'halves');
$gate->query_safe('SELECT pg_advisory_unlock(1)');
$finish->();
is(answers('halves'), '12 conflict, 1 created, 11 replayed', 'halves: whoever was first, the other half is in conflict');
is(counts($node, 'postgres', 'halves'), '24|1|1', 'halves: 24 requests, 1 execution, 1 task');
one_task_one_key('halves');

# The first of all rolls back while 24 wait for it.
$node->safe_psql('postgres', "SELECT yes('rollback', 'A')");
my $winner = $node->background_psql('postgres');
is($winner->query_safe("BEGIN; SELECT status FROM extaction.submit_fake_task('shop', request('rollback', 'A'))"),
	'created', 'rollback: the first creates');
$finish = start_race('rollback', "'A'");
wait_for_waiting('submit_fake_task', 'rollback');
$winner->query_safe('ROLLBACK');
$finish->();
is(answers('rollback'), '1 created, 23 replayed', 'rollback: one of those who waited creates');
is(counts($node, 'postgres', 'rollback'), '24|1|1', 'rollback: 24 requests, 1 execution, 1 task');
one_task_one_key('rollback');

# The first of all goes away without a word.
$node->safe_psql('postgres', "SELECT yes('killed', 'A')");
my $pid = $winner->query_safe('SELECT pg_backend_pid()');
$winner->query_safe("BEGIN; SELECT extaction.submit_fake_task('shop', request('killed', 'A'))");
$finish = start_race('killed', "'A'");
wait_for_waiting('submit_fake_task', 'killed');
$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
$finish->();
is(answers('killed'), '1 created, 23 replayed', 'killed: one of those who waited creates');
is(counts($node, 'postgres', 'killed'), '24|1|1', 'killed: 24 requests, 1 execution, 1 task');

is(disagreements($node, 'postgres'), '', 'verify() has nothing to say');

$gate->quit;
eval { $winner->quit };
$node->stop;
done_testing();
