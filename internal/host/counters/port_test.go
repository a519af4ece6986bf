package counters

import (
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/netdev"
	"sluice/internal/model"
)

// TestEthtoolStats reads the statistics of a veth, one of which has a value known from elsewhere: its peer's index.
func TestEthtoolStats(t *testing.T) {
	h := newHost(t)
	kerneltest.IP(t, "link add veth0 type veth peer name veth1")
	t.Cleanup(func() { kerneltest.IP(t, "link del veth0") })
	n, err := ethtoolCount(h.k.Ioctl, "veth0")
	kerneltest.Must(t, err)
	names, err := ethtoolNames(h.k.Ioctl, "veth0", n)
	kerneltest.Must(t, err)
	buf, err := ethtoolValues(h.k.Ioctl, "veth0", n, nil)
	kerneltest.Must(t, err)
	peer, err := h.Link(kerneltest.Soon(t), "veth1")
	kerneltest.Must(t, err)
	i := slices.Index(names, "peer_ifindex")
	if len(names) != n || i < 0 || ethtoolValue(buf, i) != uint64(peer.Index) {
		t.Errorf("%d names %q; want peer_ifindex %d", n, names, peer.Index)
	}
	if _, err := ethtoolValues(h.k.Ioctl, "veth0", n-1, buf); !errors.Is(err, errStatsChanged) {
		t.Errorf("statistics of which there is one more now: %v, want errStatsChanged", err)
	}
}

func TestPortCountersNotSupportedIsNotUntold(t *testing.T) {
	h := newHost(t)
	kerneltest.NewPort(t, "tap0", "")
	kerneltest.IP(t, "link add veth0 type veth peer name veth1")
	t.Cleanup(func() { kerneltest.IP(t, "link del veth0") })

	if _, err := h.PortCounters(kerneltest.Soon(t), "tap0"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a driver without statistics: %v, want errors.ErrUnsupported", err)
	}
	if _, err := h.PortCounters(kerneltest.Soon(t), "veth0"); err == nil || errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a driver whose names are unknown: %v, want another error", err)
	}
	_, err := h.PortCounters(kerneltest.Soon(t), "nosuch")
	if !errors.Is(err, model.ErrGone) || errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a PF that is gone: %v, want model.ErrGone", err)
	}
	if _, err := h.PortCounters(kerneltest.Soon(t), "a-name-that-is-too-long"); !errors.Is(err, model.ErrGone) {
		t.Errorf("a name that no interface has: %v, want model.ErrGone", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.PortCounters(ctx, "tap0"); !errors.Is(err, context.Canceled) {
		t.Errorf("without time: %v, want context.Canceled", err)
	}
}

func TestPortCountersByDriver(t *testing.T) {
	want := netdev.Counters{RxPackets: 6, TxPackets: 60, RxBytes: 1000, TxBytes: 2000}
	igb := map[string]uint64{"rx_packets": 6, "tx_packets": 60, "rx_bytes": 1000, "tx_bytes": 2000, "rx_broadcast": 5, "rx_queue_0_packets": 4}
	for driver, stats := range map[string]map[string]uint64{
		"igb": igb,
		"ixgbe": {
			"rx_packets": 1, "tx_packets": 1, "rx_bytes": 1, "tx_bytes": 1, "rx_pkts_nic": 6, "tx_pkts_nic": 60, "rx_bytes_nic": 1000,
			"tx_bytes_nic": 2000,
		},
		"i40e": {
			"rx_packets": 1, "tx_packets": 1, "port.rx_bytes": 1000, "port.tx_bytes": 2000,
			"port.rx_unicast": 1, "port.rx_multicast": 2, "port.rx_broadcast": 3,
			"port.tx_unicast": 10, "port.tx_multicast": 20, "port.tx_broadcast": 30,
		},
	} {
		got, err := countersIn(driver, stats)
		kerneltest.Must(t, err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got): %s", driver, diff)
		}
	}
	delete(igb, "tx_bytes")
	if c, err := countersIn("igb", igb); err == nil || errors.Is(err, errors.ErrUnsupported) || c != (netdev.Counters{}) {
		t.Errorf("igb without tx_bytes: %v, %v; want an error and no figure", c, err)
	}
	if _, err := portPlaces("virtio_net", nil); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("virtio_net: %v, want errors.ErrUnsupported", err)
	}
}

// countersIn reads a port's counters from statistics in the kernel's layout.
func countersIn(driver string, stats map[string]uint64) (c netdev.Counters, err error) {
	names := slices.Sorted(maps.Keys(stats))
	buf := make([]byte, valuesHeader)
	for _, name := range names {
		buf = binary.NativeEndian.AppendUint64(buf, stats[name])
	}
	at, err := portPlaces(driver, names)
	if err != nil {
		return c, err
	}
	return netdev.Counters{RxPackets: at[0].sum(buf), TxPackets: at[1].sum(buf), RxBytes: at[2].sum(buf), TxBytes: at[3].sum(buf)}, nil
}
