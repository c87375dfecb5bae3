# A provider outside the database: provider.pl SOCKET BOOK.
#
# It answers one line with one line.  What it did is in its book before it answers, appended and synced, so it knows after any end what
# it did before.  An operation "keyed" acts once under a key, however often it is asked, and says the first answer again; "plain" has
# no key: it acts as often as it is asked.  The caller says what fate the request meets:
#
#   send OPERATION KEY INTENT ATTEMPT DEADLINE FATE    ->  ok REFERENCE | 400 | (nothing: the answer is lost)
#       ok      it acts and says so                    refused   it does not act, and says that for good
#       lost    it acts, and the answer is lost        dropped   it never arrives
#   look OPERATION KEY INTENT                          ->  found REFERENCE | absent
#
# What arrives after DEADLINE (seconds) does not arrive: so much its contract promises, as late_arrival_bound.
#
# The book: a line for every request, operation, key, intent, attempt, fate, what came of it (effect, replay, nothing).
use strict;
use warnings FATAL => 'all';

use IO::Handle;
use IO::Socket::UNIX;
use Time::HiRes qw(time);

my ($path, $book) = @ARGV;
my %acted;		# by key or intent

open my $read, '<', $book or die "$book: $!" if -e $book;
if ($read)
{
	while (<$read>)
	{
		my ($operation, $key, $intent, undef, undef, $result) = /^(\S+) (\S+) (\S+) (\S+) (\S+) (\S+)$/ or next;
		$acted{ name($operation, $key, $intent) } = 1 if $result eq 'effect';
	}
	close $read;
}
open my $write, '>>', $book or die "$book: $!";
$write->autoflush(1);
unlink $path;
my $socket = IO::Socket::UNIX->new(Local => $path, Listen => 50) or die "$path: $!";
$SIG{PIPE} = 'IGNORE';

while (1)
{
	my $caller = $socket->accept or next;
	my $line = <$caller>;
	my ($verb, @words) = split ' ', $line // '';

	next unless defined $verb;
	my $answer = $verb eq 'send' ? send_it(@words) : look(@words);
	print $caller "$answer\n" if defined $answer;
	close $caller;
}

sub name
{
	my ($operation, $key, $intent) = @_;

	return $operation eq 'keyed' ? "key $key" : "intent $intent";
}

sub send_it
{
	my ($operation, $key, $intent, $attempt, $deadline, $fate) = @_;
	my $name = name($operation, $key, $intent);
	my $result =
		time > $deadline || $fate eq 'dropped' ? 'nothing'
	  : $operation eq 'keyed' && $acted{$name} ? 'replay'
	  : $fate eq 'refused' ? 'nothing'
	  : 'effect';

	print $write "$operation $key $intent $attempt $fate $result\n";
	$write->sync or die "$book: $!";
	$acted{$name} = 1 if $result eq 'effect';
	return "ok $intent" if $result ne 'nothing' && $fate ne 'lost';
	return '400' if $result eq 'nothing' && $fate eq 'refused' && time <= $deadline;
	return;
}

sub look
{
	my ($operation, $key, $intent) = @_;

	return $acted{ name($operation, $key, $intent) } ? "found $intent" : 'absent';
}
