//go:build lab

package hwtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/host/kernel"
	"sluice/internal/host/vf"
	"sluice/internal/model"
)

// subject returns the PF and VF that the tests may change.
func subject(t testing.TB) (h *kernel.Host, pf string, vf int) {
	t.Helper()
	pf = os.Getenv("SLUICE_TEST_PF")
	vf, err := strconv.Atoi(os.Getenv("SLUICE_TEST_VF"))
	if pf == "" || err != nil {
		t.Fatal("say which VF these tests may change: SLUICE_TEST_PF=pf0 SLUICE_TEST_VF=6")
	}
	h, err = kernel.New(kernel.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, h.Close()) })
	return h, pf, vf
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func find(t testing.TB, h *kernel.Host, pf string, vf int) (vf.PFInfo, model.VF) {
	t.Helper()
	pfs, err := h.PFs(t.Context())
	must(t, err)
	for _, p := range pfs {
		for _, v := range p.VFs {
			if v.ID == (model.VFID{PF: pf, Index: vf}) {
				return p, v
			}
		}
	}
	t.Fatalf("no VF %s/%d among %+v", pf, vf, pfs)
	panic("not reached")
}

// ipVF is the output of ip(8) for a VF, as an independent check.
type ipVF struct {
	VF       int    `json:"vf"`
	Address  string `json:"address"`
	VLANList []struct {
		VLAN int `json:"vlan"`
	} `json:"vlan_list"`
	Rate struct {
		Max uint64 `json:"max_tx"`
	} `json:"rate"`
	SpoofCheck bool `json:"spoofchk"`
	Trust      bool `json:"trust"`
}

func ip(t testing.TB, pf string, vf int) ipVF {
	t.Helper()
	out, err := exec.Command("ip", "-j", "link", "show", "dev", pf).Output()
	must(t, err)
	var links []struct {
		VFs []ipVF `json:"vfinfo_list"`
	}
	must(t, json.Unmarshal(out, &links))
	for _, v := range links[0].VFs {
		if v.VF == vf {
			return v
		}
	}
	t.Fatalf("ip shows no VF %d: %s", vf, out)
	panic("not reached")
}

func TestPF(t *testing.T) {
	h, name, idx := subject(t)
	pf, vf := find(t, h, name, idx)
	t.Logf("%+v", pf)
	if pf.Driver == "" || pf.MAC.IsZero() || pf.Index == 0 || pf.NumVFs != len(pf.VFs) || pf.TotalVFs < pf.NumVFs {
		t.Errorf("incomplete: %+v", pf)
	}
	if vf.Address == "" || vf.SpoofCheck == model.Unknown {
		t.Errorf("incomplete: %+v", vf)
	}
}

func TestSetAndClear(t *testing.T) {
	h, pf, idx := subject(t)
	guest := model.MAC{0x52, 0x54, 0, 0xee, 0, 1}
	want := vf.Settings{VLAN: 77, SpoofCheck: false, Trust: true, MaxTxRate: 400e6}
	for range 2 {
		note, err := h.SetVF(t.Context(), pf, idx, want)
		must(t, err)
		if note != "" {
			t.Log("note:", note)
		}
		must(t, h.SetVFMAC(t.Context(), pf, idx, guest))
	}
	_, got := find(t, h, pf, idx)
	if got.MAC != guest || got.VLAN != 77 || got.Trust != model.Yes || got.SpoofCheck != model.No || got.MaxTxRate != 400e6 {
		t.Errorf("after setting: %+v", got)
	}
	seen := ip(t, pf, idx)
	if seen.Address != guest.String() || seen.VLANList[0].VLAN != 77 || !seen.Trust || seen.SpoofCheck || seen.Rate.Max != 400 {
		t.Errorf("ip shows %+v", seen)
	}
	for range 2 {
		note, err := h.ClearVF(t.Context(), pf, idx)
		must(t, err)
		if note != "" {
			t.Log("note:", note)
		}
	}
	_, got = find(t, h, pf, idx)
	if !got.MAC.IsZero() || got.VLAN != 0 || got.Trust != model.No || got.SpoofCheck != model.Yes || got.MaxTxRate != 0 {
		t.Errorf("after clearing: %+v", got)
	}
	if seen := ip(t, pf, idx); seen.Address != (model.MAC{}).String() && !strings.HasPrefix(seen.Address, "02") {
		t.Errorf("ip shows %+v", seen)
	}
}

func TestRateAboveTheLink(t *testing.T) {
	h, name, idx := subject(t)
	pf, _ := find(t, h, name, idx)
	if pf.Caps.MaxTxRate != model.Yes || pf.Speed == 0 {
		t.Fatalf("%s has no rates or no link: %+v", name, pf.PF)
	}
	_, err := h.SetVF(t.Context(), name, idx, vf.Settings{SpoofCheck: true, MaxTxRate: 2 * pf.Speed})
	if !errors.Is(err, unix.EINVAL) {
		t.Errorf("a rate above the link's: %v, want EINVAL", err)
	}
}

func TestNoSuchVF(t *testing.T) {
	h, pf, _ := subject(t)
	if err := h.SetVFMAC(t.Context(), pf, 200, model.MAC{2}); !errors.Is(err, model.ErrGone) {
		t.Errorf("VF 200: %v, want model.ErrGone", err)
	}
}

func TestBind(t *testing.T) {
	h, pf, idx := subject(t)
	_, vf := find(t, h, pf, idx)
	driver := func() string { _, v := find(t, h, pf, idx); return v.Driver }
	must(t, h.RestoreDriver(t.Context(), vf.Address))
	t.Logf("its own driver is %q", driver())
	if strings.Contains(driver(), "vfio") {
		t.Errorf("restored to %q", driver())
	}
	for range 2 {
		must(t, h.BindVFIO(t.Context(), vf.Address))
		if driver() != "vfio-pci" {
			t.Errorf("bound to %q", driver())
		}
	}
	override, err := os.ReadFile("/sys/bus/pci/devices/" + string(vf.Address) + "/driver_override")
	must(t, err)
	if s := strings.TrimSpace(string(override)); s != "" && s != "(null)" {
		t.Errorf("driver_override is left at %q", s)
	}
	if open, err := h.DriverOpen(t.Context(), vf.Address); err != nil || open != model.No {
		t.Errorf("nobody has it open: %s, %v", open, err)
	}
}

// TestSelfSlots adds filters to the PF until the driver refuses.
func TestSelfSlots(t *testing.T) {
	h, name, idx := subject(t)
	pf, _ := find(t, h, name, idx)
	had := len(pf.SelfFDB)
	n := had
	var err error
	for ; n < 200; n++ {
		m := model.MAC{0x02, 0xee, 0, 0, 0, byte(n)}
		if err = h.AddSelf(t.Context(), name, m); err != nil {
			break
		}
		defer func() { must(t, h.DelSelf(t.Context(), name, m)) }()
	}
	t.Logf("%d filters, then %v", n, err)
	if pf.SelfSlots != 0 && (n != pf.SelfSlots || !errors.Is(err, unix.ENOMEM)) {
		t.Errorf("took %d filters, then %v; want %d, then ENOMEM", n, err, pf.SelfSlots)
	}
	now, _ := find(t, h, name, idx)
	if len(now.SelfFDB) != n {
		t.Errorf("shows %d filters, want %d", len(now.SelfFDB), n)
	}
}

// TestPortCounters sends a frame out of the PF and checks that the port counts it.
func TestPortCounters(t *testing.T) {
	h, pf, _ := subject(t)
	before, err := h.PortCounters(t.Context(), pf)
	must(t, err)
	must(t, h.Announce(t.Context(), model.MAC{2, 0xee, 2}, 0, pf))
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		after, err := h.PortCounters(t.Context(), pf)
		must(t, err)
		if after.TxPackets > before.TxPackets && after.TxBytes >= before.TxBytes+60 {
			t.Logf("%+v, then %+v", before, after)
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("a frame was sent, the port counted %+v before and %+v after", before, after)
		}
	}
}

func BenchmarkPortCounters(b *testing.B) {
	h, pf, _ := subject(b)
	b.ReportAllocs()
	for b.Loop() {
		_, err := h.PortCounters(b.Context(), pf)
		must(b, err)
	}
}

func BenchmarkPFs(b *testing.B) {
	h, _, _ := subject(b)
	b.ReportAllocs()
	for b.Loop() {
		_, err := h.PFs(b.Context())
		must(b, err)
	}
}

func BenchmarkDriverOpen(b *testing.B) {
	h, pf, idx := subject(b)
	_, vf := find(b, h, pf, idx)
	b.ReportAllocs()
	for b.Loop() {
		_, err := h.DriverOpen(b.Context(), vf.Address)
		must(b, err)
	}
}

func BenchmarkSetClear(b *testing.B) {
	h, pf, vf := subject(b)
	n := 0
	for b.Loop() {
		n++
		must(b, h.SetVFMAC(b.Context(), pf, vf, model.MAC{2, 0xee, 1, 0, byte(n >> 8), byte(n)}))
		_, err := h.ClearVF(b.Context(), pf, vf)
		must(b, err)
	}
}

// TestGuestOpensVF needs somebody to attach the VF to a guest and detach it again meanwhile.
func TestGuestOpensVF(t *testing.T) {
	h, pf, idx := subject(t)
	_, vf := find(t, h, pf, idx)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for _, open := range []bool{false, true, false} {
		start := time.Now()
		must(t, h.WaitDriver(ctx, vf.Address, open))
		fmt.Printf("open %v after %s\n", open, time.Since(start)) // printed immediately, for the process that waits for it
	}
}
