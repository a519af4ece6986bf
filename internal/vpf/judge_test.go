package vpf

import (
	"net/netip"
	"strings"
	"testing"

	"sluice/internal/channel"
	"sluice/internal/model"
)

func rate(bits uint64) model.Rate { return model.Rate{Bits: bits} }

// Host policy bounds each thing that a guest asks for; less than the host has set it may always have.
func TestJudge(t *testing.T) {
	yes, no := true, false
	own := testMAC("a", "vpf0", 0)
	wide := model.GuestPolicy{
		Attach: true, MACs: []string{"02:*"}, VLANs: model.VLANs{{First: 10, Last: 20}}, NoSpoof: true, Addresses: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")},
		Guarantee: rate(100), Limit: rate(1000), Weight: 4,
	}
	narrow := model.GuestPolicy{Attach: true}
	type edit = func(*model.VirtualVF)
	isolated := func(v *model.VirtualVF) { v.Port.Isolated, v.Port.CheckARP = true, true }
	addressed := func(v *model.VirtualVF) { v.Port.Addresses = []netip.Addr{netip.MustParseAddr("10.1.0.5")} }
	trunked := func(v *model.VirtualVF) { v.Port.Trunk = model.VLANs{{First: 30, Last: 40}} }
	down := func(v *model.VirtualVF) { v.Port.Link = model.LinkDown }
	limited := func(v *model.VirtualVF) { v.Port.SLA.Limit = rate(50) }
	for name, c := range map[string]struct {
		ask    channel.Attach
		policy model.GuestPolicy
		vf     edit
		want   string // "": granted
	}{
		"nothing":                      {channel.Attach{}, narrow, nil, ""},
		"anything, where none may":     {channel.Attach{}, model.GuestPolicy{}, nil, "denied"},
		"a VF that the host took down": {channel.Attach{}, wide, down, "denied"},
		"its own MAC":                  {channel.Attach{MAC: own.String()}, narrow, nil, ""},
		"another MAC":                  {channel.Attach{MAC: "02:00:00:00:00:01"}, wide, nil, ""},
		"another MAC, refused":         {channel.Attach{MAC: "06:00:00:00:00:01"}, wide, nil, "denied"},
		"another MAC, by default":      {channel.Attach{MAC: "02:00:00:00:00:01"}, narrow, nil, "denied"},
		"a multicast MAC":              {channel.Attach{MAC: "03:00:00:00:00:01"}, wide, nil, "invalid"},
		"no MAC":                       {channel.Attach{MAC: "x"}, wide, nil, "invalid"},
		"a VLAN":                       {channel.Attach{VLAN: 10}, wide, nil, ""},
		"a VLAN beside":                {channel.Attach{VLAN: 21}, wide, nil, "denied"},
		"a VLAN of the trunk it has":   {channel.Attach{VLAN: 35}, narrow, trunked, ""},
		"a trunk":                      {channel.Attach{Trunk: "10-12,20"}, wide, nil, ""},
		"a trunk that is wider":        {channel.Attach{Trunk: "10-21"}, wide, nil, "denied"},
		"all VLANs":                    {channel.Attach{Trunk: "1-4094"}, narrow, nil, "denied"},
		"VLAN and trunk":               {channel.Attach{VLAN: 10, Trunk: "11"}, wide, nil, "invalid"},
		"VLAN -1":                      {channel.Attach{VLAN: -1}, wide, nil, "denied"},
		"no spoof check":               {channel.Attach{SpoofChk: &no}, wide, nil, ""},
		"no spoof check, refused":      {channel.Attach{SpoofChk: &no}, narrow, nil, "denied"},
		"a spoof check":                {channel.Attach{SpoofChk: &yes}, narrow, nil, ""},
		"isolation":                    {channel.Attach{Isolated: &yes, CheckARP: &yes}, narrow, nil, ""},
		"no isolation":                 {channel.Attach{Isolated: &no}, wide, isolated, "denied"},
		"no check of ARP":              {channel.Attach{CheckARP: &no}, wide, isolated, "denied"},
		"an address":                   {channel.Attach{Addresses: []string{"10.1.2.3"}}, wide, nil, ""},
		"an address beside":            {channel.Attach{Addresses: []string{"10.2.2.3"}}, wide, nil, "denied"},
		"not the host's address":       {channel.Attach{Addresses: []string{"10.1.0.6"}}, wide, addressed, "denied"},
		"too many addresses":           {channel.Attach{Addresses: make([]string, 9)}, wide, nil, "invalid"},
		"a guarantee":                  {channel.Attach{Guarantee: "100bit"}, wide, nil, ""},
		"a guarantee too high":         {channel.Attach{Guarantee: "101bit"}, wide, nil, "denied"},
		"a guarantee above its limit":  {channel.Attach{Guarantee: "100bit", Limit: "99bit"}, wide, nil, "invalid"},
		"a limit":                      {channel.Attach{Limit: "10bit"}, narrow, nil, ""},
		"a limit too high":             {channel.Attach{Limit: "1001bit"}, wide, nil, "denied"},
		"a limit above the host's":     {channel.Attach{Limit: "51bit"}, wide, limited, "denied"},
		"no rate":                      {channel.Attach{Limit: "fast"}, wide, nil, "invalid"},
		"a weight":                     {channel.Attach{Weight: 4}, wide, nil, ""},
		"a weight too high":            {channel.Attach{Weight: 1.5}, narrow, nil, "denied"},
		"a weight below 0":             {channel.Attach{Weight: -1}, wide, nil, "denied"},
		"down":                         {channel.Attach{Link: "down"}, narrow, nil, ""},
		"sideways":                     {channel.Attach{Link: "sideways"}, narrow, nil, "invalid"},
	} {
		v := model.VirtualVF{MAC: own}
		if c.vf != nil {
			c.vf(&v)
		}
		grant, err := judge(&c.ask, &v, &c.policy)
		if code(err) != c.want || (err != nil) != (c.want != "") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if err == nil && c.ask.Limit == "" && grant.Port.SLA.Limit != tighter(c.policy.Limit, v.Port.SLA.Limit) {
			t.Errorf("%s: limit %s", name, grant.Port.SLA.Limit)
		}
	}
}

// Guarantees inside a virtual PF are promised as far as its own goes, and the message does the sum.
func TestAdmit(t *testing.T) {
	p := testPF("a", "vpf0", 3)
	p.VFs[0].Port.SLA.Guarantee = rate(3e9)
	p.VFs[1].Grant = &model.VFGrant{Port: model.PortPolicy{SLA: model.SLA{Guarantee: model.Rate{Bits: 1e9, Packets: 10}}}}
	whole := model.Rate{Bits: 5e9, Packets: 20}
	if err := admit(&p, 2, model.Rate{Bits: 1e9, Packets: 10}, whole); err != nil {
		t.Error(err)
	}
	if err := admit(&p, 1, rate(2e9), whole); err != nil {
		t.Errorf("instead of what it had: %v", err)
	}
	for want, asked := range map[string]model.Rate{
		"asked 2Gbit + 4Gbit that other VFs have, virtual PF vpf0 is guaranteed 5Gbit": rate(2e9),
		"asked 11pps + 10pps that other VFs have, virtual PF vpf0 is guaranteed 20pps": {Packets: 11},
	} {
		if err := admit(&p, 2, asked, whole); code(err) != "denied" || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := admit(&p, 2, rate(1), model.Rate{}); code(err) != "denied" {
		t.Errorf("of a virtual PF that is guaranteed nothing: %v", err)
	}
}
