package wholetest

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"
)

var (
	moves = flag.Int("moves", 4, "how often the VM gets its VF and loses it again under traffic")
	every = flag.Bool("every", false, "rename representors and let VFs vanish before every change of a move, not one of them")
	kills = flag.Int("kills", 8, "how often the daemon is killed at a random moment")
)

// few is how often something is repeated, less often in the short form.
func few(n int) int {
	if testing.Short() {
		return (n + 1) / 2
	}
	return n
}

// onEachSwitch runs a test on each switch that representors can be ports of.
func onEachSwitch(t *testing.T, test func(s *site)) {
	for _, f := range []*fabric{&linuxBridge, &ovn} {
		t.Run(f.kind, func(t *testing.T) { test(newSite(t, f)) })
	}
}

// A VM gets its VF and loses it, again and again, while it is sent frames: the real daemon steers them on a real switch with representors.
func TestVFComesAndGoes(t *testing.T) {
	onEachSwitch(t, func(s *site) {
		s.want(false)
		status, err := s.api.Status(s.t.Context())
		if err != nil || len(status.PFs) != 1 || !status.PFs[0].Representors || status.PFs[0].Uplink != s.fabric.kind ||
			status.PFs[0].Network != "br0" || status.PFs[0].Why != "" {
			s.t.Fatalf("PFs %+v, %v", status.PFs, err)
		}
		for range few(*moves) {
			s.want(true)
			s.want(false)
		}
		s.quit()
		s.judge()
	})
}

// A representor that is renamed while its VF is in use keeps passing the guest's frames, and the next moves know its new name.
func TestRepresentorIsRenamed(t *testing.T) {
	onEachSwitch(t, func(s *site) {
		s.want(true)
		rename := func() {
			s.nic.rename("eth7")
			s.settled(true)
		}
		if s.fabric.renamed {
			s.interrupted("renamed", rename)
		} else {
			rename()
		}
		s.want(false)
		s.nic.rename("rep0")
		s.want(true)
		s.want(false)
		s.quit()
		s.judge()
	})
}

// A representor is renamed in the middle of a move: the move ends nevertheless, or is undone and made again under the new name.
func TestRepresentorIsRenamedInAMove(t *testing.T) {
	longForm(t)
	onEachSwitch(t, func(s *site) {
		names := []string{"eth7", "rep0"}
		s.eachChange(func(vf bool, at int) (done bool) {
			s.want(!vf)
			s.changes.before(at, func() error {
				done = true
				names[0], names[1] = names[1], names[0]
				s.nic.rename(names[1])
				return nil
			})
			if s.fabric.renamed {
				s.interrupted(fmt.Sprintf("renamed before change %d of a move, plug %v", at, vf), func() { s.want(vf) })
			} else {
				s.want(vf)
			}
			s.changes.before(0, nil)
			return done
		})
		s.quit()
		s.judge()
	})
}

// The VF of a VM vanishes, as by `echo 0 > sriov_numvfs`: QEMU gives it up, and the representor is deleted. The VM is on its tap again, with
// nothing left that sends its frames elsewhere, and gets the VF again when it is back.
func TestVFVanishes(t *testing.T) {
	onEachSwitch(t, func(s *site) {
		for what, vanish := range map[string]func(){
			"the VF vanishes, then its representor": func() { s.virt.remove(); s.nic.vanish() },
			"the representor vanishes, then the VF": func() { s.nic.vanish(); s.virt.remove() }, // as some drivers do
		} {
			s.want(true)
			rep := s.nic.representor()
			s.interrupted(what, func() {
				vanish()
				s.settled(false)
			})
			if s.fabric.forget != nil {
				s.fabric.forget(s.t, rep)
			}
			s.nic.create()
		}
		s.quit()
		s.judge()
	})
}

// The VF vanishes in the middle of a move: the VM is on its tap then, with nothing left over.
func TestVFVanishesInAMove(t *testing.T) {
	longForm(t)
	onEachSwitch(t, func(s *site) {
		s.eachChange(func(vf bool, at int) (done bool) {
			s.want(!vf)
			rep := s.nic.representor()
			s.changes.before(at, func() error {
				done = true
				s.nic.vanish()
				go s.virt.remove()
				return nil
			})
			s.interrupted(fmt.Sprintf("the VF vanishes before change %d of a move, plug %v", at, vf), func() {
				s.ask(vf)
				s.settles(func() bool { return vf && s.nic.representor() != "" })
			})
			s.changes.before(0, nil)
			if done {
				if s.fabric.forget != nil {
					s.fabric.forget(s.t, rep)
				}
				s.nic.create()
			}
			return done
		})
		s.quit()
		s.judge()
	})
}

func longForm(t *testing.T) {
	if testing.Short() {
		t.Skip("in the long form only")
	}
}

// eachChange tries something in a plug and in an unplug, before one of their changes, or before each until a move makes fewer.
func (s *site) eachChange(try func(vf bool, at int) (done bool)) {
	for _, vf := range []bool{true, false} {
		if !*every {
			try(vf, 1+rand.IntN(4))
			continue
		}
		for at := 1; try(vf, at); at++ {
			continue
		}
	}
}

// The daemon is killed before each change of a move that it makes by netlink or libvirt, and at random moments, and is told to end there as
// well; in the short form before one of these changes. The next one ends the move, and no frame is lost meanwhile.
func TestDaemonEndsInAMove(t *testing.T) {
	onEachSwitch(t, daemonEnds)
}

func daemonEnds(s *site) {
	t := s.t
	s.want(false)
	kill := func() error {
		s.kill()
		return errors.New("the daemon was killed")
	}
	term := func() error { return s.cmd.Process.Signal(syscall.SIGTERM) } // the change is made
	for name, end := range map[string]func() error{"killed": kill, "told to end": term} {
		last := map[bool]int{}
		for _, vf := range []bool{true, false} {
			for at := 1; ; at++ {
				if testing.Short() {
					at = 1 + rand.IntN(4)
				}
				s.want(!vf)
				s.changes.before(at, end)
				s.ask(vf)
				if !s.ends(vf) {
					break // it made fewer changes
				}
				if last[vf] = at; testing.Short() {
					break
				}
			}
		}
		t.Logf("%s before change %d of a plug and %d of an unplug, and in the long form each before", name, last[true], last[false])
		if min(last[true], last[false]) < 2 && !testing.Short() {
			t.Error("these are too few")
		}
	}
	seed := uint64(time.Now().UnixNano())
	rnd := rand.New(rand.NewPCG(seed, 0))
	for n := range few(*kills) {
		vf, end, after := n%2 == 0, []func() error{kill, term}[n/2%2], time.Duration(rnd.Int64N(int64(250*time.Millisecond)))
		s.ask(vf)
		time.Sleep(after) // a random moment
		_ = end()
		s.awaitEnd()
		s.start()
		s.settled(vf)
	}
	t.Logf("%d ends at random moments, seed %d", few(*kills), seed)
	s.quit()
	s.judge()
}
