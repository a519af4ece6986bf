package cni

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/internal/channel"
)

// A container gets a VF with the requested policy, and deleting it, even twice, restores the previous state.
func TestAddCheckDel(t *testing.T) {
	n := newNode(t)
	netns := n.container("a")
	conf := n.conf(device0 + `"mac":"52:54:00:AB:00:77","vlan":100,"spoofchk":"on","isolated":true,"guarantee":"1Gbit","weight":2,`)
	args := "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=till-0"
	out := n.must(call{"ADD", "a", netns, conf, args})
	r := decode(t, out)
	if len(r.Interfaces) != 1 || r.Interfaces[0].Name != "net1" || r.Interfaces[0].Mac != "52:54:00:ab:00:77" ||
		r.Interfaces[0].Sandbox != netns || r.Interfaces[0].PciID != vf0 || len(r.IPs) != 1 || *r.IPs[0].Interface != 0 {
		t.Errorf("result %s", out)
	}
	if have := n.in(netns, "addr show net1"); !strings.Contains(have, "52:54:00:ab:00:77") || !strings.Contains(have, "10.9.0.") ||
		!strings.Contains(have, "UP") {
		t.Error("in the container:", have)
	}
	yes := true
	want := channel.Attach{
		VF: channel.VF{PF: pfMAC}, Owner: "a/net1", MAC: "52:54:00:AB:00:77", VLAN: 100, SpoofChk: &yes, Isolated: &yes,
		Guarantee: "1Gbit", Weight: 2,
	}
	same(t, n.host.request(0), want)

	check := call{"CHECK", "a", netns, withResult(conf, out), ""}
	n.must(check)
	n.in(netns, "link set net1 address 52:54:00:ab:00:78")
	n.fails(check, 999, "doesn't match container Mac")
	n.in(netns, "link set net1 address 52:54:00:ab:00:77")
	n.must(check)
	n.host.set(func(h *fakeHost) { clear(h.held) })
	n.fails(check, CodeUnknown, "no longer has VF")

	n.fails(call{"ADD", "a", netns, conf, ""}, 4, "call DEL first")
	n.must(call{"DEL", "a", netns, conf, ""})
	n.clean()
	n.fails(check, 3, "no interface net1")
	n.must(call{"DEL", "a", netns, conf, ""})
	n.clean()
}

func TestTwoContainers(t *testing.T) {
	n := newNode(t)
	a, b := n.container("a"), n.container("b")
	n.add("a", a, n.conf(device0))
	n.fails(call{"ADD", "b", b, n.conf(device0), ""}, 11, "a container has it")
	n.add("b", b, n.conf(device1))
	if have := n.host.attached(); !slices.Equal(have, []string{"a/net1", "b/net1"}) {
		t.Error(have)
	}
	n.must(call{"DEL", "a", a, n.conf(device0), ""})
	if have := n.host.attached(); !slices.Equal(have, []string{"b/net1"}) {
		t.Error(have)
	}
	n.in(b, "link show net1")
	n.must(call{"DEL", "b", b, n.conf(device1), ""})
	n.clean()
}

// A request that the host refuses has no effect.
func TestRefused(t *testing.T) {
	n := newNode(t)
	netns := n.container("a")
	for code, want := range map[string]uint{
		channel.CodeDenied: CodeDenied, channel.CodeUnknown: CodeUnknown, channel.CodeInvalid: 7, channel.CodeVersion: 50, channel.CodeBusy: 11,
		channel.CodeFailed: 11, channel.CodeNoDaemon: 11,
	} {
		n.host.set(func(h *fakeHost) {
			h.refuse = func(method channel.Method, _ string) error {
				if method != channel.MethodAttach {
					return nil
				}
				return &channel.Error{Code: code, Text: "VLAN 100 is not allowed", Remedy: "ask for another"}
			}
		})
		n.fails(call{"ADD", "a", netns, n.conf(device0 + `"vlan":100,`), ""}, want, "VLAN 100 is not allowed: ask for another")
		n.clean()
	}
	if have := n.in(netns, "link show"); strings.Contains(have, "net1") {
		t.Error(have)
	}
}

// A failure after the policy is in force revokes the policy, and is reported.
func TestDelegateFails(t *testing.T) {
	n := newNode(t)
	netns := n.container("a")
	n.in(netns, "link add net1 type veth peer name taken") // the name is taken
	n.fails(call{"ADD", "a", netns, n.conf(device0 + `"mac":"52:54:00:ab:00:77",`), ""}, 999, "host-device")
	n.clean()
	if have := n.host.did(); !slices.Equal(have, []string{"attach 0", "detach 0"}) {
		t.Error(have)
	}
	n.in(netns, "link del net1")

	full := strings.Replace(n.conf(device0), "10.9.0.0/24", "nonsense", 1)
	n.fails(call{"ADD", "a", netns, full, ""}, 999, "nonsense")
	n.must(call{"DEL", "a", netns, n.conf(device0), ""})
	n.clean()

	missing := strings.Replace(n.conf(device0), `"host-local"`, `"no-such-ipam"`, 1)
	n.fails(call{"ADD", "a", netns, missing, ""}, 999, "no-such-ipam")
	if have := n.host.attached(); len(have) > 0 {
		t.Error(have)
	}
	n.must(call{"DEL", "a", netns, n.conf(device0), ""})
	n.clean()
}

func TestConfErrors(t *testing.T) {
	n := newNode(t)
	netns := n.container("a")
	n.link("/bin/false", "host-device") // the plugin must not get this far
	for name, c := range map[string]struct {
		conf, args string
		code       uint
		text       string
	}{
		"no device":   {n.conf(""), "", 7, "Multus passes deviceID"},
		"no VF":       {n.conf(`"deviceID":"0000:03:00.0",`), "", 7, "is not a VF"},
		"no such":     {n.conf(`"pciBusID":"0000:01:00.7",`), "", 7, "no PCI device"},
		"no driver":   {n.conf(`"deviceID":"0000:01:00.3",`), "", 999, "has no driver"},
		"no address":  {n.conf(`"deviceID":"../../etc",`), "", 7, "is not a PCI address"},
		"bad switch":  {n.conf(device0 + `"spoofchk":"perhaps",`), "", 6, "neither on nor off"},
		"limit twice": {n.conf(device0 + `"limit":"1Gbit","args":{"cni":{"limit":"2Gbit"}},`), "", 7, "its network sets one"},
		"ingress twice": {
			n.conf(device0 + `"receive":"1Gbit","runtimeConfig":{"bandwidth":{"ingressRate":1000}},`), "", 7,
			"its network sets one",
		},
		"egress twice": {n.conf(device0 + `"limit":"1Gbit","runtimeConfig":{"bandwidth":{"egressRate":1000}},`), "", 7, "its network sets one"},
		"bad weight": {
			n.conf(device0 + `"runtimeConfig":{"io.kubernetes.cri.pod-annotations":{"sluice/weight":"x"}},`), "", 7,
			"is not a number",
		},
		"no name":       {`{"cniVersion":"1.1.0","type":"sluice-cni"}`, "", 7, "missing network name"},
		"other version": {`{"cniVersion":"9.0.0","name":"n","type":"sluice-cni"}`, "", 1, "incompatible"},
	} {
		t.Run(name, func(t *testing.T) {
			n := &node{T: t, dir: n.dir, bin: n.bin, boot: n.boot, host: n.host}
			n.fails(call{"ADD", "a", netns, c.conf, c.args}, c.code, c.text)
			n.clean()
		})
	}
	n.fails(call{"ADD", "a", "/run/netns/none", n.conf(device0), ""}, 8, "no network namespace")
	n.clean()
}

// The container's namespace is gone, and the kernel has returned the interface under its name in the container.
func TestDelWithoutNamespace(t *testing.T) {
	n := newNode(t)
	for _, told := range []bool{false, true} {
		netns := n.container("a")
		n.add("a", netns, n.conf(device0+`"mac":"52:54:00:ab:00:77",`))
		n.in(netns, "link set net1 netns "+self)
		n.del(netns)
		if !told {
			netns = ""
		}
		n.must(call{"DEL", "a", netns, n.conf(device0), ""})
		n.clean()
	}
}

// The container's namespace is gone, or the interface was renamed in it, and the kernel has not returned it yet: DEL succeeds, and the
// next user of the VF finds the interface in its original state.
func TestDelBeforeTheInterfaceIsBack(t *testing.T) {
	n := newNode(t)
	limbo := n.container("limbo")
	for _, gone := range []bool{true, false} {
		a, b := n.container("a"), n.container("b")
		n.add("a", a, n.conf(device0+`"mac":"52:54:00:ab:00:77",`))
		n.in(a, "link set net1 name other down")
		if gone {
			n.in(a, "link set other netns "+filepath.Base(limbo))
			n.del(a)
		} else {
			n.in(a, "link add net1 type veth peer name net2") // the container's own interface
		}
		n.must(call{"DEL", "a", a, n.conf(device0), ""})
		if have := n.host.attached(); len(have) > 0 {
			t.Error(have)
		}
		if !gone {
			n.fails(call{"ADD", "b", b, n.conf(device0), ""}, 11, "a container has it")
			n.in(a, "link set other netns "+filepath.Base(limbo))
			n.del(a)
		}
		n.in(limbo, "link set other netns "+self)
		n.add("b", b, n.conf(device0))
		n.must(call{"DEL", "b", b, n.conf(device0), ""})
		n.clean()
		n.del(b)
	}
}

// The number of VFs was set to 0 while a container had one: there is nothing to return.
func TestDelWithoutVF(t *testing.T) {
	n := newNode(t)
	a := n.container("a")
	n.add("a", a, n.conf(device0))
	n.gone = "yes"
	n.must(call{"DEL", "a", a, n.conf(device0), ""})
	if left, _ := filepath.Glob(n.dir + "/state/*.json"); len(left) > 0 || len(n.host.attached()) > 0 {
		t.Error(left, n.host.attached())
	}
}

// Without an ADD there is nothing to do, with or without a daemon.
func TestDelWithoutAdd(t *testing.T) {
	n := newNode(t)
	netns := n.container("a")
	n.host.stop()
	n.must(call{"DEL", "a", netns, n.conf(device0), ""})
	n.must(call{"DEL", "a", "", n.conf(""), ""})
	n.clean()
}

// If the host cannot be reached, ADD changes nothing. DEL takes the VF from the container, and fails until the host knows.
func TestNoDaemon(t *testing.T) {
	n := newNode(t)
	a, b := n.container("a"), n.container("b")
	n.add("a", a, n.conf(device0))
	n.host.stop()
	n.fails(call{"ADD", "b", b, n.conf(device1), ""}, 11, "systemctl status sluice-guest")
	n.must(call{"DEL", "b", b, n.conf(device1), ""}) // there is nothing to undo for it
	n.fails(call{"STATUS", "", "", n.conf(""), ""}, 50, "systemctl status sluice-guest")
	n.fails(call{"DEL", "a", a, n.conf(device0), ""}, 11, "systemctl status sluice-guest")
	if have := n.in(a, "link show"); strings.Contains(have, "net1") {
		t.Error("the container still has it:", have)
	}
	n.fails(call{"GC", "", "", n.conf(""), ""}, 11, "systemctl status sluice-guest")
	n.host.start(t)
	n.must(call{"DEL", "a", a, n.conf(device0), ""})
	n.must(call{"DEL", "b", b, n.conf(device0), ""})
	n.clean()
}

func TestStatus(t *testing.T) {
	n := newNode(t)
	n.must(call{"STATUS", "", "", n.conf(""), ""})
	n.link("/nowhere", "host-device")
	n.fails(call{"STATUS", "", "", n.conf(""), ""}, 50, "host-device")
	if out := string(n.must(call{"VERSION", "", "", "", ""})); !strings.Contains(out, `"1.1.0"`) {
		t.Error(out)
	}
}

// The addresses that IPAM assigns are added to the policy.
func TestCheckAddresses(t *testing.T) {
	n := newNode(t)
	netns := n.container("a")
	conf := n.conf(device0 + `"check_arp":true,"check_addresses":true,"addresses":["10.1.1.1"],`)
	r := n.add("a", netns, conf)
	if have := n.host.request(0).Addresses; !slices.Equal(have, []string{"10.1.1.1", r.IPs[0].Address.IP.String()}) {
		t.Error(have)
	}
	n.must(call{"DEL", "a", netns, conf, ""})
	n.host.set(func(h *fakeHost) {
		h.refuse = func(_ channel.Method, body string) error {
			if strings.Contains(body, "10.9.0.") {
				return &channel.Error{Code: channel.CodeDenied, Text: "no such address"}
			}
			return nil
		}
	})
	n.fails(call{"ADD", "a", netns, conf, ""}, CodeDenied, "no such address")
	n.clean()
}

// A failing IPAM plugin does not keep the VF from being returned.
func TestDelWithoutIPAM(t *testing.T) {
	n := newNode(t)
	a := n.container("a")
	n.add("a", a, n.conf(device0))
	n.link("/nowhere", "host-local")
	n.fails(call{"DEL", "a", a, n.conf(device0), ""}, 999, "host-local")
	if have := n.host.attached(); len(have) > 0 || !exists("/sys/class/net/vf0") {
		t.Error("the container still has it:", have)
	}
	n.link(filepath.Join(os.Getenv(pluginsEnv), "host-local"), "host-local")
	n.must(call{"DEL", "a", a, n.conf(device0), ""})
	n.clean()
}

// Each container gets a free device from a list.
func TestDevices(t *testing.T) {
	n := newNode(t)
	conf := n.conf(`"devices":["` + vf0 + `","` + vf1 + `"],`)
	a, b, c := n.container("a"), n.container("b"), n.container("c")
	n.add("a", a, conf)
	n.add("b", b, conf)
	n.fails(call{"ADD", "c", c, conf, ""}, 11, "none of the 2 devices")
	n.must(call{"DEL", "a", a, conf, ""})
	if r := n.add("c", c, conf); r.Interfaces[0].PciID != vf0 {
		t.Error(r)
	}
	n.must(call{"DEL", "b", b, conf, ""})
	n.must(call{"DEL", "c", c, conf, ""})
	n.clean()

	n.host.set(func(h *fakeHost) { h.held[channel.VF{PF: pfMAC}] = channel.Attach{Owner: "who/knows"} })
	if r := n.add("a", a, conf); r.Interfaces[0].PciID != vf1 {
		t.Error("one that somebody else has attached:", r)
	}
	n.must(call{"DEL", "a", a, conf, ""})
}

// A pod requests by annotation what its network leaves open.
func TestPodAsks(t *testing.T) {
	n := newNode(t)
	netns := n.container("a")
	conf := n.conf(device0 + `"limit":"5Gbit","args":{"cni":{"guarantee":"1Gbit"}},
		"runtimeConfig":{"mac":"52:54:00:ab:00:70","io.kubernetes.cri.pod-annotations":{"sluice/weight":"3","sluice/guarantee":"2Gbit","other":"x"}},`)
	n.must(call{"ADD", "a", netns, conf, "MAC=52:54:00:ab:00:71"})
	got := n.host.request(0)
	if got.Limit != "5Gbit" || got.Guarantee != "1Gbit" || got.Weight != 3 || got.MAC != "52:54:00:ab:00:70" {
		t.Errorf("%+v", got)
	}
	n.must(call{"DEL", "a", netns, conf, ""})
	n.clean()

	conf = n.conf(device0 + `"runtimeConfig":{"bandwidth":{"egressRate":10000000,"egressBurst":1,"ingressRate":5}},`)
	n.must(call{"ADD", "a", netns, conf, ""})
	if have := n.host.request(0); have.Limit != "10000000bit" || have.Receive != "5bit" {
		t.Error(have)
	}
	n.must(call{"DEL", "a", netns, conf, ""})
	n.clean()
}

func TestRecordPathsDiffer(t *testing.T) {
	p := &Plugin{Dir: "/x"}
	if p.path("a", "b-c") == p.path("a-b", "c") || filepath.Dir(p.path("a", "b")) != "/x" {
		t.Error(p.path("a", "b-c"))
	}
}
