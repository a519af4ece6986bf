// Package netdev reads network interfaces by rtnetlink: kinds, masters, states and counters, and the filters at a tap's ingress.
package netdev

import "sluice/internal/host/sysif"

// Devices manages the interfaces of a network namespace.
type Devices struct {
	k     *sysif.Kernel
	table *linkTable
}

// New subscribes to changes of interfaces; Close ends the subscription.
func New(k *sysif.Kernel) (*Devices, error) {
	table, err := newLinkTable()
	if err != nil {
		return nil, err
	}
	return &Devices{k: k, table: table}, nil
}

// Close ends the subscription.
func (h *Devices) Close() error { return h.table.note.Close() }
