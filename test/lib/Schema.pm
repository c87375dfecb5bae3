# The extension's objects, as pg_dump sees them when it may not say just CREATE EXTENSION: columns, defaults, checks, indexes,
# triggers, function bodies, comments, privileges.  Whatever kind of object comes to exist, pg_dump knows it, because pg_upgrade
# rests on that.

package Schema;

use strict;
use warnings;

use Exporter 'import';
use IPC::Run;
use PostgreSQL::Test::Utils;

our @EXPORT = qw(schema_of differences);

# Every object of a database in which there is nothing else, sorted: their order says only what was made first.
sub schema_of
{
	my ($node, $database) = @_;
	my ($dump, $stderr);

	IPC::Run::run([ $node->installed_command('pg_dump'), '--schema-only', '--binary-upgrade', '-d', $node->connstr($database) ],
		'>', \$dump, '2>', \$stderr) or die("pg_dump: $stderr");

	# without the numbers that only this database knows, and what differs each time
	$dump =~ s/^UPDATE pg_catalog\.\w+\nSET \w+frozenxid = .*\nWHERE .*;\n//mg;
	$dump =~ s/^(SELECT pg_catalog\.binary_upgrade_\w+\(.*?\);|-- For binary upgrade.*|\\(un)?restrict .*)\n//mg;
	(undef, my @pieces) = split /^--\n-- (Name: .*)\n--\n/m, $dump;
	my @objects;
	while (my ($name, $definition) = splice(@pieces, 0, 2))
	{
		push @objects, "$name\n" . ($definition =~ s/\s+\z//r) =~ s/\n\n+/\n/gr;
	}
	@objects = sort @objects;

	# and what pg_dump only knows by number: the marks for dump, and the version
	my $marks = $node->safe_psql(
		$database, q{
		SELECT 'dump ' || m.which::regclass || ' ' || m.condition
		FROM pg_extension e, unnest(e.extconfig, e.extcondition) m (which, condition)
		WHERE e.extname = 'extaction'
		UNION ALL SELECT 'version ' || extversion FROM pg_extension WHERE extname = 'extaction' ORDER BY 1});
	# the privileges that pg_dump takes for granted, as the extension came with them
	my $granted = $node->safe_psql(
		$database, q{
		SELECT 'initially ' || pg_describe_object(i.classoid, i.objoid, i.objsubid) || ': '
		       || (SELECT string_agg(a::text, ', ' ORDER BY a::text COLLATE "C") FROM unnest(i.initprivs) a)
		FROM pg_init_privs i JOIN pg_depend d ON d.classid = i.classoid AND d.objid = i.objoid AND d.deptype = 'e'
		JOIN pg_extension e ON e.oid = d.refobjid AND d.refclassid = 'pg_extension'::regclass AND e.extname = 'extaction'
		ORDER BY 1});
	return [ @objects, split(/\n/, "$marks\n$granted") ];
}

# What is in one schema and not in the other.
sub differences
{
	my ($one, $other) = @_;
	my %one = map { $_ => 1 } @$one;
	my %other = map { $_ => 1 } @$other;

	return join("\n", (map { "- $_" } grep { !$other{$_} } @$one), (map { "+ $_" } grep { !$one{$_} } @$other));
}

1;
