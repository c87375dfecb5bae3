# A worker's backend is killed at every step of its way: what is on record is right, and nothing is handed out twice.
use strict;
use warnings FATAL => 'all';

use lib 'test/lib';
use Outside;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_server('crash', 'restart_after_crash = on', 'autovacuum = off');
make_tools($node);

my $ticket = '(SELECT claim_id FROM extaction.worklist WHERE intent_id = \'%s\')';
my $session;

# in claim, before its commit
$node->safe_psql('postgres', "CALL lab.ask('a')");
$session = start_psql($node, "BEGIN; SELECT lab.claim('w');");
kill_backend($node, $session);
is(state_of($node, 'a'), 'prepared||send', 'killed in claim: prepared as before');
is(rows($node, "SELECT kind FROM extaction.timeline WHERE kind = 'sending'"), '', 'and nothing on record');

# between claim and claimed
$session = start_psql($node, "SELECT lab.claim('w');");
kill_backend($node, $session);
is(state_of($node, 'a'), 'sending|1|wait', 'killed after claim: it is out');
is(rows($node, "SELECT lab.claim('w')"), '', 'and nobody else gets it');
is(rows($node, sprintf("SELECT attempt FROM extaction.claimed($ticket)", 'a')), '1', 'its ticket still hands it out');
is(rows($node, sprintf("SELECT count(*) FROM extaction.claimed($ticket)", 'a')), '0', 'once');

# after claimed
$node->safe_psql('postgres', "CALL lab.ask('b')");
$node->safe_psql('postgres', "SELECT lab.claim('w')");
$session = start_psql($node, sprintf("SELECT 'handed ' || attempt FROM extaction.claimed($ticket);", 'b'));
like($session->{out}, qr/^handed 1$/m, 'claimed has handed it out');
kill_backend($node, $session);
is(rows($node, sprintf("SELECT count(*) FROM extaction.claimed($ticket)", 'b')), '0', 'killed after claimed: not handed out again');
is(rows($node, "SELECT lab.claim('w')"), '', 'nor claimed again');

# in the transaction of claimed: it was not handed out, for whoever commits before he sends
$node->safe_psql('postgres', "CALL lab.ask('c')");
$node->safe_psql('postgres', "SELECT lab.claim('w')");
$session = start_psql($node, sprintf("BEGIN; SELECT 'handed ' || attempt FROM extaction.claimed($ticket);", 'c'));
kill_backend($node, $session);
is(rows($node, sprintf("SELECT attempt FROM extaction.claimed($ticket)", 'c')), '1', 'killed before claimed was committed: not handed out yet');

# in record_outcome
$session = start_psql($node, "BEGIN; SELECT status FROM extaction.record_outcome('lab', 'b', 1, 'happened', provider_ref => 'r');");
kill_backend($node, $session);
is(state_of($node, 'b'), 'sending|1|wait', 'killed in record_outcome: still out');
is(rows($node, "SELECT status FROM extaction.record_outcome('lab', 'b', 1, 'happened', provider_ref => 'r')"), 'recorded', 'said again');
is(rows($node, "SELECT status FROM extaction.record_outcome('lab', 'b', 1, 'happened', provider_ref => 'r')"), 'replayed', 'and again');

# in release
$session = start_psql($node, sprintf("BEGIN; SELECT extaction.release($ticket);", 'c'));
kill_backend($node, $session);
is(state_of($node, 'c'), 'sending|1|wait', 'killed in release: still out');

# in sweep
$node->safe_psql('postgres', "CALL lab.later('2 h')");
$session = start_psql($node, "BEGIN; SELECT extaction.sweep();");
kill_backend($node, $session);
is(rows($node, "SELECT count(*) FROM extaction.timeline WHERE kind = 'uncertain'"), '0', 'killed in sweep: not written down');
like(state_of($node, 'a'), qr/^uncertain\|1\|/, 'but any reader sees that the lease has ended');
is(rows($node, 'SELECT extaction.sweep()'), '2', 'the next sweep writes it down');

# a worker that lives on says what it knows
is(rows($node, "SELECT status, state FROM extaction.record_outcome('lab', 'a', 1, 'happened', provider_ref => 'r')"), 'recorded|happened',
	'an answer after the lease and two crashes');

# in claim of a resend, and in decide
$session = start_psql($node, "BEGIN; SELECT lab.claim('w', step => 'resend');");
kill_backend($node, $session);
like(state_of($node, 'c'), qr/^uncertain\|1\|resend/, 'killed in the claim of a resend: as before');
$session = start_psql($node, "BEGIN; SELECT status FROM extaction.decide('lab', 'c', 'found', 'I saw it');");
kill_backend($node, $session);
like(state_of($node, 'c'), qr/^uncertain\|1\|resend/, 'killed in decide: as before');
is(rows($node, "SELECT lab.claim('w', step => 'resend') > 0"), 't', 'the resend goes on');
is(rows($node, sprintf("SELECT attempt, step FROM extaction.claimed($ticket)", 'c')), '2|resend', 'as attempt 2');

is(rows($node, q{SELECT intent_id, attempt FROM extaction.timeline WHERE kind = 'sending' GROUP BY 1, 2 HAVING count(*) > 1}), '',
	'no attempt was given twice');
is(rows($node, 'SELECT * FROM extaction.verify()'), '', 'verify has nothing against it');
is(rows($node, 'SELECT extaction.rebuild_worklist()'), '0', 'and the worklist is what the facts say');
$node->stop;
done_testing();
