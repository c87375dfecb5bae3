# Servers with a ledger, a provider that keeps its word, and things to send.
package Outside;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use IPC::Run;
use Kill;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(new_server make_tools rows state_of start_psql kill_backend refuses);

# The tools, in schema lab.  lab.sends is the provider's book: what arrived.  lab.handed is what claimed has shown.
my $tools = q{
	CREATE SCHEMA lab;
	CREATE TABLE lab.sends (no bigserial, intent_id text, key uuid, attempt bigint, step text, worker text,
	                        at timestamptz DEFAULT clock_timestamp());
	CREATE TABLE lab.handed (intent_id text, attempt bigint, step text, worker text);
	SELECT extaction.create_scope('lab');
	INSERT INTO extaction.contracts (provider, operation, version, key_carrier, key_name, retention, on_expired, on_replay,
		on_mismatch, on_concurrent, stores_failures, proves_not_happened, lookup, absence_is_proof, lookup_lag, late_arrival_bound)
	VALUES ('lab', 'send', 1, 'header', 'Idempotency-Key', '24 hours', 'executes', 'first_result', 'rejects', 'rejects', 'all',
		'{400}', 'by_key', true, '0', '0');
	INSERT INTO extaction.actions (action, provider, operation, self_approval, call_timeout, retry_delay)
	VALUES ('lab_mail', 'lab', 'send', true, '10 ms', '0');

	CREATE PROCEDURE lab.ask(intent_id text) LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM extaction.approve_in_advance('lab', intent_id, 'lab_mail', 'x@lab', jsonb_build_object('text', intent_id),
		                                     approval_id => 'yes-' || intent_id);
		PERFORM extaction.submit('lab', intent_id, 'lab_mail', 'x@lab', jsonb_build_object('text', intent_id));
	END $$;

	CREATE FUNCTION lab.claim(worker text, max_intents bigint DEFAULT 1000, step text DEFAULT 'send', lease interval DEFAULT '1 h')
	RETURNS bigint LANGUAGE sql AS $$ SELECT claim_id FROM extaction.claim(worker, max_intents, step, lease, scope => 'lab') $$;

	-- time goes by for all that is open
	CREATE PROCEDURE lab.later(span interval) LANGUAGE sql AS $$
		UPDATE extaction.worklist SET due_at = due_at - span, lease_until = lease_until - span, first_sent_at = first_sent_at - span,
			quiet_from = quiet_from - span, since = since - span, answered_at = answered_at - span, look_began_at = look_began_at - span $$;
};

# A server of its own, with the extension but nothing in it; further arguments are lines of its configuration.
sub new_server
{
	my ($name, @conf) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init;
	$node->append_conf('postgresql.conf', join("\n", 'fsync = on', @conf, ''));
	$node->start;
	return $node;
}

# The extension and the tools, in a database of the server.
sub make_tools
{
	my ($node, $database) = @_;

	$node->safe_psql($database // 'postgres', 'SET client_min_messages = warning; CREATE EXTENSION extaction CASCADE;' . $tools);
	return;
}

# The answer as one line: columns by |, rows by a blank.
sub rows
{
	my ($node, $sql, $database) = @_;
	my $answer = $node->safe_psql($database // 'postgres', $sql);

	$answer =~ s/\n/ /g;
	return $answer;
}

# state, attempt and next step of an intent
sub state_of
{
	my ($node, $intent_id, $database) = @_;

	return rows($node, "SELECT state, attempt, next_step FROM extaction.find('lab', '$intent_id')", $database);
}

# A session in the background, which has run the given statements and stays as it is.  Returns it and its backend's number.
sub start_psql
{
	my ($node, $sql, $database) = @_;
	my %session = (in => '', out => '', err => '');

	$session{run} = IPC::Run::start(
		[ $node->installed_command('psql'), '-XAtq', '-d', $node->connstr($database // 'postgres'), '-f', '-' ],
		'<', \$session{in}, '>', \$session{out}, '2>', \$session{err},
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	$session{in} = "SELECT pg_backend_pid();\n$sql\n\\echo ready\n";
	$session{run}->pump until $session{out} =~ /^ready$/m || $session{err} ne '';
	is($session{err}, '', 'the session did what it was told');
	($session{pid}) = $session{out} =~ /^(\d+)$/m;
	return \%session;
}

# kill -9 of its backend: the server starts again by itself.
sub kill_backend
{
	my ($node, $session) = @_;

	kill 'KILL', $session->{pid};
	eval { $session->{in} = "SELECT 1;\n\\q\n"; $session->{run}->finish; };
	wait_until_up($node);
	return;
}

# The statement is refused with the SQLSTATE.
sub refuses
{
	my ($node, $sql, $sqlstate, $name, $database) = @_;
	my ($code, $out, $err) = $node->psql($database // 'postgres', "\\set VERBOSITY sqlstate\n$sql");

	like($err, qr/\b$sqlstate\b/, $name);
	return;
}

1;
