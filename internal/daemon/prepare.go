package daemon

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"sluice/api/v1"
	"sluice/internal/control/doctor"
	"sluice/internal/host/libvirt"
	"sluice/internal/host/prepare"
	"sluice/internal/model"
)

// preparer changes definitions of VMs so that they can have VFs. It implements server.Preparer.
type preparer struct {
	virt interface {
		Definitions(ctx context.Context, names []string) ([]libvirt.Definition, error)
		Redefine(ctx context.Context, old *libvirt.Definition, changed string, kept func(doc string) error) error
		Switches(ctx context.Context) (map[string]string, error)
	}
	uplinks interface {
		Connection(ctx context.Context, name string) (model.TapConnection, error)
	}
	rules func() model.Rules
	look  func(ctx context.Context) (*model.Snapshot, error) // nil, nil: no Snapshot yet
}

// preparing is one request with the state of the host.
type preparing struct {
	*preparer
	api.Prepare
	rules    model.Rules
	snap     *model.Snapshot
	nets     map[string]bool
	connect  []model.TapConnection // to nets
	switches map[string]string     // of libvirt's networks
	vfs      map[model.PCIAddress]bool
}

// Prepare implements server.Preparer.
func (p *preparer) Prepare(ctx context.Context, r api.Prepare) ([]api.Prepared, error) {
	q := preparing{preparer: p, Prepare: r, rules: p.rules(), vfs: map[model.PCIAddress]bool{}}
	var err error
	if q.snap, err = p.look(ctx); err != nil {
		return nil, err
	}
	if q.snap == nil {
		return nil, &api.Error{Text: "the host has not been observed yet", Remedy: "wait a moment"}
	}
	q.nets = doctor.Networks(q.snap)
	for _, name := range slices.Sorted(maps.Keys(q.nets)) {
		if c, err := p.uplinks.Connection(ctx, name); err == nil { // used only for remedies
			q.connect = append(q.connect, c)
		}
	}
	for i := range q.snap.PFs {
		for k := range q.snap.PFs[i].VFs {
			q.vfs[q.snap.PFs[i].VFs[k].Address] = true
		}
	}
	if q.switches, err = p.virt.Switches(ctx); err != nil {
		return nil, err
	}
	var names []string
	if !r.All {
		names = []string{r.VM}
	}
	defs, err := p.virt.Definitions(ctx, names)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(defs, func(a, b libvirt.Definition) int { return cmp.Compare(a.Name, b.Name) })
	out := make([]api.Prepared, 0, len(defs))
	for i := range defs {
		one, err := q.one(ctx, &defs[i])
		if err != nil && !r.All {
			return nil, err
		}
		if err != nil { // the other VMs do not depend on it
			one.Refused = &api.Error{Text: err.Error()}
		}
		out = append(out, one)
	}
	return out, nil
}

// one checks a VM, and changes its definition unless the request is a dry run.
func (q *preparing) one(ctx context.Context, d *libvirt.Definition) (api.Prepared, error) {
	out := api.Prepared{VM: d.Name, ID: string(d.VM), Changes: []string{}, Notes: []string{}, Lacks: []api.Problem{}}
	rule := q.rules.For(d.VM, d.Name)
	edit := func(doc string) (prepare.Result, error) { return q.edit(doc, rule) }
	r, err := prepare.Result{}, q.refuses(d, rule)
	if err == nil {
		r, err = edit(d.XML)
	}
	if refusal := (*prepare.Refusal)(nil); errors.As(err, &refusal) {
		out.Refused = &api.Error{Text: refusal.Text, Remedy: refusal.Remedy}
		return out, nil
	}
	if err != nil {
		return out, fmt.Errorf("prepare %s: %w", d.Name, err)
	}
	out.Changes, out.Notes = append(out.Changes, r.Changes...), append(out.Notes, r.Notes...)
	if err := q.judge(&out, d, r.XML, rule); err != nil {
		return out, err
	}
	if len(r.Changes) == 0 {
		return out, nil
	}
	sum := sha256.Sum256([]byte(d.XML + r.XML))
	out.Digest = hex.EncodeToString(sum[:16])
	public, err := edit(d.Public)
	if err == nil {
		out.Diff = prepare.Diff(d.Name, d.Public, public.XML)
	}
	if err != nil || q.DryRun {
		return out, err
	}
	if q.Digest != "" && q.Digest != out.Digest {
		return out, &api.Error{
			Text:   fmt.Sprintf("the definition of %s has changed since it was shown", d.Name),
			Remedy: "review it again, then confirm",
		}
	}
	err = q.virt.Redefine(ctx, d, r.XML, func(doc string) error {
		if again, err := edit(doc); err != nil || len(again.Changes) > 0 {
			return errors.Join(libvirt.NotKept(again.Changes), err)
		}
		return nil
	})
	out.Defined = err == nil
	return out, err
}

// edit applies the change to one definition.
func (q *preparing) edit(doc string, rule model.VMRule) (prepare.Result, error) {
	if q.Undo {
		return prepare.Undo(doc)
	}
	o := prepare.Options{
		NICs: q.NICs, Agent: q.Agent, Bond: rule.Failover == model.FailoverBond, Networks: q.nets, Connect: q.connect, Switches: q.switches,
		IsVF: func(a model.PCIAddress) bool { return q.vfs[a] },
	}
	if len(o.NICs) == 0 && rule.NIC != "" {
		o.NICs = []string{rule.NIC}
	}
	return prepare.Prepare(doc, o)
}

// refuses returns why a VM must not be changed, whatever its XML says.
func (q *preparing) refuses(d *libvirt.Definition, rule model.VMRule) error {
	switch {
	case d.Transient:
		return &prepare.Refusal{
			Text:   "it is transient: libvirt keeps no definition of it",
			Remedy: "define it (virsh define), then start it from that",
		}
	case rule.Forbid && q.All && !q.Undo:
		return &prepare.Refusal{
			Text:   "sluice.yaml or sluice release forbids it a VF",
			Remedy: "name it to prepare it all the same",
		}
	}
	return nil
}

// judge adds doctor's findings about the definition, and when it takes effect.
func (q *preparing) judge(out *api.Prepared, d *libvirt.Definition, doc string, rule model.VMRule) error {
	if q.Undo {
		if len(out.Changes) > 0 {
			out.Effect = effect(d)
		}
		return nil
	}
	vm, err := libvirt.ReadVM(doc, q.switches)
	if err != nil {
		return err
	}
	for i := range vm.NICs {
		n := &vm.NICs[i]
		n.Alias = cmp.Or(n.Alias, n.MAC.String())
		if n.Failover == model.FailoverNone && n.VirtualPF == "" {
			n.Failover = rule.Failover
		}
	}
	lacks := doctor.Definition(vm, q.nets)
	for _, p := range lacks {
		out.Lacks = append(out.Lacks, api.Problem{Subject: p.Subject, Text: p.Text, Remedy: p.Remedy})
	}
	now := q.snap.FindVM(d.VM)
	if len(out.Changes) > 0 || d.Running && now != nil && len(doctor.Definition(*now, q.nets)) > len(lacks) {
		out.Effect = effect(d)
	}
	return nil
}

// effect returns when a new definition takes effect.
func effect(d *libvirt.Definition) string {
	switch {
	case d.Running:
		return fmt.Sprintf("at its next full stop and start (virsh shutdown %s, then virsh start %[1]s): a reboot from inside the guest is "+
			"not enough", d.Name)
	case d.Saved:
		return fmt.Sprintf("after it has been started and shut down once more: it is saved, and resumes with the devices it had then (or "+
			"discard that state: virsh managedsave-remove %s)", d.Name)
	}
	return "at its next start"
}

// PrepareOffline serves a request without a daemon: it reads an api.Prepare and writes a list of api.Prepared.
func PrepareOffline(ctx context.Context, path string, r io.Reader, w io.Writer) error {
	var asked api.Prepare
	if err := json.NewDecoder(r).Decode(&asked); err != nil {
		return fmt.Errorf("read what to prepare: %w", err)
	}
	c, h, err := openQuietly(ctx, path)
	if err != nil {
		return allFaults(ctx, path, err)
	}
	defer h.close()
	p := preparer{virt: h.virt, uplinks: h.uplinks, rules: c.Rules, look: h.source.Snapshot}
	out, err := p.Prepare(ctx, asked)
	if err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(out)
}

// preparer returns the preparer of a running daemon.
func (d *daemonState) preparer() *preparer {
	return &preparer{
		virt: d.host.virt, uplinks: d.host.uplinks, rules: func() model.Rules { return d.over.Over(d.host.conf.Load().Rules()) },
		look: func(context.Context) (*model.Snapshot, error) {
			v, _ := d.backend.View()
			if v == nil {
				return nil, nil
			}
			return v.Snapshot, nil
		},
	}
}
