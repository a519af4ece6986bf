package libvirt

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/host/libvirt/libvirttest"
	"sluice/internal/model"
)

func TestReadMetadata(t *testing.T) {
	gold := model.SLA{
		Guarantee: model.Rate{Bits: 2e9, Packets: 5e4}, Limit: model.Rate{Bits: 5e9}, Receive: model.Rate{Bits: 4e9}, Weight: 2, Class: "gold",
		Source: "metadata",
	}
	const ours = `xmlns:s="urn:sluice:sla:1"`
	for _, tc := range []struct {
		name, in string
		want     []model.NICSLA
		err      string
	}{
		{"none", ``, nil, ""},
		{"somebody else's", `<nova:instance xmlns:nova="http://openstack.org/x"><sla guarantee="x"/></nova:instance>`, nil, ""},
		{
			"all", `<s:sla ` + ours + ` guarantee="2Gbit 50kpps" limit="5Gbit" receive="4Gbit" weight="2" class="gold"/>`,
			[]model.NICSLA{{SLA: gold}},
			"",
		},
		{
			"no prefix", `<sla xmlns="urn:sluice:sla:1" limit="1Gbit"/>`,
			[]model.NICSLA{{SLA: model.SLA{Limit: model.Rate{Bits: 1e9}, Source: "metadata"}}},
			"",
		},
		{
			"NICs, the single first",
			`<s:sla ` + ours + ` limit="1Gbit"><s:sla nic="ua-net1" limit="2Gbit"/></s:sla>`,
			[]model.NICSLA{
				{NIC: "ua-net1", SLA: model.SLA{Limit: model.Rate{Bits: 2e9}, Source: "metadata"}},
				{SLA: model.SLA{Limit: model.Rate{Bits: 1e9}, Source: "metadata"}},
			},
			"",
		},
		{"empty", `<s:sla ` + ours + `/>`, nil, ""},
		{
			"another version", `<s:sla xmlns:s="urn:sluice:sla:2"/>`, nil,
			`it has the namespace "urn:sluice:sla:2", and this version of Sluice reads urn:sluice:sla:1`,
		},
		{"another element", `<s:slo ` + ours + `/>`, nil, `unknown element "slo": there is only sla`},
		{
			"twice", `<s:sla ` + ours + `/><s:sla ` + ours + `/>`, nil,
			"there are two elements sla: keep one, and put what is about single NICs inside it",
		},
		{
			"unknown attribute", `<s:sla ` + ours + ` maximum="1Gbit"/>`, nil,
			"maximum: no such attribute: there are guarantee, limit, receive, weight, class and nic",
		},
		{"no unit", `<s:sla ` + ours + ` limit="10"/>`, nil, `limit: "10" has no unit; write 10Mbit, 10Gbit or 10kpps`},
		{
			"guarantee above limit", `<s:sla ` + ours + ` guarantee="2Gbit" limit="1Gbit"/>`, nil,
			"guarantee: 2Gbit is above the limit of 1Gbit: raise the limit or lower the guarantee",
		},
		{"weight", `<s:sla ` + ours + ` weight="NaN"/>`, nil, `weight: "NaN" is not a number from 0.001 to 1000`},
		{"class", `<s:sla ` + ours + ` class=""/>`, nil, `class: "" is not a valid class name`},
		{"pattern", `<s:sla ` + ours + ` nic="[" limit="1Gbit"/>`, nil, `nic: "[" is not a pattern`},
		{"text", `<s:sla ` + ours + `>2Gbit</s:sla>`, nil, `there is text, "2Gbit": write attributes`},
		{
			"inner without NIC", `<s:sla ` + ours + `><s:sla limit="1Gbit"/></s:sla>`, nil,
			`an sla inside sla has no nic: write nic="alias, MAC or network"`,
		},
		{
			"inner twice", `<s:sla ` + ours + `><s:sla nic="a" limit="1Gbit"/><s:sla nic="a" limit="1Gbit"/></s:sla>`, nil,
			`two elements are about the NIC "a": keep one`,
		},
		{
			"deep", `<s:sla ` + ours + `><s:sla nic="a"><s:sla nic="b"/></s:sla></s:sla>`, nil,
			`unknown element "sla": there are only elements sla in sla, one deep`,
		},
		{"large", `<s:sla ` + ours + ` class="` + strings.Repeat("x", 9000) + `"/>`, nil, "it is larger than 8 KiB or has more than 32 NICs"},
	} {
		have, err := readMetadata("<domain><name>a</name><metadata>" + tc.in + "</metadata></domain>")
		if diff := cmp.Diff(tc.want, have); diff != "" || (err == nil) != (tc.err == "") || err != nil && err.Error() != tc.err {
			t.Errorf("%s: error %v, want %s\n%s", tc.name, err, tc.err, diff)
		}
	}
}

// Metadata that is set, broken and removed while the domain runs is noticed through libvirt's event: nothing else triggers a read.
func TestMetadataIsFollowed(t *testing.T) {
	d := libvirttest.Start(t)
	c := open(t, d.URI())
	v := libvirttest.VM{Name: "v", Ports: 1}
	d.Create(t, v)
	hasState(t, c, v, model.VMPaused)
	metadata := func(args ...string) {
		t.Helper()
		d.Virsh(t, append([]string{"metadata", v.Name, "--uri", Namespace, "--live"}, args...)...)
	}
	becomes := func(what string, slas []model.NICSLA, problem string) {
		t.Helper()
		libvirttest.Eventually(t, patience, what, func() bool {
			dom, text := find(t, c, v.UUID()), ""
			for _, p := range c.Problems() {
				text += p.Subject + ": " + p.Text + "; " + p.Remedy
			}
			return dom != nil && cmp.Equal(dom.SLAs, slas) && (text == "" && problem == "" || problem != "" && strings.Contains(text, problem))
		})
	}
	becomes("no SLA", nil, "")
	metadata("--key", "sluice", "--set", `<sla guarantee="2Gbit"><sla nic="ua-net1" limit="1Gbit"/></sla>`)
	becomes("an SLA", []model.NICSLA{
		{NIC: "ua-net1", SLA: model.SLA{Limit: model.Rate{Bits: 1e9}, Source: "metadata"}},
		{SLA: model.SLA{Guarantee: model.Rate{Bits: 2e9}, Source: "metadata"}},
	}, "")
	metadata("--key", "sluice", "--set", `<sla guarantee="2"/>`)
	becomes("a problem", nil, `v: the SLA in its metadata cannot be read and is ignored: guarantee: "2" has no unit; write 2Mbit, 2Gbit or 2kpps; `+
		`set it again, for example: virsh metadata v --uri urn:sluice:sla:1`)
	metadata("--remove")
	becomes("no SLA again", nil, "")

	blind := open(t, d.URI(), func(o *Options) { o.NoMetadata = true })
	metadata("--key", "sluice", "--set", `<sla guarantee="2Gbit"/>`)
	becomes("an SLA once more", []model.NICSLA{{SLA: model.SLA{Guarantee: model.Rate{Bits: 2e9}, Source: "metadata"}}}, "")
	d.Virsh(t, "resume", v.Name)
	hasState(t, blind, v, model.VMRunning) // it has read the domain again
	if dom := find(t, blind, v.UUID()); dom.SLAs != nil {
		t.Errorf("SLAs %v although metadata does not count", dom.SLAs)
	}
}

// Whatever the metadata contains, the result is within bounds or rejected as a whole.
func FuzzReadMetadata(f *testing.F) {
	f.Add(`<s:sla xmlns:s="urn:sluice:sla:1" guarantee="2Gbit 50kpps" limit="5Gbit" weight="2" class="gold"><s:sla nic="a*" receive="1Gbit"/></s:sla>`)
	f.Add(`<s:sla xmlns:s="urn:sluice:sla:2"/>`)
	f.Add(`</metadata><metadata><sla xmlns="urn:sluice:sla:1"><sla><sla/></sla></sla>`)
	f.Fuzz(func(t *testing.T, in string) {
		have, err := readMetadata("<domain><metadata>" + in + "</metadata></domain>")
		if err != nil && have != nil || len(have) > maxNICSLAs+1 {
			t.Fatalf("%d SLAs beside error %v", len(have), err)
		}
		for _, s := range have {
			if w := s.SLA.Weight; s.SLA.Source != source || !(w == 0 || w >= 0.001 && w <= 1000) || s.SLA.Guarantee.Bits > model.MaxRate ||
				len(s.NIC) > 64 || len(s.SLA.Class) > 64 {
				t.Fatalf("%+v got through", s)
			}
		}
	})
}
