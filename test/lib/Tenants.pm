# Tenants: the scopes home, away and yard, filled alike; a role for every capability, and roles that are nobody.
#
# What they ask, and what they are told, is compared by the tests 321 and on.  A secret of a scope is a text that names it ("the secret of away"),
# so that a leak is seen wherever it comes out.
package Tenants;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use IPC::Run;
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;

our @EXPORT = qw(new_server make_tenants add_member run_as session_as rows everything);

my $fixture = q{
	SET client_min_messages = warning;
	CREATE EXTENSION extaction CASCADE;
	CREATE SCHEMA lab;
	GRANT USAGE ON SCHEMA lab TO PUBLIC;
	CREATE TABLE lab.tickets (scope text, role text, claim_id bigint, PRIMARY KEY (scope, role));
	CREATE FUNCTION lab.task(intent_id text) RETURNS jsonb LANGUAGE sql IMMUTABLE RETURN jsonb_build_object(
		'schema_version', 'task-request.v1', 'fixture_kind', 'tap', 'request_id', 'r', 'intent_id', intent_id,
		'operation', 'create_task', 'provider', 'fake-task-provider.v1',
		'candidate_ref', jsonb_build_object('candidate_id', 'candidate', 'source_id', 'letter', 'source_version', 'v1',
			'candidate_digest', encode(sha256('{"title":"call"}'), 'hex')),
		'task', jsonb_build_object('title', 'call', 'assignee_person_ref', NULL, 'due_at', NULL));

	SELECT extaction.create_scope('home');
	SELECT extaction.create_scope('away');
	SELECT extaction.create_scope('yard');
	INSERT INTO extaction.contracts (provider, operation, version, key_carrier, key_name, retention, on_expired, on_replay,
		on_mismatch, on_concurrent, stores_failures, proves_not_happened, lookup, absence_is_proof, lookup_lag, late_arrival_bound)
	VALUES ('lab', 'send', 1, 'header', 'Idempotency-Key', '24 hours', 'executes', 'first_result', 'rejects', 'rejects', 'all',
		'{400}', 'by_key', true, '0', '0');
	INSERT INTO extaction.actions (action, provider, operation, self_approval, call_timeout, retry_delay)
	VALUES ('mail', 'lab', 'send', true, '10 ms', '0');

	-- an intent that is prepared
	CREATE PROCEDURE lab.prepare(scope text, intent_id text) LANGUAGE plpgsql AS $$
	DECLARE
		payload jsonb := jsonb_build_object('text', 'the secret of ' || scope);
	BEGIN
		PERFORM extaction.approve_in_advance(scope, intent_id, 'mail', intent_id || '@' || scope, payload, approval_id => 'yes-' || intent_id);
		PERFORM extaction.submit(scope, intent_id, 'mail', intent_id || '@' || scope, payload);
	END $$;

	-- an intent that is out, in the hands of a role
	CREATE PROCEDURE lab.send(scope text, intent_id text, role text) LANGUAGE plpgsql AS $$
	DECLARE
		claim bigint;
	BEGIN
		CALL lab.prepare(scope, intent_id);
		COMMIT;
		PERFORM set_config('role', role, false);
		SELECT claim_id INTO claim FROM extaction.claim('lab', lease => '1 hour', scope => scope);
		PERFORM set_config('role', 'none', false);
		INSERT INTO lab.tickets VALUES (scope, role, claim)
		ON CONFLICT ON CONSTRAINT tickets_pkey DO UPDATE SET claim_id = excluded.claim_id;
		COMMIT;
	END $$;

	-- everything that a scope can hold, once
	CREATE PROCEDURE lab.furnish(scope text) LANGUAGE plpgsql AS $$
	DECLARE
		items text := '[{"intent_id": "%1$s1", "destination": "%1$s1@%2$s", "payload": {"text": "the secret of %2$s"}},
		                {"intent_id": "%1$s2", "destination": "%1$s2@%2$s", "payload": {"text": "the secret of %2$s"}}]';
	BEGIN
		PERFORM extaction.observe_source(scope, 'letter', 'v1');
		PERFORM extaction.propose(scope, 'candidate', '{"title": "call"}', 'letter', 'v1');
		PERFORM extaction.submit(scope, 'waits', 'mail', 'waits@' || scope, jsonb_build_object('text', 'the secret of ' || scope));
		PERFORM extaction.approve_fake_task(scope, lab.task('task'));
		PERFORM extaction.submit_fake_task(scope, lab.task('task'));
		PERFORM extaction.set_wake_source(scope, 'pager');
		PERFORM extaction.wake(scope, 'pager', 'event 1', 'the secret of ' || scope);
		CALL lab.send(scope, 'unsure', 'postgres');
		PERFORM extaction.record_outcome(scope, 'unsure', 1, 'uncertain', '{"code": "timeout"}');
		CALL lab.send(scope, 'done', 'postgres');
		PERFORM extaction.record_outcome(scope, 'done', 1, 'happened', jsonb_build_object('id', 'the secret of ' || scope));
		CALL lab.send(scope, 'failed', 'postgres');
		PERFORM extaction.record_outcome(scope, 'failed', 1, 'not_happened', '{"code": "400"}');
		CALL lab.prepare(scope, 'stopped');
		PERFORM extaction.revoke_approval(scope, 'yes-stopped', 'no');
		PERFORM extaction.claim('lab', scope => scope);
		CALL lab.prepare(scope, 'ready');
		CALL lab.prepare(scope, 'lost');
		DELETE FROM extaction.worklist w WHERE w.scope = furnish.scope AND w.intent_id = 'lost';
		INSERT INTO extaction.events (scope, intent_id, kind, role, "session_user") VALUES (scope, 'never', 'happened', 'x', 'x');
		PERFORM extaction.approve_batch_in_advance(scope, 'letters', 'mail', '{}', format(items, 'l', scope)::jsonb, approval_id => 'yes-letters');
		PERFORM extaction.submit_batch(scope, 'letters', 'mail', '{}', format(items, 'l', scope)::jsonb);
		PERFORM extaction.submit_batch(scope, 'list', 'mail', '{}', format(items, 'm', scope)::jsonb);
	END $$;

	-- Makes a call as whoever calls this, and says what came of it: rows, or the error with all that it says.  "undo": leaves nothing behind.
	CREATE FUNCTION lab.try(call text, undo boolean) RETURNS jsonb LANGUAGE plpgsql AS $$
	DECLARE
		answer jsonb;
		e1 text; e2 text; e3 text; e4 text; e5 text; e6 text; e7 text; e8 text; e9 text;
	BEGIN
		EXECUTE format('SELECT coalesce(jsonb_agg(to_jsonb(f)), ''[]'') FROM (%s) f', call) INTO answer;
		IF undo THEN
			RAISE SQLSTATE 'UNDO1';
		END IF;
		RETURN answer;
	EXCEPTION
		WHEN SQLSTATE 'UNDO1' THEN
			RETURN answer;
		WHEN OTHERS THEN
			GET STACKED DIAGNOSTICS e1 = RETURNED_SQLSTATE, e2 = CONSTRAINT_NAME, e3 = MESSAGE_TEXT, e4 = PG_EXCEPTION_DETAIL,
				e5 = PG_EXCEPTION_HINT, e6 = PG_EXCEPTION_CONTEXT, e7 = TABLE_NAME, e8 = COLUMN_NAME, e9 = PG_DATATYPE_NAME;
			RETURN jsonb_build_object('state', e1, 'constraint', e2, 'message', e3, 'detail', e4, 'hint', e5, 'context', e6,
			                          'table', e7, 'column', e8, 'type', e9);
	END $$;
};

# A server of its own.  Further arguments are lines of its configuration.
sub new_server
{
	my ($name, @conf) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init;
	$node->append_conf('postgresql.conf', join("\n", 'autovacuum = off', @conf, ''));
	$node->start;
	return $node;
}

# The extension, the lab and the three scopes in the database "postgres"; no roles yet, and nothing in the scopes.
sub make_tenants
{
	my ($node) = @_;

	$node->safe_psql('postgres', $fixture);
	return;
}

# A login role with capabilities, each "scope:capability" or "scope:capability:vouches for".  It gets an intent that is out, in its hands, in
# each scope where it is a worker or an owner.
sub add_member
{
	my ($node, $role, @capabilities) = @_;
	my $sql = qq{SET client_min_messages = warning; CREATE ROLE "$role" LOGIN;};

	foreach (@capabilities)
	{
		my ($scope, $capability, $vouches_for) = split /:/;
		my $note = defined $vouches_for ? "'$vouches_for'" : 'NULL';

		$sql .= qq{SELECT extaction.grant_access('$scope', '$role', '$capability', $note);\n};
		$sql .= qq{CALL lab.send('$scope', 'out-$role', '$role');\n} if $capability =~ /^(worker|owner)$/;
	}
	$node->safe_psql('postgres', $sql);
	return;
}

# Logs in as the role and runs statements; returns what each query answered, by line.
sub run_as
{
	my ($node, $role, $sql, %options) = @_;
	local $ENV{PGOPTIONS} = $options{settings} // '';
	my $out = $node->safe_psql('postgres', $sql, connstr => $node->connstr('postgres') . qq{ user='$role'});

	return split /\n/, $out;
}

# A session of the role that stays open.  ->(sql) runs statements and returns what came of them: rows, and what
# the server said; ->() ends it.
sub session_as
{
	my ($node, $role, $database) = @_;
	my %session = (in => '', out => '', n => 0);
	my $timer = IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default);

	$session{run} = IPC::Run::start(
		[ $node->installed_command('psql'), '-XAtq', '-d', $node->connstr($database // 'postgres') . " user='$role'", '-f', '-' ],
		'<', \$session{in}, '>', \$session{out}, '2>&1', $timer);
	return sub {
		my ($sql) = @_;
		my $mark = 'end ' . ++$session{n};

		if (!defined $sql)
		{
			$session{in} .= "\\q\n";
			return $session{run}->finish;
		}
		$session{out} = '';
		$session{in} .= "$sql\n;\n\\echo $mark\n";
		$session{run}->pump until $session{out} =~ /^$mark$/m;
		$session{out} =~ s/^$mark\n//m;
		chomp $session{out};
		return $session{out};
	};
}

# Statements with which an owner of a furnished scope does everything that there is to do in it.
sub everything
{
	my ($scope, $role) = @_;

	return sprintf q{
	SELECT status FROM extaction.propose('%1$s', 'candidate', '{"title": "call him"}', 'letter', 'v1');
	SELECT extaction.observe_source('%1$s', 'letter', 'v2');
	SELECT status FROM extaction.submit('%1$s', 'new', 'mail', 'n', '{"text": "n"}');
	SELECT status FROM extaction.approve_in_advance('%1$s', 'new', 'mail', 'n', '{"text": "n"}');
	SELECT status FROM extaction.submit('%1$s', 'new 2', 'mail', 'n', '{"text": "n"}');
	SELECT status FROM extaction.reject('%1$s', extaction.request_digest('%1$s', 'new 2', 'mail', 'n', '{"text": "n"}'), 'no');
	SELECT status FROM extaction.approve_fake_task('%1$s', lab.task('new task'));
	SELECT status FROM extaction.submit_fake_task('%1$s', lab.task('new task'));
	SELECT status FROM extaction.submit_batch('%1$s', 'new list', 'mail', '{}', '[{"intent_id": "n1", "destination": "n", "payload": {"text": "n"}}]');
	SELECT status FROM extaction.revoke_approval('%1$s', 'yes-ready', 'no');
	SELECT claimed FROM extaction.claim('w', 100, lease => '1 h', scope => '%1$s');
	SELECT claimed FROM extaction.claim('w', 100, 'look', lease => '1 h');
	SELECT extaction.sweep();
	SELECT status FROM extaction.record_outcome('%1$s', 'out-%2$s', 1, 'happened', '{"id": "1"}');
	SELECT status FROM extaction.decide('%1$s', 'unsure', 'found', 'saw it');
	SELECT status FROM extaction.retry('%1$s', 'failed', 'again');
	SELECT status FROM extaction.cancel('%1$s', 'waits', 'no');
	SELECT status FROM extaction.compensate('%1$s', 'done', 'undo', 'mail', 'n', '{"text": "undo"}', 'wrong');
	SELECT extaction.pause('%1$s', reason => 'why not');
	SELECT extaction.resume('%1$s');
	SELECT what FROM extaction.verify();}, $scope, $role;
}

# The answer to a superuser as one line: columns by |, rows by a blank.
sub rows
{
	my ($node, $sql) = @_;
	my $answer = $node->safe_psql('postgres', $sql);

	$answer =~ s/\n/ /g;
	return $answer;
}

1;
