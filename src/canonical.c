/*-------------------------------------------------------------------------
 *
 * canonical.c
 *	  The canonical text (RFC 8785) of a jsonb document.
 *
 * The text is streamed into a sink, in UTF-8 whatever the server encoding
 * is; no second tree is built.  Member names are put in the order of their
 * UTF-16 code units, strings are escaped as JSON.stringify() does, nothing
 * is normalised.
 *
 * Numbers take the form that number.c gives them.  One that has none is
 * refused: so equal texts mean equal values.
 *
 * It knows no SQL and raises no error of its own.  What it refuses it reports
 * as a CanonicalFault.  What may still be raised is out of memory, a cancelled
 * query, and a text that has no UTF-8 form.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "extaction.h"

#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "port/pg_bswap.h"
#include "utils/fmgrprotos.h"
#include "utils/numeric.h"

/* Bytes are collected before the sink sees them. */
#define WRITER_BUFFER 1024

/* A path in an error message is clipped near these lengths, in bytes. */
#define MAX_PATH 1000
#define MAX_PATH_NAME 200

/* The member or element that is being written, and what it stands in. */
typedef struct PathFrame
{
	const struct PathFrame *parent;
	const char *name;			/* in UTF-8; NULL for an array's element */
	int			len;
	int			index;
} PathFrame;

typedef struct Writer
{
	CanonicalSink *sink;
	CanonicalFault *fault;
	bool		utf8;			/* the server encoding needs no conversion */
	size_t		used;
	char		buffer[WRITER_BUFFER];
} Writer;

/* A member of an object; name and value point into the container. */
typedef struct Member
{
	const char *name;			/* in UTF-8; a copy if that took converting */
	int			len;
	JsonbValue	value;
} Member;

/* What members are sorted by; most names differ in the first eight bytes. */
typedef struct SortKey
{
	uint64		prefix;
	const Member *member;
} SortKey;


static CanonicalStatus write_container(Writer *writer,
									   JsonbContainer *container,
									   const PathFrame *path);
static CanonicalStatus write_array(Writer *writer, JsonbContainer *container,
								   const PathFrame *path);
static CanonicalStatus write_object(Writer *writer, JsonbContainer *container,
									const PathFrame *path);
static CanonicalStatus write_members(Writer *writer, const SortKey *keys,
									 int nmembers, const PathFrame *path);
static void gather_members(const Writer *writer, JsonbContainer *container,
						   Member *members);
static uint64 utf16_prefix(const char *name, int len);
static inline int compare_keys(const SortKey *a, const SortKey *b);
static int	compare_utf16(const char *a, int a_len, const char *b, int b_len);
static inline unsigned char utf16_rank(unsigned char c);
static CanonicalStatus write_value(Writer *writer, const JsonbValue *value,
								   const PathFrame *path);
static void write_string(Writer *writer, const char *str, int len);
static void write_escaped(Writer *writer, const char *str, int len);
static void write_escape(Writer *writer, unsigned char c);
static int	plain_length(const char *str, int len);
static CanonicalStatus write_number(Writer *writer, Numeric number,
									const PathFrame *path);
static void writer_init(Writer *writer, CanonicalSink *sink,
						CanonicalFault *fault);
static inline void put_bytes(Writer *writer, const char *bytes, size_t len);
static inline void put_char(Writer *writer, char c);
static void writer_flush(Writer *writer);
static const char *to_utf8(const Writer *writer, const char *str, int *len);
static CanonicalStatus refuse(Writer *writer, CanonicalStatus status,
							  const PathFrame *path, const char *value);
static char *path_text(const PathFrame *path);
static bool path_is_full(StringInfo path);
static bool is_identifier(const char *name, int len);

/* sort_keys(SortKey *keys, size_t n) */
#define ST_SORT sort_keys
#define ST_ELEMENT_TYPE SortKey
#define ST_COMPARE(a, b) compare_keys(a, b)
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

/*
 * Write the canonical text of a document, or fill fault and return its
 * status; what was written until then is of no use.
 */
CanonicalStatus
canonical_write(CanonicalSink *sink, JsonbContainer *container,
				CanonicalFault *fault)
{
	CanonicalStatus status;
	Writer		writer;
	JsonbValue	scalar;

	writer_init(&writer, sink, fault);
	if (JsonbExtractScalar(container, &scalar))
		status = write_value(&writer, &scalar, NULL);
	else
		status = write_container(&writer, container, NULL);
	writer_flush(&writer);

	return status;
}

/*
 * Write a string in server encoding as a JSON string, quotes included.
 */
void
canonical_write_string(CanonicalSink *sink, const char *str, int len)
{
	Writer		writer;

	writer_init(&writer, sink, NULL);
	write_string(&writer, str, len);
	writer_flush(&writer);
}

/*
 * Append a member's name, in server encoding, to a path.
 */
void
canonical_append_member(StringInfo path, const char *name, int len)
{
	int			clipped = pg_mbcliplen(name, len, MAX_PATH_NAME);
	int			i;
	const char *dots = clipped < len ? "..." : "";

	if (path_is_full(path))
		return;
	if (is_identifier(name, len))
	{
		appendStringInfo(path, "%s%.*s%s", path->len > 0 ? "." : "",
						 clipped, name, dots);
		return;
	}

	appendStringInfoString(path, "[\"");
	for (i = 0; i < clipped; i++)	/* server encodings are ASCII-safe */
	{
		if (name[i] == '"' || name[i] == '\\')
			appendStringInfoChar(path, '\\');
		appendStringInfoChar(path, name[i]);
	}
	appendStringInfo(path, "%s\"]", dots);
}

/*
 * Append an array's element to a path.
 */
void
canonical_append_element(StringInfo path, int index)
{
	if (!path_is_full(path))
		appendStringInfo(path, "[%d]", index);
}

/*
 * Write an array or object.
 */
static CanonicalStatus
write_container(Writer *writer, JsonbContainer *container,
				const PathFrame *path)
{
	if (stack_is_too_deep())
		return refuse(writer, CANONICAL_TOO_DEEP, path, NULL);

	if (JsonContainerIsArray(container))
		return write_array(writer, container, path);

	return write_object(writer, container, path);
}

/*
 * Write an array, in its own order.
 */
static CanonicalStatus
write_array(Writer *writer, JsonbContainer *container, const PathFrame *path)
{
	JsonbIterator *it = JsonbIteratorInit(container);
	JsonbValue	value;
	PathFrame	frame = {path, NULL, 0, 0};

	(void) JsonbIteratorNext(&it, &value, true);	/* WJB_BEGIN_ARRAY */
	put_char(writer, '[');
	while (JsonbIteratorNext(&it, &value, true) == WJB_ELEM)
	{
		CanonicalStatus status;

		CHECK_FOR_INTERRUPTS();
		if (frame.index > 0)
			put_char(writer, ',');
		status = write_value(writer, &value, &frame);
		if (status != CANONICAL_OK)
			return status;
		frame.index++;
	}
	put_char(writer, ']');

	return CANONICAL_OK;
}

/*
 * Write an object, its members sorted.
 */
static CanonicalStatus
write_object(Writer *writer, JsonbContainer *container, const PathFrame *path)
{
	Size		nmembers = JsonContainerSize(container);
	Member	   *members;
	SortKey    *keys;
	CanonicalStatus status;
	Size		i;

	if (nmembers == 0)
	{
		put_bytes(writer, "{}", 2);
		return CANONICAL_OK;
	}

	/* one chunk for both; with millions of members it may pass 1 GB */
	members = MemoryContextAllocHuge(CurrentMemoryContext,
									 nmembers * (sizeof(Member) + sizeof(SortKey)));
	keys = (SortKey *) (members + nmembers);
	gather_members(writer, container, members);
	for (i = 0; i < nmembers; i++)
	{
		keys[i].prefix = utf16_prefix(members[i].name, members[i].len);
		keys[i].member = &members[i];
	}
	sort_keys(keys, nmembers);
	status = write_members(writer, keys, nmembers, path);

	/* After a fault the query is about to end, and all memory with it. */
	for (i = 0; i < nmembers && !writer->utf8 && status == CANONICAL_OK; i++)
		pfree(unconstify(char *, members[i].name));
	pfree(members);

	return status;
}

/*
 * Write members in the order given, with the braces around them.
 */
static CanonicalStatus
write_members(Writer *writer, const SortKey *keys, int nmembers,
			  const PathFrame *path)
{
	PathFrame	frame = {path, NULL, 0, 0};
	int			i;

	for (i = 0; i < nmembers; i++)
	{
		const Member *member = keys[i].member;
		CanonicalStatus status;

		CHECK_FOR_INTERRUPTS();
		put_char(writer, i == 0 ? '{' : ',');
		write_escaped(writer, member->name, member->len);
		put_char(writer, ':');

		frame.name = member->name;
		frame.len = member->len;
		status = write_value(writer, &member->value, &frame);
		if (status != CANONICAL_OK)
			return status;
	}
	put_char(writer, '}');

	return CANONICAL_OK;
}

/*
 * Gather the members of an object, in the order jsonb has them.
 */
static void
gather_members(const Writer *writer, JsonbContainer *container,
			   Member *members)
{
	JsonbIterator *it = JsonbIteratorInit(container);
	Member	   *member = members;
	JsonbValue	name;

	(void) JsonbIteratorNext(&it, &name, true); /* WJB_BEGIN_OBJECT */
	while (JsonbIteratorNext(&it, &name, true) == WJB_KEY)
	{
		CHECK_FOR_INTERRUPTS();
		member->len = name.val.string.len;
		member->name = to_utf8(writer, name.val.string.val, &member->len);
		(void) JsonbIteratorNext(&it, &member->value, true);	/* WJB_VALUE */
		member++;
	}
	Assert(member - members == JsonContainerSize(container));
}

/*
 * The first eight bytes of a UTF-8 name as a number that sorts like them.
 * Zeros fill up a shorter name; no name has a zero byte of its own.
 */
static uint64
utf16_prefix(const char *name, int len)
{
	unsigned char bytes[8] = {0};
	uint64		prefix;
	int			i;

	memcpy(bytes, name, Min(len, 8));
	for (i = 0; i < 8; i++)
		bytes[i] = utf16_rank(bytes[i]);
	memcpy(&prefix, bytes, sizeof(prefix));

	return pg_ntoh64(prefix);
}

/*
 * Compare two members by name.
 */
static inline int
compare_keys(const SortKey *a, const SortKey *b)
{
	if (a->prefix != b->prefix)
		return a->prefix < b->prefix ? -1 : 1;

	return compare_utf16(a->member->name, a->member->len,
						 b->member->name, b->member->len);
}

/*
 * Compare two UTF-8 names by their UTF-16 code units.
 */
static int
compare_utf16(const char *a, int a_len, const char *b, int b_len)
{
	int			len = Min(a_len, b_len);
	int			i;

	for (i = 0; i < len; i++)
	{
		if (a[i] != b[i])
			return (int) utf16_rank(a[i]) - (int) utf16_rank(b[i]);
	}

	return a_len < b_len ? -1 : a_len > b_len;
}

/*
 * Where a byte sorts.
 *
 * UTF-16 code units sort as UTF-8 bytes do, but for one thing: code points
 * past U+FFFF (lead byte F0 and above) are surrogates in UTF-16 and so sort
 * before U+E000 to U+FFFF (lead byte EE or EF).
 */
static inline unsigned char
utf16_rank(unsigned char c)
{
	return (c == 0xEE || c == 0xEF) ? c + 0x10 : c;
}

/*
 * Write any value.
 */
static CanonicalStatus
write_value(Writer *writer, const JsonbValue *value, const PathFrame *path)
{
	switch (value->type)
	{
		case jbvString:
			write_string(writer, value->val.string.val, value->val.string.len);
			return CANONICAL_OK;
		case jbvNumeric:
			return write_number(writer, value->val.numeric, path);
		case jbvBool:
			if (value->val.boolean)
				put_bytes(writer, "true", 4);
			else
				put_bytes(writer, "false", 5);
			return CANONICAL_OK;
		case jbvBinary:
			return write_container(writer, value->val.binary.data, path);
		default:
			Assert(value->type == jbvNull);
			put_bytes(writer, "null", 4);
			return CANONICAL_OK;
	}
}

/*
 * Write a string that is in server encoding.
 */
static void
write_string(Writer *writer, const char *str, int len)
{
	const char *utf8 = to_utf8(writer, str, &len);

	write_escaped(writer, utf8, len);
	if (utf8 != str)
		pfree(unconstify(char *, utf8));
}

/*
 * Write a UTF-8 string with its quotes and escapes.
 */
static void
write_escaped(Writer *writer, const char *str, int len)
{
	put_char(writer, '"');
	for (;;)
	{
		int			plain = plain_length(str, len);

		put_bytes(writer, str, plain);
		if (plain == len)
			break;
		write_escape(writer, (unsigned char) str[plain]);
		str += plain + 1;
		len -= plain + 1;
	}
	put_char(writer, '"');
}

/*
 * Write one character that may not stand in a JSON string as it is.
 */
static void
write_escape(Writer *writer, unsigned char c)
{
	static const char hex[] = "0123456789abcdef";
	static const char letters[] = "\bb\tt\nn\ff\rr\"\"\\\\";
	char		escape[6] = {'\\', 'u', '0', '0'};
	const char *letter;

	for (letter = letters; *letter != '\0'; letter += 2)
	{
		if ((unsigned char) letter[0] == c)
		{
			escape[1] = letter[1];
			put_bytes(writer, escape, 2);
			return;
		}
	}
	escape[4] = hex[c >> 4];
	escape[5] = hex[c & 0x0F];
	put_bytes(writer, escape, 6);
}

/*
 * How many bytes from the start need no escape?
 *
 * Looks at eight bytes at a time while none of them is below 0x20, a quote or
 * a backslash; each of the three terms has a byte's high bit set in that case.
 */
static int
plain_length(const char *str, int len)
{
	const uint64 ones = UINT64CONST(0x0101010101010101);
	const uint64 high = ones * 0x80;
	int			i = 0;

	for (; i + 8 <= len; i += 8)
	{
		uint64		word;
		uint64		quote;
		uint64		backslash;

		memcpy(&word, str + i, sizeof(word));
		quote = word ^ (ones * '"');
		backslash = word ^ (ones * '\\');
		if ((((word - ones * 0x20) & ~word) |
			 ((quote - ones) & ~quote) |
			 ((backslash - ones) & ~backslash)) & high)
			break;
	}
	for (; i < len; i++)
	{
		unsigned char c = (unsigned char) str[i];

		if (c < 0x20 || c == '"' || c == '\\')
			break;
	}

	return i;
}

/*
 * Write a number as ECMAScript does, or refuse it.
 */
static CanonicalStatus
write_number(Writer *writer, Numeric number, const PathFrame *path)
{
	CanonicalStatus status = CANONICAL_OK;
	char	   *text;
	int			len;

	text = DatumGetCString(DirectFunctionCall1(numeric_out,
											   NumericGetDatum(number)));
	if (WRITER_BUFFER - writer->used < NUMBER_BUFFER)
		writer_flush(writer);
	len = number_form(text, writer->buffer + writer->used);
	if (len > 0)
		writer->used += len;
	else
		status = refuse(writer, CANONICAL_LOSSY_NUMBER, path, text);
	pfree(text);

	return status;
}

/*
 * Prepare to write; fault may be NULL if nothing can be refused.
 */
static void
writer_init(Writer *writer, CanonicalSink *sink, CanonicalFault *fault)
{
	writer->sink = sink;
	writer->fault = fault;
	writer->utf8 = GetDatabaseEncoding() == PG_UTF8;
	writer->used = 0;
}

/*
 * Write some bytes; a long piece goes to the sink uncopied.
 */
static inline void
put_bytes(Writer *writer, const char *bytes, size_t len)
{
	if (len > WRITER_BUFFER - writer->used)
	{
		writer_flush(writer);
		if (len > WRITER_BUFFER)
		{
			writer->sink->write(writer->sink, bytes, len);
			return;
		}
	}
	memcpy(writer->buffer + writer->used, bytes, len);
	writer->used += len;
}

/*
 * Write one byte.
 */
static inline void
put_char(Writer *writer, char c)
{
	if (writer->used == WRITER_BUFFER)
		writer_flush(writer);
	writer->buffer[writer->used++] = c;
}

/*
 * Hand to the sink what was collected.
 */
static void
writer_flush(Writer *writer)
{
	if (writer->used > 0)
		writer->sink->write(writer->sink, writer->buffer, writer->used);
	writer->used = 0;
}

/*
 * The UTF-8 form of a string in server encoding: the string itself, or a
 * palloc'd copy if and only if the server encoding is another.
 */
static const char *
to_utf8(const Writer *writer, const char *str, int *len)
{
	char	   *utf8;

	if (writer->utf8)
		return str;

	utf8 = pg_server_to_any(str, *len, PG_UTF8);
	if (utf8 == str)
		return pnstrdup(str, *len);
	*len = strlen(utf8);

	return utf8;
}

/*
 * Note why a document has no canonical text.
 */
static CanonicalStatus
refuse(Writer *writer, CanonicalStatus status, const PathFrame *path,
	   const char *value)
{
	writer->fault->status = status;
	writer->fault->path = path_text(path);
	writer->fault->value = value != NULL ? pstrdup(value) : NULL;

	return status;
}

/*
 * Name a path from the top, such as task.items[3].price; clipped if it is
 * very long.  No recursion: there may be no stack left.
 */
static char *
path_text(const PathFrame *path)
{
	StringInfoData text;
	const PathFrame **frames;
	const PathFrame *frame;
	int			depth = 0;
	int			i;

	for (frame = path; frame != NULL; frame = frame->parent)
		depth++;
	frames = palloc(Max(depth, 1) * sizeof(*frames));
	for (i = depth, frame = path; frame != NULL; frame = frame->parent)
		frames[--i] = frame;

	initStringInfo(&text);
	for (i = 0; i < depth; i++)
	{
		frame = frames[i];
		if (frame->name == NULL)
			canonical_append_element(&text, frame->index);
		else
		{
			const char *name = frame->name;
			int			len = frame->len;

			if (GetDatabaseEncoding() != PG_UTF8)
			{
				name = pg_any_to_server(name, len, PG_UTF8);
				len = strlen(name);
			}
			canonical_append_member(&text, name, len);
		}
	}
	pfree(frames);

	return text.data;
}

/*
 * Is a path as long as it may get?  If so, let it end in dots.
 */
static bool
path_is_full(StringInfo path)
{
	if (path->len < MAX_PATH)
		return false;
	if (path->data[path->len - 1] != '.')
		appendStringInfoString(path, "...");

	return true;
}

/*
 * Can a member's name stand in a path without quotes?
 */
static bool
is_identifier(const char *name, int len)
{
	int			i;

	for (i = 0; i < len; i++)
	{
		char		c = name[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
			  (i > 0 && c >= '0' && c <= '9')))
			return false;
	}

	return len > 0;
}
