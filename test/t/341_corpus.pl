# The corpus of the fuzzer (make fuzz), in a real server: no internal error, and what was taken has the properties of the canonical form.  With
# node on the machine, a JavaScript engine says what the canonical texts should be, also of random numbers (EXTACTION_FUZZ_NUMBERS of them).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use ExtactionTest;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my $fuzz = "$FindBin::RealBin/../fuzz";
my $node = new_server('corpus');

$node->safe_psql('postgres', slurp_file("$fuzz/corpus.sql"));
$node->safe_psql('postgres', "CALL load('$fuzz/corpus')");
$node->safe_psql('postgres', 'UPDATE corpus SET said = broken(kind, content)');

is($node->safe_psql('postgres', q{SELECT name, kind, said FROM corpus WHERE said !~ '^(taken|nothing|[0-9A-Z]{5})$' ORDER BY 1}),
	'', 'all inputs do what they should');
is($node->safe_psql('postgres', q{SELECT string_agg(DISTINCT kind, '' ORDER BY kind) FROM corpus WHERE said = 'taken'}),
	'achjnpt', 'some of every kind are good ones')
  or diag($node->safe_psql('postgres', 'SELECT kind, said, count(*) FROM corpus GROUP BY 1, 2 ORDER BY 1, 2'));
is(disagreements($node, 'postgres'), '', 'the ledger verifies');

my $engine = eval { IPC::Run::run([ 'node', '--version' ], '>', \my $version, '2>&1') };

# What a JavaScript program says to the input.
sub node_says
{
	my ($program, $input, @arguments) = @_;
	my $output = '';

	IPC::Run::run([ 'node', "$fuzz/$program", @arguments ], '<', \$input, '>', \$output, '2>&1') or die $output;
	return $output;
}

SKIP:
{
	skip('node is not installed', 3) if !$engine;

	my $texts = $node->safe_psql('postgres', q{
		SELECT encode(convert_to(content, 'UTF8'), 'hex') || E'\t' || encode(convert_to(extaction.canonical(content::jsonb), 'UTF8'), 'hex')
		FROM corpus WHERE kind = 'j' AND said = 'taken'});

	cmp_ok(scalar(() = $texts =~ /\n/g), '>', 10, 'there are documents');
	is(node_says('jcs.mjs', $texts . "\n"), '', 'they have the canonical texts that JavaScript gives them');

	my $seed = seed();
	my $file = "$PostgreSQL::Test::Utils::tmp_check/numbers";

	append_to_file($file, node_says('numbers.mjs', '', $ENV{EXTACTION_FUZZ_NUMBERS} || 20_000, $seed));
	is( $node->safe_psql(
			'postgres', qq{
		CREATE TABLE numbers (number text, canonical text);
		COPY numbers FROM '$file' (NULL '');
		CREATE FUNCTION form(number text) RETURNS text LANGUAGE plpgsql AS \$\$
		BEGIN
			RETURN extaction.canonical(number::jsonb);
		EXCEPTION WHEN invalid_parameter_value THEN
			RETURN NULL;
		END \$\$;
		SELECT number, canonical, form(number) FROM numbers WHERE form(number) IS DISTINCT FROM canonical LIMIT 20}),
		'', "seed $seed: numbers are written, or refused, as JavaScript would");
}

done_testing();
