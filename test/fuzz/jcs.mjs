// The canonical form (RFC 8785) by a JavaScript engine: reads lines of "hex of a JSON text<tab>hex of its canonical text in UTF-8" and prints
// those in which the second is not what it should be.
import { createInterface } from 'node:readline';

function canonical(value) {
	if (Array.isArray(value)) return '[' + value.map(canonical).join(',') + ']';
	if (value === null || typeof value !== 'object') return JSON.stringify(value);
	return '{' + Object.keys(value).sort().map(k => JSON.stringify(k) + ':' + canonical(value[k])).join(',') + '}';
}

for await (const line of createInterface({ input: process.stdin })) {
	const [text, ours] = line.split('\t').map(hex => Buffer.from(hex, 'hex').toString());
	const theirs = canonical(JSON.parse(text));
	if (theirs !== ours) console.log(`${text}: ${ours}, should be ${theirs}`);
}
