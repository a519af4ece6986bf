package fleet

import (
	"fmt"
	"net"
	"slices"
	"strconv"
)

// TargetGroup is what Prometheus discovers, in the format of its HTTP and file service discovery.
type TargetGroup struct {
	Targets []string `json:"targets"` // HOST:PORT
}

// Targets are the daemons of these hosts, under their names in the ledger.
func Targets(hosts []Host, port int) []TargetGroup {
	g := TargetGroup{Targets: []string{}}
	for _, h := range hosts {
		g.Targets = append(g.Targets, net.JoinHostPort(h.Name, strconv.Itoa(port)))
	}
	return []TargetGroup{g}
}

// Find returns the host of that name.
func Find(hosts []Host, name string) (Host, error) {
	i := slices.IndexFunc(hosts, func(h Host) bool { return h.Name == name })
	if i < 0 {
		return Host{}, fmt.Errorf("no host %s has been published: `sluice fleet list` names all", name)
	}
	return hosts[i], nil
}
