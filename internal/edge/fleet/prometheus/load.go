// Package prometheus reads from Prometheus what the PFs of a fleet send, and how many of their VFs are free.
package prometheus

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"sluice/internal/edge/fleet"
)

// address adds a PF's PCI address to its series.
const address = ` * on (instance, pf) group_left (pci_address) sluice_pf_info`

const (
	// Query asks for the rate in bytes/s that each PF exceeded for a twentieth of the last hour.
	Query = `quantile_over_time(0.95, sluice_link_transmit_bytes_per_second[1h])` + address
	// VFQuery asks how many VFs of each PF no VM holds.
	VFQuery = `sluice_pf_vfs{owner="free"}` + address
)

// limit bounds the wait for an answer.
const limit = 10 * time.Second

// Load returns what PFs have sent lately, in kbit/s by the UUIDs of their providers. The host name in the label instance, or that up to its
// first dot, must be the host's in the ledger; others are left out.
func Load(ctx context.Context, server string, hosts []fleet.Host) (map[string]int, error) {
	const kbits = 8. / 1000 // a byte/s
	return byPF(ctx, server, Query, kbits, hosts)
}

// FreeVFs returns how many VFs of PFs no VM holds, as Load returns what they send.
func FreeVFs(ctx context.Context, server string, hosts []fleet.Host) (map[string]int, error) {
	return byPF(ctx, server, VFQuery, 1, hosts)
}

// byPF asks for one figure of each PF, in units of so much.
func byPF(ctx context.Context, server, query string, unit float64, hosts []fleet.Host) (map[string]int, error) {
	client, err := api.NewClient(api.Config{Address: server})
	if err != nil {
		return nil, fmt.Errorf("ask Prometheus at %s: %w", server, err)
	}
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	value, _, err := promv1.NewAPI(client).Query(ctx, query, time.Time{})
	if err != nil {
		return nil, fmt.Errorf("ask Prometheus at %s: %w", server, err)
	}
	vector, ok := value.(model.Vector)
	if !ok {
		return nil, fmt.Errorf("ask Prometheus at %s: it answers a %s instead of a vector", server, value.Type())
	}
	byName := map[string]fleet.Host{}
	for _, h := range hosts {
		byName[h.Name] = h
	}
	out := map[string]int{}
	for _, s := range vector {
		name := string(s.Metric["instance"])
		if i := strings.LastIndexByte(name, ':'); i >= 0 {
			name = name[:i]
		}
		host, ok := byName[name]
		if short, _, dotted := strings.Cut(name, "."); !ok && dotted {
			host, ok = byName[short]
		}
		n := float64(s.Value) * unit
		if ok && n >= 0 && n <= math.MaxInt32 {
			out[host.PF(string(s.Metric["pci_address"]))] = int(n)
		}
	}
	return out, nil
}
