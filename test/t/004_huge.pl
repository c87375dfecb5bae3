# A huge document is refused by its size alone, before it is unpacked: 54000, at once, without memory.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use ExtactionTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $node = new_server('huge');
my $megabytes = 100;

make_shop($node, 'postgres');
$node->safe_psql('postgres',
	"CREATE TABLE huge AS SELECT request('huge', repeat('x', $megabytes << 20)) AS document, '' || repeat('[', $megabytes << 20) AS text");

my $session = $node->background_psql('postgres', on_error_stop => 0);
my $pid = $session->query('SELECT pg_backend_pid()');
$session->query("\\set VERBOSITY sqlstate");
$session->query("SELECT extaction.submit_fake_task('shop', request('small', 'A'))");
my $memory = peak_memory($pid);

foreach my $call (
	"extaction.submit_fake_task('shop', document)",
	"extaction.approve_fake_task('shop', document)",
	"extaction.propose('shop', 'huge', document, 'letter', 'v1')",
	"extaction.request_digest('shop', 'i', 'a', 'd', document)",
	'extaction.canonical(document)',
	'extaction.digest(document)',
	'extaction.strict_json(text)')
{
	my $start = time;
	$session->{stderr} = '';
	$session->query("SELECT $call FROM huge");
	my $seconds = time - $start;
	like($session->{stderr}, qr/ERROR:  54000/, "$call gives 54000");
	cmp_ok($seconds, '<', 5, "$call answers at once");
}
cmp_ok(peak_memory($pid) - $memory, '<', 50 * 1024, "and nothing of the $megabytes MB was unpacked");

is($node->safe_psql('postgres', "SELECT extaction.find('shop', 'huge') IS NULL AND NOT EXISTS (SELECT FROM extaction.candidates WHERE candidate_id = 'huge')"),
	't', 'nothing was written');

$session->quit;
$node->stop;
done_testing();
