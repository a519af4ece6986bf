package libvirt

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sluice/internal/model"
)

func sample(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func mac(t testing.TB, s string) model.MAC {
	t.Helper()
	m, err := model.ParseMAC(s)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestParseDomain(t *testing.T) {
	got, err := parseDomain(sample(t, "q35.xml"))
	if err != nil {
		t.Fatal(err)
	}
	want := Domain{
		VM: model.VM{
			ID: "11111111-2222-3333-4444-555555555555", Name: "web1", Ready: model.Yes, NUMANode: 1, VCPUs: 2,
			Ports: 1, // of seven, five are used and one is fixed; the VF's host address, bus 7, uses none
			NICs: []model.NIC{
				{
					Alias: "ua-net0", MAC: mac(t, "52:54:00:00:01:0a"), Tap: "vnet3", Network: "br0", VLAN: 42, Failover: model.FailoverTeaming,
					FreePort: model.Yes,
				},
				{Alias: "net1", MAC: mac(t, "52:54:00:00:01:0b"), Tap: "vnet4", Network: "net:lan", FreePort: model.Yes},
			},
		},
		Hostdevs: []Hostdev{
			{
				Alias: "hostdev0", Address: "0000:07:10.2", Managed: true, Interface: true, MAC: mac(t, "52:54:00:00:01:0d"),
				TeamingPersistent: "ua-net9",
			},
			{Alias: "ua-sluice-52540000010a", Address: "0001:81:1f.7", TeamingPersistent: "ua-net0"},
		},
	}
	if d := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Domain{})); d != "" {
		t.Error(d)
	}
	if !got.has("channel0") || !got.has("virtio-disk0") || got.has("nonesuch") {
		t.Error("aliases are wrong")
	}
}

func TestParseVariants(t *testing.T) {
	q35, pc := sample(t, "q35.xml"), sample(t, "i440fx.xml")
	for name, tc := range map[string]struct {
		doc  string
		want func(*Domain) bool
	}{
		"conventional PCI": {pc, func(d *Domain) bool { return d.Ports == 28 && d.NICs[0].FreePort == model.Yes }},
		"without ACPI": {
			strings.Replace(pc, "<acpi/>", "", 1),
			func(d *Domain) bool { return d.Ports == 0 && d.NICs[0].FreePort == model.No },
		},
		"no agent": {pc, func(d *Domain) bool { return d.Ready == model.Unknown }},
		"agent away": {
			strings.Replace(q35, "state='connected'", "state='disconnected'", 1),
			func(d *Domain) bool { return d.Ready == model.No },
		},
		"memory preferred": {pc, func(d *Domain) bool { return d.NUMANode == -1 }},
		"memory on two":    {strings.Replace(q35, "nodeset='1'", "nodeset='0-1'", 1), func(d *Domain) bool { return d.NUMANode == -1 }},
		"all virtual CPUs": {strings.Replace(q35, " current='2'", "", 1), func(d *Domain) bool { return d.VCPUs == 4 }},
		"network with brige": {
			strings.Replace(q35, "<source network='lan'/>", "<source network='lan' bridge='br7'/>", 1),
			func(d *Domain) bool { return d.NICs[1].Network == "br7" },
		},
		"vhost-user": {
			`<domain><uuid>u</uuid><devices><interface type='vhostuser'><mac address='52:54:00:00:00:01'/>
				<source type='unix' path='/run/vhu1' mode='server'/><target dev='vhu1'/><model type='virtio'/></interface></devices></domain>`,
			func(d *Domain) bool { return d.NICs[0].Refused == VHostUser && d.NICs[0].Tap == "" },
		},
		"no devices": {"<domain><uuid>u</uuid></domain>", func(d *Domain) bool { return d.Ports == 0 && d.NICs == nil }},
	} {
		d, err := parseDomain(tc.doc)
		if err != nil || !tc.want(&d) {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	q35 := sample(t, "q35.xml")
	for name, doc := range map[string]string{
		"nothing":    "",
		"not XML":    "domain",
		"cut short":  q35[:len(q35)/2],
		"MAC":        strings.Replace(q35, "52:54:00:00:01:0a", "52:54", 1),
		"VF's MAC":   strings.Replace(q35, "52:54:00:00:01:0d", "x", 1),
		"wrong root": "<network/>",
	} {
		if d, err := parseDomain(doc); err == nil {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// Whatever a domain's XML contains, the result is usable: addresses can be written back, and free ports agree with the NICs' FreePort.
func FuzzParseDomain(f *testing.F) {
	f.Add(sample(f, "q35.xml"))
	f.Add(sample(f, "i440fx.xml"))
	f.Add("<domain><devices><hostdev mode='subsystem' type='pci'><source><address bus='1' slot='16' function='3'/></source><alias name='ua-x'/></hostdev></devices></domain>")
	f.Fuzz(func(t *testing.T, doc string) {
		d, err := parseDomain(doc)
		if err != nil {
			return
		}
		if d.Ports < 0 || d.Ports > 30*strings.Count(doc, "controller") {
			t.Errorf("%d free ports", d.Ports)
		}
		for _, n := range d.NICs {
			if n.FreePort != model.TriOf(d.Ports > 0) {
				t.Errorf("%d free ports, but %+v", d.Ports, n)
			}
		}
		for _, h := range d.Hostdevs {
			if h.Address != "" {
				writtenBack(t, h.Address)
			}
		}
	})
}

// writtenBack checks that the XML for attaching a device is parsed back to the same address.
func writtenBack(t *testing.T, addr model.PCIAddress) {
	t.Helper()
	doc, err := HostdevSpec{Alias: "ua-x", Address: addr, TeamingPersistent: "ua-net0"}.xml()
	if err != nil {
		t.Fatal(err)
	}
	d, err := parseDomain("<domain><devices>" + doc + "</devices></domain>")
	want := Hostdev{Alias: "ua-x", Address: addr, TeamingPersistent: "ua-net0"}
	if err != nil || len(d.Hostdevs) != 1 || d.Hostdevs[0] != want {
		t.Errorf("%s: read back as %+v, %v", doc, d.Hostdevs, err)
	}
}

func TestSpecXML(t *testing.T) {
	doc, err := HostdevSpec{Alias: "ua-a'<b>", Address: "0000:01:10.3"}.xml()
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		"managed=\"no\"", "<driver name=\"vfio\"", "domain=\"0x0000\" bus=\"0x01\" slot=\"0x10\" function=\"0x3\"",
		"&lt;b&gt;",
	} {
		if !strings.Contains(doc, part) {
			t.Errorf("%q is not in %s", part, doc)
		}
	}
	if strings.Contains(doc, "teaming") {
		t.Errorf("teaming unasked: %s", doc)
	}
	for _, addr := range []model.PCIAddress{"", "01:10.3", "0000:01:10.3 ", "0000:01:10.9x", "0000:1:10.3", "-000:01:10.3"} {
		if doc, err := (HostdevSpec{Alias: "ua-x", Address: addr}).xml(); err == nil {
			t.Errorf("%q: %s", addr, doc)
		}
	}
}

func TestDuplicateMACs(t *testing.T) {
	m := mac(t, "52:54:00:00:00:01")
	a := Domain{VM: model.VM{Name: "a", NICs: []model.NIC{{Alias: "n0", MAC: m}, {Alias: "n1", MAC: mac(t, "52:54:00:00:00:02")}}}}
	b := Domain{VM: model.VM{Name: "b", NICs: []model.NIC{{Alias: "n0", MAC: m}}}, Hostdevs: []Hostdev{{MAC: m}}}
	if got := duplicates([]Domain{a}); len(got) != 0 {
		t.Errorf("alone: %v", got)
	}
	got := duplicates([]Domain{a, b})
	if len(got) != 1 || got[0].Subject != "b" || !strings.Contains(got[0].Text, "of n0 of a") {
		t.Errorf("together: %v", got)
	}
}

func TestHolds(t *testing.T) {
	d, err := parseDomain(sample(t, "q35.xml"))
	if err != nil {
		t.Fatal(err)
	}
	spec := HostdevSpec{Alias: "ua-sluice-52540000010a", Address: "0001:81:1f.7"}
	if there, err := d.holds(spec); !there || err != nil {
		t.Errorf("the same: %v, %v", there, err)
	}
	if there, err := d.holds(HostdevSpec{Alias: "ua-new", Address: "0001:81:1f.7"}); there || err != nil {
		t.Errorf("new: %v, %v", there, err)
	}
	for _, alias := range []string{spec.Alias, "ua-net0"} {
		if there, err := d.holds(HostdevSpec{Alias: alias, Address: "0000:01:00.0"}); there || !errors.Is(err, model.ErrPermanent) {
			t.Errorf("%s: %v, %v", alias, there, err)
		}
	}
}

// Functions of virtual PFs are recognized by their aliases, whatever their model and backend.
func TestParseFunctions(t *testing.T) {
	nic := func(kind, alias, model, source, more string) string {
		return "<interface type='" + kind + "'><mac address='52:54:00:00:00:01'/>" + source + "<model type='" + model + "'/><alias name='" +
			alias + "'/>" + more + "</interface>"
	}
	tap, down := "<source bridge='br0'/><target dev='vnet1'/>", "<link state='down'/>"
	d, err := parseDomain("<domain><devices>" +
		nic("bridge", "ua-vpf-a-b-vf2", "virtio", tap, down) + nic("bridge", "ua-vpf-a-b-pf", "virtio", tap, "<link state='up'/>") +
		nic("bridge", "ua-vpf-igb-pf", "igb", tap, "") +
		nic("vdpa", "ua-vpf-v-vf0", "virtio", "<source dev='/run/sluice/vdpa/sluice-v-vf0'/>", down) +
		nic("bridge", "ua-vpf-a-vf02", "virtio", tap, down) + nic("bridge", "ua-net0", "igb", tap, "") + "</devices></domain>")
	if err != nil {
		t.Fatal(err)
	}
	m := mac(t, "52:54:00:00:00:01")
	want := []model.NIC{
		{Alias: "ua-vpf-a-b-vf2", MAC: m, Tap: "vnet1", Network: "br0", FreePort: model.No, VirtualPF: "a-b", Function: 3, Carrier: model.No},
		{Alias: "ua-vpf-a-b-pf", MAC: m, Tap: "vnet1", Network: "br0", FreePort: model.No, VirtualPF: "a-b", Carrier: model.Yes},
		{Alias: "ua-vpf-igb-pf", MAC: m, Tap: "vnet1", Network: "br0", FreePort: model.No, VirtualPF: "igb", Carrier: model.Yes},
		{Alias: "ua-vpf-v-vf0", MAC: m, FreePort: model.No, VirtualPF: "v", Function: 1, Carrier: model.No},
		{Alias: "ua-vpf-a-vf02", MAC: m, Tap: "vnet1", Network: "br0", FreePort: model.No},
	}
	if diff := cmp.Diff(want, d.NICs); diff != "" {
		t.Error(diff)
	}
}
