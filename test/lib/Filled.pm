# A ledger with something in every table, to be brought elsewhere, and what is in it, to be compared there.

package Filled;

use strict;
use warnings;

use Exporter 'import';
use ExtactionTest;

our @EXPORT = qw(fill_every_table rows_of);

# Roles: anna submits, bert approves, one has an odd name, and gone is dropped.  Returns what the first submit answered.
sub fill_every_table
{
	my ($node, $database) = @_;
	my $odd = q("odd: ""Rôle"" o'clock");

	make_shop($node, $database);
	$node->safe_psql(
		$database, qq{
		CREATE ROLE anna;
		CREATE ROLE bert;
		CREATE ROLE $odd;
		CREATE ROLE gone;
		SELECT extaction.grant_access('shop', 'anna', 'submitter'), extaction.grant_access('shop', 'bert', 'approver'),
		       extaction.grant_access('shop', 'odd: "Rôle" o''clock', 'owner', 'users of the web app'), extaction.grant_access('shop', 'gone', 'submitter');
		GRANT EXECUTE ON FUNCTION extaction.create_scope TO bert;
		DROP OWNED BY gone;
		DROP ROLE gone;
		SELECT extaction.create_scope('other');
		INSERT INTO extaction.actions (action, provider, operation, destination_pattern) VALUES ('send_mail', 'smtp', 'send', '\@example\\.org\$');
		UPDATE extaction.actions SET enabled = false, approval_ttl = '3 days' WHERE action = 'send_mail';
		INSERT INTO extaction.actions (action, provider, operation) VALUES ('mistake', 'p', 'o');
		DELETE FROM extaction.actions WHERE action = 'mistake';
		SELECT extaction.propose('shop', 'another', '{"n": [1e21, 0.1, "\\u2028 é 😀", null]}', 'letter', 'v1', 'crawler');
		SELECT yes('first', 'A'), yes('first', 'B'), yes('second', 'A'), yes('revoked', 'A'), yes('third', 'A');
		SELECT extaction.revoke_approval('shop', 'revoked/A', 'a second thought');
	});
	# what goes out: a contract of our own, a batch with one item at a worker, one that waits, a pause
	$node->safe_psql(
		$database, q{
		INSERT INTO extaction.contracts (provider, operation, version, key_carrier) VALUES ('smtp', 'send', 1, 'none');
		INSERT INTO extaction.actions (action, provider, operation, self_approval) VALUES ('post', 'smtp', 'send', true);
		SELECT extaction.approve_batch_in_advance('shop', 'list', 'post', '{"subject": "Friday"}', '[{"intent_id": "m1", "destination": "a"}, {"intent_id": "m2", "destination": "b"}]');
		SELECT extaction.submit_batch('shop', 'list', 'post', '{"subject": "Friday"}', '[{"intent_id": "m1", "destination": "a"}, {"intent_id": "m2", "destination": "b"}]');
		SELECT extaction.submit('shop', 'later', 'post', 'c', '{"n": 1}');
		SELECT extaction.claim('worker', 1);
		SELECT extaction.pause('shop', 'post', 'for the dump');
		SELECT extaction.set_wake_source('shop', 'mail', 's3cret'), extaction.set_wake_source('shop', 'calendar');
		SELECT extaction.wake('shop', 'calendar', 'e1', 'a letter has come');
	});
	my $first = submit($node, $database, 'first', 'A');
	submit($node, $database, 'first', $_) foreach qw(A B);
	submit($node, $database, $_, 'A') foreach qw(second revoked refused);
	# many rows, so that a parallel restore has something to do
	$node->safe_psql($database,
		"SELECT yes('n' || n, 'A'), extaction.submit_fake_task('shop', request('n' || n, 'A')) FROM generate_series(1, 300) n");
	return $first;
}

# Every table and sequence that is marked for dump: its name, and its rows as text.
sub rows_of
{
	my ($node, $database) = @_;
	my $questions = $node->safe_psql(
		$database, q{
		SELECT format(CASE c.relkind WHEN 'S' THEN 'SELECT last_value, is_called FROM extaction.%I'
		                             ELSE 'SELECT t::text FROM extaction.%I t ORDER BY t::text' END, c.relname)
		FROM pg_extension e, unnest(e.extconfig) o JOIN pg_class c ON c.oid = o
		WHERE e.extname = 'extaction' ORDER BY c.relname});
	my %rows;

	$questions =~ s/^(.* FROM extaction\.(\w+).*)$/\\echo == $2\n$1;/mg;
	(undef, my @parts) = split /^== (\w+)\n?/m, $node->safe_psql($database, $questions);
	while (my ($name, $rows) = splice(@parts, 0, 2))
	{
		$rows{$name} = ($rows // '') =~ s/\n\z//r;
	}
	return \%rows;
}

1;
