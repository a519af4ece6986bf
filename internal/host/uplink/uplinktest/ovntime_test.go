package uplinktest

import (
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/model"
)

var logicalPorts = flag.Int("logical-ports", 0, "how many more ports the logical switch has in the measurement of moves; 0: none is made")

// TestOVNMoveTime measures moves by Sluice and by ovs-vsctl, each until ovn-controller has set up the port.
func TestOVNMoveTime(t *testing.T) {
	if *logicalPorts == 0 {
		t.Skip("without -logical-ports")
	}
	h := startOVN(t)
	w := ovnWorldOf(t, h)
	var args []string
	for i := range *logicalPorts {
		name := fmt.Sprint("x", i)
		args = append(args, "--", "lsp-add", "s", name, "--", "lsp-set-addresses", name, fmt.Sprintf("02:00:00:00:%02x:%02x", i/256, i%256))
	}
	h.NB(t, args[1:]...)
	p := w.step(t, guestTap, kerneltest.Guest)
	db := "--db=unix:" + filepath.Join(h.Dir, "db.sock")
	plain := func(from, to string) {
		out, err := exec.Command("ovs-vsctl", db, "--no-wait", "remove", "interface", from, "external_ids", "iface-id", "--", "remove", "interface",
			from, "external_ids", "ovn-installed", "--", "set", "interface", to, "external_ids:iface-id=A", "--", "remove", "interface", to,
			"external_ids", "ovn-installed").CombinedOutput()
		if err == nil {
			out, err = exec.Command("ovs-vsctl", db, "--timeout=60", "wait-until", "interface", to, "external_ids:ovn-installed=true").CombinedOutput()
		}
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	measure := func(what string, there, back func()) {
		var took []time.Duration
		for range 20 {
			for _, move := range []func(){there, back} {
				start := time.Now()
				move()
				took = append(took, time.Since(start))
			}
		}
		slices.Sort(took)
		t.Logf("%s: median %s, longest %s", what, took[len(took)/2].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond))
	}
	must := func(f func(*model.PathStep) error) func() { return func() { kerneltest.Must(t, f(p)) } }
	measure("Sluice, with the switch's flows", must(func(p *model.PathStep) error { return w.ToVF(kerneltest.Soon(t), p) }),
		must(func(p *model.PathStep) error { return w.ToTap(kerneltest.Soon(t), p) }))
	measure("ovs-vsctl", func() { plain(guestTap, "rep0") }, func() { plain("rep0", guestTap) })
}
