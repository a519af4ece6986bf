package vdpa

import (
	"strings"

	"golang.org/x/sys/unix"

	"sluice/internal/base/rtnl"
	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// Commands and attributes of the generic netlink family "vdpa" (uapi linux/vdpa.h).
const (
	vdpaFamily = "vdpa"

	vdpaManagerGet = 2
	vdpaDevNew     = 3
	vdpaDevDel     = 4
	vdpaDevGet     = 5
	vdpaConfigGet  = 6

	vdpaAttrBus        = 1 // of the management device; simulated ones have none
	vdpaAttrManager    = 2
	vdpaAttrClasses    = 3 // 64-bit mask by virtio device type
	vdpaAttrName       = 4
	vdpaAttrType       = 5
	vdpaAttrMAC        = 10
	vdpaAttrPairs      = 12
	vdpaAttrMTU        = 13
	vdpaAttrFeatures   = 14 // negotiated by a driver: present only after that
	vdpaAttrManagerVQs = 15

	virtioNet = 1 // the virtio device type
)

func vdpaRequest(family uint16, cmd uint8) *rtnl.Request {
	return rtnl.NewRequest(family, 0, sysif.GenericHeader(cmd))
}

func vdpaCreate(family uint16, manager string, want model.VDPAWant) *rtnl.Request {
	req := vdpaRequest(family, vdpaDevNew).String(vdpaAttrName, want.Name)
	if bus, dev, ok := strings.Cut(manager, "/"); ok {
		req.String(vdpaAttrBus, bus).String(vdpaAttrManager, dev)
	} else {
		req.String(vdpaAttrManager, manager)
	}
	if !want.MAC.IsZero() {
		req.Bytes(vdpaAttrMAC, want.MAC[:])
	}
	if want.MTU > 0 {
		req.U16(vdpaAttrMTU, uint16(want.MTU))
	}
	if want.Pairs > 0 {
		req.U16(vdpaAttrPairs, uint16(want.Pairs))
	}
	return req
}

func vdpaDelete(family uint16, name string) *rtnl.Request {
	return vdpaRequest(family, vdpaDevDel).String(vdpaAttrName, name)
}

// vdpaManagerName joins the names of the bus, if any, and of the management device.
func vdpaManagerName(attrs []byte) string {
	name := string(rtnl.CString(rtnl.Attr(attrs, vdpaAttrManager)))
	if bus := rtnl.Attr(attrs, vdpaAttrBus); bus != nil {
		name = string(rtnl.CString(bus)) + "/" + name
	}
	return name
}

func decodeVDPAManager(m rtnl.Message) (model.VDPAManager, bool) {
	attrs := rtnl.Body(m.Data, unix.GENL_HDRLEN)
	return model.VDPAManager{
		Name:   vdpaManagerName(attrs),
		Net:    rtnl.U64(rtnl.Attr(attrs, vdpaAttrClasses))&(1<<virtioNet) != 0,
		MaxVQs: int(rtnl.U32(rtnl.Attr(attrs, vdpaAttrManagerVQs))),
	}, rtnl.Attr(attrs, vdpaAttrManager) != nil
}

// decodeVDPADevice selects network devices from a dump.
func decodeVDPADevice(m rtnl.Message) (model.VDPADevice, bool) {
	attrs := rtnl.Body(m.Data, unix.GENL_HDRLEN)
	name := rtnl.Attr(attrs, vdpaAttrName)
	return model.VDPADevice{Name: string(rtnl.CString(name)), Manager: vdpaManagerName(attrs)},
		name != nil && rtnl.U32(rtnl.Attr(attrs, vdpaAttrType)) == virtioNet
}

// decodeVDPAConfig decodes the configuration of one device.
func decodeVDPAConfig(m rtnl.Message) (d model.VDPADevice, err error) {
	attrs := rtnl.Body(m.Data, unix.GENL_HDRLEN)
	copy(d.MAC[:], rtnl.Attr(attrs, vdpaAttrMAC))
	d.MTU = int(rtnl.U16(rtnl.Attr(attrs, vdpaAttrMTU)))
	d.Pairs = int(rtnl.U16(rtnl.Attr(attrs, vdpaAttrPairs)))
	d.InUse = model.TriOf(rtnl.Attr(attrs, vdpaAttrFeatures) != nil)
	return d, nil
}
