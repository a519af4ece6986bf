package libvirt

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"sluice/internal/host/libvirt/libvirttest"
	"sluice/internal/model"
)

// testDriver starts a libvirtd and returns the URI of its test driver.
func testDriver(t *testing.T) string {
	t.Helper()
	return libvirttest.Start(t).TestDriverURI()
}

func TestTestDriver(t *testing.T) {
	c := open(t, testDriver(t))
	doms, err := c.Domains(t.Context())
	if err != nil || len(doms) != 1 || doms[0].Name != "test" || doms[0].State != model.VMRunning {
		t.Fatalf("have %+v, %v", doms, err)
	}
	stats, err := c.Stats(within(t, patience))
	if err != nil || len(stats) != 1 || !stats[doms[0].ID].CPUKnown {
		t.Errorf("Stats: %v, %v", stats, err)
	}
	if p := c.Problems(); len(p) != 0 {
		t.Errorf("Problems: %v", p)
	}
	_, err = c.Agent(within(t, patience), doms[0].ID, []byte(`{"execute":"guest-ping"}`))
	if !errors.Is(err, model.ErrPermanent) || !strings.Contains(err.Error(), "test") {
		t.Errorf("Agent: %v", err)
	}
}

func TestDomainsAreCopies(t *testing.T) {
	c := open(t, testDriver(t))
	a, _ := c.Domains(t.Context())
	a[0].Name = "mine"
	if len(a[0].NICs) > 0 {
		a[0].NICs[0].Tap = "mine"
	}
	b, _ := c.Domains(t.Context())
	if b[0].Name == "mine" || (len(b[0].NICs) > 0 && b[0].NICs[0].Tap == "mine") {
		t.Error("a caller can change the inventory")
	}
}

func TestOpenFailures(t *testing.T) {
	for uri, permanent := range map[string]bool{"qemu+pigeon:///system": true, "qemu:///system?socket=/nonexistent/sock": false} {
		c, err := Open(within(t, patience), Options{URI: uri})
		if permanent {
			if !errors.Is(err, model.ErrPermanent) {
				t.Errorf("%s: %v", uri, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", uri, err)
		}
		if _, err := c.Domains(t.Context()); !errors.Is(err, ErrDisconnected) || !strings.Contains(err.Error(), "is libvirtd running?") {
			t.Errorf("%s: Domains: %v", uri, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, Options{URI: testDriver(t)}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestOpenAndCloseOften(t *testing.T) {
	uri := testDriver(t)
	for range 20 {
		a, b := open(t, uri), open(t, uri)
		if err := errors.Join(a.Close(), b.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// A libvirtd that does not answer pings is given up, whether or not libvirt's own keepalive notices.
func TestUnansweredPingEndsSession(t *testing.T) {
	c := open(t, testDriver(t), func(o *Options) { o.Keepalive = 20 * time.Millisecond })
	old, err := c.session()
	if err != nil {
		t.Fatal(err)
	}
	old.events.slots <- struct{}{} // a ping that does not return
	libvirttest.Eventually(t, patience, "there is a new session", func() bool {
		s, err := c.session()
		return err == nil && s != old
	})
	<-old.events.slots
}
