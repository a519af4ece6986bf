package demo_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"sluice/api/v1"
	"sluice/internal/demo"
	"sluice/internal/edge/answer"
	"sluice/internal/edge/cli"
	"sluice/internal/edge/client"
	"sluice/internal/model"
	"sluice/internal/tests/testkit"
)

// The demo shares its links as the daemon does: sluice bw has data.
func TestBandwidthIsControlled(t *testing.T) {
	var last *model.View
	o := cli.DemoOptions{
		VMs: 4, VFs: 2, Policy: "adaptive", Interval: time.Minute, Speed: 1000, For: 10 * time.Second, Seed: 1,
		Show: func(v *model.View) { last = v },
	}
	if err := demo.Run(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	if last == nil || last.Bandwidth == nil {
		t.Fatal("nothing is shown of bandwidth")
	}
	if n := len(last.Bandwidth.NICs); n != 4 {
		t.Fatalf("%d NICs, want 4", n)
	}
	for _, n := range last.Bandwidth.NICs {
		if n.Sent.Bits == 0 {
			t.Errorf("%s sends nothing", n.VMName)
		}
	}
}

// The demo repairs what a host lacks before the first run of Sluice: a filter for each VM on each PF of its network, once.
func TestRepairsNothingTwice(t *testing.T) {
	var last *model.View
	o := cli.DemoOptions{
		VMs: 40, VFs: 20, Policy: "adaptive", Interval: time.Minute, Speed: 1200, For: 15 * time.Minute, Seed: 1,
		Show: func(v *model.View) { last = v },
	}
	if err := demo.Run(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	if n := last.Totals.Repairs; n == 0 || n > 2*40 {
		t.Errorf("%d repairs, want one for each of 40 VMs on each of 2 PFs, or less for those that were moved meanwhile", n)
	}
}

// metrics returns what Prometheus would read.
func metrics(t *testing.T, socket string) string {
	t.Helper()
	web := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	r, err := web.Get("http://sluice/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The demo has a history, events and comparisons of policies, like the daemon.
func TestHistoryIsServed(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s.sock")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	o := cli.DemoOptions{VMs: 4, VFs: 2, Policy: "adaptive", Interval: time.Minute, Speed: 200, Seed: 1, Socket: socket}
	go func() { ended <- demo.Run(ctx, o) }()
	c := client.New(socket)
	wait := func(what string, there func() bool) {
		t.Helper()
		for end := time.Now().Add(testkit.Time(30 * time.Second)); !there(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("no %s", what)
			}
		}
	}
	var h api.History
	wait("history with a move", func() bool {
		h, _ = c.History(ctx, answer.HistoryQuery{})
		return len(h.VMs) == 4 && len(h.Holdings) >= 2 && len(h.Links) == 2 && len(h.Moves) > 0 && len(h.VMs[0].Virtio) > 6
	})
	m := h.Moves[0]
	if m.ID == 0 || len(m.Steps) == 0 || m.Steps[0].From.Before(m.Move.Started) || m.Reason == nil {
		t.Errorf("a move is %+v", m)
	}
	wait("other policies", func() bool {
		w, err := c.WhatIf(ctx)
		return err == nil && len(w.Policies) > 2 && w.Current == "adaptive"
	})
	// Panels of the dashboard that show traffic have data.
	traffic := regexp.MustCompile(`(?m)^sluice_(nic|link)_transmit_(bytes|packets)_total\{.*\} [1-9]`)
	wait("counters of traffic", func() bool {
		have := map[string]bool{}
		for _, m := range traffic.FindAllStringSubmatch(metrics(t, socket), -1) {
			have[m[1]+m[2]] = true
		}
		return len(have) == 4 // guests of the demo only send
	})
	news := 0
	enough := errors.New("enough")
	if err := c.Events(ctx, func(uint64) error {
		if news++; news == 3 {
			return enough
		}
		return nil
	}); !errors.Is(err, enough) {
		t.Error(err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
