package wholetest

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"sluice/internal/host/kernel/kerneltest"
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
		s.interrupted("renamed", func(begun func()) {
			s.rename("eth7", begun)
			s.settled(true)
		})
		s.want(false)
		s.nic.rename("rep0")
		s.want(true)
		s.want(false)
		s.quit()
		s.judge()
	})
}

// rename renames the representor.
func (s *site) rename(to string, begun func()) {
	if s.fabric.renamed {
		begun()
	}
	s.nic.rename(to)
}

// A representor is renamed in the middle of a move: the move ends nevertheless, or is undone and made again under the new name.
func TestRepresentorIsRenamedInAMove(t *testing.T) {
	longForm(t)
	onEachSwitch(t, func(s *site) {
		names := []string{"eth7", "rep0"}
		s.eachChange("the representor is renamed", *every, func(vf bool, at int) (done bool) {
			s.want(!vf)
			s.interrupted(fmt.Sprintf("renamed before change %d of a move, plug %v", at, vf), func(begun func()) {
				s.changes.before(at, func() error {
					done = true
					names[0], names[1] = names[1], names[0]
					s.rename(names[1], begun)
					return nil
				})
				s.want(vf)
				s.changes.before(0, nil)
			})
			return done
		})
		s.quit()
		s.judge()
	})
}

// A guest reboots: when it is back it is on its tap until its driver opens the VF again, and sends there until that has a link. It may be
// back before the daemon has seen it, or while the daemon does something about it.
func TestGuestReboots(t *testing.T) {
	onEachSwitch(t, func(s *site) {
		s.want(true)
		for range few(4) {
			s.interrupted("the guest reboots", func(begun func()) {
				begun()
				s.guest.shut()
				kerneltest.WaitFor(s.t, "the daemon to see it, which takes less than a boot", s.fedBoth)
			})
			s.guest.boot(booting)
			s.settled(true)
		}
		for range few(4) {
			s.interrupted("the guest reboots, whether or not the daemon sees it", func(begun func()) {
				begun()
				s.guest.shut()
				time.Sleep(rand.N(300 * time.Millisecond)) // a random moment: the daemon has seen it, or not, or does something about it
				s.guest.boot(linking)
				kerneltest.WaitFor(s.t, "the guest to send through its VF", s.guest.linked) // nobody can see that it sends elsewhere
				s.settled(true)
			})
		}
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
			s.interrupted(what, func(begun func()) {
				begun()
				vanish()
				s.settled(false)
			})
			if s.fabric.forget != nil {
				s.fabric.forget(s.t, rep)
			}
			s.nic.create(s.t)
		}
		s.quit()
		s.judge()
	})
}

// The VF vanishes in the middle of a move: the VM is on its tap then, with nothing left over.
func TestVFVanishesInAMove(t *testing.T) {
	longForm(t)
	onEachSwitch(t, func(s *site) {
		s.eachChange("the VF vanishes", *every, func(vf bool, at int) (done bool) {
			s.want(!vf)
			rep := s.nic.representor()
			s.interrupted(fmt.Sprintf("the VF vanishes before change %d of a move, plug %v", at, vf), func(begun func()) {
				s.changes.before(at, func() error {
					done = true
					begun()
					s.nic.vanish()
					go s.virt.remove()
					return nil
				})
				s.ask(vf)
				s.settles(func() bool { return vf && s.nic.representor() != "" })
				s.changes.before(0, nil)
			})
			if done {
				if s.fabric.forget != nil {
					s.fabric.forget(s.t, rep)
				}
				s.nic.create(s.t)
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

// eachChange tries something in a plug and in an unplug: before each of their changes, until a move makes fewer, or before a random one.
func (s *site) eachChange(what string, each bool, try func(vf bool, at int) (done bool)) {
	for _, vf := range []bool{true, false} {
		at := 0
		if each {
			for try(vf, at+1) {
				at++
			}
		} else {
			for at = 1 + rand.IntN(4); at > 0 && !try(vf, at); at-- {
				continue
			}
		}
		s.t.Logf("%s before change %d of a move, and before each earlier one: %v; plug %v", what, at, each, vf)
		if at == 0 || each && at < 2 {
			s.t.Errorf("%s before change %d at most: too few were tried", what, at)
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
		s.eachChange("the daemon is "+name, !testing.Short(), func(vf bool, at int) bool {
			s.want(!vf)
			s.changes.before(at, end)
			s.ask(vf)
			return s.ends(vf)
		})
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
