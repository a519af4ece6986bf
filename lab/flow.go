package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Traffic describes packets from one place to another. Places are "vm1" and so
// on, "ext" and "ext1" (the outside hosts), and "host" (the host itself, br0).
type Traffic struct {
	From, To string
	PPS      float64
	Size     int           // bytes of UDP payload; at least 32
	Gap      time.Duration // silences longer than this are listed; 0: 100 ms
}

// Gap is a time in which packets did not come, or some were missing.
type Gap struct {
	// Start and End are when the packets before and after came, by the clock
	// of the machine that received them. The lab sets all clocks to this
	// machine's at resume, within some ten milliseconds.
	Start, End time.Time
	// StartMono and EndMono are the same on the receiver's monotonic clock.
	StartMono, EndMono time.Duration
	// Missing counts packets that never came. For round trips, out and back
	// tell which way they were lost.
	Missing, MissingOut, MissingBack uint64
}

// Length is the time without packets.
func (g Gap) Length() time.Duration { return g.EndMono - g.StartMono }

func (g Gap) String() string {
	return fmt.Sprintf("%s..%s %v, %d missing", g.Start.Format("15:04:05.000"), g.End.Format("15:04:05.000"),
		g.Length().Round(time.Millisecond), g.Missing)
}

// Report says what became of a flow's packets.
type Report struct {
	Sent       uint64 // by the sender, or due and refused by its kernel
	SendErrors uint64 // of these, refused by its kernel
	Received   uint64 // without duplicates
	Lost       uint64 // Sent - Received
	Duplicates uint64
	Reordered  uint64
	LongestGap time.Duration // also when too short for Gaps
	Gaps       []Gap

	// Of round trips only: loss on each way, and times.
	LostOut, LostBack      uint64
	RTTMin, RTTAvg, RTTMax time.Duration
}

// During is what gaps that touch the time from..to lost, and the longest.
func (r Report) During(from, to time.Time) (missing uint64, longest time.Duration) {
	for _, g := range r.Gaps {
		if g.End.Before(from) || g.Start.After(to) {
			continue
		}
		missing += g.Missing
		longest = max(longest, g.Length())
	}
	return missing, longest
}

func (r Report) String() string {
	s := fmt.Sprintf("sent %d received %d lost %d dup %d reordered %d longest gap %v", r.Sent, r.Received, r.Lost,
		r.Duplicates, r.Reordered, r.LongestGap.Round(time.Millisecond))
	for _, g := range r.Gaps {
		s += "\n  " + g.String()
	}
	return s
}

// Flow is traffic under way.
type Flow struct {
	sender, receiver *probe // receiver is nil for round trips
	control          string
}

// StartFlow starts a receiver, then a one-way sender.
func (h *Host) StartFlow(ctx context.Context, t Traffic) (*Flow, error) {
	n := 10000 + 2*int(h.serial.Add(1))
	receiver, err := h.startProbe(ctx, t.To, fmt.Sprintf("recv %d --gap %d", n, t.gapMS()))
	if err != nil {
		return nil, err
	}
	sender, err := h.startProbe(ctx, t.From, fmt.Sprintf("send %s %d %g %d --control %d", t.target(), n, t.PPS, t.Size, n+1))
	if err != nil {
		receiver.stop(ctx)
		return nil, err
	}
	return &Flow{sender, receiver, fmt.Sprint(n + 1)}, nil
}

// StartPing starts round trips: from t.From to the echo service of t.To.
func (h *Host) StartPing(ctx context.Context, t Traffic) (*Flow, error) {
	n := 10001 + 2*int(h.serial.Add(1))
	sender, err := h.startProbe(ctx, t.From,
		fmt.Sprintf("ping %s 7 %g %d --control %d --gap %d", t.target(), t.PPS, t.Size, n, t.gapMS()))
	if err != nil {
		return nil, err
	}
	return &Flow{sender: sender, control: fmt.Sprint(n)}, nil
}

func (t Traffic) gapMS() int64 {
	if t.Gap == 0 {
		return 100
	}
	return t.Gap.Milliseconds()
}

// target is the address to send to: the host has one on each bridge.
func (t Traffic) target() string {
	if t.To == "host" && (t.From == "vm7" || t.From == "ext1") {
		return "10.9.1.1"
	}
	return Address(t.To)
}

// SetRate changes the flow's rate and packet size.
func (f *Flow) SetRate(ctx context.Context, pps float64, size int) error {
	_, err := f.sender.shell(ctx, fmt.Sprintf("labprobe ctl 127.0.0.1 %s rate %g %d", f.control, pps, size))
	return err
}

// Sent asks the sender how many packets it has sent so far.
func (f *Flow) Sent(ctx context.Context) (uint64, error) {
	out, err := f.sender.shell(ctx, "labprobe ctl 127.0.0.1 "+f.control+" stats")
	if err != nil {
		return 0, err
	}
	var r wireReport
	err = json.Unmarshal([]byte(out), &r)
	return r.Sent, err
}

// Stop ends the flow, lets packets under way arrive, and reports.
func (f *Flow) Stop(ctx context.Context) (Report, error) {
	if f.receiver != nil {
		s, err := f.sender.stop(ctx)
		if err != nil {
			f.receiver.stop(ctx)
			return Report{}, err
		}
		time.Sleep(500 * time.Millisecond) // the longest a queue here holds a packet
		r, err := f.receiver.stop(ctx)
		if err != nil {
			return Report{}, err
		}
		r.Sent, r.Errors = s.Sent, s.Errors
		return r.report(), nil
	}
	if err := f.SetRate(ctx, 0, 64); err != nil {
		return Report{}, err
	}
	time.Sleep(500 * time.Millisecond)
	r, err := f.sender.stop(ctx)
	return r.report(), err
}

// wireReport is a probe's JSON.
type wireReport struct {
	Kind                  string
	Sent, Errors, Unique  uint64
	Duplicates, Reordered uint64
	LostOut               uint64  `json:"lost_out"`
	LostBack              uint64  `json:"lost_back"`
	RTTMin                float64 `json:"rtt_min_ms"`
	RTTAvg                float64 `json:"rtt_avg_ms"`
	RTTMax                float64 `json:"rtt_max_ms"`
	Longest               float64 `json:"longest_gap_ms"`
	Gaps                  []struct {
		StartMono   int64  `json:"start_mono_ns"`
		EndMono     int64  `json:"end_mono_ns"`
		StartReal   int64  `json:"start_real_ns"`
		EndReal     int64  `json:"end_real_ns"`
		Missing     uint64 `json:"missing"`
		MissingOut  uint64 `json:"missing_out"`
		MissingBack uint64 `json:"missing_back"`
	}
}

func (w wireReport) report() Report {
	ms := func(f float64) time.Duration { return time.Duration(f * float64(time.Millisecond)) }
	r := Report{
		Sent: w.Sent, SendErrors: w.Errors, Received: w.Unique, Lost: w.Sent - min(w.Unique, w.Sent),
		Duplicates: w.Duplicates, Reordered: w.Reordered, LongestGap: ms(w.Longest),
		LostOut: w.LostOut, LostBack: w.LostBack,
		RTTMin: ms(w.RTTMin), RTTAvg: ms(w.RTTAvg), RTTMax: ms(w.RTTMax),
	}
	for _, g := range w.Gaps {
		r.Gaps = append(r.Gaps, Gap{
			Start: time.Unix(0, g.StartReal), End: time.Unix(0, g.EndReal),
			StartMono: time.Duration(g.StartMono), EndMono: time.Duration(g.EndMono),
			Missing: g.Missing, MissingOut: g.MissingOut, MissingBack: g.MissingBack,
		})
	}
	return r
}

// probe is a labprobe that runs at a place.
type probe struct {
	host  *Host
	place string
	proc  *Proc  // on the host
	file  string // in a guest: file.json and file.pid
}

func (h *Host) startProbe(ctx context.Context, place, args string) (*probe, error) {
	p := &probe{host: h, place: place}
	n := h.serial.Add(1)
	if strings.HasPrefix(place, "vm") {
		p.file = fmt.Sprintf("/tmp/probe-%d", n)
		// The agent waits for the end of the pipes, so they must not be inherited.
		_, err := h.GuestExec(ctx, place, fmt.Sprintf("labprobe %s >%s.json 2>&1 </dev/null & echo $! >%s.pid", args, p.file, p.file))
		if err != nil {
			return nil, err
		}
		err = wait(ctx, 20*time.Second, place+": labprobe", func() (bool, error) {
			out, err := h.GuestExec(ctx, place, "cat "+p.file+".json")
			return strings.Contains(out, `"ready"`), err
		})
		return p, err
	}
	command := "labprobe " + args
	if place != "host" {
		command = "ip netns exec " + place + " " + command
	}
	var err error
	if p.proc, err = h.start(ctx, fmt.Sprintf("%03d-probe-%s-%s.log", n, place, strings.Fields(args)[0]), command); err != nil {
		return nil, err
	}
	return p, p.proc.AwaitOutput(ctx, 20*time.Second, `"ready"`)
}

// shell runs a command where the probe runs.
func (p *probe) shell(ctx context.Context, command string) (string, error) {
	switch {
	case p.proc == nil:
		return p.host.GuestExec(ctx, p.place, command)
	case p.place == "host":
		return p.host.Run(ctx, command)
	}
	return p.host.Run(ctx, "ip netns exec "+p.place+" "+command)
}

// stop ends the probe and returns its last report.
func (p *probe) stop(ctx context.Context) (r wireReport, err error) {
	var out string
	if p.proc != nil {
		if err := p.proc.Stop(ctx); err != nil {
			return r, err
		}
		out, err = p.proc.Output()
	} else {
		out, err = p.host.GuestExec(ctx, p.place, fmt.Sprintf(
			"pid=$(cat %s.pid); kill $pid; while [ -d /proc/$pid ]; do usleep 20000; done; cat %s.json", p.file, p.file))
	}
	if err != nil {
		return r, err
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &r); err != nil || r.Kind == "ready" {
		return r, fmt.Errorf("%s: labprobe left no report: %q", p.place, out)
	}
	return r, nil
}
