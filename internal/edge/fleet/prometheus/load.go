// Package prometheus reads from Prometheus what the PFs of a fleet send.
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

// Query is what is asked: the rate in bytes/s that each PF exceeded for a twentieth of the last hour.
const Query = `quantile_over_time(0.95, sluice_link_transmit_bytes_per_second[1h])` +
	` * on (instance, pf) group_left (pci_address) sluice_pf_info`

// limit bounds the wait for an answer.
const limit = 10 * time.Second

// Load returns what PFs have sent lately, in kbit/s by the UUIDs of their providers. The host name in the label instance, or that up to its
// first dot, must be the host's in the ledger; others are left out.
func Load(ctx context.Context, address string, hosts []fleet.Host) (map[string]int, error) {
	client, err := api.NewClient(api.Config{Address: address})
	if err != nil {
		return nil, fmt.Errorf("ask Prometheus at %s: %w", address, err)
	}
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	value, _, err := promv1.NewAPI(client).Query(ctx, Query, time.Time{})
	if err != nil {
		return nil, fmt.Errorf("ask Prometheus at %s: %w", address, err)
	}
	vector, ok := value.(model.Vector)
	if !ok {
		return nil, fmt.Errorf("ask Prometheus at %s: it answers a %s instead of a vector", address, value.Type())
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
		kbits := float64(s.Value) * 8 / 1000
		if ok && kbits >= 0 && kbits <= math.MaxInt32 {
			out[host.PF(string(s.Metric["pci_address"]))] = int(kbits)
		}
	}
	return out, nil
}
