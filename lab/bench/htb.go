package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"syscall"
)

// tcBatch sets an HTB class in each guest through a long-running `tc -batch`, as a channel into the guest would.
type tcBatch struct {
	in []io.WriteCloser
}

func newTCBatch(n int) (*tcBatch, error) {
	t := &tcBatch{}
	for i := range n {
		cmd := exec.Command("tc", "-batch", "-")
		cmd.Stderr = os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		in, err := cmd.StdinPipe()
		if err != nil {
			return nil, err
		}
		if err := inNS(guestNS(i), cmd.Start); err != nil {
			return nil, err
		}
		t.in = append(t.in, in)
		if _, err := io.WriteString(in, "qdisc add dev "+guestDev+" root handle 1: htb default 1\n"+classLine("add", math.Inf(1))); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *tcBatch) set(i int, bits float64) error {
	if _, err := io.WriteString(t.in[i], classLine("change", bits)); err != nil {
		return fmt.Errorf("change the class of guest %d: tc has ended: %w", i+1, err)
	}
	return nil
}

// noLimit is far above the capacity of the link.
const noLimit = 10e9

// classLine returns the tc command for a class with a burst of 2 ms, but at least two segments.
func classLine(verb string, bits float64) string {
	bits = min(max(bits, 8000), noLimit)
	burst := max(2*segmentWire, bits/8*.002)
	return fmt.Sprintf("class %s dev %s parent 1: classid 1:1 htb rate %.0fbit ceil %.0fbit burst %.0f cburst %.0f quantum 60000 "+
		"overhead 24\n", verb, guestDev, bits, bits, burst, burst)
}
