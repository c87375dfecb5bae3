// Prints the data part of test/sql/canonical.sql: canonical texts (RFC 8785)
// as a JavaScript engine writes them, and numbers that have none.
//
//     node test/vectors/make-vectors.mjs
//
// Replace what stands between the two "made by" lines of the test with the
// output, run the test, and read the difference before you keep it.

const view = new DataView(new ArrayBuffer(8));

function fromBits(bits) {
  view.setBigUint64(0, BigInt(bits));
  return view.getFloat64(0);
}

function toBits(number) {
  view.setFloat64(0, number);
  return view.getBigUint64(0);
}

// JSON.stringify() with members in the order of their UTF-16 code units, which
// is the order of sort(). The document is given as JSON text.
function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const members = Object.keys(value).sort();
  return `{${members.map((m) => `${JSON.stringify(m)}:${canonical(value[m])}`).join(",")}}`;
}

// The exact decimal value of a number text: digits without zeros at either
// end, and the power of ten.
function exactValue(text) {
  const [, sign, whole, fraction = "", exponent = "0"] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([-+]?\d+))?$/.exec(text);
  const digits = (whole + fraction).replace(/^0+/, "");
  const significant = digits.replace(/0+$/, "");
  if (significant === "") return "0";
  return `${sign}${significant}e${Number(exponent) - fraction.length + digits.length - significant.length}`;
}

const accepted = new Map();
const refused = new Set();

function document(text) {
  accepted.set(text, canonical(JSON.parse(text)));
}

// A number is accepted if its canonical text shows the very same value.
function number(text) {
  const shown = JSON.stringify(Number(text));
  if (shown !== "null" && exactValue(shown) === exactValue(text)) accepted.set(text, shown);
  else refused.add(text);
}

// --- documents ---------------------------------------------------------

[
  // RFC 8785, sections 3.2.2 (with a number that is exact) and 3.2.3
  String.raw`{"numbers":[333333333.3333333,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}`,
  String.raw`{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One","\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}`,
  // the request of the design document
  String.raw`{"v":"extaction.request.v1","scope":"shop","intent_id":"order-7/receipt","action":"send_mail","candidate":null,"destination":"ada@example.org","payload":{"z":null,"subject":"Quittung \u00e9 \ud83d\ude00","n":1e21,"small":0.0000001,"list":[2,1],"total":120.10}}`,
  // scalars, empties, nesting
  `null`, `true`, `false`, `""`, `[]`, `{}`, `[[]]`, `[{}]`, `{"":{}}`, `{"":{"":[]}}`, `[[],[[]],{"a":[]}]`,
  `[null]`, `{"a":null}`, `{"a":null,"b":{"a":null}}`, `[1,[2,[3,[4]]]]`, `[3,1,2]`, `[true,false,null]`,
  // order: jsonb sorts names by length first, UTF-8 bytes differ past U+FFFF
  `{"b":1,"aa":2,"a":3,"":4}`, `{"aaa":1,"b":2,"AA":3,"B":4,"_":5,"10":6,"9":7}`,
  `{"abcdefgh":1,"abcdefg":2,"abcdefghi":3,"abcdefghA":4}`, `{"abcdefghij":1,"abcdefgh\\u00e9":2,"abcdefgh":3}`,
  String.raw`{"\ufb33":1,"\ud83d\ude02":2}`, String.raw`{"\ue000":1,"\uffff":2,"\ud800\udc00":3,"\udbff\udfff":4,"\ud7ff":5}`,
  String.raw`{"12345678\ufb33":1,"12345678\ud83d\ude02":2}`, String.raw`{"1234567\ufb33":1,"1234567\ud83d\ude02":2}`,
  String.raw`{"\ufb33a":1,"\ufb33":2,"\ud83d\ude02a":3,"\ud83d\ude02":4,"z":5}`,
  // nothing is normalised: one name composed, one decomposed
  String.raw`{"e\u0301":"e\u0301","\u00e9":"\u00e9"}`, String.raw`"\u212b\u00c5A\u030a"`,
  // strings
  String.raw`"\b\t\n\f\r\"\\\/"`, String.raw`"\u2028\u2029\ufeff\ufffd\u007f\u0080\u00a0"`, `"/<>&'"`,
  String.raw`"\ud83d\ude00 \ud834\udd1e"`, String.raw`"\u001f\u0020\u0021\u0022\u0023\u005b\u005c\u005d"`,
  String.raw`"12345678\n12345678\"2345678\\1234567\u0001"`, String.raw`"1234567\u0007"`, String.raw`"123456789012345\u000f"`,
  String.raw`{"line\nbreak":{"\"":{"\\":{"\u0001":0}}}}`,
].forEach(document);

for (let code = 1; code < 0x20; code++) {
  const escape = `\\u${code.toString(16).padStart(4, "0")}`;
  document(`"${escape}"`);
}
document(`"${"x".repeat(1500)}\\n${"\\u00e9".repeat(700)}"`);
document(`[${Array.from({ length: 300 }, (_, i) => i - 150).join(",")}]`);
document(`{${Array.from({ length: 100 }, (_, i) => `"k${(i * 37) % 101}":${i}`).join(",")}}`);

// --- numbers -----------------------------------------------------------

// RFC 8785, appendix B
[
  "0x0000000000000000", "0x8000000000000000", "0x0000000000000001", "0x8000000000000001",
  "0x7fefffffffffffff", "0xffefffffffffffff", "0x4340000000000000", "0xc340000000000000",
  "0x4430000000000000", "0x44b52d02c7e14af5", "0x44b52d02c7e14af6", "0x44b52d02c7e14af7",
  "0x444b1ae4d6e2ef4e", "0x444b1ae4d6e2ef4f", "0x444b1ae4d6e2ef50", "0x3eb0c6f7a0b5ed8c",
  "0x3eb0c6f7a0b5ed8d", "0x41b3de4355555553", "0x41b3de4355555554", "0x41b3de4355555555",
  "0x41b3de4355555556", "0x41b3de4355555557", "0xbecbf647612f3696", "0x43143ff3c1cb0959",
].forEach((bits) => number(String(fromBits(bits))));

[
  // other spellings of the same value
  "-0", "-0.0", "0e5", "1.0", "1.50", "120.10", "1E2", "1e+2", "100e-2", "0.1e1", "-1e0",
  // where the form changes
  "1e20", "1e21", "123456789012345680000", "1234567890123456800000", "1e-6", "1e-7", "0.0000012", "0.00000012",
  "999999999999999", "1e15", "123456789012345", "0.123456789012345", "-0.000001", "-1e-7",
  // the ends of the range
  "5e-324", "4e-324", "1e-323", "9e-324", "2.2250738585072014e-308", "2.2250738585072011e-308", "1e-308",
  "1.7976931348623157e308", "1.7976931348623158e308", "1.797693134862315e308", "1e308", "1e309", "1e400", "1e-400", "1e131000",
  // no double shows these
  "9007199254740991", "9007199254740993", "9007199254740995", "0.1000000000000000055", "0.1", "0.10000000000000001",
  "333333333.33333329", "1234567890123456789", "0.3", "0.30000000000000004", "0.300000000000000044", "3.141592653589793",
  "3.141592653589793238462643383", "5.684341886080802e-14", "5.6843418860808015e-14", "100000000000000000000001",
  "18446744073709551615", "18446744073709552000", "9223372036854775807", "9223372036854775808", "9223372036854776000",
].forEach(number);

// powers of two and their neighbours: the gap below is half the gap above
for (const power of [-1074, -1073, -1023, -1022, -1021, -970, -500, -44, -20, -1, 0, 1, 24, 44, 52, 53, 54, 55, 56, 60, 63, 64, 65, 70, 77, 100, 122, 500, 970, 1022, 1023]) {
  const bits = toBits(2 ** power);
  for (const neighbour of [bits - 1n, bits, bits + 1n]) {
    if (neighbour > 0n) number(String(fromBits(neighbour)));
  }
  number((2 ** power).toPrecision(17));
}

// integers above 2 ^ 53, even and odd
for (const step of [0n, 1n, 2n, 3n, 4n, 6n, 7n, 8n]) {
  number(String(2n ** 53n + step));
  number(String(2n ** 57n + step));
  number(String(2n ** 63n + step));
}

// --- output ------------------------------------------------------------

function rows(list) {
  return `${list.map((row) => `(${row.map((text) => `$v$${text}$v$`).join(", ")})`).join(",\n")};`;
}

console.log(`INSERT INTO vector (input, expected) VALUES\n${rows([...accepted])}`);
console.log(`INSERT INTO refused (input) VALUES\n${rows([...refused].map((text) => [text]))}`);
