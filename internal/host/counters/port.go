package counters

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sluice/internal/host/netdev"
	"sluice/internal/host/sysif"
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
func (h *Counting) PortCounters(ctx context.Context, pf string) (netdev.Counters, error) {
	var got netdev.Counters // not the result: if ctx ends, this is still being written
	err := h.k.Busy.Exclusive(ctx, "ethtool "+pf, func() error {
		r, err := newPortReader(h.k.Sys, h.k.Ioctl, pf)
		if err == nil {
			got, err = r.read(h.k.Ioctl)
		}
		return err
	})
	if err != nil {
		return netdev.Counters{}, sysif.Fail("read port counters of", "PF "+pf, err)
	}
	return got, nil
}

// portReader reads a PF's port counters again and again: it knows where they are among
// the driver's statistics.
type portReader struct {
	dev string
	n   int    // how many statistics the driver has
	at  [4]ats // of rx packets, tx packets, rx bytes, tx bytes
	buf []byte
}

// ats are the places of statistics to be summed.
type ats []int

func newPortReader(sys sysif.Tree, fd int, dev string) (*portReader, error) {
	n, err := ethtoolCount(fd, dev)
	if err != nil {
		return nil, err
	}
	names, err := ethtoolNames(fd, dev, n)
	if err != nil {
		return nil, err
	}
	driver := sys.Target(sysif.PCIDir(sysif.PCIOf(sys, "class/net/"+dev+"/device")) + "/driver")
	at, err := portPlaces(driver, names)
	return &portReader{dev: dev, n: n, at: at}, err
}

func (r *portReader) read(fd int) (c netdev.Counters, err error) {
	if r.buf, err = ethtoolValues(fd, r.dev, r.n, r.buf); err != nil {
		return c, err
	}
	c.RxPackets, c.TxPackets = r.at[0].sum(r.buf), r.at[1].sum(r.buf)
	c.RxBytes, c.TxBytes = r.at[2].sum(r.buf), r.at[3].sum(r.buf)
	return c, nil
}

func (a ats) sum(buf []byte) (sum uint64) {
	for _, i := range a {
		sum += ethtoolValue(buf, i)
	}
	return sum
}

// portPlaces finds a port's counters among the names of a driver's statistics.
func portPlaces(driver string, names []string) (at [4]ats, err error) {
	p, known := portStats[driver]
	switch {
	case slices.Contains(noPortStats, driver):
		return at, fmt.Errorf("driver %s: %w", driver, errors.ErrUnsupported)
	case !known:
		return at, fmt.Errorf("what driver %q calls its port's statistics is not known", driver)
	}
	for i, wanted := range [][]string{p.rxPackets, p.txPackets, p.rxBytes, p.txBytes} {
		for _, name := range wanted {
			k := slices.Index(names, name)
			if k < 0 {
				return at, fmt.Errorf("driver %s shows no statistic %s", driver, name)
			}
			at[i] = append(at[i], k)
		}
	}
	return at, nil
}
