package backend

import (
	"context"

	"sluice/api/v1"
	"sluice/internal/edge/answer"
	"sluice/internal/model"
)

// SetPorts implements server.Backend. ports are sorted.
func (b *Backend) SetPorts(ctx context.Context, ports []model.Port) (res api.HostPorts, changed bool, err error) {
	w := b.overrides
	w.changing.Lock()
	defer w.changing.Unlock()
	before := w.Ports()
	changed, err = tell(ctx, b, &w.ports, before, model.KeepTurns(before, ports))
	if err != nil {
		return res, false, err
	}
	v, _ := b.View()
	rules := w.Over(b.rules())
	return answer.Ports(v.Snapshot, &rules), changed, nil
}

// Ports returns the ports of Neutron that the host was told of last, sorted.
func (w *Overrides) Ports() []model.Port { return w.ports.get(w) }
