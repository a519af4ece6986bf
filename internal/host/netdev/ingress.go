package netdev

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"sluice/internal/base/rtnl"
	"sluice/internal/host/sysif"
)

// NoFilters returns an error if frames from a tap must not be redirected to a shaper: filters on the tap's ingress qdisc
// (libvirt's <bandwidth> polices there) run behind our program and would not see them.
func (h *Devices) NoFilters(ctx context.Context, tap string, index int) error {
	kind, err := rtnl.Get(ctx, h.k.Read, ingressRequest(index), MustDecode(decodeQdisc))
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EINVAL):
		return nil
	case err != nil:
		return sysif.Fail("check for filters on", tap, err)
	}
	return sysif.Permanent(fmt.Sprintf("filters of somebody else at the tap's ingress (tc filter show dev %s ingress) would not see "+
		"frames that go to a shaper: remove libvirt's <bandwidth> from the interface, or the qdisc (tc qdisc del dev %s %s)", tap, tap, kind))
}

// ingressRequest requests the qdisc for ingress filters by the handle that all of them have: where one was removed, a lookup by
// parent returns a substitute. The answer is a notification.
func ingressRequest(dev int) *rtnl.Request {
	const (
		parentIngress = 0xfffffff1 // TC_H_INGRESS
		handle        = 0xffff0000
	)
	return rtnl.NewRequest(unix.RTM_GETQDISC, unix.NLM_F_ECHO, rtnl.Traffic(dev, handle, parentIngress))
}

// decodeQdisc reads the kind of qdisc from an RTM_NEWQDISC.
func decodeQdisc(m rtnl.Message) (string, bool) {
	attrs := rtnl.Body(m.Data, rtnl.SizeofTraffic)
	return string(rtnl.CString(rtnl.Attr(attrs, unix.TCA_KIND))), m.Type == unix.RTM_NEWQDISC && attrs != nil
}
