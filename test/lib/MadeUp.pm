# Version 0.9, which never was: 1.0 without a few things of every kind, and what brings them.  Both are made from the script of 1.0,
# so that they cannot fall behind it.

package MadeUp;

use strict;
use warnings;

use Exporter 'import';

our @EXPORT = qw(make_up);

# The script of 0.9, and the upgrade to 1.0 in pieces: [name, SQL].
sub make_up
{
	my ($script) = @_;
	my @pieces;

	# what is not there at all
	push @pieces, [ 'a view', cut(\$script, 'CREATE VIEW extaction.grey_zone') . cut(\$script, 'COMMENT ON VIEW extaction.grey_zone') ];
	push @pieces,
	  [ 'a function', cut(\$script, 'CREATE FUNCTION extaction.sent_to')
		  . cut(\$script, 'REVOKE ALL ON FUNCTION extaction.sent_to')
		  . cut(\$script, 'COMMENT ON FUNCTION extaction.sent_to') ];
	push @pieces, [ 'an index', cut(\$script, 'CREATE INDEX worklist_claim') ];
	push @pieces, [ 'a mark for dump', cut(\$script, "SELECT pg_extension_config_dump('extaction.pauses'") ];
	push @pieces, [ 'a comment', cut(\$script, 'COMMENT ON COLUMN extaction.worklist.tries') ];

	# what is there, but otherwise
	change(\$script, qr/(CREATE TABLE extaction\.fake_tasks .*? due_at +text,)\n    recorded_at [^,]*,/s);
	push @pieces, [ 'a column', "ALTER TABLE extaction.fake_tasks ADD COLUMN recorded_at timestamptz NOT NULL DEFAULT clock_timestamp();\n" ];
	change(\$script, qr/(approvals_required  bigint   NOT NULL DEFAULT 1) CHECK \(approvals_required >= 1\)/);
	push @pieces, [ 'a check', "ALTER TABLE extaction.actions ADD CHECK (approvals_required >= 1);\n" ];
	my $guards = cut(\(my $copy = $script), 'CREATE FUNCTION extaction.missing_guards');
	change(\$script, qr/(\n)\s+\('actions', 'refuse_truncate'[^\n]*\n/);
	push @pieces, [ 'a trigger', $guards =~ s/^CREATE/CREATE OR REPLACE/r . "SELECT extaction.repair_guards();\n" ];
	return ($script, @pieces);
}

# Takes out the statement that begins so, and returns it.
sub cut
{
	my ($script, $begin) = @_;

	$$script =~ s/^(\Q$begin\E(?!\w)(?:\$\$.*?\$\$|[^;\$]|;(?!\n)|\$(?!\$))*;\n)//ms or die("there is no more: $begin");
	return $1;
}

# Leaves of what matches only the first group.
sub change
{
	my ($script, $match) = @_;

	$$script =~ s/$match/$1/ or die("there is no more: $match");
	return;
}

1;
