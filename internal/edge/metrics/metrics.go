package metrics

import (
	"context"
	"time"

	"sluice/internal/edge/answer"
	"sluice/internal/model"
)

// Options are the inputs besides a View.
type Options struct {
	Version    string
	Examine    answer.Examine   // finds problems in a Snapshot; nil: only those the Snapshot contains
	Stale      time.Duration    // age above which the last observation of the host is a problem; 0: never
	Now        func() time.Time // the clock that Snapshots are stamped with
	VirtualPFs VirtualPFs       // nil: not available
	Process    bool             // also export metrics of the process and the Go runtime
}

// VirtualPFs lists the virtual PFs of all VMs.
type VirtualPFs interface {
	List(ctx context.Context) ([]model.VirtualPFStatus, error)
}

// ContentType is the media type of Text.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Text returns the metrics of a View in Prometheus' text format. A VM that is gone leaves no series behind.
//
// Labels follow common exporters: domain, uuid and target_device as in the libvirt exporters, pf and vf as in the SR-IOV
// network metrics exporter.
func Text(v *model.View, o Options) []byte {
	e := emitter{}
	e.view(v, o.VirtualPFs, o.Version, model.Problems(answer.Diagnose(v, o.Examine, o.Now(), o.Stale)))
	if o.Process {
		e.process()
	}
	return e.text()
}

// view emits all metrics of a View.
func (e emitter) view(v *model.View, virtual VirtualPFs, version string, problems int) {
	x := answer.NewIndex(v)
	e.daemon(x, version, problems)
	e.moves(x)
	for i := range x.Snapshot.PFs {
		e.pf(&x.Snapshot.PFs[i])
	}
	e.holders(x)
	for i := range x.Snapshot.VMs {
		e.vm(x, &x.Snapshot.VMs[i])
	}
	e.bandwidth(x)
	e.virtualPFs(x, virtual)
}
