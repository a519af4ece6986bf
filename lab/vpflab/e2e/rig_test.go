//go:build lab

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/api/v1"
	"sluice/internal/edge/client"
	"sluice/lab"
	"sluice/lab/vpflab"
)

const (
	vfs    = 4
	config = `mode: enforce
pfs: []
virtual_pfs:
  guests:
    - match: node
      macs: "02:*"
      vlans: "10-20"
`
)

// rig is a lab with a daemon, and the guest node, which has the virtual PF vpf0.
type rig struct {
	*vpflab.Host
	t      *testing.T
	ctx    context.Context
	client *client.Client
	daemon *vpflab.Proc
	pf     string   // PCI address of the PF in node
	vfs    []string // of the PF's VFs
	serial *int     // number of the last frames sent, shared by all subtests

	cniVersion string // of networks
}

// newRig starts the daemon and the guest, which has all its VFs when newRig returns. Options are those of sluice vpf define.
func newRig(t *testing.T, options string) *rig {
	t.Helper()
	t.Parallel()
	host := vpflab.ForTest(t) // it may wait for other labs to end
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	t.Cleanup(cancel)
	r := &rig{Host: host, t: t, ctx: ctx, serial: new(int), cniVersion: "1.1.0"}
	r.must(r.PutPrograms(ctx))
	r.must(r.WriteFile("sluice.yaml", config))
	r.host("mkdir -p /etc/sluice /var/lib/sluice && cp /share/sluice.yaml /etc/sluice/")
	r.client = client.New(r.Path("/run/sluice/sluice.sock"))
	r.start()
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(r.state())
		}
	})
	r.must(r.Define(ctx, vpflab.Node))
	r.must(r.Define(ctx, vpflab.Peer))
	r.eventually(time.Minute, "a virtual PF for node", func() error {
		_, err := r.Run(ctx, fmt.Sprintf("sluice vpf define node --vfs %d --network br0 %s", vfs, options))
		return err // the daemon may not have seen the new VM yet
	})
	r.must(r.Boot(ctx, "node"))
	r.prepare()
	return r
}

// prepare creates the VFs in the guest and starts sluice-guest there, as is necessary after each boot.
func (r *rig) prepare() {
	r.t.Helper()
	r.pf = r.node("basename $(dirname $(ls /sys/bus/pci/devices/*/sriov_totalvfs))")
	r.node("echo %d >/sys/bus/pci/devices/%s/sriov_numvfs", vfs, r.pf)
	r.eventually(time.Minute, "a network device for each VF", func() error {
		out, err := r.GuestExec(r.ctx, "node", "ls -d /sys/bus/pci/devices/"+r.pf+"/virtfn*/virtio*/net/* /sys/bus/pci/devices/"+r.pf+
			"/virtfn*/net/* 2>/dev/null")
		if n := strings.Count(out, "\n"); n != vfs {
			return fmt.Errorf("%d of %d: %w", n, vfs, err)
		}
		return nil
	})
	r.vfs = nil
	for i := range vfs {
		r.vfs = append(r.vfs, r.node("basename $(readlink /sys/bus/pci/devices/%s/virtfn%d)", r.pf, i))
	}
	r.node("mkdir -p /opt/cni/bin /etc/cni/net.d; cp /share/cni/* /share/sluice-cni /opt/cni/bin/")
	r.must(r.GuestStart(r.ctx, "node", "sluice-guest", "sluice-guest run"))
	r.connected()
}

// connected waits until sluice-guest is connected to the daemon.
func (r *rig) connected() {
	r.t.Helper()
	r.eventually(time.Minute, "sluice-guest reaches the daemon", func() error {
		_, err := r.GuestExec(r.ctx, "node", "sluice-guest doctor")
		return err
	})
}

// start starts the daemon and waits until it has observed the host.
func (r *rig) start() {
	r.t.Helper()
	p, err := r.Start(r.ctx, "sluiced", "sluice run")
	r.must(err)
	r.daemon = p
	r.eventually(time.Minute, "the daemon has looked at the host", func() error {
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

// kill ends the daemon by SIGKILL.
func (r *rig) kill() {
	r.t.Helper()
	r.must(r.daemon.Kill(r.ctx))
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// host runs a shell command on the host.
func (r *rig) host(format string, args ...any) string {
	r.t.Helper()
	out, err := r.Run(r.ctx, fmt.Sprintf(format, args...))
	r.must(err)
	return strings.TrimSpace(out)
}

// node runs a shell command in the guest, as root.
func (r *rig) node(format string, args ...any) string {
	r.t.Helper()
	out, err := r.GuestExec(r.ctx, "node", fmt.Sprintf(format, args...))
	r.must(err)
	return strings.TrimSpace(out)
}

// eventually waits until check passes.
func (r *rig) eventually(limit time.Duration, what string, check func() error) {
	r.t.Helper()
	r.must(lab.Eventually(r.ctx, limit, what, func() (bool, error) {
		err := check()
		return err == nil, err
	}))
}

// vpf returns the daemon's status of node's virtual PF, once it has observed it.
func (r *rig) vpf() (found api.VirtualPF) {
	r.t.Helper()
	r.eventually(time.Minute, "the virtual PF of node", func() error {
		list, err := r.client.VirtualPFs(r.ctx)
		for _, p := range list {
			if p.VM == "node" {
				found = p
				return nil
			}
		}
		if err == nil {
			err = fmt.Errorf("node has none: %v", list)
		}
		return err
	})
	return found
}

// vf returns the daemon's status of a VF.
func (r *rig) vf(i int) api.VirtualFunction {
	r.t.Helper()
	for _, f := range r.vpf().Functions {
		if f.VF == i {
			return f
		}
	}
	r.t.Fatalf("there is no VF %d", i)
	return api.VirtualFunction{}
}

// set changes the policy of VFs on the host, and waits until it is in force.
func (r *rig) set(format string, args ...any) {
	r.t.Helper()
	r.host("sluice vpf set node "+format, args...)
	r.stands()
}

// stands waits until every policy is in force.
func (r *rig) stands() {
	r.t.Helper()
	r.eventually(time.Minute, "the policies stand", func() error {
		for _, f := range r.vpf().Functions {
			if !f.Stands {
				return fmt.Errorf("that of VF %d does not: %s %v", f.VF, f.Why, f.Problems)
			}
		}
		return nil
	})
}

// state returns what helps to analyse a failed test.
func (r *rig) state() string {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var b strings.Builder
	for _, cmd := range []string{
		"sluice vpf show node; sluice fsck; sluice doctor", "virsh list --all; virsh domiflist node",
		"ip -br link; bridge link", "find /sys/fs/bpf; cat /var/lib/sluice/vpf.json", "tail -n 40 $(ls -t /var/log/libvirt/*.log | head -1)",
	} {
		out, err := r.Run(ctx, cmd)
		fmt.Fprintf(&b, "$ %s\n%s", cmd, out)
		if err != nil {
			fmt.Fprintln(&b, err)
		}
	}
	for _, cmd := range []string{"ip -br addr", "ip netns", "cat /run/sluice-guest.log", "sluice-guest status"} {
		out, err := r.GuestExec(ctx, "node", cmd)
		fmt.Fprintf(&b, "node$ %s\n%s", cmd, out)
		if err != nil {
			fmt.Fprintln(&b, err)
		}
	}
	return b.String()
}

// jsonText returns v as JSON.
func jsonText(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}
