#!/usr/bin/env python3
"""Random calls of every function of the extension, from several sessions at once, in every kind of transaction.

    random_calls.py [--seconds 30] [--sessions 4] [--seed N] [--log SERVERLOG]

connects as a superuser by PGHOST, PGPORT, PGDATABASE, PGUSER to a database of its own, where it makes what it needs.  The functions come
from pg_proc, so a new one joins by itself.  Nothing is said about answers; these are faults:

  - an internal error (SQLSTATE class XX), a crash, a failed assertion;
  - a complaint in the server's log: something not released, not closed, not reset;
  - verify() has something to say afterwards, or the worklist is not the fold of the facts.

The last line is a summary; exit status 1 means faults, which are shown.  Sessions disturb each other, so a seed repeats the calls but not
always what comes of them.
"""
import argparse
import collections
import multiprocessing
import os
import queue
import random
import re
import sys
import time
import traceback

import psycopg
from psycopg.pq import DiagnosticField, ExecStatus, PGconn

from values import Values, literal

HERE = os.path.dirname(os.path.abspath(__file__))
CODECS = {"UTF8": "utf-8", "LATIN1": "latin-1", "EUC_JP": "euc_jp", "SQL_ASCII": "utf-8"}

ROLES = ["fuzz_owner", "fuzz_submitter", "fuzz_submitter", "fuzz_approver", "fuzz_approver", "fuzz_worker", "fuzz_worker", "fuzz_auditor",
         "fuzz_many", "fuzz_many", "fuzz_voucher", "fuzz_nobody", "fuzz_maker", "fuzz_gone"] + ["superuser"] * 7

# Rarely: what changes the world for everybody.  Often: what gets work through.
SELDOM = {"adopt": 0.03, "pause": 0.05, "rebuild_worklist": 0.05, "repair_guards": 0.1, "revoke_access": 0.2, "verify": 0.1}
OFTEN = {"submit": 4, "claim": 4, "claimed": 3, "record_outcome": 4, "record_lookup": 2, "approve": 2, "approve_in_advance": 2,
         "submit_batch": 2, "resume": 2}

BEGINS = ["BEGIN", "BEGIN", "BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ", "BEGIN ISOLATION LEVEL SERIALIZABLE", "BEGIN READ ONLY",
          "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY"]
SETTINGS = ["search_path = fuzz, pg_temp, pg_catalog", "extaction.actor = 'dora'", "extaction.log_replays = off", "IntervalStyle = sql_standard",
            "DateStyle = 'German'", "TimeZone = 'Asia/Kathmandu'", "synchronous_commit = off", "work_mem = '64kB'", "max_stack_depth = '100kB'",
            "plan_cache_mode = force_custom_plan", "client_min_messages = debug5", "statement_timeout = 20", "statement_timeout = 3",
            "extaction.max_document_size = 1", "enable_indexscan = off", "idle_in_transaction_session_timeout = 1000",
            "cursor_tuple_fraction = 0", "default_transaction_deferrable = on", "row_security = off", "quote_all_identifiers = on"]

LOG_FAULT = re.compile(r"TRAP:|PANIC:|terminated by signal|WARNING:.*(leak|snapshot|still active|not closed|not released|unclosed|refcount|"
                       r"resource|transaction left|nest|own)|ERROR:.*(cache lookup failed|could not open relation with OID)|internal error|problem in|runtime error:|AddressSanitizer")


# What PostgreSQL says with XX000 where GRANT meets another DDL statement about the same object, such as disturb() and repair_guards() run.
TWO_CHANGES = "tuple concurrently updated"


class Lost(Exception):
    """The connection is gone."""


class Session:
    """One connection, by libpq itself: queries are bytes, in the encoding of the database, well-formed or not."""

    def __init__(self):
        self.pq = PGconn.connect(b"application_name=random_calls options='-c lock_timeout=2s -c client_min_messages=error'")
        if self.pq.status != 0:
            raise Lost(self.pq.error_message.decode("utf-8", "replace"))
        encoding = self.run("SHOW server_encoding", "utf-8").get_value(0, 0).decode()
        self.codec = CODECS.get(encoding, "utf-8")
        self.run("SET client_encoding = " + encoding, "utf-8")

    def run(self, sql, codec=None):
        """Runs it; returns libpq's result.  Half characters pass, what the encoding lacks becomes a question mark."""
        codec = codec or self.codec
        try:
            query = sql.encode(codec, "surrogateescape")
        except UnicodeEncodeError:
            query = b"".join(c.encode(codec, "surrogateescape" if "\udc80" <= c <= "\udcff" else "replace") for c in sql)
        try:
            result = self.pq.exec_(query.replace(b"\0", b""))
        except MemoryError:                 # what psycopg says when there is no result: the session was ended
            raise Lost(self.pq.error_message.decode("utf-8", "replace"))
        if self.pq.status != 0:
            raise Lost(self.pq.error_message.decode("utf-8", "replace"))
        return result

    def text(self, value):
        return value.decode(self.codec, "surrogateescape")


def sqlstate(result):
    state = result.error_field(DiagnosticField.SQLSTATE)
    return state.decode() if state else ""


def said(result):
    field = lambda f: (result.error_field(f) or b"").decode("utf-8", "replace")
    return "%s: %s (%s, %s:%s) %s" % (sqlstate(result), field(DiagnosticField.MESSAGE_PRIMARY), field(DiagnosticField.SOURCE_FUNCTION),
                                      field(DiagnosticField.SOURCE_FILE), field(DiagnosticField.SOURCE_LINE), field(DiagnosticField.CONTEXT))


class Caller:
    """One session's random life."""

    def __init__(self, seed, functions, views):
        self.random = random.Random(seed)
        self.values = Values(self.random)
        self.functions = functions
        self.weights = [SELDOM.get(f[0], OFTEN.get(f[0], 1)) for f in functions]
        self.views = views
        self.calls = collections.Counter()
        self.worked = collections.Counter()
        self.states = collections.Counter()
        self.faults = []
        self.session = None

    def live(self, until):
        while time.monotonic() < until and len(self.faults) < 20:
            try:
                if self.session is None:
                    self.session = Session()
                    self.learn_candidate()
                self.episode()
            except Lost as lost:
                self.session = None
                if "crash of another" in str(lost) or "recovery mode" in str(lost):
                    self.faults.append("the server crashed: %s" % lost)
                    time.sleep(2)

    def learn_candidate(self):
        result = self.session.run("SELECT encode(extaction.digest('{\"title\": \"call\"}'), 'hex')")
        if result.ntuples:
            self.values.learn("candidate", self.session.text(result.get_value(0, 0)))

    def episode(self):
        """Somebody comes with his settings, does something, and goes."""
        pick = self.random.choice
        role = pick(ROLES)
        for _ in range(pick([0, 0, 1, 2])):
            self.session.run("SET " + pick(SETTINGS))
        if self.random.random() < 0.02:
            self.session.run("SET debug_discard_caches = 1")        # has an effect in a server with assertions
        if self.random.random() < 0.1:
            self.session.run("SET %s = on" % pick(["force_parallel_mode", "debug_parallel_query"]))     # before 16, since 16
        if role != "superuser":
            self.session.run(("SET ROLE " if self.random.random() < 0.2 else "SET SESSION AUTHORIZATION ") + role)
        if self.random.random() < 0.5:
            for _ in range(self.random.randrange(1, 6)):
                self.call()
        else:
            self.transaction()
        for reset in ("ROLLBACK", "RESET SESSION AUTHORIZATION", "RESET ROLE", pick(["RESET ALL", "DISCARD ALL"]),
                      "SET client_min_messages = error", "SET lock_timeout = '2s'"):
            self.session.run(reset)

    def transaction(self):
        pick = self.random.choice
        self.session.run(pick(BEGINS))
        for _ in range(self.random.randrange(1, 7)):
            careful = self.random.random() < 0.6
            if careful:
                self.session.run("SAVEPOINT s")
            worked = self.call()
            if careful and (not worked or self.random.random() < 0.2):
                self.session.run("ROLLBACK TO s")
            elif careful and self.random.random() < 0.3:
                self.session.run("RELEASE s")
            elif not worked:
                break
        if self.random.random() < 0.1 and sqlstate(self.session.run("PREPARE TRANSACTION 'p%d'" % os.getpid())) == "":
            self.session.run("RESET SESSION AUTHORIZATION")
            self.session.run(pick(["COMMIT", "ROLLBACK"]) + " PREPARED 'p%d'" % os.getpid())
        else:
            self.judge(self.session.run(pick(["COMMIT", "COMMIT", "ROLLBACK"])), "COMMIT", "(the end of a transaction)")

    def call(self):
        """One call, in one of many ways.  True if it succeeded."""
        if self.random.random() < 0.08:
            view = self.random.choice(self.views)
            sql = "SELECT * FROM extaction.%s" % view
            self.calls[view] += 1
            return self.judge(self.session.run(sql + " LIMIT 200"), view, sql)
        name, arguments, for_trigger = self.random.choices(self.functions, self.weights)[0]
        nastiness = self.random.choice([0, 0, 0, 0.1, 0.3, 1])
        given = ["%s => %s" % (n, self.values.argument(n, t, nastiness)) if n else self.values.argument("", t, nastiness)
                 for n, t, optional in arguments if not optional or self.random.random() < 0.6]
        call = "extaction.%s(%s)" % (name, ", ".join(given))
        sql = "SELECT " + call if for_trigger else self.dress(call)
        self.calls[name] += 1
        result = self.session.run(sql)
        worked = self.judge(result, name, sql)
        if worked and result.status == ExecStatus.TUPLES_OK:
            for column in range(result.nfields):
                label = result.fname(column).decode()
                for row in range(min(result.ntuples, 3)):
                    if result.get_value(row, column):
                        self.values.learn(label, self.session.text(result.get_value(row, column)))
        return worked

    def dress(self, call):
        plain = "SELECT * FROM " + call
        pick = self.random.random()
        if pick < 0.6:
            return plain
        if pick < 0.65:
            return "SELECT " + call
        if pick < 0.7:
            return "SELECT count(*) FROM generate_series(1, 3), LATERAL %s" % call
        if pick < 0.78:
            return "SELECT fuzz.attempt(%s) AS said" % literal(plain)
        if pick < 0.82:
            return "SELECT fuzz.%s(%s) AS said" % (self.random.choice(["as_superuser", "elsewhere"]), literal(plain))
        if pick < 0.86:
            return "INSERT INTO fuzz.calls VALUES (%s)" % literal(plain)
        if pick < 0.9:                      # a security-restricted operation
            name = "fuzz.m%d" % self.random.randrange(1000000)
            return "CREATE MATERIALIZED VIEW %s AS SELECT (%s)::text AS said; DROP MATERIALIZED VIEW %s" % (name, call, name)
        if pick < 0.94:
            return "BEGIN; DECLARE c CURSOR FOR %s; FETCH 1 FROM c" % plain
        if pick < 0.97:
            return "DEALLOCATE ALL; PREPARE p AS %s; EXECUTE p; EXECUTE p" % plain
        return "SELECT coalesce(NULL, (SELECT t::text FROM %s t LIMIT 1)) FROM generate_series(1, 4)" % call

    def judge(self, result, name, sql):
        """Counts an answer; notes a fault.  True if the call succeeded."""
        state = sqlstate(result)
        if state == "" and sql.startswith("SELECT fuzz.attempt") and result.ntuples and not result.get_value(0, 0).startswith(b"ok"):
            state = self.session.text(result.get_value(0, 0))[:5]
            if state.startswith("XX") and TWO_CHANGES not in self.session.text(result.get_value(0, 0)):
                self.fault(self.session.text(result.get_value(0, 0)), sql)
        elif state == "57P02" or state.startswith("XX") and TWO_CHANGES not in said(result):
            self.fault(said(result), sql)
        self.states[state or "ok"] += 1
        if state == "":
            self.worked[name] += 1
        return state == ""

    def fault(self, what, sql):
        self.faults.append("%s\n    %s" % (what, sql if len(sql) < 2000 else sql[:1000] + " ... " + sql[-1000:]))


def administer():
    """A connection to look at things with, whatever the encoding is; after a crash, when the server is there again."""
    for _ in range(120):
        try:
            return psycopg.connect(autocommit=True, client_encoding="UTF8")
        except psycopg.OperationalError as error:
            last = error
            time.sleep(1)
    raise last


def disturb(seed, until):
    """Cancels statements at any moment, ends sessions, and changes what plans and caches rest on."""
    rng = random.Random(seed)
    deeds = ["UPDATE extaction.actions SET description = random()::text, enabled = random() < 0.95 WHERE action = 'post'",
             "UPDATE extaction.actions SET max_attempts = 1 + (random() * 8)::int, approvals_required = 1 WHERE action = 'mail'",
             "INSERT INTO extaction.contracts (provider, operation, version, key_carrier, key_name, retention, on_expired, on_replay, on_mismatch, "
             "on_concurrent, stores_failures, lookup, absence_is_proof) SELECT 'acme', 'mail', coalesce(max(version), 0) + 1, 'header', 'K', '1 h', "
             "'unknown', 'first_result', 'rejects', 'waits', 'all', 'by_key', true FROM extaction.contracts WHERE operation = 'mail'",
             "ANALYZE extaction.worklist", "VACUUM extaction.worklist", "REINDEX TABLE extaction.waiting", "ANALYZE",
             "ALTER TABLE extaction.worklist SET (fillfactor = 50)", "DROP OWNED BY fuzz_gone", "ALTER ROLE fuzz_gone RENAME TO fuzz_gone_too",
             "ALTER ROLE fuzz_gone_too RENAME TO fuzz_gone", "GRANT fuzz_approver TO fuzz_nobody", "REVOKE fuzz_approver FROM fuzz_nobody",
             "SELECT extaction.resume()", "SELECT extaction.resume('shop')", "SELECT extaction.resume(action => 'post')",
             "SELECT extaction.grant_access('shop', 'fuzz_' || c, c) FROM unnest('{submitter,approver,worker,owner}'::text[]) c"]
    session = None
    while time.monotonic() < until:
        try:
            session = session or Session()
            if rng.random() < 0.7:
                session.run("SELECT %s(pid) FROM pg_stat_activity WHERE application_name = 'random_calls' AND pid <> pg_backend_pid() "
                            "AND state = 'active' ORDER BY random() LIMIT 1" % ("pg_terminate_backend" if rng.random() < 0.05 else "pg_cancel_backend"))
            else:
                session.run(rng.choice(deeds))
        except Lost:
            session = None
            time.sleep(1)
        time.sleep(rng.random() * 0.15)


def enumerate_functions(connection):
    """(name, [(argument, type, has a default)], is for triggers) of every function; those for triggers one may call, and they must say no."""
    rows = connection.execute("""
        SELECT p.proname, coalesce(p.proargnames, '{}'), p.proargtypes::regtype[]::text[], p.pronargdefaults, p.prorettype = 'trigger'::regtype
        FROM pg_proc p WHERE p.pronamespace = 'extaction'::regnamespace AND p.prokind = 'f' ORDER BY 1""").fetchall()
    return [(name, [(names[i] if i < len(names) else "", t, i >= len(types) - defaults) for i, t in enumerate(types)], trigger)
            for name, names, types, defaults, trigger in rows]


def work(number, seed, seconds, functions, views, answers):
    caller = Caller("%s/%d" % (seed, number), functions, views)
    try:
        caller.live(time.monotonic() + seconds)
    except Exception:
        caller.faults.append(traceback.format_exc())
    answers.put((caller.calls, caller.worked, caller.states, caller.faults))


def never_ends():
    """What is still running, long after the end; it is ended."""
    with administer() as connection:
        return ["does not end: %s %s %s" % row for row in connection.execute(
            "SELECT wait_event, query, pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'random_calls' AND state = 'active'")]


def history(connection, scope, intent_id):
    """What the facts and the lists have of an intent."""
    return "".join("\n    " + row[0] for query in (
        "SELECT 'intent ' || row_to_json(i)::text FROM extaction.intents i WHERE scope = %s AND intent_id = %s",
        "SELECT 'event ' || json_strip_nulls(row_to_json(e))::text FROM extaction.events e WHERE scope = %s AND intent_id = %s ORDER BY event_id",
        "SELECT 'worklist ' || row_to_json(w)::text FROM extaction.worklist w WHERE scope = %s AND intent_id = %s",
        "SELECT 'folded ' || row_to_json(w)::text FROM extaction.folded_worklist w WHERE scope = %s AND intent_id = %s",
        "SELECT 'waiting ' || row_to_json(w)::text FROM extaction.waiting w WHERE scope = %s AND id = %s") for row in connection.execute(query, (scope, intent_id)))


def afterwards():
    """What is wrong with the ledger now."""
    faults = []
    with administer() as connection:
        for row in connection.execute("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()").fetchall():
            connection.execute("ROLLBACK PREPARED '%s'" % row[0])       # whose end was cancelled
        for said, scope, intent_id in connection.execute("SELECT encode(textsend(v::text), 'escape'), scope, intent_id FROM extaction.verify() v LIMIT 20").fetchall():
            faults.append("verify(): %s" % said + history(connection, scope, intent_id))
        differed = connection.execute("SELECT extaction.rebuild_worklist()").fetchone()[0]
        if differed:
            faults.append("rebuild_worklist(): %d rows differed" % differed)
    return faults


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--sessions", type=int, default=4)
    parser.add_argument("--seed", default=str(random.randrange(1000000)))
    parser.add_argument("--log", default=os.environ.get("PGLOG"))
    options = parser.parse_args()

    log_begins = os.path.getsize(options.log) if options.log else 0
    with administer() as connection:
        with open(os.path.join(HERE, "random_calls.sql")) as setup:
            connection.execute(setup.read())
        functions = enumerate_functions(connection)
        views = [row[0] for row in connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'extaction'::regnamespace AND relkind IN ('v', 'r') ORDER BY 1").fetchall()]

    answers = multiprocessing.Queue()
    processes = [multiprocessing.Process(target=work, args=(n, options.seed, options.seconds, functions, views, answers))
                 for n in range(options.sessions)]
    for process in processes:
        process.start()
    disturb(options.seed, time.monotonic() + options.seconds)
    calls, worked, states, faults = collections.Counter(), collections.Counter(), collections.Counter(), []
    try:
        for _ in processes:
            c, w, s, f = answers.get(timeout=300)
            calls += c
            worked += w
            states += s
            faults += f
    except queue.Empty:
        faults += never_ends()
    for process in processes:
        process.terminate()
        process.join()

    faults += afterwards()
    if options.log:
        with open(options.log, errors="replace") as log:
            log.seek(log_begins)
            faults += ["in the log: " + line.rstrip() for line in log if LOG_FAULT.search(line)][:50]

    for fault in faults:
        print(fault)
    print("answers: " + ", ".join("%s %d" % pair for pair in states.most_common()))
    print("never called: " + (", ".join(sorted(f[0] for f in functions if not calls[f[0]])) or "none"))
    print("called without success: " + (", ".join(sorted(n for n in calls if not worked[n])) or "none"))
    print("seed %s: %d calls of %d functions and views, %d faults" % (options.seed, sum(calls.values()), len(calls), len(faults)))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
