package kernel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// portNames are the ethtool statistics that count a whole port in hardware: everything
// that crossed the wire, whichever function sent or received it. Names in one field are
// summed.
type portNames struct {
	rxPackets, txPackets, rxBytes, txBytes []string
}

// portStats names them by driver, from drivers/net/ethernet in Linux 6.12. A driver whose
// statistics of those names count the PF's own queues alone is not listed under them.
var portStats = map[string]portNames{
	"igb":       portNamed("rx_packets", "rx_bytes"), // GPRC, GPTC, GORC, GOTC
	"ixgbe":     portNamed("rx_pkts_nic", "rx_bytes_nic"),
	"i40e":      portSummed("port.rx_%s", "port.rx_bytes"),
	"ice":       portSummed("rx_%s.nic", "rx_bytes.nic"),
	"mlx5_core": portNamed("rx_packets_phy", "rx_bytes_phy"),
	"sfc":       portNamed("port_rx_packets", "port_rx_bytes"),
}

// portNamed takes the names for receiving; those for sending say tx instead.
func portNamed(packets, bytes string) portNames {
	return portNames{[]string{packets}, []string{sending(packets)}, []string{bytes}, []string{sending(bytes)}}
}

// portSummed is for drivers that count packets by kind only.
func portSummed(packets, bytes string) (p portNames) {
	for _, kind := range []string{"unicast", "multicast", "broadcast"} {
		name := fmt.Sprintf(packets, kind)
		p.rxPackets = append(p.rxPackets, name)
		p.txPackets = append(p.txPackets, sending(name))
	}
	p.rxBytes, p.txBytes = []string{bytes}, []string{sending(bytes)}
	return p
}

func sending(name string) string { return strings.Replace(name, "rx_", "tx_", 1) }

// noPortStats are drivers that certainly do not count a port: nothing behind them is one.
var noPortStats = []string{"virtio_net", "virtio-pci"}

// PortCounters returns what the PF's port counted in hardware since the driver was
// loaded: rx is what came in from the wire, for the PF and all of its VFs, tx what went
// out. Frames between VFs of the PF are not among them, and bytes include each frame's
// checksum on most drivers. Drops are not filled in.
//
// Where the driver does not count that, the error is errors.ErrUnsupported. Any other
// error says that it could not be told: for want of time, of the PF (model.ErrGone), or
// since nobody has looked up what the driver calls its statistics.
func (h *Host) PortCounters(ctx context.Context, pf string) (Counters, error) {
	const op = "read port counters of"
	driver := h.sys.target(pciDir(pciOf(h.sys, "class/net/"+pf+"/device")) + "/driver")
	var got Counters // not the result: if ctx ends, this is still being written
	err := h.busy.exclusive(ctx, "ethtool "+pf, func() error {
		names, values, err := ethtoolStats(h.ioctl, pf)
		if err == nil {
			got, err = portCounters(driver, names, values)
		}
		return err
	})
	if err != nil {
		return Counters{}, fail(op, "PF "+pf, err)
	}
	return got, nil
}

// portCounters finds a port's counters among a driver's statistics.
func portCounters(driver string, names []string, values []uint64) (c Counters, err error) {
	p, known := portStats[driver]
	switch {
	case slices.Contains(noPortStats, driver):
		return c, fmt.Errorf("driver %s: %w", driver, errors.ErrUnsupported)
	case !known:
		return c, fmt.Errorf("what driver %q calls its port's statistics is not known", driver)
	}
	for _, f := range []struct {
		to    *uint64
		names []string
	}{{&c.RxPackets, p.rxPackets}, {&c.TxPackets, p.txPackets}, {&c.RxBytes, p.rxBytes}, {&c.TxBytes, p.txBytes}} {
		for _, name := range f.names {
			i := slices.Index(names, name)
			if i < 0 {
				return Counters{}, fmt.Errorf("driver %s shows no statistic %s", driver, name)
			}
			*f.to += values[i]
		}
	}
	return c, nil
}
