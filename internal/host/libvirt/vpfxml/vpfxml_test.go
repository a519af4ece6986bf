package vpfxml

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/beevik/etree"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sluice/internal/model"
)

const empty = `<domain type='kvm'>
  <name>v</name>
  <!-- kept -->
  <os><type machine='pc-q35-10.1'>hvm</type></os>
  <devices>
    <controller type='pci' index='0' model='pcie-root'/>
    <controller type='pci' index='1' model='pcie-root-port'/>
    <disk type='file'><source file='/a &amp; b'/></disk>
    <x:unknown xmlns:x="urn:x" y="&quot;"><![CDATA[<z>]]></x:unknown>
  </devices>
</domain>
`

// bridged is how taps are connected to the switch of pfWith.
var bridged = model.TapConnection{Switch: "br0"}

func pfWith(name string, vfs int) *model.VirtualPF {
	p := &model.VirtualPF{
		VM: "1", VMName: "v", Name: name, Model: model.VPFVirtio, Backend: model.BackendTap, Network: "br0", Channel: true,
		ARI: vfs > model.MaxFunctionVFs,
	}
	sum := byte(0)
	for _, c := range []byte(name) {
		sum += c
	}
	p.MAC = model.MAC{0x52, 0x54, 0, sum, 0, 0}
	for i := range vfs {
		p.VFs = append(p.VFs, model.VirtualVF{MAC: model.MAC{0x52, 0x54, 0, sum, 1, byte(i)}})
	}
	return p
}

func defined(t testing.TB, doc string, p *model.VirtualPF) string {
	t.Helper()
	out, err := Define(doc, p, bridged)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func compared(t testing.TB, doc string, p *model.VirtualPF) []string {
	t.Helper()
	diffs, err := Compare(doc, p)
	if err != nil {
		t.Fatal(err)
	}
	return diffs
}

// Every change by others to a definition is detected, and its description says what and where.
func TestCompare(t *testing.T) {
	small, large, igb := pfWith("a", 2), pfWith("a", 9), pfWith("a", 4)
	igb.Model = model.VPFIGB
	interfaces := regexp.MustCompile(`(?s)<interface .*?</interface>`)
	without := func(old string) func(string) string {
		return func(doc string) string { return strings.Replace(doc, old, "", 1) }
	}
	with := func(old, new string) func(string) string {
		return func(doc string) string { return strings.Replace(doc, old, new, 1) }
	}
	for _, tc := range []struct {
		name string
		p    *model.VirtualPF
		do   func(string) string
		want []string
	}{
		{"nothing", large, func(s string) string { return s + " " }, nil},
		{"undefined", small, func(string) string { return empty }, []string{"none of its devices is in the XML"}},
		{
			"a VF", small, func(s string) string { return strings.Replace(s, interfaces.FindAllString(s, -1)[1], "", 1) },
			[]string{"ua-vpf-a-vf1 is missing"},
		},
		{
			"MAC", small, with("52:54:00:61:01:01", "52:54:00:61:09:01"),
			[]string{"the MAC of ua-vpf-a-vf1 is 52:54:00:61:09:01: want 52:54:00:61:01:01"},
		},
		{
			"MAC of an igb", igb, with("52:54:00:61:00:00", "52:54:00:61:09:01"),
			[]string{"the MAC of ua-vpf-a-pf is 52:54:00:61:09:01: want 52:54:00:61:00:00"},
		},
		{"model", small, with(`<model type="virtio"/>`, `<model type="e1000"/>`), []string{"the model of ua-vpf-a-vf0 is e1000: want virtio"}},
		{
			"backend", small, with(`<interface type="bridge">`, `<interface type="ethernet">`),
			[]string{"the backend of ua-vpf-a-vf0 is ethernet: want bridge"},
		},
		{"bridge", small, with(`bridge="br0"`, `bridge="br1"`), []string{"the source of ua-vpf-a-vf0 is br1: want br0"}},
		{
			"address", small, with(`function="0x2"`, `function="0x3"`),
			[]string{"the address of ua-vpf-a-vf1 is bus 2, slot 0, function 3: want bus 2, slot 0, function 2"},
		},
		{
			"multifunction", small, without(` multifunction="on"`),
			[]string{"the address of ua-vpf-a-pf has no multifunction='on': its VFs could not be there"},
		},
		{
			"link", small, with(`<link state="down"/>`, `<link state="up"/>`),
			[]string{"the link of ua-vpf-a-vf0 is up: it would have a carrier before its policy is in force"},
		},
		{
			"no link", small, without(`<link state="down"/>`),
			[]string{"the link of ua-vpf-a-vf0 is up: it would have a carrier before its policy is in force"},
		},
		{
			"override", small, func(s string) string {
				return regexp.MustCompile(`(?s)<qemu:override>.*</qemu:override>`).ReplaceAllString(s, "")
			},
			[]string{
				"<qemu:override> no longer gives ua-vpf-a-vf0 the property sriov-pf",
				"<qemu:override> no longer gives ua-vpf-a-vf1 the property sriov-pf",
			},
		},
		{
			"misspelt PF", small, with(`value="ua-vpf-a-pf"`, `value="ua-vpf-a-fp"`),
			[]string{"sriov-pf of ua-vpf-a-vf0 in <qemu:override> is ua-vpf-a-fp: want ua-vpf-a-pf"},
		},
		{
			"misspelt property", small, with(`name="sriov-pf"`, `name="sriov_pf"`),
			[]string{"<qemu:override> no longer gives ua-vpf-a-vf0 the property sriov-pf"},
		},
		{
			"place by ARI", large, with(`value="0x1.0x1"`, `value="0x1.0x2"`),
			[]string{"addr of ua-vpf-a-vf8 in <qemu:override> is 0x1.0x2: want 0x1.0x1"},
		},
		{"one more", small, func(s string) string {
			return strings.Replace(s, "<disk", strings.Replace(interfaces.FindString(s), "vf0", "vf2", 1)+"<disk", 1)
		}, []string{"ua-vpf-a-vf2 exists, but was not defined"}},
		{"order", small, func(s string) string {
			all := interfaces.FindAllString(s, -1)
			return strings.Replace(s, strings.Join(all, ""), all[2]+all[0]+all[1], 1)
		}, []string{"ua-vpf-a-pf comes before ua-vpf-a-vf0: QEMU wants the PF last"}},
		{"port", small, with("ua-vpf-a-port", "ua-x"), []string{"its root port (alias ua-vpf-a-port) is missing"}},
		{
			"guest on its port", small, with("<disk type=\"file\">",
				"<disk type='file'><alias name='ua-d'/><address type='pci' bus='2' slot='0' function='5'/>"),
			[]string{"its root port has another device on it: disk ua-d"},
		},
		{
			"channel", small, with("org.sluice.0", "org.other.0"),
			[]string{"the channel org.sluice.0 is missing: nobody in the guest can ask for a VF"},
		},
	} {
		doc := defined(t, empty, tc.p)
		changed := tc.do(doc)
		if changed == doc {
			t.Errorf("%s: the test changes nothing of\n%s", tc.name, doc)
		}
		if diff := cmp.Diff(tc.want, compared(t, changed, tc.p)); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
	}
}

// For a running domain link states are ignored, and having none of the virtual PF's devices is distinguished from a difference.
func TestCompareLive(t *testing.T) {
	p := pfWith("a", 2)
	doc := defined(t, empty, p)
	for _, tc := range []struct {
		doc  string
		want []string
		has  bool
	}{
		{strings.ReplaceAll(doc, `<link state="down"/>`, ""), nil, true},
		{strings.Replace(doc, `bridge="br0"`, `bridge="br1"`, 1), []string{"the source of ua-vpf-a-vf0 is br1: want br0"}, true},
		{empty, []string{none}, false},
	} {
		diffs, has, err := CompareLive(tc.doc, p)
		if err != nil || has != tc.has || !cmp.Equal(diffs, tc.want) {
			t.Errorf("%v, %v, %v: want %v", diffs, has, err, tc.want)
		}
	}
}

// The answers are those of QEMU 11.1.3 through libvirt 11.3.
func TestComposed(t *testing.T) {
	const noDevice = `{"id":"libvirt-620","error":{"class":"DeviceNotFound","desc":"Device '/machine/peripheral/nonesuch' not found"}}`
	igb := pfWith("a", 7)
	igb.Model = model.VPFIGB
	for _, tc := range []struct {
		name  string
		p     *model.VirtualPF
		other map[string]string // replaces the normal answers, by alias and property
		want  []string
		err   string
	}{
		{"all is well", pfWith("a", 2), nil, nil, ""},
		{"igb", igb, map[string]string{"ua-vpf-a-pf type": `{"return":"igb","id":"libvirt-618"}`}, nil, ""},
		{
			"no igb", igb,
			map[string]string{"ua-vpf-a-pf type": `{"return":"e1000e","id":"libvirt-618"}`},
			[]string{"ua-vpf-a-pf is a e1000e in QEMU: want igb"},
			"",
		},
		{
			"misspelt", pfWith("a", 2),
			map[string]string{"ua-vpf-a-vf0 sriov-pf": `{"return":"ua-vpf-vpf0-pq","id":"libvirt-540"}`},
			[]string{"ua-vpf-a-vf0 belongs to the PF ua-vpf-vpf0-pq in QEMU: want ua-vpf-a-pf"},
			"",
		},
		{
			"no VF", pfWith("a", 2),
			map[string]string{"ua-vpf-a-vf1 sriov-pf": `{"return":"","id":"libvirt-540"}`},
			[]string{"ua-vpf-a-vf1 belongs to the PF none in QEMU: want ua-vpf-a-pf"},
			"",
		},
		{
			"the PF is a VF", pfWith("a", 1),
			map[string]string{"ua-vpf-a-pf sriov-pf": `{"return":"x","id":"libvirt-540"}`},
			[]string{"ua-vpf-a-pf belongs to the PF x in QEMU: want none"},
			"",
		},
		{"no PF", pfWith("a", 2), map[string]string{"ua-vpf-a-pf type": noDevice}, []string{"QEMU has no device ua-vpf-a-pf"}, ""},
		{"old QEMU", pfWith("a", 2), map[string]string{
			"ua-vpf-a-vf0 sriov-pf": `{"id":"libvirt-622","error":{"class":"GenericError","desc":"Property 'virtio-net-pci.sriov-pf' not found"}}`,
			"ua-vpf-a-vf1 sriov-pf": `{"id":"libvirt-623","error":{"class":"GenericError","desc":"Property 'virtio-net-pci.sriov-pf' not found"}}`,
		}, []string{"this QEMU cannot compose virtual PFs: it has no property sriov-pf (10.1 is the first that has)"}, ""},
		{
			"nonsense", pfWith("a", 2),
			map[string]string{"ua-vpf-a-vf0 type": `{"return":31}`},
			nil,
			"QEMU's answer about type of ua-vpf-a-vf0 cannot be read",
		},
		{"nothing", pfWith("a", 2), map[string]string{"ua-vpf-a-vf0 type": `{}`}, nil, "QEMU's answer about type of ua-vpf-a-vf0 cannot be read"},
		{"stuck", pfWith("a", 2), map[string]string{"ua-vpf-a-vf0 sriov-pf": ""}, nil, "stuck"},
	} {
		asked := 0
		got, err := Composed(tc.p, func(command string) (string, error) {
			asked++
			m := regexp.MustCompile(`^{"arguments":{"path":"/machine/peripheral/(.*)","property":"(.*)"},"execute":"qom-get"}$`).FindStringSubmatch(command)
			if m == nil {
				t.Fatalf("%s: %s", tc.name, command)
			}
			switch answer, ok := tc.other[m[1]+" "+m[2]]; {
			case ok && answer == "":
				return "", errors.New("stuck")
			case ok:
				return answer, nil
			case m[2] == "type":
				return `{"return":"virtio-net-pci","id":"libvirt-614"}`, nil
			case strings.HasSuffix(m[1], "-pf"):
				return `{"return":"","id":"libvirt-617"}`, nil
			}
			return `{"return":"ua-vpf-a-pf","id":"libvirt-615"}`, nil
		})
		if !cmp.Equal(got, tc.want) || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: %q, %v: want %q", tc.name, got, err, tc.want)
		}
		if tc.err != "" && asked > 2 {
			t.Errorf("%s: asked %d times although QEMU does not answer", tc.name, asked)
		}
	}
}

// Whatever is defined and undefined in whatever order: the remaining virtual PFs are as defined, and after all are gone the original XML
// remains, except for white space. After every step the bus numbers have no gap, which libvirt would fill.
func TestDefineUndefineProperty(t *testing.T) {
	inDevices := []string{
		"<controller type='virtio-serial' index='0'/>",
		"<channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>",
		"<interface type='bridge'><mac address='52:54:00:ff:00:01'/><alias name='ua-net0'/></interface>",
		"<interface type='network'/><!-- by hand -->",
	}
	outside := []string{
		"<q:override xmlns:q='" + qemuSpace + "'><q:device alias='ua-net0'><q:frontend><q:property name='tx' type='string' value='timer'/></q:frontend></q:device></q:override>",
		"<metadata><sla xmlns='urn:sluice:sla:1' limit='1Gbit'/></metadata>",
	}
	some := func(t *rapid.T, all []string) (out string) {
		for _, part := range all {
			if rapid.Bool().Draw(t, "has") {
				out += part
			}
		}
		return out
	}
	rapid.Check(t, func(t *rapid.T) {
		ports := ""
		for i := range rapid.IntRange(0, 2).Draw(t, "ports") {
			ports += fmt.Sprintf("<controller type='pci' index='%d' model='pcie-root-port'/>", i+1)
		}
		doc := "<domain>" + some(t, outside) + "<devices><controller type='pci' index='0' model='pcie-root'/>" + ports + some(t, inDevices) +
			"</devices>" + some(t, outside[1:]) + "</domain>"
		before := canonical(t, doc)
		there := map[string]*model.VirtualPF{}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			name := rapid.SampledFrom([]string{"a", "b", "port", "serial", "a-vf0"}).Draw(t, "name")
			if there[name] != nil {
				doc = undefined(t, doc, name)
				delete(there, name)
			} else {
				p := pfWith(name, rapid.SampledFrom([]int{1, 7, 8, 17}).Draw(t, "vfs"))
				p.Channel = rapid.Bool().Draw(t, "channel")
				if rapid.Bool().Draw(t, "igb") {
					p.Model = model.VPFIGB
				}
				out, err := Define(doc, p, bridged)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := Define(out, p, bridged); !errors.Is(err, model.ErrPermanent) {
					t.Fatalf("defined twice: %v", err)
				}
				doc, there[name] = out, p
			}
			check(t, doc, there)
		}
		for name := range there {
			doc = undefined(t, doc, name)
		}
		if diff := cmp.Diff(before, canonical(t, doc)); diff != "" {
			t.Fatalf("it is not as it was:\n%s", diff)
		}
	})
}

func undefined(t *rapid.T, doc, name string) string {
	out, found, err := Undefine(doc, name)
	if err != nil || !found {
		t.Fatalf("undefine %s: %v, %v", name, found, err)
	}
	if same, found, err := Undefine(out, name); err != nil || found || same != out {
		t.Fatalf("undefine %s again: %v, %v", name, found, err)
	}
	return out
}

// check verifies the XML with code of its own.
func check(t *rapid.T, doc string, there map[string]*model.VirtualPF) {
	functions := 0
	for name, p := range there {
		if diffs, err := Compare(doc, p); err != nil || len(diffs) > 0 {
			t.Fatalf("%s: %v, %v in\n%s", name, diffs, err, doc)
		}
		if p.Model == model.VPFVirtio {
			functions += len(p.VFs)
		}
		functions++
	}
	tree := etree.NewDocument()
	if err := tree.ReadFromString(doc); err != nil {
		t.Fatal(err)
	}
	var indices, aliases, places []string
	for _, e := range tree.FindElements("//controller[@type='pci']") {
		indices = append(indices, e.SelectAttrValue("index", ""))
	}
	for i := range indices {
		if !slices.Contains(indices, fmt.Sprint(i)) {
			t.Fatalf("PCI controller %d is missing among %v", i, indices)
		}
	}
	for _, e := range tree.FindElements("//devices/*/alias") {
		aliases = append(aliases, e.SelectAttrValue("name", ""))
	}
	for _, e := range tree.FindElements("//devices/*/address[@type='pci']") {
		places = append(places, fmt.Sprint(e.SelectAttrValue("bus", ""), e.SelectAttrValue("slot", ""), e.SelectAttrValue("function", "")))
	}
	for what, list := range map[string][]string{"alias": aliases, "address": places, "index": indices} {
		slices.Sort(list)
		if n := len(list); len(slices.Compact(list)) != n {
			t.Fatalf("an %s is used twice in\n%s", what, doc)
		}
	}
	if got := len(tree.FindElements("//interface/link[@state='down']")); got != functions {
		t.Fatalf("%d links are down, want those of %d functions", got, functions)
	}
}

// canonical returns a document without irrelevant parts: white space, and declarations of QEMU's namespace.
func canonical(t *rapid.T, doc string) string {
	tree := etree.NewDocument()
	if err := tree.ReadFromString(doc); err != nil {
		t.Fatal(err)
	}
	tree.Unindent()
	tree.Root().RemoveAttr("xmlns:qemu")
	out, err := tree.WriteToString()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Unknown content is preserved: comments, other namespaces, CDATA, entities.
func TestDefineKeepsTheRest(t *testing.T) {
	doc := defined(t, empty, pfWith("a", 1))
	for _, part := range []string{"<!-- kept -->", `<![CDATA[<z>]]>`, `file="/a &amp; b"`, `<x:unknown xmlns:x="urn:x" y="&quot;">`} {
		if !strings.Contains(doc, part) {
			t.Errorf("%s is gone from\n%s", part, doc)
		}
	}
}

// A device that somebody else put on an added port or controller stays, and so does that port or controller.
func TestUndefineLeavesWhatOthersUse(t *testing.T) {
	p := pfWith("a", 1)
	doc := defined(t, empty, p)
	doc = strings.Replace(doc, "<disk type", "<rng><address type='pci' bus='2' slot='0' function='7'/></rng><channel><address type='virtio-serial' controller='0'/></channel><disk type", 1)
	out, found, err := Undefine(doc, "a")
	if err != nil || !found {
		t.Fatal(found, err)
	}
	for _, alias := range []string{"ua-vpf-a-port", serialAlias, serialPort} {
		if !strings.Contains(out, alias) {
			t.Errorf("%s is gone", alias)
		}
	}
	if strings.Contains(out, chanAlias) || strings.Contains(out, "<interface") {
		t.Error("not all is gone")
	}
}

func TestWithLink(t *testing.T) {
	doc := defined(t, empty, pfWith("a", 1))
	up, err := WithLink(doc, "ua-vpf-a-vf0", true)
	if err != nil || !strings.HasPrefix(up, "<interface") || !strings.Contains(up, `<link state="up"/>`) ||
		!strings.Contains(up, "52:54:00:61:01:00") {
		t.Errorf("up: %s, %v", up, err)
	}
	if same, err := WithLink(doc, "ua-vpf-a-vf0", false); err != nil || same != "" {
		t.Errorf("down already: %s, %v", same, err)
	}
	bare := strings.ReplaceAll(doc, `<link state="down"/>`, "")
	if same, err := WithLink(bare, "ua-vpf-a-vf0", true); err != nil || same != "" {
		t.Errorf("up already: %s, %v", same, err)
	}
	if down, err := WithLink(bare, "ua-vpf-a-vf0", false); err != nil || !strings.Contains(down, `<link state="down"/>`) {
		t.Errorf("down: %s, %v", down, err)
	}
	if _, err := WithLink(doc, "ua-vpf-a-vf1", true); !errors.Is(err, model.ErrGone) {
		t.Errorf("one that is not there: %v", err)
	}
}

func TestChannelPath(t *testing.T) {
	for channel, want := range map[string]string{
		"": "",
		"<channel type='unix'><source mode='bind' path='/run/x'/><target type='virtio' name='org.sluice.0'/></channel>":           "/run/x",
		"<channel type='unix'><source mode='connect' path='/run/x'/><target type='virtio' name='org.sluice.0'/></channel>":        "",
		"<channel type='tcp'><source mode='bind' path='/run/x'/><target type='virtio' name='org.sluice.0'/></channel>":            "",
		"<channel type='unix'><source mode='bind' path='/run/x'/><target type='virtio' name='org.qemu.guest_agent.0'/></channel>": "",
	} {
		if have, err := ChannelPath("<domain><devices>" + channel + "</devices></domain>"); err != nil || have != want {
			t.Errorf("%s: %q, %v", channel, have, err)
		}
	}
}
