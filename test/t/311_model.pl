# The protocol as a model, explored exhaustively: with all the rules nothing breaks, and with any one of them taken out there is a trace
# again (test/model/README.md).  "make model" explores more.
use strict;
use warnings FATAL => 'all';

use FindBin;
use Test::More;

plan skip_all => 'spin is not installed' if !grep { -x "$_/spin" } split /:/, $ENV{PATH};

open my $run, '-|', "$FindBin::RealBin/../model/run", '-q' or die "run: $!";
while (my $line = <$run>)
{
	chomp $line;
	if ($line =~ /^(ok|FAILED)\s+(\S.*)/) { ok($1 eq 'ok', $2) }
	else { diag($line) if $line =~ /^\s/; note($line) if $line !~ /^\s/ }
}
ok(close $run, 'every configuration does what it should');
done_testing();
