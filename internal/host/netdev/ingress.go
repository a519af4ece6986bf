package netdev

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"sluice/internal/base/rtnl"
	"sluice/internal/host/sysif"
)

// NoFilters says why no frame from a tap may go to a shaper: what somebody else has at the tap's
// ingress qdisc (libvirt's <bandwidth> polices there) comes behind ours, and would not see it.
func (h *Devices) NoFilters(ctx context.Context, tap string, index int) error {
	kind, err := rtnl.Get(ctx, h.k.Read, ingressRequest(index), MustDecode(decodeQdisc))
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EINVAL):
		return nil
	case err != nil:
		return sysif.Fail("look for filters of", tap, err)
	}
	return sysif.Permanent(fmt.Sprintf("somebody else filters what comes from the tap, behind what would send it to a shaper "+
		"(tc filter show dev %s ingress): remove libvirt's <bandwidth> from the interface, or what made it (tc qdisc del dev %s %s)", tap, tap, kind))
}

// ingressRequest asks for the qdisc that filters at ingress hang on, by the handle that each of them has: where there
// was one once, another stands in for it. The answer is a notification.
func ingressRequest(dev int) *rtnl.Request {
	const (
		parentIngress = 0xfffffff1 // TC_H_INGRESS
		handle        = 0xffff0000
	)
	return rtnl.NewRequest(unix.RTM_GETQDISC, unix.NLM_F_ECHO, rtnl.Traffic(dev, handle, parentIngress))
}

// decodeQdisc reads what kind of qdisc an RTM_NEWQDISC tells of.
func decodeQdisc(m rtnl.Message) (string, bool) {
	attrs := rtnl.Body(m.Data, rtnl.SizeofTraffic)
	return string(rtnl.CString(rtnl.Attr(attrs, unix.TCA_KIND))), m.Type == unix.RTM_NEWQDISC && attrs != nil
}
