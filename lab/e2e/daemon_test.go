//go:build lab

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/edge/client"
	"sluice/lab"
)

// binaries is the directory of the programs under test, which `make build` builds.
const binaries = "../../bin/"

const (
	socket     = "/run/sluice/sluice.sock"
	configPath = "/etc/sluice/sluice.yaml"
)

// rig is a lab host with a daemon on it.
type rig struct {
	*lab.Host
	t      *testing.T
	ctx    context.Context
	client *client.Client
	proc   *lab.Proc
	loads  map[string]*lab.Flow
}

// newRig opens a lab with these guests and starts the daemon on the config. The test runs in parallel with others, as far as there is
// room for labs (SLUICE_LAB_SLOTS).
func newRig(t *testing.T, config string, guests ...string) *rig {
	t.Helper()
	t.Parallel()
	return openRig(t, config, lab.Options{Guests: guests})
}

// aloneRig opens a lab with these guests while no other lab runs, and starts the daemon on the config. It is for tests that count lost
// packets.
func aloneRig(t *testing.T, config string, guests ...string) *rig {
	t.Helper()
	return openRig(t, config, lab.Options{Guests: guests, Alone: true})
}

func openRig(t *testing.T, config string, o lab.Options) *rig {
	t.Helper()
	r := &rig{Host: lab.OpenForTest(t, o), t: t, ctx: t.Context(), loads: map[string]*lab.Flow{}}
	for _, name := range []string{"sluice", "sluiced"} {
		r.must(r.Put(r.ctx, binaries+name, "/usr/local/bin/"+name))
	}
	r.run("mkdir -p /etc/sluice /run/sluice /var/lib/sluice")
	r.configure(config)
	r.forward()
	r.start()
	return r
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// run runs a command on the host and returns its output.
func (r *rig) run(format string, args ...any) string {
	r.t.Helper()
	out, err := r.Run(r.ctx, fmt.Sprintf(format, args...))
	r.must(err)
	return strings.TrimSpace(out)
}

func (r *rig) configure(config string) {
	r.t.Helper()
	r.must(r.WriteFile(r.ctx, configPath, config))
}

// forward makes the daemon's socket reachable from here.
func (r *rig) forward() {
	r.t.Helper()
	dir, err := os.MkdirTemp("", "e2e")
	r.must(err)
	r.t.Cleanup(func() { os.RemoveAll(dir) })
	local := filepath.Join(dir, "sock")
	args := append([]string{"-O", "forward", "-L", local + ":" + socket}, r.SSHArgs()...)
	if out, err := exec.CommandContext(r.ctx, "ssh", args...).CombinedOutput(); err != nil {
		r.t.Fatalf("forward the socket: %v: %s", err, out)
	}
	r.client = client.New(local)
}

// start starts the daemon and waits until it answers.
func (r *rig) start() {
	r.t.Helper()
	p, err := r.Start(r.ctx, "exec sluice run --config "+configPath)
	r.must(err)
	r.proc = p
	r.eventually(60*time.Second, "the daemon has looked at the host", func() error {
		if !p.Running() {
			out, _ := p.Output()
			r.t.Fatalf("the daemon ended: %s", out)
		}
		s, err := r.client.Status(r.ctx)
		if err == nil && s.Observed.IsZero() {
			err = fmt.Errorf("not yet: %s", s.Error)
		}
		return err
	})
}

// boot starts a VM that is defined. Under emulation a guest dies at boot now and then.
func (r *rig) boot(vm string) {
	r.t.Helper()
	var err error
	for range 3 {
		r.run("virsh -q destroy %[1]s 2>/dev/null; rm -f /var/log/lab/%[1]s.console; virsh -q start %[1]s", vm)
		_, err = r.Run(r.ctx, fmt.Sprintf(`for ((i = 0; i < 360; i++)); do
			grep -qs 'GUEST UP' /var/log/lab/%[1]s.console && exit 0
			[ -e /run/libvirt/qemu/%[1]s.pid ] || exit 1
			sleep 0.5
		done; exit 1`, vm))
		if err == nil {
			r.eventually(time.Minute, vm+"'s agent", func() error {
				_, err := r.GuestExec(r.ctx, vm, "true")
				return err
			})
			return
		}
		r.t.Logf("%s does not boot: %v\n%s", vm, err, r.run("tail -n 20 /var/log/lab/%s.console || true", vm))
	}
	r.t.Fatalf("%s does not boot: %v", vm, err)
}

// busy is how many times as long as usual a busy machine may take. What must happen within a time is measured by its own test.
const busy = 3

// eventually waits until check passes. limit is for a quiet machine.
func (r *rig) eventually(limit time.Duration, what string, check func() error) {
	r.t.Helper()
	limit *= busy
	deadline := time.Now().Add(limit)
	var last error
	for time.Now().Before(deadline) {
		if last = check(); last == nil {
			return
		}
		time.Sleep(300 * time.Millisecond)
	}
	r.t.Fatalf("not within %s: %s: %v\n%s", limit, what, last, r.state())
}

// state returns what helps to analyse a failed test.
func (r *rig) state() string {
	out, _ := r.Run(context.WithoutCancel(r.ctx), "sluice vms; sluice bw; sluice vfs; sluice fsck; sluice status; ip link show pf0; "+
		"bridge fdb show br br0 | grep 52:54:00:00:01")
	return out
}

// holders lists the VMs whose guests use a VF, by name.
func (r *rig) holders() ([]string, error) {
	vms, err := r.client.VMs(r.ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, v := range vms {
		if v.VF != "" {
			names = append(names, v.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// holding waits until exactly these VMs hold VFs and no move is in progress.
func (r *rig) holding(limit time.Duration, want ...string) time.Duration {
	r.t.Helper()
	begin := time.Now()
	r.eventually(limit, "holders "+strings.Join(want, " "), func() error {
		got, err := r.holders()
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("holders are %v", got)
		}
		return err
	})
	return time.Since(begin)
}

// idle waits until no move is in progress.
func (r *rig) idle(limit time.Duration) {
	r.t.Helper()
	r.eventually(limit, "no move under way", func() error {
		p, err := r.client.Plan(r.ctx)
		if err == nil && len(p.Active)+len(p.Pending) > 0 {
			err = fmt.Errorf("%d under way, %d wait", len(p.Active), len(p.Pending))
		}
		return err
	})
}

// reach checks that the guest answers on its network, to the host and to the outside.
func (r *rig) reach(vm string) {
	r.t.Helper()
	r.eventually(20*time.Second, vm+" answers", func() error {
		_, err := r.Run(r.ctx, fmt.Sprintf("ping -c 1 -W 1 %s && ip netns exec ext ping -c 1 -W 1 %s", lab.Address(vm), lab.Address(vm)))
		return err
	})
}

// clean checks that fsck finds nothing and that free VFs carry nothing.
func (r *rig) clean() {
	r.t.Helper()
	r.eventually(60*time.Second, "fsck finds nothing", func() error {
		f, err := r.client.Fsck(r.ctx)
		if err != nil {
			return err
		}
		for _, x := range f.Findings {
			return fmt.Errorf("%s %s: %s", x.Code, x.Subject, x.Text)
		}
		return nil
	})
}

// rate makes the VM send that many packets per second to the host, which discards them silently: another guest would be loaded too, by
// the packets and by its ICMP errors for them.
func (r *rig) rate(vm string, pps float64) {
	r.t.Helper()
	if f := r.loads[vm]; f != nil {
		r.must(f.SetRate(r.ctx, pps, 64))
		return
	}
	f, err := r.StartFlow(r.ctx, lab.Traffic{From: vm, To: "host", PPS: pps, Size: 64, Gap: time.Minute})
	r.must(err)
	r.loads[vm] = f
}

func (r *rig) explain(vm string) string {
	r.t.Helper()
	e, err := r.client.Explain(r.ctx, vm)
	r.must(err)
	return e.Sentence
}
