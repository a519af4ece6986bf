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

// functionHost is a kernel and a switch that log what is done.
type functionHost struct {
	ports []model.SwitchPortState
	at    map[string]uplink.FunctionPort // by tap
	err   error                          // of the switch
	log   []string
}

func (h *functionHost) Links(context.Context) ([]netdev.Link, error) { return nil, nil }

func (h *functionHost) SetSwitchPort(_ context.Context, p model.SwitchPort) (model.SwitchPortState, error) {
	h.log = append(h.log, fmt.Sprintf("rules of %s in %q, isolated %v", p.Tap, p.Bridge, p.Isolated))
	return model.SwitchPortState{SwitchPort: p, Detached: model.No}, nil
}

func (h *functionHost) RemoveSwitchPort(_ context.Context, tap string) error {
	h.log = append(h.log, "no rules of "+tap)
	return nil
}

func (h *functionHost) SwitchPorts(context.Context) ([]model.SwitchPortState, error) {
	return slices.Clone(h.ports), nil
}

func (h *functionHost) FunctionPort(_ *uplink.Links, tap string) (uplink.FunctionPort, bool, error) {
	at, ok := h.at[tap]
	return at, ok, h.err
}

func (h *functionHost) Isolate(_ context.Context, tap string, on bool) error {
	h.log = append(h.log, fmt.Sprintf("isolate %s: %v", tap, on))
	at := h.at[tap]
	at.Isolated = on
	h.at[tap] = at
	return nil
}

// A port is isolated before it gets rules that allow more, and no longer isolated only after it has them; one that takes no function gets its
// rules all the same.
func TestFunctionPortsSet(t *testing.T) {
	const rules = `rules of t in "", isolated false`
	for name, c := range map[string]struct {
		at       uplink.FunctionPort
		none     bool
		err      error
		isolated bool
		log      []string
		fails    string
	}{
		"plain":        {at: uplink.FunctionPort{Switch: "s"}, log: []string{rules}},
		"isolate":      {at: uplink.FunctionPort{Switch: "s"}, isolated: true, log: []string{"isolate t: true", rules}},
		"isolated":     {at: uplink.FunctionPort{Switch: "s", Isolated: true}, isolated: true, log: []string{rules}},
		"not isolated": {at: uplink.FunctionPort{Switch: "s", Isolated: true}, log: []string{rules, "isolate t: false"}},
		"elsewhere": {
			at: uplink.FunctionPort{Switch: "x"}, isolated: true, log: []string{rules},
			fails: "it is a port of x, not of s",
		},
		"refused": {
			at: uplink.FunctionPort{Switch: "s", Refused: "others manage s; name another"}, isolated: true, log: []string{rules},
			fails: "others manage s: name another",
		},
		"of the kernel": {none: true, isolated: true, log: []string{`rules of t in "s", isolated true`}},
		"not known":     {err: errors.New("no answer"), fails: "no answer"},
	} {
		h := &functionHost{at: map[string]uplink.FunctionPort{"t": c.at}, err: c.err}
		if c.none {
			h.at = nil
		}
		f := uplink.FunctionPorts{PortKernel: h, Other: h}
		now, err := f.SetSwitchPort(t.Context(), model.SwitchPort{Tap: "t", Bridge: "s", Isolated: c.isolated})
		if !slices.Equal(h.log, c.log) || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: did %q, %v; want %q, %q", name, h.log, err, c.log, c.fails)
		}
		if err == nil && (now.Bridge != "s" || now.Isolated != c.isolated) {
			t.Errorf("%s: %+v", name, now)
		}
	}
}

// A port that was a function's is no longer isolated; its rules stay until that is done.
func TestFunctionPortsRemove(t *testing.T) {
	for name, c := range map[string]struct {
		at  uplink.FunctionPort
		err error
		log []string
	}{
		"isolated":     {at: uplink.FunctionPort{Switch: "s", Isolated: true}, log: []string{"isolate t: false", "no rules of t"}},
		"refused":      {at: uplink.FunctionPort{Switch: "s", Isolated: true, Refused: "no; name another"}, log: []string{"no rules of t"}},
		"not isolated": {at: uplink.FunctionPort{Switch: "s"}, log: []string{"no rules of t"}},
		"not known":    {err: errors.New("no answer")},
	} {
		h := &functionHost{at: map[string]uplink.FunctionPort{"t": c.at}, err: c.err}
		f := uplink.FunctionPorts{PortKernel: h, Other: h}
		if err := f.RemoveSwitchPort(t.Context(), "t"); !errors.Is(err, c.err) || !slices.Equal(h.log, c.log) {
			t.Errorf("%s: did %q, %v; want %q, %v", name, h.log, err, c.log, c.err)
		}
	}
}

// What the kernel says of a Linux bridge stays; if the other switch cannot tell whether it has a port, nothing is told at all, so that no
// function loses its carrier.
func TestFunctionPortsRead(t *testing.T) {
	port := func(tap, bridge string, d model.Tri) model.SwitchPortState {
		return model.SwitchPortState{SwitchPort: model.SwitchPort{Tap: tap, Bridge: bridge}, Detached: d}
	}
	h := &functionHost{
		ports: []model.SwitchPortState{
			port("a", "br0", model.No), port("b", "", model.No), port("c", "", model.No), port("d", "", model.No), port("e", "", model.Yes),
		},
		at: map[string]uplink.FunctionPort{
			"a": {Switch: "s"}, "b": {Switch: "s", Isolated: true}, "c": {Switch: "s", Refused: "no; name another"}, "e": {Switch: "s"},
		},
	}
	f := uplink.FunctionPorts{PortKernel: h, Other: h}
	all, err := f.SwitchPorts(t.Context())
	got := ""
	for i := range all {
		got += fmt.Sprintf("%s %q %v, ", all[i].Tap, all[i].Bridge, all[i].Isolated)
	}
	if want := `a "br0" false, b "s" true, c "" false, d "" false, e "" false, `; got != want || err != nil {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
	h.err = errors.New("no answer")
	if all, err := f.SwitchPorts(t.Context()); !errors.Is(err, h.err) {
		t.Errorf("the switch does not answer: %+v, %v", all, err)
	}
}
