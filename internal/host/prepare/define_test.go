package prepare

import (
	"strings"
	"testing"

	"sluice/internal/host/libvirt/domxml"
	"sluice/internal/host/libvirt/libvirttest"
)

// The real libvirt takes what the filter makes of each caller's XML, and leaves a port free for the VF when it has placed all devices.
func TestFilterDefined(t *testing.T) {
	libvirtd := libvirttest.Start(t)
	for name, doc := range callers(t) {
		doc = strings.NewReplacer("type='kvm'", "type='qemu'", `type="kvm"`, `type="qemu"`, "pc-q35-rhel9.2.0", "q35", "qxl", "vga").Replace(doc)
		out, err := Filter(doc, false, Options{})
		if err != nil {
			t.Fatal(err)
		}
		libvirtd.Virsh(t, "define", libvirtd.File(t, out))
		before, err := domxml.Parse(doc)
		if err != nil {
			t.Fatal(err)
		}
		got := libvirtd.Virsh(t, "dumpxml", "--inactive", before.Root.SelectElement("name").Text())
		e, err := edit(got, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if e.freePorts() < 1 || teaming(e.Devices.SelectElement("interface")) != "persistent" {
			t.Errorf("%s: %d free ports in\n%s", name, e.freePorts(), got)
		}
	}
}
