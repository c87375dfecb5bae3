--
-- What a ledger's owner may add to its tables is honoured where rows are added without a statement: columns with defaults, generated columns,
-- constraints, indexes and triggers; and none of it runs under the search_path of a caller, who could lead it astray with the owner's rights
--

BEGIN;
SET LOCAL client_min_messages = warning;
CREATE SCHEMA other;
GRANT USAGE ON SCHEMA other TO PUBLIC;
CREATE TABLE other.seen (no bigserial, kind text, region text, path text);
CREATE FUNCTION other.path() RETURNS text LANGUAGE sql STABLE AS $$ SELECT current_setting('search_path') $$;
CREATE FUNCTION other.is_ours(text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$ SELECT $1 <> 'nowhere' $$;
CREATE FUNCTION other.see() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_LEVEL = 'ROW' THEN
        INSERT INTO other.seen (kind, region, path) VALUES (TG_WHEN || ' ' || coalesce(to_jsonb(NEW) ->> 'kind', TG_TABLE_NAME), NEW.region, other.path());
    ELSE
        INSERT INTO other.seen (kind, path) VALUES (TG_WHEN || ' statement', other.path());
    END IF;
    RETURN NEW;
END $$;

ALTER TABLE extaction.events ADD region text NOT NULL DEFAULT coalesce(nullif(other.path(), 'pg_catalog, pg_temp'), 'here'),
    ADD CHECK (other.is_ours(region)), ADD length int GENERATED ALWAYS AS (octet_length(intent_id)) STORED;
ALTER TABLE extaction.intents ADD region text NOT NULL DEFAULT 'here';
CREATE INDEX ON extaction.events ((upper(region))) WHERE other.is_ours(region);
CREATE TRIGGER see_before BEFORE INSERT ON extaction.events FOR EACH ROW EXECUTE FUNCTION other.see();
CREATE TRIGGER see_all AFTER INSERT ON extaction.events FOR EACH STATEMENT EXECUTE FUNCTION other.see();
CREATE TRIGGER see AFTER INSERT ON extaction.intents FOR EACH ROW EXECUTE FUNCTION other.see();

SELECT extaction.create_scope('others');
INSERT INTO extaction.actions (action, provider, operation, self_approval) VALUES ('others_mail', 'others', 'send', true);
SELECT status FROM extaction.approve_in_advance('others', 'one', 'others_mail', 'x@others', '{"a": 1}');
SET LOCAL search_path = public, pg_catalog;
SELECT status FROM extaction.submit('others', 'one', 'others_mail', 'x@others', '{"a": 1}');
SELECT status FROM extaction.submit('others', 'one', 'others_mail', 'x@others', '{"a": 1}');
SHOW search_path;
SELECT kind, region, path FROM other.seen ORDER BY no;
SELECT kind, region, length FROM extaction.events WHERE scope = 'others' AND intent_id = 'one' ORDER BY event_id;

-- what must be recorded may not be kept out
CREATE FUNCTION other.lose() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER lose BEFORE INSERT ON extaction.intents FOR EACH ROW EXECUTE FUNCTION other.lose();
SELECT status FROM extaction.approve_in_advance('others', 'two', 'others_mail', 'x@others', '{"a": 1}');
SAVEPOINT before;
SELECT status FROM extaction.submit('others', 'two', 'others_mail', 'x@others', '{"a": 1}');
ROLLBACK TO before;
SELECT status FROM extaction.find('others', 'two');
DROP TRIGGER lose ON extaction.intents;
SELECT status FROM extaction.submit('others', 'two', 'others_mail', 'x@others', '{"a": 1}');
ROLLBACK;

-- a row is in every index that wants it, those that others have made among them
BEGIN;
SET LOCAL client_min_messages = warning;
CREATE EXTENSION amcheck;
CREATE FUNCTION pg_temp.complete() RETURNS boolean LANGUAGE sql AS $$
    SELECT count(bt_index_check(i.indexrelid, true)) > 30
    FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid WHERE c.relnamespace = 'extaction'::regnamespace
$$;
CREATE INDEX ON extaction.events (intent_id) WHERE kind IN ('replayed', 'approved');
CREATE INDEX ON extaction.events (intent_id) WHERE kind IN ('replayed', NULL);
CREATE INDEX ON extaction.events (actor) WHERE actor IS NOT NULL;
CREATE INDEX ON extaction.events (event_id) WHERE actor IS NULL;
CREATE INDEX ON extaction.events (event_id) WHERE kind <> 'replayed';
CREATE UNIQUE INDEX ON extaction.intents (scope, actor, intent_id) WHERE actor IS NOT NULL;
SELECT extaction.create_scope('others');
INSERT INTO extaction.actions (action, provider, operation, self_approval) VALUES ('others_mail', 'others', 'send', true);
CREATE FUNCTION pg_temp.ask(name text, actor text) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT status FROM extaction.approve_in_advance('others', name, 'others_mail', 'x@others', '{"a": 1}', actor => actor)
    UNION ALL SELECT status FROM generate_series(1, 2) n, extaction.submit('others', name || substr('', n), 'others_mail', 'x@others', '{"a": 1}', actor => actor)
$$;
SELECT pg_temp.ask('one', 'ada');
SELECT pg_temp.ask('two', NULL);
SELECT pg_temp.ask('three', NULL);
SELECT pg_temp.ask('four', 'bob');
SELECT * FROM pg_temp.complete();
SELECT actor, count(*) FROM extaction.events WHERE scope = 'others' AND kind = 'replayed' GROUP BY 1 ORDER BY 1;
-- and if a trigger makes it another row
CREATE FUNCTION pg_temp.by_somebody() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.actor := coalesce(NEW.actor, 'somebody'); RETURN NEW; END $$;
CREATE TRIGGER by_somebody BEFORE INSERT ON extaction.events FOR EACH ROW EXECUTE FUNCTION pg_temp.by_somebody();
SELECT pg_temp.ask('five', NULL);
SELECT * FROM pg_temp.complete();
SELECT actor, count(*) FROM extaction.events WHERE scope = 'others' AND kind = 'replayed' GROUP BY 1 ORDER BY 1;
DROP TRIGGER by_somebody ON extaction.events;
-- what runs with the owner's rights runs under his search_path, whatever it is that brings it in
CREATE FUNCTION pg_temp.same(word text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF current_setting('others.watch', true) = 'on' AND current_setting('search_path') <> 'pg_catalog, pg_temp' THEN
        RAISE EXCEPTION 'under %', current_setting('search_path');
    END IF;
    RETURN word;
END $$;
CREATE FUNCTION pg_temp.see_path() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_temp.same(NULL); RETURN NEW; END $$;
SELECT a.status FROM unnest('{six,seven,eight,nine}'::text[]) n, extaction.approve_in_advance('others', n, 'others_mail', 'x@others', '{"a": 1}') a;
SET LOCAL others.watch = on;
SET LOCAL search_path = public, pg_temp;
SAVEPOINT before;
SET LOCAL others.watch = off;
CREATE INDEX ON extaction.intents ((pg_temp.same(intent_id)));
SET LOCAL others.watch = on;
SELECT status FROM extaction.submit('others', 'six', 'others_mail', 'x@others', '{"a": 1}');
ROLLBACK TO before;
SET LOCAL others.watch = off;
CREATE INDEX ON extaction.intents (intent_id) WHERE pg_temp.same(scope) = 'others';
SET LOCAL others.watch = on;
SELECT status FROM extaction.submit('others', 'seven', 'others_mail', 'x@others', '{"a": 1}');
ROLLBACK TO before;
SET LOCAL others.watch = off;
ALTER TABLE extaction.intents ADD CHECK (pg_temp.same(intent_id) <> '');
SET LOCAL others.watch = on;
SELECT status FROM extaction.submit('others', 'eight', 'others_mail', 'x@others', '{"a": 1}');
ROLLBACK TO before;
CREATE TRIGGER see_path AFTER INSERT ON extaction.intents FOR EACH ROW EXECUTE FUNCTION pg_temp.see_path();
SELECT status FROM extaction.submit('others', 'nine', 'others_mail', 'x@others', '{"a": 1}');
ROLLBACK;
