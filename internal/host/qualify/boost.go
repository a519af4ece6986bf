package qualify

import (
	"cmp"
	"slices"
	"time"

	"sluice/api/v1"
)

// boosts combines the round trips of both paths by payload and background rate: FlexVF's figure 5. What was measured on one path only is
// left out.
func boosts(list []Loaded) (out []api.BoostAtRate) {
	for i := range list {
		virtio := &list[i]
		k := slices.IndexFunc(list, func(l Loaded) bool { return l.VF && l.Payload == virtio.Payload && l.Offered == virtio.Offered })
		if virtio.VF || k < 0 || len(virtio.Trips) == 0 || len(list[k].Trips) == 0 {
			continue
		}
		vf := &list[k]
		b := api.BoostAtRate{
			Payload: virtio.Payload, Background: virtio.Offered, Full: virtio.Full() || vf.Full(),
			Virtio: api.LoadedFigure{Median: median(virtio.Trips), Carried: virtio.Carried},
			VF:     api.LoadedFigure{Median: median(vf.Trips), Carried: vf.Carried},
		}
		b.Boost = boost(b.Virtio.Median, b.VF.Median)
		out = append(out, b)
	}
	slices.SortFunc(out, func(a, b api.BoostAtRate) int {
		return cmp.Or(a.Payload-b.Payload, cmp.Compare(a.Background, b.Background))
	})
	return out
}

// boost returns how far the VF's time is below virtio's, in percent of virtio's.
func boost(virtio, vf float64) float64 {
	if virtio <= 0 {
		return 0
	}
	return (virtio - vf) / virtio * 100
}

// boostLine fits a line to the boost over the background rate, over all payloads, by least squares. It returns nil if fewer than two rates
// were carried, or none at rest.
func boostLine(points []api.BoostAtRate) *api.BoostLine {
	var n, x, y, xx, xy float64
	var atRest []float64
	most := 0.0
	for i := range points {
		p := &points[i]
		if p.Full {
			continue
		}
		if p.Background == 0 {
			atRest = append(atRest, p.VF.Median)
		}
		kpps := p.Background / 1000
		n, x, y, xx, xy = n+1, x+kpps, y+p.Boost, xx+kpps*kpps, xy+kpps*p.Boost
		most = max(most, p.Boost)
	}
	if n*xx == x*x || len(atRest) == 0 {
		return nil
	}
	slope := (n*xy - x*y) / (n*xx - x*x)
	return &api.BoostLine{AtRest: (y - slope*x) / n, PerKpps: slope, Most: most, VF: middle(atRest) / 2}
}

// median returns the median of times in seconds.
func median(list []time.Duration) float64 { return middle(list).Seconds() }

// middle returns the upper median.
func middle[T cmp.Ordered](list []T) T { return slices.Sorted(slices.Values(list))[len(list)/2] }
