package vf

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"golang.org/x/sys/unix"

	"sluice/internal/base/rtnl"
	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// devlink reads the mode of a NIC's embedded switch. It also sets VF rates where the driver has devlink rate objects for them
// (mlx5 and ice in switchdev mode): there the rtnetlink messages for VFs of a PF may be refused. Rates are bytes/s.
type devlink struct{ conn *rtnl.Conn }

// devlinkRate is the rate object of a VF.
type devlinkRate struct {
	bus, dev string // of the PF, such as "pci" and "0000:03:00.0"
	port     uint32
	node     string // the rate node that it is in; "" for none
	rates    Rates
}

// devlinkRates returns the rate objects of a PF's VFs by VF index, none if the driver has none or devlink fails.
func (h *Functions) devlinkRates(ctx context.Context, pf string) map[int]devlinkRate {
	addr := sysif.PCIOf(h.k.Sys, "class/net/"+pf+"/device")
	if addr == "" || h.devlink == nil {
		return nil
	}
	found, err := h.devlink.list(ctx, string(addr))
	if err != nil {
		h.k.Log.Debug("devlink shows no rates", "pf", pf, "error", err)
	}
	return found
}

// list joins the VF ports of a device with their rate objects.
func (d *devlink) list(ctx context.Context, dev string) (map[int]devlinkRate, error) {
	family, err := sysif.GenericFamily(ctx, d.conn, "devlink")
	if err != nil {
		return nil, sysif.Absent(err)
	}
	rates, err := rtnl.Dump(ctx, d.conn, devlinkRequest(family, unix.DEVLINK_CMD_RATE_GET), decodeDevlinkRate)
	if err != nil || len(rates) == 0 {
		return nil, sysif.Absent(err)
	}
	ports, err := rtnl.Dump(ctx, d.conn, devlinkRequest(family, unix.DEVLINK_CMD_PORT_GET), decodeDevlinkPort)
	if err != nil {
		return nil, sysif.Absent(err)
	}
	return joinDevlink(dev, ports, rates), nil
}

// joinDevlink matches the VF ports of a device with rate objects.
func joinDevlink(dev string, ports []devlinkPort, rates []devlinkRate) map[int]devlinkRate {
	out := map[int]devlinkRate{}
	for _, p := range ports {
		for _, r := range rates {
			if p.dev == dev && p.bus == r.bus && p.dev == r.dev && p.port == r.port {
				out[p.vf] = r
			}
		}
	}
	return out
}

// set sets the rates that differ. The node that the leaf is in stays as it is.
func (d *devlink) set(ctx context.Context, leaf devlinkRate, want Rates) error {
	family, err := sysif.GenericFamily(ctx, d.conn, "devlink")
	if err != nil {
		return err
	}
	for _, req := range leaf.requests(family, want) {
		if err := d.conn.Do(ctx, req); err != nil {
			return fmt.Errorf("devlink port function rate set %s/%s/%d: %w%s", leaf.bus, leaf.dev, leaf.port, err, busy(err))
		}
	}
	return nil
}

// busy tells what to do about EBUSY, which ice answers (ice_enable_custom_tx).
func busy(err error) string {
	if errors.Is(err, unix.EBUSY) {
		return ": end what else divides the NIC's queues: DCB (`dcb`, lldpad) or ADQ (`tc qdisc` mqprio)"
	}
	return ""
}

// eswitch reads the mode of a device's embedded switch, model.EswitchUnknown if the driver has none or does not report it.
func (d *devlink) eswitch(ctx context.Context, dev model.PCIAddress, driver string) (model.EswitchMode, error) {
	family, err := sysif.GenericFamily(ctx, d.conn, "devlink")
	if err != nil {
		return model.EswitchUnknown, sysif.Absent(err)
	}
	req := devlinkRequest(family, unix.DEVLINK_CMD_ESWITCH_GET)
	req.String(unix.DEVLINK_ATTR_BUS_NAME, "pci").String(unix.DEVLINK_ATTR_DEV_NAME, string(dev))
	mode, err := rtnl.Get(ctx, d.conn, req, decodeEswitch)
	if managedElsewhere(driver, err) {
		return model.EswitchOnCard, nil
	}
	return mode, sysif.Absent(err)
}

// managedElsewhere reports whether a driver refuses to tell the mode because another processor manages the embedded switch. mlx5_core,
// which always has modes, does so on the host of a DPU (mlx5_eswitch_check).
func managedElsewhere(driver string, err error) bool {
	return driver == "mlx5_core" && errors.Is(err, unix.EOPNOTSUPP)
}

// eswitchModes maps enum devlink_eswitch_mode.
var eswitchModes = map[uint16]model.EswitchMode{
	unix.DEVLINK_ESWITCH_MODE_LEGACY:    model.EswitchLegacy,
	unix.DEVLINK_ESWITCH_MODE_SWITCHDEV: model.EswitchSwitchdev,
}

// decodeEswitch decodes the answer to DEVLINK_CMD_ESWITCH_GET. The kernel omits the mode if the driver cannot report it.
func decodeEswitch(m rtnl.Message) (model.EswitchMode, error) {
	mode := rtnl.Attr(rtnl.Body(m.Data, unix.GENL_HDRLEN), unix.DEVLINK_ATTR_ESWITCH_MODE)
	if len(mode) < 2 {
		return model.EswitchUnknown, nil
	}
	return eswitchModes[rtnl.U16(mode)], nil
}

// ofICE is the name of a node that driver ice itself shows for a part of the NIC's scheduler (ice_sched.c).
var ofICE = regexp.MustCompile(`^node_\d+$`)

// foreignNode returns the rate node that a leaf is in, "" if there is none or it is the driver's own. Sluice makes no nodes.
func (r *devlinkRate) foreignNode(driver string) string {
	if driver == "ice" && ofICE.MatchString(r.node) {
		return ""
	}
	return r.node
}

func devlinkRequest(family uint16, cmd uint8) *rtnl.Request {
	return rtnl.NewRequest(family, 0, sysif.GenericHeader(cmd))
}

// requests returns one request for each rate that differs, because the kernel refuses all of a request if the driver lacks one of the
// attributes. They are in the order in which no share is ever above its maximum.
func (r *devlinkRate) requests(family uint16, want Rates) (reqs []*rtnl.Request) {
	add := func(attr uint16, has, want uint64) {
		if has != want {
			req := devlinkRequest(family, unix.DEVLINK_CMD_RATE_SET)
			req.String(unix.DEVLINK_ATTR_BUS_NAME, r.bus).String(unix.DEVLINK_ATTR_DEV_NAME, r.dev).U32(unix.DEVLINK_ATTR_PORT_INDEX, r.port)
			reqs = append(reqs, req.U64(attr, want/8))
		}
	}
	add(unix.DEVLINK_ATTR_RATE_TX_SHARE, r.rates.Min, want.Min)
	add(unix.DEVLINK_ATTR_RATE_TX_MAX, r.rates.Max, want.Max)
	if want.Min > r.rates.Min { // the maximum first
		slices.Reverse(reqs)
	}
	return reqs
}

// devlinkPort is the port of a VF.
type devlinkPort struct {
	bus, dev string
	port     uint32
	vf       int
}

// decodeDevlinkPort selects the ports of VFs from a dump.
func decodeDevlinkPort(m rtnl.Message) (p devlinkPort, ok bool) {
	attrs := rtnl.Body(m.Data, unix.GENL_HDRLEN)
	number := rtnl.Attr(attrs, unix.DEVLINK_ATTR_PORT_PCI_VF_NUMBER)
	p.bus, p.dev, p.port = devlinkHandle(attrs)
	p.vf = int(rtnl.U16(number))
	return p, len(number) >= 2 && rtnl.U16(rtnl.Attr(attrs, unix.DEVLINK_ATTR_PORT_FLAVOUR)) == unix.DEVLINK_PORT_FLAVOUR_PCI_VF
}

// decodeDevlinkRate selects the rate objects of ports from a dump, which also contains those of groups.
func decodeDevlinkRate(m rtnl.Message) (r devlinkRate, ok bool) {
	attrs := rtnl.Body(m.Data, unix.GENL_HDRLEN)
	r.bus, r.dev, r.port = devlinkHandle(attrs)
	r.node = string(rtnl.CString(rtnl.Attr(attrs, unix.DEVLINK_ATTR_RATE_PARENT_NODE_NAME)))
	r.rates.Min = 8 * rtnl.U64(rtnl.Attr(attrs, unix.DEVLINK_ATTR_RATE_TX_SHARE))
	r.rates.Max = 8 * rtnl.U64(rtnl.Attr(attrs, unix.DEVLINK_ATTR_RATE_TX_MAX))
	return r, len(rtnl.Attr(attrs, unix.DEVLINK_ATTR_PORT_INDEX)) >= 4 && rtnl.U16(rtnl.Attr(attrs, unix.DEVLINK_ATTR_RATE_TYPE)) == 0
}

func devlinkHandle(attrs []byte) (bus, dev string, port uint32) {
	text := func(t uint16) string { return string(rtnl.CString(rtnl.Attr(attrs, t))) }
	return text(unix.DEVLINK_ATTR_BUS_NAME), text(unix.DEVLINK_ATTR_DEV_NAME), rtnl.U32(rtnl.Attr(attrs, unix.DEVLINK_ATTR_PORT_INDEX))
}
