package libvirttest

import (
	"fmt"
	"testing"
)

// OVSNetwork is a network of libvirt that is VSwitch, after StartOVS; its port group VLANGroup has the VLAN GroupVLAN.
const (
	OVSNetwork = "ovsnet"
	VLANGroup  = "tenant"
	GroupVLAN  = 9
)

const startOVS = `
dir=$1 bridge=$2
ovsdb-tool create $dir/conf.db /usr/share/openvswitch/vswitch.ovsschema
ovsdb-server $dir/conf.db --remote=punix:/run/openvswitch/db.sock --pidfile --detach --log-file=$dir/ovsdb-server.log
ovs-vsctl --timeout=60 --no-wait init
ovs-vswitchd --pidfile --detach --log-file=$dir/ovs-vswitchd.log
ovs-vsctl --timeout=60 add-br $bridge -- set bridge $bridge datapath_type=netdev
`

// StartOVS runs an Open vSwitch with the bridge VSwitch beside libvirtd, which plugs VMs' taps into it. Its datapath is in user space, as
// not every kernel has the other.
func (d *Daemon) StartOVS(t testing.TB) {
	t.Helper()
	d.Run(t, "bash", "-euc", startOVS, "ovs", t.TempDir(), VSwitch)
	d.Virsh(t, "net-define", d.File(t, fmt.Sprintf(`<network><name>%s</name><forward mode='bridge'/><bridge name='%s'/>
<virtualport type='openvswitch'/><portgroup name='%s'><vlan><tag id='%d'/></vlan></portgroup></network>`,
		OVSNetwork, VSwitch, VLANGroup, GroupVLAN)))
	d.Virsh(t, "net-start", OVSNetwork)
}
