package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"sluice/api/v1"
	"sluice/internal/host/libvirt"
	"sluice/internal/host/libvirt/libvirttest"
	"sluice/internal/model"
)

// vfNIC returns a NIC as an operator has it before anything is prepared.
func vfNIC(n int) string {
	return fmt.Sprintf("<interface type='bridge'><mac address='52:54:00:00:07:%02x'/><source bridge='%s'/><model type='virtio'/><rom enabled='no'/></interface>", n, libvirttest.Bridge)
}

// onRealLibvirt returns a preparer on a libvirtd, with a PF that leads to its bridge.
func onRealLibvirt(t *testing.T, rules model.Rules) (*preparer, *libvirttest.Daemon) {
	t.Helper()
	d := libvirttest.Start(t)
	virt, err := libvirt.Open(t.Context(), libvirt.Options{URI: d.URI()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = virt.Close() })
	libvirttest.Eventually(t, time.Minute, "connected", func() bool { _, err := virt.Domains(t.Context()); return err == nil })
	p := &preparer{virt: virt, uplinks: libvirttest.Switches{}, rules: func() model.Rules { return rules }, look: func(ctx context.Context) (*model.Snapshot, error) {
		s := &model.Snapshot{PFs: []model.PF{{Name: "pf0", Managed: true, Network: libvirttest.Bridge}}}
		domains, err := virt.Domains(ctx)
		for i := range domains {
			vm := domains[i].VM
			for k := range vm.NICs {
				vm.NICs[k].Failover = cmp.Or(vm.NICs[k].Failover, rules.For(vm.ID, vm.Name).Failover) // as observe does
			}
			s.VMs = append(s.VMs, vm)
		}
		return s, err
	}}
	return p, d
}

// defineTwice defines a VM again from what libvirt shows, and returns the definition: storing it again alone can move a
// controller.
func defineTwice(t *testing.T, d *libvirttest.Daemon, v libvirttest.VM) string {
	t.Helper()
	d.Virsh(t, "define", d.File(t, v.XML()))
	d.Virsh(t, "define", d.File(t, inactive(t, d, v.Name)))
	return inactive(t, d, v.Name)
}

func inactive(t *testing.T, d *libvirttest.Daemon, name string) string {
	t.Helper()
	return d.Virsh(t, "dumpxml", name, "--inactive", "--security-info")
}

func (p *preparer) must(t *testing.T, r api.Prepare) api.Prepared {
	t.Helper()
	out, err := p.Prepare(t.Context(), r)
	if err != nil || len(out) != 1 {
		t.Fatalf("%+v: %v, %+v", r, err, out)
	}
	return out[0]
}

// libvirt accepts a prepared definition, QEMU starts with it and the VM then lacks nothing, and undo restores the original
// definition byte for byte.
func TestPrepareOnLibvirt(t *testing.T) {
	p, d := onRealLibvirt(t, model.Rules{VMs: []model.VMRule{{Match: "bond*", Failover: model.FailoverBond}}})
	for i, v := range []libvirttest.VM{
		{Name: "plain", NICs: []string{vfNIC(0)}},
		{Name: "ports", NICs: []string{vfNIC(1)}, Ports: 2},
		{Name: "agent", NICs: []string{vfNIC(2)}, Extra: "<channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>"},
		{Name: "bond1", NICs: []string{vfNIC(3)}},
		{Name: "many", NICs: []string{vfNIC(4)}, Ports: 1, Extra: libvirttest.RNG("ua-rng") +
			"<controller type='pci' model='pcie-to-pci-bridge'/><serial type='pty'/><sound model='ich6'/>"},
		{Name: "meta", NICs: []string{vfNIC(5)}, QEMU: `<title>A &amp; B</title><metadata><s:sla xmlns:s="urn:sluice:sla:1" guarantee="2Gbit"/><o:x xmlns:o="urn:other" a='"1"'>text <o:y>deep</o:y> tail<!-- why --></o:x></metadata>`},
		{
			Name: "secret", NICs: []string{vfNIC(6)}, USB: true,
			Extra: `<graphics type='vnc' port='-1' passwd='s3cret'/><video><model type='vga'/></video>`,
		},
		{Name: "args", NICs: []string{vfNIC(7)}, QEMU: `<qemu:commandline><qemu:arg value='-global'/><qemu:arg value='ICH9-LPC.disable_s3=1'/></qemu:commandline>`},
	} {
		t.Run(v.Name, func(t *testing.T) {
			before := defineTwice(t, d, v)
			asked := api.Prepare{VM: v.Name, Agent: i%2 == 0}
			dry := asked
			dry.DryRun = true
			shown := p.must(t, dry)
			if len(shown.Changes) == 0 || shown.Defined || shown.Digest == "" || inactive(t, d, v.Name) != before {
				t.Fatalf("dry run: %+v", shown)
			}
			if strings.Contains(shown.Diff, "s3cret") || !strings.Contains(shown.Diff, "+++ "+v.Name) {
				t.Errorf("shown:\n%s", shown.Diff)
			}
			asked.Digest = shown.Digest
			done := p.must(t, asked)
			if diff := gocmp.Diff(shown, done, gocmp.FilterPath(func(p gocmp.Path) bool { return p.Last().String() == ".Defined" },
				gocmp.Ignore())); diff != "" || !done.Defined || done.Effect != "at its next start" {
				t.Errorf("%s; %+v", diff, done)
			}
			if len(done.Lacks) > 0 && (asked.Agent || len(done.Lacks) > 1) {
				t.Errorf("it lacks %v", done.Lacks)
			}
			xml := inactive(t, d, v.Name)
			if again := p.must(t, api.Prepare{VM: strings.ToUpper(v.UUID()), Agent: asked.Agent}); len(again.Changes) > 0 || again.Effect != "" {
				t.Errorf("again: %+v", again)
			}
			d.Virsh(t, "start", v.Name, "--paused")
			libvirttest.Eventually(t, time.Minute, "it runs and lacks nothing", func() bool {
				one := p.must(t, api.Prepare{VM: v.Name, Agent: asked.Agent, DryRun: true})
				return len(one.Changes) == 0 && one.Effect == ""
			})
			back := p.must(t, api.Prepare{VM: v.Name, Undo: true})
			if !back.Defined || !strings.Contains(back.Effect, "full stop and start") {
				t.Errorf("undo: %+v", back)
			}
			if diff := gocmp.Diff(before, inactive(t, d, v.Name)); diff != "" {
				t.Errorf("it is not as it was:\n%s\nprepared it was\n%s", diff, xml)
			}
			d.Destroy(t, v.Name)
		})
	}
}

// TestPrepareSays checks the messages about VMs that are not simply shut off, and about those that are refused.
func TestPrepareSays(t *testing.T) {
	p, d := onRealLibvirt(t, model.Rules{VMs: []model.VMRule{{Match: "never", Forbid: true}, {Match: "two", NIC: "52:54:00:00:08:01"}}})
	d.Create(t, libvirttest.VM{Name: "transi", NICs: []string{vfNIC(0x10)}})
	for i, v := range []libvirttest.VM{
		{Name: "on", NICs: []string{vfNIC(0x11)}},
		{Name: "old", Machine: "pc", NICs: []string{vfNIC(0x12)}},
		{Name: "never", NICs: []string{vfNIC(0x13)}},
		{Name: "two", NICs: []string{strings.Replace(vfNIC(1), ":07:", ":08:", 1), vfNIC(0x14)}},
	} {
		defineTwice(t, d, v)
		if i == 0 {
			d.Virsh(t, "start", "on", "--paused")
		}
	}
	all, err := p.Prepare(t.Context(), api.Prepare{All: true, DryRun: true})
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, one := range all {
		text := one.Effect
		if one.Refused != nil {
			text = "refused: " + one.Refused.Text
		}
		text = regexp.MustCompile(`(pc-i440fx)-[0-9.]+`).ReplaceAllString(text, "$1") // the version is QEMU's
		said = append(said, fmt.Sprintf("%s: %d changes, %s", one.VM, len(one.Changes), text))
	}
	want := []string{
		"never: 0 changes, refused: sluice.yaml or sluice release forbids it a VF",
		`old: 0 changes, refused: its machine "pc-i440fx" has no PCI Express, without which QEMU pairs no VF with a virtio NIC`,
		"on: 3 changes, at its next full stop and start (virsh shutdown on, then virsh start on): a reboot from inside the guest is not enough",
		"transi: 0 changes, refused: it is transient: libvirt keeps no definition of it",
		"two: 3 changes, at its next start",
	}
	if diff := gocmp.Diff(want, said); diff != "" {
		t.Error(diff)
	}
	// It still runs with the old definition: this is reported although nothing is left to change.
	p.must(t, api.Prepare{VM: "on"})
	if again := p.must(t, api.Prepare{VM: "on"}); len(again.Changes) > 0 || !strings.Contains(again.Effect, "full stop and start") {
		t.Errorf("prepared, and still running without: %+v", again)
	}
	// What somebody else has changed since the dry run is not overwritten.
	shown := p.must(t, api.Prepare{VM: "two", DryRun: true})
	d.Virsh(t, "desc", "two", "--config", "--new-desc", "mine")
	var said2 *api.Error
	if _, err := p.Prepare(t.Context(), api.Prepare{VM: "two", Digest: shown.Digest}); !errors.As(err, &said2) ||
		!strings.Contains(inactive(t, d, "two"), "mine") {
		t.Errorf("changed meanwhile: %v", err)
	}
	if _, err := p.Prepare(t.Context(), api.Prepare{VM: "nobody"}); !errors.Is(err, model.ErrGone) {
		t.Errorf("no such VM: %v", err)
	}
}
