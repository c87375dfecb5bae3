// Numbers, and what a JavaScript engine makes of them: numbers.mjs COUNT SEED prints lines of "number<tab>canonical text", the latter empty
// where no double shows exactly that value.
const [count, seed] = process.argv.slice(2).map(Number);

let state = BigInt(seed) * 2n + 1n;
const mask = (1n << 64n) - 1n;
function bits() {		// a xorshift, so that a seed repeats them
	state ^= (state << 13n) & mask;
	state ^= state >> 7n;
	state ^= (state << 17n) & mask;
	return state & mask;
}
const below = n => Number(bits() % BigInt(n));

const view = new DataView(new ArrayBuffer(8));
function fromBits(b) {
	view.setBigUint64(0, b);
	return view.getFloat64(0);
}

// A decimal as sign, digits without zeros around them, and exponent.
function normal(text) {
	let [, sign, whole, fraction = '', exponent = '0'] = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/.exec(text);
	let digits = (whole + fraction).replace(/^0+/, '');
	let e = Number(exponent) - fraction.length;
	const kept = digits.replace(/0+$/, '');
	e += digits.length - kept.length;
	return kept === '' ? '0' : sign + kept + 'e' + e;
}

const kinds = [
	() => String(fromBits(bits())),
	() => fromBits(bits()).toPrecision(17),
	() => fromBits(bits()).toPrecision(16),
	() => String((2 ** below(130)) + below(3) - 1),
	() => (2n ** BigInt(below(120)) + BigInt(below(5)) - 2n).toString(),
	() => String(2 ** (below(2098) - 1074)),
	() => (2 ** (below(2098) - 1074)).toPrecision(17),
	() => String(Number(bits()) / 100),
	() => (bits() % (10n ** BigInt(1 + below(19)))).toString() + 'e' + (below(680) - 350),
	() => '0.' + '0'.repeat(below(12)) + (bits() % (10n ** BigInt(1 + below(18)))).toString(),
	() => '-' + (below(1e6) / 1000).toString(),
];

for (let n = 0; n < count;) {
	const text = kinds[below(kinds.length)]();
	if (!/^-?\d+(\.\d+)?(e[+-]?\d+)?$/.test(text)) continue;		// NaN, Infinity
	const shown = JSON.stringify(Number(text));
	const exact = shown !== 'null' && normal(shown) === normal(text);
	console.log(text + '\t' + (exact ? shown : ''));
	n++;
}
