# doc/reference.md against the catalog of an installed extension: nothing is missing, nothing is invented, and signatures, callers, columns, gates,
# settings and SQLSTATEs are as they are.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use ExtactionTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = "$FindBin::RealBin/../..";
my $page = slurp_file("$top/doc/reference.md");
my (undef, %chapter) = split(/^## (.*)\n/m, $page);
my $node = new_server('reference');

$node->safe_psql(
	'postgres', q{
	SET client_min_messages = warning;
	CREATE EXTENSION extaction CASCADE;
	CREATE VIEW member AS
		SELECT e.objid, e.classid FROM pg_depend e
		WHERE e.deptype = 'e' AND e.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'extaction');
	SELECT extaction.create_scope('shop');
	DO $$
	DECLARE
		capability text;
	BEGIN
		FOREACH capability IN ARRAY ARRAY['submitter', 'approver', 'worker', 'auditor', 'owner'] LOOP
			EXECUTE format('CREATE ROLE %I', capability || '_only');
			PERFORM extaction.grant_access('shop', capability || '_only', capability);
		END LOOP;
	END $$;
});

# The page's entries: heading, then the indented lines below it, as one line.
sub entries
{
	my (@chapters) = @_;
	my %entry;

	for my $text (map { $chapter{$_} // die("no chapter $_") } @chapters)
	{
		while ($text =~ /^###+ (\w+)\n\n((?:    .*\n)+)(?:\nWho: (.*)\.\n)?/gm)
		{
			my ($name, $lines, $who) = ($1, $2, $3);

			$lines =~ s/\s+/ /g;
			$lines =~ s/^ | $//g;
			$entry{$name} = defined($who) ? "$lines -- $who" : $lines;
		}
	}
	return \%entry;
}

# The rows of the page's tables in a chapter: the cells, joined by "|".
sub rows
{
	my ($name) = @_;
	my @rows = $chapter{$name} =~ /^\| (.*) \|$/gm;

	shift @rows;
	return map { join('|', split(/ \| /)) } @rows;
}

# Two columns of a query as a hash.
sub catalog
{
	my ($sql) = @_;

	return { map { split(/\|/, $_, 2) } split(/\n/, $node->safe_psql('postgres', $sql)) };
}

my $spelling = q{regexp_replace(replace(replace(%s, 'timestamp with time zone', 'timestamptz'), 'extaction.', ''),
	'::(text\[\]|\w+)(?=[,)\s]|$)', '', 'g')};
my $signature = sprintf($spelling, q{p.proname || '(' || pg_get_function_arguments(p.oid) || ') returns ' || pg_get_function_result(p.oid)});

is_deeply(
	entries('Asking', 'Deciding', 'Going out and coming back', 'Waking', 'Scopes and access', 'Looking after the ledger'),
	catalog(qq{
		SELECT p.proname, $signature || ' -- ' || CASE w.who
			WHEN '' THEN 'the extension''s owner'
			WHEN 'submitter, approver, worker, auditor, owner' THEN 'every member'
			ELSE w.who END
		FROM pg_proc p JOIN member m ON m.objid = p.oid AND m.classid = 'pg_proc'::regclass
		CROSS JOIN LATERAL (
			SELECT array_to_string(array(
				SELECT c FROM unnest('{submitter,approver,worker,auditor,owner}'::text[]) WITH ORDINALITY u (c, n)
				WHERE has_function_privilege(c || '_only', p.oid, 'EXECUTE') ORDER BY n), ', ') AS who) w}),
	'functions: signatures, and who may call them');

for my $kind ([ 'Types', 'c' ], [ 'Views', 'v' ], [ 'Tables', 'r' ])
{
	my ($name, $relkind) = @$kind;

	is_deeply(
		entries($name),
		catalog(qq{
			SELECT c.relname, string_agg(a.attname, ', ' ORDER BY a.attnum)
			FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
			WHERE c.relkind = '$relkind' AND c.relnamespace = 'extaction'::regnamespace
			GROUP BY 1}),
		"$name, and their columns");
}

is( join(' ', sort($chapter{Sequences} =~ /`(\w+)`/g)),
	$node->safe_psql('postgres',
		q{SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_class WHERE relkind = 'S' AND relnamespace = 'extaction'::regnamespace}),
	'sequences');

is( join("\n", map { (split(/\|/))[ 0, 1, 2 ] } rows('Settings')),
	$node->safe_psql(
		'postgres', q{
		LOAD 'extaction';
		SELECT concat_ws(E'\n', '`' || name || '`', CASE boot_val WHEN '' THEN '''''' ELSE current_setting(name) END,
			CASE context WHEN 'user' THEN 'anybody' ELSE context END)
		FROM pg_settings WHERE name LIKE 'extaction.%' ORDER BY name}),
	'settings, their defaults, and who may set them');

is(join("\n", rows('Gates')), $node->safe_psql('postgres', 'SELECT gate, meaning, who_can_fix FROM extaction.gates ORDER BY position'), 'gates');

# Every table of the catalogue that a DBA edits is explained column by column.
is( join("\n", map { split(/, /, (split(/\|/))[0]) } rows('Tables')),
	$node->safe_psql('postgres', q{
		SELECT attname FROM pg_attribute WHERE attrelid = 'extaction.actions'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum}),
	'the columns of actions');

# The SQLSTATEs that the source raises, by PostgreSQL's own list.
my $sharedir = $node->config_data('--sharedir');
my %code = map { /^(\w{5})\s+[EWS]\s+ERRCODE_(\w+)/ ? ($2 => $1) : () } split(/\n/, slurp_file("$sharedir/errcodes.txt"));
my $documented = join(' ', map { (split(/\|/))[0] } rows('SQLSTATEs'));
my %raised;

for my $file (glob("$top/src/*.c"))
{
	$raised{ $code{$_} // die("unknown ERRCODE_$_ in $file") } = 1 for slurp_file($file) =~ /\bERRCODE_(\w+)/g;
}
is(join(' ', grep { $documented !~ /\b$_\b/ } sort(keys(%raised))), '', 'every SQLSTATE of the source is on the page');

# The words of the catalogue of events.
my %kind = map { $_ => 1 } $page =~ /### Kinds of events\n\n(.*?)\n\n/s ? $1 =~ /\b([a-z_]+)(?= \(|[,.]|$)/gm : ();

is($node->safe_psql('postgres', 'SELECT count(*) FROM extaction.verify()'), '0', 'verify() has nothing to say');
ok($kind{$_}, "event kind $_ is on the page") for event_kinds();

# What the source appends to events: the words beside ledger_append(), and in its SQL.
sub event_kinds
{
	my %found;

	for my $file (glob("$top/src/*.c"))
	{
		my $text = slurp_file($file);

		$found{$_} = 1 for $text =~ /ledger_append\([^;"{]*"(\w+)"[^;]*;/g;
	}
	return sort(keys(%found));
}

$node->stop;
done_testing();
