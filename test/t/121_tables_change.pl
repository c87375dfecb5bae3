# Sessions keep what the names of tables, columns and indexes mean (src/rows.c).  It is forgotten when that changes: while an index is made anew
# beside them, when a column comes and goes, and when the whole extension is dropped and created again.
use strict;
use warnings FATAL => 'all';

use lib 'test/lib';
use IPC::Run;
use Outside;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_server('tables_change', 'autovacuum = off');
my $log = '';

make_tools($node);

# Four clients ask for one intent after the other, and again, while everything changes under them.
my ($clients, $each) = (4, 150);
my $script = "$PostgreSQL::Test::Utils::tmp_check/ask.sql";
PostgreSQL::Test::Utils::append_to_file($script, q{
\set n :n + 1
CALL lab.ask(format('%s of %s', :n, :client_id));
CALL lab.ask(format('%s of %s', :n, :client_id));
SELECT status FROM extaction.find('lab', format('%s of %s', :n, :client_id));
});
my $run = IPC::Run::start([ $node->installed_command('pgbench'), '-n', '-f', $script, '-c', $clients, '-t', $each, '-D', 'n=0', $node->connstr('postgres') ],
	'<', \undef, '>&', \$log, IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
my $rounds = 0;
while ($run->pumpable)
{
	$node->safe_psql('postgres', "REINDEX TABLE CONCURRENTLY extaction.$_") foreach qw(approvals intents worklist);
	$node->safe_psql('postgres', 'ALTER TABLE extaction.events ADD remark text; ALTER TABLE extaction.events DROP remark');
	$run->pump_nb;
	$rounds++;
}
ok($run->finish, 'no client has failed') or diag($log);
unlike($log, qr/ERROR|failed transactions: [1-9]/, 'and no statement') or diag($log);
cmp_ok($rounds, '>', 0, 'while tables were changed');
is(rows($node, 'SELECT count(*) FROM extaction.intents'), $clients * $each, 'each intent is there once');
is(rows($node, q{SELECT count(*) FROM extaction.events WHERE kind = 'replayed'}), $clients * $each, 'and was replayed once');
is(rows($node, 'SELECT * FROM extaction.verify()'), '', 'the ledger agrees with itself');

# One session, and another ledger under its feet.
my $session = $node->background_psql('postgres');
my $ask = q{SELECT extaction.create_scope('lab'); SELECT status FROM extaction.submit('lab', 'x', 'lab_mail', 'x@lab', '{}')};
like($session->query_safe($ask), qr/exists\s+blocked/, 'a session asks');
$node->safe_psql('postgres', 'DROP SCHEMA lab CASCADE; DROP EXTENSION extaction CASCADE; CREATE EXTENSION extaction CASCADE');
like($session->query_safe($ask), qr/created\s+blocked/, 'it asks in the new ledger');
$node->safe_psql('postgres', 'DROP EXTENSION extaction CASCADE');
$session->quit;

$node->stop;
done_testing();
