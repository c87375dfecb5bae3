/*-------------------------------------------------------------------------
 *
 * number.c
 *	  The canonical text (RFC 8785) of a number.
 *
 * A number is written as ECMAScript writes the double nearest to it.  If that
 * text does not show exactly the value which was given, there is no form: so
 * equal texts mean equal values.
 *
 * The number comes as the text that PostgreSQL prints for a numeric in jsonb:
 * plain digits, so none is lost on the way here.
 *
 * This is a leaf: it knows no SQL and raises no error.
 *
 * Copyright (c) 2026, the extaction authors
 *
 *-------------------------------------------------------------------------
 */
#include "extaction.h"

#include <math.h>

#include "common/shortest_dec.h"

/* A double has no canonical form of more digits, and keeps any this short. */
#define MAX_DIGITS 17
#define SAFE_DIGITS 15

/* Well inside the range where a double keeps SAFE_DIGITS digits. */
#define SAFE_POINT 290

/* The value digits * 10 ^ (point - ndigits); digits has no trailing zero. */
typedef struct Decimal
{
	uint64		digits;
	int			ndigits;
	int			point;			/* where the decimal point stands in digits */
	bool		negative;
} Decimal;


static bool is_short_integer(const char *text, size_t len);
static bool is_server_form(const char *text, size_t len);
static bool read_decimal(const char *text, Decimal *decimal);
static bool is_canonical(const Decimal *decimal, const char *text);
static bool is_nearest(const Decimal *decimal, double value);
static double decimal_value(uint64 digits, int exponent);
static int	format_decimal(const Decimal *decimal, char *out);
static int	format_plain(const char *digits, int ndigits, int point,
						 char *out);
static int	format_scientific(const char *digits, int ndigits, int point,
							  char *out);

/*
 * Write the canonical text of a number that jsonb prints as this text: at most
 * NUMBER_BUFFER bytes, with no NUL after them.  Returns the length, or 0 if no
 * double shows this very value.
 */
int
number_form(const char *text, char *out)
{
	size_t		len = strlen(text);
	Decimal		decimal;

	if (is_short_integer(text, len) || is_server_form(text, len))
	{
		memcpy(out, text, len);
		return len;
	}
	if (read_decimal(text, &decimal) && is_canonical(&decimal, text))
		return format_decimal(&decimal, out);

	return 0;
}

/*
 * Does the text consist of few digits, and so is canonical as it stands?
 * (jsonb prints integers without leading zeros, and no minus before zero.)
 */
static bool
is_short_integer(const char *text, size_t len)
{
	size_t		i;

	if (len > SAFE_DIGITS)
		return false;
	for (i = text[0] == '-' ? 1 : 0; i < len; i++)
	{
		if (text[i] < '0' || text[i] > '9')
			return false;
	}

	return true;
}

/*
 * Is the text what PostgreSQL itself shows for the double, and so is canonical
 * as it stands?  A quick yes for the long fractions that most programs send.
 *
 * PostgreSQL's shortest form differs from ECMAScript's only where a decimal
 * just between two doubles has 17 digits or less, and where an exponent is
 * written.  Below 10 ^ 15 there is no such decimal, and from there on
 * PostgreSQL writes an exponent, so the texts differ.
 */
static bool
is_server_form(const char *text, size_t len)
{
	char		shortest[DOUBLE_SHORTEST_DECIMAL_LEN];

	if (len <= SAFE_DIGITS || len >= sizeof(shortest))
		return false;
	double_to_shortest_decimal_buf(strtod(text, NULL), shortest);

	return strcmp(text, shortest) == 0;
}

/*
 * Take apart a number as jsonb prints it: no exponent, digits on both sides
 * of a point.  Returns false for anything else, or if it has more significant
 * digits than any canonical number.
 */
static bool
read_decimal(const char *text, Decimal *decimal)
{
	bool		fraction = false;
	int			zeros = 0;		/* since the last digit that was not zero */
	const char *p = text;

	memset(decimal, 0, sizeof(*decimal));
	decimal->negative = *p == '-';
	if (decimal->negative)
		p++;
	for (; *p != '\0'; p++)
	{
		if (*p == '.')
		{
			fraction = true;
			continue;
		}
		if (*p < '0' || *p > '9')
			return false;		/* jsonb has no NaN and no infinity */

		/* the point moves with digits before it, or zeros after it */
		if (!fraction && (*p != '0' || decimal->ndigits > 0))
			decimal->point++;
		if (*p == '0')
		{
			if (decimal->ndigits > 0)
				zeros++;
			else if (fraction)
				decimal->point--;
			continue;
		}

		decimal->ndigits += zeros + 1;
		if (decimal->ndigits > MAX_DIGITS)
			return false;
		for (; zeros > 0; zeros--)
			decimal->digits *= 10;
		decimal->digits = decimal->digits * 10 + (*p - '0');
	}

	return true;
}

/*
 * Are these the digits that ECMAScript shows for the nearest double?
 *
 * They are if no shorter decimal stands for the same double (if one did, then
 * also one of the two neighbours with a digit less, since all decimals of a
 * double lie side by side), and if none of the same length is nearer to it.
 */
static bool
is_canonical(const Decimal *decimal, const char *text)
{
	int			exponent = decimal->point - decimal->ndigits;
	uint64		shorter = decimal->digits / 10;
	double		value;

	if (decimal->ndigits == 0)
		return true;			/* zero, even as 0e-400 */
	if (decimal->ndigits <= SAFE_DIGITS &&
		decimal->point >= -SAFE_POINT && decimal->point <= SAFE_POINT)
		return true;

	value = fabs(strtod(text, NULL));	/* LC_NUMERIC is C in a server */
	if (value == 0 || isinf(value))
		return false;
	if (decimal->ndigits > 1 &&
		(decimal_value(shorter, exponent + 1) == value ||
		 decimal_value(shorter + 1, exponent + 1) == value))
		return false;

	return is_nearest(decimal, value);
}

/*
 * Is no other decimal of as many digits, that stands for this double too,
 * nearer to it?
 *
 * The nearest decimal of all usually stands for the double, and is the one.
 * At a power of two it may not, because doubles lie closer together below
 * than above.  The nearest one that does is then the one next to it on the
 * other side, so that nothing between it and the double will do.
 */
static bool
is_nearest(const Decimal *decimal, double value)
{
	int			exponent = decimal->point - decimal->ndigits;
	char		text[NUMBER_BUFFER];
	char	   *p;
	uint64		digits = 0;
	int			digits_exponent;
	bool		below;

	snprintf(text, sizeof(text), "%.*e", decimal->ndigits - 1, value);
	for (p = text; *p != 'e'; p++)
	{
		if (*p >= '0' && *p <= '9')
			digits = digits * 10 + (*p - '0');
	}
	digits_exponent = atoi(p + 1) - (decimal->ndigits - 1);

	if (decimal_value(digits, digits_exponent) == value)
		return digits == decimal->digits && digits_exponent == exponent;

	below = digits_exponent < exponent ||
		(digits_exponent == exponent && digits < decimal->digits);

	return decimal_value(decimal->digits + (below ? -1 : 1),
						 exponent) != value;
}

/*
 * The double nearest to digits * 10 ^ exponent.
 */
static double
decimal_value(uint64 digits, int exponent)
{
	char		text[NUMBER_BUFFER];

	snprintf(text, sizeof(text), UINT64_FORMAT "e%d", digits, exponent);

	return strtod(text, NULL);
}

/*
 * Write a decimal as Number::toString of ECMAScript does; returns the length.
 */
static int
format_decimal(const Decimal *decimal, char *out)
{
	char		digits[MAX_DIGITS] = {0};
	uint64		rest = decimal->digits;
	int			len = 0;
	int			i;

	if (decimal->ndigits == 0)
	{
		out[0] = '0';
		return 1;
	}
	for (i = decimal->ndigits - 1; i >= 0; i--, rest /= 10)
		digits[i] = '0' + rest % 10;
	if (decimal->negative)
		out[len++] = '-';
	if (decimal->point > -6 && decimal->point <= 21)
		len += format_plain(digits, decimal->ndigits, decimal->point,
							out + len);
	else
		len += format_scientific(digits, decimal->ndigits, decimal->point,
								 out + len);

	return len;
}

/*
 * Write digits without an exponent, as in 1200, 1.2 or 0.0012.
 */
static int
format_plain(const char *digits, int ndigits, int point, char *out)
{
	int			len = 0;
	int			i;

	if (point <= 0)
	{
		out[len++] = '0';
		out[len++] = '.';
		for (i = point; i < 0; i++)
			out[len++] = '0';
	}
	for (i = 0; i < ndigits; i++)
	{
		if (i == point && point > 0)
			out[len++] = '.';
		out[len++] = digits[i];
	}
	for (; i < point; i++)
		out[len++] = '0';

	return len;
}

/*
 * Write digits with an exponent, as in 1.2e+21 or 1e-7.
 */
static int
format_scientific(const char *digits, int ndigits, int point, char *out)
{
	int			len = 0;

	out[len++] = digits[0];
	if (ndigits > 1)
	{
		out[len++] = '.';
		memcpy(out + len, digits + 1, ndigits - 1);
		len += ndigits - 1;
	}

	return len + snprintf(out + len, NUMBER_BUFFER - MAX_DIGITS - 2, "e%+d",
						  point - 1);
}
