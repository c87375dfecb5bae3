# Much at once: a list of 50,000 and the outcomes of 20,000 in one statement each.  The memory of a backend stays small, a time-out ends it
# and leaves nothing half done, a stale row undoes no other, and what others hold does not exhaust the server's lock table.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use ExtactionTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $letters = 50_000;
my $answers = 20_000;
my $most = 100 * 1024;    # kB
my $node = new_server('bulk');
$node->append_conf('postgresql.conf', "shared_buffers = 8MB\nsynchronous_commit = off\n");
$node->restart;

$node->safe_psql(
	'postgres', qq{
	SET client_min_messages = warning;
	CREATE EXTENSION extaction CASCADE;
	SELECT extaction.create_scope('club');
	INSERT INTO extaction.contracts (provider, operation, version, key_carrier, retention, on_expired, on_replay, on_mismatch,
		on_concurrent, stores_failures, proves_not_happened, lookup, absence_is_proof, lookup_lag, late_arrival_bound)
	VALUES ('post', 'send', 1, 'header', '24 hours', 'executes', 'first_result', 'rejects', 'rejects', 'all', '{400}', 'by_key', true, '0', '0');
	INSERT INTO extaction.actions (action, provider, operation, self_approval, destination_pattern) VALUES ('letter', 'post', 'send', true, '\@example\\.org\$');
	CREATE FUNCTION items(first int, last int, step int DEFAULT 1) RETURNS jsonb LANGUAGE sql AS \$\$
		SELECT jsonb_agg(jsonb_build_object('intent_id', 'letter/' || lpad(i::text, 6, '0'), 'destination', i || '\@example.org',
		                                    'payload', jsonb_build_object('name', 'Member ' || i))) FROM generate_series(first, last, step) i \$\$;
	CREATE TABLE list AS SELECT items(1, $letters) AS items;
});

my $batch = "'club', 'w48', 'letter', '{\"subject\": \"Friday\"}', items";
my $before;

my $session = $node->background_psql('postgres', on_error_stop => 0, timeout => 1800);
my $pid = answer('SELECT pg_backend_pid()');

# What a statement answers, or its error.
sub answer
{
	my ($sql) = @_;

	$session->{stderr} = '';
	my $answer = $session->query($sql);
	$answer = join(' ', $answer, $session->{stderr} =~ /ERROR: .*/g);
	$answer =~ s/^background_psql.*$//mg;
	$answer =~ s/^\s+|\s+$//g;
	return $answer;
}

# A call whose answer is as expected, and the memory that it took.
sub calls
{
	my ($sql, $expected, $name) = @_;

	$before //= peak_memory($pid);
	is(answer($sql), $expected, $name);
	my $took = peak_memory($pid) - $before;
	cmp_ok($took, '<', $most, "$name: in little memory ($took kB so far)");
	return;
}

#
# A list
#
calls("SELECT length(items::text) > 1000000 FROM list", 't', 'the list itself');
calls("SELECT status, gate, total FROM list, extaction.submit_batch($batch)", "blocked|approval_missing|$letters", 'a list waits');
calls("SELECT count(*), max(batch_items) FROM extaction.todo", "1|$letters", 'as one row');
$session->query("SET statement_timeout = '300 ms'");
like(answer("SELECT extaction.approve('club', request_digest) FROM extaction.todo"), qr/statement timeout/, 'a time-out ends an approval');
$session->query("RESET statement_timeout");
is(answer("SELECT (SELECT count(*) FROM extaction.intents), (SELECT count(*) FROM extaction.approvals), (SELECT count(*) FROM extaction.waiting)"),
	'0|0|1', 'and leaves nothing half done');
calls("SELECT a.status, a.state FROM extaction.todo t, extaction.approve('club', t.request_digest) a", 'approved|prepared', 'the list is approved');
calls("SELECT status, created, replayed FROM list, extaction.submit_batch($batch)", "replayed|0|$letters", 'the list is submitted again');
calls("SELECT status FROM list, extaction.approve_batch_in_advance('club', 'w49', 'letter', '{}', items)", 'approved', 'another is approved');
calls("SELECT status, created, conflict FROM list, extaction.submit_batch('club', 'w49', 'letter', '{}', items)", "created|0|$letters",
	'another list with the same letters');
is($node->safe_psql('postgres', "SELECT prepared, elsewhere FROM extaction.batch_status WHERE batch_id = 'w48'"), "$letters|0", 'all is there');

#
# Outcomes
#
$node->safe_psql('postgres', qq{
	SELECT extaction.claim('w', 10000, scope => 'club', lease => '1 hour') FROM generate_series(1, $answers / 10000);
	CREATE TABLE log AS SELECT intent_id, row_number() OVER (ORDER BY intent_id) % 4 AS what FROM extaction.worklist WHERE state = 'sending';
});
my $outcomes = q{
	SELECT string_agg(status || ' ' || n, ', ' ORDER BY status) FROM (
		SELECT r.status, count(*) AS n FROM log l, LATERAL extaction.record_outcome('club', l.intent_id, 1,
			(ARRAY['happened', 'not_happened', 'uncertain', 'not_happened'])[what + 1],
			jsonb_build_object('code', (ARRAY['200', '400', 'timeout', '500'])[what + 1])) r GROUP BY 1) s};
my $quarter = $answers / 4;
$session->query("SET statement_timeout = '300 ms'");
like(answer($outcomes), qr/statement timeout/, 'a time-out ends the outcomes');
$session->query("RESET statement_timeout");
is($node->safe_psql('postgres', "SELECT count(*) FROM extaction.events WHERE kind IN ('happened', 'not_happened', 'uncertain')"),
	'0', 'and leaves nothing half done');
calls($outcomes, "not_proven $quarter, recorded " . 3 * $quarter, 'outcomes of many');

# somebody is in the scope, so that the locks of single intents can't become one of the whole
my $other = $node->background_psql('postgres', timeout => 1800);
$other->query_safe('BEGIN');
$other->query_safe("SELECT extaction.submit('club', 'other', 'letter', '1\@example.org', '{}')");
calls($outcomes, "replayed $answers", 'the same log again');
calls(q{SELECT string_agg(status || ' ' || n, ', ' ORDER BY status) FROM (
	SELECT r.status, count(*) AS n FROM log l, LATERAL extaction.record_lookup('club', l.intent_id, 'found', '{"seen": true}') r GROUP BY 1) s},
	'recorded ' . 3 * $quarter . ", replayed $quarter", 'look-ups of many');
calls(q{SELECT count(*) FROM log l, LATERAL extaction.cancel('club', l.intent_id, 'no') r WHERE r.status = 'refused'}, $answers, 'a verb that locks each');
$other->query_safe('COMMIT');
$other->quit;
is($node->safe_psql('postgres', "SELECT count(*) FROM extaction.intent_status WHERE state = 'happened'"), $answers, 'found beats absent');
$session->quit;

#
# Many lists with letters in common, in any order, at once
#
my $lists = 12;
$node->safe_psql('postgres', qq{
	CREATE TABLE lists AS SELECT n, (SELECT jsonb_agg(t.item ORDER BY md5(n || t.item::text)) FROM jsonb_array_elements(
		items(100000 + n * 100, 101000 + n * 100)) t (item)) AS items FROM generate_series(1, $lists) n;
	SELECT extaction.approve_batch_in_advance('club', 'list ' || n, 'letter', '{}', items) FROM lists;
});
my $submit = "SELECT extaction.submit_batch('club', 'list ' || n, 'letter', '{}', items) FROM lists";
$node->pgbench("--no-vacuum --client=6 --transactions=6", 0, [qr{processed: 36/36}], [qr{^$}],
	'six sessions submit lists', { '120_bulk' => "\\set n random(1, $lists)\n$submit WHERE n = :n;\n" });
$node->safe_psql('postgres', $submit);
my $bound = 1001 + ($lists - 1) * 100;
is($node->safe_psql('postgres', "SELECT count(*) FROM extaction.intents WHERE batch_id LIKE 'list %'"), $bound, 'every letter is bound');
is($node->safe_psql('postgres', "SELECT sum(total - elsewhere) FROM extaction.batch_status WHERE batch_id LIKE 'list %'"), $bound, 'by one list');
is(disagreements($node, 'postgres'), '', 'and the facts agree');

$node->stop;
done_testing();
