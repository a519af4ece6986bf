package uplink_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sluice/internal/host/netdev"
	"sluice/internal/host/uplink"
	"sluice/internal/model"
)

// part is an Uplink that knows the PFs, taps and switches whose names begin with its kind. The parts of the interface that a test does
// not need are missing.
type part struct {
	uplink.Uplink
	kind    string
	changed chan struct{}
	fails   error
	absent  bool
}

func (p *part) Kind() string { return p.kind }

func (p *part) PF(_ *uplink.Links, pf *model.PF) (model.Uplink, bool) {
	if !strings.HasPrefix(pf.Name, p.kind) {
		return model.Uplink{Why: "no " + p.kind, Remedy: "use " + p.kind}, false
	}
	return model.Uplink{Switch: p.kind + "-switch"}, true
}

func (p *part) Tap(_ *uplink.Links, tap *netdev.Link) (uplink.Port, bool) {
	return uplink.Port{Switch: p.kind + "-switch"}, strings.HasPrefix(tap.Name, p.kind)
}

func (p *part) Connection(_ context.Context, name string) (c model.TapConnection, err error) {
	if !strings.HasPrefix(name, p.kind) {
		err := fmt.Errorf("%w: no %s switch", model.ErrPermanent, p.kind)
		if p.absent {
			err = fmt.Errorf("%w: %w", err, uplink.ErrAbsent)
		}
		return c, err
	}
	return model.TapConnection{Switch: p.kind}, nil
}

func (p *part) Routes(context.Context) ([]model.Route, error) {
	return []model.Route{{Port: p.kind}}, p.fails
}

func (p *part) DualPaths(context.Context) ([]model.DualPath, error) {
	return []model.DualPath{{}}, p.fails
}

func (p *part) CheckDualPaths() error { return p.fails }

func (p *part) Watch(context.Context) (<-chan struct{}, error) { return p.changed, p.fails }

func parts() (a, b *part, links *uplink.Links) {
	links = &uplink.Links{}
	links.Index([]netdev.Link{{Name: "a0", Index: 1}, {Name: "b0", Index: 2}, {Name: "c0", Index: 3}})
	return &part{kind: "a"}, &part{kind: "b"}, links
}

func TestSetFinds(t *testing.T) {
	a, b, links := parts()
	set := uplink.Set{a, b}
	for name, want := range map[string]model.Uplink{
		"a0": {Kind: "a", Switch: "a-switch"},
		"b0": {Kind: "b", Switch: "b-switch"},
		"c0": {Why: "no a", Remedy: "use a, or use b"},
		"d0": {
			Why:    "this host has no interface d0",
			Remedy: "check whether it is in another network namespace: ip link show d0",
		},
	} {
		pf := model.PF{Name: name, Network: "old"}
		if set.Find(links, &pf); pf.Uplink != want || pf.Network != want.Switch {
			t.Errorf("%s: %+v on %q, want %+v", name, pf.Uplink, pf.Network, want)
		}
		if links.ByName[name] == nil {
			continue
		}
		if port, ok := set.Tap(links, links.ByName[name]); ok != (want.Kind != "") || ok && port.Switch != want.Switch {
			t.Errorf("%s as a tap: %+v, %v", name, port, ok)
		}
		switch c, err := set.Connection(t.Context(), name); {
		case want.Kind != "" && (err != nil || c.Switch != want.Kind):
			t.Errorf("connection to %s: %+v, %v", name, c, err)
		case want.Kind == "" && (!errors.Is(err, model.ErrPermanent) || !strings.Contains(err.Error(), "no a switch, or ") ||
			!strings.Contains(err.Error(), "no b switch")):
			t.Errorf("connection to %s: %v, want what each kind lacks", name, err)
		}
	}
}

// TestSetReadsAll: what one Uplink knows is kept although another fails, and the failure is reported.
func TestSetReadsAll(t *testing.T) {
	a, b, _ := parts()
	a.fails, b.changed = errors.New("a fails"), make(chan struct{})
	set := uplink.Set{a, b}
	routes, err := set.Routes(t.Context())
	if !errors.Is(err, a.fails) || !slices.Equal(routes, []model.Route{{Port: "a"}, {Port: "b"}}) {
		t.Errorf("routes %+v, %v", routes, err)
	}
	paths, err := set.DualPaths(t.Context())
	if !errors.Is(err, a.fails) || !slices.Equal(paths, []model.DualPath{{Kind: "a"}, {Kind: "b"}}) {
		t.Errorf("dual paths %+v, %v", paths, err)
	}
	if watches, err := set.Watch(t.Context()); !errors.Is(err, a.fails) || len(watches) != 1 || watches[0] != (<-chan struct{})(b.changed) {
		t.Errorf("watches %v, %v", watches, err)
	}
	if err := set.CheckDualPaths(); !errors.Is(err, a.fails) {
		t.Errorf("check of dual paths: %v", err)
	}
	a.fails = nil
	b.fails = errors.New("b fails")
	if err := set.CheckDualPaths(); !errors.Is(err, b.fails) {
		t.Errorf("check of dual paths: %v", err)
	}
}

// TestSetConnectionWithoutASwitch: a kind of switch that the host does not have is not named beside what the other kinds lack.
func TestSetConnectionWithoutASwitch(t *testing.T) {
	a, b, _ := parts()
	b.absent = true
	if _, err := (uplink.Set{a, b}).Connection(t.Context(), "c0"); err == nil || strings.Contains(err.Error(), "no b switch") {
		t.Errorf("%v", err)
	}
	if _, err := (uplink.Set{b}).Connection(t.Context(), "c0"); !errors.Is(err, uplink.ErrAbsent) {
		t.Errorf("alone: %v", err)
	}
}

func TestSetWriter(t *testing.T) {
	a, b, _ := parts()
	set := uplink.Set{a, b}
	for kind, want := range map[string]uplink.Writer{"": a, "a": a, "b": b} {
		if w, err := set.Writer(&model.PathStep{Kind: kind}); err != nil || w != want {
			t.Errorf("kind %q: %v, %v", kind, w, err)
		}
	}
	if w, err := set.Writer(&model.PathStep{Kind: "c"}); w != nil || !errors.Is(err, model.ErrPermanent) {
		t.Errorf("an unknown kind: %v, %v", w, err)
	}
}
