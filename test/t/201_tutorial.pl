# The tutorial, as a reader runs it: every ```sql block of doc/tutorial.md in one psql session, in order, and below each the output that the
# page shows.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use ExtactionTest;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

# The page's blocks: the SQL, and the output shown right after it ('' if none is).
sub read_page
{
	my @blocks;
	my $page = slurp_file("$FindBin::RealBin/../../doc/tutorial.md");

	while ($page =~ /^```sql\n(.*?)^```\n(?:\n^```\n(.*?)^```\n)?/gms)
	{
		push @blocks, { sql => $1, shown => tidy($2 // ''), line => 1 + (substr($page, 0, $-[0]) =~ tr/\n//) };
	}
	return @blocks;
}

# Without spaces at line ends and empty lines at the ends, which nobody sees.
sub tidy
{
	my ($text) = @_;

	$text =~ s/[ \t]+$//gm;
	$text =~ s/\A\n+//;
	$text =~ s/\n+\z//;
	return $text;
}

my $node = new_server('tutorial');
my @blocks = read_page();
my $input = '';
my $output = '';

cmp_ok(scalar(@blocks), '>', 20, 'the page has its blocks');
$input .= "\\echo \@\@$_\@\@\n$blocks[$_]{sql}" for 0 .. $#blocks;
IPC::Run::run([ $node->installed_command('psql'), '-X', '-d', $node->connstr('postgres') ], '<', \$input, '>', \$output, '2>&1');

my (undef, %printed) = split(/^\@\@(\d+)\@\@\n/m, $output);

is(tidy($printed{$_} // 'nothing: psql did not come so far'), $blocks[$_]{shown}, "line $blocks[$_]{line}: what comes out is what the page shows")
  for 0 .. $#blocks;

$node->stop;
done_testing();
