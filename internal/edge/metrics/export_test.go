package metrics

import (
	"fmt"
	"strings"
)

// Table returns the table of docs/metrics.md.
func Table() string {
	var b strings.Builder
	b.WriteString("| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n")
	for _, m := range all {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.name, m.kind, strings.Join(m.labels, ", "), m.help)
	}
	return b.String()
}
