package tap

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/model"
)

// switcherEnv makes this test binary a process that creates, changes and removes the switch port of tap0 until it is killed. Its
// value is the mount point of the BPF file system.
const switcherEnv = "SLUICE_TEST_SWITCH_TAP"

func switchForever() {
	ctx := context.Background()
	h, err := openHost(options{BPFFS: os.Getenv(switcherEnv)})
	for i := 0; err == nil; i++ {
		if _, err = h.SetSwitchPort(ctx, ofGuest(func(r *model.SwitchRule) { r.VLAN = 10 + i%2 })); err == nil && i%5 == 0 {
			err = h.RemoveSwitchPort(ctx, "tap0")
		}
		if err == nil && i%3 == 0 {
			_, err = h.UpdateTap(ctx, "tap0", func(p *Policy) { p.Tx.Contract.Bits = 1e9 * uint64(i%2) })
		}
		if i == 0 {
			fmt.Println("begun")
		}
	}
	fmt.Println(err)
	os.Exit(1)
}

// TestSwitchSurvivesKill checks that, whenever a process is killed, the next one reads the current state, can set any other, and
// leaves nothing behind.
func TestSwitchSurvivesKill(t *testing.T) {
	h := newHost(t)
	tap, out := twoPorts(t)
	found := map[string]int{}
	for i := range 20 {
		switcher := kerneltest.StartAgain(t, switcherEnv, h.taps.pins.BPFFS, "begun")
		time.Sleep(time.Duration(i) * 3 * time.Millisecond) // to kill it at a different point each time
		kerneltest.Must(t, switcher.Process.Kill())
		_ = switcher.Wait()
		next := newHostWith(t, options{BPFFS: h.taps.pins.BPFFS})
		all := switchPorts(t, next)
		if len(all) > 0 {
			found[fmt.Sprintf("VLAN %d, detached %v", all[0].Rules[0].VLAN, all[0].Detached)]++
		}
		if i%2 == 0 {
			setPort(t, next, access)
			holdsTo10(t, tap, out)
		}
		kerneltest.Must(t, next.RemoveTap(kerneltest.Soon(t), "tap0"))
		kerneltest.Must(t, next.RemoveSwitchPort(kerneltest.Soon(t), "tap0"))
		noPolicies(t, next)
		spoofed := kerneltest.Frame(kerneltest.Stray, kerneltest.Other, "nothing holds it any more")
		tap.Send(t, spoofed)
		out.Expect(t, spoofed)
	}
	t.Log("found:", found)
}
