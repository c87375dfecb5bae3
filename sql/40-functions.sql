--
-- Functions: documents, digests and keys
--

CREATE FUNCTION extaction.canonical(document jsonb) RETURNS text
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'extaction_canonical';
REVOKE ALL ON FUNCTION extaction.canonical(jsonb) FROM PUBLIC;
COMMENT ON FUNCTION extaction.canonical(jsonb) IS
'The RFC 8785 (JCS) text of a document. 22023 if a number is not exactly what its ECMAScript form shows (send it as a string); 54001 if nested too deep. Any member of a scope.';

CREATE FUNCTION extaction.digest(document jsonb) RETURNS bytea
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'extaction_digest';
REVOKE ALL ON FUNCTION extaction.digest(jsonb) FROM PUBLIC;
COMMENT ON FUNCTION extaction.digest(jsonb) IS
'SHA-256 (32 bytes) of the canonical text in UTF-8. Errors as canonical. Any member of a scope.';

CREATE FUNCTION extaction.stored_digest(document jsonb) RETURNS bytea
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'extaction_stored_digest';
REVOKE ALL ON FUNCTION extaction.stored_digest(jsonb) FROM PUBLIC;
COMMENT ON FUNCTION extaction.stored_digest(jsonb) IS
'The digest of a document that was taken once, for verify(): of any size, and NULL instead of an error if it has none (then somebody changed it). Auditor or owner.';

CREATE FUNCTION extaction.strict_json(document text) RETURNS jsonb
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'extaction_strict_json';
REVOKE ALL ON FUNCTION extaction.strict_json(text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.strict_json(text) IS
'Reads JSON text from outside: refuses duplicate member names (22030) and numbers without an exact canonical form (22023), which jsonb would silently merge or keep. Any member of a scope.';

CREATE FUNCTION extaction.idempotency_key(ledger_id uuid, scope text, intent_id text) RETURNS uuid
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'extaction_idempotency_key';
REVOKE ALL ON FUNCTION extaction.idempotency_key(uuid, text, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.idempotency_key(uuid, text, text) IS
'The key that travels with every attempt of an intent: version-8 UUID (RFC 9562) of SHA-256 over ledger, scope and intent_id, each with its length in front. Any member of a scope.';

CREATE FUNCTION extaction.request_digest(scope text, intent_id text, action text, destination text, payload jsonb,
                                         candidate_id text DEFAULT NULL) RETURNS text
LANGUAGE c STABLE AS 'MODULE_PATHNAME', 'extaction_request_digest';
REVOKE ALL ON FUNCTION extaction.request_digest(text, text, text, text, jsonb, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.request_digest(text, text, text, text, jsonb, text) IS
'What an approval of this request would be bound to: SHA-256 of its canonical text, lower-case hex. With a candidate, of its newest revision. payload NULL with a candidate: the candidate''s content. Any member of the scope.';


--
-- Functions: scopes and access
--

CREATE FUNCTION extaction.create_scope(scope text) RETURNS text
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_create_scope';
REVOKE ALL ON FUNCTION extaction.create_scope(text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.create_scope(text) IS
'Makes a scope and its caller the owner; answers created, or exists if the caller already owns it. The very first call also makes the ledger''s own row. 42501 if the scope is another''s. Superusers, and roles that were granted EXECUTE.';

CREATE FUNCTION extaction.grant_access(scope text, role text, capability text, vouches_for text DEFAULT NULL) RETURNS text
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_grant_access';
REVOKE ALL ON FUNCTION extaction.grant_access(text, text, text, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.grant_access(text, text, text, text) IS
'Gives a role a capability in a scope (submitter, approver, worker, auditor, owner) and the SQL privileges it needs; answers granted or unchanged. vouches_for, a note such as "users of the web app", marks a role that speaks for many people: it must then name an actor in every call, and role and actor together are the identity. 42501 not the owner, 42704 no such role, 22023 no such capability. Owner.';

CREATE FUNCTION extaction.revoke_access(scope text, role text, capability text) RETURNS text
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_revoke_access';
REVOKE ALL ON FUNCTION extaction.revoke_access(text, text, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.revoke_access(text, text, text) IS
'Takes a capability back; answers revoked or unchanged. 55000 if it is the last owner. Owner.';


--
-- Functions: asking
--

CREATE FUNCTION extaction.observe_source(scope text, source_id text, source_version text, actor text DEFAULT NULL) RETURNS text
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_observe_source';
REVOKE ALL ON FUNCTION extaction.observe_source(text, text, text, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.observe_source(text, text, text, text) IS
'Records which version of a source is current; answers observed or unchanged. Approvals of candidates read from another version no longer pass. Submitter or worker.';

CREATE FUNCTION extaction.propose(scope text, candidate_id text, content jsonb, source_id text, source_version text,
                                  actor text DEFAULT NULL) RETURNS extaction.proposal
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_propose';
REVOKE ALL ON FUNCTION extaction.propose(text, text, jsonb, text, text, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.propose(text, text, jsonb, text, text, text) IS
'Records what a program proposes and the source version it was read from. A new revision, unless content, source and version are all the same. Allows nothing. Submitter.';

CREATE FUNCTION extaction.submit_fake_task(scope text, request jsonb, approval_id text DEFAULT NULL,
                                           actor text DEFAULT NULL) RETURNS extaction.receipt
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_submit_fake_task';
REVOKE ALL ON FUNCTION extaction.submit_fake_task(text, jsonb, text, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.submit_fake_task(text, jsonb, text, text) IS
'The whole trip to a provider inside the database, for a task-request.v1 document: gates, then the fake provider, which counts requests, executions and tasks (fake_task_counts). status created, replayed, conflict or blocked (gate and needs say why; approve, then submit again). 22023 malformed document (path in the detail), 40001 in REPEATABLE READ or stricter when another caller was first. Submitter; anybody else is blocked by the gate scope_denied.';

CREATE FUNCTION extaction.find(scope text, intent_id text) RETURNS extaction.receipt
LANGUAGE c STABLE AS 'MODULE_PATHNAME', 'extaction_find';
REVOKE ALL ON FUNCTION extaction.find(text, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.find(text, text) IS
'Where an intent stands, as a receipt with status found; NULL if the scope has no such intent. 42501 if the caller is no member. Any member.';

CREATE FUNCTION extaction.accepted(answer extaction.receipt) RETURNS extaction.receipt
LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'extaction_accepted';
REVOKE ALL ON FUNCTION extaction.accepted(extaction.receipt) FROM PUBLIC;
COMMENT ON FUNCTION extaction.accepted(extaction.receipt) IS
'Passes a receipt through, but raises on status conflict (23505) and blocked (42501, the gate in the constraint-name field), for callers who want an exception. The error rolls back what the verb recorded. Any member.';


--
-- Functions: deciding
--

CREATE FUNCTION extaction.approve_fake_task(scope text, request jsonb, expires_at timestamptz DEFAULT NULL,
                                            approval_id text DEFAULT NULL, capability text DEFAULT 'create_fake_task',
                                            actor text DEFAULT NULL) RETURNS extaction.approval_receipt
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_approve_fake_task';
REVOKE ALL ON FUNCTION extaction.approve_fake_task(text, jsonb, timestamptz, text, text, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.approve_fake_task(text, jsonb, timestamptz, text, text, text) IS
'Allows exactly this request until expires_at (default: now + the action''s approval_ttl; capped by approval_ttl_max). Executes nothing: the caller submits. status approved, or already_approved if the same identity''s approval still holds. An expires_at in the past gives an approval that holds for nothing, and needs says so. 22023 malformed document, 42704 the action is not in the catalogue, 23505 approval_id used before. Approver.';

CREATE FUNCTION extaction.revoke_approval(scope text, approval_id text, reason text, actor text DEFAULT NULL)
RETURNS extaction.approval_receipt
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_revoke_approval';
REVOKE ALL ON FUNCTION extaction.revoke_approval(text, text, text, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.revoke_approval(text, text, text, text) IS
'Takes an approval back; waits for transactions that are just using it. status revoked, or too_late if the request has already gone out (detail says which attempts). 42704 no such approval. Approver.';


--
-- Functions: asking for an action at a provider
--

CREATE FUNCTION extaction.submit(scope text, intent_id text, action text, destination text, payload jsonb DEFAULT NULL,
                                 approval_id text DEFAULT NULL, candidate_id text DEFAULT NULL, not_before timestamptz DEFAULT NULL,
                                 actor text DEFAULT NULL)
RETURNS extaction.receipt
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_submit';
REVOKE ALL ON FUNCTION extaction.submit(text, text, text, text, jsonb, text, text, timestamptz, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.submit(text, text, text, text, jsonb, text, text, timestamptz, text) IS
'Asks for one external action. status created (bound for ever to this content, on the worklist), replayed (the same again: nothing goes out), conflict (the intent is bound to another content), blocked (a gate says no: the request waits for an approver, whose approval lets it go on without another submit). payload NULL with a candidate: the candidate''s content. 22023 bad identifier or document, 42704 no such candidate, 40001 in REPEATABLE READ or stricter when another caller was first. Submitter; anybody else is blocked by the gate scope_denied.';

CREATE FUNCTION extaction.cancel(scope text, intent_id text, reason text, actor text DEFAULT NULL)
RETURNS extaction.receipt
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_cancel';
REVOKE ALL ON FUNCTION extaction.cancel(text, text, text, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.cancel(text, text, text, text) IS
'Withdraws what never went out: waiting, prepared, or blocked before its first attempt. status done, replayed, or refused (needs says why). Submitter, approver.';

CREATE FUNCTION extaction.compensate(scope text, intent_id text, new_intent_id text, action text, destination text, payload jsonb,
                                     reason text, actor text DEFAULT NULL)
RETURNS extaction.receipt
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_compensate';
REVOKE ALL ON FUNCTION extaction.compensate(text, text, text, text, text, jsonb, text, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.compensate(text, text, text, text, text, jsonb, text, text) IS
'Asks for the undo of an intent that happened, as a new intent of its own, approved like any other. It is prepared no earlier than the first one''s last lease + late_arrival_bound, because an older request still on its way could act after the undo. status as submit, or refused if the intent did not happen (or is not known to have). Submitter.';

CREATE FUNCTION extaction.canonical_request(scope text, intent_id text)
RETURNS text
LANGUAGE c STABLE AS 'MODULE_PATHNAME', 'extaction_canonical_request';
REVOKE ALL ON FUNCTION extaction.canonical_request(text, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.canonical_request(text, text) IS
'The text that an intent''s digest is taken of: sha256sum of it, in UTF-8 and without a line end, is its request_digest. NULL if the scope has no such intent. Any member.';

CREATE FUNCTION extaction.check_gates(scope text, intent_id text, OUT gate text, OUT passes boolean, OUT detail text,
                                      OUT who_can_fix text)
RETURNS SETOF record
LANGUAGE c STABLE AS 'MODULE_PATHNAME', 'extaction_check_gates';
REVOKE ALL ON FUNCTION extaction.check_gates(text, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.check_gates(text, text) IS
'Every gate for an intent, bound or waiting, as it would answer now; no row if the scope has no such intent. Any member.';

CREATE FUNCTION extaction.next_step(scope text, intent_id text)
RETURNS extaction.step
LANGUAGE c STABLE AS 'MODULE_PATHNAME', 'extaction_next_step';
REVOKE ALL ON FUNCTION extaction.next_step(text, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.next_step(text, text) IS
'What comes next for an intent, why, and when: approve, send, wait, resend, look, human or done. An uncertain one is judged under the contract pinned at prepare, the one in force and those already announced, and the most careful answer counts. NULL if the scope has no such intent. Any member.';


--
-- Functions: deciding
--

CREATE FUNCTION extaction.approve(scope text, request_digest text, expires_at timestamptz DEFAULT NULL, note text DEFAULT NULL,
                                  actor text DEFAULT NULL)
RETURNS extaction.approval_receipt
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_approve';
REVOKE ALL ON FUNCTION extaction.approve(text, text, timestamptz, text, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.approve(text, text, timestamptz, text, text) IS
'Allows the request that waits under this digest (hex; see pending_approvals). When enough have approved, the request goes on by itself. status approved, already_approved, superseded (another content waits now; needs names its digest), closed (done or cancelled), not_yours (you asked for it), rejected (an approver said no). Default end: now + the action''s approval_ttl; capped by approval_ttl_max. 42704 no such request. Approver.';

CREATE FUNCTION extaction.reject(scope text, request_digest text, reason text, actor text DEFAULT NULL)
RETURNS extaction.approval_receipt
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_reject';
REVOKE ALL ON FUNCTION extaction.reject(text, text, text, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.reject(text, text, text, text) IS
'Says no to the request that waits under this digest; the same content again is stopped by the gate rejected. status rejected, superseded or closed. Approver.';

CREATE FUNCTION extaction.approve_in_advance(scope text, intent_id text, action text, destination text, payload jsonb,
                                             candidate_id text DEFAULT NULL, expires_at timestamptz DEFAULT NULL, approval_id text DEFAULT NULL,
                                             note text DEFAULT NULL, actor text DEFAULT NULL)
RETURNS extaction.approval_receipt
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_approve_in_advance';
REVOKE ALL ON FUNCTION extaction.approve_in_advance(text, text, text, text, jsonb, text, timestamptz, text, text, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.approve_in_advance(text, text, text, text, jsonb, text, timestamptz, text, text, text) IS
'Allows a request that nobody has submitted yet (or one that waits: it goes on). status approved, already_approved, rejected or closed. 22023, 42704 as submit; 23505 approval_id used before. Approver.';

CREATE FUNCTION extaction.decide(scope text, intent_id text, finding text, reason text, looked_at timestamptz DEFAULT NULL,
                                 evidence jsonb DEFAULT NULL, provider_ref text DEFAULT NULL, actor text DEFAULT NULL)
RETURNS extaction.receipt
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_decide';
REVOKE ALL ON FUNCTION extaction.decide(text, text, text, text, timestamptz, jsonb, text, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.decide(text, text, text, text, timestamptz, jsonb, text, text) IS
'A human''s word about an uncertain intent: found or absent. absent needs looked_at, when the look began, and is taken only after the quiet period; before that the receipt is not_proven and says until when to wait. Approver.';

CREATE FUNCTION extaction.retry(scope text, intent_id text, reason text, actor text DEFAULT NULL)
RETURNS extaction.receipt
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_retry';
REVOKE ALL ON FUNCTION extaction.retry(text, text, text, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.retry(text, text, text, text) IS
'Prepares a closed not_happened again, under the same key, if all gates pass; uncertain first, if the ledger was restored since it was closed. status done, replayed or refused. Approver.';

CREATE FUNCTION extaction.abandon(scope text, intent_id text, reason text, actor text DEFAULT NULL)
RETURNS extaction.receipt
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_abandon';
REVOKE ALL ON FUNCTION extaction.abandon(text, text, text, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.abandon(text, text, text, text) IS
'Gives up finding out about an uncertain intent: it stays uncertain and leaves the list. status done, replayed or refused. Approver.';

CREATE FUNCTION extaction.pause(scope text DEFAULT NULL, action text DEFAULT NULL, reason text DEFAULT NULL)
RETURNS text
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_pause';
REVOKE ALL ON FUNCTION extaction.pause(text, text, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.pause(text, text, text) IS
'claim skips a scope (NULL = all), an action (NULL = all) until resume; no state changes. A reason must be given. Answers paused or unchanged. Owner of the scope; for all scopes the owner of the extension.';

CREATE FUNCTION extaction.resume(scope text DEFAULT NULL, action text DEFAULT NULL)
RETURNS text
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_resume';
REVOKE ALL ON FUNCTION extaction.resume(text, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.resume(text, text) IS
'Ends a pause, named by the same arguments; answers resumed or unchanged. Who may pause.';


--
-- Functions: going out and coming back
--

CREATE FUNCTION extaction.claim(worker text, max_intents bigint DEFAULT 1, step text DEFAULT 'send', lease interval DEFAULT NULL,
                                action text DEFAULT NULL, provider text DEFAULT NULL, scope text DEFAULT NULL)
RETURNS extaction.ticket
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_claim';
REVOKE ALL ON FUNCTION extaction.claim(text, bigint, text, interval, text, text, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.claim(text, bigint, text, interval, text, text, text) IS
'Takes the right to send, resend or look for up to max_intents that are due, oldest first, all gates asked again. Commit it, then call claimed. lease must be longer than the actions'' call_timeout (NULL = the longest of them + 30 s) and never outlasts the approval. 22023 bad step, lease or number; 25001 in REPEATABLE READ or stricter; 25006 in recovery; 55000 while the ledger does not know where it is (see adopt). Worker.';

CREATE FUNCTION extaction.claimed(claim_id bigint)
RETURNS SETOF extaction.envelope
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_claimed';
REVOKE ALL ON FUNCTION extaction.claimed(bigint) FROM PUBLIC;
COMMENT ON FUNCTION extaction.claimed(bigint) IS
'What to send or look up under a committed ticket; each row is handed out once, to the role that claimed, as long as it is a worker there. 55000 if the claim is not committed yet, or if the wait for the synchronous standby to confirm it was cancelled. Worker.';

CREATE FUNCTION extaction.extend(claim_id bigint, lease interval)
RETURNS timestamptz
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_extend';
REVOKE ALL ON FUNCTION extaction.extend(bigint, interval) FROM PUBLIC;
COMMENT ON FUNCTION extaction.extend(bigint, interval) IS
'Makes the leases of a ticket end later: now + lease, capped by approval and retention. Answers the earliest end, NULL if nothing of it is running. Worker.';

CREATE FUNCTION extaction.release(claim_id bigint, intent_ids text[] DEFAULT NULL)
RETURNS bigint
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_release';
REVOKE ALL ON FUNCTION extaction.release(bigint, text[]) FROM PUBLIC;
COMMENT ON FUNCTION extaction.release(bigint, text[]) IS
'Gives back what was never sent (NULL = all of the ticket); it does not count as a try. Answers how many. Worker.';

CREATE FUNCTION extaction.record_outcome(scope text, intent_id text, attempt bigint, outcome text, evidence jsonb DEFAULT NULL,
                                         provider_ref text DEFAULT NULL, retry_after interval DEFAULT NULL)
RETURNS extaction.receipt
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_record_outcome';
REVOKE ALL ON FUNCTION extaction.record_outcome(text, text, bigint, text, jsonb, text, interval) FROM PUBLIC;
COMMENT ON FUNCTION extaction.record_outcome(text, text, bigint, text, jsonb, text, interval) IS
'What came of an attempt: happened, not_happened or uncertain. The ledger judges: happened takes evidence or a provider_ref; not_happened takes the code never_sent, or one that the contract lists as proof, and no earlier attempt open; anything else is kept as uncertain (status not_proven). status recorded, replayed, not_proven, late (an older attempt: kept as evidence). 22023 no such outcome or attempt. Worker.';

CREATE FUNCTION extaction.record_lookup(scope text, intent_id text, finding text, evidence jsonb DEFAULT NULL,
                                        looked_at timestamptz DEFAULT NULL, provider_ref text DEFAULT NULL)
RETURNS extaction.receipt
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_record_lookup';
REVOKE ALL ON FUNCTION extaction.record_lookup(text, text, text, jsonb, timestamptz, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.record_lookup(text, text, text, jsonb, timestamptz, text) IS
'What a look-up found: found, absent or unknown. found is taken at any time; absent only if the contract says that absence is proof, and the look began after the quiet period; unknown is due again later. Worker.';

CREATE FUNCTION extaction.sweep()
RETURNS bigint
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_sweep';
REVOKE ALL ON FUNCTION extaction.sweep() FROM PUBLIC;
COMMENT ON FUNCTION extaction.sweep() IS
'Writes down which leases have ended (uncertain, never free); every claim does some of it. Lets go on what the catalogue or the access had stopped and stops no more, and withdraws what has waited for longer than the action''s request_ttl: call it from time to time. Answers how many moved. Worker.';

CREATE FUNCTION extaction.adopt(kind text, backup_taken_at timestamptz DEFAULT NULL, window_until timestamptz DEFAULT NULL)
RETURNS text
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_adopt';
REVOKE ALL ON FUNCTION extaction.adopt(text, timestamptz, timestamptz) FROM PUBLIC;
COMMENT ON FUNCTION extaction.adopt(text, timestamptz, timestamptz) IS
'Says what this database is when it is not where the ledger last was: moved (nothing was lost), restored (from a backup taken at backup_taken_at; what was first submitted before window_until may have gone out), copy (a clone that must not send what the original will). Until then claim and claimed refuse. 22023 bad arguments. The owner of the extension.';


--
-- Functions: one approval over a whole list
--

CREATE FUNCTION extaction.submit_batch(scope text, batch_id text, action text, payload jsonb, items jsonb,
                                       approval_id text DEFAULT NULL, not_before timestamptz DEFAULT NULL, actor text DEFAULT NULL)
RETURNS extaction.batch_receipt
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_submit_batch';
REVOKE ALL ON FUNCTION extaction.submit_batch(text, text, text, jsonb, jsonb, text, timestamptz, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.submit_batch(text, text, text, jsonb, jsonb, text, timestamptz, text) IS
'Asks for one action many times under one approval. items: an array of {"intent_id", "destination", "payload"}; an item''s payload is the shared one with its own members laid over it. One digest covers the shared payload and the ordered list. The gates are asked of the whole, all or nothing; then each item is created, replayed or in conflict on its own (view batch_items). 22023 malformed, with the path (items[17].destination), or one intent_id twice. Submitter.';

CREATE FUNCTION extaction.approve_batch_in_advance(scope text, batch_id text, action text, payload jsonb, items jsonb,
                                                   expires_at timestamptz DEFAULT NULL, approval_id text DEFAULT NULL,
                                                   note text DEFAULT NULL, actor text DEFAULT NULL)
RETURNS extaction.approval_receipt
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_approve_batch_in_advance';
REVOKE ALL ON FUNCTION extaction.approve_batch_in_advance(text, text, text, jsonb, jsonb, timestamptz, text, text, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.approve_batch_in_advance(text, text, text, jsonb, jsonb, timestamptz, text, text, text) IS
'Allows a whole list that nobody has submitted yet (or one that waits: it goes on). status as approve_in_advance. Approver.';


--
-- Functions: waking and erasing
--

CREATE FUNCTION extaction.set_wake_source(scope text, source text, secret text DEFAULT NULL) RETURNS text
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_set_wake_source';
REVOKE ALL ON FUNCTION extaction.set_wake_source(text, text, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.set_wake_source(text, text, text) IS
'Lists a source that may wake a scope, or gives it another secret; answers created, changed or unchanged. secret: what the source signs with, as UTF-8 or as \x and hex digits; NULL = it does not sign. 42501 not the owner; 22023 an empty secret. Owner.';

CREATE FUNCTION extaction.drop_wake_source(scope text, source text) RETURNS text
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_drop_wake_source';
REVOKE ALL ON FUNCTION extaction.drop_wake_source(text, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.drop_wake_source(text, text) IS
'Takes a source off the list; what it has told stays. Answers dropped or unchanged. 42501 not the owner. Owner.';

CREATE FUNCTION extaction.wake(scope text, source text, event_id text, payload text, signature text DEFAULT NULL) RETURNS text
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_wake';
REVOKE ALL ON FUNCTION extaction.wake(text, text, text, text, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.wake(text, text, text, text, text) IS
'Takes what a source outside tells, once per event_id. accepted; duplicate: the same again; conflict: other content under the same id, not kept; refused: the source is not listed, or the signature is missing or wrong. signature: HMAC-SHA256 of the payload''s UTF-8 bytes in hex, also with sha256= in front. 42501 not a member. Submitter, worker or owner.';

CREATE FUNCTION extaction.next_wakeup(scope text, source text DEFAULT NULL, max_wakeups bigint DEFAULT 1,
                                      OUT source text, OUT event_id text, OUT payload text, OUT recorded_at timestamptz, OUT wakeup_id bigint)
RETURNS SETOF record
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_next_wakeup';
REVOKE ALL ON FUNCTION extaction.next_wakeup(text, text, bigint) FROM PUBLIC;
COMMENT ON FUNCTION extaction.next_wakeup(text, text, bigint) IS
'The oldest wakeups that nobody has read, up to max_wakeups (1 to 10000); no row if there are none. They count as read when the transaction commits; those that another transaction is reading are passed over. 42501 not a member. Submitter, worker or owner.';

CREATE FUNCTION extaction.redact(scope text, intent_id text, reason text, actor text DEFAULT NULL) RETURNS extaction.receipt
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_redact';
REVOKE ALL ON FUNCTION extaction.redact(text, text, text, text) FROM PUBLIC;
COMMENT ON FUNCTION extaction.redact(text, text, text, text) IS
'Erases what the ledger holds of an intent''s content: payload, destination and evidence, wherever there is a copy. Digests, key and events stay, so it is still replayed and verify() still holds. done; replayed: there was nothing left; refused: it may still go out. An uncertain one can be erased and is never sent again. 42501 not the owner. Owner.';

CREATE FUNCTION extaction.redact_older_than(scope text, age interval, max bigint DEFAULT NULL) RETURNS bigint
LANGUAGE c AS 'MODULE_PATHNAME', 'extaction_redact_older_than';
REVOKE ALL ON FUNCTION extaction.redact_older_than(text, interval, bigint) FROM PUBLIC;
COMMENT ON FUNCTION extaction.redact_older_than(text, interval, bigint) IS
'redact for every intent that is closed, and every request or list that came to nothing, of which nothing has been heard for that long; payloads of wakeups too. max: at most so many in this call (NULL = all); answers how many. Reads the scope''s history: call it rarely, with a large max. 42501 not the owner. Owner.';
