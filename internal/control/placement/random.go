package placement

import (
	"hash/fnv"
	"time"

	"sluice/internal/model"
)

// random gives the VFs to VMs drawn at random, whatever their load, and leaves them there: the second of the baselines that
// FlexVF is compared with (section 6.4). The draw depends only on the parameter "seed" and the VM's UUID, so it does not depend
// on the order in which VMs arrive.
type random struct {
	seed  uint64
	order ranking
}

var randomParams = params{{Name: "seed", Max: 1 << 53, Doc: "seed of the random draw. Change it for another draw"}}

func newRandom(r model.Rules) Policy { return &random{seed: uint64(randomParams.of(r, "seed"))} }

// Select implements Policy.
func (r *random) Select(_ time.Time, cands []Candidate, slots int, out []model.Reason) {
	r.order = r.order[:0]
	for i := range cands {
		r.order = append(r.order, ranked{i: i, key: lot(r.seed, cands[i].VM), holds: cands[i].Holds})
	}
	r.order.sort(cands)
	r.order.verdicts(cands, slots, "random", model.CodeTurn, model.CodeWaiting, out)
}

// lot is a pseudorandom number in [0, 1) that depends only on its arguments.
func lot(seed uint64, vm model.VMID) float64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(vm))
	x := h.Sum64() ^ seed*0x9e3779b97f4a7c15
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return float64((x^x>>33)>>11) / (1 << 53)
}
