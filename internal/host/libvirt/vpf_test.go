package libvirt

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/host/libvirt/libvirttest"
	"sluice/internal/model"
)

// onNewQEMU makes a Conn believe that the host has the bridge and a QEMU of that version.
func onNewQEMU(c *Conn, v version) {
	c.o.Switches = libvirttest.Switches{}
	c.emulator = func(context.Context, *session, model.VMID, string) (version, error) { return v, nil }
}

func virtualPF(vm model.VMID, name string, vfs int) *model.VirtualPF {
	return &model.VirtualPF{
		VM: vm, Name: name, Model: model.VPFVirtio, Backend: model.BackendTap, Network: libvirttest.Bridge,
		VFs: make([]model.VirtualVF, vfs), Channel: true,
	}
}

// Devices that a domain may have beside a virtual PF, and which must be unchanged after it was defined and undefined.
var beside = []libvirttest.VM{
	{Name: "plain"},
	{Name: "ports", Ports: 3, NICs: []string{libvirttest.NIC("52:54:00:00:01:01", "ua-net0", true)}},
	{Name: "agent", Ports: 2, Extra: "<channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>"},
	{Name: "override", Ports: 1, NICs: []string{libvirttest.NIC("52:54:00:00:01:02", "ua-net0", false)}, QEMU: `<qemu:override>
		<qemu:device alias='ua-net0'><qemu:frontend><qemu:property name='tx' type='string' value='timer'/></qemu:frontend></qemu:device></qemu:override>`},
	{Name: "cmdline", QEMU: `<qemu:commandline><qemu:arg value='-global'/><qemu:arg value='ICH9-LPC.disable_s3=1'/><qemu:env name='A' value='b &amp; &lt;c&gt;'/></qemu:commandline>`},
	{Name: "metadata", QEMU: `<title>A &amp; B</title><description>two
lines</description><metadata><s:sla xmlns:s="urn:sluice:sla:1" guarantee="2Gbit"/><o:x xmlns:o="urn:other" a='"1"'>text <o:y>deep</o:y> tail<!-- why --></o:x></metadata>`},
	{Name: "secret", USB: true, Extra: `<graphics type='vnc' port='-1' passwd='s3cret'/><video><model type='vga'/></video><input type='tablet' bus='usb'/>`},
	{Name: "many", Ports: 2, Extra: libvirttest.RNG("ua-rng") +
		"<controller type='pci' model='pcie-to-pci-bridge'/><watchdog model='i6300esb' action='reset'/><serial type='pty'/><console type='pty'/><sound model='ich6'/>"},
}

// defineVM returns the definition after libvirt has stored its own output again: that alone can move a controller.
func defineVM(t testing.TB, d *libvirttest.Daemon, v libvirttest.VM) string {
	t.Helper()
	d.Virsh(t, "define", d.File(t, v.XML()))
	d.Virsh(t, "define", d.File(t, inactive(t, d, v)))
	return inactive(t, d, v)
}

func inactive(t testing.TB, d *libvirttest.Daemon, v libvirttest.VM) string {
	t.Helper()
	return d.Virsh(t, "dumpxml", v.Name, "--inactive", "--security-info")
}

// Defining and undefining virtual PFs in any order leaves the rest of the definition and the other virtual PFs unchanged.
func TestDefineAndUndefineVPF(t *testing.T) {
	d := libvirttest.Start(t)
	c := open(t, d.URI())
	onNewQEMU(c, version{10, 1})
	ctx := within(t, 4*patience)
	for _, v := range beside {
		t.Run(v.Name, func(t *testing.T) {
			before := defineVM(t, d, v)
			one, two, three := virtualPF(id(v), "vpf0", 3), virtualPF(id(v), "storage", 30), virtualPF("", "igb0", 5)
			two.ARI, two.Channel, two.Network = true, false, libvirttest.VSwitch
			three.VMName, three.Model = v.Name, model.VPFIGB
			four := virtualPF(id(v), "vdpa0", 2)
			four.Backend, four.Network = model.BackendVDPA, "vduse"
			all := []*model.VirtualPF{one, two, three, four}
			for _, p := range all {
				if err := c.DefineVPF(ctx, p); err != nil {
					t.Fatal(err)
				}
				if p.VM != id(v) || p.VMName != v.Name || p.MAC.IsZero() || p.VFs[len(p.VFs)-1].MAC.IsZero() {
					t.Errorf("not filled in: %+v", p)
				}
			}
			for _, p := range all {
				if problems, err := c.CheckVPF(ctx, p); err != nil || len(problems) > 0 {
					t.Errorf("%s after all were defined: %v, %v", p.Name, problems, err)
				}
			}
			full := inactive(t, d, v)
			if n := strings.Count(full, "<virtualport type='openvswitch'>"); n != len(two.VFs)+1 {
				t.Errorf("%d of %d functions have the connection of Open vSwitch", n, len(two.VFs)+1)
			}
			for i, p := range all { // the first to go has the others above it
				if err := c.UndefineVPF(ctx, p.VM, p.Name); err != nil {
					t.Fatal(err)
				}
				for _, other := range all[i+1:] {
					if problems, err := c.CheckVPF(ctx, other); err != nil || len(problems) > 0 {
						t.Errorf("%s after %s went: %v, %v", other.Name, p.Name, problems, err)
					}
				}
			}
			if diff := cmp.Diff(before, inactive(t, d, v)); diff != "" {
				t.Errorf("it is not as it was:\n%s\nwith all virtual PFs it was\n%s", diff, full)
			}
			if err := c.UndefineVPF(ctx, id(v), "vpf0"); err != nil {
				t.Errorf("undefined once more: %v", err)
			}
		})
	}
}

// Obstacles are reported before anything is changed, with a remedy.
func TestDefineVPFRefuses(t *testing.T) {
	d := libvirttest.Start(t)
	c := open(t, d.URI())
	ctx := within(t, 4*patience)
	off := libvirttest.VM{Name: "off", NICs: []string{libvirttest.NIC("52:54:00:00:02:01", "ua-net0", false)}}
	on := libvirttest.VM{Name: "on", NICs: []string{libvirttest.NIC("52:54:00:00:02:02", "ua-net0", false)}}
	old := libvirttest.VM{Name: "old", Machine: "pc"}
	transient := libvirttest.VM{Name: "transi", NICs: []string{libvirttest.NIC("52:54:00:00:02:03", "ua-net0", false)}}
	for _, v := range []libvirttest.VM{off, on, old} {
		defineVM(t, d, v)
	}
	d.Virsh(t, "start", "on", "--paused")
	d.Create(t, transient)
	new10 := version{10, 1}
	for _, tc := range []struct {
		name string
		vm   libvirttest.VM
		qemu version
		with func(*model.VirtualPF)
		want string
	}{
		{"running", on, new10, nil, "it is running, and a virtual PF cannot be plugged or unplugged then: shut it down first (virsh shutdown on)"},
		{"transient", transient, new10, nil, "it is transient"},
		{"machine", old, new10, nil, `no root port: its machine "pc-i440fx`},
		{"QEMU", off, version{7, 2}, nil, "its QEMU is 7.2, and the first that composes virtual PFs is 10.1: install that"},
		{
			"QEMU for igb", off,
			version{7, 2},
			func(p *model.VirtualPF) { p.Model = model.VPFIGB },
			"its QEMU is 7.2, and the first that emulates an igb is 8.0",
		},
		{
			"bridge", off, new10, func(p *model.VirtualPF) { p.Network = "br9" },
			"there is no switch br9",
		},
		{
			"bridge of others", off, new10, func(p *model.VirtualPF) { p.Network = libvirttest.NoFunctions },
			"others manage it: name another",
		},
		{"no bridge", off, new10, func(p *model.VirtualPF) { p.Network = "" }, "its network must be the bridge"},
		{
			"MAC of itself", off, new10, func(p *model.VirtualPF) { p.MAC = mac(t, "52:54:00:00:02:01") },
			"duplicate MAC: 52:54:00:00:02:01, wanted for ua-vpf-vpf0-pf, is that of ua-net0 of off",
		},
		{
			"MAC of a running VM", off, new10, func(p *model.VirtualPF) { p.VFs[1].MAC = mac(t, "52:54:00:00:02:03") },
			"wanted for ua-vpf-vpf0-vf1, is that of ua-net0 of transi",
		},
		{"MAC twice", off, new10, func(p *model.VirtualPF) {
			p.VFs[0].MAC, p.VFs[1].MAC = mac(t, "52:54:00:00:02:09"), mac(t, "52:54:00:00:02:09")
		}, "wanted for ua-vpf-vpf0-vf1, is that of ua-vpf-vpf0-vf0"},
		{"multicast MAC", off, new10, func(p *model.VirtualPF) { p.MAC = mac(t, "53:54:00:00:02:09") }, "is a multicast address"},
		{
			"8 VFs", off, new10, func(p *model.VirtualPF) { p.VFs = make([]model.VirtualVF, 8) },
			"8 VFs are more than the 7 functions that a slot has besides the PF: request ARI",
		},
		{
			"256 VFs", off, new10, func(p *model.VirtualPF) { p.VFs, p.ARI = make([]model.VirtualVF, 256), true },
			"256 VFs are more than the 255 that QEMU supports",
		},
		{
			"8 VFs of an igb", off, new10, func(p *model.VirtualPF) { p.VFs, p.Model = make([]model.VirtualVF, 8), model.VPFIGB },
			"8 VFs are more than the 7 that an igb has",
		},
		{"none", off, new10, func(p *model.VirtualPF) { p.VFs = nil }, "it has no VFs"},
		{"name", off, new10, func(p *model.VirtualPF) { p.Name = "a b" }, `"a b" is not a valid name`},
		{"model", off, new10, func(p *model.VirtualPF) { p.Model = "e1000" }, `there is no model "e1000": choose virtio or igb`},
		{"backend", off, new10, func(p *model.VirtualPF) { p.Backend = "x" }, `there is no backend "x": choose tap or vdpa`},
		{"igb on vDPA", off, new10, func(p *model.VirtualPF) { p.Backend, p.Model = model.BackendVDPA, model.VPFIGB }, "an igb has one tap"},
		{"no such VM", libvirttest.VM{Name: "nobody"}, new10, nil, "no domain with matching uuid"},
	} {
		onNewQEMU(c, tc.qemu)
		p := virtualPF(id(tc.vm), "vpf0", 2)
		if tc.with != nil {
			tc.with(p)
		}
		err := c.DefineVPF(ctx, p)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %s", tc.name, err, tc.want)
		}
		if !errors.Is(err, model.ErrPermanent) && !errors.Is(err, model.ErrGone) {
			t.Errorf("%s: trying again is said to help: %v", tc.name, err)
		}
	}
	for _, v := range []libvirttest.VM{off, on, old} {
		if strings.Contains(inactive(t, d, v), "ua-vpf-") {
			t.Errorf("%s was changed", v.Name)
		}
	}
	macs, err := c.MACs(ctx)
	want := map[model.MAC]string{
		mac(t, "52:54:00:00:02:01"): "ua-net0 of off", mac(t, "52:54:00:00:02:02"): "ua-net0 of on",
		mac(t, "52:54:00:00:02:03"): "ua-net0 of transi",
	}
	if diff := cmp.Diff(want, macs); diff != "" || err != nil {
		t.Error(err, diff)
	}
}

// A virtual PF that exists already is neither created twice nor mistaken for another.
func TestDefineVPFAgain(t *testing.T) {
	d := libvirttest.Start(t)
	c := open(t, d.URI())
	onNewQEMU(c, version{11, 0})
	ctx := within(t, 4*patience)
	v := libvirttest.VM{Name: "v"}
	defineVM(t, d, v)
	first := virtualPF(id(v), "vpf0", 2)
	if err := c.DefineVPF(ctx, first); err != nil {
		t.Fatal(err)
	}
	// A process that was killed before it recorded what it had defined asks again.
	again := virtualPF(id(v), "vpf0", 2)
	if err := c.DefineVPF(ctx, again); err != nil || !cmp.Equal(first, again) {
		t.Errorf("again: %v, %s", err, cmp.Diff(first, again))
	}
	igb := virtualPF(id(v), "i", 2)
	igb.Model = model.VPFIGB
	for range 2 {
		igb.VFs = make([]model.VirtualVF, 2)
		if err := c.DefineVPF(ctx, igb); err != nil || igb.VFs[1].MAC.IsZero() {
			t.Errorf("igb: %v, %+v", err, igb)
		}
	}
	other := virtualPF(id(v), "vpf0", 3)
	if err := c.DefineVPF(ctx, other); err == nil || !strings.Contains(err.Error(), "it has a virtual PF vpf0 already") {
		t.Errorf("another of that name: %v", err)
	}
	if err := c.UndefineVPF(ctx, id(v), "i"); err != nil {
		t.Error(err)
	}
	withoutSRIOV(t, d, v)
	d.Virsh(t, "start", "v", "--paused")
	if err := c.UndefineVPF(ctx, id(v), "vpf0"); err == nil || !strings.Contains(err.Error(), "it is running") {
		t.Errorf("undefine while it runs: %v", err)
	}
	d.Virsh(t, "managedsave", "v")
	if err := c.UndefineVPF(ctx, id(v), "vpf0"); err == nil || !strings.Contains(err.Error(), "it is saved") {
		t.Errorf("undefine while it is saved: %v", err)
	}
}

// Links of functions are down initially, can be set up and down, and the inventory shows that.
func TestSetLinkOfFunction(t *testing.T) {
	for _, network := range []string{libvirttest.Bridge, libvirttest.VSwitch} {
		t.Run(network, func(t *testing.T) { checkSetLink(t, network) })
	}
}

func checkSetLink(t *testing.T, network string) {
	d := libvirttest.Start(t)
	if network == libvirttest.VSwitch {
		d.StartOVS(t)
	}
	c := open(t, d.URI())
	onNewQEMU(c, version{10, 1})
	ctx := within(t, 4*patience)
	v := libvirttest.VM{Name: "v"}
	defineVM(t, d, v)
	p := virtualPF(id(v), "vpf0", 8)
	p.ARI, p.Network = true, network
	if err := c.DefineVPF(ctx, p); err != nil {
		t.Fatal(err)
	}
	if path, err := c.ChannelSocket(ctx, id(v)); err != nil || path != "" {
		t.Errorf("channel of one that is off: %q, %v", path, err)
	}
	withoutSRIOV(t, d, v)
	d.Virsh(t, "start", "v", "--paused")
	hasState(t, c, v, model.VMPaused)
	carriers := func() (out string) {
		for _, n := range find(t, c, v.UUID()).NICs {
			if n.VirtualPF != "vpf0" || n.Tap == "" || n.Network != network {
				t.Errorf("a NIC that is no function: %+v", n)
			}
			out += fmt.Sprintf("%d%s ", n.Function, n.Carrier)
		}
		return out
	}
	if got := carriers(); got != "1no 2no 3no 4no 5no 6no 7no 8no 0no " {
		t.Errorf("at the start: %s", got)
	}
	for range 2 {
		if err := c.SetLink(ctx, id(v), p.VFAlias(7), true); err != nil {
			t.Fatal(err)
		}
	}
	if got := carriers(); got != "1no 2no 3no 4no 5no 6no 7no 8yes 0no " {
		t.Errorf("after one went up: %s", got)
	}
	if got := d.Virsh(t, "domif-getlink", "v", p.VFs[7].MAC.String()); !strings.Contains(got, "up") {
		t.Errorf("virsh says %s", got)
	}
	if strings.Count(inactive(t, d, v), "<link state='down'/>") != 9 {
		t.Error("the persistent XML changed")
	}
	d.Kill(t)
	d.Start(t)
	libvirttest.Eventually(t, patience, "links are as they were after libvirtd's restart", func() bool {
		return find(t, c, v.UUID()) != nil && carriers() == "1no 2no 3no 4no 5no 6no 7no 8yes 0no "
	})
	if problems, err := c.CheckVPF(ctx, p); err != nil || len(problems) == 0 ||
		!strings.Contains(problems[0].Text, "no longer gives ua-vpf-vpf0-vf0 the property sriov-pf") {
		t.Errorf("after libvirtd's restart: %v, %v", problems, err)
	}
	for range 2 {
		if err := c.SetLink(ctx, id(v), p.VFAlias(7), false); err != nil {
			t.Fatal(err)
		}
	}
	if got := carriers(); got != "1no 2no 3no 4no 5no 6no 7no 8no 0no " {
		t.Errorf("after it went down: %s", got)
	}
	d.Virsh(t, "domif-setlink", "v", p.VFs[2].MAC.String(), "up")
	libvirttest.Eventually(t, patience, "what somebody else did to a link is seen, though libvirt does not tell of it", func() bool {
		return carriers() == "1no 2no 3yes 4no 5no 6no 7no 8no 0no "
	})
	path, err := c.ChannelSocket(ctx, id(v))
	if err != nil || !strings.HasSuffix(path, "/org.sluice.0") {
		t.Errorf("channel: %q, %v", path, err)
	}
	d.Run(t, "test", "-S", path)

	if err := c.SetLink(ctx, id(v), p.VFAlias(8), true); !errors.Is(err, model.ErrGone) {
		t.Errorf("a function that is not there: %v", err)
	}
	d.Destroy(t, "v")
	if err := c.SetLink(ctx, id(v), p.PFAlias(), true); !errors.Is(err, model.ErrGone) {
		t.Errorf("a VM that is off: %v", err)
	}
}

// withoutSRIOV removes the property that this machine's QEMU is too old for, so that the VM starts with ordinary NICs.
func withoutSRIOV(t testing.TB, d *libvirttest.Daemon, v libvirttest.VM) {
	t.Helper()
	var keep []string
	for line := range strings.Lines(inactive(t, d, v)) {
		if !strings.Contains(line, "name='sriov-pf'") {
			keep = append(keep, line)
		}
	}
	d.Virsh(t, "define", d.File(t, strings.Join(keep, "")))
}

// Functions on vDPA devices have no tap, and their link is up; the VM does not start while a device is missing.
func TestDefineVPFOnVDPA(t *testing.T) {
	d := libvirttest.Start(t)
	c := open(t, d.URI())
	onNewQEMU(c, version{10, 1})
	ctx := within(t, 4*patience)
	v := libvirttest.VM{Name: "vdpa"}
	before := defineVM(t, d, v)
	p := virtualPF(id(v), "vpf0", 2)
	p.Backend, p.Network = model.BackendVDPA, "pci/0000:03:00.*"
	if err := c.DefineVPF(ctx, p); err != nil {
		t.Fatal(err)
	}
	if problems, err := c.CheckVPF(ctx, p); err != nil || len(problems) > 0 {
		t.Errorf("as defined: %v, %v", problems, err)
	}
	doc := inactive(t, d, v)
	for _, want := range []string{"-pf'/>", "-vf0'/>", "-vf1'/>"} {
		if want = "<source dev='/run/sluice/vdpa/sluice-" + string(id(v)) + "-vpf0" + want; strings.Count(doc, want) != 1 {
			t.Errorf("no %s in\n%s", want, doc)
		}
	}
	if out, err := exec.Command("virsh", "-c", d.URI(), "start", "vdpa").CombinedOutput(); err == nil ||
		!strings.Contains(string(out), model.VDPADir) {
		t.Errorf("starts without its devices: %v, %s", err, out)
	}
	down := strings.ReplaceAll(doc, "<alias name='ua-vpf-vpf0-vf1'/>", "<alias name='ua-vpf-vpf0-vf1'/><link state='down'/>")
	d.Virsh(t, "define", d.File(t, down))
	if problems, err := c.CheckVPF(ctx, p); err != nil || len(problems) != 1 ||
		!strings.Contains(problems[0].Text, "the link of ua-vpf-vpf0-vf1 is down") {
		t.Errorf("with a link set down: %v, %v", problems, err)
	}
	if err := c.UndefineVPF(ctx, p.VM, p.Name); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, inactive(t, d, v)); diff != "" {
		t.Errorf("it is not as it was:\n%s", diff)
	}
}

// Changes by others to the definition, and differences of the running VM from it, are reported with a remedy.
func TestCheckVPF(t *testing.T) {
	d := libvirttest.Start(t)
	c := open(t, d.URI())
	onNewQEMU(c, version{10, 1})
	ctx := within(t, 4*patience)
	v := libvirttest.VM{Name: "v"}
	plain := defineVM(t, d, v)
	p := virtualPF(id(v), "vpf0", 2)
	if err := c.DefineVPF(ctx, p); err != nil {
		t.Fatal(err)
	}
	full := inactive(t, d, v)
	check := func(what string, want ...string) {
		t.Helper()
		problems, err := c.CheckVPF(ctx, p)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		var have []string
		for _, problem := range problems {
			have = append(have, problem.Text)
			if problem.Subject != "v" || problem.Remedy == "" || problem.Info {
				t.Errorf("%s: %+v", what, problem)
			}
		}
		if diff := cmp.Diff(want, have); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	redefine := func(xml string) { d.Virsh(t, "define", d.File(t, xml)) }
	const changed = "virtual PF vpf0: somebody changed the VM's definition: "
	check("as it was defined")
	redefine(strings.Replace(full, "value='ua-vpf-vpf0-pf'", "value='ua-vpf-vpf0-fp'", 1))
	check("misspelt", changed+"sriov-pf of ua-vpf-vpf0-vf0 in <qemu:override> is ua-vpf-vpf0-fp: want ua-vpf-vpf0-pf")
	redefine(strings.ReplaceAll(full, "<link state='down'/>", "<link state='up'/>"))
	check("links", changed+"the link of ua-vpf-vpf0-vf0 is up: it would have a carrier before its policy is in force",
		changed+"the link of ua-vpf-vpf0-vf1 is up: it would have a carrier before its policy is in force",
		changed+"the link of ua-vpf-vpf0-pf is up: it would have a carrier before its policy is in force")

	d.Virsh(t, "undefine", "v")
	check("undefined", "virtual PF vpf0: libvirt no longer knows its VM")
	redefine(plain)
	check("defined anew", changed+"none of its devices is in the XML")
	d.Virsh(t, "start", "v", "--paused")
	redefine(full)
	check("started before it was defined", "virtual PF vpf0: its VM runs without it: it was started before the virtual PF was defined")

	d.Destroy(t, "v")
	withoutSRIOV(t, d, v)
	d.Virsh(t, "start", "v", "--paused")
	redefine(full)
	const lives = "virtual PF vpf0: in the running VM: "
	want := []string{lives + "<qemu:override> no longer gives ua-vpf-vpf0-vf0 the property sriov-pf", lives +
		"<qemu:override> no longer gives ua-vpf-vpf0-vf1 the property sriov-pf"}
	if emulatorOf(t, c, v, plain).before(version{10, 1}) {
		want = append(want, lives+"this QEMU cannot compose virtual PFs: it has no property sriov-pf (10.1 is the first that has)")
	} else {
		want = append(want, lives+"ua-vpf-vpf0-vf0 belongs to the PF none in QEMU: want ua-vpf-vpf0-pf", lives+
			"ua-vpf-vpf0-vf1 belongs to the PF none in QEMU: want ua-vpf-vpf0-pf")
	}
	check("started without the overrides", want...)
	if err := c.SetLink(ctx, id(v), p.PFAlias(), true); err != nil {
		t.Error(err)
	}
	d.Virsh(t, "undefine", "v")
	if problems, err := c.CheckVPF(ctx, p); err != nil || len(problems) == 0 ||
		problems[0].Text != "virtual PF vpf0: its VM is transient now: libvirt keeps no definition of it" {
		t.Errorf("transient: %v, %v", problems, err)
	}
}

// A VM whose QEMU does not answer delays a caller no longer than its context allows, and a retry is possible.
func TestSetLinkOfStuckVM(t *testing.T) {
	d := libvirttest.Start(t)
	c := open(t, d.URI())
	onNewQEMU(c, version{10, 1})
	v := libvirttest.VM{Name: "v"}
	defineVM(t, d, v)
	p := virtualPF(id(v), "vpf0", 1)
	if err := c.DefineVPF(within(t, patience), p); err != nil {
		t.Fatal(err)
	}
	withoutSRIOV(t, d, v)
	d.Virsh(t, "start", "v", "--paused")
	d.FreezeVM(t, "v")
	err := c.SetLink(within(t, time.Second), id(v), p.PFAlias(), true)
	if err == nil || errors.Is(err, model.ErrPermanent) || errors.Is(err, model.ErrGone) {
		t.Errorf("while it is stuck: %v", err)
	}
	d.ThawVM(t, "v")
	libvirttest.Eventually(t, patience, "the link is up", func() bool {
		return c.SetLink(within(t, patience), id(v), p.PFAlias(), true) == nil
	})
}

func emulatorOf(t testing.TB, c *Conn, v libvirttest.VM, doc string) version {
	t.Helper()
	s, err := c.session()
	if err != nil {
		t.Fatal(err)
	}
	have, err := c.emulatorVersion(within(t, patience), s, id(v), doc)
	if err != nil {
		t.Fatal(err)
	}
	return have
}

// The version of QEMU is libvirt's for its own emulator, and for another one that of its newest machine type.
func TestEmulatorVersion(t *testing.T) {
	d := libvirttest.Start(t)
	c := open(t, d.URI())
	v := libvirttest.VM{Name: "v"}
	doc := defineVM(t, d, v)
	own := emulatorOf(t, c, v, doc)
	if says := d.Virsh(t, "version"); !strings.Contains(says, fmt.Sprintf("QEMU %s.", own)) {
		t.Errorf("have %s, virsh says %s", own, says)
	}
	const usual, another = "<emulator>/usr/bin/qemu-system-x86_64<", "<emulator>/var/lib/libvirt/qemu-of-mine<"
	d.Run(t, "ln", "-s", "/usr/bin/qemu-system-x86_64", "/var/lib/libvirt/qemu-of-mine")
	other := strings.Replace(doc, usual, another, 1)
	if other == doc {
		t.Fatalf("no %s in\n%s", usual, doc)
	}
	if have := emulatorOf(t, c, v, other); have != own {
		t.Errorf("the same by another name is %s, want %s", have, own)
	}
	for machine, want := range map[string]version{"pc-q35-10.1": {10, 1}, "virt-9.2": {9, 2}, "pc-q35-rhel9.6.0": {}, "": {}} {
		if have, err := machineVersion("/q", machine); have != want || (err != nil) != (want == version{}) {
			t.Errorf("%s: %s, %v", machine, have, err)
		}
	}
}
