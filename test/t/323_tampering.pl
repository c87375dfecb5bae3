# A superuser switches the guards off and edits what is there.  verify() finds it where a digest or a fold can tell; what it cannot tell is
# here too, and in doc/operations.md.  Each is undone before the next.

use strict;
use warnings FATAL => 'all';

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use lib dirname(abs_path(__FILE__)) . '/../lib';

use Tenants;
use Test::More;

my $node = new_server('tampering');

make_tenants($node);
add_member($node, 'wrk', 'home:worker');
add_member($node, 'app', 'home:approver');
$node->safe_psql('postgres', q{
	CALL lab.furnish('home');
	-- what the tenants' tests plant for verify() is not wanted here
	SELECT extaction.rebuild_worklist();
	ALTER TABLE extaction.events DISABLE TRIGGER append_only;
	DELETE FROM extaction.events WHERE intent_id = 'never';
	ALTER TABLE extaction.events ENABLE ALWAYS TRIGGER append_only;
	SET ROLE app;
	SELECT extaction.approve('home', (SELECT request_digest FROM extaction.pending_approvals WHERE intent_id = 'stopped'));
	RESET ROLE;
	INSERT INTO extaction.contracts SELECT (jsonb_populate_record(c, '{"version": 2}')).* FROM extaction.contracts c WHERE provider = 'lab';

	-- Does as the statements say, with every guard off, sets them again as they were, and asks verify(); nothing remains.
	CREATE FUNCTION lab.tamper(statements text) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		t text;
		found text;
	BEGIN
		FOR t IN SELECT extaction.fact_tables() LOOP
			EXECUTE format('ALTER TABLE extaction.%I DISABLE TRIGGER ALL', t);
		END LOOP;
		EXECUTE statements;
		FOR t IN SELECT extaction.fact_tables() LOOP
			EXECUTE format('ALTER TABLE extaction.%I ENABLE ALWAYS TRIGGER append_only', t);
		END LOOP;
		ALTER TABLE extaction.contracts ENABLE ALWAYS TRIGGER forget;
		ALTER TABLE extaction.ledger ENABLE ALWAYS TRIGGER forget;
		SELECT string_agg(DISTINCT what, ' ' ORDER BY what) INTO found FROM extaction.verify();
		RAISE SQLSTATE 'UNDO1';
	EXCEPTION
		WHEN SQLSTATE 'UNDO1' THEN RETURN coalesce(found, '');
		WHEN OTHERS THEN RETURN SQLERRM;
	END $$;
});
is(rows($node, 'SELECT * FROM extaction.verify()'), '', 'nothing is wrong');

# What was done, and how; and what verify() says of it: '' where nothing can tell.
my @found = (
	[ 'another payload', q{UPDATE extaction.intents SET payload = '{"text": "x"}' WHERE intent_id = 'done'}, 'request_digest' ],
	[ 'another destination', q{UPDATE extaction.intents SET destination = 'x' WHERE intent_id = 'ready'}, 'request_digest' ],
	[ 'another action', q{UPDATE extaction.intents SET action = 'x' WHERE intent_id = 'done'}, 'request_digest' ],
	[ 'payload and digest, to match', q{UPDATE extaction.intents SET payload = '{"text": "x"}', request_digest = extaction.digest(jsonb_build_object('v', 'extaction.request.v1',
		'scope', scope, 'intent_id', intent_id, 'action', action, 'destination', destination, 'candidate', NULL, 'payload', '{"text": "x"}'::jsonb)) WHERE intent_id = 'done'}, 'approval' ],
	[ 'another candidate', q{UPDATE extaction.candidates SET content = '{"title": "x"}'}, 'candidate_digest' ],
	[ 'another candidate, with its digest', q{UPDATE extaction.candidates SET content = '{"title": "x"}', digest = extaction.digest('{"title": "x"}')}, 'request_digest' ],
	[ 'another key', q{UPDATE extaction.intents SET idempotency_key = gen_random_uuid() WHERE intent_id = 'done'}, 'idempotency_key' ],
	[ 'another ledger', q{UPDATE extaction.ledger SET ledger_id = gen_random_uuid()}, 'idempotency_key' ],
	[ 'the digest of an approval', q{UPDATE extaction.approvals SET request_digest = sha256('x') WHERE approval_id = 'yes-ready'}, 'approval request' ],
	[ 'an approval is moved to another intent', q{UPDATE extaction.approvals SET id = 'x' WHERE approval_id = 'yes-ready'}, 'approval request' ],
	[ 'an approval is deleted', q{DELETE FROM extaction.approvals WHERE approval_id = 'yes-done'}, 'approval approved' ],
	[ 'a batch\'s approval is deleted', q{DELETE FROM extaction.approvals WHERE approval_id = 'yes-letters'}, 'approval approved' ],
	[ 'an approval by another', q{UPDATE extaction.approvals SET approver = 'app', role = 'app' WHERE approval_id = 'yes-done'}, 'approval' ],
	[ 'an approval is forged', q{INSERT INTO extaction.approvals SELECT (jsonb_populate_record(a, '{"approval_id": "forged", "approver": "app", "role": "app"}')).* FROM extaction.approvals a WHERE approval_id = 'yes-ready'}, 'approval' ],
	[ 'a revocation is deleted', q{DELETE FROM extaction.revocations}, 'revoked' ],
	[ 'a revocation is forged', q{INSERT INTO extaction.revocations (scope, approval_id, reason, revoked_by, role, "session_user") VALUES ('home', 'yes-ready', 'x', 'app', 'app', 'app')}, 'revocation' ],
	[ 'the request behind an approval is deleted', q{DELETE FROM extaction.requests WHERE intent_id = 'ready'}, 'request' ],
	[ 'what waits asks for something else', q{UPDATE extaction.requests SET payload = '{"text": "x"}' WHERE intent_id = 'waits'}, 'request_digest' ],
	[ 'a batch is deleted', q{DELETE FROM extaction.batches}, 'batch' ],
	[ 'one recipient of a list is another', q{UPDATE extaction.requests SET payload = jsonb_set(payload, '{items,0,destination}', '"x"') WHERE kind = 'batch' AND intent_id = 'letters'}, 'request_digest' ],
	[ 'one more in a list that waits', q{UPDATE extaction.requests SET payload = jsonb_set(payload, '{items,2}', '{"intent_id": "x", "destination": "x", "payload": {}}') WHERE intent_id = 'list'}, 'request_digest' ],
	[ 'an item of a list gets another approval', q{UPDATE extaction.intents SET batch_id = NULL WHERE intent_id = 'l1'}, 'approval' ],
	[ 'an intent is deleted', q{DELETE FROM extaction.intents WHERE intent_id = 'done'}, 'event' ],
	[ 'one that is still to go is deleted', q{DELETE FROM extaction.intents WHERE intent_id = 'ready'}, 'worklist' ],
	[ 'what happened did not', q{UPDATE extaction.events SET kind = 'not_happened' WHERE intent_id = 'task' AND kind = 'happened'}, 'fake_task' ],
	[ 'what happened is uncertain', q{UPDATE extaction.events SET kind = 'uncertain' WHERE intent_id = 'done' AND kind = 'happened'}, 'worklist' ],
	[ 'uncertain happened', q{UPDATE extaction.events SET kind = 'happened' WHERE intent_id = 'unsure' AND kind = 'uncertain'}, 'worklist' ],
	[ 'an outcome is deleted', q{DELETE FROM extaction.events WHERE intent_id = 'done' AND kind = 'happened'}, 'worklist' ],
	[ 'a send of one that is out is deleted', q{DELETE FROM extaction.events WHERE intent_id = 'out-wrk' AND kind = 'sending'}, 'worklist' ],
	[ 'a send of what happened is deleted', q{DELETE FROM extaction.events WHERE intent_id = 'done' AND kind = 'sending'}, 'outcome' ],
	[ 'an attempt gets another number', q{UPDATE extaction.events SET attempt = 7 WHERE intent_id = 'unsure' AND kind = 'sending'}, 'worklist' ],
	[ 'happened is forged, of what is still to go', q{INSERT INTO extaction.events (scope, intent_id, kind, role, "session_user") VALUES ('home', 'ready', 'happened', 'x', 'x')}, 'outcome worklist' ],
	[ 'happened is forged, and taken off the worklist', q{INSERT INTO extaction.events (scope, intent_id, kind, attempt, role, "session_user") VALUES ('home', 'ready', 'happened', 1, 'x', 'x');
		DELETE FROM extaction.worklist WHERE intent_id = 'ready'}, 'outcome' ],
	[ 'a second happened', q{INSERT INTO extaction.events SELECT (jsonb_populate_record(e, jsonb_build_object('event_id', nextval('extaction.event_id_seq')))).* FROM extaction.events e WHERE intent_id = 'done' AND kind = 'happened'}, 'outcome' ],
	[ 'the worklist: another state', q{UPDATE extaction.worklist SET state = 'prepared' WHERE intent_id = 'unsure'}, 'worklist' ],
	[ 'the worklist: another attempt', q{UPDATE extaction.worklist SET attempt = attempt + 1 WHERE intent_id = 'unsure'}, 'worklist' ],
	[ 'the worklist: fewer tries', q{UPDATE extaction.worklist SET tries = 0 WHERE intent_id = 'unsure'}, 'worklist' ],
	[ 'the worklist: a row is gone', q{DELETE FROM extaction.worklist WHERE intent_id = 'ready'}, 'worklist' ],
	[ 'the worklist: a row too many', q{INSERT INTO extaction.worklist (scope, intent_id, state, action) VALUES ('home', 'done', 'prepared', 'mail')}, 'worklist' ],
	[ 'the worklist: an open attempt is forgotten', q{UPDATE extaction.worklist SET earlier_open = true, late_found = true WHERE intent_id = 'unsure'}, 'worklist' ],
	[ 'what waits: another digest', q{UPDATE extaction.waiting SET request_digest = sha256('x') WHERE id = 'waits'}, 'request waiting' ],
	[ 'what waits: asked for by another', q{UPDATE extaction.waiting SET requester = 'x' WHERE id = 'waits'}, 'waiting' ],
	[ 'what waits is gone', q{DELETE FROM extaction.waiting WHERE id = 'waits'}, 'waiting' ],
	[ 'an action is changed past its trigger', q{ALTER TABLE extaction.actions DISABLE TRIGGER record_action_change; UPDATE extaction.actions SET self_approval = NOT self_approval;
		ALTER TABLE extaction.actions ENABLE ALWAYS TRIGGER record_action_change}, 'action' ],
	[ 'somebody is made a member by hand', q{INSERT INTO extaction.scope_members (scope, member, member_name, capability, granted_by) VALUES ('home', 'wrk', 'wrk', 'owner', 'x')}, 'access' ],
	[ 'a member is removed by hand', q{DELETE FROM extaction.scope_members WHERE member_name = 'wrk'}, 'access' ],
	[ 'the grant of a member is deleted', q{DELETE FROM extaction.access_changes WHERE member_name = 'wrk'}, 'access' ],
	[ 'a role that vouches for people by hand', q{UPDATE extaction.scope_members SET vouches_for = 'people' WHERE member_name = 'wrk'}, 'access' ],
	# the guards themselves: see also test/sql/guards.sql
	[ 'a guard is dropped', q{DROP TRIGGER append_only ON extaction.intents; CREATE TRIGGER append_only AFTER INSERT ON extaction.intents EXECUTE FUNCTION extaction.refuse_change()}, 'guard' ],
	[ 'a guard is disabled', q{ALTER TABLE extaction.actions DISABLE TRIGGER ALL}, 'guard' ],
	[ 'a guard is at "origin"', q{ALTER TABLE extaction.actions ENABLE TRIGGER refuse_truncate}, 'guard' ],
	[ 'a guard is for replicas', q{ALTER TABLE extaction.actions ENABLE REPLICA TRIGGER refuse_truncate}, 'guard' ],
	[ 'the guards\' function is replaced', q{CREATE OR REPLACE FUNCTION extaction.refuse_change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'}, 'guard' ],
	[ 'a rule swallows what is written', q{CREATE RULE nothing AS ON INSERT TO extaction.events DO INSTEAD NOTHING}, 'guard' ],
	[ 'a trigger changes what is written', q{CREATE FUNCTION lab.other() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
		CREATE TRIGGER a BEFORE INSERT ON extaction.approvals FOR EACH ROW EXECUTE FUNCTION lab.other()}, 'guard' ],
	[ 'rows are hidden from the owner', q{ALTER TABLE extaction.events ENABLE ROW LEVEL SECURITY; ALTER TABLE extaction.events FORCE ROW LEVEL SECURITY}, 'guard' ],
);
# Nothing can tell: doc/operations.md names each of these.
my @unseen = (
	[ 'an intent with all that names it', q{DELETE FROM extaction.intents WHERE intent_id = 'done'; DELETE FROM extaction.events WHERE intent_id = 'done';
		DELETE FROM extaction.approvals WHERE id = 'done'; DELETE FROM extaction.requests WHERE intent_id = 'done'} ],
	[ 'a revocation with its event', q{DELETE FROM extaction.revocations WHERE approval_id = 'yes-stopped'; DELETE FROM extaction.events WHERE kind = 'revoked'} ],
	[ 'happened becomes not happened', q{UPDATE extaction.events SET kind = 'not_happened' WHERE intent_id = 'done' AND kind = 'happened'} ],
	[ 'a whole story is forged', q{INSERT INTO extaction.events (scope, intent_id, kind, attempt, lease_until, role, "session_user") VALUES ('home', 'ready', 'sending', 1, now(), 'wrk', 'wrk');
		INSERT INTO extaction.events (scope, intent_id, kind, attempt, role, "session_user", detail) VALUES ('home', 'ready', 'happened', 1, 'wrk', 'wrk', '{"evidence": {"id": 1}}');
		DELETE FROM extaction.worklist WHERE intent_id = 'ready'} ],
	[ 'a longer approval', q{UPDATE extaction.approvals SET expires_at = 'infinity' WHERE approval_id = 'yes-ready'} ],
	[ 'another time', q{UPDATE extaction.events SET recorded_at = recorded_at - interval '1 hour' WHERE intent_id = 'done'} ],
	[ 'another requester', q{UPDATE extaction.intents SET requester = 'x', role = 'x' WHERE intent_id = 'done'} ],
	[ 'other evidence', q{UPDATE extaction.events SET detail = '{"evidence": {"id": "x"}}' WHERE intent_id = 'done' AND kind = 'happened'} ],
	[ 'another contract', q{UPDATE extaction.contracts SET retention = '1 year' WHERE provider = 'lab'} ],
	[ 'another source version was current', q{UPDATE extaction.sources SET source_version = 'v0'} ],
	[ 'the worklist: due earlier', q{UPDATE extaction.worklist SET due_at = '-infinity', first_sent_at = now(), quiet_from = '-infinity' WHERE intent_id = 'unsure'} ],
);
my @answers = split /\n/, $node->safe_psql('postgres', join '', map { "SELECT '-- ' || lab.tamper(\$tamper\$ $_->[1] \$tamper\$);\n" } @found, @unseen);
s/^-- // foreach @answers;
foreach (@found)
{
	is(shift @answers, $_->[2], "found: $_->[0]");
}
foreach (@unseen)
{
	is(shift @answers, '', "cannot be told: $_->[0]");
}
is(rows($node, 'SELECT * FROM extaction.verify()'), '', 'and all is as it was');

$node->stop;
done_testing();
