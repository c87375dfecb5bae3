# A campaign of 2,000 letters to a real mail server, over a network that breaks, by workers that are killed: the demo, smaller.
# What counts is what lies in the mailboxes.

use strict;
use warnings FATAL => 'all';

use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $letters = 2000;

my $missing = `demo/campaign/run --missing 2>&1`;
plan skip_all => "the demo can't run here: $missing" if $? != 0;

my $node = PostgreSQL::Test::Cluster->new('campaign');
$node->init;
$node->start;

my $file = PostgreSQL::Test::Utils::tempdir() . '/figures.json';
{
	local $ENV{PGHOST} = $node->host;
	local $ENV{PGPORT} = $node->port;
	local $ENV{PGDATABASE} = 'postgres';
	delete local $ENV{PGUSER};
	my $story = `demo/campaign/run $letters --figures $file 2>&1`;
	is($?, 0, 'the campaign comes to its end, with one letter for everyone') or diag($story);
	note($story);
}
my $figures = -e $file ? decode_json(slurp_file($file)) : {};
my $is = sub { my ($figure, $value, $name) = @_; is($figures->{$figure}, $value, $name) };

# things did go wrong
cmp_ok($figures->{cuts} // 0, '>', 0, 'connections were cut');
is($figures->{workers_killed}, 5, 'workers were killed');
cmp_ok($figures->{found} // 0, '>', 0, 'some uncertain letters had arrived');
cmp_ok($figures->{absent} // 0, '>', 0, 'some had not');
cmp_ok(($figures->{found} // 0) + ($figures->{absent} // 0), '>=', $figures->{uncertain} // 9**9, 'each uncertain letter was looked for');

# and yet
$is->('in_mailboxes', $letters, 'as many letters in the mailboxes as members');
$is->('exactly_one', $letters, 'every member has exactly one');
$is->('missing', 0, 'none has none');
$is->('doubles', 0, 'none has two');
$is->('wrong', 0, 'every letter is in the right mailbox, under its own key');
$is->('happened', $letters, 'the ledger agrees');
$is->('disagreements', 0, 'verify finds no fault');

$node->stop;
done_testing();
