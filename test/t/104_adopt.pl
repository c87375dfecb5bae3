# The ledger in another place than it was written in: restored from a dump, copied, taken over by a standby.  Nothing goes out until
# its owner has said which it is, and then what he said is what happens.
use strict;
use warnings FATAL => 'all';

use lib 'test/lib';
use Outside;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $elsewhere = '55000';
my $old = new_server('old', 'wal_level = replica', 'max_wal_senders = 5');

$old->safe_psql('postgres', 'CREATE DATABASE books');
make_tools($old, 'books');

# One intent of every kind: prepared, out, claimed and not handed out, uncertain, stopped, happened, closed; w waits, v is approved
# and not yet asked for.
$old->safe_psql('books', "CALL lab.ask('$_')") foreach qw(sent uncertain happened refused);
my $ticket = $old->safe_psql('books', "SELECT lab.claim('w')");
$old->safe_psql('books', "SELECT count(*) FROM extaction.claimed($ticket)");
$old->safe_psql('books', "SELECT status FROM extaction.record_outcome('lab', 'uncertain', 1, 'uncertain', '{\"code\": \"timeout\"}')");
$old->safe_psql('books', "SELECT status FROM extaction.record_outcome('lab', 'happened', 1, 'happened', provider_ref => 'r')");
$old->safe_psql('books', "SELECT status FROM extaction.record_outcome('lab', 'refused', 1, 'not_happened', '{\"code\": \"400\"}')");
$old->safe_psql('books', "CALL lab.ask('stopped')");
$old->safe_psql('books', "SELECT status FROM extaction.revoke_approval('lab', 'yes-stopped', 'no')");
$old->safe_psql('books', "SELECT lab.claim('w')");
$old->safe_psql('books', "CALL lab.ask('unread')");
my $unread = $old->safe_psql('books', "SELECT lab.claim('w')");
$old->safe_psql('books', "CALL lab.ask('prepared')");
$old->safe_psql('books', "SELECT status FROM extaction.submit('lab', 'w', 'lab_mail', 'x\@lab', '{}')");
$old->safe_psql('books', "SELECT status FROM extaction.approve_in_advance('lab', 'v', 'lab_mail', 'x\@lab', '{}')");

my @all = qw(happened prepared refused sent stopped uncertain unread);
my $as_it_was = stands($old, 'books');
is($as_it_was, 'happened happened 1, prepared prepared , refused not_happened 1, sent sending 1, stopped blocked , uncertain uncertain 1, unread sending 1',
	'the ledger as it was');
my $keys = rows($old, 'SELECT intent_id, idempotency_key FROM extaction.intents ORDER BY 1', 'books');
my $ledger_id = rows($old, 'SELECT ledger_id FROM extaction.ledger', 'books');
my $taken_at = rows($old, 'SELECT clock_timestamp()', 'books');

sub stands
{
	my ($node, $database) = @_;

	return rows($node, "SELECT string_agg(i.intent_id || ' ' || f.state || ' ' || coalesce(f.attempt::text, ''), ', ' ORDER BY i.intent_id)
		FROM extaction.intents i, extaction.find('lab', i.intent_id) f", $database);
}

# What every ledger in another place does before its owner has spoken.
sub refuses_to_send
{
	my ($node, $database, $name) = @_;

	refuses($node, "SELECT extaction.claim('w')", $elsewhere, "$name: claim refuses", $database);
	refuses($node, "SELECT extaction.claim('w', step => 'look')", $elsewhere, "$name: also to look", $database);
	refuses($node, "SELECT * FROM extaction.claimed($unread)", $elsewhere, "$name: claimed refuses a ticket of the old place", $database);
	is(stands($node, $database), $as_it_was, "$name: it stands as it was");
	is(rows($node, "SELECT status, state FROM extaction.submit('lab', 'new', 'lab_mail', 'x\@lab', '{}')", $database),
		'blocked|awaiting_approval', "$name: the other verbs work");
	is(rows($node, "SELECT status FROM extaction.cancel('lab', 'new', 'not any more')", $database), 'done', "$name: all of them");
	return;
}

sub is_sound
{
	my ($node, $database, $name) = @_;

	is(rows($node, 'SELECT * FROM extaction.verify()', $database), '', "$name: verify has nothing against it");
	is(rows($node, 'SELECT extaction.rebuild_worklist()', $database), '0', "$name: the worklist is what the facts say");
	return;
}

# What holds after adopt('restored') with a window that has not ended.
sub is_restored
{
	my ($node, $database, $name) = @_;

	is(stands($node, $database), 'happened happened 1, prepared uncertain 1000, refused not_happened 1, sent uncertain 1001, '
		  . 'stopped uncertain 1000, uncertain uncertain 1001, unread uncertain 1001',
		"$name: what was open is uncertain, 1000 attempts further");
	is(rows($node, "SELECT intent_id FROM extaction.worklist WHERE first_sent_at > '$taken_at' OR first_sent_at IS NULL", $database), '',
		"$name: as if it was sent when the backup was taken");
	is(rows($node, "SELECT intent_id FROM extaction.worklist WHERE quiet_from < clock_timestamp() + interval '59 min'", $database), '',
		"$name: and is quiet only after the longest lease");
	is(rows($node, 'SELECT intent_id, idempotency_key FROM extaction.intents ORDER BY 1', $database), $keys, "$name: the same keys");
	is(rows($node, 'SELECT epoch, ledger_id FROM extaction.ledger ORDER BY entry DESC LIMIT 1', $database), "2|$ledger_id",
		"$name: a new epoch of the same ledger");
	is(rows($node, "SELECT count(*) FROM extaction.claimed($unread)", $database), '0', "$name: an old ticket hands out nothing");
	is(rows($node, "SELECT claimed FROM extaction.claim('w', 100, lease => '1 h')", $database), '0', "$name: nothing is sent");
	is(rows($node, "SELECT claimed FROM extaction.claim('w', 100, 'resend', '1 h')", $database), '0',
		"$name: nor resent, for the old approvals do not pass");
	is(rows($node, "SELECT gate FROM extaction.check_gates('lab', 'prepared') WHERE NOT passes", $database),
		'approval_expired approvals_insufficient', "$name: as the gates say");
	is(rows($node, "SELECT status, gate FROM extaction.submit('lab', 'v', 'lab_mail', 'x\@lab', '{}')", $database),
		'blocked|approval_expired', "$name: nor does an old approval of what is asked for only now");

	# old workers come back
	is(rows($node, "SELECT status, state FROM extaction.record_outcome('lab', 'sent', 1, 'not_happened', '{\"code\": \"never_sent\"}')", $database),
		'late|uncertain', "$name: an old worker's answer is late");
	is(rows($node, "SELECT status, state FROM extaction.record_outcome('lab', 'sent', 1, 'happened', provider_ref => 'r')", $database),
		'late|uncertain', "$name: and if it says happened");
	is(rows($node, "SELECT step FROM extaction.next_step('lab', 'sent')", $database), 'look', "$name: somebody looks");

	# asked for in the lost time, perhaps
	is(rows($node, "SELECT status, state FROM extaction.approve('lab', (SELECT request_digest FROM extaction.pending_approvals WHERE intent_id = 'v'))",
			$database), 'approved|uncertain', "$name: what is first asked for in the window is uncertain");
	is(rows($node, "SELECT status, state FROM extaction.approve('lab', (SELECT request_digest FROM extaction.pending_approvals WHERE intent_id = 'w'))",
			$database), 'approved|uncertain', "$name: what waited then, too");
	is(rows($node, "SELECT status FROM extaction.approve_in_advance('lab', 'n', 'lab_mail', 'x\@lab', '{}')", $database), 'approved',
		"$name: a new approval");
	is(rows($node, "SELECT status, state FROM extaction.submit('lab', 'n', 'lab_mail', 'x\@lab', '{}')", $database), 'created|uncertain',
		"$name: what is new is uncertain, too");
	is(rows($node, "SELECT attempt FROM extaction.find('lab', 'n')", $database), '1000', "$name: and no old answer fits it");
	is(rows($node, "SELECT status, state FROM extaction.record_outcome('lab', 'n', 1, 'not_happened', '{\"code\": \"400\"}')", $database),
		'late|uncertain', "$name: an old worker's refusal of it is late");
	is(rows($node, "SELECT intent_id FROM extaction.worklist WHERE quiet_from < clock_timestamp() + interval '20 s'", $database), '',
		"$name: nor is it quiet at once");
	is_sound($node, $database, $name);

	# a look says absent: what is approved in this epoch goes on, under a number that no old answer has, and nothing else does
	$node->safe_psql($database, "CALL lab.later('3 h')");
	is(rows($node, "SELECT status FROM extaction.record_lookup('lab', 'prepared', 'absent', '{\"by\": \"list\"}', clock_timestamp())", $database),
		'recorded', "$name: a look settles it");
	is(rows($node, "SELECT status, state FROM extaction.record_lookup('lab', 'n', 'absent', '{\"by\": \"list\"}', clock_timestamp())", $database),
		'recorded|prepared', "$name: what is approved in this epoch is prepared");
	is(rows($node, "SELECT claimed FROM extaction.claim('w', 100, lease => '1 h')", $database), '1', "$name: and goes out");
	is(rows($node, "SELECT attempt, state FROM extaction.find('lab', 'n')", $database), '1001|sending', "$name: as attempt 1001");
	like(rows($node, "SELECT state FROM extaction.find('lab', 'prepared')", $database), qr/^(blocked|not_happened)$/,
		"$name: but nothing that only an old approval allowed");
	is_sound($node, $database, "$name, going on");
	return;
}

# Arguments
refuses($old, $_->[0], $_->[1], "adopt: $_->[0]", 'books')
  foreach [ "SELECT extaction.adopt('found')", '22023' ], [ "SELECT extaction.adopt('restored')", '22023' ],
  [ "SELECT extaction.adopt('restored', now())", '22023' ], [ "SELECT extaction.adopt('moved', now(), now())", '22023' ],
  [ "SELECT extaction.adopt('copy', now(), now())", '22023' ],
  [ "SELECT extaction.adopt('restored', now(), now() - interval '1 h')", '22023' ],
  [ "CREATE ROLE regress_stranger; GRANT USAGE ON SCHEMA extaction TO regress_stranger; GRANT EXECUTE ON FUNCTION extaction.adopt TO regress_stranger;"
	  . " SET ROLE regress_stranger; SELECT extaction.adopt('moved')", '42501' ];
$old->safe_psql('books', 'DROP OWNED BY regress_stranger; DROP ROLE regress_stranger');

# A dump, restored in another cluster
my $dump = PostgreSQL::Test::Utils::tempdir() . '/books.dump';
my $new = new_server('new');
$old->command_ok([ 'pg_dump', '-Fc', '-f', $dump, $old->connstr('books') ], 'pg_dump');
foreach my $database (qw(moved restored ended copy))
{
	$new->safe_psql('postgres', "CREATE DATABASE $database");
	$new->command_ok([ 'pg_restore', '--exit-on-error', '-j', '2', '-d', $new->connstr($database), $dump ], "pg_restore into $database");
	refuses_to_send($new, $database, $database);
}

# nothing was lost
$new->safe_psql('moved', "SELECT extaction.adopt('moved')");
is(stands($new, 'moved'), $as_it_was, 'moved: all is as it was');
is(rows($new, "SELECT intent_id, attempt FROM extaction.claimed($unread)", 'moved'), 'unread|1', 'moved: its tickets hold');
is(rows($new, "SELECT claimed FROM extaction.claim('w', 100, lease => '1 h')", 'moved'), '1', 'moved: and it goes on');
is(rows($new, "SELECT status, state FROM extaction.record_outcome('lab', 'sent', 1, 'happened', provider_ref => 'r')", 'moved'),
	'recorded|happened', 'moved: a worker comes back');
is(rows($new, 'SELECT epoch, ledger_id FROM extaction.ledger ORDER BY entry DESC LIMIT 1', 'moved'), "1|$ledger_id", 'moved: the same ledger');
is_sound($new, 'moved', 'moved');

# something was lost
$new->safe_psql('restored', "SELECT extaction.adopt('restored', '$taken_at', clock_timestamp() + interval '1 h')");
is_restored($new, 'restored', 'restored');

# a window that has ended: what is first asked for after it is new
$new->safe_psql('ended', "SELECT extaction.adopt('restored', '$taken_at', clock_timestamp())");
$new->safe_psql('ended', "SELECT status FROM extaction.approve_in_advance('lab', 'n', 'lab_mail', 'x\@lab', '{}')");
is(rows($new, "SELECT status, state FROM extaction.submit('lab', 'n', 'lab_mail', 'x\@lab', '{}')", 'ended'), 'created|prepared',
	'after the window: prepared');
is(rows($new, "SELECT claimed FROM extaction.claim('w', 100, lease => '1 h')", 'ended'), '1', 'after the window: and goes out');
is_sound($new, 'ended', 'after the window');

# a clone that must not send what the original will
sub is_a_copy
{
	my ($node, $database, $name) = @_;

	$node->safe_psql($database, "SELECT extaction.adopt('copy')");
	is(stands($node, $database), 'happened happened 1, prepared uncertain , refused not_happened 1, sent uncertain 1, stopped uncertain , '
		  . 'uncertain uncertain 1, unread uncertain 1', "$name: what was open is uncertain");
	is(rows($node, "SELECT count(*) FROM extaction.worklist", $database), '0', "$name: and off the list");
	is(rows($node, "SELECT count(*) FROM extaction.timeline WHERE kind = 'abandoned'", $database), '5', "$name: abandoned");
	isnt(rows($node, 'SELECT ledger_id FROM extaction.ledger ORDER BY entry DESC LIMIT 1', $database), $ledger_id, "$name: another ledger");
	is(rows($node, "SELECT count(*) FROM extaction.claimed($unread)", $database), '0', "$name: an old ticket hands out nothing");
	is(rows($node, "SELECT claimed FROM extaction.claim('w', 100, '$_', '1 h')", $database), '0', "$name: nothing to $_")
	  foreach qw(send resend look);
	$node->safe_psql($database, "SELECT status FROM extaction.approve_in_advance('lab', 'n', 'lab_mail', 'x\@lab', '{}')");
	is(rows($node, "SELECT status, state FROM extaction.submit('lab', 'n', 'lab_mail', 'x\@lab', '{}')", $database), 'created|prepared',
		"$name: what is new goes on");
	is(rows($node, "SELECT idempotency_key = extaction.idempotency_key('$ledger_id', 'lab', 'n') FROM extaction.intents WHERE intent_id = 'n'",
			$database), 'f', "$name: under a key that the original does not use");
	is(rows($node, "SELECT claimed FROM extaction.claim('w', 100, lease => '1 h')", $database), '1', "$name: and goes out");
	is_sound($node, $database, $name);
	return;
}
is_a_copy($new, 'copy', 'copy');

# A database made from this one, in the same cluster
$old->safe_psql('postgres', 'CREATE DATABASE staging TEMPLATE books');
refuses_to_send($old, 'staging', 'template');
is_a_copy($old, 'staging', 'template');

# A standby that takes over: reported, not refused
$old->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($old, 'base', has_streaming => 1);
$standby->start;
$old->wait_for_catchup($standby, 'replay', $old->lsn('flush'));
refuses($standby, "SELECT extaction.claim('w')", '25006', 'standby: claim refuses', 'books');
refuses($standby, "SELECT * FROM extaction.claimed($unread)", '25006', 'standby: claimed refuses', 'books');
is(stands($standby, 'books'), $as_it_was, 'standby: reading works');
is(rows($standby, "SELECT value FROM extaction.metrics WHERE metric = 'timeline_changed'", 'books'), '0', 'standby: the same timeline');

# The files of a stopped server, started elsewhere: nothing in them tells them from the original.  Only the one who copies knows.
$old->stop;
$old->backup_fs_cold('cold');
my $files = PostgreSQL::Test::Cluster->new('files');
$files->init_from_backup($old, 'cold');
$files->start;
is(rows($files, "SELECT count(*) FROM extaction.claimed($unread)", 'books'), '1',
	'files: the ledger cannot know that it is a copy, and goes on');
$files->safe_psql('books', "SELECT extaction.adopt('restored', '$taken_at', clock_timestamp() + interval '1 h')");
is_restored($files, 'books', 'files');
$files->stop;

$standby->promote;
ok($standby->poll_query_until('books', "SELECT value = 1 FROM extaction.metrics WHERE metric = 'timeline_changed'"),
	'promoted: metrics says that the timeline has changed');
is(rows($standby, "SELECT claimed FROM extaction.claim('w', 1, lease => '1 h')", 'books'), '1', 'promoted: claim is not refused');
$standby->safe_psql('books', "SELECT extaction.release((SELECT claim_id FROM extaction.worklist WHERE intent_id = 'prepared'))");
$standby->safe_psql('books', "SELECT extaction.adopt('restored', '$taken_at', clock_timestamp() + interval '1 h')");
is(rows($standby, "SELECT value FROM extaction.metrics WHERE metric = 'timeline_changed'", 'books'), '0', 'promoted: adopted');
like(stands($standby, 'books'), qr/^happened happened 1, prepared uncertain 1001, /, 'promoted: what was open is uncertain');
is(rows($standby, "SELECT claimed FROM extaction.claim('w', 100, lease => '1 h')", 'books'), '0', 'promoted: nothing is sent');
is_sound($standby, 'books', 'promoted');

$standby->stop;
$new->stop;
done_testing();
