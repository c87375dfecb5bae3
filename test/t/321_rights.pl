# Every function and every view is called by every kind of role, in its own scope, in another's, and in one that does not exist; what comes of
# it is what test/data/rights.txt says, and the last two cannot be told apart.  Twice: every role logged in for itself, and all of them one
# after the other in one session, whose kept plans each finds as the last one left them.

use strict;
use warnings FATAL => 'all';

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use lib dirname(abs_path(__FILE__)) . '/../lib';

use JSON::PP;
use Tenants;
use Test::More;

my $json = JSON::PP->new->canonical;
my $node = new_server('rights');

make_tenants($node);

# The roles, some of whom hold something; then the scopes as others have left them.
my @capabilities = qw(submitter approver worker auditor owner);
my %letters = (submitter => 'sub', approver => 'app', worker => 'wrk', auditor => 'aud', owner => 'own');
add_member($node, $letters{$_}, "home:$_") foreach @capabilities;
add_member($node, "$letters{$_}+", "home:$_", 'yard:owner') foreach @capabilities[ 0 .. 3 ];
add_member($node, 'web', 'home:submitter:people', 'home:approver:people');
add_member($node, 'bare');
add_member($node, 'dba');
add_member($node, 'foreigner', 'away:owner');
add_member($node, 'team', 'home:submitter');
add_member($node, 'renamed', 'home:owner');
add_member($node, 'namesake', 'home:owner');
$node->safe_psql(
	'postgres', q{
	ALTER ROLE dba SUPERUSER;
	CREATE ROLE kin LOGIN IN ROLE team;
	CREATE ROLE noinherit LOGIN NOINHERIT IN ROLE team;
	CREATE ROLE switched LOGIN NOINHERIT IN ROLE team;
	CREATE ROLE nobody LOGIN;
	CREATE ROLE former LOGIN;
	SELECT extaction.grant_access('home', 'former', 'owner');
	SELECT extaction.revoke_access('home', 'former', 'owner');
	DROP OWNED BY namesake;
	DROP ROLE namesake;
	CREATE ROLE namesake LOGIN;
	ALTER ROLE renamed RENAME TO "renamed since";
	GRANT USAGE ON SCHEMA extaction TO bare, "renamed since", namesake;
	GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA extaction TO bare, "renamed since", namesake;
	DO $$
	DECLARE
		v regclass;
	BEGIN
		FOR v IN SELECT c.oid FROM pg_class c WHERE c.relnamespace = 'extaction'::regnamespace AND c.relkind = 'v' LOOP
			EXECUTE format('GRANT SELECT ON %s TO bare, "renamed since", namesake', v);
		END LOOP;
	END $$;
});

$node->safe_psql('postgres', "CALL lab.furnish('$_')") foreach qw(home away yard);

my @columns = qw(sub app wrk aud own sub+ app+ wrk+ aud+ web bare dba);
# Of whom the same is expected as of another.  "outsider" is no column: x everywhere.
my %same = (
	'foreigner' => 'own', 'kin' => 'sub', 'switched' => 'sub', 'renamed since' => 'bare', 'namesake' => 'bare',
	'nobody' => 'outsider', 'noinherit' => 'outsider', 'former' => 'outsider');
my @roles = (@columns, sort keys %same);
my %own = (foreigner => ['away']);
$own{"$_+"} = [ 'home', 'yard' ] foreach qw(sub app wrk aud);
$own{dba} = [ 'home', 'away', 'yard' ];
$own{$_} //= ['home'] foreach @roles;

#
# The data file, and whether it names everything
#

my @lines = read_rights(dirname(abs_path(__FILE__)) . '/../data/rights.txt');

sub read_rights
{
	my ($file) = @_;
	my @found;

	open my $handle, '<', $file or die "$file: $!";
	while (<$handle>)
	{
		chomp;
		next if /^#/ || /^\s*$/;
		if (/^\s+sub /)
		{
			is(join(' ', (split)[ 0 .. $#columns ]), join(' ', @columns), 'the columns are those that the test knows');
			next;
		}
		my $kind = s/^(view|trigger) // ? $1 : 'function';
		my ($name, @cells) = split ' ', $_, @columns + 2;
		my $arguments = @cells > @columns ? pop @cells : '';
		my %cell;

		@cell{@columns} = @cells;
		push @found, { kind => $kind, name => $name, cell => \%cell, arguments => $arguments, 
			scoped => scalar($arguments =~ /\{(scope|ticket)\}/) };
		if (grep { !/^[roaegdx!]$/ && !($found[-1]{scoped} && /^[roaegdx!]{2}$/) } @cells, ('') x (@columns - @cells))
		{
			fail("$name: a cell for every role");
		}
	}
	return @found;
}

is(rows($node, q{
	SELECT string_agg(o.kind || ' ' || o.name, ', ' ORDER BY o.kind, o.name)
	FROM (SELECT CASE WHEN c.oid IS NOT NULL THEN 'view' WHEN p.prorettype = 'trigger'::regtype THEN 'trigger' ELSE 'function' END AS kind, coalesce(p.proname, c.relname)::text AS name
	      FROM pg_depend d
	      LEFT JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
	      LEFT JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid AND c.relkind IN ('v', 'm')
	      WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND coalesce(p.oid, c.oid) IS NOT NULL
	        AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'extaction')) o}),
	join(', ', uniq(sort map { "$_->{kind} $_->{name}" } @lines)),
	'the data file names every function and view of the extension, and no other');

sub uniq
{
	my %seen;
	return grep { !$seen{$_}++ } @_;
}

#
# What a role calls, and what came of it
#

my %digest = map { split /\|/ } split ' ', rows($node, "SELECT scope, encode(request_digest, 'hex') FROM extaction.waiting WHERE id = 'waits'");
my %ticket = map { my ($scope, $role, $id) = split /\|/; ("$scope $role" => $id) } split /\n/,
	$node->safe_psql('postgres', 'SELECT * FROM lab.tickets');

# The statement, in a scope.  A claim of the role's own, if it has one there; else that of the worker or of the foreigner.
sub statement
{
	my ($line, $role, $scope) = @_;
	my $holder = $ticket{"$scope $role"} ? $role : $scope eq 'home' ? 'wrk' : 'foreigner';
	my %value = (
		scope => $scope, me => $role, out => "out-$holder",
		digest => $digest{$scope} // 'f' x 64,
		ticket => $ticket{"$scope $holder"} // 4711);
	my $arguments = $line->{arguments} =~ s/\{(\w+)\}/$value{$1}/gr;

	return "SELECT * FROM extaction.$line->{name}" if $line->{kind} eq 'view';
	return ($line->{kind} eq 'trigger' ? 'SELECT' : 'SELECT * FROM') . " extaction.$line->{name}($arguments)";
}

# The calls of a line: where, and the statement.
sub calls
{
	my ($line, $role) = @_;
	my $foreign = $own{$role}[0] eq 'home' ? 'away' : 'home';

	return { place => 'own', sql => statement($line, $role, $own{$role}[0]) } unless $line->{scoped};
	return map { { place => $_->[0], sql => statement($line, $role, $_->[1]) } }[ 'own', $own{$role}[0] ], [ 'foreign', $foreign ], [ 'nowhere', 'none' ];
}

# The letter for an answer.
sub letter
{
	my ($line, $role, $answer) = @_;
	my %mine = map { $_ => 1 } @{ $own{$role} };

	if (ref $answer eq 'HASH')
	{
		return $answer->{state} ne '42501' ? '!' : $answer->{constraint} eq 'scope_denied' ? 'd' : 'x';
	}
	my @rows = grep { grep { defined && $_ ne '0' } values %$_ } @$answer;

	return 'e' unless @rows;
	return 'g' if grep { ($_->{status} // '') eq 'blocked' && $_->{gate} eq 'scope_denied' } @rows;
	return 'a' if grep { !$mine{ $_->{scope} // $own{$role}[0] } } @rows;
	return $line->{kind} eq 'view' && (grep { exists $_->{scope} } @rows) ? 'o' : 'r';
}

# Judges one line for one role: %$answers by place.
sub judge
{
	my ($line, $role, $answers) = @_;
	my $column = $same{$role} // $role;
	my $expected = $column eq 'outsider' ? 'x' x ($line->{scoped} ? 2 : 1) : $line->{cell}{$column};
	my $got = letter($line, $role, $answers->{own}) . ($line->{scoped} ? letter($line, $role, $answers->{foreign}) : '');
	my @faults;

	push @faults, "is $got, should be $expected: " . $json->encode($answers) if $got ne $expected;
	if ($column ne 'dba' && $line->{name} !~ /^folded_/)
	{
		# what is said of a foreign scope is what the caller has said himself; nothing else of it comes out anywhere
		foreach my $place (keys %$answers)
		{
			my ($secret) = grep { my $scope = $_; !grep { $_ eq $scope } @{ $own{$role} } } $json->encode($answers->{$place}) =~ /secret of (\w+)/g;
			push @faults, "$place: tells the secret of $secret" if defined $secret;
		}
		my ($foreign, $nowhere) = map { looks($answers->{$_}) } 'foreign', 'nowhere';
		push @faults, "a foreign scope looks like $foreign, and one that is not there like $nowhere" if $foreign ne $nowhere;
	}
	return @faults;
}

# An answer without what differs between two scopes by its nature: their names, digests of what was asked, numbers of tickets, the time.
sub looks
{
	my ($answer) = @_;

	return '' unless defined $answer;
	my $text = $json->encode($answer);
	$text =~ s/\b(home|away|none)\b/SCOPE/g;
	$text =~ s/\b[0-9a-f]{64}\b/DIGEST/g;
	$text =~ s/"\d{4}-\d\d-\d\dT[^"]*"/TIME/g;
	$text =~ s/\(\d+(,[^)]*)?\)/(TICKET)/g;
	$text =~ s/\bout-\w+/out/g;
	return $text;
}

# What others' scopes are: every row that bears the scope's name.
sub scope_is
{
	my ($scope) = @_;

	return rows($node, q{
		SELECT string_agg(format('%s: %s', c.relname, query_to_xml(format('SELECT count(*), md5(string_agg(t::text, '','' ORDER BY t::text)) FROM %s t WHERE scope = %L',
			c.oid::regclass, '} . $scope . q{'), true, false, '')::text), ' ' ORDER BY c.relname)
		FROM pg_class c WHERE c.relnamespace = 'extaction'::regnamespace AND c.relkind = 'r'
		  AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'scope')});
}

sub quoted { return q{$call$} . $_[0] . q{$call$}; }

#
# Every role for itself
#

foreach my $role (@roles)
{
	my $foreign = $own{$role}[0] eq 'home' ? 'away' : 'home';
	my $before = scope_is($foreign);
	my @calls = map { my $line = $_; map { { %$_, line => $line } } calls($line, $role) } @lines;
	# what is done in one's own scope is undone; in a foreign one there should be nothing to undo, but for the superuser
	my $sql = join '', map { 'SELECT lab.try(' . quoted($_->{sql}) . ', ' . ($_->{place} eq 'own' || $role eq 'dba' ? 'true' : 'false') . ");\n" } @calls;
	my @answers = run_as($node, $role, ($role eq 'switched' ? "SET ROLE team;\n" : '') . $sql,
		settings => $role eq 'web' ? '-c extaction.actor=anna' : '');
	my @faults;

	is(scalar @answers, scalar @calls, "$role: an answer to each of " . @calls . ' calls');
	$calls[$_]{line}{answers}{$role}{ $calls[$_]{place} } = $json->decode($answers[$_]) foreach 0 .. $#answers;
	foreach my $line (@lines)
	{
		push @faults, map { "$line->{name}($line->{arguments}) $_" } judge($line, $role, $line->{answers}{$role});
	}
	is(join("\n", @faults), '', "$role: everything is as the data file says, and nothing leaks");
	is(scope_is($foreign), $before, "$role has left nothing in the foreign scope");
}

#
# All roles in one session, call by call: plans are kept, and every cache is warm with what the last one saw
#

my $sql = '';
my @order;
foreach my $line (@lines)
{
	foreach my $role (@roles)
	{
		$sql .= qq{SET SESSION AUTHORIZATION "$role";\n};
		$sql .= "SET ROLE team;\n" if $role eq 'switched';
		$sql .= q{SET extaction.actor = '} . ($role eq 'web' ? 'anna' : '') . "';\n";
		foreach my $call (grep { $_->{place} ne 'nowhere' } calls($line, $role))
		{
			$sql .= 'SELECT lab.try(' . quoted($call->{sql}) . ", true);\n";
			push @order, [ $line, $role, $call->{place} ];
		}
		$sql .= "RESET SESSION AUTHORIZATION;\n";
	}
}
my @answers = run_as($node, 'postgres', "LOAD 'extaction';\n$sql");
is(scalar @answers, scalar @order, 'one session for all: an answer to each of ' . @order . ' calls');
my @other;
foreach (0 .. $#answers)
{
	my ($line, $role, $place) = @{ $order[$_] };
	my ($alone, $together) = map { letter($line, $role, $_) } $line->{answers}{$role}{$place}, $json->decode($answers[$_]);

	push @other, "$role, $line->{name} $place: $together, alone $alone: $answers[$_]" if $alone ne $together;
}
is(join("\n", @other), '', 'and each gets what it got in a session of its own');

#
# Tables, sequences and the schema are nobody's
#

foreach my $role (grep { $_ ne 'dba' } @roles)
{
	is(join(' ', run_as($node, $role, q{
		SELECT string_agg(DISTINCT lab.try(format('TABLE extaction.%I', relname), true) ->> 'state', ' '),
		       count(*) FILTER (WHERE CASE relkind
		           WHEN 'S' THEN has_sequence_privilege(oid, 'USAGE, SELECT, UPDATE')
		           ELSE has_table_privilege(oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')
		             OR has_any_column_privilege(oid, 'SELECT, INSERT, UPDATE, REFERENCES') END),
		       has_schema_privilege('extaction', 'CREATE')
		FROM pg_class WHERE relnamespace = 'extaction'::regnamespace AND relkind IN ('r', 'S')})),
		'42501|0|f', "$role: no table and no sequence is open, and it makes nothing in the schema");
}

$node->stop;
done_testing();
