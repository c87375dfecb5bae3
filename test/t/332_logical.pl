# Logical replication of the ledger's tables to another cluster, and then the move there.  It carries rows: neither sequences nor
# SQL privileges, and the shipped contracts are there already.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use ExtactionTest;
use Filled;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $page = slurp_file("$FindBin::RealBin/../../doc/operations.md");
my ($publish) = $page =~ /^```sql\n(CREATE PUBLICATION .*?)^```$/ms;
my ($old, $new) = map { new_server($_, allows_streaming => 'logical') } qw(old new);

my $first = fill_every_table($old, 'postgres');
$new->safe_psql('postgres', 'SET client_min_messages = warning; CREATE EXTENSION extaction CASCADE; CREATE ROLE anna; CREATE ROLE bert; CREATE ROLE "odd: ""Rôle"" o\'clock"');
$new->safe_psql('postgres', $old->safe_psql('postgres', "SELECT pg_get_functiondef(oid) || ';' FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND proname IN ('request', 'yes')"));

# What the page says, and every table is in it.
$old->safe_psql('postgres', $publish);
is($old->safe_psql('postgres', q{
	SELECT o::regclass FROM pg_extension, unnest(extconfig) o JOIN pg_class c ON c.oid = o
	WHERE extname = 'extaction' AND c.relkind = 'r' AND NOT EXISTS (SELECT FROM pg_publication_rel p WHERE p.prrelid = o)}),
	'', 'every table that is marked for dump is published');
$new->safe_psql('postgres', "CREATE SUBSCRIPTION ledger CONNECTION 'host=@{[ $old->host ]} port=@{[ $old->port ]} dbname=postgres' PUBLICATION ledger");
$new->wait_for_subscription_sync($old, 'ledger');

sub same_rows
{
	my ($name) = @_;
	my ($here, $there) = map { rows_of($_, 'postgres') } $old, $new;

	is($there->{$_}, $here->{$_}, "$name: $_ has the same rows") foreach grep { !/_seq$/ } sort keys %$here;
	return;
}

same_rows('at first');

# A session there that remembers the catalogue.
my $session = $new->background_psql('postgres');
my $stopped = "SELECT count(*) FROM extaction.check_gates('shop', 'm2') WHERE gate = 'action_disabled' AND NOT passes";
is($session->query_safe($stopped), '0', 'an action is enabled');

# The work goes on: every kind of change.
$old->safe_psql(
	'postgres', q{
	UPDATE extaction.actions SET enabled = false WHERE action = 'post';
	INSERT INTO extaction.actions (action, provider, operation) VALUES ('new', 'p', 'o');
	DELETE FROM extaction.actions WHERE action = 'send_mail';
	SELECT extaction.resume('shop', 'post');
	SELECT yes('more', 'A'), extaction.submit_fake_task('shop', request('more', 'A'));
	SELECT extaction.redact('shop', 'n7', 'asked to');
	SELECT count(*) FROM extaction.next_wakeup('shop');
	SELECT extaction.grant_access('shop', 'bert', 'auditor'), extaction.revoke_access('shop', 'odd: "Rôle" o''clock', 'owner');
});
$old->wait_for_catchup('ledger');
same_rows('later');
is($session->query_safe($stopped), '1', 'a session there hears that the action is disabled');
$session->quit;

# The old one stops for good.
$old->stop;
$new->safe_psql('postgres', 'ALTER SUBSCRIPTION ledger DISABLE; ALTER SUBSCRIPTION ledger SET (slot_name = NONE); DROP SUBSCRIPTION ledger');
my (undef, undef, $stderr) = $new->psql('postgres', "\\set VERBOSITY sqlstate\nSELECT extaction.claim('w')");
like($stderr, qr/ERROR:  55000/, 'claim is refused');

# Its sequences stand where they stood when it was made.
like($new->safe_psql('postgres', "SELECT string_agg(sequence, ' ' ORDER BY sequence COLLATE \"C\") FROM extaction.sequences_behind"),
	qr/^claim_id_seq event_id_seq fake_task_execution_seq fake_task_request_seq fake_task_seq$/, 'the sequences are behind');
is($new->safe_psql('postgres', "SELECT count(*) FROM extaction.verify() WHERE what = 'sequence'"), '5', 'as verify() says');
like($new->safe_psql('postgres', "SELECT extaction.adopt('moved')"), qr/^moved/, 'adopted');
is($new->safe_psql('postgres', 'SELECT * FROM extaction.sequences_behind'), '', 'adopt brings them up');
my $numbered = $new->safe_psql('postgres', q{
	SELECT format('SELECT %L FROM extaction.%I HAVING max(%I) > (SELECT last_value FROM extaction.%I);',
	              c.relname || '.' || a.attname, c.relname, a.attname, s.relname)
	FROM pg_attrdef d JOIN pg_class c ON c.oid = d.adrelid JOIN pg_attribute a ON (a.attrelid, a.attnum) = (d.adrelid, d.adnum)
	JOIN pg_class s ON pg_get_expr(d.adbin, d.adrelid) = format('nextval(%L::regclass)', s.oid::regclass)
	WHERE c.relnamespace = 'extaction'::regnamespace});
cmp_ok(scalar(split /\n/, $numbered), '>=', 10, 'many columns have numbers from a sequence');
is($new->safe_psql('postgres', $numbered), '', 'and no number of any is given a second time');
is(disagreements($new, 'postgres'), '', 'verify() has nothing to say');

# Nor did the members bring their privileges.
like(($new->psql('postgres', 'SET ROLE anna; SELECT * FROM extaction.todo'))[2], qr/permission denied/, 'a member can do nothing');
$new->safe_psql('postgres', 'SELECT extaction.repair_access()');
like($new->safe_psql('postgres', "SET ROLE anna; SELECT status, provider_ref FROM extaction.submit_fake_task('shop', public.request('third', 'A'))"),
	qr/^created\|fake-task-0304$/, 'now it goes on, and the numbers too');
is(submit($new, 'postgres', 'first', 'A'), $first =~ s/^created/replayed/r, 'the same again is replayed, same task, same key');
is($new->safe_psql('postgres', "UPDATE extaction.actions SET enabled = true WHERE action = 'post'; SELECT claimed FROM extaction.claim('w', 10)"),
	'1', 'what was due goes out');
is(disagreements($new, 'postgres'), '', 'verify() still has nothing to say');

$new->stop;
done_testing();
