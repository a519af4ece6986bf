package virtualpf

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"sluice/internal/control/vpf"
	"sluice/internal/model"
)

// actWithin is the deadline of an action. An action is one call, so a VM with a hung QEMU delays only its own functions.
const actWithin = 10 * time.Second

// tickEvery is how often the Runner observes the host while nothing signals a change.
const tickEvery = time.Second

// Look reads the World. Reading a switch port takes 0.3 ms of CPU time, so unless fresh is set, ports may be reused from the last
// observation for up to a few seconds where nothing else shows a change.
type Look func(ctx context.Context, fresh bool) (vpf.World, error)

// Runner drives a Core in real time.
type Runner struct {
	Store   *Store
	Look    Look
	Switch  Switch
	Domains Domains
	VDPA    VDPA
	Log     *slog.Logger
	Enforce func() bool // if false, nothing is changed

	core  *vpf.Core
	looks *looks
	lines lines
	wake  chan struct{}
	wg    sync.WaitGroup
	said  map[string]bool // actions already logged in observe mode

	mu    sync.Mutex
	ended []finished
	view  *View
	next  chan struct{} // closed when the next View is published
}

type finished struct {
	action vpf.Action
	err    error
}

// View is the result of the last Tick. It is never changed.
type View struct {
	vpf.Result
	Rev   uint64     // of the State
	World *vpf.World // nil if the host could not be observed
	Err   error      // why World is nil
}

// Find returns the status of a virtual PF, or nil.
func (v *View) Find(vm model.VMID, name string) *vpf.Status {
	for i := range v.Virtual {
		if s := &v.Virtual[i]; s.VM == vm && s.Name == name {
			return s
		}
	}
	return nil
}

// Init completes a Runner whose exported fields are set.
func (r *Runner) Init() *Runner {
	r.core, r.looks, r.wake, r.next, r.said = vpf.NewCore(), newLooks(r.look), make(chan struct{}, 1), make(chan struct{}), map[string]bool{}
	r.view = &View{Err: errors.New("the host has not been observed yet")}
	return r
}

// Wake makes the Runner observe the host at once.
func (r *Runner) Wake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// View returns the latest View and a channel that is closed when the next one is published.
func (r *Runner) View() (*View, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.view, r.next
}

// Run works until ctx ends and the actions in progress have finished. Ports and links stay as they are.
func (r *Runner) Run(ctx context.Context) error {
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	defer r.wg.Wait()
	for fresh := true; ; {
		r.tick(ctx, fresh)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			fresh = false
		case <-r.wake:
			fresh = true
		}
	}
}

// tick observes the host, decides, and starts the resulting actions.
func (r *Runner) tick(ctx context.Context, fresh bool) {
	fresh = r.finish() || fresh // before observing: the World must be newer than the finished actions
	state := r.Store.State()
	world, err := r.world(ctx, fresh)
	if err != nil {
		r.publish(&View{Result: vpf.Result{Virtual: r.blind(state, err)}, Rev: state.Rev, Err: err})
		return
	}
	r.lines.keep(func(vm model.VMID) bool { return vm == "" || len(state.Of(vm)) > 0 })
	out := r.core.Tick(time.Now(), state, &world)
	enforce := r.Enforce()
	if !enforce {
		r.observe(&out)
	}
	r.publish(&View{Result: out, Rev: state.Rev, World: &world})
	if enforce {
		r.begin(ctx, out.Actions)
	}
}

// look calls Look, which may have been replaced since Init.
func (r *Runner) look(ctx context.Context, fresh bool) (vpf.World, error) { return r.Look(ctx, fresh) }

// world observes the host. Unless fresh is set, switch ports may be a few seconds old.
func (r *Runner) world(ctx context.Context, fresh bool) (vpf.World, error) {
	if fresh {
		return r.looks.fresh(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	return r.Look(ctx, false)
}

// blind lists the virtual PFs while the host cannot be observed.
func (r *Runner) blind(s *vpf.State, err error) (out []vpf.Status) {
	for k := range s.Virtual {
		st := model.VirtualPFStatus{VirtualPF: s.Virtual[k], Why: "not known: " + err.Error()}
		out = append(out, vpf.Status{VirtualPFStatus: st})
	}
	return out
}

// finish reports finished actions to the Core, and returns whether there were any.
func (r *Runner) finish() bool {
	r.mu.Lock()
	ended := r.ended
	r.ended = nil
	r.mu.Unlock()
	for _, f := range ended {
		r.core.Finish(time.Now(), f.action, f.err)
	}
	return len(ended) > 0
}

func (r *Runner) publish(v *View) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.view = v
	close(r.next)
	r.next = make(chan struct{})
}

// observe logs each action that enforce mode would carry out, once.
func (r *Runner) observe(out *vpf.Result) {
	said := map[string]bool{}
	for i := range out.Actions {
		a := &out.Actions[i]
		text := a.String()
		if said[text] = true; !r.said[text] {
			r.Log.Info("in enforce mode sluiced would now "+text, "vm", string(a.VM))
		}
		r.core.Finish(time.Now(), *a, nil)
	}
	r.said = said
	for i := range out.Virtual {
		if s := &out.Virtual[i]; s.Running {
			s.Why = "observe mode: nothing is changed"
		}
	}
}

// begin starts actions: those of one VM in sequence, those of different VMs in parallel.
func (r *Runner) begin(ctx context.Context, actions []vpf.Action) {
	by := map[model.VMID][]vpf.Action{}
	for _, a := range actions {
		by[a.VM] = append(by[a.VM], a)
	}
	for _, list := range by {
		r.wg.Go(func() {
			for _, a := range list {
				err := r.do(ctx, &a)
				r.mu.Lock()
				r.ended = append(r.ended, finished{a, err})
				r.mu.Unlock()
			}
			r.Wake()
		})
	}
}

// do carries out one action.
func (r *Runner) do(ctx context.Context, a *vpf.Action) (err error) {
	ctx, cancel := context.WithTimeout(ctx, actWithin)
	defer cancel()
	switch a.Kind {
	case vpf.Forget:
		_, err = r.Store.Update(func(s *vpf.State) error {
			if s.Guests[a.VM].Run == a.Run { // the guest of the next run may already have been granted something
				s.Forget(a.VM)
			}
			return nil
		})
	case vpf.LinkDown:
		err = r.Domains.SetLink(ctx, a.VM, a.Alias, false)
	case vpf.SetPort:
		_, err = r.Switch.SetSwitchPort(ctx, a.Port)
	case vpf.LinkUp:
		err = r.linkUp(ctx, a)
	case vpf.DropPort:
		var w vpf.World
		if w, err = r.looks.fresh(ctx); err == nil && !a.Useless(&w) {
			err = r.Switch.RemoveSwitchPort(ctx, a.Tap)
		}
	case vpf.MakeDevice:
		_, err = r.VDPA.CreateVDPA(ctx, a.Device)
	case vpf.DropDevice:
		err = r.VDPA.DeleteVDPA(ctx, a.Device.Name)
	}
	r.say(a, err)
	return err
}

// say logs an action. It limits the rate because guests cause most actions.
func (r *Runner) say(a *vpf.Action, err error) {
	ok, left := r.lines.may(a.VM)
	if !ok {
		return
	}
	level, text, args := slog.LevelInfo, "virtual PF: "+a.String(), []any(nil)
	if err != nil {
		level, text, args = slog.LevelWarn, "virtual PF: cannot "+a.String(), append(args, "error", err)
	}
	if left > 0 {
		args = append(args, "lines_left_out_before", left)
	}
	r.Log.Log(context.Background(), level, text, args...)
}

// linkUp gives a function a carrier if its policy is in force, and then checks again. If the VM restarted in between, it takes the link
// down again before the new guest has booted.
func (r *Runner) linkUp(ctx context.Context, a *vpf.Action) error {
	allowed := func() error {
		w, err := r.looks.fresh(ctx)
		if err != nil {
			return err
		}
		return a.Allows(&w)
	}
	err := allowed()
	if err != nil {
		return err
	}
	if err = r.Domains.SetLink(ctx, a.VM, a.Alias, true); err != nil {
		return err
	}
	if err = allowed(); err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), actWithin)
		defer cancel()
		return errors.Join(err, r.Domains.SetLink(ctx, a.VM, a.Alias, false))
	}
	return nil
}
