--
-- Guards: facts are only inserted, by anyone
--

CREATE FUNCTION extaction.fact_tables() RETURNS SETOF text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$ VALUES ('ledger'), ('scopes'), ('contracts'), ('access_changes'), ('action_changes'), ('sources'), ('candidates'), ('requests'),
             ('approvals'), ('revocations'), ('batches'), ('intents'), ('events'), ('wakeups'),
             ('fake_task_requests'), ('fake_task_executions'), ('fake_tasks') $$;
REVOKE ALL ON FUNCTION extaction.fact_tables() FROM PUBLIC;
COMMENT ON FUNCTION extaction.fact_tables() IS 'The tables whose rows are never changed or deleted: each has the guard trigger "append_only".';

CREATE FUNCTION extaction.refuse_change() RETURNS trigger
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_refuse_change';
REVOKE ALL ON FUNCTION extaction.refuse_change() FROM PUBLIC;
COMMENT ON FUNCTION extaction.refuse_change() IS 'Trigger function of the guards: refuses UPDATE, DELETE and TRUNCATE with SQLSTATE 55000, superusers included.';

CREATE FUNCTION extaction.record_action_change() RETURNS trigger
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_record_action_change';
REVOKE ALL ON FUNCTION extaction.record_action_change() FROM PUBLIC;
COMMENT ON FUNCTION extaction.record_action_change() IS 'Trigger function: appends old and new row of the catalogue to action_changes.';

CREATE FUNCTION extaction.forget_catalogue() RETURNS trigger
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_forget_catalogue';
REVOKE ALL ON FUNCTION extaction.forget_catalogue() FROM PUBLIC;
COMMENT ON FUNCTION extaction.forget_catalogue() IS 'Trigger function: tells every session to read anew what it remembers of the catalogue, the members of scopes and the ledger''s last entry.';

CREATE FUNCTION extaction.missing_guards(OUT on_table text, OUT guard text, OUT definition text) RETURNS SETOF record
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
    SELECT g.on_table, g.guard,
           format('%s ON extaction.%I FOR EACH %s EXECUTE FUNCTION extaction.%I()', g.events, g.on_table, g.level, g.function)
    FROM (SELECT f, 'append_only', 58, 'BEFORE UPDATE OR DELETE OR TRUNCATE', 'STATEMENT', 'refuse_change'
          FROM extaction.fact_tables() f
          UNION ALL VALUES
              ('actions', 'record_action_change', 29, 'AFTER INSERT OR UPDATE OR DELETE', 'ROW', 'record_action_change'),
              ('actions', 'refuse_truncate', 34, 'BEFORE TRUNCATE', 'STATEMENT', 'refuse_change'),
              -- each row, for replication fires nothing else
              ('actions', 'forget', 29, 'AFTER INSERT OR UPDATE OR DELETE', 'ROW', 'forget_catalogue'),
              ('contracts', 'forget', 5, 'AFTER INSERT', 'ROW', 'forget_catalogue'),
              ('ledger', 'forget', 5, 'AFTER INSERT', 'ROW', 'forget_catalogue'),
              ('scope_members', 'forget', 29, 'AFTER INSERT OR UPDATE OR DELETE', 'ROW', 'forget_catalogue'))
         g (on_table, guard, type, events, level, function)
    WHERE NOT EXISTS (SELECT FROM pg_trigger t
                      WHERE t.tgrelid = format('extaction.%I', g.on_table)::regclass::oid
                        AND t.tgname = g.guard AND t.tgenabled = 'A' AND t.tgtype = g.type
                        AND t.tgqual IS NULL AND t.tgattr::text = ''
                        AND t.tgfoid = format('extaction.%I()', g.function)::regprocedure::oid)
$$;
REVOKE ALL ON FUNCTION extaction.missing_guards() FROM PUBLIC;
COMMENT ON FUNCTION extaction.missing_guards() IS
'The guard triggers that are missing, not "enabled always", or not as they were made (other events, a condition, another function). Auditor or owner.';

CREATE FUNCTION extaction.repair_guards() RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET client_min_messages = warning
AS $$
DECLARE
    missing record;
    repaired bigint := 0;
BEGIN
    FOR missing IN SELECT * FROM extaction.missing_guards()
    LOOP
        EXECUTE format('DROP TRIGGER IF EXISTS %I ON extaction.%I', missing.guard, missing.on_table);
        EXECUTE format('CREATE TRIGGER %I %s', missing.guard, missing.definition);
        EXECUTE format('ALTER TABLE extaction.%I ENABLE ALWAYS TRIGGER %I', missing.on_table, missing.guard);
        repaired := repaired + 1;
    END LOOP;
    RETURN repaired;
END
$$;
REVOKE ALL ON FUNCTION extaction.repair_guards() FROM PUBLIC;
COMMENT ON FUNCTION extaction.repair_guards() IS
'Sets every guard of missing_guards() again (pg_restore --disable-triggers leaves them not "enabled always"), and returns how many. For the owner of the extension.';

SELECT extaction.repair_guards();
