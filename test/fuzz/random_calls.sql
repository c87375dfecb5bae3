-- What random_calls.py needs: roles, scopes, actions, and other ways to call a function than plainly.
SET client_min_messages = warning;

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY '{fuzz_owner,fuzz_submitter,fuzz_approver,fuzz_worker,fuzz_auditor,fuzz_many,fuzz_voucher,fuzz_nobody,fuzz_maker,fuzz_gone}'::text[]
    LOOP
        IF to_regrole(name) IS NULL THEN
            EXECUTE format('CREATE ROLE %I', name);
        END IF;
    END LOOP;
END $$;
GRANT fuzz_submitter TO fuzz_many;

CREATE EXTENSION IF NOT EXISTS extaction CASCADE;
SELECT extaction.create_scope(s) FROM unnest('{shop,lab,elsewhere}'::text[]) s;
SELECT extaction.grant_access(s, 'fuzz_' || c, c) FROM unnest('{shop,lab}'::text[]) s, unnest('{submitter,approver,worker,auditor,owner}'::text[]) c;
SELECT extaction.grant_access('shop', 'fuzz_many', c) FROM unnest('{approver,worker,auditor}'::text[]) c;
SELECT extaction.grant_access('shop', 'fuzz_voucher', c, 'people') FROM unnest('{submitter,approver}'::text[]) c;
GRANT EXECUTE ON FUNCTION extaction.create_scope(text) TO fuzz_maker;
GRANT USAGE ON SCHEMA extaction TO fuzz_maker;

INSERT INTO extaction.contracts (provider, operation, version, key_carrier, key_name, retention, on_expired, on_replay,
    on_mismatch, on_concurrent, stores_failures, proves_not_happened, lookup, absence_is_proof, lookup_lag, late_arrival_bound)
VALUES ('acme', 'post', 1, 'header', 'Idempotency-Key', '24 hours', 'executes', 'first_result', 'rejects', 'rejects', 'all',
    '{400}', 'by_key', true, '0', '0');
INSERT INTO extaction.actions (action, provider, operation, self_approval, approvals_required, call_timeout, retry_delay)
VALUES ('post', 'acme', 'post', true, 1, '5 ms', '0'),
       ('mail', 'acme', 'mail', false, 1, '5 ms', '0'),
       ('paint', 'acme', 'post', false, 2, '5 ms', '0');
SELECT extaction.observe_source('shop', 'letter', 'v1');
SELECT extaction.propose('shop', 'candidate', '{"title": "call"}', 'letter', 'v1');

CREATE SCHEMA fuzz;
GRANT ALL ON SCHEMA fuzz TO PUBLIC;

-- Inside a subtransaction; answers what happened.
CREATE FUNCTION fuzz.attempt(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    said text;
    place text;
BEGIN
    EXECUTE call;
    RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS said = MESSAGE_TEXT, place = PG_EXCEPTION_CONTEXT;
    RETURN sqlstate || ' ' || said || ' ' || place;
END $$;

-- As somebody else.
CREATE FUNCTION fuzz.as_superuser(call text) RETURNS text LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN EXECUTE call; RETURN 'ok'; END $$;

-- From a function with settings of its own.
CREATE FUNCTION fuzz.elsewhere(call text) RETURNS text LANGUAGE plpgsql SET search_path = fuzz, pg_temp SET "extaction.actor" = 'carol'
AS $$ BEGIN EXECUTE call; RETURN 'ok'; END $$;

-- In a trigger that is deferred to the commit, where there is no statement any more.
CREATE TABLE fuzz.calls (call text);
CREATE FUNCTION fuzz.call_at_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN EXECUTE NEW.call; RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON fuzz.calls DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fuzz.call_at_commit();
GRANT ALL ON fuzz.calls TO PUBLIC;
