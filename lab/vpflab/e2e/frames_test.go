//go:build lab

package e2e

import (
	"fmt"
	"time"

	"sluice/lab/vpflab"
)

// send sends frames from a network namespace of the guest ("": the initial one), as root there can, and returns their mark.
func (r *rig) send(ns, dev, flags string) string {
	r.t.Helper()
	*r.serial++
	mark := fmt.Sprintf("m%d", *r.serial)
	command := fmt.Sprintf("/share/frames send %s --mark %s %s", dev, mark, flags)
	if ns != "" {
		command = "ip netns exec " + ns + " " + command
	}
	r.node("%s", command)
	return mark
}

// passes sends frames that must all arrive, and returns their mark.
func (r *rig) passes(what string, l *vpflab.Listener, ns, dev, flags string) string {
	r.t.Helper()
	mark := r.send(ns, dev, "--count 3 "+flags)
	r.eventually(30*time.Second, what+" passes", func() error { return arrived(l, mark, 3) })
	return mark
}

// fence sends a permitted frame from the guest's own NIC and waits for it. What was sent before has then arrived, too, if it ever does.
func (r *rig) fence(l *vpflab.Listener) {
	r.t.Helper()
	mark := r.send("", "eth0", "--count 1")
	r.eventually(30*time.Second, "what the guest's own NIC sends arrives", func() error { return arrived(l, mark, 1) })
}

// blocked sends frames none of which may arrive.
func (r *rig) blocked(what string, l *vpflab.Listener, ns, dev, flags string) {
	r.t.Helper()
	mark := r.send(ns, dev, "--count 3 "+flags)
	for range 2 {
		r.fence(l)
	}
	n, err := l.Count(mark)
	r.must(err)
	if n > 0 {
		all, _ := l.All()
		r.t.Errorf("%s: %d frames passed, want none: %v", what, n, all)
	}
}

func arrived(l *vpflab.Listener, mark string, want int) error {
	n, err := l.Count(mark)
	if err == nil && n < want {
		err = fmt.Errorf("%d frames of %d", n, want)
	}
	return err
}
