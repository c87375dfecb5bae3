# A caller's search_path is a trap: his own schema and pg_temp come first and hold an operator, a function or a type for almost everything that
# PostgreSQL has, under the same name and for the same types.  None of it is ever run: not by plans made under it, nor by plans that were kept
# from before and are analysed again under it.  See also test/sql/hostile.sql.

use strict;
use warnings FATAL => 'all';

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use lib dirname(abs_path(__FILE__)) . '/../lib';

use Tenants;
use Test::More;

my $node = new_server('paths');

make_tenants($node);
add_member($node, 'own', 'home:owner');
add_member($node, 'foreigner', 'away:owner');
$node->safe_psql('postgres', "CALL lab.furnish('$_')") foreach qw(home away);

# The trap.  Operators and functions whose types are at least all ordinary ones; each says so when it is run.
$node->safe_psql('postgres', q{
	CREATE SCHEMA trap AUTHORIZATION own;
	SET ROLE own;
	SET check_function_bodies = off;
	CREATE PROCEDURE trap.set() LANGUAGE plpgsql AS $$
	DECLARE
		o record;
		ordinary oid[] := '{text,bytea,int8,int4,uuid,jsonb,json,bool,oid,regrole,regclass,regprocedure,name,timestamptz,interval,"char",numeric,float8,
			_text,_int8,_oid,xid,anyelement,anyarray,date,varchar,regnamespace,aclitem,_aclitem}'::regtype[]::oid[];
	BEGIN
		FOR o IN SELECT p.oid, p.proname, pg_get_function_identity_arguments(p.oid) AS args, pg_get_function_result(p.oid) AS result
		         FROM pg_proc p WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind = 'f' AND p.provariadic = 0
		           AND p.proargtypes::oid[] <@ ordinary AND (p.prorettype = ANY (ordinary) OR p.prorettype = 'void'::regtype) AND p.proargmodes IS NULL
		LOOP
			EXECUTE format('CREATE FUNCTION trap.%I(%s) RETURNS %s LANGUAGE plpgsql COST 0.0001 AS $f$ BEGIN RAISE EXCEPTION ''trapped: %s''; END $f$',
			               o.proname, o.args, o.result, o.proname);
		END LOOP;
		FOR o IN SELECT p.oprname, p.oprleft::regtype AS l, p.oprright::regtype AS r, p.oprresult::regtype AS result,
		                'op_' || row_number() OVER () AS name
		         FROM pg_operator p WHERE p.oprnamespace = 'pg_catalog'::regnamespace AND p.oprkind = 'b'
		           AND ARRAY[p.oprleft, p.oprright, p.oprresult] <@ ordinary
		         UNION ALL
		         -- these fit better than any that PostgreSQL has
		         SELECT v.op, v.l, v.r, 'bool', format('op_better_%s', row_number() OVER ())
		         FROM (VALUES ('=', 'regrole'::regtype, 'oid'::regtype), ('=', 'oid', 'regrole'), ('=', 'regclass', 'oid'), ('=', 'text', 'varchar'),
		                      ('=', 'regrole', 'regrole'), ('=', 'regclass', 'regclass'), ('=', '"char"', 'text')) v (op, l, r)
		LOOP
			EXECUTE format('CREATE FUNCTION trap.%I(%s, %s) RETURNS %s LANGUAGE plpgsql COST 0.0001 AS $f$ BEGIN RAISE EXCEPTION ''trapped: %s''; END $f$',
			               o.name, o.l, o.r, o.result, o.oprname);
			EXECUTE format('CREATE OPERATOR trap.%s (FUNCTION = trap.%I, LEFTARG = %s, RIGHTARG = %s)', o.oprname, o.name, o.l, o.r);
		END LOOP;
	END $$;
	CALL trap.set();
	DROP PROCEDURE trap.set;
});
cmp_ok(rows($node, q{SELECT count(*) FROM pg_operator WHERE oprnamespace = 'trap'::regnamespace}), '>', 200, 'a trap is set');

# In pg_temp, what has no place in a schema of its own: tables of the ledger's names and the catalogue's, types of the names that casts use.
my $temp = join '', map({ "CREATE TEMP TABLE $_ (x int);\n" } split ' ', rows($node, q{
		SELECT relname FROM pg_class WHERE relkind = 'r' AND (relnamespace = 'extaction'::regnamespace
			OR relnamespace = 'pg_catalog'::regnamespace AND relname IN ('pg_class', 'pg_proc', 'pg_trigger', 'pg_authid', 'pg_rewrite', 'pg_language'))})),
	map { "CREATE DOMAIN pg_temp.$_ AS pg_catalog.bool;\n" } qw(text jsonb uuid regrole regclass timestamptz bytea oid name regnamespace receipt ticket);

# What can be called and looked at, in a transaction that is rolled back.
my @views = split ' ', rows($node, q{SELECT relname FROM pg_class c WHERE relnamespace = 'extaction'::regnamespace AND relkind = 'v'
	AND has_table_privilege('own', c.oid, 'SELECT')});
my $all = join "\n", 'BEGIN;', everything('home', 'own'),
	map({ "SELECT * FROM extaction.$_;" } @views),
	q{SELECT * FROM extaction.explain('home', 'done');},
	q{SELECT * FROM extaction.check_gates('home', 'waits');},
	q{SELECT * FROM extaction.sent_to('home', 'done@home');},
	q{SELECT * FROM extaction.missing_guards();},
	q{SELECT status, gate FROM extaction.submit('away', 'done', 'mail', 'n', '{"text": "n"}');},
	q{SELECT extaction.wake('home', 'pager', 'event 2', 'text');},
	q{SELECT source, event_id FROM extaction.next_wakeup('home');},
	q{SELECT status FROM extaction.redact('home', 'failed', 'asked to');},
	q{SELECT extaction.redact_older_than('home', '1 day');},
	q{SELECT extaction.grant_access('home', 'own', 'auditor');},
	q{SELECT extaction.revoke_access('home', 'own', 'auditor');},
	q{SAVEPOINT s; SELECT * FROM extaction.find('away', 'done'); ROLLBACK TO s;},
	q{SAVEPOINT s; SELECT * FROM extaction.adopt('moved'); ROLLBACK TO s;},
	'ROLLBACK;';

# Without times, numbers and keys, which are never the same twice, and in an order that says nothing.
sub plain
{
	my ($text) = @_;

	$text =~ s/\b[0-9a-f]{64}\b|\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/KEY/g;
	$text =~ s/\d{4}-\d\d-\d\d[ T][\d:.+]+/TIME/g;
	$text =~ s/-?\d\d:\d\d:\d\d(\.\d+)?/SPAN/g;
	$text =~ s/\d+/N/g;
	$text =~ s/^psql:[^:]*:N: //mg;
	return join "\n", sort split /\n/, $text;
}

sub is_trapped
{
	my ($session, $name) = @_;

	my $said = $session->(q{SELECT lower('x'); SELECT 'a'::pg_catalog.text = 'b'::pg_catalog.text; SELECT 'true'::text; SELECT x FROM intents});

	like($said, $_, "$name: the trap works") foreach qr/trapped: lower/, qr/trapped: =/, qr/^t$/m;
	return;
}

my $session = session_as($node, 'own');
my $path = 'SET search_path = trap, pg_temp, pg_catalog';
my $expected = plain($session->($all));
like($expected, qr/\nreplayed|\ndone/, 'without the trap, everything is done');
unlike($expected, qr/trapped/, 'and nothing is trapped');

$session->($temp);
$session->($path);
is_trapped($session, 'a session that has seen better days');
is(plain($session->($all)), $expected, 'plans that were kept do the same');

# every plan is made anew: the tables have changed
$node->safe_psql('postgres', q{
	DO $$
	DECLARE
		t regclass;
	BEGIN
		FOR t IN SELECT oid FROM pg_class WHERE relnamespace = 'extaction'::regnamespace AND relkind = 'r' LOOP
			EXECUTE format('ALTER TABLE %s ALTER %I SET STATISTICS 77', t, (SELECT attname FROM pg_attribute WHERE attrelid = t AND attnum = 1));
		END LOOP;
	END $$});
is(plain($session->($all)), $expected, 'and so do the same plans, analysed again');
$session->('DISCARD PLANS');
is(plain($session->($all)), $expected, 'and again');
$session->();

$session = session_as($node, 'own');
$session->($temp);
$session->($path);
is_trapped($session, 'a new session');
is(plain($session->($all)), $expected, 'and does everything under it from the very first call');
is($session->('SHOW search_path'), 'trap, pg_temp, pg_catalog', 'which is his as before');
$session->();

$node->stop;
done_testing();
