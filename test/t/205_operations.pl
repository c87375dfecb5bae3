# What doc/operations.md tells a DBA: its SQL runs as it stands, the event trigger keeps the ledger, a standby reads and refuses to send, and a
# ticket is used on another connection than the one that claimed it, as a transaction pooler would.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use ExtactionTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $page = slurp_file("$FindBin::RealBin/../../doc/operations.md");
my ($grants, $pauses, $trigger, @more) = grep { !/^CREATE PUBLICATION/ } $page =~ /^```sql\n(.*?)^```$/gms;
my $node = new_server('operations', allows_streaming => 1);

is(scalar(@more), 0, 'the page has three blocks of SQL, and what 332_logical.pl runs');
$node->safe_psql(
	'postgres', q{
	SET client_min_messages = warning;
	CREATE EXTENSION extaction CASCADE;
	CREATE ROLE shop_app;
	CREATE ROLE anna;
	CREATE ROLE orderer LOGIN;
	INSERT INTO extaction.actions (action, provider, operation) VALUES ('place_order', 'acme', 'POST /orders');
});
like($node->safe_psql('postgres', $grants), qr/^shop\|orderer\|worker\|\|t\|/m, 'roles and grants');
$node->safe_psql(
	'postgres', q{
	SET ROLE anna;
	SELECT extaction.approve_in_advance('shop', 'pen', 'place_order', 'acme/main', '{"article": "pen"}');
	SET ROLE shop_app;
	SELECT extaction.submit('shop', 'pen', 'place_order', 'acme/main', '{"article": "pen"}');
});

# Pauses: after the block everything is paused, and claim finds nothing.
like($node->safe_psql('postgres', $pauses), qr/^paused\nresumed\npaused\n\|\|something is wrong\|/, 'pauses');
is($node->safe_psql('postgres', "SET ROLE orderer; SELECT claimed FROM extaction.claim('w')"), '0', 'paused: nothing is claimed');
$node->safe_psql('postgres', 'SELECT extaction.resume()');

# A ticket on another connection of the same role.
my $claim_id = $node->safe_psql('postgres', "SET ROLE orderer; SELECT claim_id FROM extaction.claim('w')");
is( $node->safe_psql('postgres', "SET ROLE orderer; SELECT intent_id, attempt FROM extaction.claimed($claim_id)"),
	'pen|1', 'a ticket is good on another connection');

# The event trigger.
$node->safe_psql('postgres', $trigger);
for my $mistake ('DROP EXTENSION extaction', 'DROP SCHEMA extaction CASCADE', 'DROP EXTENSION pgcrypto CASCADE')
{
	my ($status, undef, $error) = $node->psql('postgres', $mistake);

	like($error, qr/this would drop the ledger/, "$mistake is stopped");
}
is($node->safe_psql('postgres', 'SELECT count(*) FROM extaction.intents'), '1', 'the ledger is still there');

# A standby.
$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('operations_standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;
for my $read ('find(\'shop\', \'pen\')', 'explain(\'shop\', \'pen\')', 'next_step(\'shop\', \'pen\')', 'check_gates(\'shop\', \'pen\')',
	'sent_to(\'shop\', \'acme/main\')', 'metrics', 'todo', 'grey_zone', 'timeline', 'pending_approvals')
{
	my ($status, undef, $error) = $standby->psql('postgres', "SELECT * FROM extaction.$read");

	is($error, '', "a standby reads $read");
}
is(disagreements($standby, 'postgres'), '', 'and verifies');
for my $write ("claim('w')", 'claimed(1)', "submit('shop', 'pen2', 'place_order', 'acme/main', '{}')", 'sweep()')
{
	my ($status, undef, $error) = $standby->psql('postgres', "\\set VERBOSITY sqlstate\nSELECT * FROM extaction.$write");

	like($error, qr/ERROR:  25006/, "a standby refuses $write");
}

$standby->stop;
$node->stop;
done_testing();
