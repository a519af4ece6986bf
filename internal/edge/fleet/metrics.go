package fleet

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
)

// Metrics are what monitoring reads of Rounds. The table of docs/fleet.md lists them.
type Metrics struct {
	published time.Time // the last Round without an error; zero: none yet
	unclaimed int       // then
	refused   int       // then
	writes    int
	failures  int
}

// Add counts a Round that ended at a time.
func (m *Metrics) Add(r *Round, now time.Time) {
	m.writes += r.Writes
	if r.Err != nil {
		m.failures++
		return
	}
	m.published, m.unclaimed, m.refused = now, len(r.Unclaimed), r.Refused
}

// Text is in Prometheus' text format. A value that is not known yet is absent.
func (m *Metrics) Text() []byte {
	var b bytes.Buffer
	line := func(name, kind, help string, value float64) {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n%s %s\n", name, help, name, kind, name, strconv.FormatFloat(value, 'f', -1, 64))
	}
	line("sluice_fleet_failures_total", "counter", "Rounds after which the ledger was not up to date.", float64(m.failures))
	if !m.published.IsZero() {
		line("sluice_fleet_published_timestamp_seconds", "gauge", "When the ledger was last up to date.", float64(m.published.Unix()))
		line("sluice_fleet_refused_claims", "gauge", "Claims that the daemon does not keep.", float64(m.refused))
		line("sluice_fleet_unclaimed_guarantees", "gauge", "Guarantees that claim less in the ledger, or nothing.", float64(m.unclaimed))
	}
	line("sluice_fleet_writes_total", "counter", "Writes to the ledger.", float64(m.writes))
	return b.Bytes()
}
