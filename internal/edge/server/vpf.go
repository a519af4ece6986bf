package server

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
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

func (h *handler) virtualPFs(w http.ResponseWriter, r *http.Request) {
	if h.await(w, r) == nil {
		return
	}
	out := []api.VirtualPF{}
	if h.opts.VirtualPFs != nil { // a host without virtual PFs is not an error for a query
		list, err := h.opts.VirtualPFs.List(r.Context())
		if err != nil {
			err = forPerson(err)
			writeError(w, statusOf(err, http.StatusInternalServerError), err)
			return
		}
		for i := range list {
			out = append(out, answer.VirtualPF(&list[i]))
		}
	}
	writeJSON(w, http.StatusOK, out)
}

func (h *handler) defineVPF(ctx context.Context, b api.DefineVPF, who peer) (any, error) {
	p := model.VirtualPF{
		VMName: b.VM, Name: cmp.Or(b.Name, "vpf0"), Model: cmp.Or(model.VPFModel(b.Model), model.VPFVirtio),
		Backend: cmp.Or(model.VPFBackend(b.Backend), model.BackendTap), Network: b.Network,
		ARI: b.ARI, Channel: !b.NoChannel, By: who.name(),
	}
	if model.IsUUID(b.VM) {
		p.VM, p.VMName = model.VMID(strings.ToLower(b.VM)), ""
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
	return answer.VirtualPF(&model.VirtualPFStatus{VirtualPF: made, Why: "its VM has not been started since"}), nil
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
		return nil, &api.Error{Text: "there is no virtual PF of " + what, Remedy: "see `sluice vpf list`, or create one: `sluice vpf define`"}
	}
	return nil, &api.Error{Text: fmt.Sprintf("%s has %d virtual PFs", what, len(found)), Remedy: "name one: " + strings.Join(names, ", ")}
}

func (h *handler) undefineVPF(ctx context.Context, b api.UndefineVPF, _ peer) (any, error) {
	p, err := h.findVPF(ctx, b.VM, b.Name)
	if err != nil {
		return nil, err
	}
	if err := h.opts.VirtualPFs.Undefine(ctx, p.VM, p.Name); err != nil {
		return nil, err
	}
	return api.Result{Text: fmt.Sprintf("%s no longer has the virtual PF %s", p.VMName, p.Name)}, nil
}

func (h *handler) setVPF(ctx context.Context, b api.SetVPF, _ peer) (any, error) {
	p, err := h.findVPF(ctx, b.VM, b.Name)
	if err != nil {
		return nil, err
	}
	vfs := b.VFs
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
	r := api.Result{Text: fmt.Sprintf("%d virtual VFs of %s of %s have been changed", len(vfs), p.Name, p.VMName)}
	for _, i := range vfs {
		if g := p.VFs[i].Grant; g != nil {
			r.Details = append(r.Details, fmt.Sprintf("VF %d is in use by %s: the new settings take effect at once; "+
				"what its guest asked for stays in force where it is stricter", i, g.Owner))
		}
	}
	return r, nil
}
