package backend

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/api/v1"
	"sluice/internal/model"
)

// What the fleet has claimed is in force at once, and after a restart; a local SLA may not take its room.
func TestClaims(t *testing.T) {
	path := filepath.Join(t.TempDir(), "overrides.json")
	b := host(t, path)
	b.view.Snapshot.PFs[0].Address = "0000:01:00.0"
	claims := []model.Claim{{VM: "a", Guarantee: model.Rate{Bits: 3e9}}, {VM: "x", PF: "0000:01:00.0", Guarantee: model.Rate{Bits: 2e9}}}
	claims[0].MAC[0], claims[1].MAC[0] = 2, 2
	b.view.Snapshot.VMs[0].NICs[0].MAC = claims[0].MAC
	has := func(what string, bits uint64) {
		t.Helper()
		if s := slaOf(b, 0); s.Guarantee.Bits != bits || bits > 0 && s.Source != "claim" {
			t.Errorf("%s: %+v", what, s)
		}
	}
	put := func(claims []model.Claim, want bool) {
		t.Helper()
		if _, changed, err := b.SetClaims(t.Context(), claims); err != nil || changed != want {
			t.Fatalf("changed: %v, %v", changed, err)
		}
	}
	put(claims, true)
	has("claimed", 3e9)
	written, err := os.Stat(filepath.Join(filepath.Dir(path), "claims.json"))
	if err != nil {
		t.Fatal(err)
	}
	put(claims, false)
	again, err := os.Stat(filepath.Join(filepath.Dir(path), "claims.json"))
	if err != nil || !os.SameFile(written, again) {
		t.Errorf("the same claims are written again: %v", err)
	}
	if _, err := b.Do(t.Context(), set(5e9, "ua-net0")); err == nil || !strings.Contains(err.Error(), "no room for the claim of 2Gbit for x") {
		t.Errorf("a guarantee in the room of a claim: %v", err)
	}
	b = host(t, path)
	b.view.Snapshot.VMs[0].NICs[0].MAC = claims[0].MAC
	has("after a restart", 3e9)
	put(nil, true)
	has("released", 0)
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "claims.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenOverrides(path); err == nil || !strings.Contains(err.Error(), "move it away") {
		t.Errorf("half a file: %v", err)
	}
}

// Claims that cannot be saved are not in force.
func TestClaimsThatCannotBeSaved(t *testing.T) {
	b := host(t, filepath.Join(t.TempDir(), "overrides.json"))
	b.overrides.path = filepath.Join(t.TempDir(), "away", "overrides.json")
	if _, _, err := b.SetClaims(t.Context(), []model.Claim{{VM: "a", Guarantee: model.Rate{Bits: 3e9}}}); err == nil {
		t.Error("saved in a directory that is not there")
	}
	if len(b.overrides.Claims()) > 0 {
		t.Error("they are in force")
	}
}

// Claims that are not in force and whose file cannot be brought back are told so; told again, they are in force.
func TestClaimsThatCannotBeUndone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "overrides.json")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	b := host(t, path)
	well := b.call
	claims := []model.Claim{{VM: "a", Guarantee: model.Rate{Bits: 3e9}}}
	b.call = func(context.Context, func(time.Time)) error { return errors.New("the loop is stuck") }
	if _, _, err := b.SetClaims(t.Context(), claims); err == nil ||
		!strings.HasPrefix(err.Error(), "nothing was changed: the loop is stuck; ") {
		t.Errorf("a list that was brought back: %v", err)
	}
	b.call = func(context.Context, func(time.Time)) error {
		return errors.Join(errors.New("the loop is stuck"), os.RemoveAll(filepath.Dir(path)))
	}
	_, _, err := b.SetClaims(t.Context(), claims)
	var e *api.Error
	if !errors.As(err, &e) || strings.Contains(e.Text, "nothing was changed") || !strings.Contains(e.Text, "claims.json may have the new list") ||
		!strings.Contains(e.Remedy, "mkdir -p") || !strings.Contains(e.Remedy, "`sluice fleet publish` tells the daemon again") {
		t.Errorf("one that was not: %+v", err)
	}
	if list := b.overrides.Claims(); len(list) > 0 {
		t.Errorf("in force: %v", list)
	}
	b.call = well
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, changed, err := b.SetClaims(t.Context(), claims); err != nil || !changed {
		t.Errorf("told again: changed %t, %v", changed, err)
	}
}
