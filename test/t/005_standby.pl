# Where nothing can be written: submit says so with 25006, and what only reads works, on a hot standby and after its promotion.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use ExtactionTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = new_server('primary', allows_streaming => 1);

make_shop($primary, 'postgres');
$primary->safe_psql('postgres', "SELECT yes('first', 'A'), yes('second', 'A')");
my $first = submit($primary, 'postgres', 'first', 'A');
submit($primary, 'postgres', 'refused', 'A');

my %verbs = (
	'submit_fake_task, a replay' => "extaction.submit_fake_task('shop', request('first', 'A'))",
	'submit_fake_task, a first call' => "extaction.submit_fake_task('shop', request('second', 'A'))",
	'submit_fake_task, a refusal' => "extaction.submit_fake_task('shop', request('refused', 'A'))",
	'approve_fake_task' => "extaction.approve_fake_task('shop', request('first', 'C'))",
	'revoke_approval' => "extaction.revoke_approval('shop', 'first/A', 'no')",
	'propose' => "extaction.propose('shop', 'c', '{}', 'letter', 'v1')",
	'observe_source' => "extaction.observe_source('shop', 'letter', 'v2')",
	'create_scope' => "extaction.create_scope('other')",
	'grant_access' => "extaction.grant_access('shop', 'postgres', 'auditor')",
	'revoke_access' => "extaction.revoke_access('shop', 'postgres', 'auditor')");
my %reads = (
	'find' => "SELECT status, state, provider_ref, idempotency_key FROM extaction.find('shop', 'first')",
	'find, what waits' => "SELECT status, state, gate FROM extaction.find('shop', 'refused')",
	'request_digest' => "SELECT extaction.request_digest('shop', 'i', 'a', 'd', '{}', 'candidate')",
	'verify' => 'SELECT count(*) FROM extaction.verify()',
	(map { $_ => "SELECT * FROM extaction.$_" } qw(timeline todo fake_task_counts gates access)));

sub refuses_to_write
{
	my ($node, $where, $prefix) = @_;

	foreach my $verb (sort keys %verbs)
	{
		my ($ret, $stdout, $stderr) = $node->psql('postgres', "\\set VERBOSITY sqlstate\n${prefix}SELECT * FROM $verbs{$verb}");
		like($stderr, qr/ERROR:  25006/, "$where: $verb gives 25006");
	}
	return;
}

# A read-only transaction.
refuses_to_write($primary, 'read-only transaction', "SET default_transaction_read_only = on;\n");
my %expected = map { $_ => $primary->safe_psql('postgres', $reads{$_}) } keys %reads;
is($primary->safe_psql('postgres', "SET default_transaction_read_only = on;\n$reads{$_}"), $expected{$_}, "read-only transaction: $_")
  foreach sort keys %reads;

# A hot standby.
$primary->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->start;
$primary->wait_for_catchup($standby);
refuses_to_write($standby, 'standby', '');
is($standby->safe_psql('postgres', $reads{$_}), $expected{$_}, "standby: $_") foreach sort keys %reads;
is(disagreements($standby, 'postgres'), '', 'standby: verify() has nothing to say');

# It takes over: the same key, the same task.
$primary->stop('immediate');
$standby->promote;
is(submit($standby, 'postgres', 'first', 'A'), $first =~ s/^created/replayed/r, 'after promotion: replayed, same task, same key');
like(submit($standby, 'postgres', 'second', 'A'), qr/^created/, 'after promotion: a new one is created');
is($standby->safe_psql('postgres', 'SELECT count(*) = count(DISTINCT task_id) FROM extaction.fake_tasks'), 't', 'after promotion: no task id twice');
is(disagreements($standby, 'postgres'), '', 'after promotion: verify() has nothing to say');

$standby->stop;
done_testing();
