package uplinktest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/uplink/ovstest"
	"sluice/internal/model"
)

// sites are the kinds of real hosts.
var sites = map[string]func(*testing.T) world{
	"linux bridge": bridgeWorld, "linux bridge, representors": representorWorld, "open vswitch": ovsWorld, "ovn": ovnWorld,
}

// TestKilledAtEachWrite kills the daemon before each change that it makes to the host while a VM gets a VF and loses it again. The guest is
// reached while no daemon runs, and the next one finishes or undoes the move.
func TestKilledAtEachWrite(t *testing.T) {
	for name, build := range sites {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, build(t))
			every := 1
			if testing.Short() && s.isOVN() {
				every = 4
			}
			for _, onVF := range []bool{true, false} {
				for at := 1; ; at += every {
					s.pinned = !onVF
					s.settle("at first", !onVF)
					s.pinned = onVF
					s.process.until = len(s.process.changes) + at
					s.run(wanted(s.pinned))
					if !s.killed() {
						if at < 5 {
							t.Errorf("only %d changes", at-1)
						}
						s.process.until = 0
						break
					}
					when := fmt.Sprintf("killed at change %d of a move to the VF: %v", at, onVF)
					s.reached(when)
					s.restart()
					s.reached(when + ", and started again")
					s.settle(when, onVF)
				}
			}
		})
	}
}

// wanted are rules by which the VM has the VF, or not.
func wanted(onVF bool) model.Rules {
	if onVF {
		return rules("vm0")
	}
	return rules()
}

// hostFault is something that goes wrong on the host while the guest is on its VF.
type hostFault struct {
	name         string
	representors bool // only hosts with representors have it
	do           func(s *site)
	onVF         bool          // the guest is on its VF when all is over
	mend         func(s *site) // nil: it stays so; else the guest is on its VF afterwards
	long         bool          // not of OVN in the short form
	within       bool          // it also happens while a dual path is open
}

var hostFaults = []hostFault{
	{name: "sriov_numvfs to 0", do: noVFs, within: true},
	{name: "sriov_numvfs to 0 and back", long: true, do: noVFs, mend: func(s *site) {
		if s.world.eswitch == model.EswitchSwitchdev {
			s.world.vf = kerneltest.NewPort(s.t, "rep0", "")
		}
		s.vfs = theVF()
	}},
	{name: "representor gone, VF kept", long: true, representors: true, do: func(s *site) { kerneltest.IP(s.t, "link delete rep0") }, within: true},
	{
		name: "representor renamed", representors: true, onVF: true, within: true,
		do: func(s *site) {
			kerneltest.IP(s.t, "link set rep0 down")
			kerneltest.IP(s.t, "link set rep0 name eth7")
			kerneltest.IP(s.t, "link set eth7 up")
			s.rep = "eth7"
		},
	},
	{name: "representor down", representors: true, onVF: true, do: func(s *site) { kerneltest.IP(s.t, "link set rep0 down") }},
	{
		name: "representor in another bridge", representors: true,
		do: func(s *site) {
			if s.isOVS() {
				ovstest.VSCtl(s.t, "del-port", "rep0")
			}
			kerneltest.IP(s.t, "link add br9 type bridge")
			s.t.Cleanup(func() { kerneltest.IP(s.t, "link delete br9") })
			kerneltest.IP(s.t, "link set rep0 master br9")
		},
		mend: func(s *site) { kerneltest.IP(s.t, "link set rep0 nomaster") },
	},
	{
		name: "representor out of the bridge", long: true, representors: true, onVF: true, within: true,
		do: func(s *site) {
			if s.isOVS() {
				ovstest.VSCtl(s.t, "del-port", "rep0")
				return
			}
			kerneltest.IP(s.t, "link set rep0 nomaster")
		},
	},
	{
		name: "tap out of the bridge and back", long: true, onVF: true, within: true,
		do: func(s *site) { s.leave(guestTap); s.join(guestTap) },
	},
	{
		name: "bridge deleted and made again", long: true, onVF: true, within: true,
		do: func(s *site) {
			switch {
			case s.isOVN(): // ovn-controller makes it again
				ovstest.VSCtl(s.t, "del-br", "br0")
				kerneltest.WaitFor(s.t, "OVN's bridge", func() bool { return bridgeExists("br0") })
			case s.isOVS():
				ovstest.VSCtl(s.t, "del-br", "br0", "--", "add-br", "br0", "--", "set", "bridge", "br0", "datapath_type="+ovstest.Datapath(s.t))
			default:
				kerneltest.IP(s.t, "link delete br0")
				kerneltest.IP(s.t, "link add br0 type bridge mcast_snooping 0 forward_delay 0")
				kerneltest.Quiet(s.t, "br0")
				kerneltest.IP(s.t, "link set br0 up")
			}
			for _, port := range []string{"pf0", guestTap, otherTap} {
				s.join(port)
			}
		},
	},
}

func bridgeExists(name string) bool {
	socket := "--db=unix:" + filepath.Join(os.Getenv("OVS_RUNDIR"), "db.sock")
	return exec.Command("ovs-vsctl", socket, "--timeout=5", "br-exists", name).Run() == nil
}

// noVFs is a write to sriov_numvfs: the VFs and their representors are gone, also from the guest.
func noVFs(s *site) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.world.eswitch == model.EswitchSwitchdev {
		kerneltest.IP(s.t, "link delete "+s.rep)
	}
	s.vfs, s.domains[0].Hostdevs = nil, nil
	clear(s.open)
}

func (s *site) isOVS() bool { return s.world.Kind() == "openvswitch" || s.isOVN() }

func (s *site) isOVN() bool { return s.world.Kind() == "ovn" }

// leave takes a port out of the switch, and join puts it into it, as the host's manager does.
func (s *site) leave(port string) {
	if s.isOVS() {
		ovstest.VSCtl(s.t, "del-port", port)
	} else {
		kerneltest.IP(s.t, "link set "+port+" nomaster")
	}
}

func (s *site) join(port string) {
	switch id := map[string]string{guestTap: "A", otherTap: "B"}[port]; {
	case !s.isOVS():
		kerneltest.IP(s.t, "link set "+port+" master br0")
		kerneltest.WaitForwarding(s.t, port)
	case s.isOVN() && id == "": // the PF is in no bridge of OVN
	case s.isOVN():
		ovstest.VSCtl(s.t, "--may-exist", "add-port", "br0", port, "--", "set", "interface", port, "external_ids:iface-id="+id)
	default:
		ovstest.VSCtl(s.t, "--may-exist", "add-port", "br0", port)
	}
}

// TestFaultsOfTheHost: what somebody does to the host while a guest is on its VF, and while both paths are open, is mended, or the guest is
// taken off the VF. Nothing is left over.
func TestFaultsOfTheHost(t *testing.T) {
	for name, build := range sites {
		for _, f := range hostFaults {
			if f.representors && name != "ovn" && name != "linux bridge, representors" || testing.Short() && name == "ovn" && f.long {
				continue
			}
			t.Run(name+"/"+f.name, func(t *testing.T) {
				s := newSite(t, build(t))
				s.pinned = true
				s.settle("at first", true)
				f.do(s)
				s.settle("on the VF", f.onVF)
				if f.mend != nil {
					f.mend(s)
					s.settle("mended", true)
				}
			})
			if !f.within || testing.Short() && name == "ovn" {
				continue
			}
			t.Run(name+"/"+f.name+" in a move", func(t *testing.T) {
				s := newSite(t, build(t))
				s.pinned = true
				s.settle("at first", true)
				done := false
				s.process.on = func(change string) {
					if change == "Detach" && !done {
						done = true
						f.do(s)
					}
				}
				s.run(rules())
				if !done {
					t.Error("there was no move")
				}
				s.settle("in a move", f.onVF)
			})
		}
	}
}

// TestDatabaseGoneInAMove: when the database of Open vSwitch is gone in the middle of a move and back later, and when its answer to a
// transaction is lost, the move ends. (While it is gone, a switch in user space passes no frames, with or without Sluice.)
func TestDatabaseGoneInAMove(t *testing.T) {
	for name, start := range map[string]func(*testing.T) (world, *ovstest.Host){
		"open vswitch": func(t *testing.T) (world, *ovstest.Host) {
			o := ovstest.Start(t)
			return worldOf(t), o
		},
		"ovn": func(t *testing.T) (world, *ovstest.Host) {
			h := startOVN(t)
			return ovnWorldOf(t, h), h
		},
	} {
		t.Run(name, func(t *testing.T) {
			steps := []string{"BindVFIO", "Steer", "Attach", "Detach"}
			if testing.Short() {
				if steps = steps[2:3]; name != "ovn" {
					t.Skip("nothing is written to the database")
				}
			}
			w, o := start(t)
			s := newSite(t, w)
			tried := 0
			defer func() {
				if tried == 0 {
					t.Errorf("no move has made any of the changes %v", steps)
				}
			}()
			for _, onVF := range []bool{true, false} {
				for _, at := range steps {
					s.pinned = !onVF
					s.settle("at first", !onVF)
					gone := false
					s.process.on = func(change string) {
						if change == at && !gone {
							gone = true
							ovstest.Kill(o.Database)
						}
					}
					s.pinned = onVF
					s.run(wanted(onVF))
					s.process.on = nil
					if !gone {
						continue // no change of this move
					}
					tried++
					when := fmt.Sprintf("the database ends before %s of a move to the VF: %v", at, onVF)
					o.StartDatabase(t)
					s.settle(when, onVF)
				}
				if !s.isOVN() {
					continue // nothing is written to the database
				}
				for n := 1; n <= 2 && !testing.Short(); n++ {
					s.pinned = !onVF
					s.settle("at first", !onVF)
					count := 0
					s.process.on = func(change string) {
						if change == "transact" {
							count++
							s.process.lost = count == n
						}
					}
					s.pinned = onVF
					s.run(wanted(onVF))
					s.process.on = nil
					when := fmt.Sprintf("the answer to transaction %d of a move to the VF is lost: %v", n, onVF)
					s.reachedSoon(when)
					s.settle(when, onVF)
				}
			}
		})
	}
}
