# Scopes do not leak where nobody looks: into what a call costs, into waiting, into plans and statistics, through a function that looks at rows
# before they are hidden, through cursors, prepared statements and roles that change in between.

use strict;
use warnings FATAL => 'all';

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use lib dirname(abs_path(__FILE__)) . '/../lib';

use Tenants;
use Test::More;

my $node = new_server('scopes', "shared_preload_libraries = 'pg_stat_statements'", 'pg_stat_statements.track = all', 'max_locks_per_transaction = 64');

make_tenants($node);
add_member($node, 'sub', 'home:submitter');
add_member($node, 'app', 'home:approver');
add_member($node, 'own', 'home:owner');
add_member($node, 'foreigner', 'away:owner');
add_member($node, 'nobody');
$node->safe_psql('postgres', "CALL lab.furnish('$_')") foreach qw(home away);
$node->safe_psql('postgres', 'CREATE EXTENSION pg_stat_statements');

my $digest = rows($node, q{SELECT encode(request_digest, 'hex') FROM extaction.waiting WHERE scope = 'home' AND id = 'waits'});

#
# What is there in a foreign scope costs no more than what is not
#

# Statements that were run, with calls, rows and pages, of one call of the foreigner.
sub work_of
{
	my ($call) = @_;

	$node->safe_psql('postgres', 'SELECT pg_stat_statements_reset()');
	run_as($node, 'foreigner', "SELECT lab.try(\$call\$ SELECT * FROM extaction.$call \$call\$, true);" x 3);
	return $node->safe_psql('postgres', q{
		SELECT calls, rows, shared_blks_hit + shared_blks_read, md5(query) FROM pg_stat_statements
		WHERE userid = 'postgres'::regrole AND query LIKE '%extaction.%' AND query NOT LIKE '%pg_stat_statements%' ORDER BY md5(query)});
}

my $items = q{'[{"intent_id": "n1", "destination": "n", "payload": {"text": "n"}}]'};
foreach my $pair (
	[ "find('home', '%s')", 'done', 'none' ],
	[ "explain('home', '%s')", 'done', 'none' ],
	[ "cancel('home', '%s', 'no')", 'ready', 'none' ],
	[ "decide('home', '%s', 'found', 'saw it')", 'unsure', 'none' ],
	[ "retry('home', '%s', 'again')", 'failed', 'none' ],
	[ "check_gates('home', '%s')", 'waits', 'none' ],
	[ "approve('home', '%s')", $digest, 'f' x 64 ],
	[ "reject('home', '%s', 'no')", $digest, 'f' x 64 ],
	[ "revoke_approval('home', '%s', 'no')", 'yes-ready', 'none' ],
	[ "approve_in_advance('home', '%s', 'mail', 'n', '{\"text\": \"n\"}')", 'done', 'none' ],
	[ "record_outcome('home', '%s', 1, 'happened', '{\"id\": \"1\"}')", 'unsure', 'none' ],
	[ "record_lookup('home', '%s', 'found', '{\"id\": \"1\"}')", 'unsure', 'none' ],
	[ "compensate('home', '%s', 'undo', 'mail', 'n', '{\"text\": \"undo\"}', 'wrong')", 'done', 'none' ],
	[ "submit('home', '%s', 'mail', 'n', '{\"text\": \"n\"}')", 'done', 'none' ],
	[ "submit('home', 'i', 'mail', 'n', '{\"text\": \"n\"}', approval_id => '%s')", 'yes-ready', 'none' ],
	[ "submit('home', 'i', 'mail', 'n', candidate_id => '%s')", 'candidate', 'none' ],
	[ "submit_batch('home', '%s', 'mail', '{}', $items)", 'letters', 'none' ],
	[ "submit_fake_task('home', lab.task('%s'))", 'task', 'none' ])
{
	my ($call, @names) = @$pair;
	my ($there, $missing) = map { work_of(sprintf $call, $_) } @names;

	is($there, $missing, ($call =~ s/\(.*//r) . ": the same work for what is there and what is not ($names[0])");
}

#
# Nobody waits for another scope, and nobody can make a scope wait
#

# Two scopes at work: the foreigner does everything in his own, and does not commit.
my $foreigner = session_as($node, 'foreigner');
my $own = session_as($node, 'own');
$own->(q{SET lock_timeout = '120 s'});
my ($theirs, $ours) = map { "BEGIN;\n" . everything(@$_) } [ 'away', 'foreigner' ], [ 'home', 'own' ];
my $said = $foreigner->($theirs);
unlike($said, qr/ERROR/, 'a foreigner does everything in his scope, and stays in his transaction');
is($own->($ours), $said, 'the same here, which waits for nothing');
$own->('ROLLBACK');

# Then he takes the most locks that he can, and knocks at every door of the other scope.
$foreigner->(q{
	ROLLBACK;
	BEGIN;
	DO $$
	BEGIN
		FOR i IN 1 .. 250 LOOP
			PERFORM extaction.submit('away', 'many ' || i, 'mail', 'n', '{"text": "n"}');
			PERFORM extaction.submit_fake_task('home', lab.task('many ' || i));
			PERFORM extaction.submit('home', 'many ' || i, 'mail', 'n', '{"text": "n"}');
		END LOOP;
	END $$});
is($own->($ours), $said, 'whoever has knocked at every door of a scope holds none of it');
$own->('ROLLBACK');
$foreigner->('ROLLBACK');

# He was a member and has a lock, and is none any more.
is(rows($node, q{SELECT extaction.grant_access('home', 'foreigner', 'submitter')}), 'granted', 'a foreigner is a member for a while');
like($foreigner->(q{SELECT status, gate FROM extaction.submit_fake_task('home', lab.task('short visit'))}), qr/^blocked\|approval_missing$/, 'and may ask');
is(rows($node, q{SELECT extaction.revoke_access('home', 'foreigner', 'submitter')}), 'revoked', 'then no more');
$foreigner->('BEGIN');
like($foreigner->(qq{SELECT status, gate FROM extaction.submit_fake_task('home', lab.task('$_'))}), qr/^blocked\|scope_denied$/, "that is told ($_)")
	foreach 'short visit', 'another';
is(rows($node, q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'}), '0', 'and no lock is left of it');
$foreigner->('ROLLBACK');

# Whoever sees a lock cannot take the same.
$own->(q{BEGIN; SELECT status FROM extaction.reject('home', '} . $digest . q{', 'no')});
isnt(rows($node, q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted}), '0', 'somebody decides, under a lock');
is(join(' ', run_as($node, 'nobody', q{
	SELECT DISTINCT pg_try_advisory_lock(classid::bigint << 32 | objid::bigint) AND pg_try_advisory_lock(classid::int8::bit(32)::int, objid::int8::bit(32)::int)
	FROM pg_locks WHERE locktype = 'advisory'})), 't', 'which pg_advisory_lock() does not know');
$own->('ROLLBACK');

#
# A function that costs nothing looks at every row and every column before the view's own condition could
#

$node->safe_psql('postgres', q{
	CREATE FUNCTION lab.peep(seen text) RETURNS boolean LANGUAGE plpgsql COST 0.0000000001 AS
	$$ BEGIN IF seen ~ '\maway\M' THEN RAISE EXCEPTION 'saw %', seen USING HINT = current_query(); END IF; RETURN true; END $$;
	CREATE FUNCTION lab.peeps(own boolean, OUT looks bigint) LANGUAGE plpgsql AS $$
	DECLARE
		look text;
	BEGIN
		looks := 0;
		FOR look IN
			SELECT format('SELECT count(*) FROM %s v WHERE lab.peep(%s)', c.oid::regclass, what)
			FROM pg_class c, LATERAL (SELECT format('v.%I::text', a.attname) AS what FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0
			                          UNION ALL SELECT 'v::text') w
			WHERE c.relnamespace = 'extaction'::regnamespace AND c.relkind = 'v' AND has_table_privilege(c.oid, 'SELECT')
		LOOP
			BEGIN EXECUTE look; EXCEPTION WHEN OTHERS THEN RAISE EXCEPTION '% by %', SQLERRM, look; END;
			looks := looks + 1;
		END LOOP;
	END $$;
});
like(join("\n", run_as($node, $_, 'SELECT lab.peeps(true)')), qr/^[1-9]\d\d$/, "$_ sees nothing of a foreign scope through a leaky function") foreach 'sub', 'own';
like($own->("SELECT count(*) FROM extaction.access WHERE lab.peep('away')"), qr/saw away/, '(which does see)');

# Numbers that belong to no row
is(join(' ', run_as($node, 'sub', q{SELECT value FROM extaction.metrics WHERE metric IN ('open_prepared', 'open_sending', 'awaiting_approval') ORDER BY metric})),
	rows($node, q{SELECT (SELECT count(*) FROM extaction.waiting WHERE scope = 'home'),
	                     (SELECT count(*) FILTER (WHERE state = 'prepared') FROM extaction.worklist WHERE scope = 'home'),
	                     (SELECT count(*) FILTER (WHERE state = 'sending') FROM extaction.worklist WHERE scope = 'home')}) =~ tr/|/ /r,
	'metrics counts what is in the own scope');

#
# Plans and statistics show no value of a foreign scope
#

$node->safe_psql('postgres', 'ANALYZE');
foreach my $role ('sub', 'own', 'nobody')
{
	is(join(' ', run_as($node, $role, q{SELECT (SELECT count(*) FROM pg_stats WHERE schemaname = 'extaction'), (SELECT count(*) FROM pg_stats_ext WHERE schemaname = 'extaction')})),
		'0|0', "$role: the statistics of columns are closed");
}
my @views = split ' ', rows($node, q{SELECT relname FROM pg_class c WHERE relnamespace = 'extaction'::regnamespace AND relkind = 'v'
	AND has_table_privilege('own', c.oid, 'SELECT')});
my $plans = join "\n", run_as($node, 'own', join '', map {
	"EXPLAIN (ANALYZE, VERBOSE, BUFFERS, COSTS) SELECT * FROM extaction.$_;\n" } @views);
unlike($plans, qr/\baway\b|secret/, 'no plan of any view shows a foreign name or value');
like($plans, qr/Scan.*(.|\n)*Rows Removed by Filter: \d/, '(but numbers of rows: see doc/operations.md)');

#
# Prepared statements, cursors, COPY, and roles that change under them
#

my $sub = session_as($node, 'sub');
$sub->(q{
	PREPARE look AS SELECT status FROM extaction.find('home', 'done');
	PREPARE ask AS SELECT status, gate FROM extaction.submit('home', 'prepared', 'mail', 'n', '{"text": "n"}');
	PREPARE list AS SELECT DISTINCT scope FROM extaction.timeline;
	PREPARE there AS SELECT status FROM extaction.find('away', 'done')});
is($sub->('EXECUTE look; EXECUTE ask; EXECUTE list') =~ tr/\n/ /r, 'found blocked|approval_missing home', 'statements are prepared');
like($sub->("EXECUTE there"), qr/permission denied for scope "away"/, 'also one for a foreign scope');
rows($node, q{SELECT extaction.revoke_access('home', 'sub', 'submitter')});
like($sub->("EXECUTE $_"), qr/permission denied/, "after access was revoked, the prepared statement does not work any more: $_") foreach qw(look ask list);
rows($node, q{SELECT extaction.grant_access('away', 'sub', 'auditor')});
like($sub->('EXECUTE look'), qr/permission denied for scope "home"/, 'a member of the other scope now: not of the old one');
is($sub->('EXECUTE there; EXECUTE list') =~ tr/\n/ /r, 'found away', 'but of the new one');
like($sub->('EXECUTE ask'), qr/permission denied for function submit/, 'where it may look, and not ask');
rows($node, q{SELECT extaction.grant_access('home', 'sub', 'submitter')});
rows($node, q{SELECT extaction.revoke_access('away', 'sub', 'auditor')});
is($sub->('EXECUTE list'), 'home', 'and back');

# within one transaction: who is asked about is who calls
is($own->(q{
	BEGIN;
	DECLARE lazy CURSOR FOR SELECT scope FROM extaction.timeline;
	FETCH 1 FROM lazy}), 'home', 'a cursor');
$own->('ROLLBACK');
is($node->safe_psql('postgres', q{
	BEGIN;
	SET LOCAL ROLE own;
	DECLARE lazy CURSOR FOR SELECT scope FROM extaction.intent_status;
	SET LOCAL ROLE nobody;
	FETCH ALL FROM lazy;
	SET LOCAL ROLE foreigner;
	FETCH ALL FROM lazy}), '', 'a cursor shows to whom the role has changed nothing, not even his own');
is($node->safe_psql('postgres', q{
	BEGIN;
	SET LOCAL ROLE sub;
	SELECT gate FROM extaction.submit('home', 'by two', 'mail', 'n', '{"text": "n"}');
	SET LOCAL ROLE app;
	SELECT status, state FROM extaction.approve('home', (SELECT request_digest FROM extaction.pending_approvals WHERE intent_id = 'by two'));
	SET LOCAL ROLE foreigner;
	SELECT status, gate FROM extaction.submit('home', 'by two', 'mail', 'n', '{"text": "n"}');
	SELECT count(*) FROM extaction.intent_status WHERE scope = 'home';
	RESET ROLE;
	SELECT requester, role, "session_user" FROM extaction.intents WHERE intent_id = 'by two';
	ROLLBACK}) =~ tr/\n/ /r,
	'approval_missing approved|prepared blocked|scope_denied 0 sub|sub|postgres', 'in one transaction each role is who it is');

# COPY
is($sub->('COPY (SELECT DISTINCT scope FROM extaction.timeline) TO STDOUT'), 'home', 'COPY of a query shows what the query shows');
like($sub->("COPY extaction.$_ TO STDOUT"), qr/cannot copy from view|permission denied/, "COPY $_") foreach qw(timeline events intents);

# a worker whose access is taken back, or goes to another scope, has no ticket any more
add_member($node, 'turned', 'home:worker');
my $ticket = rows($node, q{SELECT claim_id FROM lab.tickets WHERE role = 'turned'});
rows($node, $_) foreach q{SELECT extaction.grant_access('away', 'turned', 'worker')}, q{SELECT extaction.revoke_access('home', 'turned', 'worker')};
is(join(' ', run_as($node, 'turned', "SELECT count(*) FROM extaction.claimed($ticket); SELECT extaction.extend($ticket, '2 h') IS NULL; SELECT extaction.release($ticket)")),
	'0 t 0', 'a ticket is worth nothing to whom is no worker any more');

$_->() foreach $foreigner, $own, $sub;
$node->stop;
done_testing();
