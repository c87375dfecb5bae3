# What the TAP tests share: a server with the extension, a scope "shop" with a candidate in it, and documents to submit there.

package ExtactionTest;

use strict;
use warnings;

use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;

our @EXPORT = qw(new_server make_shop submit counts disagreements peak_memory seed);

# What random choices begin with: EXTACTION_SEED, else always the same, so that what fails in one run of "make test" fails in the next.  0 stands for
# any; what runs for hours begins with that.
sub seed
{
	my $seed = $ENV{EXTACTION_SEED};

	$seed = 1 if !defined $seed || $seed eq '';
	return $seed || 1 + int rand 1_000_000;
}

# A started server.  Parameters as those of PostgreSQL::Test::Cluster's init.
sub new_server
{
	my ($name, %params) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init(%params);
	$node->append_conf('postgresql.conf', "max_connections = 60\nautovacuum = off\n");
	$node->start;
	return $node;
}

# The extension, the scope and, outside the extension, request(intent_id, title) and yes(intent_id, title), which approves that
# under the name "intent_id/title".
sub make_shop
{
	my ($node, $database) = @_;

	$node->safe_psql(
		$database, q{
		SET client_min_messages = warning;
		CREATE EXTENSION IF NOT EXISTS extaction CASCADE;
		SELECT extaction.create_scope('shop');
		SELECT extaction.observe_source('shop', 'letter', 'v1');
		SELECT extaction.propose('shop', 'candidate', '{"title": "call"}', 'letter', 'v1');
		CREATE FUNCTION request(intent_id text, title text) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
			SELECT jsonb_build_object(
				'schema_version', 'task-request.v1', 'fixture_kind', 'tap', 'request_id', 'r',
				'intent_id', intent_id, 'operation', 'create_task', 'provider', 'fake-task-provider.v1',
				'candidate_ref', jsonb_build_object(
					'candidate_id', 'candidate', 'candidate_digest', encode(extaction.digest('{"title": "call"}'), 'hex'),
					'source_id', 'letter', 'source_version', 'v1'),
				'task', jsonb_build_object('title', title, 'assignee_person_ref', NULL, 'due_at', NULL)) $$;
		CREATE FUNCTION yes(intent_id text, title text) RETURNS text LANGUAGE sql AS $$
			SELECT status FROM extaction.approve_fake_task('shop', request(intent_id, title), approval_id => intent_id || '/' || title) $$;
	});
	return;
}

# Submits in a session of its own; "status|gate|task|key".
sub submit
{
	my ($node, $database, $intent_id, $title) = @_;

	return $node->safe_psql($database,
		"SELECT status, gate, provider_ref, idempotency_key FROM extaction.submit_fake_task('shop', request('$intent_id', '$title'))");
}

# "requests|executions|tasks" of the shop, or of one intent.
sub counts
{
	my ($node, $database, $intent_id) = @_;
	my $where = "scope = 'shop'" . (defined $intent_id ? " AND intent_id = '$intent_id'" : '');

	return $node->safe_psql(
		$database, qq{
		SELECT (SELECT count(*) FROM extaction.fake_task_requests WHERE $where),
		       (SELECT count(*) FROM extaction.fake_task_executions WHERE $where),
		       (SELECT count(*) FROM extaction.fake_tasks WHERE $where)});
}

# The most memory that this backend ever had, in kB; 0 where the system does not tell.  Shared buffers that it touched are in it.
sub peak_memory
{
	my ($pid) = @_;

	return -r "/proc/$pid/status" && slurp_file("/proc/$pid/status") =~ /VmHWM:\s+(\d+) kB/ ? $1 : 0;
}

# What verify() has to say: '' is fine.
sub disagreements
{
	my ($node, $database) = @_;

	return $node->safe_psql($database, 'SELECT * FROM extaction.verify()');
}

1;
