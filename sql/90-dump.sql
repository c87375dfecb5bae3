--
-- Dump marks: every table and sequence that holds data
--

SELECT pg_extension_config_dump('extaction.event_id_seq', '');
SELECT pg_extension_config_dump('extaction.ledger', '');
SELECT pg_extension_config_dump('extaction.scopes', '');
SELECT pg_extension_config_dump('extaction.scope_members', '');
SELECT pg_extension_config_dump('extaction.access_changes', '');
SELECT pg_extension_config_dump('extaction.actions', '');
SELECT pg_extension_config_dump('extaction.action_changes', '');
SELECT pg_extension_config_dump('extaction.sources', '');
SELECT pg_extension_config_dump('extaction.candidates', '');
SELECT pg_extension_config_dump('extaction.requests', '');
SELECT pg_extension_config_dump('extaction.approvals', '');
SELECT pg_extension_config_dump('extaction.revocations', '');
SELECT pg_extension_config_dump('extaction.intents', '');
SELECT pg_extension_config_dump('extaction.events', '');
SELECT pg_extension_config_dump('extaction.waiting', '');
SELECT pg_extension_config_dump('extaction.fake_task_request_seq', '');
SELECT pg_extension_config_dump('extaction.fake_task_execution_seq', '');
SELECT pg_extension_config_dump('extaction.fake_task_seq', '');
SELECT pg_extension_config_dump('extaction.fake_task_requests', '');
SELECT pg_extension_config_dump('extaction.fake_task_executions', '');
SELECT pg_extension_config_dump('extaction.fake_tasks', '');
SELECT pg_extension_config_dump('extaction.contracts', 'WHERE NOT shipped');
SELECT pg_extension_config_dump('extaction.claim_id_seq', '');
SELECT pg_extension_config_dump('extaction.worklist', '');
SELECT pg_extension_config_dump('extaction.pauses', '');
SELECT pg_extension_config_dump('extaction.batches', '');
SELECT pg_extension_config_dump('extaction.wake_sources', '');
SELECT pg_extension_config_dump('extaction.wakeups', '');
SELECT pg_extension_config_dump('extaction.unread_wakeups', '');
