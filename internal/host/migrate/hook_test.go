package migrate

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/model"
)

// doc is domain XML as libvirt passes it to its hook, abridged: two VFs assigned by Sluice, one of somebody else.
const doc = `<domain type='kvm'>
  <name>db &amp; 1</name>
  <uuid>00000000-0000-4000-8000-000000000001</uuid>
  <metadata><x:note xmlns:x="http://example.org/" lines="1&#10;2">kept &lt;as it is&gt;</x:note></metadata>
  <devices>
    <interface type='bridge'>
      <mac address='52:54:00:00:01:01'/>
      <source bridge='br0'/>
      <vlan><tag id='7'/></vlan>
      <target dev='tap1'/>
      <model type='virtio'/>
      <teaming type='persistent'/>
      <alias name='ua-net0'/>
    </interface>
    <interface type='network'>
      <mac address='52:54:00:00:01:02'/>
      <source network='default'/>
      <model type='virtio'/>
    </interface>
    <hostdev mode='subsystem' type='pci' managed='no'>
      <driver name='vfio'/>
      <source>
        <address domain='0x0000' bus='0x02' slot='0x10' function='0x0'/>
      </source>
      <teaming type='transient' persistent='ua-net0'/>
      <alias name='ua-sluice-525400000101'/>
      <address type='pci' domain='0x0000' bus='0x04' slot='0x00' function='0x0'/>
    </hostdev>
    <hostdev mode='subsystem' type='pci' managed='no'>
      <source>
        <address domain='0x0000' bus='0x02' slot='0x10' function='0x2'/>
      </source>
      <alias name='ua-sluice-525400000102'/>
      <address type='pci' domain='0x0000' bus='0x05' slot='0x00' function='0x0'/>
    </hostdev>
    <hostdev mode='subsystem' type='pci' managed='yes'>
      <source>
        <address domain='0x0000' bus='0x82' slot='0x00' function='0x1'/>
      </source>
      <alias name='hostdev0'/>
    </hostdev>
  </devices>
</domain>
`

func TestParse(t *testing.T) {
	d, err := Parse([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	want := []model.NIC{
		{Alias: "ua-net0", MAC: model.MAC{0x52, 0x54, 0, 0, 1, 1}, Network: "br0", VLAN: 7},
		{MAC: model.MAC{0x52, 0x54, 0, 0, 1, 2}}, // the XML names no bridge
	}
	if diff := cmp.Diff(want, d.NICs); diff != "" {
		t.Error("NICs (-want +got):", diff)
	}
	if d.ID != "00000000-0000-4000-8000-000000000001" || d.Name != "db & 1" {
		t.Errorf("got %s, %s", d.ID, d.Name)
	}
}

// Only the host addresses of the VFs assigned by Sluice are changed.
func TestWith(t *testing.T) {
	d, err := Parse([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	got, err := d.With([]model.PCIAddress{"0001:81:02.3", "0000:01:10.6"})
	if err != nil {
		t.Fatal(err)
	}
	want := strings.NewReplacer(
		"<address domain='0x0000' bus='0x02' slot='0x10' function='0x0'/>", "<address domain='0x0001' bus='0x81' slot='0x02' function='0x3'/>",
		"<address domain='0x0000' bus='0x02' slot='0x10' function='0x2'/>", "<address domain='0x0000' bus='0x01' slot='0x10' function='0x6'/>",
	).Replace(doc)
	quotes := func(s string) string { return strings.ReplaceAll(s, `"`, "'") }
	if diff := cmp.Diff(quotes(want), quotes(string(got))); diff != "" {
		t.Error("XML (-want +got):", diff)
	}
	for _, wrong := range [][]model.PCIAddress{nil, {"0000:01:10.6"}, {"0000:01:10.6", "eth0"}} {
		if _, err := d.With(wrong); err == nil {
			t.Errorf("took %v", wrong)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for name, xml := range map[string]string{
		"no XML":    "error: no domain",
		"no domain": "<network/>",
		"a VF without a NIC": strings.NewReplacer("ua-net0", "ua-other", "52:54:00:00:01:01",
			"52:54:00:00:01:09").Replace(strings.ReplaceAll(doc, "persistent='ua-net0'", "persistent='ua-gone'")),
		"a MAC that is none": strings.ReplaceAll(doc, "52:54:00:00:01:02", "eth0"),
	} {
		if d, err := Parse([]byte(xml)); err == nil {
			t.Errorf("%s: took it: %v", name, d.NICs)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(doc))
	f.Fuzz(func(_ *testing.T, xml []byte) {
		if d, err := Parse(xml); err == nil {
			_, _ = d.With(make([]model.PCIAddress, len(d.NICs)))
		}
	})
}
