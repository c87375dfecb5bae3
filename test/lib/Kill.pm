# Ways to end a server without asking it.
package Kill;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use IPC::Run;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(sleep);

our @EXPORT = qw(kill_server kill_for_good wait_until_up backends);

# "backend": kill -9 of one process, and the server starts again by itself (restart_after_crash); "immediate": pg_ctl's way;
# "server": kill -9 of them all.  Afterwards it is up again.
sub kill_server
{
	my ($node, $how, $backend) = @_;

	if ($how eq 'backend')
	{
		my @all = children($node->{_pid});

		kill 'KILL', $backend;
		# until all the others have gone, too, the server has not noticed
		wait_for_end(@all);
		wait_until_up($node);
		return;
	}
	if ($how eq 'immediate')
	{
		$node->stop('immediate');
	}
	else
	{
		kill_for_good($node);
	}
	$node->start;
	return;
}

# Until it takes connections again.  Not by poll_query_until: that writes the query to a psql that may be gone already, having found
# no server, and dies of the broken pipe.
sub wait_until_up
{
	my ($node, $database) = @_;
	my @psql = ($node->installed_command('psql'), '-XAtq', '-d', $node->connstr($database // 'postgres'), '-c', 'SELECT 1');
	my ($out, $err);

	foreach (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return if IPC::Run::run(\@psql, '<', \undef, '>', \$out, '2>', \$err);
		sleep 0.1;
	}
	die 'the server did not come back';
}

# All its processes, and it stays down.
sub kill_for_good
{
	my ($node) = @_;
	my @all = ($node->{_pid}, children($node->{_pid}));

	$node->kill9;
	kill 'KILL', @all;
	# the last of the dead lets go of the shared memory
	wait_for_end(@all);
	return;
}

sub wait_for_end
{
	my $until = time + $PostgreSQL::Test::Utils::timeout_default;

	sleep 0.02 while time < $until && grep { -e "/proc/$_" } @_;
	return;
}

# The server's processes that serve a client of the database.
sub backends
{
	my ($node, $database) = @_;

	return grep { slurp("/proc/$_/cmdline") =~ /\b$database\b/ } children($node->{_pid});
}

sub children
{
	my ($parent) = @_;

	return grep { slurp("/proc/$_/stat") =~ /^\d+ \(.*\) \S (\d+)/ && $1 == $parent } map { m{/proc/(\d+)$} } glob '/proc/[0-9]*';
}

sub slurp
{
	my ($file) = @_;

	open my $read, '<', $file or return '';
	local $/;
	return <$read> // '';
}

1;
