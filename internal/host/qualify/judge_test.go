package qualify

import (
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/api/v1"
	"sluice/internal/model"
)

// byTurns is a limit and what passed in each round, without it and with it.
func byTurns(limit uint64, passed ...float64) LimitTest {
	r := LimitTest{Limit: limit}
	for i := 0; i < len(passed); i += 2 {
		r.Free, r.Limited = append(r.Free, passed[i]), append(r.Limited, passed[i+1])
	}
	return r
}

func TestMaxRate(t *testing.T) {
	const mbit = 1e6
	for name, c := range map[string]struct {
		r          LimitTest
		want, says string
	}{
		"kept":                             {byTurns(1000*mbit, 9000*mbit, 990*mbit), "yes", "990Mbit sent with a limit of 1Gbit"},
		"kept, in bursts":                  {byTurns(1000*mbit, 9000*mbit, 1240*mbit), "yes", ""},
		"not kept":                         {byTurns(15*mbit, 60*mbit, 58*mbit), "no", "not enforce"},
		"not kept, and faster than before": {byTurns(39*mbit, 158*mbit, 281*mbit), "no", "not enforce"},
		"not kept, free no faster":         {byTurns(15*mbit, 16*mbit, 28*mbit), "no", "not enforce"},
		"not kept, free slower":            {byTurns(15*mbit, 9*mbit, 23*mbit), "no", "not enforce"},
		"kept once, by chance":             {byTurns(39*mbit, 156*mbit, 41*mbit, 160*mbit, 163*mbit), "no", "not enforce"},
		"kept, and the host was busy once": {byTurns(15*mbit, 60*mbit, 15*mbit, 9*mbit, 4*mbit, 58*mbit, 15*mbit), "yes", "58Mbit without"},
		"half kept":                        {byTurns(15*mbit, 60*mbit, 20*mbit), "unknown", "too close to the limit"},
		"too slow to tell":                 {byTurns(15*mbit, 25*mbit, 14*mbit), "unknown", "too little without it"},
		"slower by noise":                  {byTurns(15*mbit, 33*mbit, 18*mbit), "unknown", "too little without it"},
		"too slow, and a little above":     {byTurns(15*mbit, 25*mbit, 20*mbit), "unknown", "too little without it"},
		"nothing arrived":                  {byTurns(15*mbit, 60*mbit, 0), "unknown", "0bit sent"},
		"refused":                          {LimitTest{Free: []float64{60 * mbit}, Limit: 15 * mbit, Refused: "invalid argument"}, "no", "refuses"},
		"could not be tried":               {LimitTest{Error: "no carrier"}, "unknown", "no carrier"},
		"nothing":                          {LimitTest{}, "unknown", "not tried"},
	} {
		if got := maxRate(&c.r, model.Yes); got.Measured != c.want || !strings.Contains(got.Evidence, c.says) || got.Evidence == "" ||
			got.Expected != "yes" {
			t.Errorf("%s: %+v, want %s, %q", name, got, c.want, c.says)
		}
	}
}

func TestOtherClaims(t *testing.T) {
	for name, c := range map[string]struct {
		got     api.Claim
		want    string
		says    string
		numbers int
	}{
		"min refused":       {minRate(&MinRate{Asked: 10e6, Refused: "invalid argument"}, model.No), "no", "refuses", 0},
		"min not shown":     {minRate(&MinRate{Asked: 10e6}, model.Yes), "no", "0bit shown", 0},
		"min shown":         {minRate(&MinRate{Asked: 10e6, Shown: 10e6}, model.Yes), "yes", "whether it is enforced", 0},
		"min not tried":     {minRate(&MinRate{}, model.Unknown), "unknown", "not tried", 0},
		"counts nothing":    {counters(&Counted{Sent: 50, Received: 50}, model.No), "no", "0 of 50 frames sent", 0},
		"counts":            {counters(&Counted{Sent: 50, TxCounted: 50, Received: 50, RxCounted: 51}, model.Yes), "yes", "", 0},
		"counts one way":    {counters(&Counted{Sent: 50, TxCounted: 50, Received: 50}, model.Yes), "unknown", "", 0},
		"nothing to count":  {counters(&Counted{Sent: 50}, model.Yes), "unknown", "", 0},
		"counters not read": {counters(&Counted{Sent: 50, Received: 50, Error: "EIO"}, model.Yes), "unknown", "EIO", 0},
		"filters": {
			filters(&Filters{Had: 2, Added: 14, Refused: "cannot allocate memory"}, 16), "yes", "16, of which it had 2",
			16,
		},
		"filters, unlike":       {filters(&Filters{Added: 7, Refused: "cannot allocate memory"}, 16), "yes", "16 were expected", 7},
		"filters without end":   {filters(&Filters{Added: 512}, 0), "yes", "at least 512", 0},
		"no filters":            {filters(&Filters{Refused: "operation not supported"}, 0), "no", "operation not supported", 0},
		"filters could not try": {filters(&Filters{Error: "gone"}, 0), "unknown", "gone", 0},
		"spoof check":           {spoof(&Spoof{On: Count{Sent: 20}, Off: Count{Sent: 20, Got: 20}}), "yes", "with it 0 of 20", 0},
		"no spoof check":        {spoof(&Spoof{On: Count{Sent: 20, Got: 20}, Off: Count{Sent: 20, Got: 20}}), "no", "with it 20 of 20", 0},
		"spoof not told":        {spoof(&Spoof{On: Count{Sent: 20}, Off: Count{Sent: 20}}), "unknown", "something else", 0},
		"spoof not tried":       {spoof(&Spoof{Error: "no VF"}), "unknown", "no VF", 0},
	} {
		if c.got.Measured != c.want || !strings.Contains(c.got.Evidence, c.says) || c.got.Number != c.numbers {
			t.Errorf("%s: %+v, want %s, %q, %d", name, c.got, c.want, c.says, c.numbers)
		}
	}
}

func TestPasses(t *testing.T) {
	m := &Measured{Passes: map[string]Count{
		api.ClaimVFToPF: {Sent: 20, Got: 20}, api.ClaimNeedsSelf: {Sent: 20}, api.ClaimSelfFDB: {Sent: 20, Got: 3},
		api.ClaimLoopsToVF: {Sent: 20, Got: 19}, api.ClaimLoopsToPF: {Error: "down"},
	}}
	got := map[string]string{}
	for _, c := range claims(m) {
		got[c.Code] = c.Measured
	}
	for code, want := range map[string]string{
		api.ClaimVFToPF: "yes", api.ClaimNeedsSelf: "yes", api.ClaimSelfFDB: "unknown", api.ClaimLoopsToVF: "yes", api.ClaimLoopsToPF: "unknown",
		api.ClaimVFToVF: "",
	} {
		if got[code] != want {
			t.Errorf("%s: %q, want %q", code, got[code], want)
		}
	}
}

// Where a VF has a representor, a claim says so.
func TestPassesByRepresentors(t *testing.T) {
	for with, says := range map[bool]string{false: "sends out of the PF", true: "sends out of a VF's representor"} {
		m := &Measured{Representors: with, Passes: map[string]Count{api.ClaimPFToVF: {Sent: 20, Got: 20}}}
		list := claims(m)
		at := slices.IndexFunc(list, func(c api.Claim) bool { return c.Code == api.ClaimPFToVF })
		if at < 0 || list[at].Measured != "yes" || !strings.Contains(list[at].Text, says) {
			t.Errorf("%v: %+v, want %q", with, list, says)
		}
	}
}

func TestScratch(t *testing.T) {
	ms := time.Millisecond
	q := Judge(&Measured{PF: "pf0", Bind: []time.Duration{3 * ms, 1 * ms, 9 * ms}, Scratch: &Scratch{
		VM: "spare",
		Moves: []Move{
			{Plug: true, Took: 2 * time.Second, Steps: map[string]time.Duration{api.TimeAttach: 700 * ms}, Rate: 100, Sent: 200, Lost: 10},
			{Took: time.Second, Steps: map[string]time.Duration{api.TimeDetach: 400 * ms}, Rate: 100, Sent: 100},
			{Took: time.Second}, // nothing was sent
		},
		Paths: []Path{
			{Size: 64, Trips: []time.Duration{10 * ms, 8 * ms, 9 * ms}, Sent: 100, Done: 90, During: time.Second},
			{VF: true, Size: 64, Trips: []time.Duration{3 * ms}, Sent: 100, Done: 100, During: time.Second},
			{Size: 1472, Trips: []time.Duration{ms}},
			{VF: true, Size: 1472, Error: "no answer"},
		},
	}})
	if m := q.Moves; m == nil || m.Moves != 2 || m.Lost != 10 || m.LostMean != 0.05 || m.LostMost != 0.1 || m.Rate != 100 {
		t.Errorf("moves %+v", q.Moves)
	}
	if len(q.Paths) != 1 {
		t.Fatalf("paths %+v, want one: of the other size the VF has no figure", q.Paths)
	}
	p := q.Paths[0]
	if p.Size != 64 || p.Virtio.Median != 0.009 || p.VF.Median != 0.003 || p.Boost < 66.6 || p.Boost > 66.7 || p.Virtio.Packets != 180 ||
		p.Virtio.Lost != 0.1 {
		t.Errorf("path %+v", p)
	}
	if len(q.Failed) != 1 || !strings.Contains(q.Failed[0], "VF, 1472 bytes: no answer") {
		t.Errorf("failed %q", q.Failed)
	}
	times := map[string]api.Timing{}
	for _, x := range q.Times {
		times[x.Name] = x
	}
	if b := times[api.TimeBind]; b.Count != 3 || b.Median != 0.003 || b.Worst != 0.009 {
		t.Errorf("bind %+v", b)
	}
	if times[api.TimeUnplug].Count != 2 || times[api.TimeAttach].Median != 0.7 {
		t.Errorf("times %+v", times)
	}
}

// Which facts the daemon takes from a report, and which it does not.
func TestFacts(t *testing.T) {
	m := &Measured{
		MaxRate: byTurns(15e6, 60e6, 60e6), MinRate: MinRate{Asked: 1e6, Shown: 1e6},
		Counters: Counted{Sent: 50, Received: 50}, Filters: Filters{Added: 16, Refused: "full"},
	}
	q := Judge(m)
	f := FactsOf(&q)
	if want := (Facts{MaxTxRate: model.No, VFCounters: model.No, SelfSlots: 16}); f != want {
		t.Errorf("%+v, want %+v", f, want)
	}
	pf := model.PF{Caps: model.Caps{MaxTxRate: model.Yes, MinTxRate: model.Yes, Trust: model.Yes}}
	f.Over(&pf)
	if want := (model.Caps{MaxTxRate: model.No, MinTxRate: model.Yes, VFCounters: model.No, Trust: model.Yes}); pf.Caps != want ||
		pf.SelfSlots != 16 {
		t.Errorf("%+v, want %+v", pf, want)
	}
	if lost, ok := Lost([]api.Qualification{q}); ok {
		t.Errorf("lost %v without a move", lost)
	}
	q = Judge(&Measured{Representors: true, Packets: byTurns(2e5, 8e5, 2.1e5)})
	f = FactsOf(&q)
	legacy, switchdev := model.PF{}, model.PF{Uplink: model.Uplink{Kind: "linux-bridge", Representors: true}}
	ovn := model.PF{Uplink: model.Uplink{Kind: "ovn", Representors: true}}
	f.Over(&legacy)
	f.Over(&switchdev)
	f.Over(&ovn)
	if ovn.Caps.VFPackets != model.Unknown || legacy.Caps.VFPackets != model.Unknown || switchdev.Caps.VFPackets != model.Yes {
		t.Errorf("packets/s of VFs: in mode legacy %s, in mode switchdev %s, under OVN %s", legacy.Caps.VFPackets, switchdev.Caps.VFPackets,
			ovn.Caps.VFPackets)
	}
}

// Of several measured capacities the lowest counts, and only at the speed that the link had then; one that may be the peer's does not.
func TestFactsOfCapacity(t *testing.T) {
	q := api.Qualification{Hardware: api.QualifiedHardware{Speed: 10e9}, Capacity: []api.LinkCapacity{
		{Bits: 9.5e9, Measured: "yes"}, {Bits: 9.4e9, Measured: "yes", VLAN: 20}, {Bits: 3e9, Measured: "unknown"},
	}}
	f := FactsOf(&q)
	pf := model.PF{Speed: 10e9}
	f.Over(&pf)
	if want := (model.Capacity{Bits: 9.4e9, Speed: 10e9, Source: model.CapacityQualified, Detail: "with VLAN 20"}); pf.Capacity() != want {
		t.Errorf("%v, want %v", pf.Capacity(), want)
	}
	other := model.PF{Speed: 25e9}
	f.Over(&other)
	if got := other.Capacity(); got.Bits != 25e9 || got.Source != model.CapacityDriver {
		t.Errorf("at another speed: %v", got)
	}
	q.Capacity = q.Capacity[2:]
	f, pf = FactsOf(&q), model.PF{Speed: 10e9}
	if f.Over(&pf); pf.Capacity().Bits != 10e9 {
		t.Errorf("with what may be the peer's: %v", pf.Capacity())
	}
}

// Moves without a loss only show that the loss is below that of one lost round trip.
func TestLost(t *testing.T) {
	for name, c := range map[string]struct {
		moves []*api.MoveCost
		want  float64
		ok    bool
	}{
		"no report":    {nil, 0, false},
		"not measured": {[]*api.MoveCost{nil, {}}, 0, false},
		"the most of them": {[]*api.MoveCost{
			nil,
			{Moves: 4, Rate: 50, Lost: 40, LostMean: 0.2},
			{Moves: 4, Rate: 50, Lost: 5, LostMean: 0.025},
		}, 0.2, true},
		"nothing was lost":     {[]*api.MoveCost{{Moves: 4, Rate: 50}}, 0.005, true},
		"of few round trips":   {[]*api.MoveCost{{Moves: 2, Rate: 1}}, 0.5, true},
		"one report is coarse": {[]*api.MoveCost{{Moves: 4, Rate: 50, Lost: 2, LostMean: 0.01}, {Moves: 1, Rate: 10}}, 0.1, true},
	} {
		var list []api.Qualification
		for _, m := range c.moves {
			list = append(list, api.Qualification{Moves: m})
		}
		if lost, ok := Lost(list); lost != c.want || ok != c.ok {
			t.Errorf("%s: %v, %v, want %v, %v", name, lost, ok, c.want, c.ok)
		}
	}
}

func TestProblems(t *testing.T) {
	hw := api.QualifiedHardware{Device: "8086:10c9", Driver: "igb", Firmware: "1", Kernel: "6.12", NumVFs: 7}
	text := func(q *api.Qualification, now api.QualifiedHardware) string {
		var b strings.Builder
		for _, p := range Problems("pf0", q, &now) {
			if !p.Info || p.Subject != "pf0" || p.Remedy == "" {
				t.Errorf("%+v", p)
			}
			b.WriteString(p.Text + "\n")
		}
		return b.String()
	}
	if got := text(nil, hw); !strings.Contains(got, "have not been measured") {
		t.Error(got)
	}
	q := Judge(&Measured{
		Hardware: hw, Caps: model.Caps{MaxTxRate: model.Yes, VFCounters: model.No},
		MaxRate: byTurns(15e6, 60e6, 60e6), Counters: Counted{Sent: 9, Received: 9},
	})
	if got := text(&q, hw); !strings.Contains(got, "max_tx_rate is enforced: no, by measurement") || strings.Count(got, "\n") != 1 {
		t.Errorf("%q, want the one claim that is not true", got)
	}
	for _, change := range []func(*api.QualifiedHardware){
		func(h *api.QualifiedHardware) { h.Device = "8086:1521" },
		func(h *api.QualifiedHardware) { h.Driver = "igb2" },
		func(h *api.QualifiedHardware) { h.Version = "2" },
		func(h *api.QualifiedHardware) { h.Firmware = "2" },
		func(h *api.QualifiedHardware) { h.Kernel = "6.13" },
		func(h *api.QualifiedHardware) { h.NumVFs = 4 },
	} {
		now := hw
		change(&now)
		if got := text(&q, now); !strings.Contains(got, "and is ignored") {
			t.Errorf("%+v: %q", now, got)
		}
	}
	q = api.Qualification{Hardware: hw, Paths: []api.PathBySize{{Size: 64, Boost: -3}, {Size: 1472}}}
	if got := text(&q, hw); !strings.Contains(got, "no faster than virtio") {
		t.Error(got)
	}
	q.Hardware.Emulated = true
	if got := text(&q, hw); got != "" {
		t.Errorf("%q: an emulated NIC proves nothing about speed", got)
	}
}

// When a limit in packets/s counts as kept at a representor.
func TestPackets(t *testing.T) {
	for name, c := range map[string]struct {
		m    LimitTest
		want string
	}{
		"kept":                 {byTurns(2e5, 8e5, 2.2e5), "yes"},
		"not kept":             {byTurns(2e5, 8e5, 7e5), "no"},
		"between":              {byTurns(2e5, 8e5, 2.7e5), "unknown"},
		"nothing passes":       {byTurns(2e5, 8e5, 0), "unknown"},
		"nothing passed":       {byTurns(1000, 0, 0), "unknown"},
		"few pass anyhow":      {byTurns(1000, 1500, 900), "unknown"},
		"the kernel cannot":    {LimitTest{Free: []float64{8e5}, Refused: "needs TCX"}, "no"},
		"it failed":            {LimitTest{Free: []float64{8e5}, Limit: 2e5, Limited: []float64{2e5}, Error: "no buffer space"}, "unknown"},
		"it was not tried yet": {LimitTest{}, "unknown"},
	} {
		q := Judge(&Measured{Representors: true, Packets: c.m})
		at := slices.IndexFunc(q.Claims, func(claim api.Claim) bool { return claim.Code == api.ClaimVFPackets })
		if at < 0 || q.Claims[at].Measured != c.want {
			t.Errorf("%s: want %q of %+v", name, c.want, q.Claims)
		}
	}
}
