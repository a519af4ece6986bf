package guest

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	protocol "sluice/internal/channel"
	"sluice/internal/model"
)

func of(packets uint64) protocol.Counters {
	return protocol.Counters{Interfaces: []protocol.Interface{{Name: "eth0", MAC: "52:54:00:00:00:01", RxPackets: packets, Backlog: 9}}}
}

// agentSays is an agent's answer for the same interface.
var agentSays = New(says(nics(`"rx-packets":1,"rx-bytes":0,"rx-dropped":0,"tx-packets":0,"tx-bytes":0,"tx-dropped":0`)))

func TestCollectorWaitsForTheNextReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCollector(agentSays)
		begin := time.Now()
		got, err := c.Interfaces(t.Context(), "vm")
		if err != nil || len(got) != 1 || got[0].RxPackets != 1 || time.Since(begin) != 0 {
			t.Errorf("by the agent: %+v, %v", got, err)
		}
		c.Report("vm", of(2))
		c.Report("other", of(7))
		go func() {
			time.Sleep(3 * time.Second)
			c.Report("other", of(8))
			time.Sleep(time.Second)
			c.Report("vm", of(3))
		}()
		got, err = c.Interfaces(t.Context(), "vm")
		if err != nil || len(got) != 1 || got[0].RxPackets != 3 || got[0].TxWaiting != 9 || time.Since(begin) != 4*time.Second {
			t.Errorf("by a report, after %v: %+v, %v", time.Since(begin), got, err)
		}
		if !c.Reports("vm") {
			t.Error("it does not count as one that reports")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Interfaces(ctx, "vm"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without another report: %v", err)
		}
		if _, err := c.Interfaces(t.Context(), "vm"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without another report, and without a deadline: %v", err)
		}
		if c.Reports("vm") {
			t.Error("it still counts as one that reports")
		}
		if got, err := c.Interfaces(t.Context(), "vm"); err != nil || got[0].RxPackets != 1 {
			t.Errorf("by the agent again: %+v, %v", got, err)
		}
		c.Report("third", of(1))
		if len(c.reports) != 1 {
			t.Errorf("%d guests are remembered, of which one reports", len(c.reports))
		}
	})
}

// A false report is detected in the same way as an agent's answer.
func TestReportsThatLie(t *testing.T) {
	many := protocol.Counters{}
	for range maxInterfaces + 1 {
		many.Interfaces = append(many.Interfaces, of(1).Interfaces...)
	}
	twice := protocol.Counters{Interfaces: append(of(1).Interfaces, of(1).Interfaces...)}
	for name, change := range map[string]func(*protocol.Interface){
		"huge packets": func(i *protocol.Interface) { i.RxPackets = math.MaxUint64 },
		"huge bytes":   func(i *protocol.Interface) { i.TxBytes = math.MaxInt64 + 1 },
		"huge backlog": func(i *protocol.Interface) { i.Backlog = math.MaxUint64 },
		"no name":      func(i *protocol.Interface) { i.Name = "" },
		"long name":    func(i *protocol.Interface) { i.Name = strings.Repeat("x", maxName+1) },
		"odd name":     func(i *protocol.Interface) { i.Name = "a\x1b[2J" },
	} {
		said := of(1)
		change(&said.Interfaces[0])
		if _, err := reported(said); !errors.Is(err, ErrAnswer) || !errors.Is(err, model.ErrGuest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, said := range map[string]protocol.Counters{"many": many, "twice": twice} {
		if _, err := reported(said); !errors.Is(err, ErrAnswer) {
			t.Errorf("%s: %v", name, err)
		}
	}
	said := of(1)
	said.Interfaces[0].MAC = "00:00:00:00:00:00"
	if got, err := reported(said); err != nil || len(got) != 0 {
		t.Errorf("without a MAC: %+v, %v", got, err)
	}
}

// FuzzReported checks that any report is rejected or within the bounds.
func FuzzReported(f *testing.F) {
	f.Add([]byte(`{"interfaces":[{"name":"eth0","mac":"52:54:00:00:00:01","rx_packets":1,"backlog_bytes":2}]}`))
	f.Add([]byte(`{"interfaces":[{"name":"\u0000","mac":"x"},{}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var said protocol.Counters
		if json.Unmarshal(text, &said) != nil {
			return
		}
		got, err := reported(said)
		if err != nil {
			if !errors.Is(err, ErrAnswer) {
				t.Fatal(err)
			}
			return
		}
		for _, c := range got {
			if c.MAC.IsZero() || !validName(c.Name) || max(c.RxPackets, c.TxPackets, c.RxBytes, c.TxBytes, c.TxWaiting) > maxCount {
				t.Fatalf("%q became %+v", text, c)
			}
		}
	})
}
