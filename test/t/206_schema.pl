# doc/task-request.v1.schema.json against the ledger's own check: they take and refuse the same documents, but for what the schema says it cannot
# say.  Skipped without Python's jsonschema.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use ExtactionTest;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my ($python) = (grep({ -x } '/usr/bin/python3'), 'python3');
my $schema = "$FindBin::RealBin/../../doc/task-request.v1.schema.json";

plan skip_all => 'jsonschema is not installed'
  if !eval { IPC::Run::run([ $python, '-c', 'from jsonschema import Draft202012Validator' ], '>', \my $said, '2>&1') };

my $node = new_server('schema');

make_shop($node, 'postgres');

# Every member missing, or with another value; and dates.
$node->safe_psql(
	'postgres', q{
	CREATE TABLE document AS
	SELECT row_number() OVER () AS no, d.document
	FROM (SELECT CASE WHEN v.value IS NULL THEN request('i', 't') #- p.path ELSE jsonb_set(request('i', 't'), p.path, v.value::jsonb) END
	      FROM (VALUES ('{schema_version}'::text[]), ('{fixture_kind}'), ('{request_id}'), ('{intent_id}'), ('{operation}'), ('{provider}'),
	                   ('{candidate_ref}'), ('{candidate_ref,candidate_id}'), ('{candidate_ref,candidate_digest}'),
	                   ('{candidate_ref,source_id}'), ('{candidate_ref,source_version}'), ('{task}'), ('{task,title}'),
	                   ('{task,assignee_person_ref}'), ('{task,due_at}'), ('{more}'), ('{task,more}'), ('{candidate_ref,more}')) p (path),
	           (VALUES (NULL), ('null'), ('1'), ('true'), ('[]'), ('{}'), ('"x"'), ('""'), ('" "'), ('"x\ny"'), ('"\u007f"'), ('"é"'),
	                   ('"' || repeat('x', 255) || '"'), ('"' || repeat('x', 256) || '"'),
	                   ('"' || repeat('aB', 32) || '"'), ('"sha256:' || repeat('0', 64) || '"'), ('"\\\\x' || repeat('0', 64) || '"'),
	                   ('"' || repeat('g', 64) || '"')) v (value)
	      UNION ALL
	      SELECT jsonb_set(request('i', 't'), '{task,due_at}', to_jsonb(due))
	      FROM unnest(ARRAY['2026-12-31', '2026-13-01', '2026-00-10', '2026-01-32', '2026-1-1', '2026-12-31T12:00:00Z', '2026-12-31t12:00:00z',
	                        '2026-12-31T12:00:00', '2026-12-31 12:00:00Z', '2026-12-31T12:00:00.5+02:00', '2026-12-31T12:00:00.Z',
	                        '2026-12-31T24:00:00Z', '2026-12-31T23:59:60Z', '2026-12-31T12:00:00+24:00', '2026-12-31T12:00Z',
	                        '2026-12-31T12:00:00+0200', '2026-12-31Z', 'tomorrow']) due
	      UNION ALL SELECT '[]' UNION ALL SELECT '1' UNION ALL SELECT '{}') d (document);
	CREATE FUNCTION takes(document jsonb) RETURNS boolean LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM extaction.submit_fake_task('shop', document);
		RETURN true;
	EXCEPTION WHEN invalid_parameter_value THEN
		RETURN false;
	END $$;
});

my $documents = $node->safe_psql('postgres', 'SELECT document FROM document ORDER BY no');
my $ledger = $node->safe_psql('postgres', q{SELECT CASE WHEN takes(document) THEN 'yes' ELSE 'no' END FROM document ORDER BY no});
my $said = '';

append_to_file("$PostgreSQL::Test::Utils::tmp_check/validate.py", <<'VALIDATE');
import json, sys
from jsonschema import Draft202012Validator
schema = json.load(open(sys.argv[1]))
Draft202012Validator.check_schema(schema)
validator = Draft202012Validator(schema)
for line in sys.stdin:
    print("yes" if validator.is_valid(json.loads(line)) else "no")
VALIDATE
IPC::Run::run([ $python, "$PostgreSQL::Test::Utils::tmp_check/validate.py", $schema ], '<', \"$documents\n", '>', \$said)
  or die('the schema is not one');

my @documents = split(/\n/, $documents);
my @ledger = split(/\n/, $ledger);
my @schema = split(/\n/, $said);
my @differ = grep { $ledger[$_] ne $schema[$_] } 0 .. $#documents;

cmp_ok(scalar(@documents), '>', 300, 'many documents were tried');
cmp_ok(scalar(grep { $_ eq 'yes' } @ledger), '>', 30, 'and many were taken');
is(scalar(@differ), 0, 'the schema and the ledger agree') or diag(map { "ledger $ledger[$_], schema $schema[$_]: $documents[$_]\n" } @differ);

$node->stop;
done_testing();
