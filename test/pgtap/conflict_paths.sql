-- A conflict names the members that differ: whole characters of them, and not the whole of a path that is very long.
BEGIN;
SELECT plan(4);

SELECT extaction.create_scope('paths');
INSERT INTO extaction.actions (action, provider, operation, self_approval) VALUES ('paths', 'acme', 'paths', true);

CREATE FUNCTION pg_temp.differs_in(one jsonb, other jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    name text := md5(one::text || other::text);
BEGIN
    PERFORM extaction.approve_in_advance('paths', name, 'paths', 'x', one);
    PERFORM extaction.submit('paths', name, 'paths', 'x', one);
    RETURN split_part((extaction.submit('paths', name, 'paths', 'x', other)).needs, 'differs in ', 2);
END $$;

CREATE FUNCTION pg_temp.nested(depth int, inmost text) RETURNS jsonb LANGUAGE sql AS $$
    SELECT (repeat('{"' || repeat('k', 300) || '": ', depth) || inmost || repeat('}', depth))::jsonb $$;

SELECT is(pg_temp.differs_in('{"to": {"name": 1}}', '{"to": {"name": 2, "cc": 3}}'), 'to.name, to.cc', 'two members');
SELECT is(pg_temp.differs_in('{"to": {"first name": 1}}', '{"to": {"first name": 2}}'), 'to["first name"]',
          'a path is written as in errors');

-- with the bytes before it, the hundredth is in the middle of a character
SELECT lives_ok($$ SELECT convert_from(textsend(pg_temp.differs_in(
                       jsonb_build_object('a' || repeat('é', 80), 1), jsonb_build_object('a' || repeat('é', 80), 2))), 'UTF8') $$,
                'no half of a character');
SELECT is(length(pg_temp.differs_in(pg_temp.nested(1000, '1'), pg_temp.nested(1000, '2'))), 100, 'a long path is clipped');

SELECT * FROM finish();
ROLLBACK;
