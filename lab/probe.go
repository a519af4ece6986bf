package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

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

	// Only for ask: when each request was sent and how long its answer took, in nanoseconds.
	Requests    [][2]int64
	Broken      bool
	Retransmits int
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

// probe is a labprobe running at a place.
type probe struct {
	host    *Host
	place   string
	control int
	proc    *Proc  // on the host
	file    string // in a guest: file.json and file.pid
}

func (h *Host) startProbe(ctx context.Context, place string, control int, args string) (*probe, error) {
	p := &probe{host: h, place: place, control: control}
	n := h.serial.Add(1)
	if strings.HasPrefix(place, "vm") {
		p.file = fmt.Sprintf("/tmp/probe-%d", n)
		// The agent waits for the end of the pipes, so they must not be inherited.
		_, err := h.GuestExec(ctx, place, fmt.Sprintf("labprobe %s >%s.json 2>&1 </dev/null & echo $! >%s.pid", args, p.file, p.file))
		if err != nil {
			return nil, err
		}
		err = Eventually(ctx, 20*time.Second, place+": labprobe", func() (bool, error) {
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

// ctl sends the probe a command and returns its state.
func (p *probe) ctl(ctx context.Context, words string) (r wireReport, err error) {
	command := fmt.Sprintf("labprobe ctl 127.0.0.1 %d %s", p.control, words)
	var out string
	switch {
	case p.proc == nil:
		out, err = p.host.GuestExec(ctx, p.place, command)
	case p.place == "host":
		out, err = p.host.Run(ctx, command)
	default:
		out, err = p.host.Run(ctx, "ip netns exec "+p.place+" "+command)
	}
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal([]byte(out), &r)
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
