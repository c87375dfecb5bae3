# A psql that runs beside the test: statements are told, and answered when they are done, or never, because the server has gone.
# Works in processes that the test has forked, where IPC::Run does not.
package Session;

use strict;
use warnings FATAL => 'all';

use IO::Select;
use IPC::Open3;
use PostgreSQL::Test::Utils;

# Options: database, and before, statements to begin with (settings).
sub new
{
	my ($class, $node, %opt) = @_;
	my $self = bless { said => '', lost => 0, told => 0 }, $class;

	$self->{psql} = open3($self->{in}, $self->{out}, undef,
		$node->installed_command('psql'), '-XAtq', '-v', 'VERBOSITY=verbose', '-d', $node->connstr($opt{database} // 'postgres'), '-f', '-');
	$self->{select} = IO::Select->new($self->{out});
	($self->{pid}) = $self->ask("SELECT pg_backend_pid(); $opt{before}") =~ /^(\d+)/ if defined $opt{before};
	($self->{pid}) = $self->ask('SELECT pg_backend_pid()') =~ /^(\d+)/ if !defined $opt{before};
	return $self;
}

# Begins statements and does not wait.
sub tell
{
	my ($self, $sql) = @_;
	local $SIG{PIPE} = 'IGNORE';

	return if $self->{lost};
	$self->{told}++;
	$self->{lost} = 1 unless syswrite $self->{in}, "$sql;\n\\echo done $self->{told}\n";
	return;
}

# What they answered, messages among it; undef if the connection is lost.
sub answer
{
	my ($self) = @_;
	my $until = time + $PostgreSQL::Test::Utils::timeout_default;

	while (!$self->{lost})
	{
		return $self->{said} =~ s/\A(.*?)^done $self->{told}\n//ms ? $1 =~ s/\n\z//r : die if $self->{said} =~ /^done $self->{told}\n/m;
		die "no answer in time to a statement; so far: $self->{said}\n" if time > $until;
		next unless $self->{select}->can_read(1);
		$self->{lost} = 1 unless sysread $self->{out}, $self->{said}, 65536, length $self->{said};
	}
	return;
}

sub ask
{
	my ($self, $sql) = @_;

	$self->tell($sql);
	return $self->answer // '';
}

sub lost { return $_[0]{lost}; }

sub backend { return $_[0]{pid}; }

# Ends it, however it is.
sub end
{
	my ($self) = @_;

	close $self->{in};
	close $self->{out};
	kill 'KILL', $self->{psql};
	waitpid $self->{psql}, 0;
	return;
}

1;
