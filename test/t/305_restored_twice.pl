# A ledger restored from a backup, and what came of that restored again: no attempt is numbered as one was in the time that was lost,
# so no answer of an old worker settles a new attempt; neither after a retry of what was closed, nor of what is asked for anew.
use strict;
use warnings FATAL => 'all';

use lib 'test/lib';
use Outside;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $first = new_server('first', 'wal_level = replica', 'max_wal_senders = 5', 'autovacuum = off');
my $node = $first;
make_tools($node);

# What the backup holds: one is out, three are closed.
ask($_) foreach qw(open closed heard again);
claim();
is(answer($_, 1, 'not_happened', '400'), 'recorded|not_happened', "$_: refused for good") foreach qw(closed heard again);

lose('second', sub {
	retry($_) foreach qw(closed heard);
	ask('fresh');
	claim();
	is(attempt($_), '2', "$_: tried again in the time that is lost") foreach qw(closed heard);
	is(attempt('fresh'), '1', 'fresh: asked for in the time that is lost');
});

# Old workers come back, before anything else.
is(answer('open', 1, 'not_happened', 'never_sent'), 'late|uncertain', 'open: never sent, says one who sent it before the backup');
is(answer('closed', 2, 'not_happened', '400'), 'late|not_happened', 'closed: of a retry that nobody knows');
is(answer('heard', 2, 'happened'), 'late|uncertain', 'heard: happened, in a retry that nobody knows');
is(rows($node, "SELECT step FROM extaction.next_step('lab', 'heard')"), 'look', 'heard: somebody looks');
is_sound('old answers');

# What goes out now is numbered above all of that.  What was closed before the restore may have been tried again in the lost time, so a retry
# makes it uncertain: it is looked up, or sent again under its key.
ask($_) foreach qw(closed fresh);
is(answer('fresh', 1, 'not_happened', 'never_sent'), 'late|prepared', 'fresh: an answer to the first time it was asked for');
is_sound('an answer to what was asked for anew');
retry('closed');
is(state_of($node, 'closed'), 'uncertain|1000|resend', 'closed: a retry has to find out first');
is(answer('closed', 2, 'not_happened', '400'), 'replayed|uncertain', 'closed: an old answer does not find it out');
claim();
is(state_of($node, 'closed'), 'uncertain|1000|resend', 'closed: it does not go out as if for the first time');
claim('resend');
is(attempt($_), '1001', "$_: goes out as 1001") foreach qw(closed fresh);
is(answer('closed', 2, 'not_happened', 'never_sent'), 'late|sending', 'closed: an old answer settles nothing');
is(answer('fresh', 1, 'happened'), 'late|sending', 'fresh: nor does it here');
is(answer('closed', 1001, 'not_happened', '400'), 'not_proven|uncertain', 'closed: nor does its own refusal, for what is lost may still act');
$node->safe_psql('postgres', "CALL lab.later('2 h')");
is(rows($node, "SELECT status, state FROM extaction.record_lookup('lab', 'closed', 'absent', looked_at => clock_timestamp())"), 'recorded|prepared',
	'closed: when that must have ended, a look that finds nothing does');
claim();
is(answer('closed', 1002, 'not_happened', '400'), 'recorded|not_happened', 'closed: now a refusal counts');
is_sound('restored');

lose('third', sub {
	ask('again');
	retry($_) foreach qw(closed again);
	claim();
	claim('resend');
	is(attempt('closed'), '1003', 'closed: tried again in the time that is lost');
	is(attempt('again'), '1001', 'again: too');
});
is(rows($node, 'SELECT epoch FROM extaction.ledger ORDER BY entry DESC LIMIT 1'), '3', 'restored twice: the third epoch');
ask($_) foreach qw(closed again);
retry($_) foreach qw(closed again);
claim('resend');
is(attempt($_), '2001', "$_: goes out as 2001") foreach qw(closed again);
is(answer('closed', 1003, 'not_happened', '400'), 'late|sending', 'closed: an old answer settles nothing');
is(answer('again', 1001, 'not_happened', '400'), 'late|sending', 'again: nor does it here');
is(answer($_, 2001, 'happened'), 'recorded|happened', "$_: its own answer does") foreach qw(closed again);
is_sound('restored twice');
$node->stop;

# The first backup again.  It knows nothing of the time it was restored before, so its owner says it twice.
$node = PostgreSQL::Test::Cluster->new('fourth');
$node->init_from_backup($first, 'base');
$node->start;
$node->safe_psql('postgres', "SELECT extaction.adopt('restored', clock_timestamp() - interval '1 h', clock_timestamp())") for 1 .. 2;
ask('closed');
retry('closed');
claim('resend');
is(attempt('closed'), '2001', 'the same backup again: above what both lost databases gave');
is(answer('closed', 1001, 'not_happened', '400'), 'late|sending', 'the same backup again: an old answer settles nothing');
is(answer('open', 1, 'happened'), 'late|uncertain', 'the same backup again: nor does an older one');
is_sound('the same backup again');
$node->stop;
done_testing();

# An approval of this epoch, and the request; of what is bound it is a replay.
sub ask
{
	my ($intent) = @_;
	my $request = "'lab', '$intent', 'lab_mail', 'x\@lab', '{}'";

	$node->safe_psql('postgres', "SELECT status FROM extaction.approve_in_advance($request)");
	$node->safe_psql('postgres', "SELECT status FROM extaction.submit($request)");
	return;
}

sub claim
{
	my ($step) = @_;

	$node->safe_psql('postgres', "SELECT lab.claim('w', step => '" . ($step // 'send') . "')");
	return;
}

sub retry
{
	my ($intent) = @_;

	is(rows($node, "SELECT status FROM extaction.retry('lab', '$intent', 'again')"), 'done', "$intent: retried");
	return;
}

sub attempt { return rows($node, "SELECT attempt FROM extaction.find('lab', '$_[0]')"); }

sub answer
{
	my ($intent, $attempt, $outcome, $code) = @_;
	my $proof = defined $code ? "'{\"code\": \"$code\"}'" : "'{\"seen\": true}'";

	return rows($node, "SELECT status, state FROM extaction.record_outcome('lab', '$intent', $attempt, '$outcome', $proof)");
}

sub is_sound
{
	my ($name) = @_;

	is(rows($node, 'SELECT * FROM extaction.verify()'), '', "$name: verify has nothing against it");
	is(rows($node, 'SELECT extaction.rebuild_worklist()'), '0', "$name: the worklist is what the facts say");
	return;
}

# Takes a backup, lets the server live on for a while, and puts the backup in its place.
sub lose
{
	my ($name, $life) = @_;
	my $restored = PostgreSQL::Test::Cluster->new($name);
	my $taken_at = rows($node, 'SELECT clock_timestamp()');

	$node->backup('base');
	$life->();
	$restored->init_from_backup($node, 'base');
	$node->stop;
	$restored->start;
	$restored->safe_psql('postgres', "SELECT extaction.adopt('restored', '$taken_at', clock_timestamp())");
	$node = $restored;
	return;
}
