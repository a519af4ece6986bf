package neutron

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/host/libvirt/libvirttest"
)

// The same under OVN: Neutron's driver writes to OVN's databases, where the agent reads it.
func TestOVN(t *testing.T) {
	if os.Getenv("SLUICE_TEST_NEUTRON") != "1" {
		t.Skip("starts OVN and Neutron: `scripts/measure neutron` runs it")
	}
	b := newBed(t, "ovn")
	b.startSluice()
	b.d.Run(t, "bash", "-euc", `
		for db in nb sb; do ovsdb-tool create $0/$db.db /usr/share/ovn/ovn-$db.ovsschema; done
		ovs-vsctl add-br br-int -- set bridge br-int datapath_type=netdev fail_mode=secure -- set open . external_ids:system-id=chassis1 \
			external_ids:hostname=host1 external_ids:ovn-remote=unix:$0/sb.sock external_ids:ovn-encap-type=geneve \
			external_ids:ovn-encap-ip=127.0.0.1 external_ids:ovn-bridge=br-int external_ids:ovn-bridge-datapath-type=netdev \
			external_ids:ovn-bridge-mappings=physnet1:br-phys`, b.dir)
	b.startDatabases()
	b.startAPI()
	b.start("ovn-controller", "env", "OVN_RUNDIR="+b.dir, "ovn-controller", "--no-chdir")
	b.neutron("ovn-agent")
	b.eventually("Neutron's agent has started", func() bool { return b.logged("ovn-agent", "OVN Neutron Agent started") })

	network, policy := b.api("POST", "networks", object{"network": object{"name": "n"}})["id"].(string), b.policy()
	vm := libvirttest.VM{Name: "v1"}
	port, tap := b.boot(&vm, network, policy)
	b.watch()
	rule := b.change(tap, policy)
	b.add(policy, "bandwidth_limit", object{"max_kbps": 50_000, "direction": "ingress"})
	b.until(fmt.Sprintf("%s tx %dMbit rx 50Mbit", tap, 100+*changes))

	bits := b.policy()
	b.add(bits, "minimum_bandwidth", object{"min_kbps": 1000, "direction": "egress"})
	b.add(bits, "bandwidth_limit", object{"max_kbps": 40_000, "direction": "egress"})
	b.use(port, bits) // there is no PF: that is refused, and the limit is kept
	b.until(tap + " tx 40Mbit rx any")
	b.eventually("the agent says what is refused", func() bool { return b.logged("ovn-agent", "Sluice does not keep what is guaranteed to port "+port) })
	b.use(port, policy)
	b.until(fmt.Sprintf("%s tx %dMbit rx 50Mbit", tap, 100+*changes))

	b.unchanged("OVN's databases are away, and the agent restarts meanwhile", func() {
		b.kill("northd", "nb", "sb")
		time.Sleep(*away / 2)
		b.heard(b.told())
		b.kill("ovn-agent")
		b.neutron("ovn-agent")
		b.eventually("the new agent looks for OVN's databases", func() bool { return b.logged("ovn-agent", "Loaded chassis name") })
		time.Sleep(*away / 2)
		b.startDatabases()
		b.eventually("Neutron's agent has started", func() bool { return b.logged("ovn-agent", "OVN Neutron Agent started") })
		b.heard(0)
	})
	_, n := b.now()
	b.kill("northd", "nb", "sb")
	b.startDatabases()
	b.api("PUT", rule, object{"bandwidth_limit_rule": object{"max_kbps": 70_000}})
	b.until(tap + " tx 70Mbit rx 50Mbit")
	if _, m := b.now(); m != n+1 {
		t.Errorf("OVN's databases restart and a rule changes: limits have changed in %d steps", m-n)
	}
	b.kill("sluiced")
	b.api("PUT", rule, object{"bandwidth_limit_rule": object{"max_kbps": 60_000}})
	b.startSluice()
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

// startDatabases starts OVN's databases and northd.
func (b *bed) startDatabases() {
	b.Helper()
	for _, db := range []string{"nb", "sb"} {
		b.start(db, "ovsdb-server", filepath.Join(b.dir, db+".db"), "--no-chdir", "--remote=p"+b.socket(db), "--unixctl="+filepath.Join(b.dir, db+".ctl"))
	}
	b.start("northd", "env", "OVN_RUNDIR="+b.dir, "ovn-northd", "--no-chdir", "--ovnnb-db="+b.socket("nb"), "--ovnsb-db="+b.socket("sb"))
}

func (b *bed) socket(db string) string { return "unix:" + filepath.Join(b.dir, db+".sock") }

// told is how often the agent that runs has told the daemon of all ports; heard waits until it has done so more than n times.
func (b *bed) told() int { return b.count("ovn-agent", "has taken the SLAs of") }

func (b *bed) heard(n int) {
	b.Helper()
	b.eventually("the agent has told the daemon", func() bool { return b.told() > n })
}
