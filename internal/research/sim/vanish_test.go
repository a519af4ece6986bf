package sim

import (
	"testing"
	"time"

	"sluice/internal/model"
)

// onUplinks runs a test on each of the kinds of Uplink; with -short only on the last.
func onUplinks(t *testing.T, kinds []Uplink, f func(t *testing.T, u Uplink)) {
	for i, u := range kinds {
		if i == len(kinds)-1 || !testing.Short() {
			t.Run(string(u), func(t *testing.T) { f(t, u) })
		}
	}
}

// TestVFsVanishAtEveryStep takes the VFs of the first PF away at every point of the Moves, and brings them back. Until Sluice's next look
// and the end of what it was doing, frames may go where the VF was; nothing is left over.
func TestVFsVanishAtEveryStep(t *testing.T) {
	onUplinks(t, Uplinks, func(t *testing.T, u Uplink) {
		atEveryPoint(t, seenAtOnce, 0, connected(u), func(h *host, at func() bool) {
			h.points(func() {
				if at() {
					h.At(h.World.Now, func() {
						p := h.World.PFs()[0]
						n := p.NumVFs
						h.World.Vanish(p)
						h.At(h.World.Now.Add(5*time.Second), func() { p.SetNumVFs(n) })
					})
				}
			})
		})
	})
}

// inVain is how long an unplug waits for a guest that keeps its VF: four times 3 s, with 1 s between them. Meanwhile Sluice does not look
// at that NIC.
const inVain = 15*time.Second + seenAtOnce

// TestRepresentorRenamedAtEveryStep renames the first representor at every point of the Moves and sets it down. Sluice finds it again at its
// next look; the guest is cut off until then, or until the Move under way has ended.
func TestRepresentorRenamedAtEveryStep(t *testing.T) {
	onUplinks(t, []Uplink{Representors, OVN}, func(t *testing.T, u Uplink) {
		for _, s := range situations {
			cut := seenAtOnce
			if s.keeps {
				cut = inVain
			}
			atEveryPointOf(t, []situation{s}, cut, 0, connected(u), func(h *host, at func() bool) {
				h.points(func() {
					if at() {
						h.At(h.World.Now, func() { h.World.RenamePort(h.World.PFs()[0], 0, "eth7", true) })
					}
				})
			})
		}
	})
}

// A VM that migrates away runs here until the end, also when its VF vanishes meanwhile.
func TestVFVanishesWhileItsVMMigrates(t *testing.T) {
	for _, u := range Uplinks {
		t.Run(string(u), func(t *testing.T) {
			h := newHost(t, 3, 1, model.Rules{Policy: "activity", Interval: 3 * time.Second})
			connected(u)(h)
			h.OnEvent = h.meter.Note
			atRest(h)
			h.want("vm2 ")
			h.World.VMs()[2].State = model.VMMigrating
			h.World.Vanish(h.World.PFs()[0])
			h.run(20 * time.Second)
			h.meter.Stop(h.World.Now)
			if got := h.meter.worst.most(); got > seenAtOnce {
				t.Errorf("%s, want at most %s\n%s", h.meter.story["vm2"], seenAtOnce, h.dump())
			}
			if err := h.sound(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPortLostAtEveryStep takes the first representor out of its switch at every point of the Moves. Sluice makes the port again at its
// next look, or after the Move under way: until then copies pass, but a Linux bridge gets what the guest sends by the port alone.
func TestPortLostAtEveryStep(t *testing.T) {
	for name, lose := range map[string]func(w *World, p *PF){
		"port deleted":  func(w *World, p *PF) { w.LosePort(p, 0) },
		"switch remade": func(w *World, p *PF) { w.RemakeSwitch(p.Network) },
	} {
		t.Run(name, func(t *testing.T) {
			onUplinks(t, []Uplink{Representors, OVN}, func(t *testing.T, u Uplink) {
				for _, s := range situations {
					cut := seenAtOnce
					if s.keeps && u == Representors {
						cut = inVain
					}
					atEveryPointOf(t, []situation{s}, cut, 0, connected(u), func(h *host, at func() bool) {
						h.points(func() {
							if at() {
								h.At(h.World.Now, func() { lose(h.World, h.World.PFs()[0]) })
							}
						})
					})
				}
			})
		})
	}
}

// TestSwitchStopsAtEveryStep stops OVN's database for 5 s at every point of the Moves: what is set up goes on.
func TestSwitchStopsAtEveryStep(t *testing.T) {
	atEveryPoint(t, 0, 5*time.Second, connected(OVN), func(h *host, at func() bool) {
		h.points(func() {
			if network := h.World.PFs()[0].Network; at() {
				h.World.StopSwitch(network, true)
				h.At(h.World.Now.Add(5*time.Second), func() { h.World.StopSwitch(network, false) })
			}
		})
	})
}
