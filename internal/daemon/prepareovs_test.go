package daemon

import (
	"fmt"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"sluice/internal/host/libvirt/libvirttest"
)

// ovsVMs are VMs on Open vSwitch as operators define them, with what the database must have of their ports.
var ovsVMs = []struct{ name, nic, port, vlan string }{
	{
		"bridge", `<interface type='bridge'>%s<source bridge='ovs0'/><vlan><tag id='7'/></vlan><virtualport type='openvswitch'>` +
			`<parameters interfaceid='00000000-0000-4000-8000-0000000000a1' profileid='web'/></virtualport>%s</interface>`,
		"00000000-0000-4000-8000-0000000000a1", "7",
	},
	{
		"group", `<interface type='network'>%s<source network='ovsnet' portgroup='tenant'/><virtualport>` +
			`<parameters interfaceid='00000000-0000-4000-8000-0000000000a2'/></virtualport>%s</interface>`,
		"00000000-0000-4000-8000-0000000000a2", "9",
	},
	{"plain", `<interface type='network'>%s<source network='ovsnet'/>%s</interface>`, "", "[]"},
}

// Definitions with <virtualport type='openvswitch'>, also in a network of libvirt, are prepared and undone by the programs, and start with
// their taps in Open vSwitch as before: the same interfaceid and tag.
func TestPrepareOnOpenVSwitch(t *testing.T) {
	d := libvirttest.Start(t)
	d.StartOVS(t)
	bin, dir := onLibvirt(t, d, "")
	sluice := func(args string) string {
		return d.Run(t, "bash", "-c", fmt.Sprintf("PATH=%s:$PATH; cd %s; sluice prepare %s --offline --config sluice.yaml", bin, dir, args))
	}
	for i, c := range ovsVMs {
		t.Run(c.name, func(t *testing.T) {
			mac := fmt.Sprintf("52:54:00:00:0b:%02x", i)
			v := libvirttest.VM{Name: c.name, Ports: 1, NICs: []string{
				fmt.Sprintf(c.nic, "<mac address='"+mac+"'/>", "<model type='virtio'/><rom enabled='no'/>"),
			}}
			before := defineTwice(t, d, v)
			out := sluice(c.name + " --yes")
			for _, line := range strings.Split(out, "\n") {
				if strings.HasPrefix(line, "-") && !strings.HasPrefix(line, "---") {
					t.Errorf("it takes away %q", line)
				}
			}
			if !strings.Contains(out, c.name+": defined") || !strings.Contains(out, "+      <teaming type='persistent'/>") {
				t.Errorf("prepared:\n%s", out)
			}
			d.Virsh(t, "start", c.name, "--paused")
			tap := tapOf(t, d, c.name)
			has := func(record, column string) string {
				return strings.Trim(strings.TrimSpace(d.Run(t, "ovs-vsctl", "--timeout=60", "get", record, tap, column)), `"`)
			}
			if got := has("interface", "external_ids:attached-mac"); got != mac {
				t.Errorf("the port has MAC %s", got)
			}
			if got := has("interface", "external_ids:iface-id"); got == "" || c.port != "" && got != c.port {
				t.Errorf("the port's iface-id is %q, not %q", got, c.port)
			}
			if got := has("port", "tag"); got != c.vlan {
				t.Errorf("the port's tag is %s, not %s", got, c.vlan)
			}
			if out := sluice(c.name); !strings.Contains(out, "nothing is missing") {
				t.Errorf("again:\n%s", out)
			}
			if out := sluice(c.name + " --undo --yes"); !strings.Contains(out, c.name+": defined") {
				t.Errorf("undo:\n%s", out)
			}
			if diff := gocmp.Diff(before, inactive(t, d, c.name)); diff != "" {
				t.Errorf("it is not as it was:\n%s", diff)
			}
			d.Destroy(t, c.name)
		})
	}
}

// TestDoctorOnOpenVSwitch: where Open vSwitch, with its datapath in user space, is the only switch, `sluice doctor` does not say that there
// is none.
func TestDoctorOnOpenVSwitch(t *testing.T) {
	d := libvirttest.Start(t)
	d.StartOVS(t)
	d.Run(t, "ip", "link", "delete", libvirttest.Bridge)
	bin, dir := onLibvirt(t, d, "")
	doctor := func() string {
		return d.Run(t, "bash", "-c", fmt.Sprintf("PATH=%s:$PATH; cd %s; sluice doctor --offline --config sluice.yaml || true", bin, dir))
	}
	const remedy = "ovs-vsctl set bridge " + libvirttest.VSwitch + " datapath_type=system"
	if out := doctor(); !strings.Contains(out, "datapath in user space: "+libvirttest.VSwitch+";") || !strings.Contains(out, remedy) ||
		strings.Contains(out, "no Open vSwitch") {
		t.Errorf("doctor says\n%s", out)
	}
	d.Run(t, "ovs-vsctl", "--timeout=60", "--no-wait", "set", "Open_vSwitch", ".", "external_ids:ovn-remote=tcp:192.0.2.1:6642",
		"external_ids:ovn-bridge="+libvirttest.VSwitch)
	if out := doctor(); !strings.Contains(out, "datapath in user space: "+libvirttest.VSwitch+", under OVN") || strings.Contains(out, remedy) {
		t.Errorf("under OVN doctor says\n%s", out)
	}
}

// tapOf returns the tap of a running VM that has one NIC.
func tapOf(t *testing.T, d *libvirttest.Daemon, vm string) string {
	t.Helper()
	for line := range strings.Lines(d.Virsh(t, "domiflist", vm)) {
		if f := strings.Fields(line); len(f) == 5 && strings.HasPrefix(f[0], "vnet") {
			return f[0]
		}
	}
	t.Fatalf("%s has no tap", vm)
	return ""
}
