package daemon

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"sluice/api/v1"
	"sluice/internal/base/sleep"
	"sluice/internal/edge/client"
	"sluice/internal/host/kernel"
	"sluice/internal/host/kernel/frames"
	"sluice/internal/host/qualify"
)

// How a scratch VM is measured.
const (
	scratchCycles  = 2                // plugs and unplugs
	scratchFor     = 30 * time.Minute // after which its overrides expire, whatever happened to this process
	scratchWithin  = 3 * time.Minute  // for a move
	scratchTrips   = 100
	scratchFlood   = time.Second
	scratchUnder   = 16                   // round trips in flight in a flood
	boostFor       = time.Second          // at most, for round trips of one payload beside one background rate
	boostEvery     = 2 * time.Millisecond // between two of them, so that they are not a load themselves
	boostHeaders   = 28                   // bytes of the headers of IPv4 and ICMP; UDP's is as long as ICMP's
	streamEvery    = 20 * time.Millisecond
	answerWithin   = 2 * time.Second
	settle         = 3 * time.Second // after a move: guests keep looking for carrier
	scratchReason  = "sluice qualify"
	scratchHowLook = 200 * time.Millisecond
)

// scratchSizes are the IP packet sizes in bytes that FlexVF compares, or close to them.
var scratchSizes = []int{64, 256, 512, 1024, 1472}

// FlexVF's figure 5: payloads in bytes, as its sockperf counts them, and the background in packets/s, which the paper does not name.
var (
	boostPayloads = []int{16, 64, 256, 1024, 1472}
	boostRates    = []float64{0, 1e3, 5e3, 20e3, 40e3, 80e3}
)

// scratch has the daemon, which must run in enforce mode, move a VM, so that the moves are those that VMs get, with all their
// safety measures. It requests them by overrides that expire.
type scratch struct {
	client *client.Client
	vm     string
	ping   *frames.Pinger
	kernel *kernel.Host
	qemu   int    // PID; 0: unknown
	noQEMU string // why qemu is unknown
	say    func(string)
	out    qualify.Scratch
}

// measureScratch measures with a VM. pf is the PF whose VFs are tested.
func measureScratch(ctx context.Context, client *client.Client, k *kernel.Host, pf, vm, address string, say func(string),
) (*qualify.Scratch, error) {
	s := &scratch{client: client, kernel: k, vm: vm, say: say, out: qualify.Scratch{VM: vm}}
	at, err := s.check(ctx, pf, address)
	if err != nil {
		return nil, err
	}
	if s.ping, err = frames.NewPinger(at); err != nil {
		return nil, err
	}
	defer s.ping.Close()
	if _, ok, err := s.ping.Trip(ctx, scratchSizes[0], answerWithin); err != nil || !ok {
		return nil, errors.Join(fmt.Errorf("VM %s does not answer an ICMP echo at %s", vm, at), err)
	}
	defer s.letGo(ctx)
	return &s.out, s.run(ctx, pf)
}

// check refuses what would affect anybody else.
func (s *scratch) check(ctx context.Context, pf, address string) (at netip.Addr, err error) {
	st, err := s.client.Status(ctx)
	if err != nil {
		return at, err
	}
	if st.Mode != api.ModeEnforce {
		return at, &api.Error{
			Text:   "the daemon is in observe mode and moves no VF",
			Remedy: "set mode: enforce and policy: none in a sluice.yaml that lists this PF, and reload: then it moves only what is pinned",
		}
	}
	over, err := s.client.Overrides(ctx)
	if err != nil {
		return at, err
	}
	for i := range over {
		if over[i].Name == s.vm || over[i].Kind == api.VerbDrain {
			return at, &api.Error{
				Text:   fmt.Sprintf("there is an override of %s (%s)", s.vm, over[i].Kind),
				Remedy: "remove it first: sluice unpin " + s.vm + ", or sluice drain --undo",
			}
		}
	}
	vms, err := s.client.VMs(ctx)
	if err != nil {
		return at, err
	}
	for i := range vms {
		if vms[i].Name != s.vm {
			continue
		}
		if err := s.room(ctx, pf, &vms[i]); err != nil {
			return at, err
		}
		if s.qemu, err = s.kernel.TapProcess(ctx, vms[i].Tap); err != nil {
			s.noQEMU = err.Error()
		}
		return addressOf(address, vms[i].MAC)
	}
	return at, fmt.Errorf("there is no VM %s", s.vm)
}

// room checks that no other VM would lose its VF.
func (s *scratch) room(ctx context.Context, pf string, vm *api.VM) error {
	vfs, err := s.client.VFs(ctx)
	if err != nil {
		return err
	}
	for i := range vfs {
		v := &vfs[i]
		if v.PF == pf && v.Network == vm.Network && v.Owner == "free" {
			return nil
		}
		if v.Name == vm.VF && v.PF != pf {
			return fmt.Errorf("%s has a VF of another PF, %s", vm.Name, v.Name)
		}
	}
	return fmt.Errorf("no VF of %s in network %s is free: a VM would have to give up its own", pf, vm.Network)
}

// addressOf returns the VM's IPv4 address, from the host's ARP table if none is given.
func addressOf(given, mac string) (netip.Addr, error) {
	if given != "" {
		return netip.ParseAddr(given)
	}
	f, err := os.Open("/proc/net/arp")
	if err != nil {
		return netip.Addr{}, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if word := strings.Fields(lines.Text()); len(word) > 3 && strings.EqualFold(word[3], mac) {
			return netip.ParseAddr(word[0])
		}
	}
	return netip.Addr{}, &api.Error{
		Text:   "the host does not know an IPv4 address of the VM with MAC " + mac,
		Remedy: "give it with --address, or ping the VM from the host once; the host needs an address in the VM's network",
	}
}

func (s *scratch) run(ctx context.Context, pf string) error {
	if err := s.ask(ctx, api.VerbRelease); err != nil {
		return err
	}
	if err := s.await(ctx, false, pf); err != nil {
		return err
	}
	for cycle := range scratchCycles {
		if cycle == 0 {
			s.carry(ctx, false)
			s.boost(ctx, false)
		}
		if err := s.move(ctx, true, pf); err != nil {
			return err
		}
		if cycle == 0 {
			s.carry(ctx, true)
			s.boost(ctx, true)
		}
		if err := s.move(ctx, false, pf); err != nil {
			return err
		}
	}
	return nil
}

// ask overrides the daemon's decisions about the VM, for a limited time.
func (s *scratch) ask(ctx context.Context, verb api.Verb) error {
	r := api.Request{VM: s.vm}
	if verb.Overrides() {
		r.Reason, r.For = scratchReason, scratchFor.Seconds()
	}
	_, err := s.client.Do(ctx, verb, r)
	return err
}

// letGo returns the VM to the daemon's decisions, whatever happened.
func (s *scratch) letGo(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := s.ask(ctx, api.VerbUnpin); err != nil {
		s.say(fmt.Sprintf("%s stays under an override for at most %s: %v", s.vm, scratchFor, err))
	}
}

// await waits until the VM is on the given path and none of its moves is under way.
func (s *scratch) await(ctx context.Context, vf bool, pf string) error {
	ctx, cancel := context.WithTimeout(ctx, scratchWithin)
	defer cancel()
	for {
		now, err := s.client.Explain(ctx, s.vm)
		if err != nil {
			return err
		}
		on := strings.HasPrefix(now.VM.VF, pf+"/")
		if now.UnderWay == nil && (vf && on || !vf && now.VM.VF == "") {
			return nil
		}
		if sleep.For(ctx, scratchHowLook) != nil {
			return fmt.Errorf("%s was not moved within %s: %s", s.vm, scratchWithin, now.Sentence)
		}
	}
}

// move has the VM moved during a stream of round trips.
func (s *scratch) move(ctx context.Context, plug bool, pf string) error {
	m := qualify.Move{Plug: plug, Rate: 1 / streamEvery.Seconds()}
	verb, kind := api.VerbRelease, api.MoveUnplug
	if plug {
		verb, kind = api.VerbPin, api.MovePlug
	}
	s.say(fmt.Sprintf("%s of %s, with a stream of round trips", kind, s.vm))
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		m.Sent, m.Lost = s.ping.Stream(ctx, streamEvery, answerWithin, stop)
	}()
	err := s.ask(ctx, verb)
	if err == nil {
		err = s.await(ctx, plug, pf)
	}
	if err == nil {
		err = sleep.For(ctx, settle)
	}
	close(stop)
	<-ended
	if err != nil {
		return err
	}
	now, err := s.client.Explain(ctx, s.vm)
	if err != nil {
		return err
	}
	if last := now.LastMove; last != nil && last.Kind == kind {
		m.Took, m.Steps = took(last)
	}
	s.out.Moves = append(s.out.Moves, m)
	return nil
}

// took returns the durations of a move and of its steps.
func took(m *api.MoveReport) (time.Duration, map[string]time.Duration) {
	steps := map[string]time.Duration{}
	for i := range m.StepTimes {
		x := &m.StepTimes[i]
		name, _, _ := strings.Cut(x.Step, " ")
		name = map[string]string{
			"attach": api.TimeAttach, "wait-guest": api.TimeGuest, "detach": api.TimeDetach, "wait-gone": api.TimeDetach,
		}[name]
		if name != "" && !x.To.IsZero() {
			steps[name] += x.To.Sub(x.From)
		}
	}
	return m.Ended.Sub(m.Started), steps
}

// carry measures the VM's current path with each packet size.
func (s *scratch) carry(ctx context.Context, vf bool) {
	for _, size := range scratchSizes {
		s.say(fmt.Sprintf("round trips of %d bytes to %s, VF: %v", size, s.vm, vf))
		p := qualify.Path{VF: vf, Size: size}
		for range scratchTrips {
			took, ok, err := s.ping.Trip(ctx, size, answerWithin)
			if err != nil {
				p.Error = err.Error()
				break
			}
			if ok {
				p.Trips = append(p.Trips, took)
			}
		}
		p.CPU, p.NoCPU = s.cost(ctx, func() {
			p.Sent, p.Done, p.During = s.ping.Flood(ctx, size, scratchUnder, scratchFlood, answerWithin)
		})
		s.out.Paths = append(s.out.Paths, p)
	}
}

// boost measures round trips over the VM's current path by payload and by how many other packets the VM answers meanwhile.
func (s *scratch) boost(ctx context.Context, vf bool) {
	for _, payload := range boostPayloads {
		s.say(fmt.Sprintf("round trips of %d bytes to %s beside other packets, VF: %v", payload, s.vm, vf))
		for _, rate := range boostRates {
			l := s.beside(ctx, payload, rate)
			l.VF = vf
			s.out.Under = append(s.out.Under, l)
			if l.Full() {
				break // more would only be lost
			}
		}
	}
}

// beside measures round trips while so many packets/s of the same size, half of them each way, pass.
func (s *scratch) beside(ctx context.Context, payload int, rate float64) qualify.Loaded {
	l := qualify.Loaded{Payload: payload, Offered: rate}
	size := payload + boostHeaders
	stop, carried := make(chan struct{}), make(chan float64, 1)
	go func() { carried <- 2 * s.ping.Load(ctx, size, rate/2, stop) }()
	for begin := time.Now(); len(l.Trips) < scratchTrips && time.Since(begin) < boostFor; {
		took, ok, err := s.ping.Trip(ctx, size, answerWithin)
		if ok {
			l.Trips = append(l.Trips, took)
		}
		if err := cmp.Or(err, sleep.For(ctx, boostEvery)); err != nil {
			l.Error = err.Error()
			break
		}
	}
	close(stop)
	l.Carried = <-carried
	return l
}

// cost returns the CPU time that the VM's threads on the host use while do runs, or why it is unknown.
func (s *scratch) cost(ctx context.Context, do func()) (cpu time.Duration, why string) {
	if s.qemu == 0 {
		do()
		return 0, s.noQEMU
	}
	before, err := s.kernel.VirtioThreads(ctx, s.qemu)
	do()
	after, errAfter := s.kernel.VirtioThreads(ctx, s.qemu)
	if err := cmp.Or(err, errAfter); err != nil {
		return 0, err.Error()
	}
	return after.Since(before), ""
}
