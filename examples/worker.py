#!/usr/bin/python3
"""A worker for extaction, to copy: sends what is approved, looks up what is uncertain.

    PGHOST=... PGUSER=orderer examples/worker.py http://provider.example:8080 [--once]

Needs psycopg 3 (Debian: python3-psycopg).  The rest is Python's own.  send() and look() speak the provider's language: replace them.

The rules that it keeps, and that yours must keep:

* claim is committed before claimed is called (here: autocommit, one statement each).
* The clock for send_within is monotonic and started before claimed was called.
* One request for each envelope.  The HTTP client does not retry or follow redirects; http.client does neither.
* A call has an end: call_timeout bounds all of it, not each read.
* Whoever is not sure says "uncertain".  not_happened is for what never left, and for the provider's clear no.
"""

import http.client
import json
import signal
import socket
import sys
import time
from urllib.parse import quote, urlsplit

import psycopg
from psycopg.rows import namedtuple_row

WORKER = f"worker on {socket.gethostname()}"
POLL_SECONDS = 5
SWEEP_SECONDS = 60

SWEEP = "SELECT extaction.sweep()"
CLAIM = "SELECT claim_id FROM extaction.claim(%s, step => %s)"
CLAIMED = """
    SELECT scope, intent_id, attempt, destination, payload_text, idempotency_key, key_carrier, key_name,
           extract(epoch FROM call_timeout)::float8 AS call_timeout,
           extract(epoch FROM send_within)::float8 AS send_within
    FROM extaction.claimed(%s)"""
RELEASE = "SELECT extaction.release(%s)"
OUTCOME = """
    SELECT status, state, needs
    FROM extaction.record_outcome(%s, %s, %s, %s, %s::jsonb, provider_ref => %s, retry_after => %s::interval)"""
LOOKUP = "SELECT status, state, needs FROM extaction.record_lookup(%s, %s, %s, %s::jsonb, provider_ref => %s)"


def send(connection, envelope):
    """One request.  Answers outcome, evidence, provider_ref, retry_after.

    If your provider says "this key came with other content", pass the code mismatch; for "still in progress", in_progress.
    """
    headers = {"Content-Type": "application/json"}
    if envelope.key_carrier == "header":
        headers[envelope.key_name] = str(envelope.idempotency_key)
    connection.request("POST", "/orders", envelope.payload_text.encode(), headers)
    answer = connection.getresponse()
    body = answer.read()
    evidence = {"code": answer.status}
    if answer.status in (200, 201):
        return "happened", evidence, json.loads(body)["id"], None
    if answer.status in (401, 403, 429):  # the ledger takes these as proof only if the contract lists them
        seconds = answer.getheader("Retry-After")
        return "not_happened", evidence, None, f"{seconds} seconds" if seconds else None
    return "uncertain", evidence, None, None


def look(connection, envelope):
    """Asks for the order by the reference that it was sent with.  Answers finding, evidence, provider_ref."""
    connection.request("GET", "/orders?reference=" + quote(str(envelope.idempotency_key)))
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != 200:
        return "unknown", {"code": answer.status}, None
    orders = json.loads(body)
    return ("found", {"orders": orders}, orders[0]["id"]) if orders else ("absent", {"orders": []}, None)


def out_of_time(*_):
    raise TimeoutError


def connect(provider, envelope):
    """Starts the clock of the call and connects.  Nothing of the request has left when this fails."""
    signal.setitimer(signal.ITIMER_REAL, envelope.call_timeout)
    connection = http.client.HTTPConnection(urlsplit(provider).netloc)
    connection.connect()
    connection.auto_open = 0  # and never again
    return connection


def send_one(db, provider, claim_id, envelope, started):
    left = False  # may any of it have left the house?
    outcome = None
    try:
        connection = connect(provider, envelope)
        if time.monotonic() - started < envelope.send_within:
            left = True
            outcome = send(connection, envelope)
    except Exception as error:  # no connection, too late, broken off, or an answer that makes no sense
        code = "never_sent" if not left else "timeout" if isinstance(error, TimeoutError) else "reset"
        outcome = "uncertain" if left else "not_happened", {"code": code, "error": repr(error)}, None, None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    if outcome is None:  # it would have begun too late
        db.execute(RELEASE, [claim_id])
        return
    word, evidence, provider_ref, retry_after = outcome
    report(envelope, word, db.execute(OUTCOME, [
        envelope.scope, envelope.intent_id, envelope.attempt, word, json.dumps(evidence), provider_ref, retry_after]))


def look_one(db, provider, _claim_id, envelope, _started):
    try:
        finding, evidence, provider_ref = look(connect(provider, envelope), envelope)
    except Exception as error:
        finding, evidence, provider_ref = "unknown", {"error": repr(error)}, None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    report(envelope, finding, db.execute(LOOKUP, [
        envelope.scope, envelope.intent_id, finding, json.dumps(evidence), provider_ref]))


def report(envelope, word, cursor):
    receipt = cursor.fetchone()
    print(f"{envelope.scope} {envelope.intent_id} attempt {envelope.attempt}: {word}, {receipt.status}, {receipt.state}",
          f"({receipt.needs})" if receipt.needs else "", flush=True)


def round_of_work(db, provider):
    """One envelope of each kind; claim more at once only if you send in parallel.  False if there was nothing to do."""
    worked = False
    for step, do in (("send", send_one), ("resend", send_one), ("look", look_one)):
        claim_id = db.execute(CLAIM, [WORKER, step]).fetchone().claim_id  # committed: autocommit
        if claim_id is None:
            continue
        started = time.monotonic()  # before claimed
        for envelope in db.execute(CLAIMED, [claim_id]).fetchall():
            do(db, provider, claim_id, envelope, started)
            worked = worked or step != "look"  # who only looks may take a breath
    return worked


def main(provider, once):
    signal.signal(signal.SIGALRM, out_of_time)
    with psycopg.connect("", autocommit=True, row_factory=namedtuple_row) as db:
        next_sweep = 0.0
        while True:
            if time.monotonic() >= next_sweep:  # busy or not: what claim does not do, see the reference
                db.execute(SWEEP)
                next_sweep = time.monotonic() + SWEEP_SECONDS
            if once:
                return round_of_work(db, provider)
            if not round_of_work(db, provider):
                time.sleep(POLL_SECONDS)


if __name__ == "__main__":
    main(sys.argv[1], "--once" in sys.argv[2:])
