package vpflab

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"text/template"
	"time"

	"sluice/lab"
	"sluice/lab/cache"
)

// Guest describes a VM to define.
type Guest struct {
	Name    string
	Memory  int    // MiB; 0: 768
	Address string // of its own NIC on br0, with the prefix length: "10.9.0.11/24"
	MAC     string // of that NIC, whose alias is ua-net0 and whose tap is tap-NAME
	Devices string // further devices, in libvirt's XML
	Tail    string // XML after the devices
}

// Node and Peer are the guests that most tests use: one with virtual PFs, and another VM to communicate with.
var (
	Node = Guest{Name: "node", Address: "10.9.0.11/24", MAC: "52:54:00:00:01:01"}
	Peer = Guest{Name: "peer", Address: "10.9.0.12/24", MAC: "52:54:00:00:01:02", Memory: 256}
)

var domain = template.Must(template.New("domain").Parse(`<domain type='qemu' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>{{.Name}}</name>
  <memory unit='MiB'>{{.Memory}}</memory>
  <vcpu>1</vcpu>
  <os>
    <type arch='x86_64' machine='q35'>hvm</type>
    <kernel>/image/vmlinuz</kernel>
    <initrd>/image/initrd</initrd>
    <cmdline>console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off init_on_alloc=0 nowatchdog random.trust_cpu=on ` +
	`tsc=reliable no_timer_check lab.name={{.Name}} lab.ip={{.Address}}</cmdline>
  </os>
  <features><acpi/><tcg><tb-cache unit='MiB'>256</tb-cache></tcg></features>
  <cpu mode='maximum'/>
  <clock offset='utc'><timer name='hpet' present='no'/></clock>
  <on_poweroff>destroy</on_poweroff>
  <on_reboot>restart</on_reboot>
  <on_crash>destroy</on_crash>
  <devices>
    <controller type='usb' model='none'/>
    <controller type='pci' index='0' model='pcie-root'/>
    <serial type='file'><source path='/var/log/lab/{{.Name}}.console' append='on'/></serial>
    <disk type='file' device='disk'>
      <driver name='qemu' type='qcow2' cache='unsafe'/>
      <source file='/var/lib/{{.Name}}.qcow2'/>
      <target dev='vda' bus='virtio'/>
    </disk>
    <filesystem type='mount' accessmode='passthrough'><source dir='/share'/><target dir='share'/></filesystem>
    <rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>
    <channel type='unix'><source mode='bind' path='/run/{{.Name}}.lab'/><target type='virtio' name='lab.0'/></channel>
    <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
    <interface type='bridge'>
      <mac address='{{.MAC}}'/>
      <source bridge='br0'/>
      <target dev='tap-{{.Name}}'/>
      <model type='virtio'/>
      <alias name='ua-net0'/>
      <rom enabled='no'/>
    </interface>
    <memballoon model='none'/>
    {{.Devices}}
  </devices>
  {{.Tail}}
</domain>
`))

// Define defines a guest in libvirt with a fresh disk, without starting it.
func (h *Host) Define(ctx context.Context, g Guest) error {
	if g.Memory == 0 {
		g.Memory = 768
	}
	var xml strings.Builder
	if err := domain.Execute(&xml, g); err != nil {
		return err
	}
	if err := h.write("/run/"+g.Name+".xml", []byte(xml.String()), 0o644); err != nil {
		return err
	}
	_, err := h.Run(ctx, fmt.Sprintf("qemu-img create -q -f qcow2 -b /image/disk.img -F raw /var/lib/%[1]s.qcow2 && virsh -q define "+
		"/run/%[1]s.xml", g.Name))
	return err
}

// Boot starts a defined guest and waits until it answers.
func (h *Host) Boot(ctx context.Context, vm string) error {
	start := time.Now()
	if _, err := h.Run(ctx, "virsh -q start "+vm); err != nil {
		return err
	}
	if err := h.AwaitBoot(ctx, vm, ""); err != nil {
		return err
	}
	cache.Say(h.progress, "%s booted in %v", vm, time.Since(start).Round(100*time.Millisecond))
	return nil
}

// BootID returns the boot_id of the guest's kernel, which changes with each boot.
func (h *Host) BootID(ctx context.Context, vm string) (string, error) {
	out, err := h.GuestExec(ctx, vm, "cat /proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(out), err
}

// AwaitBoot waits until a guest answers and has a boot ID other than before.
func (h *Host) AwaitBoot(ctx context.Context, vm, before string) error {
	return lab.Eventually(ctx, 5*time.Minute, vm+": boot", func() (bool, error) {
		state, err := h.Run(ctx, "virsh -q domstate "+vm)
		if err == nil && strings.TrimSpace(state) != "running" {
			return false, lab.Fatal(fmt.Errorf("%s is %s", vm, strings.TrimSpace(state)))
		}
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		now, err := h.BootID(try, vm)
		return err == nil && now != before, err
	})
}

// GuestExec runs a shell command in a guest, as root, and returns what it printed.
func (h *Host) GuestExec(ctx context.Context, vm, script string) (string, error) {
	h.mu.Lock()
	a := h.agents[vm]
	if a == nil {
		a = &lab.GuestAgent{VM: vm, Shell: "/bin/bash", Env: environment, Dial: func(ctx context.Context) (io.ReadWriteCloser, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", h.Path("/run/"+vm+".lab"))
		}}
		h.agents[vm] = a
	}
	h.mu.Unlock()
	return a.Exec(ctx, script)
}

// GuestStart starts a program in a guest that keeps running after this call. Its output goes to /run/NAME.log in the guest, and its PID
// to /run/NAME.pid.
func (h *Host) GuestStart(ctx context.Context, vm, name, command string) error {
	// The agent waits for the end of the pipes, so they must not be inherited.
	_, err := h.GuestExec(ctx, vm, fmt.Sprintf("setsid bash -c %s >/run/%s.log 2>&1 </dev/null &",
		lab.Quote(fmt.Sprintf("echo $$ >/run/%s.pid; exec %s", name, command)), name))
	return err
}
