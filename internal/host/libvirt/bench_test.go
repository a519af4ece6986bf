package libvirt

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	lv "github.com/digitalocean/go-libvirt"

	"sluice/internal/host/libvirt/libvirttest"
)

// BenchmarkObserve compares ways to observe many real, paused domains. The environment variable SLUICE_BENCH_DOMAINS sets their number;
// each takes about 40 MB, and a second to create.
func BenchmarkObserve(b *testing.B) {
	n, _ := strconv.Atoi(os.Getenv("SLUICE_BENCH_DOMAINS"))
	if n == 0 {
		b.Skip("set SLUICE_BENCH_DOMAINS=100")
	}
	d := libvirttest.Start(b)
	vms := make([]libvirttest.VM, n)
	for i := range vms {
		vms[i] = libvirttest.VM{
			Name: fmt.Sprintf("v%03d", i), Ports: 1,
			NICs: []string{libvirttest.NIC(fmt.Sprintf("52:54:00:00:01:%02x", i), "ua-net0", true)},
		}
		d.Create(b, vms[i])
	}
	c := open(b, d.URI())
	s, err := c.session()
	if err != nil {
		b.Fatal(err)
	}
	doms, err := c.Domains(b.Context())
	if err != nil || len(doms) != n {
		b.Fatalf("%d domains, %v", len(doms), err)
	}
	b.Run("Domains", loop(d, func() error { _, err := c.Domains(b.Context()); return err }))
	b.Run("Stats", loop(d, func() error {
		st, err := c.Stats(b.Context())
		if err == nil && len(st) != n {
			err = fmt.Errorf("%d of %d", len(st), n)
		}
		return err
	}))
	b.Run("Bulk", loop(d, func() error { return bulk(b, s, n) }))
	b.Run("Resync", loop(d, func() error { return c.resync(s) }))
	b.Run("Parse", func(b *testing.B) {
		doc := sample(b, "q35.xml")
		loop(d, func() error { _, err := parseDomain(doc); return err })(b)
	})
	b.Run("VirshOnce", loop(d, func() error { return virsh(d, "domstats", "--state", "--cpu-total") }))
	b.Run("VirshDomstatsPerVM", loop(d, func() error {
		return perVM(vms, func(v string) error { return virsh(d, "domstats", "--state", "--cpu-total", v) })
	}))
	b.Run("VirshDomifstatPerVM", loop(d, func() error {
		return perVM(vms, func(v string) error { return virsh(d, "domifstat", v, find(b, c, vmOf(vms, v).UUID()).NICs[0].Tap) })
	}))
}

// loop reports, besides the time, the CPU time of this process with its children and of libvirtd: unlike the time, it hardly depends on the
// machine's other load.
func loop(d *libvirttest.Daemon, fn func() error) func(*testing.B) {
	return func(b *testing.B) {
		own, theirs := ownCPU(b), d.CPU(b)
		for b.Loop() {
			if err := fn(); err != nil {
				b.Fatal(err)
			}
		}
		perOp := func(t time.Duration) float64 { return t.Seconds() * 1000 / float64(b.N) }
		b.ReportMetric(perOp(ownCPU(b)-own), "own-cpu-ms/op")
		b.ReportMetric(perOp(d.CPU(b)-theirs), "libvirtd-cpu-ms/op")
	}
}

func ownCPU(b *testing.B) time.Duration {
	var sum time.Duration
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if err := syscall.Getrusage(who, &u); err != nil {
			b.Fatal(err)
		}
		sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return sum
}

// bulk is libvirt's own bulk call, which Stats avoids.
func bulk(b *testing.B, s *session, n int) error {
	got, err := onConn(b.Context(), s.queries, "", "bulk", func(c *client) (int, error) {
		all, err := c.ConnectGetAllDomainStats(nil, uint32(lv.DomainStatsState|lv.DomainStatsCPUTotal),
			uint32(lv.ConnectGetAllDomainsStatsActive|lv.ConnectGetAllDomainsStatsNowait))
		return len(all), err
	})
	if err == nil && got != n {
		err = fmt.Errorf("%d of %d", got, n)
	}
	return err
}

func virsh(d *libvirttest.Daemon, args ...string) error {
	return exec.Command("virsh", append([]string{"-c", d.URI()}, args...)...).Run()
}

func perVM(vms []libvirttest.VM, fn func(name string) error) error {
	for _, v := range vms {
		if err := fn(v.Name); err != nil {
			return err
		}
	}
	return nil
}

func vmOf(vms []libvirttest.VM, name string) libvirttest.VM {
	for _, v := range vms {
		if v.Name == name {
			return v
		}
	}
	return libvirttest.VM{}
}
