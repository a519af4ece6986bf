//go:build lab

package e2e

import (
	"fmt"
	"time"
)

// network writes a CNI network of the guest that gives the VFs with these indexes to containers; more has further keys for sluice-cni.
func (r *rig) network(name string, more map[string]any, numbers ...int) {
	r.t.Helper()
	var devices []string
	for _, i := range numbers {
		devices = append(devices, r.vfs[i])
	}
	plugin := map[string]any{
		"type": "sluice-cni", "devices": devices,
		"ipam": map[string]any{"type": "host-local", "ranges": [][]map[string]string{{
			{"subnet": "10.9.0.0/24", "rangeStart": "10.9.0.50", "rangeEnd": "10.9.0.69"},
		}}, "dataDir": "/run/cni-ipam"}, // shared by all networks of a test, which then have no address twice
	}
	for key, value := range more {
		plugin[key] = value
	}
	conf := map[string]any{"cniVersion": r.cniVersion, "name": name, "plugins": []any{plugin}}
	r.node("cat >/etc/cni/net.d/%s.conflist <<'END'\n%s\nEND\n", name, jsonText(conf))
}

const cnitool = "CNI_PATH=/opt/cni/bin NETCONFPATH=/etc/cni/net.d cnitool "

// add creates a network namespace and gives it a VF, as a runtime does for a pod.
func (r *rig) add(network, pod string) (string, error) {
	r.t.Helper()
	return r.GuestExec(r.ctx, "node", fmt.Sprintf("export PATH=/opt/cni/bin:$PATH; [ -e /run/netns/%[2]s ] || ip netns add %[2]s; "+
		"ip -n %[2]s link set lo up; %[3]s add %[1]s /run/netns/%[2]s", network, pod, cnitool))
}

// mustAdd is add, which must succeed; it returns the container's address.
func (r *rig) mustAdd(network, pod string) string {
	r.t.Helper()
	out, err := r.add(network, pod)
	if err != nil {
		r.t.Fatalf("ADD: %v\n%s", err, out)
	}
	return r.node("ip -n %s -4 -o addr show eth0 | awk '{print $4}' | cut -d/ -f1", pod)
}

// del returns the VF and deletes the namespace.
func (r *rig) del(network, pod string) error {
	r.t.Helper()
	out, err := r.GuestExec(r.ctx, "node", fmt.Sprintf("export PATH=/opt/cni/bin:$PATH; %[3]s del %[1]s /run/netns/%[2]s && "+
		"ip netns del %[2]s", network, pod, cnitool))
	if err != nil {
		return fmt.Errorf("DEL: %w\n%s", err, out)
	}
	return nil
}

func (r *rig) mustDel(network, pod string) {
	r.t.Helper()
	r.must(r.del(network, pod))
}

// reaches pings from a container until an answer comes.
func (r *rig) reaches(pod, address string) {
	r.t.Helper()
	r.eventually(time.Minute, pod+" reaches "+address, func() error {
		_, err := r.GuestExec(r.ctx, "node", fmt.Sprintf("ip netns exec %s ping -c 1 -W 5 %s", pod, address))
		return err
	})
}
