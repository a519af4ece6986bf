package prepare

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sluice/internal/control/doctor"
	"sluice/internal/host/libvirt"
	"sluice/internal/host/libvirt/domxml"
	"sluice/internal/model"
)

// domain is a domain as libvirt writes it.
func domain(devices ...string) string {
	return `<domain type='kvm'>
  <name>web-1</name>
  <uuid>00000000-0000-4000-8000-000000000001</uuid>
  <os>
    <type arch='x86_64' machine='pc-q35-9.2'>hvm</type>
  </os>
  <features>
    <acpi/>
  </features>
  <devices>
    <controller type='pci' index='0' model='pcie-root'/>
` + strings.Join(devices, "\n") + `
  </devices>
</domain>
`
}

const free = `    <controller type='pci' index='1' model='pcie-root-port'>
      <address type='pci' domain='0x0000' bus='0x00' slot='0x01' function='0x0'/>
    </controller>`

// card is an interface on br0, of some model.
func card(n int, kind, more string) string {
	return fmt.Sprintf(`    <interface type='bridge'>
      <mac address='52:54:00:00:00:%02x'/>
      <source bridge='br%d'/>
      <model type='%s'/>%s
    </interface>`, n, n, kind, more)
}

func prepared(t testing.TB, doc string, o Options) Result {
	t.Helper()
	r, err := Prepare(doc, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Only what is missing is added, each element on its own line.
func TestPrepare(t *testing.T) {
	doc := strings.Replace(domain(card(0, "virtio", "")), "\n    <acpi/>\n  ", "\n    <pae/>\n  ", 1)
	r := prepared(t, doc, Options{Agent: true})
	got := Diff("web-1", doc, r.XML)
	want := `diff web-1 web-1 (prepared)
--- web-1
+++ web-1 (prepared)
@@ -1,18 +1,43 @@
 <domain type='kvm'>
   <name>web-1</name>
   <uuid>00000000-0000-4000-8000-000000000001</uuid>
+  <metadata>
+    <sluice:prepared xmlns:sluice='urn:sluice:prepared:1' metadata='added' acpi='added' agent='added'>
+      <sluice:nic mac='52:54:00:00:00:00' teaming='added' alias='ua-net0'/>
+      <sluice:port alias='ua-vfport0'/>
+    </sluice:prepared>
+  </metadata>
   <os>
     <type arch='x86_64' machine='pc-q35-9.2'>hvm</type>
   </os>
   <features>
     <pae/>
+    <acpi/>
   </features>
   <devices>
     <controller type='pci' index='0' model='pcie-root'/>
+    <controller type='pci' index='1' model='pcie-root-port'>
+      <alias name='ua-vfserialport'/>
+      <address type='pci' domain='0x0000' bus='0x00' slot='0x02' function='0x0' multifunction='on'/>
+    </controller>
+    <controller type='virtio-serial' index='0'>
+      <alias name='ua-vfserial'/>
+      <address type='pci' domain='0x0000' bus='0x01' slot='0x00' function='0x0'/>
+    </controller>
+    <controller type='pci' index='2' model='pcie-root-port'>
+      <alias name='ua-vfport0'/>
+      <address type='pci' domain='0x0000' bus='0x00' slot='0x02' function='0x1'/>
+    </controller>
     <interface type='bridge'>
       <mac address='52:54:00:00:00:00'/>
       <source bridge='br0'/>
       <model type='virtio'/>
+      <teaming type='persistent'/>
+      <alias name='ua-net0'/>
     </interface>
+    <channel type='unix'>
+      <target type='virtio' name='org.qemu.guest_agent.0'/>
+      <alias name='ua-vfagent'/>
+    </channel>
   </devices>
 </domain>
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(r.Changes) != 5 {
		t.Errorf("changes: %q", r.Changes)
	}
}

// Unsupported domains are rejected with a remedy and left unchanged.
func TestPrepareRefuses(t *testing.T) {
	const hostdev = `    <hostdev mode='subsystem' type='pci' managed='yes'><source><address domain='0x0000' bus='0x41' slot='0x10' function='0x2'/></source></hostdev>`
	nic := card(0, "virtio", "")
	paired := domain(card(0, "virtio", "<teaming type='persistent'/><alias name='ua-net0'/>"),
		card(1, "virtio", "<teaming type='transient' persistent='ua-net0'/>"))
	for _, tc := range []struct {
		name, doc string
		o         Options
		want      string
	}{
		{
			"i440fx", strings.NewReplacer("pcie-root", "pci-root", "pc-q35-9.2", "pc-i440fx-9.2").Replace(domain(nic)),
			Options{},
			`its machine "pc-i440fx-9.2" has no PCI Express`,
		},
		{"no PCI", strings.Replace(domain(nic), "<controller type='pci' index='0' model='pcie-root'/>", "", 1), Options{}, "has no PCI Express"},
		{"no NIC", domain(free), Options{}, "no virtio NIC"},
		{"model", domain(card(0, "e1000e", "")), Options{}, `of model "e1000e", not virtio`},
		{"macvtap", strings.Replace(domain(nic), "interface type='bridge'", "interface type='direct'", 1), Options{}, "is of type direct"},
		{"elsewhere", domain(nic), Options{Networks: map[string]bool{"br7": true}}, "is on br0, to which no PF"},
		{
			"two", domain(nic, card(1, "virtio", "")),
			Options{},
			"2 of its NICs could have a VF: 52:54:00:00:00:00 on br0, 52:54:00:00:00:01 on br1",
		},
		{"none such", domain(nic), Options{NICs: []string{"ua-net7"}}, `none of its NICs matches "ua-net7": it has 52:54:00:00:00:00 on br0`},
		{"named but unfit", domain(nic, card(1, "e1000", "")), Options{NICs: []string{"br1"}}, `of model "e1000"`},
		{"trunk", domain(card(0, "virtio", "<vlan trunk='yes'><tag id='7'/></vlan>")), Options{}, "is a trunk, and a VF carries one VLAN"},
		{"two VLANs", domain(card(0, "virtio", "<vlan><tag id='7'/><tag id='8'/></vlan>")), Options{}, "is a trunk, and a VF carries one VLAN"},
		{"other half", domain(card(0, "virtio", "<teaming type='transient' persistent='ua-x'/>")), Options{}, "transient half of another pair"},
		{"paired", paired, Options{NICs: []string{"ua-net0"}}, "is already paired with a <interface> in its definition"},
		{
			"VF", domain(nic, "    <interface type='hostdev'><mac address='52:54:00:00:00:09'/></interface>"),
			Options{},
			"a VF that Sluice did not attach, <interface type='hostdev'> with MAC 52:54:00:00:00:09",
		},
		{
			"VF as hostdev", domain(nic, hostdev),
			Options{IsVF: func(a model.PCIAddress) bool { return a == "0000:41:10.2" }},
			"<hostdev> 0000:41:10.2",
		},
		{
			"paired hostdev", domain(nic, strings.Replace(hostdev, "</hostdev>", "<teaming type='transient' persistent='ua-x'/></hostdev>", 1)),
			Options{},
			"<hostdev> 0000:41:10.2",
		},
		{"same MACs", domain(nic, nic), Options{}, "two of its interfaces have the MAC"},
		{"record", strings.Replace(domain(nic), "<os>", "<metadata><s:prepared xmlns:s='urn:sluice:prepared:1'><s:nic mac='x'/></s:prepared></metadata><os>", 1), Options{}, "cannot be read"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Prepare(tc.doc, tc.o)
			var r *Refusal
			if !errors.As(err, &r) || !strings.Contains(r.Text, tc.want) || r.Remedy == "" {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
	if _, err := Prepare(domain(nic, hostdev), Options{IsVF: func(model.PCIAddress) bool { return false }}); err != nil {
		t.Errorf("a device that is no VF: %v", err)
	}
}

// An earlier choice is kept, and another one is added to it.
func TestChoiceIsKept(t *testing.T) {
	doc := domain(card(0, "virtio", ""), card(1, "virtio", ""), card(2, "virtio", ""), free)
	one := prepared(t, doc, Options{NICs: []string{"br1"}})
	if again := prepared(t, one.XML, Options{}); len(again.Changes) > 0 {
		t.Errorf("again without a choice: %q", again.Changes)
	}
	two := prepared(t, one.XML, Options{NICs: []string{"br2"}})
	if n := strings.Count(two.XML, "<teaming"); n != 2 {
		t.Errorf("%d NICs have teaming, want 2:\n%s", n, two.XML)
	}
	if n := strings.Count(two.XML, "ua-vfport"); n != 2 { // one added port with its record, since one was free
		t.Errorf("%d mentions of ports that were added, want 2:\n%s", n, two.XML)
	}
	both := prepared(t, doc, Options{NICs: []string{"br[12]"}})
	if both.XML != two.XML {
		t.Error(cmp.Diff(two.XML, both.XML))
	}
}

// A guest with a bond needs no teaming; on an i440fx it needs nothing else.
func TestBond(t *testing.T) {
	r := prepared(t, domain(card(0, "virtio", "")), Options{Bond: true})
	if strings.Contains(r.XML, "teaming=") || strings.Contains(r.XML, "<teaming") || len(r.Changes) != 1 {
		t.Errorf("%q\n%s", r.Changes, r.XML)
	}
	old := strings.NewReplacer("pcie-root", "pci-root", "pc-q35-9.2", "pc-i440fx-9.2").Replace(domain(card(0, "virtio", "")))
	if r := prepared(t, old, Options{Bond: true}); len(r.Changes) > 0 {
		t.Errorf("i440fx: %q", r.Changes)
	}
}

// Added devices that others depend on stay, without Sluice's mark; the rest is removed.
func TestUndoAfterOthers(t *testing.T) {
	doc := domain(card(0, "virtio", ""))
	xml := prepared(t, doc, Options{Agent: true}).XML
	change := func(old, new string) string {
		if !strings.Contains(xml, old) {
			t.Fatalf("no %s in\n%s", old, xml)
		}
		return strings.Replace(xml, old, new, 1)
	}
	const end = "  </devices>"
	for _, tc := range []struct {
		name, doc string
		note      string
		has       []string
		not       []string
	}{
		{
			"port in use", change(end, "<disk><address type='pci' bus='0x02' slot='0x00'/></disk>"+end), "bus 2 stays: a device is behind it",
			[]string{"<controller type='pci' index='2'", "index='1'"},
			[]string{"ua-", "sluice"},
		},
		{
			"port above", change(end, "<controller type='pci' index='3' model='pcie-root-port'/>"+end),
			"bus 2 stays: there are PCI controllers with higher indexes",
			[]string{"index='2'"},
			[]string{"ua-", "sluice"},
		},
		{
			"serial in use", change(end, "<channel type='unix'><address type='virtio-serial' controller='0'/></channel>"+end),
			"the virtio-serial controller stays: a <channel> is on it",
			[]string{"virtio-serial"},
			[]string{"ua-", "guest_agent"},
		},
		{
			"paired", change(end, "<hostdev><teaming type='transient' persistent='ua-net0'/></hostdev>"+end), "keeps teaming and alias: a <hostdev>",
			[]string{"<teaming type='persistent'/>", "ua-net0"},
			[]string{"ua-vf"},
		},
		{
			"NIC gone", change("52:54:00:00:00:00'/>\n      <source", "52:54:00:00:00:07'/>\n      <source"),
			"NIC 52:54:00:00:00:00 no longer exists",
			[]string{"ua-net0"},
			[]string{"ua-vf", "sluice"},
		},
		{"other alias", change("<alias name='ua-net0'/>", "<alias name='ua-mine'/>"), "", []string{"ua-mine"}, []string{"<teaming", "ua-vf"}},
		{
			"other metadata", change("</sluice:prepared>", "</sluice:prepared><o:x xmlns:o='urn:o'/>"), "",
			[]string{"<o:x"},
			[]string{"sluice", "ua-"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := Undo(tc.doc)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(strings.Join(r.Notes, "; "), tc.note) {
				t.Errorf("notes %q, want %q", r.Notes, tc.note)
			}
			for _, text := range tc.has {
				if !strings.Contains(r.XML, text) {
					t.Errorf("%s is gone:\n%s", text, r.XML)
				}
			}
			for _, text := range tc.not {
				if strings.Contains(r.XML, text) {
					t.Errorf("%s is there still:\n%s", text, r.XML)
				}
			}
		})
	}
	if r, err := Undo(doc); err != nil || len(r.Changes) > 0 || r.XML != doc || len(r.Notes) != 1 {
		t.Errorf("one that was not prepared: %+v, %v", r, err)
	}
}

// anyDomain draws an operator's domain: with or without what prepare adds, formatted or not.
func anyDomain(t *rapid.T) string {
	maybe := func(name string, some ...string) string {
		return rapid.SampledFrom(append([]string{""}, some...)).Draw(t, name)
	}
	var b strings.Builder
	b.WriteString("<domain type='kvm'>\n  <name>v</name>\n")
	b.WriteString(maybe("title", "  <title>a &amp; b</title>\n", "<uuid>00000000-0000-4000-8000-000000000001</uuid>"))
	b.WriteString(maybe("metadata", "  <metadata/>\n", "  <metadata>\n  </metadata>\n",
		"<metadata><o:x xmlns:o='urn:o'>t</o:x>tail</metadata>",
		"  <metadata>\n    <s:sla xmlns:s='urn:sluice:sla:1' guarantee='1Gbit'/>\n    <!-- c -->\n  </metadata>\n"))
	b.WriteString("<os><type arch='" + rapid.SampledFrom([]string{"x86_64", "aarch64"}).Draw(t, "arch") + "' machine='m'>hvm</type></os>\n")
	b.WriteString(maybe("features", "  <features/>\n", "<features><pae/></features>",
		"  <features>\n    <acpi/>\n    <apic/>\n  </features>\n"))
	b.WriteString("  <devices>\n    <controller type='pci' index='0' model='pcie-root'/>\n")
	index := 1
	for range rapid.IntRange(0, 3).Draw(t, "ports") {
		fmt.Fprintf(&b, "    <controller type='pci' index='%d' model='pcie-root-port'>%s<address type='pci' bus='0x00' slot='0x%02x' function='0x0'/></controller>", index, maybe("off", "<target hotplug='off'/>"), index)
		b.WriteString(maybe("line", "\n", "\n\n  "))
		if rapid.Bool().Draw(t, "used") {
			fmt.Fprintf(&b, "<disk><address type='pci' bus='%d' slot='0x00'/></disk>", index)
		}
		index++
	}
	b.WriteString(maybe("serial", "<controller type='virtio-serial' index='0'/>\n"))
	for i := range rapid.IntRange(0, 3).Draw(t, "nics") {
		fmt.Fprintf(&b, "%s<interface type='%s'><mac address='52:54:00:00:00:%02X'/>%s<source bridge='br%d' network='net%d'/>\n      <model type='%s'/>%s%s</interface>", maybe("space", "\n    "),
			rapid.SampledFrom([]string{"bridge", "network", "direct"}).Draw(t, "type"), 0xa0+i, maybe("sep", "\n      ", "  "), i, i,
			rapid.SampledFrom([]string{"virtio", "virtio", "virtio-non-transitional", "e1000"}).Draw(t, "model"),
			maybe("teaming", "\n      <teaming type='persistent'/>"), maybe("alias", fmt.Sprintf("<alias name='ua-net%d'/>", i+1)))
	}
	b.WriteString(maybe("channel", "<channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>",
		"\n    <channel type='pty'/>\n"))
	b.WriteString(maybe("cdata", "<x:y xmlns:x='u'><![CDATA[ ]]></x:y>") + "\n  </devices>\n</domain>" + maybe("end", "\n"))
	return b.String()
}

func anyOptions(t *rapid.T) Options {
	o := Options{
		Bond: rapid.Bool().Draw(t, "bond"), Agent: rapid.Bool().Draw(t, "agent"),
		Switches: map[string]string{"net0": "br0", "net1": "br1"},
	}
	if rapid.Bool().Draw(t, "named") {
		o.NICs = []string{rapid.SampledFrom([]string{"br0", "br1", "br*", "ua-net1"}).Draw(t, "nic")}
	}
	if rapid.Bool().Draw(t, "nets") {
		o.Networks = map[string]bool{"br0": true, "br2": true}
	}
	return o
}

// For any operator's domain: the prepared one has no problems according to doctor, preparing it again changes nothing, and undoing it
// restores the original XML byte for byte.
func TestPrepareProperty(t *testing.T) {
	done := 0
	rapid.Check(t, func(t *rapid.T) {
		d, err := domxml.Parse(anyDomain(t))
		if err != nil {
			t.Fatal(err)
		}
		d.Doc.WriteSettings.AttrSingleQuote = true
		doc, err := d.String()
		if err != nil {
			t.Fatal(err)
		}
		o := anyOptions(t)
		r, err := Prepare(doc, o)
		if refusal := (*Refusal)(nil); errors.As(err, &refusal) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		done++
		if again, err := Prepare(r.XML, o); err != nil || len(again.Changes) > 0 || again.XML != r.XML {
			t.Fatalf("again: %q, %v\n%s", again.Changes, err, r.XML)
		}
		if problems := judge(t, r.XML, o); len(problems) > 0 {
			t.Fatalf("doctor says %v of\n%s", problems, r.XML)
		}
		last := r.XML
		if more, err := Prepare(r.XML, anyOptions(t)); err == nil { // a later request for more
			last = more.XML
		}
		back, err := Undo(last)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(doc, back.XML); diff != "" {
			t.Fatalf("it is not as it was:\n%s", diff)
		}
	})
	if done == 0 {
		t.Error("no domain was prepared")
	}
}

// judge returns doctor's problems with the VM's chosen NICs. Doctor does not know which were chosen if a VM has several.
func judge(t *rapid.T, doc string, o Options) []model.Problem {
	vm, err := libvirt.ReadVM(doc, o.Switches)
	if err != nil {
		t.Fatal(err)
	}
	d, err := edit(doc, o)
	if err != nil {
		t.Fatal(err)
	}
	chosen, err := d.choose()
	if err != nil {
		t.Fatal(err)
	}
	vm.NICs = slices.DeleteFunc(vm.NICs, func(n model.NIC) bool {
		return !slices.ContainsFunc(chosen, func(c *nic) bool { return c.MAC == n.MAC })
	})
	if len(vm.NICs) != len(chosen) {
		t.Fatalf("%d NICs, chosen %d", len(vm.NICs), len(chosen))
	}
	for i := range vm.NICs {
		if o.Bond && vm.NICs[i].Failover == model.FailoverNone {
			vm.NICs[i].Failover = model.FailoverBond // as in sluice.yaml
		}
	}
	if !o.Agent {
		vm.Ready = model.Yes
	}
	return doctor.Definition(vm, o.Networks)
}
