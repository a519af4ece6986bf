package throughput

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// cpu is the time of a CPU since the boot, in ticks.
type cpu struct{ idle, total uint64 }

// cpus returns the times of all CPUs.
func cpus() ([]cpu, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return nil, err
	}
	return parseStat(text)
}

// Columns of a CPU's line in /proc/stat after its name. Those from guestColumn on are part of others.
const (
	idleColumn   = 3
	iowaitColumn = 4
	guestColumn  = 8
)

func parseStat(text []byte) (list []cpu, err error) {
	for line := range bytes.Lines(text) {
		words := strings.Fields(string(line))
		if len(words) <= guestColumn || words[0] == "cpu" || !strings.HasPrefix(words[0], "cpu") {
			continue
		}
		var c cpu
		for i, w := range words[1 : 1+guestColumn] {
			n, err := strconv.ParseUint(w, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("read /proc/stat: %w", err)
			}
			c.total += n
			if i == idleColumn || i == iowaitColumn {
				c.idle += n
			}
		}
		list = append(list, c)
	}
	return list, nil
}

// busiest returns the busy share of the CPU that was busiest between two readings, 0..1.
func busiest(before, after []cpu) (most float64) {
	if len(before) != len(after) { // one came or went
		return 0
	}
	for i := range after {
		if total := after[i].total - before[i].total; after[i].total > before[i].total && after[i].idle >= before[i].idle {
			most = max(most, 1-float64(after[i].idle-before[i].idle)/float64(total))
		}
	}
	return most
}
