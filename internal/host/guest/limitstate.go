package guest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"sluice/internal/base/sleep"
	"sluice/internal/model"
)

var (
	errGone     = errors.New("the process that Sluice runs in the guest has ended")
	errNoMaster = errors.New("the guest has no device above its virtio NIC and VF: it needs net_failover, or a bond of the two with their MAC")
	errAgain    = errors.New("it has been set again")
)

// maxState bounds the script's output, in bytes. It is normally a few hundred.
const maxState = 4 << 10

// answered returns the error, if any, that the last line of the script's output reports.
func answered(text string) error {
	if len(text) > maxState {
		return bad("more than %d bytes from the script", maxState)
	}
	last := lastLine(text)
	word, rest, _ := strings.Cut(last, " ")
	if word == "ok" {
		return nil
	}
	if word != "error" {
		return bad("%q from the script", cut(last))
	}
	kind, rest, _ := strings.Cut(rest, " ")
	switch kind {
	case "gone":
		return errGone
	case "no-master":
		return errNoMaster
	case "missing":
		return fmt.Errorf("the guest has no program %q: install iproute2 and coreutils in it", cut(rest))
	case "htb":
		return errors.New("the guest's kernel has no HTB: it needs the module sch_htb (in Debian's and Ubuntu's kernels, and in RHEL's " +
			"kernel-modules-core or kernel-modules)")
	case "foreign":
		return fmt.Errorf("the device in the guest has a qdisc that Sluice did not set, %q: delete it there (tc qdisc del dev DEVICE root), "+
			"or leave bandwidth.in_guest off", cut(rest))
	case "several":
		return fmt.Errorf("the guest has several devices above the NIC: %q", cut(rest))
	}
	return fmt.Errorf("the guest could not set it: %q", cut(text))
}

func lastLine(text string) string {
	text = strings.TrimRight(text, "\n")
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// state is what the process in the guest found before it applied a record.
type state struct {
	seq  uint64 // of that record
	root string // kind and handle of the device's qdisc
	ceil uint64 // bits/s of the class, 0: there was no class
	pps  uint64 // bits/s of the parent class, likewise
	full uint64 // the guest's size of a full packet, bytes on the wire
	boot string // identifies the guest's boot
}

// parseState parses the script's answer to a record: its number, then tc's output.
func parseState(text string) (state, error) {
	var st state
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		switch {
		case len(f) == 2 && f[0] == "seq":
			n, err := strconv.ParseUint(f[1], 10, 63)
			if err != nil {
				return st, bad("record number %q", cut(f[1]))
			}
			st.seq = n
		case len(f) >= 4 && f[0] == "qdisc" && f[3] == "root":
			st.root = f[1] + " " + f[2]
		case len(f) > 3 && f[0] == "class" && f[2] == "51ce:2":
			st.ceil = ceilOf(f)
		case len(f) > 3 && f[0] == "class" && f[2] == "51ce:1":
			st.pps = ceilOf(f)
		case len(f) == 4 && f[0] == "ok":
			st.full, _ = strconv.ParseUint(f[2], 10, 16)
			st.boot = f[3]
		}
	}
	if st.seq == 0 {
		return st, bad("no record number in %q", cut(text))
	}
	return st, nil
}

// ceilOf returns the rate after the word "ceil", 0 if there is none.
func ceilOf(words []string) uint64 {
	for i := range len(words) - 1 {
		if words[i] == "ceil" {
			return tcRate(words[i+1])
		}
	}
	return 0
}

// tcRate parses a rate as tc prints it, such as 100123Kbit, into bits/s.
func tcRate(s string) uint64 {
	s, ok := strings.CutSuffix(s, "bit")
	digits := strings.TrimRight(s, "KMGT")
	factor := map[string]float64{"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}[s[len(digits):]]
	n, err := strconv.ParseFloat(digits, 64)
	if !ok || err != nil || !(n >= 0 && n*factor < 1e18) {
		return 0
	}
	return uint64(n * factor)
}

// unlimited is the rate that the script gives a class without limit, in bits/s.
const unlimited = 1e12

// kept returns an error unless the guest's classes were as they had been set.
func (st *state) kept(set model.Rate) error {
	if st.root != "htb 51ce:" {
		return fmt.Errorf("%w: its qdisc was %q", ErrLifted, cut(st.root))
	}
	if want := classRate(bounded(set.Bits, model.MaxRate)); !approx(st.ceil, want) {
		return fmt.Errorf("%w: it allowed %d bit/s, not %d", ErrLifted, st.ceil, want)
	}
	if want := classRate(bounded(set.Packets, maxPackets) * st.full * 8); st.full > 0 && !approx(st.pps, want) {
		return fmt.Errorf("%w: it allowed %d packets/s, not %d", ErrLifted, st.pps/st.full/8, want/st.full/8)
	}
	return nil
}

// rate returns what the classes allow; unlimited parts are zero.
func (st *state) rate() model.Rate {
	var r model.Rate
	if st.root == "htb 51ce:" && st.ceil < unlimited {
		r.Bits = st.ceil
	}
	if st.root == "htb 51ce:" && st.pps < unlimited && st.full > 0 {
		r.Packets = st.pps / st.full / 8
	}
	return r
}

// classRate returns the rate that the script gives a class for a limit in bits/s, 0 for none.
func classRate(bits uint64) uint64 {
	if bits == 0 || bits > unlimited {
		return unlimited
	}
	return bits
}

// approx allows for rounding: tc prints only the first digits of a rate, and rates are in whole bytes.
func approx(got, want uint64) bool {
	return math.Abs(float64(got)-float64(want)) <= float64(want)/500+8
}

// Whether the process has applied a record is polled first after execFirst, then at intervals that double up to execPoll, statePolls times
// in all: 4 s, unless the context ends earlier.
const statePolls = 64

// again adds to an error about the previous limit that it has been set again.
func again(err error) error {
	if err != nil {
		err = fmt.Errorf("%w; %w", err, errAgain)
	}
	return err
}

// verify reads back whether the process applied the last record, and what was in force before.
func (s *Shaper) verify(ctx context.Context, key channelKey, ch *channel) error {
	wait := execFirst
	for range statePolls {
		text, err := s.state(ctx, key, ch)
		if err != nil {
			return err
		}
		st, err := parseState(text)
		if err == nil && st.seq == ch.seq && answered(text) == nil {
			ch.checked = time.Now()
			return again(st.kept(ch.now))
		}
		if st.seq == ch.seq && lastLine(text) == "error tc" {
			return cmp.Or(st.kept(ch.now), answered(text))
		}
		if err := sleep.For(ctx, wait); err != nil {
			return err
		}
		wait = min(2*wait, execPoll)
	}
	return errGone
}

// state reads the process's latest output, which may be incomplete.
func (s *Shaper) state(ctx context.Context, key channelKey, ch *channel) (string, error) {
	if !ch.file {
		text, err := s.script(ctx, key, "read", ch.id, "")
		if errors.Is(err, ErrRefused) || errors.Is(err, errGone) || ctx.Err() != nil {
			return "", err
		}
		return text, nil
	}
	text, err := s.c.readFile(ctx, key.vm, ch.path(key, "out"))
	if errors.Is(err, ErrRefused) {
		return "", errGone
	}
	return text, err
}
