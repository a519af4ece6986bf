package uplinktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/host/kernel"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/uplink"
	"sluice/internal/host/uplink/ovs"
	"sluice/internal/host/uplink/ovstest"
	"sluice/internal/model"
)

// end is a port of the switch, and who is behind it.
type end struct {
	*kerneltest.Port
	mac  model.MAC
	vlan int // of a function, which sees no tags
}

// functionHost is a host of Open vSwitch with taps of two functions of virtual PFs, an uplink, and another VM, whose frames must arrive.
type functionHost struct {
	*ovstest.Host
	uplink.FunctionPorts
	kernel            *kernel.Host
	fn, fn2, wire, vm end
	calls             int
}

func newFunctionHost(t *testing.T) *functionHost {
	h := &functionHost{Host: ovstest.Start(t)}
	at := func(i byte, name string) end {
		e := end{Port: kerneltest.NewPort(t, name, ""), mac: model.MAC{2, 0, 0, 0, 1, i}}
		ovstest.VSCtl(t, "add-port", "br0", name)
		return e
	}
	h.fn, h.fn2, h.wire, h.vm = at(1, guestTap), at(2, otherTap), at(3, "wire0"), at(4, "vm0")
	h.kernel = newKernel(t)
	h.FunctionPorts = h.nextDaemon(t).FunctionPorts
	return h
}

// nextDaemon returns the same host as another daemon sees it.
func (h *functionHost) nextDaemon(t *testing.T) *functionHost {
	next := *h
	s := ovs.New(kerneltest.Soon(t), h.kernel, slog.New(slog.DiscardHandler))
	t.Cleanup(s.Close)
	if ovstest.Datapath(t) != "system" {
		s.AllowUserspace()
	}
	next.FunctionPorts = uplink.FunctionPorts{PortKernel: h.kernel, Other: s}
	return &next
}

// isolated says of each function's port whether it is isolated.
func (h *functionHost) isolated(t *testing.T) map[string]bool {
	all, err := h.SwitchPorts(kerneltest.Soon(t))
	kerneltest.Must(t, err)
	is := map[string]bool{}
	for _, p := range all {
		is[p.Tap] = p.Isolated
	}
	return is
}

// wanted is the port of a function.
func (e end) wanted(isolated bool) model.SwitchPort {
	return model.SwitchPort{
		Tap: e.Name, Bridge: "br0", Isolated: isolated, Rules: []model.SwitchRule{{MACs: []model.MAC{e.mac}, VLAN: e.vlan}},
	}
}

// set makes a tap the port of a function.
func (h *functionHost) set(t *testing.T, e end, isolated bool) {
	t.Helper()
	want := e.wanted(isolated)
	kerneltest.WaitFor(t, "the port to be set", func() bool { // the database tells of it a little later
		now, err := h.SetSwitchPort(kerneltest.Soon(t), want)
		return err == nil && now.Bridge == "br0" && now.Isolated == isolated && now.Detached == model.No
	})
	h.holds(t, e, "br0", isolated)
}

// holds waits until a port reads so.
func (h *functionHost) holds(t *testing.T, e end, bridge string, isolated bool) {
	t.Helper()
	kerneltest.WaitFor(t, fmt.Sprintf("%s to be in %q, isolated %v", e.Name, bridge, isolated), func() bool {
		all, err := h.SwitchPorts(kerneltest.Soon(t))
		kerneltest.Must(t, err)
		i := slices.IndexFunc(all, func(p model.SwitchPortState) bool { return p.Tap == e.Name })
		return i >= 0 && all[i].Bridge == bridge && all[i].Isolated == isolated
	})
}

// passes reports whether frames get from one port to another in a VLAN, 0 for none, or in any other: all or none. After each the other VM
// sends one that does.
func (h *functionHost) passes(t *testing.T, from, to end, vlan int) bool {
	t.Helper()
	h.calls++
	frame := kerneltest.Frame(to.mac, from.mac, fmt.Sprint("call ", h.calls))
	const tries = 20
	got := 0
	for i := range tries {
		control := kerneltest.Frame(to.mac, h.vm.mac, fmt.Sprintf("call %d control %d", h.calls, i))
		from.Send(t, h.tagged(frame, from, vlan))
		h.vm.Send(t, h.tagged(control, h.vm, to.vlan))
		for in := to.Next(t); string(in) != string(control); in = to.Next(t) {
			if _, plain := untagged(in); string(plain) == string(frame) { // perhaps an earlier one: ports are not served in order
				got++
				if string(in) != string(h.tagged(frame, to, vlan)) {
					t.Errorf("a frame from %s in VLAN %d reaches %s as %x", from.Name, vlan, to.Name, in[:18])
				}
			}
		}
	}
	for got > 0 && got < tries { // those that are later than the last control
		if _, plain := untagged(to.Next(t)); string(plain) == string(frame) {
			got++
		}
	}
	return got > 0
}

// tagged is a frame in a VLAN as it is at a port: functions see no tags.
func (h *functionHost) tagged(frame []byte, at end, vlan int) []byte {
	if vlan == 0 || at.Name == h.fn.Name || at.Name == h.fn2.Name {
		return frame
	}
	return slices.Concat(frame[:12], []byte{0x81, 0, byte(vlan >> 8), byte(vlan)}, frame[12:])
}

// TestFunctionsAreIsolatedInOpenVSwitch: isolated functions reach the uplink and other VMs and not each other, also after ovs-vswitchd has
// started again; and it shows when somebody ends that.
func TestFunctionsAreIsolatedInOpenVSwitch(t *testing.T) {
	h := newFunctionHost(t)
	check := func(when string, isolated bool) {
		t.Helper()
		if isolated && (h.passes(t, h.fn, h.fn2, 0) || h.passes(t, h.fn2, h.fn, 0)) {
			t.Errorf("%s: isolated functions reach each other", when)
		}
		kerneltest.WaitFor(t, when+": functions to reach the uplink and another VM", func() bool { // ovs-vswitchd may still be starting
			return h.passes(t, h.fn, h.wire, 0) && h.passes(t, h.wire, h.fn, 0) && h.passes(t, h.fn2, h.wire, 0) && h.passes(t, h.vm, h.fn2, 0)
		})
		if h.passes(t, h.fn, h.fn2, 0) == isolated || h.passes(t, h.fn2, h.fn, 0) == isolated {
			t.Errorf("%s: isolated %v, functions reach each other %v", when, isolated, isolated)
		}
	}
	h.set(t, h.fn, false)
	h.set(t, h.fn2, true)
	check("one is isolated", false)
	h.set(t, h.fn, true)
	check("both are", true)
	restartSwitch(t, h.Host)
	check("after ovs-vswitchd started again", true)
	ovstest.VSCtl(t, "set", "port", guestTap, "protected=false")
	h.holds(t, h.fn, "br0", false)
	h.set(t, h.fn, true)
	check("repaired", true)
	h.set(t, h.fn, false)
	check("no longer", false)
}

// TestFunctionsAreIsolatedAtOnce: when a port reads as isolated, no frame goes by what the switch had in its datapath before.
func TestFunctionsAreIsolatedAtOnce(t *testing.T) {
	rounds := 10
	if testing.Short() {
		rounds = 3
	}
	h := newFunctionHost(t)
	h.set(t, h.fn2, true)
	for range rounds {
		h.set(t, h.fn, false)
		kerneltest.WaitFor(t, "the switch to know the way", func() bool { return h.passes(t, h.fn, h.fn2, 0) })
		h.set(t, h.fn, true)
		if h.passes(t, h.fn, h.fn2, 0) {
			t.Error("a frame of an isolated function reaches another")
		}
	}
}

// TestFunctionsAreIsolatedWithoutSwitch: while ovs-vswitchd does not run, or takes over nothing, a port that is to be isolated does not
// read as isolated, so that its function has no carrier.
func TestFunctionsAreIsolatedWithoutSwitch(t *testing.T) {
	h := newFunctionHost(t)
	h.set(t, h.fn2, true)
	h.set(t, h.fn, false)
	protected := func() string {
		out, err := exec.Command("ovs-vsctl", "--db="+h.Socket("db"), "--timeout=60", "get", "port", guestTap, "protected").CombinedOutput()
		if err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	fails := func(ctx context.Context, why string) {
		t.Helper()
		if _, err := h.SetSwitchPort(ctx, h.fn.wanted(true)); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("isolated: %v, want %q", err, why)
		}
		if got := protected(); got != "false" {
			t.Errorf("%s: the database says %s", why, got)
		}
		h.holds(t, h.fn, "br0", false)
	}
	ovstest.Kill(h.Switch)
	fails(kerneltest.Soon(t), "ovs-vswitchd does not answer")

	closeSocket := answerOnly(t)
	ctx, cancel := context.WithCancel(kerneltest.Soon(t))
	go func() {
		defer cancel()
		for protected() != "true" && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
	}()
	fails(ctx, "context canceled")
	closeSocket()

	// A daemon that is killed in between leaves its change.
	ctx, cancel = context.WithCancel(kerneltest.Soon(t))
	vsctl := exec.CommandContext(ctx, "ovs-vsctl", "--db="+h.Socket("db"), "set", "port", guestTap, "protected=true")
	ended := make(chan string, 1)
	go func() {
		out, err := vsctl.CombinedOutput()
		ended <- fmt.Sprintf("%v: %s", err, out)
		close(ended)
	}()
	kerneltest.WaitFor(t, "the database to say that the port is protected", func() bool { return protected() == "true" })
	select {
	case out := <-ended:
		t.Errorf("ovs-vsctl does not wait for ovs-vswitchd: %s", out)
	case <-time.After(200 * time.Millisecond):
	}
	cancel()
	for range ended { // until it has ended
	}
	next := h.nextDaemon(t)
	kerneltest.WaitFor(t, "the next daemon to see the ports", func() bool { return len(next.isolated(t)) == 2 })
	if now := next.isolated(t); now[guestTap] {
		t.Errorf("for the next daemon these ports are isolated: %v", now)
	}
	if now := h.isolated(t); now[guestTap] || !now[otherTap] {
		t.Errorf("while ovs-vswitchd does not run these ports are isolated: %v", now)
	}

	restartSwitch(t, h.Host)
	kerneltest.WaitFor(t, "the next daemon to see which ports are isolated", func() bool {
		now := next.isolated(t)
		return now[guestTap] && now[otherTap]
	})
	h.set(t, h.fn, true)
	if h.passes(t, h.fn, h.fn2, 0) {
		t.Error("a frame of an isolated function reaches another")
	}
	kerneltest.Must(t, h.RemoveSwitchPort(kerneltest.Soon(t), guestTap))
	if got := protected(); got != "false" {
		t.Errorf("of what is no function's port any more the database says protected=%s", got)
	}
}

// answerOnly stands for an ovs-vswitchd that answers every command and does nothing, in the place of the one that was killed.
func answerOnly(t *testing.T) (end func()) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(os.Getenv("OVS_RUNDIR"), "ovs-vswitchd.*.ctl"))
	if err != nil || len(paths) != 1 {
		t.Fatalf("control sockets %q, %v", paths, err)
	}
	kerneltest.Must(t, os.Remove(paths[0]))
	socket, err := net.Listen("unix", paths[0])
	kerneltest.Must(t, err)
	t.Cleanup(func() { _ = socket.Close() })
	go func() {
		for {
			conn, err := socket.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				in, out := json.NewDecoder(conn), json.NewEncoder(conn)
				for {
					var request struct {
						ID int `json:"id"`
					}
					if in.Decode(&request) != nil || out.Encode(map[string]any{"id": request.ID, "result": "", "error": nil}) != nil {
						return
					}
				}
			}()
		}
	}()
	return func() { kerneltest.Must(t, socket.Close()) }
}

// TestFunctionsUnderOpenVSwitch: the policy of a function holds on Open vSwitch's kernel datapath, also after ovs-vswitchd has started
// again.
func TestFunctionsUnderOpenVSwitch(t *testing.T) {
	if ovstest.Datapath(t) != "system" {
		t.Skip("in user space frames do not pass programs at taps: the lab has the kernel's datapath")
	}
	h := newFunctionHost(t)
	spoofed := end{Port: h.fn.Port, mac: model.MAC{2, 0, 0, 0, 9, 9}}
	h.fn2.vlan = 10
	for _, when := range []string{"at first", "after ovs-vswitchd started again"} {
		h.set(t, h.fn, false)
		h.set(t, h.fn2, false)
		for _, x := range []struct {
			what     string
			from, to end
			vlan     int
			want     bool
		}{
			{"untagged", h.fn, h.wire, 0, true},
			{"untagged, back", h.wire, h.fn, 0, true},
			{"from another MAC", spoofed, h.wire, 0, false},
			{"of VLAN 10 to a function of none", h.wire, h.fn, 10, false},
			{"tagged by the host", h.fn2, h.wire, 10, true},
			{"tagged, back", h.wire, h.fn2, 10, true},
			{"untagged to a function of VLAN 10", h.wire, h.fn2, 0, false},
			{"of VLAN 11 to a function of VLAN 10", h.wire, h.fn2, 11, false},
			{"between the functions", h.fn, h.fn2, 0, false},
		} {
			if got := h.passes(t, x.from, x.to, x.vlan); got != x.want {
				t.Errorf("%s: frames %s from %s pass to %s: %v, want %v", when, x.what, x.from.Name, x.to.Name, got, x.want)
			}
		}
		restartSwitch(t, h.Host)
	}
}

// TestFunctionsRefuse: a port on which a function's policy would not hold reads as in no bridge, and setting it says why.
func TestFunctionsRefuse(t *testing.T) {
	h := newFunctionHost(t)
	for _, x := range []struct{ make, undo, why string }{
		{"set port tap0 tag=7", "clear port tap0 tag", "ovs-vsctl clear port tap0 tag trunks vlan_mode"},
		{"set port tap0 trunks=7,8", "clear port tap0 trunks", "VLANs of its own"},
		{"set bridge br0 fail_mode=secure", "clear bridge br0 fail_mode", "a controller decides what br0 passes"},
		{
			"set Open_vSwitch . external_ids:ovn-remote=tcp:192.0.2.1:6642 external_ids:ovn-bridge=br0",
			"remove Open_vSwitch . external_ids ovn-remote", "OVN decides what br0 passes",
		},
		{
			"add-port br0 int-br-ex -- set interface int-br-ex type=patch options:peer=phy-br-ex", "del-port int-br-ex",
			"Neutron's Open vSwitch agent decides what br0 passes",
		},
		{"add-br br1 -- del-port tap0 -- add-port br1 tap0", "del-port tap0 -- add-port br0 tap0", "it is a port of br1, not of br0"},
	} {
		h.set(t, h.fn, false)
		ovstest.VSCtl(t, strings.Fields(x.make)...)
		bridge := ""
		if strings.Contains(x.make, "br1") {
			bridge = "br1"
		}
		h.holds(t, h.fn, bridge, false)
		rules := []model.SwitchRule{{MACs: []model.MAC{h.fn.mac}}}
		_, err := h.SetSwitchPort(kerneltest.Soon(t), model.SwitchPort{Tap: guestTap, Bridge: "br0", Rules: rules})
		if !errors.Is(err, model.ErrPermanent) || !strings.Contains(err.Error(), x.why) {
			t.Errorf("%s: %v, want %q", x.make, err, x.why)
		}
		ovstest.VSCtl(t, strings.Fields(x.undo)...)
	}
}
