package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"sluice/api/v1"
	"sluice/internal/edge/answer"
	"sluice/internal/model"
)

// VirtualPFs is the controller of virtual PFs as seen by this package. Errors that the user can fix are *api.Error or
// contain the remedy.
type VirtualPFs interface {
	List(ctx context.Context) ([]model.VirtualPFStatus, error)
	// Define creates a virtual PF for the VM that VM or VMName identifies, and returns it with all defaults filled in.
	Define(ctx context.Context, p model.VirtualPF) (model.VirtualPF, error)
	Undefine(ctx context.Context, vm model.VMID, name string) error
	// SetPorts changes the policies of all given VFs, or of none.
	SetPorts(ctx context.Context, vm model.VMID, name string, vfs []int, named model.PortFields, change func(*model.PortPolicy) error) error
}

// vpfRoles maps the paths of changes to the minimum role: define and undefine change domains in libvirt.
var vpfRoles = map[string]Role{"vpf/define": RoleOwn, "vpf/undefine": RoleOwn, "vpf/set": RoleOperate}

func (h *handler) vpfRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/vpf", h.answerVPF("", func(ctx context.Context, _ *json.Decoder, _ peer) (any,
		error,
	) {
		return h.virtualPFs(ctx)
	}))
	mux.HandleFunc("POST /v1/vpf/define", h.answerVPF("vpf/define", h.defineVPF))
	mux.HandleFunc("POST /v1/vpf/undefine", h.answerVPF("vpf/undefine", h.undefineVPF))
	mux.HandleFunc("POST /v1/vpf/set", h.answerVPF("vpf/set", h.setVPF))
}

// answerVPF answers requests about virtual PFs; path is "" if nothing is changed.
func (h *handler) answerVPF(path string, reply func(context.Context, *json.Decoder, peer) (any, error)) http.HandlerFunc {
	return h.answer(task{
		there: h.opts.VirtualPFs != nil || path == "", missing: api.Error{
			Text:   "there are no virtual PFs here",
			Remedy: "they need sluiced on a host with libvirt",
		},
		path: path, doing: "change virtual PFs", needs: vpfRoles[path],
	}, reply)
}

func (h *handler) virtualPFs(ctx context.Context) ([]api.VirtualPF, error) {
	if h.opts.VirtualPFs == nil { // a host without virtual PFs is not an error for a query
		return []api.VirtualPF{}, nil
	}
	list, err := h.opts.VirtualPFs.List(ctx)
	out := make([]api.VirtualPF, 0, len(list))
	for i := range list {
		out = append(out, answer.VirtualPF(&list[i]))
	}
	return out, err
}

func (h *handler) defineVPF(ctx context.Context, d *json.Decoder, who peer) (any, error) {
	var b api.DefineVPF
	if err := decode(d, &b); err != nil {
		return nil, err
	}
	p := model.VirtualPF{
		VMName: b.VM, Name: b.Name, Model: model.VPFModel(b.Model), Backend: model.VPFBackend(b.Backend), Network: b.Network,
		ARI: b.ARI, Channel: !b.NoChannel, By: who.name(),
	}
	if model.IsUUID(b.VM) {
		p.VM, p.VMName = model.VMID(strings.ToLower(b.VM)), ""
	}
	if p.Name == "" {
		p.Name = "vpf0"
	}
	if p.Model == "" {
		p.Model = model.VPFVirtio
	}
	if p.Backend == "" {
		p.Backend = model.BackendTap
	}
	switch {
	case b.VM == "":
		return nil, &api.Error{Text: "no VM given", Remedy: `send {"vm": "its name or UUID"}`}
	case b.VFs < 0 || b.VFs > model.MaxVirtualVFs: // before allocating them
		return nil, &api.Error{
			Text:   fmt.Sprintf("a virtual PF cannot have %d VFs", b.VFs),
			Remedy: fmt.Sprintf("choose from 1 to %d, or to %d without ARI", model.MaxVirtualVFs, model.MaxFunctionVFs),
		}
	}
	p.VFs = make([]model.VirtualVF, b.VFs)
	if err := p.Check(); err != nil {
		return nil, &api.Error{Text: err.Error()}
	}
	made, err := h.opts.VirtualPFs.Define(ctx, p)
	if err != nil {
		return nil, err
	}
	return answer.VirtualPF(&model.VirtualPFStatus{VirtualPF: made, Why: "its VM was not started since"}), nil
}

// findVPF finds a virtual PF by its VM's name or UUID and, if the VM has several, by its name.
func (h *handler) findVPF(ctx context.Context, vm, name string) (*model.VirtualPFStatus, error) {
	list, err := h.opts.VirtualPFs.List(ctx)
	if err != nil {
		return nil, err
	}
	var found []*model.VirtualPFStatus
	var names []string
	for i := range list {
		p := &list[i]
		if (strings.EqualFold(string(p.VM), vm) || p.VMName == vm) && (name == "" || p.Name == name) {
			found, names = append(found, p), append(names, p.Name)
		}
	}
	what := strconv.Quote(model.Shorten(vm))
	if name != "" {
		what += " called " + strconv.Quote(model.Shorten(name))
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, &api.Error{Text: "there is no virtual PF of " + what, Remedy: "see sluice vpf list, or give it one: sluice vpf define"}
	}
	return nil, &api.Error{Text: fmt.Sprintf("%s has %d virtual PFs", what, len(found)), Remedy: "name one: " + strings.Join(names, ", ")}
}

func (h *handler) undefineVPF(ctx context.Context, d *json.Decoder, _ peer) (any, error) {
	var b api.UndefineVPF
	if err := decode(d, &b); err != nil {
		return nil, err
	}
	p, err := h.findVPF(ctx, b.VM, b.Name)
	if err != nil {
		return nil, err
	}
	if err := h.opts.VirtualPFs.Undefine(ctx, p.VM, p.Name); err != nil {
		return nil, err
	}
	return api.Result{Text: fmt.Sprintf("%s has no virtual PF %s any more", p.VMName, p.Name)}, nil
}

func (h *handler) setVPF(ctx context.Context, d *json.Decoder, _ peer) (any, error) {
	var b api.SetVPF
	if err := decode(d, &b); err != nil {
		return nil, err
	}
	p, err := h.findVPF(ctx, b.VM, b.Name)
	if err != nil {
		return nil, err
	}
	vfs := slices.Clone(b.VFs)
	if len(vfs) == 0 {
		for i := range p.VFs {
			vfs = append(vfs, i)
		}
	}
	for _, i := range vfs {
		if i < 0 || i >= len(p.VFs) {
			return nil, &api.Error{
				Text:   fmt.Sprintf("%s of %s has no VF %d", p.Name, p.VMName, i),
				Remedy: fmt.Sprintf("its VFs are 0 to %d", len(p.VFs)-1),
			}
		}
	}
	change := func(p *model.PortPolicy) error { return changePort(p, &b.Set) }
	if err := h.opts.VirtualPFs.SetPorts(ctx, p.VM, p.Name, vfs, namedFields(&b.Set), change); err != nil {
		return nil, err
	}
	r := api.Result{Text: fmt.Sprintf("%d virtual VFs of %s of %s are set", len(vfs), p.Name, p.VMName)}
	for _, i := range vfs {
		if g := p.VFs[i].Grant; g != nil {
			r.Details = append(r.Details, fmt.Sprintf("VF %d is in use by %s: what was set counts at once, and what its guest asked for stays where that is narrower", i, g.Owner))
		}
	}
	return r, nil
}
