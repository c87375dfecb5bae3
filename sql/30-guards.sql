--
-- Guards: facts are only inserted, by anyone
--

CREATE FUNCTION extaction.fact_tables() RETURNS SETOF text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$ VALUES ('ledger'), ('scopes'), ('contracts'), ('access_changes'), ('action_changes'), ('sources'), ('candidates'), ('requests'),
             ('approvals'), ('revocations'), ('batches'), ('intents'), ('events'),
             ('fake_task_requests'), ('fake_task_executions'), ('fake_tasks') $$;
REVOKE ALL ON FUNCTION extaction.fact_tables() FROM PUBLIC;
COMMENT ON FUNCTION extaction.fact_tables() IS 'The tables whose rows are never changed or deleted: each has the guard trigger "append_only".';

CREATE FUNCTION extaction.refuse_change() RETURNS trigger
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_refuse_change';
REVOKE ALL ON FUNCTION extaction.refuse_change() FROM PUBLIC;
COMMENT ON FUNCTION extaction.refuse_change() IS 'Trigger function of the guards: refuses UPDATE, DELETE and TRUNCATE with SQLSTATE 55000, superusers included.';

CREATE FUNCTION extaction.repair_guards() RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    fact_table text;
    repaired bigint := 0;
BEGIN
    FOR fact_table IN
        SELECT f FROM extaction.fact_tables() f
        WHERE NOT EXISTS (SELECT FROM pg_trigger t
                          WHERE t.tgrelid = pg_catalog.format('extaction.%I', f)::regclass
                            AND t.tgname = 'append_only' AND t.tgenabled = 'A'
                            AND t.tgtype = 58 AND t.tgfoid = 'extaction.refuse_change()'::regprocedure)
    LOOP
        EXECUTE pg_catalog.format('DROP TRIGGER IF EXISTS append_only ON extaction.%I', fact_table);
        EXECUTE pg_catalog.format('CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON extaction.%I'
                                  ' FOR EACH STATEMENT EXECUTE FUNCTION extaction.refuse_change()', fact_table);
        EXECUTE pg_catalog.format('ALTER TABLE extaction.%I ENABLE ALWAYS TRIGGER append_only', fact_table);
        repaired := repaired + 1;
    END LOOP;
    RETURN repaired;
END
$$;
REVOKE ALL ON FUNCTION extaction.repair_guards() FROM PUBLIC;
COMMENT ON FUNCTION extaction.repair_guards() IS
'Sets every guard that is missing or not "enabled always" (as pg_restore --disable-triggers leaves them), and returns how many. For the owner of the extension.';

SELECT extaction.repair_guards();

CREATE FUNCTION extaction.record_action_change() RETURNS trigger
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_record_action_change';
REVOKE ALL ON FUNCTION extaction.record_action_change() FROM PUBLIC;
COMMENT ON FUNCTION extaction.record_action_change() IS 'Trigger function: appends old and new row of the catalogue to action_changes.';

CREATE TRIGGER record_action_change AFTER INSERT OR UPDATE OR DELETE ON extaction.actions
    FOR EACH ROW EXECUTE FUNCTION extaction.record_action_change();
ALTER TABLE extaction.actions ENABLE ALWAYS TRIGGER record_action_change;

CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON extaction.actions
    FOR EACH STATEMENT EXECUTE FUNCTION extaction.refuse_change();
ALTER TABLE extaction.actions ENABLE ALWAYS TRIGGER refuse_truncate;
