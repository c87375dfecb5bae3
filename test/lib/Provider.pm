# The provider outside (provider.pl), started, asked, killed and read.
package Provider;

use strict;
use warnings FATAL => 'all';

use IO::Socket::UNIX;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(sleep);

sub new
{
	my ($class) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir_short();
	my $self = bless { path => "$dir/p", book => "$dir/book", owner => $$ }, $class;

	$self->start;
	return $self;
}

sub start
{
	my ($self) = @_;

	$self->{pid} = fork // die "fork: $!";
	if ($self->{pid} == 0)
	{
		open STDIN, '<', '/dev/null';
		exec $^X, 'test/lib/provider.pl', $self->{path}, $self->{book} or POSIX::_exit(1);
	}
	for (1 .. 1000)
	{
		return if IO::Socket::UNIX->new(Peer => $self->{path});
		sleep 0.05;
	}
	die 'the provider does not come up';
}

# In the middle of whatever it does.
sub kill9
{
	my ($self) = @_;

	kill 'KILL', $self->{pid};
	waitpid $self->{pid}, 0;
	return;
}

# Its answer; undef if there is none.
sub call
{
	my ($self, @words) = @_;
	my $socket = IO::Socket::UNIX->new(Peer => $self->{path}) or return;
	local $SIG{PIPE} = 'IGNORE';
	my $answer;

	print $socket "@words\n" or return;
	$socket->flush;
	$answer = <$socket>;
	chomp $answer if defined $answer;
	return $answer;
}

# What it has done: for each intent requests and effects, which keys it saw, how often each attempt came, and which
# of them acted.
sub book
{
	my ($self) = @_;
	my %book;

	open my $read, '<', $self->{book} or return {};
	while (<$read>)
	{
		my ($operation, $key, $intent, $attempt, $fate, $result) = /^(\S+) (\S+) (\S+) (\S+) (\S+) (\S+)$/ or next;
		my $of = $book{$intent} //= { requests => 0, effects => 0, keys => {}, attempts => {}, acted => {} };

		$of->{requests}++;
		$of->{effects}++ if $result eq 'effect';
		$of->{acted}{$attempt} = 1 if $result eq 'effect';
		$of->{keys}{$key} = 1;
		$of->{attempts}{$attempt}++;
	}
	close $read;
	return \%book;
}

sub DESTROY
{
	my ($self) = @_;

	local $?;
	$self->kill9 if $$ == $self->{owner};
	return;
}

1;
