# The tables of bench/run, each from lines of one measurement: medians, and
# the medians of the ratios within a round.
#
#   -v table=goals          what|floor|aim|round|ours|theirs
#   -v table=throughput     mode clients round contestant tps
#   -v table=cpu            round contestant microseconds
#   -v table=hashing        payload:round:expression:bytes a second

function median(values, n,    i, j, t) {
	for (i = 2; i <= n; i++)
		for (j = i; j > 1 && values[j] < values[j - 1]; j--) {
			t = values[j]; values[j] = values[j - 1]; values[j - 1] = t
		}
	return n % 2 ? values[(n + 1) / 2] : (values[n / 2] + values[n / 2 + 1]) / 2
}

function take(row, round, contestant, value) {
	if (!(row in rounds))
		rows[++nrows] = row
	rounds[row] = round
	measured[row, round, contestant] = value
}

function typical(row, contestant,    v, i) {
	for (i = 1; i <= rounds[row]; i++)
		v[i] = measured[row, i, contestant]
	return median(v, rounds[row])
}

function ratio(row, over, under,    v, i) {
	for (i = 1; i <= rounds[row]; i++)
		v[i] = measured[row, i, over] / measured[row, i, under]
	return median(v, rounds[row])
}

table == "goals"      { take($1, $4, "ours", $5); take($1, $4, "theirs", $6); floor[$1] = $2; aim[$1] = $3 }
table == "throughput" { take($1 " " $2, $3, $4, $5) }
table == "cpu"        { take("all", $1, $2, $3) }
table == "hashing"    { take($1, $2, $3, $4) }

END {
	print ""
	if (table == "goals") {
		print "what was to be reached: a ratio, medians of its rounds"
		printf "  %-50s | %10s %10s | %8s | %6s %6s\n", "8 clients", "extaction", "other", "ratio", "floor", "aim"
	}
	if (table == "hashing") {
		print "canonical form and SHA-256, MB of payload text a second"
		printf "  %-8s | %12s %12s | %8s\n", "payload", "plain text", "extaction", "ratio"
	}
	if (table == "cpu") {
		print "CPU of one backend for a call and its commit, microseconds (fsync off)"
		printf "  %9s %9s %9s | %12s %12s\n", "INSERT", "PL/pgSQL", "extaction", "of INSERT", "of PL/pgSQL"
	}
	if (table == "throughput") {
		print "submit_fake_task of an approved request, every intent new; calls a second"
		printf "  %-10s %7s | %9s %9s %9s | %12s %12s\n", "mode", "clients", "INSERT", "PL/pgSQL", "extaction", "of INSERT", "of PL/pgSQL"
	}
	for (r = 1; r <= nrows; r++) {
		row = rows[r]
		if (table == "goals") {
			printf "  %-50s | %10.4g %10.4g | %8.2f | %6s %6s\n", row, typical(row, "ours"), typical(row, "theirs"),
				ratio(row, "ours", "theirs"), floor[row], aim[row]
			continue
		}
		if (table == "hashing") {
			printf "  %-8s | %12.0f %12.0f | %8.2f\n", row, typical(row, "plain") / 1e6, typical(row, "extaction") / 1e6,
				ratio(row, "extaction", "plain")
			continue
		}
		if (table == "throughput") {
			split(row, name, " ")
			printf "  %-10s %7d |", name[1], name[2]
		} else
			printf " "
		printf " %9.0f %9.0f %9.0f | %12.2f %12.2f\n", typical(row, "insert"), typical(row, "by-hand"), typical(row, "extaction"),
			ratio(row, "extaction", "insert"), ratio(row, "extaction", "by-hand")
	}
}
