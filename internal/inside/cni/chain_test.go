package cni

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/host/kernel/kerneltest"
)

// cnitool calls a list of plugins as a runtime does.
func (n *node) cnitool(command, netns string) (string, error) {
	cmd := exec.Command(filepath.Join(n.bin, "cnitool"), command, "chain", netns)
	cmd.Env = append(os.Environ(), stateEnv+"="+n.dir, bootEnv+"="+n.boot, "CNI_PATH="+n.bin, "NETCONFPATH="+n.dir, "CNI_IFNAME=net1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// A chain with IPAM, tuning and portmap after sluice-cni supports all commands, and older versions of the specification. The bandwidth
// plugin after sluice-cni accepts containers that ask it for nothing; its CHECK fails for every container without a veth.
func TestChain(t *testing.T) {
	for _, version := range []string{"0.4.0", "1.0.0", "1.1.0"} {
		t.Run(version, func(t *testing.T) {
			n := newNode(t)
			netns := n.container("a")
			plugin := strings.TrimPrefix(strings.TrimSpace(strings.Replace(n.conf(device0), `"cniVersion":"1.1.0","name":"net-a",`, "", 1)), "{")
			list := fmt.Sprintf(`{"cniVersion":%q,"name":"chain","plugins":[{%s,
				{"type":"tuning","mtu":1400},{"type":"portmap","capabilities":{"portMappings":true}}]}`, version, plugin)
			if version == "1.0.0" {
				list = strings.TrimSuffix(list, "]}") + `,{"type":"bandwidth","capabilities":{"bandwidth":true}}],"disableCheck":true}`
			}
			if err := os.WriteFile(n.dir+"/chain.conflist", []byte(list), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, command := range []string{"add", "check"} {
				if out, err := n.cnitool(command, netns); err != nil {
					t.Fatalf("%s: %v: %s", command, err, out)
				}
			}
			if have := n.in(netns, "addr show net1"); !strings.Contains(have, "mtu 1400") || !strings.Contains(have, "10.9.0.") {
				t.Error(have)
			}
			commands := []string{"del", "del"}
			if version == "1.1.0" {
				commands = []string{"status", "del", "del"}
			}
			for _, command := range commands {
				if out, err := n.cnitool(command, netns); err != nil {
					t.Errorf("%s: %v: %s", command, err, out)
				}
			}
			kerneltest.IP(t, "link show vf0")
			n.clean()
		})
	}
}

// The result of an earlier plugin is kept, and sluice-cni appends its own.
func TestAfterAnotherPlugin(t *testing.T) {
	n := newNode(t)
	netns := n.container("a")
	prev := `{"cniVersion":"1.1.0","interfaces":[{"name":"lo","sandbox":"/x"}],"ips":[{"address":"127.0.0.1/8","interface":0}]}`
	r := decode(t, n.must(call{"ADD", "a", netns, withResult(n.conf(device0), []byte(prev)), ""}))
	if len(r.Interfaces) != 2 || r.Interfaces[1].Name != "net1" || len(r.IPs) != 2 || *r.IPs[1].Interface != 1 {
		t.Errorf("%+v", r)
	}
	n.must(call{"DEL", "a", netns, n.conf(device0), ""})
	n.clean()
}
