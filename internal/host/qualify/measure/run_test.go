package measure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/api/v1"
	"sluice/internal/host/qualify"
	"sluice/internal/host/uplink/bridge"
	"sluice/internal/model"
)

func options(t *testing.T, f *fake) Options {
	return Options{
		PF: "pf0", Version: "test", Kernel: f, Uplink: f.pf.Uplink, Journal: filepath.Join(memory(t), "qualify.json"), Space: f.newSpace,
		Domains:  func(context.Context) (map[model.PCIAddress]string, error) { return f.held, nil },
		Free:     func(context.Context) ([]model.VF, error) { return append([]model.VF(nil), f.pf.VFs[4:]...), nil },
		SetAside: func(context.Context, []model.VFID) error { return nil },
		Say:      func(string) {},
		Counters: 1, // ns
	}
}

// memory returns a directory for hundreds of writes, in memory if possible.
func memory(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "qualify")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// The properties of an emulated igb are found, and everything is restored.
func TestRun(t *testing.T) {
	f := newFake()
	o := options(t, f)
	o.Free = func(context.Context) ([]model.VF, error) { return append([]model.VF(nil), f.pf.VFs[5:]...), nil }
	before := f.String()
	aside := false
	o.SetAside = func(_ context.Context, ids []model.VFID) error {
		j, err := ReadJournal(o.Journal)
		aside = err == nil && j != nil && len(j.VFs) == len(ids)
		if f.calls > 0 {
			t.Errorf("%d changes before the VFs were set aside", f.calls)
		}
		return nil
	}
	m, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	q := qualify.Judge(m)
	got := map[string]string{}
	for _, c := range q.Claims {
		got[c.Code] = c.Measured
		t.Logf("%-14s %-8s %s", c.Code, c.Measured, c.Evidence)
	}
	for code, want := range map[string]string{
		api.ClaimMaxTxRate: "no", api.ClaimMinTxRate: "no", api.ClaimVFCounters: "no", api.ClaimPFFilters: "yes", api.ClaimSelfFDB: "yes",
		api.ClaimNeedsSelf: "yes", api.ClaimVFToPF: "yes", api.ClaimPFToVF: "yes", api.ClaimVFToVF: "yes", api.ClaimLoopsToVF: "no",
		api.ClaimLoopsToPF: "yes", api.ClaimSpoofCheck: "yes",
	} {
		if got[code] != want {
			t.Errorf("%s: %q, want %q", code, got[code], want)
		}
	}
	if len(q.Times) != 3 || len(q.Failed)+len(q.Left) > 0 {
		t.Errorf("times %+v, failed %q, left %q", q.Times, q.Failed, q.Left)
	}
	if f.String() != before {
		t.Errorf("it was\n%sand is\n%s", before, f)
	}
	if _, err := os.Stat(o.Journal); !aside || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("journal: written first %v; at the end %v", aside, err)
	}
	if !f.space.closed {
		t.Error("the space is left")
	}
}

// Whether packets/s can be limited at representors depends on who forwards the frames.
func TestPackets(t *testing.T) {
	for name, c := range map[string]struct {
		host func() *fake
		with func(*fake)
		want string // the claim; "": none
		says string
	}{
		"the host forwards": {newSwitchdev, func(*fake) {}, "yes", "1.25k packets/s arrived with a limit of 1.25k packets/s, 5k packets/s without"},
		"the NIC forwards":  {newSwitchdev, func(f *fake) { f.alone = true }, "no", "the NIC forwards frames without the host: 5k packets/s arrived"},
		"the NIC forwards, and the host is busy for a second": {
			newSwitchdev, func(f *fake) { f.alone, f.busy = true, true }, "no", "the NIC forwards frames without the host: 5k packets/s arrived",
		},
		"behind OVN":          {newSwitchdev, func(f *fake) { f.pf.Uplink.Kind = "ovn" }, "unknown", "not tried"},
		"no representor here": {newSwitchdev, func(f *fake) { f.pf.VFs[6].Port = "" }, "unknown", "VF pf0/6 has no representor"},
		"mode legacy":         {newFake, func(*fake) {}, "", ""},
	} {
		f := c.host()
		c.with(f)
		before := f.String()
		m, err := Run(t.Context(), options(t, f))
		if err != nil {
			t.Fatal(err)
		}
		q := qualify.Judge(m)
		got, evidence := "", ""
		for _, claim := range q.Claims {
			if claim.Code == api.ClaimVFPackets {
				got, evidence = claim.Measured, claim.Evidence
			}
		}
		if got != c.want || !strings.Contains(evidence, c.says) {
			t.Errorf("%s: %q, %q; want %q, %q", name, got, evidence, c.want, c.says)
		}
		if f.String() != before {
			t.Errorf("%s: it was\n%sand is\n%s", name, before, f)
		}
	}
}

// A limit that cannot be removed again is not tried another time: nothing could be compared with it.
func TestLimitThatStays(t *testing.T) {
	f, polices := newSwitchdev(), 0
	before := f.String()
	f.at = func(_ int, what string) error {
		if what == "police" {
			if polices++; polices == 2 { // the first sets it; the restoration at the end succeeds
				return errors.New("busy")
			}
		}
		return nil
	}
	m, err := Run(t.Context(), options(t, f))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(m.Packets.Limited); n != 1 || !strings.Contains(m.Packets.Error, "remove the limit: ") || len(m.Failed) != 1 {
		t.Errorf("tried %d times, error %q, failed %q", n, m.Packets.Error, m.Failed)
	}
	if f.String() != before {
		t.Errorf("it was\n%sand is\n%s", before, f)
	}
}

// A limit that was set once and cannot be set again is not refused by the driver.
func TestLimitThatIsSetOnce(t *testing.T) {
	f, polices := newSwitchdev(), 0
	f.at = func(_ int, what string) error {
		if what == "police" {
			if polices++; polices == 3 { // the first sets it, the second removes it
				return errors.New("busy")
			}
		}
		return nil
	}
	m, err := Run(t.Context(), options(t, f))
	if err != nil {
		t.Fatal(err)
	}
	if p := &m.Packets; len(p.Limited) != 1 || !strings.Contains(p.Error, "set the limit again: busy") || p.Refused != "" {
		t.Errorf("tried %d times, error %q, refused %q", len(p.Limited), p.Error, p.Refused)
	}
}

// With representors these are the host's end of what passes, whatever the switch, and checks that would mean nothing there are not tried.
func TestPassesByRepresentors(t *testing.T) {
	for kind, toVF := range map[string]string{bridge.Kind: "yes", "ovn": "unknown", "openvswitch": "unknown"} {
		f := newSwitchdev()
		f.pf.Uplink.Kind = kind
		before := f.String()
		m, err := Run(t.Context(), options(t, f))
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]api.Claim{}
		for _, c := range qualify.Judge(m).Claims {
			got[c.Code] = c
		}
		for code, want := range map[string]string{
			api.ClaimVFToPF: "yes", api.ClaimPFToVF: "yes", api.ClaimVFToVF: toVF, api.ClaimLoopsToVF: "no", api.ClaimLoopsToPF: "no",
			api.ClaimNeedsSelf: "unknown", api.ClaimSelfFDB: "unknown", api.ClaimVFCounters: "unknown", api.ClaimSpoofCheck: "yes",
		} {
			c := got[code]
			if c.Measured != want || (want == "unknown") != strings.HasPrefix(c.Evidence, "not tried: ") {
				t.Errorf("%s: %+v, want %q", kind, c, want)
			}
		}
		if f.String() != before || len(m.Failed)+len(m.Left) > 0 {
			t.Errorf("%s: failed %q, left %q; it was\n%sand is\n%s", kind, m.Failed, m.Left, before, f)
		}
	}
}

// A representor that cannot be connected is why nothing is tried; nothing is said of the NIC.
func TestRepresentorNotConnected(t *testing.T) {
	f := newSwitchdev()
	o := options(t, f)
	o.Uplink.Switch = "br1"
	m, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range qualify.Judge(m).Claims {
		switch c.Code {
		case api.ClaimVFToPF, api.ClaimPFToVF, api.ClaimSpoofCheck, api.ClaimMaxTxRate, api.ClaimVFPackets:
			if c.Measured != "unknown" || !strings.Contains(c.Evidence, "another bridge") {
				t.Errorf("%+v", c)
			}
		}
	}
}

// hosts have NICs in both modes.
var hosts = map[string]func() *fake{"legacy": newFake, "switchdev": newSwitchdev, "switchdev under OVN": newUnderOVN}

// changes returns the number of changes of a complete run.
func changes(t *testing.T, host func() *fake) int {
	t.Helper()
	f := host()
	if _, err := Run(t.Context(), options(t, f)); err != nil {
		t.Fatal(err)
	}
	return f.calls
}

// killed runs until a change at which the process dies.
func killed(ctx context.Context, o Options) (dead bool) {
	defer func() {
		if r := recover(); r != nil {
			if r != any(errKilled) {
				panic(r)
			}
			dead = true
		}
	}()
	_, _ = Run(ctx, o)
	return false
}

func TestKilledAtEachChange(t *testing.T) {
	for mode, host := range hosts {
		t.Run(mode, func(t *testing.T) { killedAtEachChange(t, host) })
	}
}

func killedAtEachChange(t *testing.T, host func() *fake) {
	for n := 1; n <= changes(t, host); n++ {
		f := host()
		o := options(t, f)
		before := f.String()
		f.at = func(call int, _ string) error {
			if call == n {
				panic(errKilled)
			}
			return nil
		}
		if !killed(t.Context(), o) {
			t.Fatalf("change %d never came", n)
		}
		f.at = nil
		_ = f.space.Close()
		left, err := Restore(t.Context(), f, o.Domains, o.Journal)
		if err != nil || len(left) > 0 || f.String() != before {
			t.Fatalf("killed at change %d: %v, left %q; it was\n%sand is\n%s", n, err, left, before, f)
		}
		if _, err := os.Stat(o.Journal); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("killed at change %d: the journal is left", n)
		}
	}
}

func TestInterruptedOrFailingAtEachChange(t *testing.T) {
	for mode, host := range hosts {
		t.Run(mode, func(t *testing.T) { failingAtEachChange(t, host) })
	}
}

func failingAtEachChange(t *testing.T, host func() *fake) {
	for n := 1; n <= changes(t, host); n++ {
		for _, fails := range []bool{false, true} {
			f := host()
			o := options(t, f)
			before := f.String()
			ctx, cancel := context.WithCancel(t.Context())
			f.at = func(call int, _ string) error {
				if call == n && fails {
					return errors.New("input/output error")
				} else if call == n {
					cancel()
					return ctx.Err()
				}
				return nil
			}
			m, _ := Run(ctx, o)
			cancel()
			if m == nil {
				t.Fatalf("change %d: no report", n)
			}
			if len(m.Left) > 0 { // the change that failed was part of the restoration
				left, err := Restore(t.Context(), f, o.Domains, o.Journal)
				if err != nil || len(left) > 0 {
					t.Fatalf("change %d: then %v, %q", n, err, left)
				}
			}
			if f.String() != before {
				t.Fatalf("change %d (fails: %v): it was\n%sand is\n%s", n, fails, before, f)
			}
		}
	}
}

// Whoever takes a VF at any moment keeps it: from the next step on nothing of it is changed, and it stays set aside.
func TestTakenAtEachChange(t *testing.T) {
	for mode, host := range hosts {
		t.Run(mode, func(t *testing.T) { takenAtEachChange(t, host) })
	}
}

func takenAtEachChange(t *testing.T, build func() *fake) {
	takes := map[string]func(*fake, int){
		"a VM":        func(f *fake, vf int) { f.held[f.pf.VFs[vf].Address] = "web" },
		"a process":   func(f *fake, vf int) { f.pf.VFs[vf].Driver, f.in[vf], f.open[vf] = "vfio-pci", "", true },
		"the host":    func(f *fake, vf int) { f.pf.VFs[vf].Driver, f.in[vf] = "igbvf", "up" },
		"a container": func(f *fake, vf int) { f.pf.VFs[vf].Driver, f.in[vf] = "igbvf", "away" },
		"another MAC": func(f *fake, vf int) { f.pf.VFs[vf].MAC = model.MAC{2, 7, 7} },
	}
	for name, take := range takes {
		for n := 1; n <= changes(t, build); n++ {
			f := build()
			o := options(t, f)
			before, ports := f.String(), slices.Clone(f.ports)
			vf := 6
			if name == "a container" { // a container takes interfaces that the host has
				vf = 5
				o.Free = func(context.Context) ([]model.VF, error) { return append([]model.VF(nil), f.pf.VFs[5:]...), nil }
			}
			last := "" // the step during which it was taken
			step := ""
			o.Say = func(text string) { step, f.late = text, false }
			moved := false // it was moved away from a user who came at the last moment
			f.at = func(call int, what string) error {
				if call == n {
					take(f, vf)
					last, f.late, moved = step, true, what == "move" || what == "driver"
				}
				return nil
			}
			m, err := Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if len(f.wrong) > 0 {
				t.Fatalf("%s took it at change %d, and then came %q", name, n, f.wrong)
			}
			restoring := strings.HasPrefix(last, "restoring")
			if f.calls < n { // with these VFs there are fewer changes
				break
			}
			if name == "another MAC" || restoring || moved {
				continue
			}
			if len(m.Left) == 0 || !strings.Contains(strings.Join(m.Failed, " ")+strings.Join(m.Left, " "), f.pf.VFs[vf].ID.String()) {
				t.Fatalf("%s took it at change %d: failed %q, left %q", name, n, m.Failed, m.Left)
			}
			if j, err := ReadJournal(o.Journal); err != nil || j == nil {
				t.Fatalf("%s took it at change %d: it is not set aside any more: %v", name, n, err)
			}
			if f.ports != nil && fmt.Sprint(f.ports[vf]) != fmt.Sprint(ports[vf]) {
				t.Fatalf("%s took it at change %d: its representor is %+v, and was %+v", name, n, f.ports[vf], ports[vf])
			}
			clear(f.held)
			f.open[vf] = false
			if f.in[vf] == "up" || f.in[vf] == "away" {
				f.in[vf] = "host"
			}
			if left, err := Restore(t.Context(), f, o.Domains, o.Journal); err != nil || len(left) > 0 || f.String() != before {
				t.Fatalf("%s took it at change %d and gave it back: %v, %q\n%s", name, n, err, left, f)
			}
		}
	}
}

func TestRefuses(t *testing.T) {
	f := newFake()
	o := options(t, f)
	o.Free = func(context.Context) ([]model.VF, error) { return nil, nil }
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "no VF of pf0 is free") {
		t.Error(err)
	}
	o = options(t, f)
	o.SetAside = func(context.Context, []model.VFID) error { return errors.New("the daemon does not answer") }
	if _, err := Run(t.Context(), o); err == nil || f.calls > 0 {
		t.Errorf("%v, after %d changes", err, f.calls)
	}
	if _, err := os.Stat(o.Journal); !errors.Is(err, os.ErrNotExist) {
		t.Error("VFs stay set aside")
	}
	held, err := lock(o.Journal)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "running on this host") {
		t.Error(err)
	}
	if !Running(o.Journal) {
		t.Error("nobody seems to be at work")
	}
}

func TestNoHostDriver(t *testing.T) {
	f := newFake()
	o := options(t, f)
	before := f.String()
	m, err := Run(t.Context(), Options{
		PF: o.PF, Kernel: driverless{f}, Domains: o.Domains, Free: o.Free, SetAside: o.SetAside, Space: o.Space, Journal: o.Journal, Say: o.Say,
		Counters: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	q := qualify.Judge(m)
	if !strings.Contains(strings.Join(q.Failed, "\n"), "modprobe") || m.Filters.Added == 0 || f.String() != before {
		t.Errorf("%+v\n%s", q, f)
	}
}

// driverless is a host without a driver for VFs.
type driverless struct{ *fake }

func (d driverless) BindHost(ctx context.Context, addr model.PCIAddress, _ string) error {
	return d.drive(ctx, addr, "", "")
}
