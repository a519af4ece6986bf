package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sluice/internal/control/loop"
	"sluice/internal/model"
)

// run is a Step in progress, for the daemon that started it.
type run struct {
	*Engine
	core   *loop.Core
	step   model.Step
	nic    *NIC  // that it waits for
	result error // to end with instead of taking effect
	parts  []part
	done   int // number of parts done
	each   time.Duration
	over   bool
}

// part is a change that a Step makes at one moment.
type part func() error

// begin starts the Step, which takes longer than usual by extra.
func (r *run) begin(extra time.Duration) {
	w, s := r.World, r.step
	takes := max(0, w.Timing.Takes(s.Kind)+extra)
	v := w.vm(s.Subject.VM)
	switch s.Kind {
	case model.StepWaitGuest, model.StepWaitGone:
		r.wait(takes, extra)
		return
	case model.StepAttach, model.StepDetach:
		r.parts = []part{func() error { return w.hotplug(s) }}
		if v != nil { // libvirt does one thing at a time with a domain
			begin := v.job
			if begin.Before(w.Now) {
				begin = w.Now
			}
			v.job = begin.Add(takes)
			takes = v.job.Sub(w.Now)
		}
	case model.StepCheckVirtio:
		r.parts = []part{func() error { return w.checkVirtio(s) }}
	default:
		r.parts = w.host(s)
	}
	r.At(w.Now.Add(s.Timeout), func() { r.finish(context.DeadlineExceeded) })
	r.each = takes / time.Duration(len(r.parts))
	r.At(w.Now.Add(takes-r.each*time.Duration(len(r.parts)-1)), r.next)
}

// dead reports whether the daemon that started the Step has been killed.
func (r *run) dead() bool { return r.core == nil || r.core != r.Core }

// next does the next part. A part that began before the deadline still takes effect after it, but no further part does.
func (r *run) next() {
	late := r.over
	if byItself := r.step.Kind == model.StepAttach || r.step.Kind == model.StepDetach; r.dead() && !byItself {
		return
	}
	err := r.result
	if err == nil && r.done == 0 && r.World.Fail != nil {
		err = r.World.Fail(r.step)
	}
	if err == nil && r.World.FailPart != nil {
		err = r.World.FailPart(r.step, r.done)
	}
	if err == nil {
		err = r.parts[r.done]()
	}
	if err == nil {
		r.done++
		r.tell()
	}
	if err != nil || r.done == len(r.parts) || late {
		r.finish(err)
		return
	}
	r.At(r.World.Now.Add(r.each), r.next)
}

func (r *run) tell() {
	if r.OnPart != nil {
		r.OnPart(r.step, r.done)
	}
}

// finish reports the result to the daemon if it is still running.
func (r *run) finish(err error) {
	if r.over {
		return
	}
	r.over = true
	if errors.Is(err, model.ErrGone) && r.World.vm(r.step.Subject.VM) != nil { // the VF is gone, not the VM
		err = fmt.Errorf("%w: %v", model.ErrPermanent, err) //nolint:errorlint // it must no longer say that the VM is gone
	}
	if r.nic != nil {
		r.nic.guest.waiting = slices.DeleteFunc(r.nic.guest.waiting, func(o *run) bool { return o == r })
	}
	if !r.dead() {
		r.launch(r.core.Finish(r.World.Now, r.step.ID, err))
	}
}

// wait runs a Step that changes nothing: it ends when the guest has done what it waits for, or with an error at its deadline.
func (r *run) wait(takes, extra time.Duration) {
	w := r.World
	n, err := w.nic(r.step)
	if err == nil && r.result != nil {
		err = r.result
		n.cancel()
	}
	if err != nil {
		r.At(w.Now.Add(takes), func() { r.finish(err) })
		return
	}
	r.nic = n
	w.later(n, extra)
	n.guest.waiting = append(n.guest.waiting, r)
	r.At(w.Now.Add(w.Timing.Kernel), r.look)
	r.At(w.Now.Add(r.step.Timeout), func() {
		r.finish(fmt.Errorf("%s did not act on the VF in time: %w", n, model.ErrGuest))
	})
}

// look ends a wait whose condition has come true.
func (r *run) look() {
	if r.over {
		return
	}
	over, err := r.World.waited(r.step)
	if !over {
		return
	}
	if err == nil && r.World.FailPart != nil {
		err = r.World.FailPart(r.step, 0)
	}
	if err == nil {
		r.tell()
	}
	r.finish(err)
}
