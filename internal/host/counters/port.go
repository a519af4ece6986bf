// Package counters reads the counters of the kernel and NICs: interfaces, VFs and ports many times a second, and the CPU time of
// a VM's virtio.
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

// Counting opens Readers, and reads what is needed rarely.
type Counting struct{ k *sysif.Kernel }

// New returns a Counting, which needs no closing.
func New(k *sysif.Kernel) *Counting { return &Counting{k} }

// portNames are the ethtool statistics that count a whole port in hardware: everything that crossed the wire, for any function. They
// are the names of rx packets, tx packets, rx bytes and tx bytes; several names are summed.
type portNames [4][]string

// portStats maps drivers to their statistics, from drivers/net/ethernet in Linux 6.12. It omits drivers whose statistics of those
// names count only the PF's own queues.
var portStats = map[string]portNames{
	"igb":       portNamed("rx_packets", "rx_bytes"), // GPRC, GPTC, GORC, GOTC
	"ixgbe":     portNamed("rx_pkts_nic", "rx_bytes_nic"),
	"i40e":      portSummed("port.rx_%s", "port.rx_bytes"),
	"ice":       portSummed("rx_%s.nic", "rx_bytes.nic"),
	"mlx5_core": portNamed("rx_packets_phy", "rx_bytes_phy"),
	"sfc":       portNamed("port_rx_packets", "port_rx_bytes"),
}

// portNamed takes the names for receiving; those for sending contain tx instead.
func portNamed(packets, bytes string) portNames {
	return portNames{[]string{packets}, []string{sending(packets)}, []string{bytes}, []string{sending(bytes)}}
}

// portSummed is for drivers that count packets only by kind.
func portSummed(packets, bytes string) (p portNames) {
	for _, kind := range []string{"unicast", "multicast", "broadcast"} {
		name := fmt.Sprintf(packets, kind)
		p[0] = append(p[0], name)
		p[1] = append(p[1], sending(name))
	}
	p[2], p[3] = []string{bytes}, []string{sending(bytes)}
	return p
}

func sending(name string) string { return strings.Replace(name, "rx_", "tx_", 1) }

// noPortStats are drivers of devices without a physical port.
var noPortStats = []string{"virtio_net", "virtio-pci"}

// PortCounters returns what the PF's port has counted in hardware since the driver was loaded: rx is what came in from the wire
// for the PF and all of its VFs, tx what went out. Frames between VFs of the PF are not included. Bytes include each frame's
// checksum on most drivers. Drops are not filled in.
//
// If the driver does not count the port, the error is errors.ErrUnsupported. Any other error means that the counters are unknown:
// the deadline passed, the PF is gone (model.ErrGone), or the driver's names for its statistics are not in portStats.
func (h *Counting) PortCounters(ctx context.Context, pf string) (netdev.Counters, error) {
	var got netdev.Counters // not the result: still being written if ctx ends
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

// portReader reads a PF's port counters repeatedly; it caches their indexes among the driver's statistics.
type portReader struct {
	dev string
	n   int    // number of the driver's statistics
	at  [4]ats // of rx packets, tx packets, rx bytes, tx bytes
	buf []byte
}

// ats are the indexes of statistics to be summed.
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

// portPlaces finds the port's counters among the names of a driver's statistics.
func portPlaces(driver string, names []string) (at [4]ats, err error) {
	p, known := portStats[driver]
	switch {
	case slices.Contains(noPortStats, driver):
		return at, fmt.Errorf("driver %s: %w", driver, errors.ErrUnsupported)
	case !known:
		return at, fmt.Errorf("the names of the port statistics of driver %q are not known", driver)
	}
	for i, wanted := range p {
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
