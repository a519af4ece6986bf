package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"sluice/internal/loop"
	"sluice/internal/model"
	"sluice/internal/web"
)

// Backend answers the API: questions from the last View, commands inside the loop.
type Backend struct {
	view      atomic.Pointer[model.View]
	core      *loop.Core
	call      func(ctx context.Context, f func(now time.Time)) error // runs f where the Core may be used
	overrides *Overrides
	rules     func() model.Rules     // what the config says
	stale     atomic.Pointer[string] // why the last reload failed; nil: it did not
	// Reload reads the configuration again and returns warnings; nil: there is none.
	Reload func() ([]string, error)
	// Config names the configuration in Views.
	Config string
}

// New answers from a loop: call runs a function where core may be used, rules are those of
// the config. Until Publish is called, the View shows nothing.
func New(core *loop.Core, call func(context.Context, func(time.Time)) error, w *Overrides, rules func() model.Rules) *Backend {
	b := &Backend{core: core, call: call, overrides: w, rules: rules}
	first := core.View()
	first.Snapshot, first.Target = &model.Snapshot{}, &model.Target{}
	b.view.Store(first)
	return b
}

// Publish takes a new View from the loop.
func (b *Backend) Publish(v *model.View) {
	if why := b.stale.Load(); why != nil {
		v.Error = strings.TrimPrefix(v.Error+"; "+*why, "; ")
	}
	if v.Snapshot == nil || v.Target == nil { // nothing seen yet: keep the empty picture, but say why
		empty := *b.view.Load()
		empty.Error, empty.Mode, empty.Rules, empty.Rounds, empty.Config = v.Error, v.Mode, v.Rules, v.Rounds, b.Config
		b.view.Store(&empty)
		return
	}
	v.Config = b.Config
	b.view.Store(v)
}

// View implements web.Backend.
func (b *Backend) View() *model.View { return b.view.Load() }

// Do implements web.Backend.
func (b *Backend) Do(ctx context.Context, c web.Command) (web.Result, error) {
	switch c.Verb {
	case web.VerbReload:
		if b.Reload == nil {
			return web.Result{}, &web.Refusal{Text: "there is no configuration to reload", Remedy: "use `sluice run`"}
		}
		warnings, err := b.TryReload()
		if err != nil {
			return web.Result{}, &web.Refusal{Text: err.Error(), Remedy: "mend the file and try again"}
		}
		return web.Result{Text: "configuration reloaded", Details: warnings}, nil
	case web.VerbRepair:
		err := b.call(ctx, b.core.Repair)
		return b.after(web.Result{Text: "mending what is Sluice's to mend at the next tick"}), err
	}
	text, change := wish(c)
	if change == nil {
		return web.Result{}, &web.Refusal{Text: fmt.Sprintf("unknown command %q", c.Verb)}
	}
	if c.Verb == web.VerbUnpin && !b.overrides.about(c) {
		return web.Result{Text: c.VMName + " was not pinned or released by hand: there is nothing to undo"}, nil
	}
	return b.after(web.Result{Text: text}), b.wish(ctx, c, change)
}

// TryReload reloads, and has the next Views show it if that failed.
func (b *Backend) TryReload() ([]string, error) {
	warnings, err := b.Reload()
	if err != nil {
		err = fmt.Errorf("the configuration stays as it was: %w", err)
		text := err.Error()
		b.stale.Store(&text)
		return nil, err
	}
	b.stale.Store(nil)
	return warnings, nil
}

// Memory implements web.Backend.
func (b *Backend) Memory(ctx context.Context) (out web.Memory, err error) {
	failed := b.call(ctx, func(time.Time) {
		var m *loop.Memory
		if m, err = b.core.Memory(); err == nil {
			out.Time, out.Busy = m.Time, m.Busy
			out.State, err = json.Marshal(m)
		}
	})
	return out, errors.Join(failed, err)
}

// after adds what a person must know about the result.
func (b *Backend) after(r web.Result) web.Result {
	if b.View().Mode == model.ModeObserve {
		r.Details = append(r.Details, "observe mode: nothing is changed; `sluice plan` shows what would be")
	}
	return r
}

// wish changes what people asked for, keeps it on disk and tells placement.
func (b *Backend) wish(ctx context.Context, c web.Command, change func(*saved)) error {
	if err := b.overrides.change(change); err != nil {
		return &web.Refusal{Text: err.Error(), Remedy: "check the permissions of state_dir"}
	}
	var failed error
	err := b.call(ctx, func(time.Time) {
		b.core.Forgive(c.VM)
		failed = b.core.SetRules(b.overrides.Over(b.rules()))
	})
	if err != nil {
		return err
	}
	return failed
}

// wish says what a command does to the wishes; nil for other commands.
func wish(c web.Command) (text string, change func(*saved)) {
	who := string(c.VM)
	if who == "" {
		who = c.VMName
	}
	without := func(s *saved) {
		s.VMs = slices.DeleteFunc(s.VMs, func(r model.VMRule) bool { return concerns(r, c) })
	}
	set := func(r model.VMRule) func(*saved) {
		r.Match, r.ByHand = who, true
		return func(s *saved) { without(s); s.VMs = append(s.VMs, r) }
	}
	switch c.Verb {
	case web.VerbPin:
		return c.VMName + " is pinned: it keeps a VF until `sluice unpin`", set(model.VMRule{Pin: true})
	case web.VerbRelease:
		return c.VMName + " gives its VF up and gets none until `sluice unpin`", set(model.VMRule{Forbid: true})
	case web.VerbUnpin:
		return "the policy decides about " + c.VMName + " again", without
	case web.VerbDrain:
		return "all VFs are being given up; `sluice drain --undo` hands them out again", func(s *saved) { s.Drain = true }
	case web.VerbUndrain:
		return "VFs are handed out again", func(s *saved) { s.Drain = false }
	}
	return "", nil
}

// concerns says whether a wish is about the VM of a command.
func concerns(r model.VMRule, c web.Command) bool {
	return c.VM != "" && r.Match == string(c.VM) || r.Match == c.VMName
}
