package uplinktest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"sluice/internal/control/loop"
	"sluice/internal/host/actuate"
	"sluice/internal/host/kernel"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/libvirt"
	"sluice/internal/host/mirror"
	"sluice/internal/host/netdev"
	"sluice/internal/host/observe"
	"sluice/internal/host/uplink"
	"sluice/internal/host/uplink/bridge"
	"sluice/internal/host/uplink/ovs"
	"sluice/internal/host/vf"
	"sluice/internal/model"
)

var errKilled = errors.New("the process was killed")

// process is one that changes its host. It counts the changes, and ends before one of them: nothing that it does from then on has an effect.
type process struct {
	mu      sync.Mutex
	changes []string
	until   int                 // the change before which it ends; 0: never
	ended   bool                // it has ended
	on      func(change string) // before each, if set
	lost    bool                // the answer to the next transaction of the database is lost, and the connection with it
}

// change returns an error if the process ends before this change.
func (p *process) change(what string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended = p.ended || p.until > 0 && len(p.changes)+1 >= p.until; p.ended {
		return errKilled
	}
	p.changes = append(p.changes, what)
	if p.on != nil {
		p.on(what)
	}
	return nil
}

func (p *process) killed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// lose makes the answer to the next transaction be lost, or not.
func (p *process) lose(it bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost = it
}

// loses reports whether this answer is lost.
func (p *process) loses() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	lost := p.lost
	p.lost = false
	return lost
}

// processKernel is the kernel as such a process uses it.
type processKernel struct {
	*kernel.Host
	process *process
}

func (k processKernel) PinFDB(ctx context.Context, mac model.MAC, vlan int, port string) error {
	return k.make("PinFDB", func() error { return k.Host.PinFDB(ctx, mac, vlan, port) })
}

func (k processKernel) UnpinFDB(ctx context.Context, mac model.MAC, vlan int, port string) error {
	return k.make("UnpinFDB", func() error { return k.Host.UnpinFDB(ctx, mac, vlan, port) })
}

func (k processKernel) PreparePort(ctx context.Context, port string) error {
	return k.make("PreparePort", func() error { return k.Host.PreparePort(ctx, port) })
}

func (k processKernel) JoinAs(ctx context.Context, dev, tap string) error {
	return k.make("JoinAs", func() error { return k.Host.JoinAs(ctx, dev, tap) })
}

func (k processKernel) OpenDualPath(ctx context.Context, d mirror.DualPath) (note string, err error) {
	err = k.make("OpenDualPath", func() (err error) { note, err = k.Host.OpenDualPath(ctx, d); return err })
	return note, err
}

func (k processKernel) CloseDualPath(ctx context.Context, d mirror.DualPath) error {
	return k.make("CloseDualPath", func() error { return k.Host.CloseDualPath(ctx, d) })
}

func (k processKernel) Steer(ctx context.Context, d mirror.DualPath) error {
	return k.make("Steer", func() error { return k.Host.Steer(ctx, d) })
}

func (k processKernel) SetUp(ctx context.Context, name string) error {
	return k.make("SetUp", func() error { return k.Host.SetUp(ctx, name) })
}

func (k processKernel) AddSelf(ctx context.Context, pf string, mac model.MAC) error {
	return k.make("AddSelf", func() error { return k.Host.AddSelf(ctx, pf, mac) })
}

func (k processKernel) DelSelf(ctx context.Context, pf string, mac model.MAC) error {
	return k.make("DelSelf", func() error { return k.Host.DelSelf(ctx, pf, mac) })
}

// make makes a change unless the process has ended.
func (k processKernel) make(what string, change func() error) error {
	if err := k.process.change(what); err != nil {
		return err
	}
	return change()
}

// through is a switch that a process reaches by what lies between it and the database.
func through(t *testing.T, p *process, k ovs.Kernel) *ovs.Switch {
	dir := os.Getenv("OVS_RUNDIR")
	kerneltest.Must(t, os.Setenv("OVS_RUNDIR", between(t, p)))
	s := ovs.New(kerneltest.Soon(t), k, slog.New(slog.DiscardHandler))
	kerneltest.Must(t, os.Setenv("OVS_RUNDIR", dir))
	s.AllowUserspace()
	return s
}

// between passes on what a process and the database of Open vSwitch say to each other. It returns the directory with the socket.
func between(t *testing.T, p *process) (dir string) {
	dir = t.TempDir()
	server := filepath.Join(os.Getenv("OVS_RUNDIR"), "db.sock")
	listener, err := net.Listen("unix", filepath.Join(dir, "db.sock"))
	kerneltest.Must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go pass(c, server, p)
		}
	}()
	return dir
}

func pass(c net.Conn, server string, p *process) {
	defer c.Close()
	s, err := net.Dial("unix", server)
	if err != nil {
		return
	}
	defer s.Close()
	silent := make(chan struct{})
	go func() {
		defer c.Close()
		in, buf := io.Reader(s), make([]byte, 64<<10)
		for {
			n, err := in.Read(buf)
			select {
			case <-silent:
				return
			default:
			}
			if _, failed := c.Write(buf[:n]); err != nil || failed != nil {
				return
			}
		}
	}()
	for in := json.NewDecoder(c); ; {
		var raw json.RawMessage
		if in.Decode(&raw) != nil {
			return
		}
		var call struct{ Method string }
		if json.Unmarshal(raw, &call); call.Method == "transact" {
			if p.change("transact") != nil {
				return
			}
			if p.loses() { // the database does it, and the answer is lost
				close(silent)
				_, _ = s.Write(raw)
				_, _ = s.Read(make([]byte, 1))
				return
			}
		}
		if _, err := s.Write(raw); err != nil {
			return
		}
	}
}

// kept is a journal that outlives the process.
type kept struct {
	loop.NoJournal
	open []model.Move
}

func (k *kept) Begin(m model.Move) error {
	k.open = append(k.open, m)
	return nil
}

func (k *kept) End(m model.Move) error {
	k.open = slices.DeleteFunc(k.open, func(o model.Move) bool { return o.VM == m.VM && o.VF == m.VF })
	return nil
}

// site is a host whose taps, representors and switch are real, with a VM "vm0" at the first tap and a VF 0. Its daemon is a process.
type site struct {
	*rig
	world   world
	process *process
	journal kept
	end     func() // of the process
	number  int
	pins    string
	pinned  bool   // the VM is to have the VF
	rep     string // the present name of the representor
	tag     int    // VLAN of the last frame that arrived, 0: none
}

// newSite makes the host, on which frames for the VF leave by w.vf.
func newSite(t *testing.T, w world) *site {
	h := &host{t: t, open: map[model.PCIAddress]bool{}, vfs: theVF()}
	h.domains = []libvirt.Domain{domain(0, guestTap, kerneltest.Guest)}
	s := &site{rig: &rig{host: h, now: time.Now()}, world: w, pins: kerneltest.BPFFS(t), rep: "rep0"}
	h.real = s
	s.start()
	t.Cleanup(func() { s.end() })
	return s
}

func theVF() []model.VF {
	return []model.VF{{ID: model.VFID{PF: "pf0"}, Address: "0000:01:10.0", Driver: "vfio-pci"}}
}

// start starts the daemon.
func (s *site) start() {
	t := s.t
	s.process = &process{}
	k, err := kernel.New(kernel.Options{BPFFS: s.pins, StickyPins: true})
	kerneltest.Must(t, err)
	m := processKernel{k, s.process}
	up, end := uplink.Set{bridge.New(m)}, func() {}
	if s.world.Kind() != bridge.Kind {
		v := through(t, s.process, m)
		up, end = append(up, v.OVN(), v), v.Close
	}
	source := observe.New(s.host, up, s.host, nil, observe.Options{Pool: observe.Pool{"pf0": {All: true}}})
	s.source, s.act = source, actuate.New(s.host, up, s.host, nil)
	s.state = observe.Applied{Source: source, Uplinks: up, Taps: s.host}
	o := loop.DefaultOptions
	o.Mode = model.ModeEnforce
	s.core, err = loop.NewCore(rules(), o, &s.journal, slices.Clone(s.journal.open))
	kerneltest.Must(t, err)
	s.end = func() {
		source.Close()
		end()
		kerneltest.Must(t, k.Close())
	}
}

// restart ends the process as a kill does, and starts the next.
func (s *site) restart() {
	s.end()
	s.start()
}

// links are the interfaces of the host, and info what it says of its PF.
func (s *site) links() []netdev.Link {
	all := s.world.links(s.t)
	for i := range all {
		if all[i].Name == s.rep && s.world.eswitch == model.EswitchSwitchdev {
			all[i].Switch, all[i].Port = "a1", "pf0vf0"
		}
	}
	return all
}

func (s *site) info(pf *vf.PFInfo) {
	pf.Eswitch = s.world.eswitch
	if s.world.filters != nil {
		pf.SelfFDB = s.world.filters(s.t)
	}
}

// listens is the port at which the guest receives.
func (s *site) listens() *kerneltest.Port {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.domains[0].Hostdevs {
		if s.open[d.Address] {
			return s.world.vf
		}
	}
	return s.world.tap
}

// reached fails the test unless the next frame for the guest reaches it.
func (s *site) reached(when string) {
	s.t.Helper()
	if at := s.listens(); !s.arrives(at, 30*time.Second) {
		s.t.Fatalf("%s: nothing reaches the guest at %s; changes: %v\n%+v", when, at.Name, s.process.changes, s.look())
	}
}

// reachedSoon fails the test unless frames for the guest reach it again within 10 s, without the daemon's help: after an answer that was lost,
// nobody has waited for ovn-controller to follow.
func (s *site) reachedSoon(when string) {
	s.t.Helper()
	at := s.listens()
	for end := time.Now().Add(10 * time.Second); !s.arrives(at, time.Second); {
		if time.Now().After(end) {
			s.t.Fatalf("%s: nothing reaches the guest at %s; changes: %v\n%+v", when, at.Name, s.process.changes, s.look())
		}
	}
}

// arrives reports whether a frame for the guest arrives at a port.
func (s *site) arrives(at *kerneltest.Port, within time.Duration) bool {
	s.number++
	frame := kerneltest.Frame(kerneltest.Guest, kerneltest.Other, "numbered "+time.Duration(s.number).String())
	s.world.from[0].Send(s.t, frame)
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(time.Millisecond) {
		for got := at.Waiting(s.t); got != nil; got = at.Waiting(s.t) {
			if s.tag, got = untagged(got); string(got) == string(frame) {
				return true
			}
		}
	}
	return false
}

// untagged returns the VLAN of a frame, and the frame without its tag.
func untagged(frame []byte) (vlan int, rest []byte) {
	if len(frame) < 16 || frame[12] != 0x81 || frame[13] != 0 {
		return 0, frame
	}
	return int(frame[14]&0xf)<<8 | int(frame[15]), append(frame[:12:12], frame[16:]...)
}

// settle runs the daemon until nothing is left to do, and the guest is on its VF or not, and reached there. A switch tells of a change only
// a little later, so that the daemon may see nothing to do at first.
func (s *site) settle(when string, onVF bool) {
	s.t.Helper()
	var snap *model.Snapshot
	for end := time.Now().Add(time.Minute); ; s.now = s.now.Add(10 * time.Minute) { // a NIC rests longer after each failure
		snap = s.run(wanted(s.pinned))
		v := s.core.View()
		n := &snap.VMs[0].NICs[0]
		if (n.VF != model.NoVF) == onVF && !n.DualPath && len(v.Active)+len(v.Pending)+len(v.Findings)+len(s.journal.open) == 0 &&
			(s.listens() == s.world.vf) == onVF && s.arrives(s.listens(), time.Second) {
			break
		}
		if time.Now().After(end) {
			s.t.Fatalf("%s: it does not come to rest with the guest reached at its VF: %v\nVMs %+v\nPFs %+v\nfindings %+v\nrecent %+v\nchanges %v",
				when, onVF, snap.VMs, snap.PFs, v.Findings, v.Recent, s.process.changes)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if len(snap.DualPaths)+len(snap.Routes) > 0 {
		s.t.Errorf("%s: left over: %+v, %+v", when, snap.DualPaths, snap.Routes)
	}
}
