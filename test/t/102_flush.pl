# What a verb has answered and others act on is there after a crash, whatever the caller's synchronous_commit; a submit may be lost,
# but never half.
use strict;
use warnings FATAL => 'all';

use lib 'test/lib';
use Outside;
use PostgreSQL::Test::Utils;
use Test::More;

# nothing but a verb's own flush brings WAL to disk soon
my $node = new_server('flush', 'synchronous_commit = off', 'wal_writer_delay = 10s', 'autovacuum = off', 'checkpoint_timeout = 1h',
	'bgwriter_lru_maxpages = 0');
make_tools($node);
make_durable('CREATE TABLE lab.control (n int)');

sub crash_after
{
	my ($sql) = @_;
	my $answer = $node->safe_psql('postgres', $sql);

	$node->stop('immediate');
	$node->start;
	return $answer;
}

sub make_durable
{
	my ($sql) = @_;

	return $node->safe_psql('postgres', "SET synchronous_commit = on; $sql");
}

# An uncertain intent, on disk.
sub uncertain
{
	my ($intent_id) = @_;

	make_durable("CALL lab.ask('$intent_id')");
	make_durable("SELECT lab.claim('w', lease => '20 ms')");
	make_durable("SELECT pg_sleep(0.03)");
	make_durable("SELECT status FROM extaction.record_outcome('lab', '$intent_id', 1, 'uncertain', '{\"code\": \"timeout\"}')");
	return;
}

# the control: this server does lose what was not flushed
my $lost = 0;
for my $n (1 .. 10)
{
	make_durable("DELETE FROM lab.control");
	crash_after("INSERT INTO lab.control VALUES ($n)");
	$lost = $node->safe_psql('postgres', 'SELECT count(*) FROM lab.control') eq '0';
	last if $lost;
}
ok($lost, 'an insert of this server can be lost');

# submit
my %halves;
for my $n (1 .. 3)
{
	make_durable("SELECT status FROM extaction.approve_in_advance('lab', 's$n', 'lab_mail', 'x\@lab', '{}')");
	crash_after("SELECT status FROM extaction.submit('lab', 's$n', 'lab_mail', 'x\@lab', '{}')");
	my $found = rows($node, "SELECT (SELECT count(*) FROM extaction.intents WHERE intent_id = 's$n'),
	                                (SELECT count(*) FROM extaction.worklist WHERE intent_id = 's$n')");
	$halves{$found} = 1;
	is(rows($node, 'SELECT * FROM extaction.verify()'), '', 'verify has nothing against it');
	is(rows($node, "SELECT count(*) FROM extaction.submit('lab', 's$n', 'lab_mail', 'x\@lab', '{}')
	                WHERE status IN ('created', 'replayed')"), '1', 'it can be submitted again');
	make_durable("SELECT status FROM extaction.cancel('lab', 's$n', 'enough')");
}
is_deeply([ grep { $_ ne '0|0' && $_ ne '1|1' } keys %halves ], [], 'a submit is lost or kept, never half');

# claim, in every way to call it
make_durable("CALL lab.ask('c$_')") for 1 .. 4;
crash_after("SELECT lab.claim('w', 1)");
is(state_of($node, 'c1'), 'sending|1|wait', 'claim: the sending event is there');
crash_after("BEGIN; SELECT lab.claim('w', 1); SET LOCAL synchronous_commit = off; COMMIT;");
is(state_of($node, 'c2'), 'sending|1|wait', 'claim: also if the caller turns synchronous_commit off behind it');
crash_after("DO \$\$ BEGIN PERFORM lab.claim('w', 1); EXCEPTION WHEN division_by_zero THEN NULL; END \$\$");
is(state_of($node, 'c3'), 'sending|1|wait', 'claim: also in a subtransaction');
# what claim flushes makes the submit before it durable too
$node->safe_psql('postgres', "SELECT status FROM extaction.approve_in_advance('lab', 'c0', 'lab_mail', 'x\@lab', '{}')");
$node->safe_psql('postgres', "SELECT status FROM extaction.submit('lab', 'c0', 'lab_mail', 'x\@lab', '{}')");
crash_after("SELECT lab.claim('w', 1)");
like(state_of($node, 'c4') . ' ' . state_of($node, 'c0'), qr/^sending\|1\|wait prepared\|/, 'claim: and what was submitted before it');

# claimed: the row is not handed out again
my $shown = crash_after("SELECT count(*) FROM extaction.claimed((SELECT claim_id FROM extaction.worklist WHERE intent_id = 'c1'))");
is($shown, '1', 'claimed has shown it');
is(rows($node, "SELECT count(*) FROM extaction.claimed((SELECT claim_id FROM extaction.worklist WHERE intent_id = 'c1'))"), '0',
	'claimed: not again after the crash');

crash_after("SELECT status FROM extaction.record_outcome('lab', 'c1', 1, 'happened', provider_ref => 'r')");
is(state_of($node, 'c1'), 'happened|1|done', 'record_outcome');

crash_after("SELECT extaction.release((SELECT claim_id FROM extaction.worklist WHERE intent_id = 'c2'))");
is(state_of($node, 'c2'), 'prepared|1|send', 'release');

crash_after("SELECT status FROM extaction.cancel('lab', 'c2', 'no')");
is(state_of($node, 'c2'), 'not_happened|1|done', 'cancel');

make_durable("SELECT status FROM extaction.submit('lab', 'a1', 'lab_mail', 'x\@lab', '{}')");
crash_after("SELECT status FROM extaction.approve('lab', (SELECT request_digest FROM extaction.todo WHERE intent_id = 'a1'))");
is(state_of($node, 'a1'), 'prepared||send', 'approve');

crash_after("SELECT status FROM extaction.revoke_approval('lab', (SELECT approval_id FROM extaction.approvals WHERE id = 'a1'), 'no')");
is(rows($node, "SELECT count(*) FROM extaction.revocations"), '1', 'revoke_approval');
is(rows($node, "SELECT lab.claim('w', 100)") && state_of($node, 'a1'), 'blocked||approve', 'revoke_approval: and it stops the claim');

make_durable("SELECT status FROM extaction.submit('lab', 'r1', 'lab_mail', 'x\@lab', '{}')");
crash_after("SELECT status FROM extaction.reject('lab', (SELECT request_digest FROM extaction.todo WHERE intent_id = 'r1'), 'no')");
is(rows($node, "SELECT status, gate FROM extaction.submit('lab', 'r1', 'lab_mail', 'x\@lab', '{}')"), 'blocked|rejected', 'reject');

uncertain('d1');
crash_after("SELECT status FROM extaction.decide('lab', 'd1', 'found', 'I saw it')");
is(state_of($node, 'd1'), 'happened|1|done', 'decide: found');
uncertain('d2');
crash_after("SELECT status FROM extaction.decide('lab', 'd2', 'absent', 'not there', clock_timestamp())");
is(state_of($node, 'd2'), 'prepared|1|send', 'decide: absent');

uncertain('g1');
crash_after("SELECT status FROM extaction.abandon('lab', 'g1', 'enough')");
is(rows($node, "SELECT status FROM extaction.abandon('lab', 'g1', 'enough')"), 'replayed', 'abandon');

uncertain('l1');
crash_after("SELECT status FROM extaction.record_lookup('lab', 'l1', 'found', provider_ref => 'r')");
is(state_of($node, 'l1'), 'happened|1|done', 'record_lookup');

make_durable("SELECT status FROM extaction.approve_in_advance('lab', 'undo', 'lab_mail', 'x\@lab', '{}')");
crash_after("SELECT status FROM extaction.compensate('lab', 'l1', 'undo', 'lab_mail', 'x\@lab', '{}', 'wrong')");
is(rows($node, "SELECT compensates FROM extaction.intents WHERE intent_id = 'undo'"), 'l1', 'compensate');

crash_after("SELECT extaction.pause('lab', reason => 'stop')");
is(rows($node, 'SELECT count(*) FROM extaction.pauses'), '1', 'pause');

is(rows($node, 'SELECT * FROM extaction.verify()'), '', 'verify has nothing against it');
$node->stop;
done_testing();
