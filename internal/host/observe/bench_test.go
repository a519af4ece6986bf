package observe

import (
	"context"
	"fmt"
	"testing"
	"time"

	fdb "sluice/internal/host/bridge"
	"sluice/internal/host/libvirt"
	"sluice/internal/host/netdev"
	"sluice/internal/model"
)

// crowd is a host with n VMs on two PFs with 32 VFs each, all held.
func crowd(n int) *fakeWorld {
	f := newFakeWorld()
	f.addPF("pf0", "br0", 32, counting)
	f.addPF("pf1", "br0", 32, counting)
	for i := range n {
		f.addVM(i, "br0")
		f.fdb = append(f.fdb, fdb.FDBEntry{MAC: mac(i), Bridge: "br0", Port: fmt.Sprintf("vnet%d", i)})
	}
	for i := range min(n, 64) {
		vf := &f.pfs[i/32].VFs[i%32]
		f.attach(i, vf.Address)
		f.counters[vf.ID] = netdev.Counters{}
	}
	return f
}

// The cost of a Snapshot is that of joining and measuring; it includes the fakes' own work.
func BenchmarkSnapshot(b *testing.B) {
	pool := Pool{"pf0": {All: true}, "pf1": {All: true}}
	for _, n := range []int{100, 1000} {
		for _, c := range []struct {
			name    string
			recheck time.Duration
		}{{"tick", time.Hour}, {"refresh", time.Nanosecond}} {
			b.Run(fmt.Sprintf("%s/%d", c.name, n), func(b *testing.B) {
				f := crowd(n)
				s := New(f, f.uplinks(), f, nil, Options{Pool: pool, Recheck: c.recheck})
				defer s.Close()
				b.ReportAllocs()
				for b.Loop() {
					if _, err := s.Snapshot(context.Background()); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// The cost of the fakes without a Source.
func BenchmarkFakes(b *testing.B) {
	f := crowd(1000)
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		_, _ = f.Links(ctx)
		_, _ = f.Domains(ctx)
		_, _ = f.Stats(ctx)
		_, _ = f.VFCounters(ctx, "pf0")
		_, _ = f.VFCounters(ctx, "pf1")
	}
}

var sink *model.Snapshot

// The cost of the pure part alone.
func BenchmarkJoin(b *testing.B) {
	f := crowd(1000)
	ctx := context.Background()
	links, _ := f.Links(ctx)
	domains, _ := f.Domains(ctx)
	j := newJoiner(f.uplinks())
	j.index(links, domains)
	inv, err := read(ctx, f, f.uplinks(), j.holders, Pool{}, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		j.index(links, domains)
		sink = j.join(world{now: epoch, inv: inv, domains: append([]libvirt.Domain(nil), domains...)})
	}
}
