/*-------------------------------------------------------------------------
 *
 * digest.c
 *	  SHA-256 of documents and requests, the idempotency key, and what locks
 *	  are known by.
 *
 * Every digest here is SHA-256 over a canonical JSON text (RFC 8785), so that
 * any JSON library with that form computes the same 32 bytes.  The key is a
 * function of the ledger, the scope and the intent, and of nothing else.
 *
 * This is a leaf: it knows no SQL, and a document without canonical form is
 * reported, not raised.  Only a failure of the hash library is an error.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "extaction.h"

#include "common/cryptohash.h"
#include "mb/pg_wchar.h"
#include "port/pg_bswap.h"
#include "utils/builtins.h"

/* The form that a request's digest covers. */
#define REQUEST_VERSION "extaction.request.v1"

/* Small pieces are collected before they are hashed. */
#define HASH_BUFFER 1024

/* A sink that hashes what it is given. */
typedef struct HashSink
{
	CanonicalSink sink;			/* must be first */
	pg_cryptohash_ctx *context;
	size_t		used;
	char		buffer[HASH_BUFFER];
} HashSink;

static void hash_begin(HashSink *hash);
static void hash_write(CanonicalSink *sink, const char *bytes, size_t len);
static void hash_update(HashSink *hash, const char *bytes, size_t len);
static void hash_end(HashSink *hash, uint8 *digest);
static void hash_abandon(HashSink *hash);
static void hash_failed(HashSink *hash);
static void hash_counted(HashSink *hash, const char *bytes, size_t len);
static void hash_counted_text(HashSink *hash, const text *str);
static void write_literal(CanonicalSink *sink, const char *literal);
static void write_text(CanonicalSink *sink, const text *str);
static void write_hex(CanonicalSink *sink, const uint8 *digest);
static void write_candidate(CanonicalSink *sink,
							const CandidateRef *candidate);

/*
 * Digest of bytes as they are.
 */
void
digest_bytes(const char *bytes, size_t len, uint8 *digest)
{
	HashSink	hash;

	hash_begin(&hash);
	hash_update(&hash, bytes, len);
	hash_end(&hash, digest);
}

/*
 * Digest of a document: SHA-256 of its canonical text.
 */
CanonicalStatus
digest_json(Jsonb *json, uint8 *digest, CanonicalFault *fault)
{
	HashSink	hash;
	CanonicalStatus status;

	hash_begin(&hash);
	status = canonical_write(&hash.sink, &json->root, fault);
	if (status == CANONICAL_OK)
		hash_end(&hash, digest);
	else
		hash_abandon(&hash);

	return status;
}

/*
 * Compute a request's digest and store it in the request.
 */
CanonicalStatus
digest_request(Request *request, CanonicalFault *fault)
{
	HashSink	hash;
	CanonicalStatus status;

	hash_begin(&hash);
	status = write_request(&hash.sink, request, fault);
	if (status == CANONICAL_OK)
		hash_end(&hash, request->digest);
	else
		hash_abandon(&hash);

	return status;
}

/*
 * The digest of a batch covers its shared payload and, in order, every item's
 * name and digest: one recipient more or one word changed breaks it.
 * "digests" are DIGEST_LENGTH bytes each.
 */
void
digest_batch(Request *batch, const text *const *intent_ids, const uint8 *digests,
			 int count, const uint8 *payload_digest)
{
	HashSink	hash;
	CanonicalSink *sink = &hash.sink;
	int			i;

	hash_begin(&hash);
	write_literal(sink, "{\"action\":");
	write_text(sink, batch->action);
	write_literal(sink, ",\"batch_id\":");
	write_text(sink, batch->batch_id);
	write_literal(sink, ",\"items\":[");
	for (i = 0; i < count; i++)
	{
		write_literal(sink, i == 0 ? "[" : ",[");
		write_text(sink, intent_ids[i]);
		write_literal(sink, ",\"");
		write_hex(sink, digests + (size_t) i * DIGEST_LENGTH);
		write_literal(sink, "\"]");
	}
	write_literal(sink, "],\"payload_digest\":\"");
	write_hex(sink, payload_digest);
	write_literal(sink, "\",\"scope\":");
	write_text(sink, batch->scope);
	write_literal(sink, ",\"v\":\"extaction.batch.v1\"}");
	hash_end(&hash, batch->batch_digest);
	memcpy(batch->digest, batch->batch_digest, DIGEST_LENGTH);
}

/*
 * Write the canonical text of a request.  The members below stand in
 * canonical order; a fault's path begins at the payload.
 */
CanonicalStatus
write_request(CanonicalSink *sink, const Request *request,
			  CanonicalFault *fault)
{
	CanonicalStatus status;

	write_literal(sink, "{\"action\":");
	write_text(sink, request->action);
	write_literal(sink, ",\"candidate\":");
	write_candidate(sink, request->candidate);
	write_literal(sink, ",\"destination\":");
	write_text(sink, request->destination);
	write_literal(sink, ",\"intent_id\":");
	write_text(sink, request->intent_id);
	write_literal(sink, ",\"payload\":");
	status = canonical_write(sink, &request->payload->root, fault);
	if (status != CANONICAL_OK)
		return status;
	write_literal(sink, ",\"scope\":");
	write_text(sink, request->scope);
	write_literal(sink, ",\"v\":\"" REQUEST_VERSION "\"}");

	return CANONICAL_OK;
}

/*
 * Compute the idempotency key of an intent: SHA-256 over the counted bytes of
 * ledger, scope and intent, cut to a UUID of version 8 (RFC 9562).
 */
void
idempotency_key(const pg_uuid_t *ledger_id, const text *scope,
				const text *intent_id, pg_uuid_t *key)
{
	HashSink	hash;
	uint8		digest[DIGEST_LENGTH];

	hash_begin(&hash);
	hash_counted(&hash, (const char *) ledger_id->data, UUID_LEN);
	hash_counted_text(&hash, scope);
	hash_counted_text(&hash, intent_id);
	hash_end(&hash, digest);

	memcpy(key->data, digest, UUID_LEN);
	key->data[6] = (key->data[6] & 0x0F) | 0x80;	/* version 8 */
	key->data[8] = (key->data[8] & 0x3F) | 0x80;	/* variant 10 */
}

/*
 * A number for what a lock is about: the scope, a kind, and a name or NULL.
 */
uint64
digest_subject(const text *scope, const char *kind, const text *id)
{
	HashSink	hash;
	uint8		digest[DIGEST_LENGTH];
	uint64		number;

	hash_begin(&hash);
	hash_counted(&hash, VARDATA_ANY(scope), VARSIZE_ANY_EXHDR(scope));
	hash_counted(&hash, kind, strlen(kind));
	if (id != NULL)
		hash_counted(&hash, VARDATA_ANY(id), VARSIZE_ANY_EXHDR(id));
	hash_end(&hash, digest);
	memcpy(&number, digest, sizeof(number));
	return number;
}

/*
 * Start hashing.  If an error takes us out before the end, the resource owner
 * frees the context.
 */
static void
hash_begin(HashSink *hash)
{
	hash->sink.write = hash_write;
	hash->used = 0;
	hash->context = pg_cryptohash_create(PG_SHA256);
	if (hash->context == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory")));
	if (pg_cryptohash_init(hash->context) < 0)
		hash_failed(hash);
}

/*
 * Take bytes; the write function of the sink.
 */
static void
hash_write(CanonicalSink *sink, const char *bytes, size_t len)
{
	HashSink   *hash = (HashSink *) sink;

	if (len > HASH_BUFFER - hash->used)
	{
		hash_update(hash, hash->buffer, hash->used);
		hash->used = 0;
		if (len >= HASH_BUFFER)
		{
			hash_update(hash, bytes, len);
			return;
		}
	}
	memcpy(hash->buffer + hash->used, bytes, len);
	hash->used += len;
}

/*
 * Hash bytes at once.
 */
static void
hash_update(HashSink *hash, const char *bytes, size_t len)
{
	if (len > 0 &&
		pg_cryptohash_update(hash->context, (const uint8 *) bytes, len) < 0)
		hash_failed(hash);
}

/*
 * Finish: give the digest, free the context.
 */
static void
hash_end(HashSink *hash, uint8 *digest)
{
	hash_update(hash, hash->buffer, hash->used);
	if (pg_cryptohash_final(hash->context, digest, DIGEST_LENGTH) < 0)
		hash_failed(hash);
	hash_abandon(hash);
}

/*
 * Free the context without a result.
 */
static void
hash_abandon(HashSink *hash)
{
	pg_cryptohash_free(hash->context);
	hash->context = NULL;
}

/*
 * The hash library does not work; nothing here can.
 */
static void
hash_failed(HashSink *hash)
{
	elog(ERROR, "could not compute SHA-256: %s",
		 pg_cryptohash_error(hash->context));
}

/*
 * Hash a length, as four bytes in network order, and as many bytes.
 */
static void
hash_counted(HashSink *hash, const char *bytes, size_t len)
{
	uint32		count = pg_hton32((uint32) len);

	hash_write(&hash->sink, (const char *) &count, sizeof(count));
	hash_write(&hash->sink, bytes, len);
}

/*
 * The same for a text, as UTF-8.
 */
static void
hash_counted_text(HashSink *hash, const text *str)
{
	const char *bytes = VARDATA_ANY(str);
	size_t		len = VARSIZE_ANY_EXHDR(str);
	char	   *utf8 = pg_server_to_any(bytes, len, PG_UTF8);

	if (utf8 == bytes)
		hash_counted(hash, bytes, len);
	else
	{
		hash_counted(hash, utf8, strlen(utf8));
		pfree(utf8);
	}
}

/*
 * Write text that is canonical already.
 */
static void
write_literal(CanonicalSink *sink, const char *literal)
{
	sink->write(sink, literal, strlen(literal));
}

/*
 * Write a text as a JSON string.
 */
static void
write_text(CanonicalSink *sink, const text *str)
{
	canonical_write_string(sink, VARDATA_ANY(str), VARSIZE_ANY_EXHDR(str));
}

/*
 * Write what a request says of its candidate, or null.
 */
static void
write_candidate(CanonicalSink *sink, const CandidateRef *candidate)
{
	if (candidate == NULL)
	{
		write_literal(sink, "null");
		return;
	}

	write_literal(sink, "{\"candidate_id\":");
	write_text(sink, candidate->candidate_id);
	write_literal(sink, ",\"digest\":\"");
	write_hex(sink, candidate->digest);
	write_literal(sink, "\",\"source_id\":");
	write_text(sink, candidate->source_id);
	write_literal(sink, ",\"source_version\":");
	write_text(sink, candidate->source_version);
	write_literal(sink, "}");
}

/*
 * A digest in lower-case hex, without quotes.
 */
static void
write_hex(CanonicalSink *sink, const uint8 *digest)
{
	char		hex[2 * DIGEST_LENGTH];

	(void) hex_encode((const char *) digest, DIGEST_LENGTH, hex);
	sink->write(sink, hex, sizeof(hex));
}
