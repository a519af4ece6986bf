package virtualpf

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sluice/internal/control/vpf"
	"sluice/internal/control/vpf/vpftest"
	"sluice/internal/model"
)

// A saved State is read back. A damaged or newer file is rejected with its name and a remedy, and left unchanged.
func TestStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	s, err := OpenStore(path)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := s.Update(func(s *vpf.State) error {
		p := vpftest.PF("a", "vpf0", 2)
		p.VFs[1].Grant = &model.VFGrant{Owner: "pod", MAC: model.MAC{2, 9}, Port: model.PortPolicy{Trunk: model.VLANs{{First: 3, Last: 9}}}}
		s.Put(p)
		s.Guests["a"] = vpf.Guest{Run: "run", Boot: "boot"}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	again, err := OpenStore(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(kept, again.State(), cmpopts.IgnoreFields(vpf.State{}, "Rev"), cmpopts.EquateEmpty()); d != "" {
		t.Error(d)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(string) string{
		"a bit of a MAC":    func(s string) string { return strings.Replace(s, "52:54:00", "52:54:01", 1) },
		"half of it":        func(s string) string { return s[:len(s)/2] },
		"a newer version":   func(s string) string { return strings.Replace(s, `"version": 1`, `"version": 2`, 1) },
		"an unknown field":  func(s string) string { return strings.Replace(s, `"version"`, `"more": 1, "version"`, 1) },
		"something after":   func(s string) string { return s + "{}" },
		"nothing":           func(string) string { return "" },
		"another checksum":  func(s string) string { return strings.Replace(s, `"sha256": "`, `"sha256": "00`, 1) },
		"a policy that was": func(s string) string { return strings.Replace(s, `"first": 3`, `"first": 1`, 1) },
	} {
		bad := change(string(good))
		if bad == string(good) {
			t.Fatalf("%s: not changed", name)
		}
		if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenStore(path); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "backup") {
			t.Errorf("%s: %v", name, err)
		}
		if now, _ := os.ReadFile(path); string(now) != bad {
			t.Errorf("%s: the file was changed", name)
		}
	}
	spaced := strings.ReplaceAll(string(good), "\n", "\n\n")
	if err := os.WriteFile(path, []byte(spaced), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenStore(path); err != nil {
		t.Errorf("with other white space: %v", err)
	}
}

// No two functions get the same MAC, and a rejected change leaves everything as it was.
func TestStoreRefuses(t *testing.T) {
	s, err := OpenStore(filepath.Join(t.TempDir(), FileName))
	if err != nil {
		t.Fatal(err)
	}
	before, err := s.Update(func(s *vpf.State) error { s.Put(vpftest.PF("a", "vpf0", 2)); return nil })
	if err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*vpf.State) error{
		"MAC of another VF": func(s *vpf.State) error {
			s.Virtual[0].VFs[0].Grant = &model.VFGrant{MAC: s.Virtual[0].VFs[1].MAC}
			return nil
		},
		"MAC of the PF of another VM": func(s *vpf.State) error {
			p := vpftest.PF("b", "vpf0", 1)
			p.VFs[0].Port.MACs = []model.MAC{s.Virtual[0].MAC}
			s.Put(p)
			return nil
		},
		"no VLAN": func(s *vpf.State) error { s.Virtual[0].VFs[0].Port.VLAN = 5000; return nil },
	} {
		if _, err := s.Update(edit); err == nil || s.State() != before {
			t.Errorf("%s: %v", name, err)
		}
	}
}
