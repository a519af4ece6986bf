package whatif

import (
	"fmt"
	"math"
	"testing"

	"sluice/api/v1"
	"sluice/internal/model"
)

// BenchmarkCompute computes an hour of many VMs with oscillating loads, and 64 VFs.
func BenchmarkCompute(b *testing.B) {
	for _, vms := range []int{100, 1000} {
		b.Run(fmt.Sprintf("vms=%d", vms), func(b *testing.B) {
			p := hour()
			pf := &p.Snapshot.PFs[0]
			pf.VFs = nil
			for i := range 64 {
				pf.VFs = append(pf.VFs, model.VF{ID: model.VFID{PF: "pf0", Index: i}, Owner: model.OwnerFree})
			}
			p.Snapshot.VMs, p.Load.VMs = nil, nil
			for i := range vms {
				id := fmt.Sprintf("00000000-0000-4000-8000-%012d", i)
				p.Snapshot.VMs = append(p.Snapshot.VMs, model.VM{
					ID: model.VMID(id), Name: id[24:], NUMANode: -1,
					NICs: []model.NIC{{Network: "br0", Failover: model.FailoverTeaming, VF: model.NoVF}},
				})
				v := api.VMHistory{ID: id}
				for k := range 360 {
					pps := float32(20000 * (1.1 + math.Sin(float64(k)/30+float64(i))))
					v.Virtio, v.VF, v.Bytes = append(v.Virtio, pps), append(v.VF, 0), append(v.Bytes, 500*pps)
				}
				p.Load.VMs = append(p.Load.VMs, v)
			}
			for b.Loop() {
				if _, err := Compute(b.Context(), p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
