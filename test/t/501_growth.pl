# What a call costs grows neither with what is done nor with how often an intent was asked for again, even while an open transaction keeps all of it
# from being cleared away.  Costs are counted in pages: those do not depend on the machine.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use ExtactionTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = new_server('growth');

$node->safe_psql(
	'postgres', q{
	SET client_min_messages = warning;
	CREATE EXTENSION extaction CASCADE;
	SELECT extaction.create_scope('shop');
	INSERT INTO extaction.actions (action, provider, operation, self_approval) VALUES ('mail', 'post', 'send', true);
	CREATE FUNCTION ask(intent_id text) RETURNS text LANGUAGE sql AS $$
		SELECT extaction.approve_in_advance('shop', intent_id, 'mail', 'ada', '{"n": 1}');
		SELECT status FROM extaction.submit('shop', intent_id, 'mail', 'ada', '{"n": 1}') $$;
	-- the pages that a query touches
	CREATE FUNCTION pages(query text) RETURNS bigint LANGUAGE plpgsql AS $$
	DECLARE
		plan json;
	BEGIN
		EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, FORMAT json) ' || query INTO plan;
		RETURN (plan -> 0 -> 'Plan' ->> 'Shared Hit Blocks')::bigint + (plan -> 0 -> 'Plan' ->> 'Shared Read Blocks')::bigint;
	END $$;
	-- work that is done: ahead of all other, and away
	CREATE PROCEDURE work_done(many bigint, state text) LANGUAGE plpgsql AS $$
	BEGIN
		INSERT INTO extaction.worklist (scope, intent_id, state, action, due_at, lease_until)
		SELECT 'shop', state || n, state, 'mail', now() - interval '1 hour' + n * interval '1 ms', now() - interval '1 hour'
		FROM generate_series(1, many) n;
		COMMIT;
		DELETE FROM extaction.worklist w WHERE w.intent_id LIKE work_done.state || '%';
		COMMIT;
	END $$;
	SELECT ask('once'), ask('often'), ask('mail-' || n) FROM generate_series(1, 300) n;
});

# In one session, as a worker would: the answers of these queries.
my $worker = $node->background_psql('postgres', on_error_stop => 1);

sub ask
{
	my ($query) = @_;

	return scalar $worker->query($query);
}

#
# An intent that was asked for again and again
#

$node->safe_psql(
	'postgres', q{
	INSERT INTO extaction.events (scope, intent_id, kind, role, "session_user")
	SELECT 'shop', 'often', 'replayed', 'postgres', 'postgres' FROM generate_series(1, 20000)});
$node->safe_psql('postgres', 'VACUUM ANALYZE');
foreach my $call (q{find('shop', '%s')}, q{submit('shop', '%s', 'mail', 'ada', '{"n": 1}')}, q{next_step('shop', '%s')})
{
	my ($once, $often) = map { sprintf("SELECT pages(\$\$ SELECT * FROM extaction.$call \$\$)", $_) } 'once', 'often';

	ask($_) foreach $once, $often;    # plans
	cmp_ok(ask($often), '<', ask($once) + 20, "$call costs no more for 20,000 replays");
}

#
# Work that is done, and an open transaction
#

my $open = $node->background_psql('postgres', on_error_stop => 1);
$open->query('BEGIN ISOLATION LEVEL REPEATABLE READ');
$open->query('SELECT count(*) FROM extaction.worklist');
my $claim = "SELECT pages(\$\$ SELECT * FROM extaction.claim('w', 10) \$\$)";

ask($claim);                          # plans
my $before = ask($claim);
$node->safe_psql('postgres', "CALL work_done(40000, 'prepared')", timeout => 180);
$node->safe_psql('postgres', "CALL work_done(40000, 'sending')", timeout => 180);
my ($whole, @after) = split(/\|/, ask("SELECT a.pages, b.pages, c.pages FROM ($claim) a, LATERAL ($claim WHERE a.pages > 0) b, LATERAL ($claim WHERE b.pages > 0) c"));
cmp_ok($whole, '>', $before + 2000, "the way past what is done is long: $whole pages instead of $before");
cmp_ok($after[1], '<', 2 * $before, "and is not gone by every claim: @after");

# Work behind the mark: a claim that does not get enough looks there at once, ...
$node->safe_psql('postgres', q{UPDATE extaction.worklist SET due_at = now() - interval '2 hours' WHERE intent_id = 'mail-290'});
is(ask("SELECT count(*) FROM extaction.claim('w', 1000) t, LATERAL (SELECT 1 WHERE t.claimed > 200) x"), '1', 'everything is claimed');
is($node->safe_psql('postgres', q{SELECT count(*) FROM extaction.worklist WHERE state = 'prepared'}), '0', 'the one behind the mark too');

# ... and one that does, before long.
$node->safe_psql('postgres', q{SELECT ask('more-' || n) FROM generate_series(1, 400) n});
ask($claim) foreach 1 .. 2;
$node->safe_psql('postgres', q{UPDATE extaction.worklist SET due_at = now() - interval '2 hours' WHERE intent_id = 'more-399'});
my $claimed = '';
for (my $end = time() + 180; time() < $end; sleep(0.5))
{
	ask("SELECT claimed FROM extaction.claim('w', 1)");
	$claimed = $node->safe_psql('postgres', q{SELECT claim_id IS NOT NULL FROM extaction.worklist WHERE intent_id = 'more-399'});
	last if $claimed eq 't';
}
is($claimed, 't', 'what is behind the mark is claimed while there is enough ahead of it');
cmp_ok($node->safe_psql('postgres', q{SELECT count(*) FROM extaction.worklist WHERE state = 'prepared'}), '>', 0, 'and there was');

# A lease that ends behind the mark is swept.
$node->safe_psql('postgres', q{
	UPDATE extaction.worklist SET due_at = now() - interval '2 hours', lease_until = now() - interval '2 hours' WHERE intent_id = 'more-399'});
cmp_ok(ask('SELECT extaction.sweep()'), '>=', 1, 'sweep goes the whole way');

#
# A ticket and todo cost what is in them
#

$node->safe_psql('postgres', q{
	UPDATE extaction.worklist SET due_at = now() - interval '1 s', lease_until = now() - interval '1 s' WHERE state = 'sending' AND handed_at IS NULL});
$node->safe_psql('postgres', 'SELECT extaction.sweep()');
$open->query('ROLLBACK');
$node->safe_psql('postgres', 'VACUUM ANALYZE extaction.worklist');
my $rows = $node->safe_psql('postgres', 'SELECT count(*) FROM extaction.todo');
cmp_ok($rows, '>', 300, 'there is much to do');
ask('SELECT * FROM extaction.todo LIMIT 1');
my $some = ask('SELECT pages($$ SELECT * FROM extaction.todo LIMIT 5 $$)');
my $all = ask('SELECT pages($$ SELECT * FROM extaction.todo $$)');
cmp_ok($some, '<', $all / 3, "five rows of todo cost less than all: $some pages of $all");

$node->safe_psql('postgres', q{
	INSERT INTO extaction.worklist (scope, intent_id, state, action, due_at)
	SELECT 'shop', 'later-' || n, 'prepared', 'mail', now() + interval '1 day' FROM generate_series(1, 20000) n;
	INSERT INTO extaction.intents (scope, intent_id, action, destination, payload, request_digest, approval_id, idempotency_key, batch_id,
		requester, role, "session_user")
	SELECT 'shop', 'history-' || n, 'mail', 'ada', '{}', sha256(n::text::bytea), 'none', gen_random_uuid(), 'history-' || n % 10,
		'postgres', 'postgres', 'postgres' FROM generate_series(1, 20000) n});
$node->safe_psql('postgres', 'VACUUM ANALYZE');
$node->safe_psql('postgres', q{SELECT ask('last-' || n) FROM generate_series(1, 3) n});
my @pages;
for my $n (1 .. 3)
{
	my $ticket = ask(q{SELECT claim_id FROM extaction.claim('w', 1)});

	push @pages, ask("SELECT pages(\$\$ SELECT * FROM extaction.claimed($ticket) \$\$)");
}
cmp_ok($pages[2], '<', 300, "a ticket of one costs little beside 20,000 that wait and 20,000 that are done: @pages pages");

$worker->quit;
$open->quit;
done_testing();
