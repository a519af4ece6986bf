package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/model"
)

// Every error that a user can provoke, as printed.
func TestComplaints(t *testing.T) {
	known := Known{Policies: map[string]model.PolicyInfo{
		"activity": {}, "adaptive": {Params: []model.Param{{Name: "hold", Unit: "s", Min: 1, Max: 60}, {Name: "tau", Max: 0.5}}}, "fair": {},
	}, Allocators: map[string]model.AllocatorInfo{"daqs": {}, "none": {}, "waterfill": {}}}
	for _, tc := range []struct{ name, text, want string }{
		{"unknown key", "intervall: 300s", `s:1:1: unknown key "intervall"; did you mean "interval"?`},
		{"unknown key, none close", "log: {colour: red}", `s:1:7: unknown key "log.colour"; choose one of format, level`},
		{"unknown key in list", "vms:\n  - match: a\n    wieght: 2", `s:3:5: unknown key "vms[0].wieght"; did you mean "weight"?`},
		{"duplicate key", "mode: observe\nmode: enforce", `s:2:1: mode: set twice, first at s:1:1; keep one of them`},
		{"duplicate section", "log: {level: info}\nlog: {format: json}", `s:2:1: log: set twice, first at s:1:1; keep one of them`},
		{"duplicate in list", "pfs: [{name: a, name: b}]", `s:1:17: pfs[0].name: set twice, first at s:1:8; keep one of them`},
		{"bad word", "mode: enfroce", `s:1:7: mode: "enfroce" is not one of observe, enforce; did you mean "enforce"?`},
		{"bad level", "log: {level: loud}", `s:1:14: log.level: "loud" is not one of debug, info, warn, error; write one of these`},
		{"tab", "pfs:\n\t- name: a", `s:2:1: a tab is used where YAML requires spaces; indent with spaces`},
		{
			"duration without unit", "interval: 300",
			`s:1:11: interval: "300" has no unit; write 300s for seconds, 300m for minutes or 300ms for milliseconds`,
		},
		{"no duration", "sample: soon", `s:1:9: sample: "soon" is not a duration; write a number with its unit, such as 500ms, 30s, 5m or 2h`},
		{
			"negative duration", "sample: -1s",
			`s:1:9: sample: "-1s" is not a duration; write a number with its unit, such as 500ms, 30s, 5m or 2h`,
		},
		{"duration out of range", "sample: 1us", `s:1:9: sample: "1us" is out of range; write a value from 100ms to 1m`},
		{"number out of range", "moves: {parallel: 0}", `s:1:19: moves.parallel: "0" is out of range; write a value from 1 to 64`},
		{"no number", "moves: {parallel: 4s}", `s:1:19: moves.parallel: "4s" is not a whole number; write digits only, without a unit`},
		{"weight zero", "vms: [{match: a, weight: 0}]", `s:1:26: vms[0].weight: "0" is out of range; write a value from 0.001 to 1000`},
		{"param below its range", "params:\n  hold: -15", `s:2:3: params.hold: "-15" is out of range; write a value from 1 to 60 (s)`},
		{
			"param above its range", "params: {tau: 1e20}",
			`s:1:10: params.tau: "100000000000000000000" is out of range; write a value from 0 to 0.5`,
		},
		{
			"UTF-16", "\xff\xfem\x00o\x00",
			"s: is not UTF-8 text: it is UTF-16, or not text at all; save it as UTF-8, for example with `iconv -f UTF-16 -t UTF-8`",
		},
		{
			"UTF-16 without mark", "m\x00o\x00",
			"s: is not UTF-8 text: it is UTF-16, or not text at all; save it as UTF-8, for example with `iconv -f UTF-16 -t UTF-8`",
		},
		{"nan", "params: {tau: .nan}", `s:1:15: params.tau: ".nan" is not a number; write a number such as 2 or 0.5, without a unit`},
		{"param is text", "params: {tau: 10s}", `s:1:15: params.tau: "10s" is not a number; write a number such as 2 or 0.5, without a unit`},
		{"no bool", "guest_agent: {enabled: yes}", `s:1:24: guest_agent.enabled: "yes" is neither true nor false; write true or false`},
		{"bool for a word", "bandwidth: {tree: true}", `s:1:19: bandwidth.tree: "true" is not one of auto, off; write one of these`},
		{"number for text", "vms: [{match: 17}]", `s:1:15: vms[0].match: "17" is not text; put it in quotes: "17"`},
		{"no value", "policy:", `s:1:1: policy: has no value; give it one or remove the key`},
		{"control characters", `policy: "a\nb"`, `s:1:9: policy: "a\nb" has line breaks or control characters; write it on one line`},
		{"rate without unit", "vms: [{match: a, limit: 10}]", `s:1:25: vms[0].limit: "10" has no unit; write 10Mbit, 10Gbit or 10kpps`},
		{
			"rate in bytes", "vms: [{match: a, limit: 10GB}]",
			`s:1:25: vms[0].limit: "10GB" has an unknown unit; write rates in bit, kbit, Mbit, Gbit or Tbit per second, packets in pps, kpps or ` +
				`Mpps`,
		},
		{
			"rate in Gbps", "vms: [{match: a, limit: 10Gbps}]",
			`s:1:25: vms[0].limit: "10Gbps" has an unknown unit; write rates in bit, kbit, Mbit, Gbit or Tbit per second, packets in pps, kpps ` +
				`or Mpps`,
		},
		{
			"guarantee without number", "vms: [{match: a, guarantee: Gbit}]",
			`s:1:29: vms[0].guarantee: "Gbit" is not a rate; write a number with its unit, such as 10Gbit, 500Mbit or 200kpps`,
		},
		{"guarantee without value", "vms:\n- match: a\n  guarantee:\n", `s:3:3: vms[0].guarantee: has no value; give it one or remove the key`},
		{
			"guarantee of nothing", "vms: [{match: a, guarantee: ''}]",
			`s:1:29: vms[0].guarantee: "" is not a rate; write a number with its unit, such as 10Gbit, 500Mbit or 200kpps`,
		},
		{"guarantee zero", "vms: [{match: a, guarantee: 0Gbit}]", `s:1:29: vms[0].guarantee: "0Gbit" is zero; leave it out for none`},
		{"guarantee zero without unit", "vms: [{match: a, guarantee: 0}]", `s:1:29: vms[0].guarantee: "0" is zero; leave it out for none`},
		{
			"rate twice", "vms: [{match: a, limit: 1Gbit 2Gbit}]",
			`s:1:25: vms[0].limit: "1Gbit 2Gbit" gives the same kind of rate twice; keep one number for bits and one for packets, such as ` +
				`10Gbit 200kpps`,
		},
		{
			"part of a bit", "vms: [{match: a, limit: 1.5bit}]",
			`s:1:25: vms[0].limit: "1.5bit" is not a whole number of bits or packets per second; write a number with its unit, such as 10Gbit, ` +
				`500Mbit or 200kpps`,
		},
		{
			"guarantee above limit", "vms: [{match: a, guarantee: 2Gbit, limit: 1Gbit}]",
			`s:1:18: vms[0].guarantee: 2Gbit is above the limit of 1Gbit; raise the limit or lower the guarantee`,
		},
		{
			"packets guaranteed above limit", "vms: [{match: a, guarantee: 2Mpps, limit: 1Gbit 1Mpps}]",
			`s:1:18: vms[0].guarantee: 2Mpps is above the limit of 1Gbit 1Mpps; raise the limit or lower the guarantee`,
		},
		{
			"class's guarantee above limit", "classes: [{name: a, guarantee: 2Gbit, limit: 1Gbit}]",
			`s:1:21: classes[0].guarantee: 2Gbit is above the limit of 1Gbit; raise the limit or lower the guarantee`,
		},
		{
			"class's minimum above limit", "classes: [{name: a, minimum: 2Gbit, limit: 1Gbit}]",
			`s:1:21: classes[0].minimum: 2Gbit is above the limit of 1Gbit; raise the limit or lower the minimum`,
		},
		{
			"minimum in packets", "classes: [{name: a, minimum: 2kpps}]",
			`s:1:21: classes[0].minimum: is a rate of bits, not packets; write it in Mbit or Gbit only`,
		},
		{
			"guarantee above every link", "pfs: [{name: a, speed: 1Gbit}, {name: b, speed: 2Gbit}]\nvms: [{match: a, guarantee: 3Gbit}]",
			`s:2:18: vms[0].guarantee: 3Gbit is more than any link carries: the fastest of pfs has a speed of 2Gbit; lower it, or correct the speed`,
		},
		{
			"packets without unit", "bandwidth: {packets: 800000}",
			`s:1:22: bandwidth.packets: "800000" has no unit; write 800000Mbit, 800000Gbit or 800000kpps`,
		},
		{
			"packets in bits", "bandwidth: {packets: 1Gbit}",
			`s:1:13: bandwidth.packets: is a rate of packets, not bits; write it in pps, kpps or Mpps only`,
		},
		{
			"speed in packets", "pfs: [{name: a, speed: 1Gbit 1kpps}]",
			`s:1:17: pfs[0].speed: is a rate of bits, not packets; write it in Mbit or Gbit only`,
		},
		{
			"VLANs beyond", "virtual_pfs: {guests: [{match: a, vlans: 10-5000}]}",
			`s:1:42: virtual_pfs.guests[0].vlans: "10-5000" is not a set of VLANs; write IDs from 1 to 4094 and ranges of them, such as 10-20,30`,
		},
		{
			"guest rule twice", "virtual_pfs:\n  guests: [{match: a}, {match: a}]",
			`s:2:25: virtual_pfs.guests[1].match: pattern "a" already has an entry, at s:2:13; merge the two`,
		},
		{
			"guest rule that contradicts itself", "virtual_pfs: {guests: [{match: a, refuse: true, vlans: 7}]}",
			`s:1:49: virtual_pfs.guests[0].vlans: contradicts refuse; keep one of the two`,
		},
		{
			"guest rule with a bad MAC", "virtual_pfs: {guests: [{match: a, macs: 'x:*'}]}",
			`s:1:35: virtual_pfs.guests[0].macs: "x:*" is not a pattern for MACs; write one such as 02:*, or 52:54:00:12:34:56`,
		},
		{
			"guest rule with a bad prefix", "virtual_pfs: {guests: [{match: a, addresses: '10.0.0.0/33'}]}",
			`s:1:35: virtual_pfs.guests[0].addresses: "10.0.0.0/33" is not a list of prefixes; write one such as 10.244.0.0/16,fd00::/64`,
		},
		{
			"guest rule that guarantees too much", "virtual_pfs: {guests: [{match: a, guarantee: 2Gbit, limit: 1Gbit}]}",
			`s:1:35: virtual_pfs.guests[0].guarantee: 2Gbit is above the limit of 1Gbit; raise the limit or lower the guarantee`,
		},
		{
			"guest rule without pattern", "virtual_pfs: {guests: [{match: '[', refuse: true}]}",
			`s:1:25: virtual_pfs.guests[0].match: "[" is not a pattern; write a VM's name or UUID; * matches any characters, ? any one, [ab] ` +
				`either a or b`,
		},
		{
			"unknown allocator", "bandwidth: {allocator: waterfil}",
			`s:1:13: bandwidth.allocator: unknown allocator "waterfil"; did you mean "waterfill"?`,
		},
		{
			"two rules for a NIC", "vms: [{match: a, sla_nic: n, limit: 1Gbit}, {match: a, sla_nic: n, limit: 2Gbit}]",
			`s:1:46: vms[1].match: pattern "a, sla_nic n" already has an entry, at s:1:8; merge the two`,
		},
		{
			"pin beside sla_nic", "vms: [{match: a, sla_nic: n, limit: 1Gbit, pin: true}]",
			`s:1:44: vms[0].pin: applies to the VM, but with sla_nic a rule applies only to a NIC's rates; write another rule for the VM, ` +
				`without sla_nic`,
		},
		{
			"sensitivity beside sla_nic", "vms: [{match: a, sla_nic: n, limit: 1Gbit, latency_sensitivity: high}]",
			`s:1:44: vms[0].latency_sensitivity: applies to the VM, but with sla_nic a rule applies only to a NIC's rates; write another rule ` +
				`for the VM, without sla_nic`,
		},
		{
			"unknown sensitivity", "classes: [{name: a, latency_sensitivity: hig}]",
			`s:1:42: classes[0].latency_sensitivity: "hig" is not one of low, normal, high; did you mean "high"?`,
		},
		{"worth below one", "worth: {latency: 0.5}", `s:1:18: worth.latency: "0.5" is out of range; write a value from 1 to 1000`},
		{
			"CPU without a unit", "worth: {cpu: true, packet_cpu: 2}",
			`s:1:32: worth.packet_cpu: "2" has no unit; write 2s for seconds, 2m for minutes or 2ms for milliseconds`,
		},
		{
			"CPU of a second", "worth: {cpu: true, packet_cpu: 1s}",
			`s:1:32: worth.packet_cpu: "1s" is out of range; write a value from 1ns to 1ms`,
		},
		{
			"sla_nic without rates", "vms: [{match: a, sla_nic: n}]",
			`s:1:18: vms[0].sla_nic: names a NIC, but the rule sets nothing for it; add guarantee, limit, receive or weight`,
		},
		{
			"sla_nic without pattern", "vms: [{match: a, sla_nic: 'n[', limit: 1Gbit}]",
			`s:1:18: vms[0].sla_nic: "n[" is not a pattern; write a NIC's alias, MAC or network, or leave it out for every NIC`,
		},
		{"pin and forbid", "vms:\n  - match: a\n    pin: true\n    forbid: true", `s:4:5: vms[0].forbid: contradicts pin; keep one of the two`},
		{"rule without match", "vms:\n  - pin: true", `s:2:5: vms[0]: has no "match"; add it: shell pattern on the name of the VM, or a UUID`},
		{
			"bad pattern", "vms: [{match: 'a['}]",
			`s:1:8: vms[0].match: "a[" is not a pattern; write a VM's name or UUID; * matches any characters, ? any one, [ab] either a or b`,
		},
		{
			"bad pattern for NICs", "vms: [{match: a, nic: 'b['}]",
			`s:1:18: vms[0].nic: "b[" is not a pattern; write a NIC's alias, MAC or network, or leave it out for every NIC that can have a VF`,
		},
		{
			"duplicate rule", "vms: [{match: a}, {match: b}, {match: a}]",
			`s:1:32: vms[2].match: pattern "a" already has an entry, at s:1:8; merge the two`,
		},
		{
			"duplicate rule by UUID", "vms: [{match: 6ba7b810-9dad-11d1-80b4-00c04fd430c8}, {match: 6BA7B810-9DAD-11D1-80B4-00C04FD430C8}]",
			`s:1:55: vms[1].match: pattern "6ba7b810-9dad-11d1-80b4-00c04fd430c8" already has an entry, at s:1:8; merge the two`,
		},
		{
			"duplicate class", "classes: [{name: a}, {name: a}]",
			`s:1:23: classes[1].name: class "a" already has an entry, at s:1:12; merge the two`,
		},
		{"class of no name", "classes: [{name: ''}]", `s:1:12: classes[0].name: is empty; write the name by which rules refer to it`},
		{
			"unknown class", "classes: [{name: gold}]\nvms: [{match: a, class: glod}]",
			`s:2:18: vms[0].class: unknown class "glod"; did you mean "gold"?`,
		},
		{"duplicate PF", "pfs:\n  - name: a\n  - name: a", `s:3:5: pfs[1].name: PF "a" already has an entry, at s:2:5; merge the two`},
		{"PF without name", "pfs: [{vfs: all}]", `s:1:7: pfs[0]: has no "name"; add it: network interface of the PF`},
		{"bad interface", "pfs: [{name: a/b}]", "s:1:8: pfs[0].name: \"a/b\" is not an interface name; take one from `ip link`"},
		{
			"bad VF range", "pfs: [{name: a, vfs: 3-0}]",
			`s:1:22: pfs[0].vfs: "3-0" names VFs twice or not in ascending order at "3-0"; write ascending indices, such as 0-3,6, or all`,
		},
		{
			"VF twice", "pfs: [{name: a, vfs: '0-3,2'}]",
			`s:1:22: pfs[0].vfs: "0-3,2" names VFs twice or not in ascending order at "2"; write ascending indices, such as 0-3,6, or all`,
		},
		{
			"VF range of words", "pfs: [{name: a, vfs: some}]",
			`s:1:22: pfs[0].vfs: "some" is not a list of VF indices; write ascending indices, such as 0-3,6, or all`,
		},
		{
			"VF range huge", "pfs: [{name: a, vfs: 0-99999}]",
			`s:1:22: pfs[0].vfs: "0-99999" is not a list of VF indices; write ascending indices, such as 0-3,6, or all`,
		},
		{"VF list", "pfs: [{name: a, vfs: [0, 1]}]", `s:1:22: pfs[0].vfs must be a single value, not a list; see docs/config.md`},
		{"list wanted", "pfs: pf0", `s:1:6: pfs must be a list, not a single value; begin every entry with '- '`},
		{
			"list of words", "pfs: [pf0]",
			`s:1:7: pfs[0] must be a mapping, not a single value; write one 'key: value' per line|s:1:7: pfs[0]: has no "name"; add it: network ` +
				`interface of the PF`,
		},
		{"section wanted", "moves: 4", `s:1:8: moves must be a mapping, not a single value; write one 'key: value' per line`},
		{"file is a list", "- a", `s:1:1: the file must be a mapping, not a list; write one 'key: value' per line`},
		{
			"alias", "policy: &x fair",
			`s:1:9: policy must be a single value, not an anchor, alias or tag; write the value out; sluice.yaml may contain none of these`,
		},
		{
			"tag", "policy: !!str fair",
			`s:1:9: policy must be a single value, not an anchor, alias or tag; write the value out; sluice.yaml may contain none of these`,
		},
		{"merge", "<<: {}", `s:1:1: a key must be a plain word; see docs/config.md for the keys`},
		{"second document", "mode: observe\n---\nmode: enforce", `s:3:5: a second document begins here; remove the '---' before it`},
		{"too deep", strings.Repeat("[", 99), `s:1:17: nested more than 16 levels deep; see docs/config.md for the keys`},
		{"times in order", "sample: 30s\ninterval: 20s", `s:2:1: interval: is shorter than sample; raise it or lower sample`},
		{
			"times against default", "moves: {backoff: 2h}",
			`s:1:9: moves.backoff: is longer than moves.backoff_max; lower it or set moves.backoff_max`,
		},
		{"unknown policy", "policy: activty", `s:1:1: policy: unknown policy "activty"; did you mean "activity"?`},
		{"unknown parameter", "params: {tua: 1}", `s:1:10: params.tua: policy adaptive has no such parameter; did you mean "tau"?`},
		{
			"relative path", "state_dir: var/lib",
			`s:1:1: state_dir: "var/lib" is not an absolute path; begin it with /, and write no '..', '//' or final '/'`,
		},
		{
			"long socket", "api: {socket: /" + strings.Repeat("a", 107) + "}",
			`s:1:7: api.socket: is longer than the 107 bytes that a socket's path may have; choose a shorter path`,
		},
		{
			"other host", "libvirt: {uri: 'qemu+ssh://other/system'}",
			`s:1:11: libvirt.uri: names another host, "other"; run Sluice on that host and write qemu:///system`,
		},
		{"no URI", "libvirt: {uri: system}", `s:1:11: libvirt.uri: "system" is not a libvirt URI; write qemu:///system`},
		{
			"listen without port", "api: {listen: 127.0.0.1}",
			`s:1:7: api.listen: "127.0.0.1" is not an address to listen on; write an IP address and port, such as 127.0.0.1:9178`,
		},
		{
			"listen to everybody", "api: {listen: ':9178', tokens: /t}",
			"s:1:7: api.listen: would let every host that reaches :9178 read VM names and loads; set api.tls_cert, api.tls_key and api.tokens, or " +
				"write 127.0.0.1 and put a proxy in front that checks who asks",
		},
		{
			"half of TLS", "api: {listen: '127.0.0.1:9178', tls_key: /k}",
			"s:1:7: api.listen: has only one of api.tls_cert and api.tls_key; set both, or none",
		},
		{
			"listen to a name", "api: {listen: 'example.org:80'}",
			`s:1:7: api.listen: "example.org:80" is not an address to listen on; write an IP address and port, such as 127.0.0.1:9178`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := parse([]Document{{Name: "s", Data: []byte(tc.text)}}, known, nil)
			if err == nil {
				t.Fatalf("no error; want %q", tc.want)
			}
			if diff := cmp.Diff(strings.ReplaceAll(tc.want, "|", "\n"), strings.Split(err.Error(), "; keep one of them: ")[0]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSyntaxErrorsHaveAPlace(t *testing.T) {
	for _, text := range []string{
		"a: b: c", "mode: [observe", "mode: 'observe", "\tmode: observe", "pfs:\n - name: a\n  vfs: 1",
		"mode observe\npolicy: x",
	} {
		_, err := parse([]Document{{Name: "s", Data: []byte(text)}}, Known{}, nil)
		list := Errors(err)
		if len(list) == 0 || list[0].Pos.Line == 0 || list[0].Pos.Col == 0 || strings.Contains(list[0].Text, "\n") {
			t.Errorf("%q: want one line with a place, have %v", text, err)
		}
	}
}

func TestAllComplaintsAtOnceInOrder(t *testing.T) {
	text := "mdoe: x\nsample: 1\npfs:\n  - name: a\n    vfs: x\n  - vfs: 1\nlog: {level: x}\n"
	_, err := parse([]Document{{Name: "s", Data: []byte(text)}}, Known{}, nil)
	var lines []int
	for _, e := range Errors(err) {
		lines = append(lines, e.Pos.Line)
	}
	if diff := cmp.Diff([]int{1, 2, 5, 6, 7}, lines); diff != "" {
		t.Errorf("%s\n%v", diff, err)
	}
}

func TestErrorsOfOthersAreNone(t *testing.T) {
	if e := Errors(nil); e != nil {
		t.Errorf("have %v", e)
	}
}
