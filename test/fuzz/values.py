"""Arguments for random calls: sensible ones, so that calls get somewhere, and nasty ones.

A sensible value is found by the argument's name (an intent_id is one of few, so that calls meet), or was learned from an earlier answer;
a nasty one by its type.  A value is a piece of SQL.  A name that is not known here, of a function yet to be written, gets words and
documents that do somewhere else.
"""
import json

WORDS = {
    "scope": ["shop", "shop", "shop", "lab", "elsewhere"],
    "action": ["post", "post", "mail", "paint", "create_fake_task", "nothing_like_it"],
    "destination": ["a@example.org", "b@example.org", "/dev/null", "fake-task-provider.v1"],
    "provider": ["acme", "fake-task-provider.v1"],
    "source_id": ["letter", "book"],
    "source_version": ["v1", "v2"],
    "capability": ["submitter", "approver", "worker", "auditor", "owner", "create_fake_task", "post"],
    "role": ["fuzz_submitter", "fuzz_approver", "fuzz_worker", "fuzz_gone", "fuzz_nobody", "fuzz_maker"],
    "vouches_for": ["users of a web application"],
    "step": ["send", "send", "resend", "look"],
    "finding": ["found", "absent", "unknown"],
    "outcome": ["happened", "not_happened", "uncertain"],
    "kind": ["moved", "restored", "copy"],
    "worker": ["w1", "w2"],
    "actor": ["anna", "bob"],
    "source": ["hook", "mailbox"],
    "code": ["400", "timeout"],
}
NUMBERED = {"intent_id": 40, "new_intent_id": 60, "candidate_id": 4, "batch_id": 8, "approval_id": 30, "event_id": 20, "id": 20}
ALIASES = {"new_intent_id": "intent_id", "intent_ids": "intent_id"}

TEXTS = ["", " ", "x" * 255, "x" * 256, "é" * 127, "é" * 128, "a\tb", "\x01", "\x7f", "a\u0085", "e\u0301", "\u212b", "\U0001f600",
         "\ud55c", "\u1112\u1161\u11ab", "\u3042\u30a2\u4e9c", "\u00ff", "\ufffd", "\ufeff", "a'b\"c\\d", "%s%n%d", "$1", "NULL", "{}",
         "{\"a\": 1}", "[" * 40000, "{\"a\":" * 3000, "x" * 200000, "sha256:" + "0" * 64, "\\x" + "ab" * 32, "AB" * 32, "g" * 64,
         "pg_catalog.now()", "infinity", "-1", "\udcff\udcfe", "\udcc3", "a\udce9", "\udc8e\udca0", "\U0010ffff", "\u0300" * 80]
TIMES = ["'infinity'", "'-infinity'", "'epoch'", "'294276-12-31 23:59:59.999999+00'", "'4713-01-01 00:00:00+00 BC'", "now()",
         "clock_timestamp() + interval '1 h'", "clock_timestamp() - interval '1 h'", "clock_timestamp() + interval '30 ms'"]
INTERVALS = ["'0'", "'-1 s'", "'1 us'", "'178000000 years'", "'-178000000 years'", "'2147483647 months 2147483647 days 2562047788 hours'",
             "'-2147483648 months'", "'1 month -30 days'", "'-2562047788 hours'", "'10000 years'", "'1 day'"]
NUMBERS = ["0", "-1", "1", "9223372036854775807", "(-9223372036854775808)", "2147483648", "-2147483649", "1000001", "4294967297"]
DOCUMENTS = ["{}", "[]", "null", "\"\"", "1", "true", "\"{\\\"a\\\": 1}\"", "{\"a\": 9007199254740993}", "{\"a\": 1e400}",
             "{\"a\": 0.1000000000000000055}", "{\"\": {\"\": [[]]}}", "{\"e\\u0301\": 1, \"\\u00e9\": 2}", "{\"a\": \"\\ud83d\\ude00\"}",
             "[" * 3000 + "]" * 3000, "{\"a\":" * 5000 + "1" + "}" * 5000, "[" * 50000 + "]" * 50000,
             json.dumps({"k%d" % i: i for i in range(2000)}), json.dumps({"a": "x" * 300000}), "{\"\\ue000\": 1, \"\\ud800\\udc00\": 2}",
             "{\"code\": 400}", "{\"code\": \"never_sent\"}", "{\"code\": null}", "{\"code\": {}}", "{\"code\": \"\"}", "[1.5e-310]",
             json.dumps(["y" * 1000] * 300), "{\"a\":\"b\\u00ff\\u3042\"}", json.dumps({"path": {"x" * 2000: [{"y" * 2000: 1e-7}]}})]


def literal(value):
    """SQL of a string."""
    return "'" + value.replace("'", "''") + "'"


class Values:
    def __init__(self, random):
        self.random = random
        self.learned = {}

    def learn(self, name, value):
        """What an answer showed, for later calls."""
        known = self.learned.setdefault(ALIASES.get(name, name), [])
        known.append(value)
        if len(known) > 60:
            del known[self.random.randrange(60)]

    def argument(self, name, type_name, nastiness):
        """SQL of an argument; NULL is among the nasty ones."""
        if self.random.random() < nastiness:
            return self.nasty(type_name)
        return self.sensible(name, type_name)

    def sensible(self, name, type_name):
        pick = self.random.choice
        if type_name in ("text", "character varying"):
            return literal(self.word(name))
        if type_name == "text[]":
            return "ARRAY[" + ",".join(literal(self.word(name)) for _ in range(self.random.randrange(1, 4))) + "]::text[]"
        if type_name in ("jsonb", "json"):
            return literal(json.dumps(self.document(name))) + "::" + type_name
        if type_name == "bigint":
            if name in self.learned and self.random.random() < 0.7:
                return pick(self.learned[name])
            return pick(["1", "1", "1", "2", "3", "10"])
        if type_name == "interval":
            return pick(["NULL", "'1 min'", "'60 ms'", "'1 h'", "'0'", "'5 ms'"]) + "::interval"
        if type_name == "timestamp with time zone":
            return "(%s)::timestamptz" % pick(["NULL", "clock_timestamp()", "now() - interval '1 s'", "now() + interval '1 h'"])
        return self.nasty(type_name)

    def word(self, name):
        name = ALIASES.get(name, name)
        if name in self.learned and self.random.random() < 0.6:
            return self.random.choice(self.learned[name])
        if name in WORDS:
            return self.random.choice(WORDS[name])
        if name in NUMBERED:
            return "%s%d" % (name[0], self.random.randrange(NUMBERED[name]))
        if name == "document":
            return json.dumps(self.document(name))
        if name.endswith("digest"):
            return "ab" * 32
        return "because"

    def nasty(self, type_name):
        pick = self.random.choice
        if self.random.random() < 0.2:
            return "NULL::" + type_name
        if type_name in ("text", "character varying"):
            return literal(self.mangle(pick(TEXTS)))
        if type_name == "text[]":
            return pick(["'{}'", "'{NULL}'", "'{\"\", a, a}'", "'{{a,b},{c,d}}'", "'[5:6]={a,b}'",
                         "ARRAY(SELECT 'i' || n FROM generate_series(1, 5000) n)"]) + "::text[]"
        if type_name in ("jsonb", "json"):
            document = pick(DOCUMENTS) if self.random.random() < 0.6 else json.dumps(self.spoil(self.document(pick(list(self.DOCUMENTS)))))
            return literal(document) + "::" + type_name
        if type_name == "bigint":
            return pick(NUMBERS) + "::bigint"
        if type_name == "interval":
            return pick(INTERVALS) + "::interval"
        if type_name == "timestamp with time zone":
            return "(%s)::timestamptz" % pick(TIMES)
        if type_name == "bytea":
            return pick(["''", "'\\x00'", "'\\xff'", "decode(repeat('00', 32), 'hex')", "decode(repeat('ff', 1000), 'hex')"]) + "::bytea"
        if type_name == "uuid":
            return pick(["'00000000-0000-0000-0000-000000000000'", "gen_random_uuid()"]) + "::uuid"
        if type_name == "boolean":
            return pick(["true", "false"])
        if type_name == "extaction.receipt":
            return pick(["extaction.find('shop', 'i%d')" % self.random.randrange(40), "ROW('blocked', %s)" % ", ".join(["NULL"] * 16),
                         "ROW('conflict', %s)" % ", ".join(["NULL"] * 16), "ROW(%s)" % ", ".join(["NULL"] * 17)]) + "::extaction.receipt"
        return "NULL::" + type_name

    def mangle(self, text):
        """Now and then, one character more or less, or another one."""
        if text == "" or self.random.random() < 0.7:
            return text
        at = self.random.randrange(len(text))
        return text[:at] + self.random.choice(["", "é", "\x1f", "\u0301", "\udc80", "{", "\U0001f600"]) + text[at + self.random.randrange(2):]

    # Documents

    def document(self, name):
        return self.DOCUMENTS.get(name, Values.payload)(self)

    def payload(self):
        return self.random.choice([{"subject": "Friday"}, {"subject": "Saturday"}, {"n": 120.1, "list": [2, 1], "z": None}])

    def task_request(self):
        return {"schema_version": "task-request.v1", "fixture_kind": "fuzz", "request_id": "r", "intent_id": self.word("intent_id"),
                "operation": "create_task", "provider": "fake-task-provider.v1",
                "candidate_ref": {"candidate_id": "candidate", "candidate_digest": self.learned.get("candidate", ["ab" * 32])[0],
                                  "source_id": "letter", "source_version": "v1"},
                "task": {"title": self.random.choice(["call", "write"]), "assignee_person_ref": None,
                         "due_at": self.random.choice([None, "2026-12-31", "2026-12-31T12:00:00.5+02:00"])}}

    def items(self):
        return [{"intent_id": self.word("intent_id"), "destination": "a@example.org", "payload": self.payload()}
                for _ in range(self.random.randrange(1, 5))]

    def evidence(self):
        return self.random.choice([{"code": c} for c in ("400", 400, "timeout", "never_sent", "in_progress", "mismatch", "exists",
                                                         "stored_failure", "500")] + [{"by": "the list"}])

    def contracts(self):
        return [{"version": n, "key_carrier": "header", "retention": "1 day", "on_expired": "executes", "on_replay": "first_result",
                 "on_mismatch": "rejects", "on_concurrent": "rejects", "stores_failures": "all", "proves_not_happened": ["400"],
                 "lookup": "by_key", "absence_is_proof": True, "lookup_lag": self.random.choice(["0", "10 years", 1e12, "2 mons"]),
                 "late_arrival_bound": self.random.choice(["0", None, 5, "100000 years"])}
                for n in range(self.random.randrange(3))]

    def situation(self):
        times = ["2026-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-06-01T00:00:00+02", "0001-01-01T00:00:00Z"]
        return {"now": self.random.choice(times), "first_sent_at": self.random.choice(times), "quiet_from": self.random.choice(times),
                "lease": self.random.choice(["1 min", 1e15, "170000000 years"]), "lookups": self.random.choice([0, 999999999999999999])}

    DOCUMENTS = {"payload": payload, "content": payload, "request": task_request, "items": items, "evidence": evidence,
                 "contracts": contracts, "situation": situation}

    def spoil(self, document):
        """A document with one member less, one more, or one that is something else."""
        odd = self.random.choice([None, "", 0, -1, [], {}, [[]], "x" * 300, "\u0000"[:0], 1e21, True, "e\u0301", {"a": {"b": []}}])
        if isinstance(document, dict) and document:
            key = self.random.choice(list(document))
            deed = self.random.randrange(4)
            if deed == 0:
                del document[key]
            elif deed == 1:
                document[self.random.choice(["", "extra", "x" * 300, "\u00e9"])] = odd
            elif deed == 2:
                document[key] = odd
            else:
                document[key] = self.spoil(document[key])
        elif isinstance(document, list) and document:
            document[self.random.randrange(len(document))] = self.spoil(document[0])
        else:
            return odd
        return document
