# A campaign: workers, each a process with a session of its own, play every verb at random and send to the provider outside, while the
# test kills whom it likes.  What the ledger has answered they write down, and "faults" compares ledger, provider and answers.
#
# The choices come from a seed.  The moments do not: how far a verb was when something died is the machine's choice.
package Campaign;

use strict;
use warnings FATAL => 'all';

use List::Util qw(sum);
use POSIX ();
use PostgreSQL::Test::Utils;
use Session;
use Test::More;
use Time::HiRes qw(sleep time clock_gettime CLOCK_MONOTONIC);

my $bound = 0.6;	# seconds: the contracts' late_arrival_bound

# Two kinds of action: under a key, and without one, where a second request would be a second effect.
my $setup = q{
	SET client_min_messages = warning;
	CREATE EXTENSION extaction CASCADE;
	SELECT extaction.create_scope('camp');
	INSERT INTO extaction.contracts (provider, operation, version, key_carrier, key_name, retention, on_expired, on_replay,
		on_mismatch, on_concurrent, stores_failures, proves_not_happened, lookup, absence_is_proof, lookup_lag, late_arrival_bound)
	VALUES ('out', 'keyed', 1, 'header', 'Idempotency-Key', '24 hours', 'executes', 'first_result', 'rejects', 'rejects', 'all',
		'{400}', 'by_key', true, '0', '600 ms'),
	       ('out', 'plain', 1, 'none', NULL, NULL, 'executes', 'none', 'not_compared', 'executes_twice', 'none',
		'{400}', 'by_marker', true, '0', '600 ms');
	INSERT INTO extaction.actions (action, provider, operation, self_approval, call_timeout, retry_delay, max_attempts)
	VALUES ('keyed', 'out', 'keyed', true, '100 ms', '0', 100), ('plain', 'out', 'plain', true, '100 ms', '0', 100);
};

# How often which verb is played.
my %weights = (submit => 8, ask => 4, again => 3, approve => 6, batch => 2, approved_batch => 1, send => 12, resend => 6, look => 6,
	decide => 3, sweep => 1, cancel => 1, retry => 2, revoke => 1, abandon => 0.2,
	compensate => 1, redact => 0.5);

# node and provider; database; a prefix for the names, where one provider serves several campaigns; other weights; lossy: what was
# answered may be lost.
sub new
{
	my ($class, %of) = @_;
	my $self = bless { database => 'postgres', prefix => '', keys => {}, round => 0, answers => 0, handed => [], %of }, $class;

	$self->{weights} = { %weights, %{ $of{weights} // {} } };

	$self->{dir} = PostgreSQL::Test::Utils::tempdir();
	$self->{node}->safe_psql($self->{database}, $setup);
	return $self;
}

# One round: workers begin; they end when their session is gone, or when they are told.
sub begin
{
	my ($self, $seed, $workers) = @_;

	$self->{round}++;
	$self->{workers} = [];
	foreach my $number (1 .. $workers)
	{
		my $pid = fork // die "fork: $!";
		if ($pid == 0)
		{
			# nothing of the test's own end is for this process
			eval { $self->play($seed * 100 + $number, "$self->{prefix}r$self->{round}w$number"); 1 } or print STDERR "worker: $@";
			POSIX::_exit(0);
		}
		push @{ $self->{workers} }, $pid;
	}
	return;
}

# Tells them, and waits.
sub finish
{
	my ($self) = @_;

	kill 'TERM', @{ $self->{workers} };
	waitpid $_, 0 foreach @{ $self->{workers} };
	return;
}

# A worker's life.
sub play
{
	my ($self, $seed, $name) = @_;
	my $stop = 0;

	local $SIG{TERM} = sub { $stop = 1 };
	srand $seed;
	$self->{name} = $name;
	$self->{kept} = int rand 2;		# does what it submits have to be kept?
	open $self->{log}, '>>', "$self->{dir}/$name" or die $!;
	$self->{session} = Session->new($self->{node}, database => $self->{database},
		before => 'SET synchronous_commit = ' . ($self->{kept} ? 'on' : 'off'));
	until ($stop || $self->{session}->lost)
	{
		my $at = rand sum(values %{ $self->{weights} });
		foreach my $verb (sort keys %{ $self->{weights} })
		{
			next if ($at -= $self->{weights}{$verb}) > 0;
			my $method = "do_$verb";
			$self->$method;
			last;
		}
	}
	$self->{session}->end;
	return;
}

# The answer's rows, each a list of columns.  Errors are written down.
sub rows
{
	my ($self, $sql) = @_;
	my $said = $self->{session}->ask($sql);

	return if $self->{session}->lost || $said =~ /57P0[123]|server closed the connection/;
	if ($said =~ /(?:ERROR|WARNING|PANIC):/)
	{
		$self->note_down('error', '-', 0, $said =~ s/\n/ /gr);
		return;
	}
	return map { [ split /\|/, $_, -1 ] } split /\n/, $said;
}

sub note_down
{
	my ($self, $verb, $intent, $event, $what) = @_;

	syswrite $self->{log}, join("\t", $verb, $intent, $event, $what // '') . "\n";
	return;
}

# A verb that answers with a receipt.
sub verb
{
	my ($self, $verb, $arguments, $kept) = @_;
	my ($row) = $self->rows("SELECT intent_id, receipt_id, status, state, idempotency_key FROM extaction.$verb($arguments)");

	$self->note_down($kept // 1 ? $verb : "$verb?", $row->[0], $row->[1] || 0, "$row->[2] $row->[3] $row->[4]") if $row;
	return $row;
}

sub request
{
	my ($self, $name) = @_;
	my $action = unpack('%32C*', $name) % 2 ? 'keyed' : 'plain';

	return "'camp', '$name', '$action', 'x\@out', '{\"text\": \"$name\"}'";
}

sub do_ask
{
	my ($self) = @_;

	return $self->verb('submit', $self->request("$self->{name}-" . ++$self->{last}), $self->{kept});
}

sub do_submit
{
	my ($self) = @_;
	my $name = "$self->{name}-" . ++$self->{last};

	$self->rows('SELECT status FROM extaction.approve_in_advance(' . $self->request($name) . ')') or return;
	return $self->verb('submit', $self->request($name), $self->{kept});
}

# What somebody has asked for before, and perhaps was not heard.
sub do_again
{
	my ($self) = @_;
	my $round = 1 + int rand $self->{round};
	my $name = sprintf '%sr%dw%d-%d', $self->{prefix}, $round, 1 + int rand scalar @{ $self->{workers} } + 1, 1 + int rand 10;

	return $self->verb('submit', $self->request($name), $self->{kept});
}

sub do_approve
{
	my ($self) = @_;
	my ($row) = $self->rows('SELECT a.approval_id, a.status FROM (SELECT p.request_digest FROM extaction.pending_approvals p'
		  . ' ORDER BY random() LIMIT 1) p, LATERAL extaction.approve(\'camp\', p.request_digest) a');

	$self->note_down('approve', $row->[0], 0, $row->[1]) if $row && $row->[0] ne '';
	return;
}

sub batch
{
	my ($self) = @_;
	my $name = "$self->{name}-b" . ++$self->{last};
	my $action = rand() < 0.5 ? 'keyed' : 'plain';
	my $items = join ', ', map { qq({"intent_id": "$name-$_", "destination": "$_\@out", "payload": {"n": $_}}) } 1 .. 2 + int rand 6;

	return "'camp', '$name', '$action', '{\"text\": \"all\"}', '[$items]'";
}

sub do_batch
{
	my ($self) = @_;

	$self->submit_batch($self->batch);
	return;
}

sub do_approved_batch
{
	my ($self) = @_;
	my $batch = $self->batch;

	$self->rows("SELECT status FROM extaction.approve_batch_in_advance($batch)") or return;
	$self->submit_batch($batch);
	return;
}

sub submit_batch
{
	my ($self, $batch) = @_;
	my ($row) = $self->rows("SELECT batch_id, status, total FROM extaction.submit_batch($batch)");

	$self->note_down($self->{kept} ? 'batch' : 'batch?', $row->[0], 0, "$row->[1] $row->[2]") if $row;
	return;
}

sub do_send { return $_[0]->take('send'); }
sub do_resend { return $_[0]->take('resend'); }

# claim, claimed, and a call for each.
sub take
{
	my ($self, $step, $sure) = @_;
	my $lease = $sure ? '10 s' : ('200 ms', '400 ms', '1 s')[ rand 3 ];
	my ($ticket) = $self->rows("SELECT claim_id FROM extaction.claim('$self->{name}', 1 + (random() * 3)::int, '$step', '$lease', scope => 'camp')");

	return if !$ticket || $ticket->[0] eq '' || (!$sure && rand() < 0.05);
	if (!$sure && rand() < 0.05)
	{
		$self->rows("SELECT extaction.release($ticket->[0])");
		return;
	}
	$self->rows("SELECT extaction.extend($ticket->[0], '1 s')") if rand() < 0.1;
	my $began = clock_gettime(CLOCK_MONOTONIC);
	my @envelopes = $self->rows('SELECT intent_id, attempt, operation, idempotency_key, extract(epoch FROM send_within),'
		  . " extract(epoch FROM lease_until) FROM extaction.claimed($ticket->[0])");

	foreach my $envelope (@envelopes)
	{
		my ($intent, $attempt, $operation, $key, $within, $until) = @$envelope;
		my $answer;

		$self->note_down($step eq 'look' ? 'looking' : 'handed', $intent, 0, $attempt);
		if ($step eq 'look')
		{
			$answer = $self->{provider}->call('look', $operation, $key, $intent) or next;
			sleep rand 0.5 if !$sure && rand() < 0.1;		# what it has seen may be old when it says so
			$self->verb('record_lookup', "'camp', '$intent', '" . ($answer =~ /^found/ ? 'found' : 'absent') . "', '{\"by\": \"list\"}'");
			next;
		}
		if (clock_gettime(CLOCK_MONOTONIC) - $began > $within)
		{
			$self->rows("SELECT extaction.release($ticket->[0], '{$intent}')");
			next;
		}
		my $chance = $sure ? 1 : rand;
		my $fate = $chance < 0.1 ? 'refused' : $chance < 0.2 ? 'dropped' : $chance < 0.4 ? 'lost' : 'ok';
		sleep rand 1.2 if !$sure && rand() < 0.15;		# on its way for a while
		$answer = $self->{provider}->call('send', $operation, $key, $intent, $attempt, $until + $bound, $fate);
		next if !$sure && rand() < 0.05;
		sleep rand 1.5 if !$sure && rand() < 0.03;
		$self->verb('record_outcome', "'camp', '$intent', $attempt, "
			  . (!defined $answer ? "'uncertain', '{\"code\": \"timeout\"}'"
				: $answer eq '400' ? "'not_happened', '{\"code\": \"400\"}'" : "'happened', provider_ref => '$intent'"));
	}
	return scalar @envelopes;
}

sub do_look { return $_[0]->take('look'); }

# A human looks, and says what he saw.
sub do_decide
{
	my ($self) = @_;
	my ($row) = $self->rows("SELECT s.intent_id, s.idempotency_key, a.operation, clock_timestamp() FROM extaction.intent_status s"
		  . " JOIN extaction.actions a USING (action) WHERE s.state = 'uncertain' ORDER BY random() LIMIT 1") or return;
	my $answer = $self->{provider}->call('look', $row->[2], $row->[1], $row->[0]) or return;

	$self->verb('decide', "'camp', '$row->[0]', '" . ($answer =~ /^found/ ? 'found' : 'absent') . "', 'I looked', '$row->[3]'");
	return;
}

sub do_sweep { $_[0]->rows('SELECT extaction.sweep()'); return; }

# A verb for any intent in a state.
sub any
{
	my ($self, $verb, $where) = @_;
	my ($row) = $self->rows("SELECT intent_id FROM $where ORDER BY random() LIMIT 1");

	$self->verb($verb, "'camp', '$row->[0]', 'because'") if $row;
	return;
}

sub do_cancel { return $_[0]->any('cancel', "extaction.todo WHERE state = 'awaiting_approval' AND intent_id IS NOT NULL"); }
sub do_retry { return $_[0]->any('retry', "extaction.intent_status WHERE state = 'not_happened'"); }
sub do_abandon { return $_[0]->any('abandon', "extaction.intent_status WHERE state = 'uncertain'"); }

sub do_redact { return $_[0]->any('redact', "extaction.intent_status WHERE state IN ('happened', 'not_happened')"); }

# The undo is an intent of its own.
sub do_compensate
{
	my ($self) = @_;
	my ($row) = $self->rows("SELECT intent_id FROM extaction.intent_status WHERE state = 'happened' ORDER BY random() LIMIT 1") or return;
	my $undo = $self->request("$self->{name}-" . ++$self->{last});

	$self->rows("SELECT status FROM extaction.approve_in_advance($undo)") or return;
	$self->verb('compensate', "'camp', '$row->[0]', " . $undo =~ s/^'camp', //r . ", 'because'", $self->{kept});
	return;
}

sub do_revoke
{
	my ($self) = @_;
	my ($row) = $self->rows('SELECT a.approval_id, r.status FROM (SELECT approval_id FROM extaction.approvals ORDER BY random() LIMIT 1) a,'
		  . " LATERAL extaction.revoke_approval('camp', a.approval_id, 'no') r");

	$self->note_down('revoke', $row->[0], 0, $row->[1]) if $row;
	return;
}

# What is wrong, as lines; none is good.  Everybody has finished.
sub faults
{
	my ($self) = @_;
	my $book = $self->{provider}->book;
	my @faults;

	my %status = map { ($_->[0] => $_) } $self->see('SELECT intent_id, state, idempotency_key FROM extaction.intent_status');
	my %sending = map { ("$_->[0] $_->[1]" => 1) } $self->see("SELECT intent_id, attempt FROM extaction.timeline WHERE kind = 'sending'");

	foreach my $intent (sort keys %status)
	{
		my (undef, $state, $key) = @{ $status{$intent} };
		my $effects = $book->{$intent} ? $book->{$intent}{effects} : 0;

		push @faults, "$intent: $effects effects" if $effects > 1;
		push @faults, "$intent: $state, and $effects effects"
		  if ($state eq 'happened' && $effects != 1) || ($state eq 'not_happened' && $effects != 0);
		push @faults, "$intent: the key was $self->{keys}{$intent}, and is $key" if ($self->{keys}{$intent} //= $key) ne $key;
	}
	foreach my $intent (sort keys %$book)
	{
		next unless $intent =~ /^\Q$self->{prefix}\Er\d/;
		push @faults, "$intent: sent, and the ledger does not know it" unless $self->{lossy} || $status{$intent};
		push @faults, "$intent: sent under the key $_" foreach grep { $status{$intent} && $_ ne $status{$intent}[2] } keys %{ $book->{$intent}{keys} };
		foreach my $attempt (keys %{ $book->{$intent}{attempts} })
		{
			push @faults, "$intent: attempt $attempt was sent $book->{$intent}{attempts}{$attempt} times" if $book->{$intent}{attempts}{$attempt} > 1;
			push @faults, "$intent: attempt $attempt was sent, and is not on record" unless $self->{lossy} || $sending{"$intent $attempt"};
		}
	}
	# it is said on proof: also if it was put right since
	foreach my $said ($self->see("SELECT intent_id, attempt FROM extaction.events WHERE kind = 'not_happened'"))
	{
		my ($intent, $attempt) = @$said;

		push @faults, map { "$intent: not_happened was said of attempt $attempt, and attempt $_ has acted" }
		  grep { $_ <= $attempt } keys %{ $book->{$intent} ? $book->{$intent}{acted} : {} };
	}
	push @faults, map { "$_->[0]: open, and on no list" } $self->see(q{
		SELECT s.intent_id FROM extaction.intent_status s WHERE s.state NOT IN ('happened', 'not_happened')
		EXCEPT SELECT w.intent_id FROM extaction.worklist w WHERE w.state IN ('prepared', 'sending')
		EXCEPT SELECT t.intent_id FROM extaction.todo t
		EXCEPT SELECT e.intent_id FROM extaction.events e WHERE e.kind = 'abandoned'});
	push @faults, map { "verify: @$_" } $self->see('SELECT * FROM extaction.verify()');
	return @faults, $self->lost(\%status, \%sending);
}

# What was answered and is not there.  Reads what the workers have written down, once.
sub lost
{
	my ($self, $status, $sending) = @_;
	my (@faults, %events, %approvals, %revoked, %batches, %handed);

	foreach my $file (glob "$self->{dir}/*")
	{
		open my $log, '<', $file or die $!;
		while (<$log>)
		{
			chomp;
			my ($verb, $intent, $event, $what) = split /\t/, $_, -1;

			next unless defined $what;		# its writer was killed
			$self->{answers}++;
			$self->{count}{$verb}++;
			push @faults, "error: $what" if $verb eq 'error';
			if ($verb eq 'handed')
			{
				push @{ $self->{handed} }, [ $intent, $what ];
				push @faults, "$intent: attempt $what was handed out twice" if $handed{"$intent $what"}++;
				push @faults, "$intent: attempt $what was handed out, and is not on record" unless $self->{lossy} || $sending->{"$intent $what"};
			}
			if ($what =~ /^(?:created|replayed) \S+ (\S+)$/)
			{
				push @faults, "$intent: the key was $self->{keys}{$intent}, and is $1" if ($self->{keys}{$intent} //= $1) ne $1;
			}
			next if $verb =~ /\?$/ || $self->{lossy};
			$events{$event} = "$intent: $verb: $what" if $event;
			$approvals{$intent} = 1 if $verb eq 'approve' && $what eq 'approved';
			$revoked{$intent} = 1 if $verb eq 'revoke' && $what eq 'revoked';
			$batches{$intent} = $1 if $verb eq 'batch' && $what =~ /^created (\d+)/;
			push @faults, "$intent: answered happened, and is $status->{$intent}[1]"
			  if $verb =~ /^(record_outcome|record_lookup|decide)$/ && $what =~ /^recorded happened/ && $status->{$intent}[1] ne 'happened';
		}
		close $log;
		rename $file, "$self->{dir}/.read-" . $file =~ s{.*/}{}r;
	}
	push @faults, map { "$events{$_} was answered, and event $_ is lost" } $self->missing('event_id::text', 'extaction.timeline', keys %events);
	push @faults, map { "approval $_ is lost" } $self->missing('approval_id', 'extaction.approvals', keys %approvals);
	push @faults, map { "revocation of $_ is lost" } $self->missing('approval_id', 'extaction.revocations', keys %revoked);
	push @faults, map { "batch $_ is lost" } $self->missing('batch_id', 'extaction.batches', keys %batches);
	return @faults;
}

# Which of these values the column lacks.
sub missing
{
	my ($self, $column, $table, @values) = @_;

	return unless @values;
	return map { $_->[0] } $self->see("SELECT unnest('{" . join(',', map { qq("$_") } @values) . "}'::text[]) EXCEPT SELECT $column FROM $table");
}

sub see
{
	my ($self, $sql) = @_;

	return map { [ split /\|/, $_, -1 ] } split /\n/, $self->{node}->safe_psql($self->{database}, $sql);
}

# Everything to its end: approve, send, look, decide until nothing is open.  What is left after that, as lines.
sub settle
{
	my ($self) = @_;
	my $until = time + $PostgreSQL::Test::Utils::timeout_default;

	$self->{name} = 'last';
	open $self->{log}, '>>', "$self->{dir}/last" or die $!;
	$self->{session} = Session->new($self->{node}, database => $self->{database});
	while (my @left = $self->see('SELECT intent_id, state, attempt, due_at, needs FROM extaction.worklist UNION ALL'
			. ' SELECT id, kind, NULL, NULL, needs FROM extaction.waiting'))
	{
		return map { "$_->[0]: left open: @$_" } @left if time > $until || $self->{session}->lost;
		my $moved = 0;
		$self->do_approve for 1 .. 5;
		$moved += $self->take($_, 1) // 0 foreach qw(send send resend look);
		$self->do_decide;
		sleep 0.1 unless $moved;
	}
	$self->{session}->end;
	return;
}

# An intent's story, for whoever has to find out.
sub story
{
	my ($self, $intent) = @_;

	return join "\n", map { "@$_" } $self->see("SELECT event_id, recorded_at, kind, attempt, lease_until, detail FROM extaction.timeline WHERE intent_id = '$intent'");
}

1;
