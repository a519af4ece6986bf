package virtualpf

import (
	"context"
	"errors"
	"testing"
	"time"

	"sluice/internal/channel"
	"sluice/internal/model"
)

// A failed attach reverts what it changed, and nothing that the host set in the meantime.
func TestFailedAttachKeepsWhatTheHostSet(t *testing.T) {
	for _, before := range []bool{false, true} {
		r := newRig(t)
		p, g := r.run("a", 1)
		if before {
			if _, err := g.Attach(t.Context(), channel.Attach{VF: at(p, 0), Owner: "pod", Limit: "90Mbit"}); err != nil {
				t.Fatal(err)
			}
		}
		r.host.mu.Lock()
		r.host.fail = func(what string) error {
			if what == "set-port" {
				return errors.New("no room")
			}
			return nil
		}
		r.host.mu.Unlock()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		yes := true
		go func() {
			_, err := g.Attach(ctx, channel.Attach{VF: at(p, 0), Owner: "pod", Isolated: &yes, Limit: "80Mbit"})
			ended <- err
		}()
		r.until("it is granted", func() bool {
			grant := r.Runner.Store.State().Find("a", "vpf0").VFs[0].Grant
			return grant != nil && grant.Port.Isolated
		})
		short, done := context.WithTimeout(t.Context(), 50*time.Millisecond) // saved, but not in force
		_ = r.set(short, "a", "vpf0", 0, model.PortPolicy{VLAN: 7, SLA: model.SLA{Limit: bits(10e6)}})
		done()
		cancel()
		if err := <-ended; code(err) != channel.CodeFailed {
			t.Errorf("have %v", err)
		}
		v := r.Runner.Store.State().Find("a", "vpf0").VFs[0]
		have := v.Effective()
		have.SLA.Source = ""
		if (v.Grant != nil) != before || have.VLAN != 7 || have.SLA.Limit != bits(10e6) || have.Isolated {
			t.Errorf("granted before: %v; now %+v, %+v", before, v.Grant, have)
		}
	}
}

// The guarantees that guests ask for never exceed their virtual PF's guarantee in total. Those that the host set remain.
func TestAdmitOfGuests(t *testing.T) {
	r := newRig(t)
	r.policy.Guarantee = model.Rate{Bits: 9e9, Packets: 9e9}
	r.sla = model.SLA{Guarantee: model.Rate{Bits: 3e9}}
	p, g := r.run("a", 3)
	for _, c := range []struct {
		vf        int
		guarantee string
		code      string
	}{
		{0, "2Gbit", ""},
		{1, "2Gbit", channel.CodeDenied},
		{1, "1Gbit", ""},
		{2, "1bit", channel.CodeDenied},
		{0, "1Gbit", ""},
		{2, "1Gbit", ""},
		{0, "1Gbit 1pps", channel.CodeDenied},
		{0, "1001Mbit", channel.CodeDenied},
	} {
		if _, err := g.Attach(t.Context(), channel.Attach{VF: at(p, c.vf), Owner: "pod", Guarantee: c.guarantee}); code(err) != c.code ||
			err != nil && c.code == "" {
			t.Errorf("%+v: %v", c, err)
		}
	}
	q, g := r.run("b", 1)
	if err := r.set(t.Context(), "b", "vpf0", 0, model.PortPolicy{SLA: model.SLA{Guarantee: model.Rate{Bits: 4e9}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Attach(t.Context(), channel.Attach{VF: at(q, 0), Owner: "pod"}); err != nil {
		t.Errorf("as the host has set it: %v", err)
	}
}

func bits(bits uint64) model.Rate { return model.Rate{Bits: bits} }

// Nor does it give back what the host has taken away meanwhile by naming what it had set already.
func TestFailedAttachKeepsWhatTheHostNamed(t *testing.T) {
	r := newRig(t)
	r.policy.VLANs = model.VLANs{{First: 10, Last: 20}}
	p, g := r.run("a", 1)
	if _, err := g.Attach(t.Context(), channel.Attach{VF: at(p, 0), Owner: "pod", VLAN: 11}); err != nil {
		t.Fatal(err)
	}
	r.host.mu.Lock()
	r.host.fail = func(what string) error {
		if what == "set-port" {
			return errors.New("no room")
		}
		return nil
	}
	r.host.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := g.Attach(ctx, channel.Attach{VF: at(p, 0), Owner: "pod", VLAN: 11, Limit: "80Mbit"})
		ended <- err
	}()
	granted := func() model.PortPolicy { return r.Runner.Store.State().Find("a", "vpf0").VFs[0].Grant.Port }
	r.until("it is granted", func() bool { return granted().SLA.Limit == bits(80e6) })
	short, done := context.WithTimeout(t.Context(), 50*time.Millisecond) // saved, but not in force
	_ = r.SetPorts(short, "a", "vpf0", []int{0}, model.PortVLANs, func(*model.PortPolicy) error { return nil })
	done()
	cancel()
	if err := <-ended; code(err) != channel.CodeFailed {
		t.Errorf("have %v", err)
	}
	if have := granted(); have.VLAN != 0 || !have.SLA.Limit.IsZero() {
		t.Errorf("has %+v", have)
	}
}
