package cni

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sluice/internal/channel"
)

func withValid(conf string, containers ...string) string {
	var list []string
	for _, c := range containers {
		list = append(list, fmt.Sprintf(`{"containerID":%q,"ifname":"net1"}`, c))
	}
	return strings.TrimSuffix(strings.TrimSpace(conf), "}") + `,"cni.dev/valid-attachments":[` + strings.Join(list, ",") + "]}"
}

// GC releases the VFs of its network's containers that no longer exist, and no others.
func TestGC(t *testing.T) {
	n := newNode(t)
	a, b := n.container("a"), n.container("b")
	confA := n.conf(device0)
	confB := strings.Replace(n.conf(device1), "net-a", "net-b", 1)
	n.add("a", a, confA)
	n.add("b", b, confB)

	n.must(call{"GC", "", "", withValid(confA, "a"), ""})
	if have := n.host.attached(); !slices.Equal(have, []string{"a/net1", "b/net1"}) {
		t.Error("those that are valid, or of another network:", have)
	}
	n.must(call{"GC", "", "", withValid(confA), ""})
	if have := n.host.attached(); !slices.Equal(have, []string{"b/net1"}) {
		t.Error(have)
	}
	n.must(call{"GC", "", "", withValid(confB), ""})
	n.clean()

	// A container of another network whose ADD is still in progress.
	reached, goOn := n.stopAt("ADD", "host-device before")
	add := n.start(call{"ADD", "b", b, confB, ""})
	n.await("ADD is at host-device", reached)
	n.must(call{"GC", "", "", withValid(confA), ""})
	if have := n.host.attached(); !slices.Equal(have, []string{"b/net1"}) {
		t.Error(have)
	}
	goOn()
	if err := add.Wait(); err != nil {
		t.Error(err)
	}
	n.must(call{"DEL", "b", b, confB, ""})
	n.clean()
}

// VFs that only the host knows of are released too, unless a container may have them.
func TestGCOfWhatIsNotOnRecord(t *testing.T) {
	n := newNode(t)
	a := n.container("a")
	conf := n.conf(device0)
	n.add("a", a, conf)
	p := &Plugin{Dir: n.dir + "/state"}
	r, err := p.load("a", "net1")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.remove(r); err != nil {
		t.Fatal(err)
	}
	n.host.set(func(h *fakeHost) {
		h.held[channel.VF{PF: pfMAC, Index: 1}] = channel.Attach{Owner: "gone/net1"}
		h.held[channel.VF{PF: pfMAC, Index: 6}] = channel.Attach{Owner: "gone-with-its-VF/net1"}
	})
	n.must(call{"GC", "", "", withValid(conf), ""})
	if have := n.host.attached(); !slices.Equal(have, []string{"a/net1"}) {
		t.Error(have)
	}
	if err := p.save(r); err != nil {
		t.Fatal(err)
	}
	n.must(call{"DEL", "a", a, conf, ""})
	n.clean()
}

// A VF that cannot be released does not keep GC from releasing others.
func TestGCGoesOn(t *testing.T) {
	n := newNode(t)
	a, b := n.container("a"), n.container("b")
	n.add("a", a, n.conf(device0))
	n.add("b", b, n.conf(device1))
	n.host.set(func(h *fakeHost) {
		h.refuse = func(method channel.Method, body string) error {
			if method == channel.MethodDetach && strings.Contains(body, `"a/net1"`) {
				return &channel.Error{Code: channel.CodeFailed, Text: "not now"}
			}
			return nil
		}
	})
	n.fails(call{"GC", "", "", withValid(n.conf("")), ""}, 11, "not now")
	if have := n.host.attached(); !slices.Equal(have, []string{"a/net1"}) {
		t.Error(have)
	}
	n.host.set(func(h *fakeHost) { h.refuse = nil })
	n.must(call{"GC", "", "", withValid(n.conf("")), ""})
	n.clean()
}
