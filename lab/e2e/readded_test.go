//go:build lab

package e2e

import (
	"strings"
	"testing"
	"time"

	"sluice/api/v1"
)

// TestQEMUAddsTheVFAgain: QEMU gives a guest of net_failover that reboots the VF back that it once had, if the VF is free, without libvirt.
// Who is to have the VF gets it nevertheless.
func TestQEMUAddsTheVFAgain(t *testing.T) {
	r := faultRig{newRig(t, oneVF, "vm1", "vm2")}
	r.settle("vm2")
	_, err := r.client.Do(r.ctx, api.VerbDrain, api.Request{})
	r.must(err)
	r.holding(time.Minute)
	r.idle(time.Minute)
	r.must(r.Reboot(r.ctx, "vm2"))
	delete(r.loads, "vm2") // its sender ended with the guest
	const peripherals = `{"execute":"qom-list","arguments":{"path":"/machine/peripheral"}}`
	if in := r.run("virsh -q qemu-monitor-command vm2 '%s'", peripherals); !strings.Contains(in, "ua-sluice-525400000102") {
		t.Fatalf("QEMU has not added the VF again, so that this test shows nothing: %s", in)
	}
	_, err = r.client.Do(r.ctx, api.VerbUndrain, api.Request{})
	r.must(err)
	r.settle("vm1")
	r.sound()
	if in := r.run("virsh -q qemu-monitor-command vm2 '%s'", peripherals); strings.Contains(in, "ua-sluice-525400000102") {
		t.Errorf("QEMU of vm2 still has the VF: %s", in)
	}
	r.settle("vm2")
	r.sound()
}
