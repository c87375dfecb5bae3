# What an older backup does not know: the model of the protocol (test/model, C15) found these by taking them out.  A database is dumped, goes on
# for a while, is lost, and its dump takes its place.
use strict;
use warnings FATAL => 'all';

use lib 'test/lib';
use Outside;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_server('restored');
my $dump = "$PostgreSQL::Test::Utils::tmp_check/before.dump";

make_tools($node);
$node->safe_psql('postgres', q{
	CALL lab.ask('refused');
	CALL lab.ask('out');
	CALL lab.ask('away');
	SELECT lab.claim('w');
	SELECT extaction.record_outcome('lab', 'refused', 1, 'not_happened', '{"code": 400}');
	SELECT extaction.submit('lab', 'waits', 'lab_mail', 'x@lab', '{"text": "waits"}');
	SELECT extaction.submit('lab', i, 'lab_mail', 'x@lab', jsonb_build_object('text', i)) FROM unnest('{second,third}'::text[]) i;
	SELECT extaction.submit_batch('lab', 'list', 'lab_mail', '{}', '[{"intent_id": "item", "destination": "x@lab", "payload": {"text": "item"}}]');
});
command_ok([ $node->installed_command('pg_dump'), '-Fc', '-f', $dump, '-d', $node->connstr('postgres') ], 'a backup is taken');

# In the time that will be lost, everything is tried, and happens.
my $lost = $node->safe_psql('postgres', q{
	SELECT extaction.retry('lab', 'refused', 'again') IS NULL;
	SELECT extaction.approve('lab', request_digest) IS NULL FROM extaction.pending_approvals WHERE intent_id = 'waits' OR batch_id = 'list';
	SELECT lab.claim('w');
});
my ($ticket) = $lost =~ /(\d+)\z/;
is(rows($node, "SELECT intent_id, attempt FROM extaction.claimed($ticket) ORDER BY 1"), 'item|1 refused|2 waits|1', 'they go out');

$node->safe_psql('postgres', 'CREATE DATABASE back');
command_ok([ $node->installed_command('pg_restore'), '-d', $node->connstr('back'), $dump ], 'the backup is restored');
$node->safe_psql('back', "SELECT extaction.adopt('restored', now() - interval '1 min', now())");

# What waited in the backup is approved anew, long after the window: it may have gone out already.
$node->safe_psql('back', q{
	SELECT extaction.approve('lab', request_digest) FROM extaction.pending_approvals WHERE intent_id IN ('waits', 'second', 'third') OR batch_id = 'list';
});
is(state_of($node, 'waits', 'back'), 'uncertain|1000|resend', 'what waited is uncertain, though it is approved after the window');
is(state_of($node, 'item', 'back'), 'uncertain|1000|resend', 'so is what waited in a list');
is(rows($node, "SELECT claimed FROM extaction.claim('w', scope => 'lab')", 'back'), '0', 'and nothing of it is sent as if it were the first time');

# What was refused in the backup may have been retried since.
$node->safe_psql('back', q{SELECT extaction.approve_in_advance('lab', 'refused', 'lab_mail', 'x@lab', '{"text": "refused"}')});
is(rows($node, "SELECT status, state, next_step, attempt FROM extaction.retry('lab', 'refused', 'again')", 'back'), 'done|uncertain|resend|1000',
	'retry has to find out first');
is(rows($node, "SELECT earlier_open, quiet_from > (SELECT max(recorded_at) FROM extaction.ledger) FROM extaction.worklist WHERE intent_id = 'refused'", 'back'),
	't|t', 'for what is lost may still act');

# Given up; what the provider says of the last attempt does not speak for one that is lost.
$node->safe_psql('back', "SELECT extaction.abandon('lab', intent_id, 'nobody knows') FROM unnest('{third,away}'::text[]) intent_id");
is(rows($node, "SELECT status, state FROM extaction.record_outcome('lab', 'third', 1000, 'not_happened', '{\"code\": 400}')", 'back'), 'late|uncertain', 'third: bound after the restore');
is(rows($node, "SELECT status, state FROM extaction.record_outcome('lab', 'away', 1001, 'not_happened', '{\"code\": 400}')", 'back'), 'not_proven|uncertain', 'away: out before it');

# Given up, and then somebody says that it happened: they are on the list again, as the facts say.
foreach my $intent (qw(out second))
{
	is(rows($node, "SELECT status FROM extaction.abandon('lab', '$intent', 'nobody knows')", 'back'), 'done', "$intent: given up");
	is(rows($node, "SELECT status, state FROM extaction.record_outcome('lab', '$intent', 1, 'happened', '{\"id\": 1}')", 'back'), 'late|uncertain', "$intent: a late happened");
	is(rows($node, "SELECT step FROM extaction.next_step('lab', '$intent')", 'back'), 'look', "$intent: somebody looks");
}

# A worker of before still holds its ticket.  No number is given to two.
my $again = rows($node, "SELECT lab.claim('w', step => 'resend')", 'back');
cmp_ok($again, '>', $ticket + 100000, 'tickets go on far from where they were');
is(rows($node, "SELECT count(*) FROM extaction.claimed($again)", 'back'), '3', 'a new ticket shows all three');
is(rows($node, "SELECT extaction.release($ticket)", 'back'), '0', 'an old ticket gives nothing back');
refuses($node, q{SELECT extaction.record_outcome('lab', 'unknown', 2, 'not_happened', '{"code": 400}')}, '42704', 'nor is anything known of what is lost', 'back');
is(rows($node, q{SELECT status FROM extaction.record_outcome('lab', 'refused', 2, 'not_happened', '{"code": 400}')}, 'back'), 'late',
	'an answer to a lost attempt settles nothing');
is(rows($node, q{SELECT status, state FROM extaction.record_lookup('lab', 'refused', 'found', '{"id": 1}')}, 'back'), 'recorded|happened', 'found does');

is(rows($node, 'SELECT * FROM extaction.verify()', 'back'), '', 'verify has nothing against it');
is(rows($node, 'SELECT extaction.rebuild_worklist()', 'back'), '0', 'the worklist is what the facts say');

$node->stop;
done_testing();
