package neutron

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/host/libvirt/libvirttest"
)

var (
	changes = flag.Int("changes", 3, "how often a rule is changed and the time taken")
	within  = flag.Duration("within", 3*time.Second, "how soon each of these changes has to be in the kernel; 0: however busy the machine is")
	away    = flag.Duration("away", 0, "how long Neutron is away: half of it before the agent restarts, half of it after")
)

// What Neutron's API is told of QoS is in the kernel soon, whatever is restarted, and stays there while Neutron is away.
func TestNeutron(t *testing.T) {
	if os.Getenv("SLUICE_TEST_NEUTRON") != "1" {
		t.Skip("starts RabbitMQ and Neutron: `scripts/measure neutron` runs it")
	}
	b := newBed(t, "openvswitch")
	b.startSluice()
	b.startNeutron()
	b.neutron("ovs-agent")
	b.eventually("Neutron's agent is alive", func() bool {
		out, err := b.try("api.sock", "GET", "/v2.0/agents", nil)
		return err == nil && strings.Contains(fmt.Sprint(out), "alive:true")
	})

	network := b.api("POST", "networks", object{"network": object{"name": "n"}})["id"].(string)
	policy := b.policy()
	vm := libvirttest.VM{Name: "v1"}
	port, tap := b.boot(&vm, network, policy)
	b.eventually("the port is ACTIVE", func() bool { return b.api("GET", "ports/"+port, nil)["status"] == "ACTIVE" })
	b.watch()

	rule := b.change(tap, policy)

	b.add(policy, "bandwidth_limit", object{"max_kbps": 50_000, "direction": "ingress"})
	limit := b.add(policy, "packet_rate_limit", object{"max_kpps": 20, "direction": "egress"})
	b.until(fmt.Sprintf("%s tx %dMbit 20kpps rx 50Mbit", tap, 100+*changes))

	// Without Placement, Neutron lets minima be added only to policies that no port has.
	packets, bits := b.policy(), b.policy()
	b.add(packets, "minimum_packet_rate", object{"min_kpps": 10, "direction": "any"})
	b.add(packets, "bandwidth_limit", object{"max_kbps": 30_000, "direction": "egress"})
	b.add(bits, "minimum_bandwidth", object{"min_kbps": 1000, "direction": "egress"})
	b.add(bits, "bandwidth_limit", object{"max_kbps": 40_000, "direction": "egress"})
	b.use(port, packets)
	b.until(tap + " tx 30Mbit rx any")
	if said := b.ports(); !strings.Contains(said, "guarantee:map[packets_per_second:10000]") || strings.Contains(said, "refused") {
		t.Errorf("the minimum packet rate is not guaranteed: %s", said)
	}
	b.use(port, bits) // there is no PF: that is refused, and the limit is kept
	b.until(tap + " tx 40Mbit rx any")
	b.eventually("the agent says what is refused", func() bool {
		return b.logged("ovs-agent", "Sluice does not keep what is guaranteed to port "+port+" (its limits it does): no PF connects")
	})
	b.use(port, policy)
	b.until(fmt.Sprintf("%s tx %dMbit 20kpps rx 50Mbit", tap, 100+*changes))

	b.unchanged("the agent is killed and started", func() {
		b.kill("ovs-agent")
		b.neutron("ovs-agent")
		b.eventually("it has read the port's policy", func() bool { return b.sees(port) })
	})
	b.unchanged("the daemon is killed and started", func() {
		b.kill("sluiced")
		b.eventually("the agent says so", func() bool { return b.logged("ovs-agent", "Sluice's daemon does not take the SLAs") })
		b.startSluice()
		b.eventually("the agent says that it is back", func() bool { return b.logged("ovs-agent", "Sluice's daemon takes the SLAs of ports again") })
	})
	b.kill("sluiced")
	b.api("DELETE", limit, nil)
	b.startSluice()
	b.until(fmt.Sprintf("%s tx %dMbit rx 50Mbit", tap, 100+*changes))

	b.unchanged("Neutron is away, and the agent restarts meanwhile", func() {
		b.kill("rpc", "api", "rabbitmq")
		b.eventually("the agent misses Neutron", func() bool { return b.logged("ovs-agent", "is unreachable") })
		time.Sleep(*away / 2)
		b.kill("ovs-agent")
		b.neutron("ovs-agent")
		b.eventually("the new agent misses Neutron", func() bool { return b.logged("ovs-agent", "Errno 111") })
		time.Sleep(*away / 2)
		b.startNeutron()
		b.eventually("it has read the port's policy", func() bool { return b.sees(port) })
	})
	b.api("PUT", rule, object{"bandwidth_limit_rule": object{"max_kbps": 60_000}})
	b.until(tap + " tx 60Mbit rx 50Mbit")

	other := b.policy()
	b.add(other, "bandwidth_limit", object{"max_kbps": 7000, "direction": "egress"})
	b.use(port, nil)
	b.until("")
	b.api("PUT", "networks/"+network, object{"network": object{"qos_policy_id": other}})
	b.until(tap + " tx 7Mbit rx any")
	b.d.Destroy(t, vm.Name)
	b.eventually("the port's SLA is lifted", func() bool { return !strings.Contains(b.ports(), port) })
}

// startNeutron starts RabbitMQ and Neutron's servers.
func (b *bed) startNeutron() {
	b.Helper()
	b.neutron("rabbitmq")
	b.eventually("RabbitMQ has started", func() bool { return b.logged("rabbitmq", "completed with") })
	b.neutron("rpc")
	b.startAPI()
}

func (b *bed) startAPI() {
	b.Helper()
	b.neutron("api")
	b.eventually("Neutron's API answers", func() bool { _, err := b.try("api.sock", "GET", "/v2.0/agents", nil); return err == nil })
}

type object map[string]any

// policy makes a QoS policy.
func (b *bed) policy() (id string) {
	b.Helper()
	return b.api("POST", "qos/policies", object{"policy": object{"name": "q"}})["id"].(string)
}

// add adds a rule to a policy, and returns its path.
func (b *bed) add(policy, kind string, rule object) (path string) {
	b.Helper()
	path = "qos/policies/" + policy + "/" + kind + "_rules"
	return path + "/" + b.api("POST", path, object{kind + "_rule": rule})["id"].(string)
}

// change gives a policy a limit, changes it a few times, and takes the time until the port's tap has it.
func (b *bed) change(tap, policy string) (rule string) {
	b.Helper()
	rule = b.add(policy, "bandwidth_limit", object{"max_kbps": 100_000, "direction": "egress"})
	b.until(tap + " tx 100Mbit rx any")
	var took []time.Duration
	for i := range *changes {
		mbit := 101 + i
		b.api("PUT", rule, object{"bandwidth_limit_rule": object{"max_kbps": mbit * 1000}})
		answered := time.Now()
		took = append(took, b.until(fmt.Sprintf("%s tx %dMbit rx any", tap, mbit)).Sub(answered))
	}
	slices.Sort(took)
	median, most := took[len(took)/2].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond)
	b.Logf("from the answer of Neutron's API to the limit in the kernel, %d changes: median %s, max %s", len(took), median, most)
	if *within > 0 && most > *within {
		b.Errorf("a change took %s, more than %s", most, *within)
	}
	return rule
}

// use gives a port another policy, or none.
func (b *bed) use(port string, policy any) {
	b.Helper()
	b.api("PUT", "ports/"+port, object{"port": object{"qos_policy_id": policy}})
}

// ports is what the daemon makes of the ports that it was told of.
func (b *bed) ports() string {
	b.Helper()
	return fmt.Sprint(b.ask("sluice.sock", "GET", "/v1/ports", nil))
}

// boot does Nova's part: it makes a port for a VM on this host, and has libvirt plug the VM's tap into the integration bridge.
func (b *bed) boot(vm *libvirttest.VM, network, policy string) (port, tap string) {
	b.Helper()
	p := b.api("POST", "ports", object{"port": object{
		"network_id": network, "qos_policy_id": policy, "device_id": vm.UUID(), "device_owner": "compute:nova", "binding:host_id": "host1",
	}})
	port = p["id"].(string)
	if kind := p["binding:vif_type"]; kind != "ovs" && kind != "vhostuser" { // the latter of OVN's driver for a datapath in user space
		b.Fatalf("the port is not bound: %v", p)
	}
	tap = "tap" + port[:11]
	vm.NICs = []string{fmt.Sprintf(`<interface type='bridge'><mac address='%s'/><source bridge='br-int'/><virtualport type='openvswitch'>`+
		`<parameters interfaceid='%s'/></virtualport><target dev='%s'/><model type='virtio'/><alias name='ua-net0'/><rom enabled='no'/></interface>`,
		p["mac_address"], port, tap)}
	b.d.Create(b, *vm)
	b.d.Virsh(b, "resume", vm.Name)
	return port, tap
}

// sees reports whether the agent that runs has handled the port.
func (b *bed) sees(port string) bool { return b.logged("ovs-agent", "Port "+port+" updated") }
