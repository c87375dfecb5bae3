# A crash loses nothing that was answered, and nothing that was not answered stays: the same request again gets the same task and key.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use ExtactionTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_server('restart');

make_shop($node, 'postgres');
$node->safe_psql('postgres', "SELECT yes('first', 'A'), yes('first', 'B'), yes('second', 'A'), yes('open', 'A')");

# Two processes, each with a session of its own.
my $first = submit($node, 'postgres', 'first', 'A');
my $again = submit($node, 'postgres', 'first', 'A');
like($first, qr/^created\|\|fake-task-0001\|/, 'the first process creates');
is($again, $first =~ s/^created/replayed/r, 'the second process gets the same task and key');
like(submit($node, 'postgres', 'first', 'B'), qr/^conflict\|\|\|$/, 'other content is a conflict, and shows nothing of the first');
my $second = submit($node, 'postgres', 'second', 'A');
like(submit($node, 'postgres', 'refused', 'A'), qr/^blocked\|approval_missing\|\|$/, 'without an approval it is blocked');

# One submit is not committed when the server crashes.
my $session = $node->background_psql('postgres');
like($session->query_safe("BEGIN; SELECT status, provider_ref FROM extaction.submit_fake_task('shop', request('open', 'A'))"),
	qr/^created/, 'one more is not committed');
# its WAL is on disk all the same
$node->safe_psql('postgres', 'SELECT pg_switch_wal()');

my $everything = q{
	SELECT (SELECT string_agg(i::text, E'\n' ORDER BY i.intent_id) FROM extaction.intents i),
	       (SELECT string_agg(e::text, E'\n' ORDER BY e.event_id) FROM extaction.events e),
	       (SELECT string_agg(w::text, E'\n' ORDER BY w.id) FROM extaction.waiting w),
	       (SELECT string_agg(a::text, E'\n' ORDER BY a.approval_id) FROM extaction.approvals a)};
my $before = $node->safe_psql('postgres', $everything);
my $counts = counts($node, 'postgres');
is($counts, '4|2|2', '4 requests, 2 executions, 2 tasks');

$node->stop('immediate');
eval { $session->quit };
$node->start;

is($node->safe_psql('postgres', $everything), $before, 'after the crash everything that was committed is there');
is(counts($node, 'postgres'), $counts, 'the three numbers are the same');
is(disagreements($node, 'postgres'), '', 'verify() has nothing to say');
is($node->safe_psql('postgres', "SELECT extaction.find('shop', 'open') IS NULL"), 't', 'what was not committed is not known');

is(submit($node, 'postgres', 'first', 'A'), $first =~ s/^created/replayed/r, 'the same again is replayed, same task, same key');
is(submit($node, 'postgres', 'second', 'A'), $second =~ s/^created/replayed/r, 'so is the other');
my $open = submit($node, 'postgres', 'open', 'A');
like($open, qr/^created\|\|fake-task-\d{4,}\|/, 'what was lost in the crash is created now');
is($node->safe_psql('postgres', "SELECT idempotency_key = extaction.idempotency_key((SELECT ledger_id FROM extaction.ledger), 'shop', 'open') FROM extaction.find('shop', 'open')"),
	't', 'with the key that it would have had');
is($node->safe_psql('postgres', 'SELECT count(*) = count(DISTINCT task_id), count(*) FROM extaction.fake_tasks'), 't|3', 'no task id was given twice');

# A clean stop, as a check of the check.
$node->restart;
is(submit($node, 'postgres', 'open', 'A'), $open =~ s/^created/replayed/r, 'replayed after a clean restart as well');
is(counts($node, 'postgres'), '8|3|3', '8 requests, 3 executions, 3 tasks');
is(disagreements($node, 'postgres'), '', 'verify() has nothing to say');

$node->stop;
done_testing();
