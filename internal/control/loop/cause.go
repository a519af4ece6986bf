package loop

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"sluice/internal/model"
)

// linkFresh is how long after a link came up plugs to its VFs may be due to that: its VFs are given out only once it has been up for a
// while.
const linkFresh = 30 * time.Second

// causes is what the Core remembers to tell why Moves are made now.
type causes struct {
	reloaded bool                 // the config's rules changed since the last Tick
	down     map[string]time.Time // when the link of a PF was last seen down
}

// plannedMove identifies a Move from Tick to Tick, until it begins.
type plannedMove struct {
	kind model.MoveKind
	nic  model.NICID
	vf   model.VFID
}

func planned(m *model.Move) plannedMove { return plannedMove{m.Kind, nicOf(*m), m.VF} }

// tellCauses completes the Causes of planned Moves where plan could only say that the policy decided. waited are the Moves that the
// previous Tick left waiting: one that still waits keeps its Cause.
func (c *Core) tellCauses(now time.Time, moves, waited []model.Move) {
	for i := range c.snap.PFs {
		if pf := &c.snap.PFs[i]; !pf.LinkUp {
			c.causes.down[pf.Name] = now
		}
	}
	maps.DeleteFunc(c.causes.down, func(_ string, last time.Time) bool { return now.Sub(last) > linkFresh })
	var known map[plannedMove]model.Cause
	if len(moves) > 0 && len(waited) > 0 {
		known = make(map[plannedMove]model.Cause, len(waited))
		for i := range waited {
			known[planned(&waited[i])] = waited[i].Cause
		}
	}
	for i := range moves {
		m := &moves[i]
		if m.Cause.Kind != model.CausePolicy {
			continue
		}
		before, waits := known[planned(m)]
		_, fresh := c.causes.down[m.VF.PF]
		switch {
		case waits:
			m.Cause = before
		case c.causes.reloaded:
			m.Cause.Kind, m.Cause.Detail = model.CauseReload, ""
		case m.Kind == model.MovePlug && fresh:
			m.Cause = model.Cause{Kind: model.CauseLinkUp, PF: m.VF.PF}
		}
	}
	c.causes.reloaded = false
}

// sameConfig reports whether two Rules come from the same config, whatever people have asked for at run time.
func sameConfig(a, b model.Rules) bool {
	configured := func(r model.Rules) []byte {
		r.Drain, r.DrainBy, r.Claims, r.Ports = false, "", nil, nil
		r.VMs = slices.DeleteFunc(slices.Clone(r.VMs), func(v model.VMRule) bool { return v.ByHand })
		text, _ := json.Marshal(r) //nolint:errchkjson // a rule that cannot be written differs from nothing
		return text
	}
	return bytes.Equal(configured(a), configured(b))
}
