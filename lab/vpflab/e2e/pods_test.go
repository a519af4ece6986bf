//go:build lab

package e2e

import (
	"strings"
	"testing"
)

// With a real container runtime: two pods created through the CRI, each with a virtual VF that sluice-cni gives it.
func TestPods(t *testing.T) {
	r := newRig(t, "")
	r.cniVersion = "1.0.0" // the latest that containerd 1.7 accepts
	r.network("10-sluice", nil, 0, 1)
	r.node("/lab/containerd-start")
	address := map[string]string{}
	for _, pod := range []string{"a", "b"} {
		r.node("cri run %s", pod)
		address[pod] = r.node("cri ip %s", pod)
	}
	owners := map[string]bool{}
	for _, f := range r.vpf().Functions[1:3] {
		if f.Owner == "" || f.Link != "up" || !f.Stands {
			t.Errorf("VF %d: owner %q, link %s, policy stands: %v", f.VF, f.Owner, f.Link, f.Stands)
		}
		owners[f.Owner] = true
	}
	if len(owners) != 2 {
		t.Errorf("owners of two VFs: %v", owners)
	}
	// Pods reach each other and the outside machine over their VFs, and have no other path.
	for pod, to := range map[string]string{"a": address["b"], "b": "10.9.0.100"} {
		if out := r.node("cri exec %s ip -o link", pod); strings.Count(out, "\n") != 1 {
			t.Errorf("pod %s has other interfaces than lo and its VF's: %s", pod, out)
		}
		r.node("cri exec %s ping -c 3 -W 10 %s", pod, to)
	}
	for _, pod := range []string{"a", "b"} {
		r.node("cri stop %s", pod)
	}
	r.gone("after the pods")
}
