# The table of bench/growth, from lines "stage round what ms blocks first-ms":
# medians of the rounds, and how they compare with those of an empty ledger.

function median(stage, what, column,    v, n, i, j, t) {
	for (i = 1; (stage, i, what) in line; i++) {
		split(line[stage, i, what], fields, " ")
		v[++n] = fields[column]
	}
	for (i = 2; i <= n; i++)
		for (j = i; j > 1 && v[j] < v[j - 1]; j--) {
			t = v[j]; v[j] = v[j - 1]; v[j - 1] = t
		}
	return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
}

{
	if (!($3 in seen)) {
		seen[$3] = 1
		order[++count] = $3
	}
	line[$1, $2, $3] = $4 " " $5 " " $6
}

END {
	print ""
	print "a call in the server: milliseconds and blocks; x: times that of the empty ledger"
	print "(the slowest call of each round, which plans its statements, is left out of the milliseconds and shown as first)"
	printf "  %-20s | %8s %8s | %8s %5s %8s %5s | %8s %5s %8s %5s %8s\n", "", "empty ms", "blocks", "full ms", "x", "blocks", "x",
		"held ms", "x", "blocks", "x", "first ms"
	for (i = 1; i <= count; i++) {
		what = order[i]
		ms = median("empty", what, 1)
		blocks = median("empty", what, 2)
		name = what
		gsub("~", " ", name)
		printf "  %-20s | %8.3f %8.0f | %8.3f %5.2f %8.0f %5.2f | %8.3f %5.2f %8.0f %5.2f %8.1f\n", name, ms, blocks,
			median("full", what, 1), median("full", what, 1) / ms, median("full", what, 2), median("full", what, 2) / blocks,
			median("held", what, 1), median("held", what, 1) / ms, median("held", what, 2), median("held", what, 2) / blocks,
			median("held", what, 3)
	}
}
