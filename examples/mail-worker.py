#!/usr/bin/python3
"""A mail worker for extaction, to copy and to change.

    mail-worker.py --provider NAME --smtp HOST:PORT             send what is prepared (or --lmtp)
    mail-worker.py --provider NAME --smtp HOST:PORT --resend    what the contract lets go out again
    mail-worker.py --provider NAME --imap HOST:PORT             look for what is uncertain

It finds the database as psql does (PGHOST, PGUSER, ...); its role is a worker
of the scope.  Start as many as you like, and start them again when they die:
whatever they were doing is in the ledger.  SIGTERM ends one after its present
letter.

The payload of a letter: {"from", "subject", "date", "body"} and, for "$name" in
the body, {"name"}.  All of them were approved, the date too: a letter has the
same bytes whenever and however often it is sent.

The worker never tries anything twice.  It says what it knows, and the ledger
says what comes next.  So all it must get right is what it knows:

  * before the server has the data, nothing is delivered: never_sent, or the code
    with which the server refused;
  * from then on only its answer tells; without one the letter is uncertain;
  * a letter begins within send_within of the moment before claimed was called
    (no database can hold back a process that stalls after it has checked, so
    check last).
"""

import argparse
import email.message
import email.policy
import imaplib
import os
import re
import signal
import smtplib
import socket
import string
import time

import psycopg2
import psycopg2.extras

CLAIM = """
    SELECT claim_id, extract(epoch FROM next_due_at - clock_timestamp())::float AS due_in
    FROM extaction.claim(%(name)s, %(batch)s, %(step)s, %(lease)s, provider => %(provider)s, scope => %(scope)s)"""
CLAIMED = "SELECT * FROM extaction.claimed(%s)"
RELEASE = "SELECT extaction.release(%s)"
RECORD_OUTCOME = "SELECT status FROM extaction.record_outcome(%s, %s, %s, %s, %s)"
RECORD_LOOKUP = "SELECT status FROM extaction.record_lookup(%s, %s, %s, %s)"

LONGEST_SLEEP = 1.0     # seconds, when there is nothing to do
CONNECT_TIMEOUT = 5.0   # seconds


def clock():
    """Seconds that only go forward, also while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def message_id(envelope):
    """The idempotency key, where a mail server and a mailbox can see it."""
    return f"<{envelope.idempotency_key}@{envelope.payload['from'].rpartition('@')[2]}>"


def compose(envelope):
    payload = envelope.payload
    letter = email.message.EmailMessage(email.policy.SMTP.clone(cte_type="7bit"))
    letter["From"] = payload["from"]
    letter["To"] = envelope.destination
    letter["Subject"] = payload["subject"]
    letter["Date"] = payload["date"]
    letter["Message-ID"] = message_id(envelope)
    letter.set_content(string.Template(payload["body"]).safe_substitute(name=payload.get("name", "")))
    return letter.as_bytes()


class MailServer:
    """Sends letters over one connection, kept for many of them."""

    def __init__(self, protocol, address):
        self.protocol = protocol
        self.host, _, self.port = address.rpartition(":")
        self.connection = None

    def is_there(self, ask=False):
        """Is there a connection?  Makes one, if not; ask: does it still answer?"""
        try:
            if self.connection and ask:
                self.connection.noop()
        except (OSError, smtplib.SMTPException):
            self.close()
        try:
            if not self.connection:
                self.connection = self.protocol(self.host, int(self.port), timeout=CONNECT_TIMEOUT)
                self.connection.ehlo_or_helo_if_needed()
        except (OSError, smtplib.SMTPException):
            self.close()
        return self.connection is not None

    def close(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    def handle(self, envelope):
        """Sends a letter: the outcome, and the evidence for it."""
        end = clock() + envelope.call_timeout.total_seconds()
        try:
            letter = re.sub(rb"(?m)^\.", b"..", compose(envelope)) + b".\r\n"
            for command in (lambda: self.connection.mail(envelope.payload["from"]),
                            lambda: self.connection.rcpt(envelope.destination),
                            lambda: self.connection.docmd("DATA")):
                self.must_end(end)
                code, answer = command()
                if code not in (250, 251, 354):
                    self.connection.rset()
                    return "not_happened", evidence(code, answer)
            self.must_end(end)
        except Exception as error:
            self.close()
            return "not_happened", evidence("never_sent", error)

        try:
            self.connection.send(letter)
            code, answer = self.connection.getreply()
        except Exception as error:
            self.close()
            timeout = isinstance(error.__context__ or error, TimeoutError)
            return "uncertain", evidence("timeout" if timeout else "reset", error)
        return "happened" if code == 250 else "not_happened", evidence(code, answer)

    def must_end(self, end):
        left = end - clock()
        if left <= 0:
            raise TimeoutError("no time is left for this letter")
        self.connection.sock.settimeout(left)


class Mailboxes:
    """Looks for letters in the mailboxes that they were meant for."""

    def __init__(self, address, password):
        self.host, _, self.port = address.rpartition(":")
        self.password = password

    def is_there(self, ask=False):
        return True     # if not, the finding is unknown

    def handle(self, envelope):
        """Looks for a letter: found, absent or unknown, and the evidence."""
        mailbox = re.sub(r"\+[^@]*", "", envelope.destination)     # ada+club@example.org is ada@example.org's
        try:
            with imaplib.IMAP4(self.host, int(self.port), envelope.call_timeout.total_seconds()) as imap:
                imap.login(mailbox, self.password)
                self.answer(imap.select("INBOX", readonly=True))
                found = self.answer(imap.uid("SEARCH", "HEADER", "Message-ID", message_id(envelope)))
        except Exception as error:
            return "unknown", {"error": str(error)}
        uids = [int(uid) for uid in found[0].split()]
        return "found" if uids else "absent", {"mailbox": mailbox, "uids": uids}

    @staticmethod
    def answer(response):
        status, data = response
        if status != "OK":
            raise imaplib.IMAP4.error(data)
        return data


def evidence(code, answer):
    text = answer.decode(errors="replace") if isinstance(answer, bytes) else str(answer)
    return {"code": str(code), "answer": text}


class Worker:
    def __init__(self, options, step, far_side):
        self.options = dict(vars(options), step=step)
        self.far_side = far_side
        self.stopping = False
        self.database = psycopg2.connect("", application_name=options.name,
                                         cursor_factory=psycopg2.extras.NamedTupleCursor)
        # Every statement is a transaction: claim is committed when it returns.
        self.database.autocommit = True

    def stop(self, *_):
        self.stopping = True

    def run(self):
        while not self.stopping:
            if not self.far_side.is_there(ask=True):
                time.sleep(LONGEST_SLEEP)
                continue
            ticket, = self.query(CLAIM, self.options)
            if ticket.claim_id is None:
                due_in = LONGEST_SLEEP if ticket.due_in is None else ticket.due_in
                time.sleep(min(max(due_in, 0.01), LONGEST_SLEEP))
            else:
                self.work_off(ticket.claim_id)

    def work_off(self, claim_id):
        started = clock()
        for envelope in self.query(CLAIMED, (claim_id,)):
            if (self.stopping or not self.far_side.is_there()
                    or clock() - started >= envelope.send_within.total_seconds()):
                self.query(RELEASE, (claim_id,))    # all that has no answer yet: it was not sent
                return
            self.record(envelope, *self.far_side.handle(envelope))

    def record(self, envelope, answer, proof):
        proof = psycopg2.extras.Json(proof)
        if envelope.step == "look":
            self.query(RECORD_LOOKUP, (envelope.scope, envelope.intent_id, answer, proof))
        else:
            self.query(RECORD_OUTCOME, (envelope.scope, envelope.intent_id, envelope.attempt, answer, proof))

    def query(self, statement, parameters):
        with self.database.cursor() as cursor:
            cursor.execute(statement, parameters)
            return cursor.fetchall()


def main():
    parser = argparse.ArgumentParser(description="Sends letters, or looks for them; see the head of the file.")
    server = parser.add_mutually_exclusive_group(required=True)
    server.add_argument("--smtp", metavar="HOST:PORT", help="the server that takes the letters")
    server.add_argument("--lmtp", metavar="HOST:PORT", help="the same, without a queue")
    server.add_argument("--imap", metavar="HOST:PORT", help="the mailboxes to look in; the password is in IMAP_PASSWORD")
    parser.add_argument("--resend", action="store_true", help="send what the contract lets go out again")
    parser.add_argument("--provider", required=True, help="whose actions to work on")
    parser.add_argument("--scope", help="all that the role works in, if not given")
    parser.add_argument("--name", default=f"{socket.gethostname()}-{os.getpid()}", help="shown in the ledger")
    parser.add_argument("--batch", type=int, default=100, help="letters in one claim")
    parser.add_argument("--lease", help="for how long: an interval, longer than call_timeout")
    options = parser.parse_args()

    if options.imap:
        step, far_side = "look", Mailboxes(options.imap, os.environ.get("IMAP_PASSWORD", ""))
    else:
        step = "resend" if options.resend else "send"
        far_side = MailServer(smtplib.LMTP, options.lmtp) if options.lmtp else MailServer(smtplib.SMTP, options.smtp)

    worker = Worker(options, step, far_side)
    signal.signal(signal.SIGTERM, worker.stop)
    signal.signal(signal.SIGINT, worker.stop)
    worker.run()


if __name__ == "__main__":
    main()
