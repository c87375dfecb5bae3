# A PgBouncer of our own in transaction mode, in front of a server: on a Unix socket, with fewer connections to the server than clients.
package Pooler;

use strict;
use warnings FATAL => 'all';

use Cwd qw(abs_path);
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;

# Parameters: further settings of PgBouncer.
sub start
{
	my ($class, $node, %settings) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir_short;
	my $self = bless { dir => $dir, port => PostgreSQL::Test::Cluster::get_free_port(), node => $node }, $class;
	my %all = (
		listen_addr => '', listen_port => $self->{port}, unix_socket_dir => $dir, logfile => "$dir/log",
		auth_type => 'trust', auth_file => "$dir/users", admin_users => 'pooler_admin',
		pool_mode => 'transaction', default_pool_size => 2, max_db_connections => 4, max_client_conn => 100,
		# the next one, not the one that was just given back: so that a client meets them all
		server_round_robin => 1, ignore_startup_parameters => 'options,extra_float_digits', %settings);

	PostgreSQL::Test::Utils::append_to_file("$dir/ini",
		"[databases]\n* = host=" . $node->host . ' port=' . $node->port . "\n[pgbouncer]\n" . join('', map { "$_ = $all{$_}\n" } sort keys %all));
	PostgreSQL::Test::Utils::append_to_file("$dir/users", join '',
		map { qq{"$_" ""\n} } 'pooler_admin', split /\n/, $node->safe_psql('postgres', 'SELECT rolname FROM pg_roles WHERE rolcanlogin'));
	$self->{run} = IPC::Run::start([ 'pgbouncer', '-q', "$dir/ini" ], '<', \undef, '>', "$dir/out", '2>&1');
	foreach (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return $self if -S "$dir/.s.PGSQL.$self->{port}";
		$self->{run}->pumpable or last;
		select undef, undef, undef, 0.1;
	}
	die 'PgBouncer did not start: ' . PostgreSQL::Test::Utils::slurp_file("$dir/out");
}

# Where it listens.
sub connstr
{
	my ($self, $database, $role) = @_;
	return "host=$self->{dir} port=$self->{port} dbname=$database user=$role";
}

# The version as a number: 1.18.0 is 118.
sub version
{
	my ($version) = `pgbouncer --version` =~ /^PgBouncer (\d+\.\d+)/;
	my ($major, $minor) = split /\./, $version;
	return 100 * $major + $minor;
}

sub is_here
{
	return `pgbouncer --version 2>/dev/null` =~ /^PgBouncer/;
}

sub stop
{
	my ($self) = @_;

	$self->{run}->signal('TERM');
	eval { $self->{run}->finish };
	return;
}

1;
