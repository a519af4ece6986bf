// Package vdpa creates and removes vDPA devices of NICs, and binds them to vhost-vdpa.
package vdpa

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"sluice/internal/base/rtnl"
	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// Bus is the vDPA bus.
type Bus struct {
	k   *sysif.Kernel
	dir string // of symbolic links to devices
}

// New returns the Bus, which needs no closing. Symbolic links to devices are in dir, "" for model.VDPADir.
func New(k *sysif.Kernel, dir string) *Bus { return &Bus{k: k, dir: cmp.Or(dir, model.VDPADir)} }

// VDPAManagers lists the vDPA management devices, sorted by name; none if the kernel does not support vDPA.
func (h *Bus) VDPAManagers(ctx context.Context) ([]model.VDPAManager, error) {
	found, err := vdpaDump(ctx, h, vdpaManagerGet, decodeVDPAManager)
	slices.SortFunc(found, func(a, b model.VDPAManager) int { return strings.Compare(a.Name, b.Name) })
	return found, sysif.Fail("list", "vDPA management devices", err)
}

// VDPADevices lists the network devices on the vDPA bus, whoever created them, sorted by name; none if the kernel does not
// support vDPA.
func (h *Bus) VDPADevices(ctx context.Context) ([]model.VDPADevice, error) {
	found, err := vdpaDump(ctx, h, vdpaDevGet, decodeVDPADevice)
	for i := range found {
		h.describeVDPA(ctx, &found[i])
	}
	slices.SortFunc(found, func(a, b model.VDPADevice) int { return strings.Compare(a.Name, b.Name) })
	return found, sysif.Fail("list", "vDPA devices", err)
}

// CreateVDPA creates a device unless it exists, and binds it to vhost_vdpa. model.VDPAPath of its name then links to its device
// node. An existing device with another MAC is recreated unless it is in use.
func (h *Bus) CreateVDPA(ctx context.Context, want model.VDPAWant) (d model.VDPADevice, err error) {
	err = h.vdpaAlone(ctx, want.Name, func() (err error) {
		d, err = h.createVDPA(ctx, want)
		return err
	})
	return d, sysif.Fail("create vDPA device", want.Name, err)
}

// DeleteVDPA removes a device that CreateVDPA made; it is not an error if there is none. It refuses a device in use, because the
// kernel would wait for its user and block the bus meanwhile.
func (h *Bus) DeleteVDPA(ctx context.Context, name string) error {
	err := h.vdpaAlone(ctx, name, func() error { return h.deleteVDPA(ctx, name) })
	return sysif.Fail("delete vDPA device", name, err)
}

// vdpaAlone runs fn while no other call changes the bus.
func (h *Bus) vdpaAlone(ctx context.Context, name string, fn func() error) error {
	if _, ours := model.VDPAOurs(name); !ours {
		return sysif.Permanent("it is not Sluice's")
	}
	return h.k.Busy.Exclusive(ctx, "vdpa", fn)
}

func (h *Bus) createVDPA(ctx context.Context, want model.VDPAWant) (d model.VDPADevice, err error) {
	if !h.k.Sys.Exists(vhostDriver) {
		return d, sysif.Permanent("the driver vhost_vdpa, which gives vDPA devices to VMs, is not loaded: modprobe vhost_vdpa")
	}
	managers, err := h.VDPAManagers(ctx)
	if err != nil {
		return d, err
	}
	devices, err := h.VDPADevices(ctx)
	if err != nil {
		return d, err
	}
	at := slices.IndexFunc(devices, func(d model.VDPADevice) bool { return d.Name == want.Name })
	if at >= 0 && devices[at].MAC != want.MAC && !devices[at].MAC.IsZero() {
		if err := h.deleteVDPA(ctx, want.Name); err != nil {
			return d, fmt.Errorf("it has MAC %s: %w", devices[at].MAC, err)
		}
		at = -1
	}
	if at < 0 {
		if err := h.makeVDPA(ctx, want, vdpaCandidates(want.Manager, managers, devices)); err != nil {
			return d, err
		}
	}
	node, err := bindVHost(h.k.Sys, want.Name)
	if err != nil {
		return d, err
	}
	if err := linkVDPA(h.dir, want.Name, node); err != nil {
		return d, err
	}
	return h.findVDPA(ctx, want.Name)
}

// makeVDPA tries one management device after the other, because that of a VF supports a single device.
func (h *Bus) makeVDPA(ctx context.Context, want model.VDPAWant, managers []string) error {
	if len(managers) == 0 {
		return sysif.Permanent(fmt.Sprintf("no vDPA management device for network devices matches %q: `vdpa mgmtdev show` lists them; the "+
			"driver of the NIC provides them (modprobe mlx5_vdpa), and vdpa_sim_net one for trials", want.Manager))
	}
	var refused []error
	for _, m := range managers {
		err := h.makeVDPAOn(ctx, want, m)
		if err == nil || ctx.Err() != nil {
			return err
		}
		refused = append(refused, fmt.Errorf("%s: %w", m, err))
	}
	return fmt.Errorf("none of %d management devices could create it, the last one because of %w", len(managers), refused[len(refused)-1])
}

// makeVDPAOn creates the device on one management device and ensures its MAC, which some management devices cannot set.
func (h *Bus) makeVDPAOn(ctx context.Context, want model.VDPAWant, manager string) error {
	family, err := sysif.GenericFamily(ctx, h.k.Generic, vdpaFamily)
	if err != nil {
		return err
	}
	err = h.k.Generic.Do(ctx, vdpaCreate(family, manager, want))
	if !errors.Is(err, unix.EOPNOTSUPP) || want.MTU != 0 || want.Pairs != 0 {
		return err
	}
	plain := want
	plain.MAC = model.MAC{}
	if err := h.k.Generic.Do(ctx, vdpaCreate(family, manager, plain)); err != nil {
		return err
	}
	made, err := h.findVDPA(ctx, want.Name)
	if err == nil && made.MAC == want.MAC {
		return nil
	}
	err = errors.Join(err, sysif.Permanent(fmt.Sprintf("it cannot set a MAC, and the device has %s: request that MAC, or another "+
		"management device", made.MAC)))
	return errors.Join(err, h.k.Generic.Do(ctx, vdpaDelete(family, want.Name)))
}

func (h *Bus) deleteVDPA(ctx context.Context, name string) error {
	d, err := h.findVDPA(ctx, name)
	if errors.Is(err, unix.ENODEV) {
		return unlinkVDPA(h.dir, name)
	}
	if err != nil {
		return err
	}
	if d.InUse == model.Yes {
		return errors.New("it is in use: shut down the VM that has it first")
	}
	family, err := sysif.GenericFamily(ctx, h.k.Generic, vdpaFamily)
	if err != nil {
		return err
	}
	if err := h.k.Generic.Do(ctx, vdpaDelete(family, name)); err != nil && !errors.Is(err, unix.ENODEV) {
		return err
	}
	return unlinkVDPA(h.dir, name)
}

// findVDPA looks up one device; ENODEV if there is none.
func (h *Bus) findVDPA(ctx context.Context, name string) (model.VDPADevice, error) {
	all, err := h.VDPADevices(ctx)
	if i := slices.IndexFunc(all, func(d model.VDPADevice) bool { return d.Name == name }); i >= 0 {
		return all[i], nil
	}
	return model.VDPADevice{}, cmp.Or(err, error(unix.ENODEV))
}

// describeVDPA adds what the list of devices lacks. Before Linux 6.2 the kernel returns the configuration, including the MAC,
// only for a device that a driver has set up, and EAGAIN otherwise.
func (h *Bus) describeVDPA(ctx context.Context, d *model.VDPADevice) {
	family, err := sysif.GenericFamily(ctx, h.k.Generic, vdpaFamily)
	if err == nil {
		var c model.VDPADevice
		c, err = rtnl.Get(ctx, h.k.Generic, vdpaRequest(family, vdpaConfigGet).String(vdpaAttrName, d.Name), decodeVDPAConfig)
		d.MAC, d.MTU, d.Pairs, d.InUse = c.MAC, c.MTU, c.Pairs, c.InUse
	}
	if errors.Is(err, unix.EAGAIN) {
		d.InUse = model.No
	}
	d.Driver, d.Node = h.k.Sys.Target(vdpaDev(d.Name)+"/driver"), vdpaNode(h.k.Sys, d.Name)
	d.Linked = d.Node != "" && vdpaLink(h.dir, d.Name) == d.Node
}

// vdpaDump lists the answers to a command, none if the kernel does not support vDPA. It checks sysfs first, because looking up
// the family would make the kernel try to load a module each time.
func vdpaDump[T any](ctx context.Context, h *Bus, cmd uint8, decode func(rtnl.Message) (T, bool)) ([]T, error) {
	if !h.k.Sys.Exists("bus/vdpa/devices") {
		return nil, nil
	}
	family, err := sysif.GenericFamily(ctx, h.k.Generic, vdpaFamily)
	if err != nil {
		return nil, sysif.Absent(err)
	}
	return rtnl.Dump(ctx, h.k.Generic, vdpaRequest(family, cmd), decode)
}

// vdpaCandidates returns the matching management devices, those with the fewest devices first.
func vdpaCandidates(pattern string, managers []model.VDPAManager, devices []model.VDPADevice) []string {
	has := map[string]int{}
	for _, d := range devices {
		has[d.Manager]++
	}
	var out []string
	for _, m := range managers {
		if ok, err := path.Match(pattern, m.Name); m.Net && ok && err == nil {
			out = append(out, m.Name)
		}
	}
	slices.SortStableFunc(out, func(a, b string) int { return cmp.Compare(has[a], has[b]) })
	return out
}
