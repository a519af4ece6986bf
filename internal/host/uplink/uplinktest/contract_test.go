package uplinktest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/beevik/etree"

	"sluice/internal/host/kernel"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/libvirt/domxml"
	"sluice/internal/host/netdev"
	"sluice/internal/host/uplink"
	"sluice/internal/host/uplink/bridge"
	"sluice/internal/model"
)

// world is an Uplink with a PF "pf0", which has one VF, and the taps "tap0", of the guest, and "tap1" on its switch. "pf9" is a PF that it
// does not serve.
type world struct {
	uplink.Uplink
	network string             // the switch
	tap, vf *kerneltest.Port   // where the frames for the guest leave the switch; nil for the fabric
	from    []*kerneltest.Port // where others send them
	eswitch model.EswitchMode
	learns  bool               // the switch learns that a guest is at its tap: no configured route says so
	rules   bool               // frames of the type of forbid must not reach the guest
	change  func(t *testing.T) // changes what Reader tells, other than by a Writer; nil: ToTap does
	links   func(t *testing.T) []netdev.Link
	unplug  func(t *testing.T) // the guest's tap goes away
	down    func(t *testing.T) // the guest's tap is set down
	unheld  func(t *testing.T) // makes a tap "tap8" on the switch that no process holds open
	// reach tells where a frame for the guest arrives that another port of the switch received.
	reach func(t *testing.T) (tap, vf bool)
	// filters returns the MACs that the NIC passes to the switch as well, and announced waits until the NIC has sent a frame from a
	// MAC to the wire; nil where representors make both needless.
	filters   func(t *testing.T) []model.MAC
	announced func(t *testing.T, mac model.MAC)
}

const guestTap, otherTap = "tap0", "tap1"

// TestContract checks that each implementation does what the documentation of uplink.Reader and uplink.Writer says.
func TestContract(t *testing.T) {
	for name, build := range map[string]func(*testing.T) world{
		"fabric": fabricWorld, "linux bridge": bridgeWorld, "linux bridge, representors": representorWorld,
		"open vswitch": ovsWorld, "ovn": ovnWorld,
	} {
		for part, check := range map[string]func(*testing.T, world){
			"connections": checkConnections, "watch": checkWatch, "routes": checkRoutes, "dual path": checkDualPath, "check": checkCheck, "gone": checkGone,
			"two guests": checkTwoGuests, "NIC": checkNIC,
		} {
			t.Run(name+"/"+part, func(t *testing.T) { check(t, build(t)) })
		}
	}
}

func fabricWorld(*testing.T) world {
	f := New()
	f.Plug(guestTap, 0)
	f.Plug(otherTap, 0)
	return world{
		Uplink: f, network: Switch,
		links: func(*testing.T) []netdev.Link {
			return []netdev.Link{{Index: 1, Name: "pf0"}, {Index: 2, Name: guestTap}, {Index: 3, Name: "lo"}, {Index: 4, Name: "pf9"}}
		},
		unplug: func(*testing.T) { f.Unplug(guestTap) },
		down:   func(*testing.T) { f.Disable(guestTap) },
		unheld: func(*testing.T) {
			f.Plug("tap8", 0)
			f.Disable("tap8")
		},
		reach: func(*testing.T) (tap, vf bool) {
			ports := f.Reach(kerneltest.Guest, guestTap)
			return slices.Contains(ports, guestTap), slices.Contains(ports, Representor(model.VFID{PF: "pf0"}))
		},
	}
}

// bridgeWorld is a real bridge. Frames that leave its pf0 are those that a NIC would pass to the VF.
func bridgeWorld(t *testing.T) world {
	lan := kerneltest.NewLAN(t)
	return realBridge(t, lan, lan.PF)
}

// representorWorld is a real bridge with a tap "rep0" that the kernel is said to show as the representor of the VF. Frames that leave it
// are those that a NIC would pass to the VF.
func representorWorld(t *testing.T) world {
	lan := kerneltest.NewLAN(t)
	rep := kerneltest.NewPort(t, "rep0", "")
	kerneltest.IP(t, "link set rep0 down")
	w := realBridge(t, lan, rep)
	w.eswitch, w.filters = model.EswitchSwitchdev, nil
	w.from = append(w.from, lan.PF)
	links := w.links
	w.links = func(t *testing.T) []netdev.Link {
		all := links(t)
		for i := range all {
			switch l := &all[i]; l.Name {
			case "pf0":
				l.Switch, l.Port = "a1", "p0"
			case "rep0":
				l.Switch, l.Port = "a1", "pf0vf0"
			}
		}
		return all
	}
	return w
}

// realBridge is a real bridge on which frames to the VF leave through a port.
func realBridge(t *testing.T, lan kerneltest.LAN, toVF *kerneltest.Port) world {
	k := newKernel(t)
	return realWorld(t, k, bridge.New(k), lan, toVF, func(t *testing.T, port string) { kerneltest.IP(t, "link set "+port+" master br0") })
}

func newKernel(t *testing.T) *kernel.Host {
	k, err := kernel.New(kernel.Options{BPFFS: kerneltest.BPFFS(t), StickyPins: true})
	kerneltest.Must(t, err)
	t.Cleanup(func() { kerneltest.Must(t, k.Close()) })
	return k
}

// realWorld is a switch br0 of the kernel on which frames to the VF leave through a port; join puts an interface into it.
func realWorld(t *testing.T, k *kernel.Host, u uplink.Uplink, lan kerneltest.LAN, toVF *kerneltest.Port, join func(t *testing.T, port string)) world {
	kerneltest.NewPort(t, "pf9", "")
	sent := 0
	return world{
		Uplink: u, network: "br0", tap: lan.Tap, vf: toVF, from: []*kerneltest.Port{lan.Peer},
		links: func(t *testing.T) []netdev.Link {
			all, err := k.Links(kerneltest.Soon(t))
			kerneltest.Must(t, err)
			return all
		},
		unplug: func(t *testing.T) {
			kerneltest.Must(t, lan.Tap.Close())
			kerneltest.WaitFor(t, "the tap to go away", func() bool {
				_, err := k.Link(kerneltest.Soon(t), guestTap)
				return errors.Is(err, model.ErrGone)
			})
		},
		down: func(t *testing.T) { kerneltest.IP(t, "link set "+guestTap+" down") },
		unheld: func(t *testing.T) {
			kerneltest.IP(t, "tuntap add mode tap name tap8")
			t.Cleanup(func() { kerneltest.IP(t, "link delete tap8") })
			kerneltest.IP(t, "link set tap8 up")
			join(t, "tap8")
		},
		filters: func(t *testing.T) []model.MAC {
			all, err := k.Selfs(kerneltest.Soon(t), "pf0")
			kerneltest.Must(t, err)
			return all
		},
		announced: func(t *testing.T, mac model.MAC) {
			for {
				if frame := lan.PF.Next(t); bytes.Equal(frame[6:12], mac[:]) {
					return
				}
			}
		},
		reach: func(t *testing.T) (tap, vf bool) {
			sent++
			frame := kerneltest.Frame(kerneltest.Guest, kerneltest.Other, fmt.Sprint("frame ", sent))
			l, err := k.Link(kerneltest.Soon(t), toVF.Name)
			kerneltest.Must(t, err)
			joined := toVF == lan.PF || l.Master != 0
			lan.Peer.Send(t, frame)
			// A switch in user space sends several frames at once, port by port: only the second of the last frames is certainly the last.
			for n := range 2 {
				last := kerneltest.Frame(kerneltest.Broadcast, kerneltest.Other, fmt.Sprint("last ", sent, " ", n))
				lan.Peer.Send(t, last)
				arrives := func(at *kerneltest.Port, found *bool) {
					for {
						switch got := at.Next(t); {
						case string(got) == string(last):
							return
						case string(got) == string(frame) && *found:
							t.Errorf("%s receives the frame twice", at.Name)
						default:
							*found = *found || string(got) == string(frame)
						}
					}
				}
				arrives(lan.Tap, &tap)
				if joined {
					arrives(toVF, &vf)
				}
			}
			return tap, vf
		},
	}
}

// find returns how the PF of that name is connected.
func (w world) find(t *testing.T, pf string) (up model.Uplink, vfs []model.VF, ok bool) {
	var links uplink.Links
	links.Index(w.links(t))
	found := model.PF{Name: pf, NumVFs: 1, Eswitch: w.eswitch, VFs: []model.VF{{ID: model.VFID{PF: pf}}}}
	up, ok = w.PF(&links, &found)
	return up, found.VFs, ok
}

// step returns the Step for a guest's tap and MAC, as package plan fills it in.
func (w world) step(t *testing.T, tap string, mac model.MAC) *model.PathStep {
	up, vfs, _ := w.find(t, "pf0")
	return &model.PathStep{
		MAC: mac, Tap: tap, Network: up.Switch, PF: "pf0", Uplink: cmp.Or(vfs[0].Port, up.Port), Kind: w.Kind(), Representor: up.Representors,
	}
}

// routes returns the ports that a MAC is routed to.
func (w world) routes(t *testing.T, mac model.MAC) (ports []string) {
	all, err := w.Routes(kerneltest.Soon(t))
	kerneltest.Must(t, err)
	for _, r := range all {
		if r.MAC == mac {
			ports = append(ports, r.Port)
		}
	}
	return ports
}

// at returns the routes of a guest that is at its tap.
func (w world) at(tap string) []string {
	if w.learns {
		return nil
	}
	return []string{tap}
}

// dualPaths returns the MACs that have a dual path, sorted.
func (w world) dualPaths(t *testing.T) (macs []model.MAC) {
	all, err := w.DualPaths(kerneltest.Soon(t))
	kerneltest.Must(t, err)
	for _, d := range all {
		if d.PF != "pf0" || d.Tap == "" || d.Detached == model.Yes {
			t.Errorf("dual path %+v", d)
		}
		macs = append(macs, d.MAC)
	}
	slices.SortFunc(macs, func(a, b model.MAC) int { return slices.Compare(a[:], b[:]) })
	return macs
}

// state is what a Writer's method is to bring about.
type state struct {
	route string // "": none
	both  bool   // there is a dual path
	// Who receives frames for the guest. Without a route the VF may receive them too: a switch floods what it has not learned.
	tap, vf bool
}

// expect calls a method twice, because it must succeed if the state already holds, and checks the state after each call.
func (w world) expect(t *testing.T, name string, call func(context.Context, *model.PathStep) error, p *model.PathStep, want state) {
	t.Helper()
	for n := range 2 {
		if err := call(kerneltest.Soon(t), p); err != nil {
			t.Fatalf("%s, call %d: %v", name, n+1, err)
		}
		tap, vf := w.reach(t)
		if want.route == "" {
			vf = want.vf
		}
		if w.learns && want.route == guestTap {
			want.route = ""
		}
		got := state{strings.Join(w.routes(t, p.MAC), ", "), slices.Contains(w.dualPaths(t), p.MAC), tap, vf}
		if got != want {
			t.Errorf("%s, call %d: %+v, want %+v", name, n+1, got, want)
		}
	}
}

// toBoth is ToBoth without its note.
func (w world) toBoth(ctx context.Context, p *model.PathStep) error {
	_, err := w.ToBoth(ctx, p)
	return err
}

func checkConnections(t *testing.T, w world) {
	up, vfs, ok := w.find(t, "pf0")
	if !ok || up.Why != "" || up.Switch != w.network || w.Kind() == "" || up.Representors != (vfs[0].Port != "") {
		t.Errorf("pf0 is connected by %+v, %v; VFs %+v", up, ok, vfs)
	}
	if up, _, ok := w.find(t, "pf9"); ok || up.Why == "" || up.Remedy == "" {
		t.Errorf("a PF that it does not serve: %+v, %v", up, ok)
	}
	var links uplink.Links
	links.Index(w.links(t))
	if port, ok := w.Tap(&links, links.ByName[guestTap]); !ok || port.Switch != w.network || !port.Up {
		t.Errorf("the tap's port is %+v, %v", port, ok)
	}
	if port, ok := w.Tap(&links, links.ByName["lo"]); ok {
		t.Errorf("lo has port %+v", port)
	}
	c, err := w.Connection(kerneltest.Soon(t), w.network)
	iface := etree.NewElement("interface")
	iface.CreateAttr("type", domxml.TapType)
	domxml.Connect(iface, c)
	if name, ok := domxml.SwitchOf(iface, nil); err != nil || !ok || name != w.network {
		t.Errorf("a definition connects a tap by %+v, which reads as %q; %v", c, name, err)
	}
	for _, name := range []string{"nowhere", "lo"} {
		if c, err := w.Connection(kerneltest.Soon(t), name); !errors.Is(err, model.ErrPermanent) || strings.Count(err.Error(), ": ") < 2 {
			t.Errorf("%s: %+v, %v, want a reason and a remedy", name, c, err)
		}
	}
	if err := w.CheckDualPaths(); err != nil && !strings.Contains(err.Error(), "; ") {
		t.Errorf("without a remedy: %v", err)
	}
}

func checkWatch(t *testing.T, w world) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	events, err := w.Watch(ctx)
	kerneltest.Must(t, err)
	if events == nil { // kernel.Host.Watch reports everything
		return
	}
	if w.change != nil {
		w.change(t)
	} else {
		kerneltest.Must(t, w.ToTap(kerneltest.Soon(t), w.step(t, guestTap, kerneltest.Guest)))
	}
	select {
	case <-events:
	case <-time.After(time.Minute):
		t.Fatal("no event for a change")
	}
	cancel()
	for open := true; open; {
		select {
		case _, open = <-events:
		case <-time.After(time.Minute):
			t.Fatal("the channel of Watch is not closed when the context ends")
		}
	}
}

func checkRoutes(t *testing.T, w world) {
	p := w.step(t, guestTap, kerneltest.Guest)
	back := *p
	back.VirtioRoute = guestTap
	if got := w.routes(t, p.MAC); len(got) > 0 {
		t.Errorf("routes before the first: %v", got)
	}
	w.expect(t, "ToTap", w.ToTap, p, state{route: guestTap, tap: true})
	w.expect(t, "ToVF", w.ToVF, p, state{route: p.Port(), vf: true})
	w.expect(t, "Back to the tap", w.Back, &back, state{route: guestTap, tap: true})
	w.expect(t, "ToVF again", w.ToVF, p, state{route: p.Port(), vf: true})
	w.expect(t, "Back to no route", w.Back, p, state{tap: true})
}

func checkDualPath(t *testing.T, w world) {
	p := w.step(t, guestTap, kerneltest.Guest)
	w.expect(t, "ToTap", w.ToTap, p, state{route: guestTap, tap: true})
	w.expect(t, "ToBoth", w.toBoth, p, state{route: guestTap, both: true, tap: true, vf: true})
	kerneltest.Must(t, w.ToVF(kerneltest.Soon(t), p))
	if _, vf := w.reach(t); !vf {
		t.Error("routed to the VF during a dual path, it receives nothing")
	}
	w.expect(t, "ToTap during a dual path", w.ToTap, p, state{route: guestTap, both: true, tap: true, vf: true})
	w.expect(t, "ToOne after ToTap", w.ToOne, p, state{route: guestTap, tap: true})
	kerneltest.Must(t, w.toBoth(kerneltest.Soon(t), p))
	kerneltest.Must(t, w.ToVF(kerneltest.Soon(t), p))
	w.expect(t, "ToOne after ToVF", w.ToOne, p, state{route: p.Port(), vf: true})
}

func checkCheck(t *testing.T, w world) {
	p := w.step(t, guestTap, kerneltest.Guest)
	kerneltest.Must(t, w.Check(kerneltest.Soon(t), p))
	w.unheld(t)
	for _, wrong := range []model.PathStep{
		{MAC: p.MAC, Tap: "tap8", Network: p.Network, PF: "pf0"},
		{MAC: p.MAC, Tap: guestTap, Network: "nowhere", PF: "pf0"},
		{MAC: p.MAC, Tap: "tap9", Network: p.Network, PF: "pf0"},
		{MAC: p.MAC, Tap: "lo", Network: p.Network, PF: "pf0"},
	} {
		if err := w.Check(kerneltest.Soon(t), &wrong); err == nil || errors.Is(err, model.ErrGone) {
			t.Errorf("tap %s in %s: %v", wrong.Tap, wrong.Network, err)
		}
	}
	w.down(t)
	if err := w.Check(kerneltest.Soon(t), p); err == nil || errors.Is(err, model.ErrGone) {
		t.Errorf("a tap that is down: %v", err)
	}
}

// checkGone ends the VM during a dual path: nothing fails that ends an undo, and nothing remains that sends its frames to the VF.
func checkGone(t *testing.T, w world) {
	p := w.step(t, guestTap, kerneltest.Guest)
	kerneltest.Must(t, w.toBoth(kerneltest.Soon(t), p))
	kerneltest.Must(t, w.ToVF(kerneltest.Soon(t), p))
	w.unplug(t)
	for range 2 {
		kerneltest.Must(t, w.ToTap(kerneltest.Soon(t), p))
		kerneltest.Must(t, w.ToOne(kerneltest.Soon(t), p))
	}
	if routes, both := w.routes(t, p.MAC), w.dualPaths(t); len(routes)+len(both) > 0 {
		t.Errorf("routes to %v and dual paths %v remain", routes, both)
	}
	if err := w.Check(kerneltest.Soon(t), p); err == nil || errors.Is(err, model.ErrGone) {
		t.Errorf("Check without the tap: %v", err)
	}
	if err := w.toBoth(kerneltest.Soon(t), p); err == nil {
		t.Error("a dual path was opened without the tap")
	}
}

// checkTwoGuests changes the paths of two guests independently.
func checkTwoGuests(t *testing.T, w world) {
	first, second := w.step(t, guestTap, kerneltest.Guest), w.step(t, otherTap, kerneltest.Stray)
	for _, p := range []*model.PathStep{first, second} {
		kerneltest.Must(t, w.toBoth(kerneltest.Soon(t), p))
		kerneltest.Must(t, w.ToTap(kerneltest.Soon(t), p))
	}
	if got := w.dualPaths(t); !slices.Equal(got, []model.MAC{first.MAC, second.MAC}) {
		t.Errorf("dual paths of %v", got)
	}
	kerneltest.Must(t, w.ToVF(kerneltest.Soon(t), first))
	kerneltest.Must(t, w.ToOne(kerneltest.Soon(t), first))
	if got := w.dualPaths(t); !slices.Equal(got, []model.MAC{second.MAC}) {
		t.Errorf("after the first was closed: dual paths of %v", got)
	}
	if got := w.routes(t, second.MAC); !slices.Equal(got, w.at(otherTap)) {
		t.Errorf("after the first was routed to its VF, the second is routed to %v", got)
	}
}

// checkNIC: filters and announcements take effect, can be repeated, and move nothing on the switch.
func checkNIC(t *testing.T, w world) {
	p := w.step(t, guestTap, kerneltest.Guest)
	kerneltest.Must(t, w.ToTap(kerneltest.Soon(t), p))
	for range 2 {
		note, err := w.FromNIC(kerneltest.Soon(t), p)
		kerneltest.Must(t, err)
		if w.filters != nil && (note != "" || !slices.Contains(w.filters(t), p.MAC)) {
			t.Errorf("after FromNIC the NIC passes %v; note %q", w.filters(t), note)
		}
	}
	kerneltest.Must(t, w.Announce(kerneltest.Soon(t), p))
	if w.announced != nil {
		w.announced(t, p.MAC)
	}
	for range 2 {
		kerneltest.Must(t, w.NotFromNIC(kerneltest.Soon(t), p))
		if w.filters != nil && slices.Contains(w.filters(t), p.MAC) {
			t.Errorf("after NotFromNIC the NIC passes %v", w.filters(t))
		}
	}
	if got := w.routes(t, p.MAC); !slices.Equal(got, w.at(guestTap)) {
		t.Errorf("routes: %v", got)
	}
}
