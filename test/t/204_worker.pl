# examples/worker.py against a provider that answers, refuses, is busy, hangs up after it has done it, and is too slow: each order is placed
# once, and the ledger knows what became of it.  Skipped without psycopg 3.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use ExtactionTest;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my ($python) = (grep({ -x } '/usr/bin/python3'), 'python3');
my $worker = "$FindBin::RealBin/../../examples/worker.py";
my $dir = PostgreSQL::Test::Utils::tempdir();

plan skip_all => 'psycopg 3 is not installed'
  if !eval { IPC::Run::run([ $python, '-c', 'import psycopg' ], '>', \my $said, '2>&1') };

# The provider: orders by their key, in memory.  Prints its port; a file gets a line for every order that it places.
append_to_file("$dir/provider.py", <<'PROVIDER');
import http.server, json, sys, time
from urllib.parse import urlsplit, parse_qs

orders, busy = {}, set()

class Provider(http.server.BaseHTTPRequestHandler):
    def answer(self, status, body, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def do_POST(self):
        key = self.headers["Idempotency-Key"]
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        article = json.loads(body)["article"]
        if article == "gold":
            return self.answer(403, {})
        if article == "chalk" and key not in busy:
            busy.add(key)
            return self.answer(429, {}, Retry_After="1")
        if key not in orders:
            orders[key] = f"A-{len(orders) + 1}"
            with open(sys.argv[1], "a") as placed:
                print(body, file=placed)
        if article == "ink":
            return None  # hangs up
        if article == "paper":
            time.sleep(4)
        self.answer(201, {"id": orders[key]})

    def do_GET(self):
        key = parse_qs(urlsplit(self.path).query)["reference"][0]
        self.answer(200, [{"id": orders[key]}] if key in orders else [])

    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Provider)
print(server.server_port, flush=True)
server.serve_forever()
PROVIDER

my $node = new_server('worker');

$node->safe_psql(
	'postgres', q{
	SET client_min_messages = warning;
	CREATE EXTENSION extaction CASCADE;
	CREATE ROLE shop_app;
	CREATE ROLE orderer LOGIN;
	SELECT extaction.create_scope('shop');
	SELECT extaction.grant_access('shop', 'shop_app', 'submitter'), extaction.grant_access('shop', 'orderer', 'worker');
	INSERT INTO extaction.actions (action, provider, operation, call_timeout, retry_delay)
	VALUES ('place_order', 'acme', 'POST /orders', '2 seconds', '0');
	INSERT INTO extaction.contracts
		(provider, operation, version, key_carrier, key_name, retention, on_expired, on_replay, on_mismatch, on_concurrent,
		 stores_failures, proves_not_happened, lookup, absence_is_proof, lookup_lag, late_arrival_bound)
	VALUES ('acme', 'POST /orders', 1, 'header', 'Idempotency-Key', '24 hours', 'executes', 'first_result', 'rejects', 'unknown',
		 'all', '{401,403,429}', 'by_own_id', false, '1 min', '10 min');
});

sub order
{
	my ($article) = @_;

	$node->safe_psql(
		'postgres', qq{
		SELECT extaction.approve_in_advance('shop', '$article', 'place_order', 'acme/main', '{"article": "$article"}');
		SET ROLE shop_app;
		SELECT extaction.submit('shop', '$article', 'place_order', 'acme/main', '{"article": "$article"}');
	});
	return;
}

# One round of the worker: what it prints, without reasons.
sub work
{
	my ($port) = @_;
	my $output = '';
	local %ENV = (%ENV, PGHOST => $node->host, PGPORT => $node->port, PGDATABASE => 'postgres', PGUSER => 'orderer');

	IPC::Run::run([ $python, $worker, "http://127.0.0.1:$port", '--once' ], '<', \undef, '>', \$output, '2>&1')
	  or diag($output);
	$output =~ s/ *(?:\(.*\))?$//gm;
	return $output;
}

my $printed = '';
my $provider = IPC::Run::start([ $python, "$dir/provider.py", "$dir/placed" ], '<', \undef, '>', \$printed, IPC::Run::timeout(180));

IPC::Run::pump($provider) until $printed =~ /^(\d+)\n/;
my $port = $1;

order('rubber');
is(work(1), "shop rubber attempt 1: not_happened, recorded, prepared\n", 'nobody there: it was never sent, and is prepared again');
is(work($port), "shop rubber attempt 2: happened, recorded, happened\n", 'and goes out');

order('pen');
is(work($port), "shop pen attempt 1: happened, recorded, happened\n", 'answered');

order('gold');
is(work($port), "shop gold attempt 1: not_happened, recorded, not_happened\n", 'refused');

order('ink');
is(work($port), "shop ink attempt 1: uncertain, recorded, uncertain\nshop ink attempt 1: found, recorded, happened\n",
	'hung up: uncertain, looked up and found');

order('paper');
is(work($port), "shop paper attempt 1: uncertain, recorded, uncertain\nshop paper attempt 1: found, recorded, happened\n",
	'too slow: the same');

order('chalk');
is(work($port), "shop chalk attempt 1: not_happened, recorded, prepared\n", 'busy: later');
$node->poll_query_until('postgres', 'SELECT due_at <= clock_timestamp() FROM extaction.worklist');
is(work($port), "shop chalk attempt 2: happened, recorded, happened\n", 'and goes out');

$node->safe_psql('postgres', q{UPDATE extaction.actions SET destination_pattern = '^other/'});
order('glue');
is(work($port), '', 'the catalogue does not allow it');
$node->safe_psql('postgres', 'UPDATE extaction.actions SET destination_pattern = NULL');
is(work($port), "shop glue attempt 1: happened, recorded, happened\n", 'it does now: the sweep lets it go on');

is(work($port), '', 'nothing is left to do');
is($node->safe_psql('postgres', 'SELECT count(*) FROM extaction.todo'), '0', 'and nobody waits');
is(disagreements($node, 'postgres'), '', 'verify() has nothing to say');

$provider->kill_kill;
is(join(' ', sort(split(/\n/, slurp_file("$dir/placed")))),
	'{"article":"chalk"} {"article":"glue"} {"article":"ink"} {"article":"paper"} {"article":"pen"} {"article":"rubber"}',
	'each was placed once, from the canonical text');

$node->stop;
done_testing();
