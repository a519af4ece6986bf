package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"sluice/api/v1"
	"sluice/internal/base/input"
	"sluice/internal/base/statefile"
	"sluice/internal/config"
	"sluice/internal/control/doctor"
	"sluice/internal/control/placement"
	"sluice/internal/host/qualify"
	"sluice/internal/host/qualify/measure"
	"sluice/internal/model"
)

// maxReport bounds the size of a report's file, in bytes; one takes about 6 KB.
const maxReport = 1 << 20

// reports are the results of `sluice qualify --save` for the PFs of the config. Results for another driver, firmware or kernel
// are ignored.
type reports struct {
	facts    map[string]qualify.Facts // by PF
	counting []api.Qualification
	problems []model.Problem
}

func reportPath(stateDir, pf string) string { return filepath.Join(stateDir, "qualify", pf+".json") }

func saveReport(stateDir string, q *api.Qualification) error {
	path := reportPath(stateDir, q.PF)
	err := os.MkdirAll(filepath.Dir(path), 0o750)
	var text []byte
	if err == nil {
		text, err = json.MarshalIndent(q, "", "  ")
	}
	if err == nil {
		err = statefile.Replace(path, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("save the report: %w; %s", err, statefile.Remedy(filepath.Dir(path), err))
	}
	return nil
}

// readReport reads a PF's report; nil if there is none.
func readReport(stateDir, pf string) (*api.Qualification, error) {
	text, err := input.Read(reportPath(stateDir, pf), maxReport)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	q := &api.Qualification{}
	if err == nil {
		err = json.Unmarshal(text, q)
	}
	if err == nil && q.PF != pf {
		err = fmt.Errorf("it is about PF %q", q.PF)
	}
	if err != nil {
		return nil, fmt.Errorf("report %s: %w", reportPath(stateDir, pf), err)
	}
	return q, nil
}

// readReports reads the reports of the config's PFs. If one cannot be read, doctor says so: the daemon works without it.
func (h *host) readReports(ctx context.Context, c *config.Config) {
	ctx, cancel := context.WithTimeout(ctx, leftWithin)
	defer cancel()
	r := &reports{facts: map[string]qualify.Facts{}}
	pfs, _ := h.kernel.PFs(ctx) // every Snapshot reports this error
	for i := range pfs {
		pf := &pfs[i].PF
		if !slices.ContainsFunc(c.PFs, func(x config.PF) bool { return x.Name == pf.Name }) {
			continue
		}
		hw, err := h.kernel.Hardware(ctx, pf.Name)
		var q *api.Qualification
		if err == nil {
			q, err = readReport(c.StateDir, pf.Name)
		}
		if err != nil {
			r.problems = append(r.problems, model.Problem{
				Subject: pf.Name, Text: err.Error(), Remedy: "sluice qualify " + pf.Name + " --save", Info: true,
			})
			continue
		}
		now := measure.Describe(&hw, pf)
		r.problems = append(r.problems, qualify.Problems(pf.Name, q, &now)...)
		if q != nil && qualify.Stale(q, &now) == "" {
			r.facts[pf.Name] = qualify.FactsOf(q)
			r.counting = append(r.counting, *q)
		}
	}
	r.problems = append(r.problems, worthProblems(&c.Worth, r.counting)...)
	h.reports.Store(r)
}

// measured replaces assumptions about a PF by measured values.
func (h *host) measured(pf *model.PF) {
	if f, ok := h.reports.Load().facts[pf.Name]; ok {
		f.Over(pf)
	}
}

// examine adds problems with reports and with VFs that are set aside to doctor's.
func (h *host) examine(s *model.Snapshot) []model.Problem {
	return slices.Concat(doctor.Examine(s), h.reports.Load().problems, h.reserved.problems())
}

// lostParam is the policy parameter for which reports have a value.
const lostParam = "lost_s"

// rules returns the config's rules, with measured values where the config has none.
func (h *host) rules(c *config.Config) model.Rules {
	rules := c.Rules()
	r := h.reports.Load()
	if r == nil {
		return rules
	}
	return measuredRules(rules, r.counting, placement.Policies()[rules.Policy].Params)
}

func measuredRules(rules model.Rules, list []api.Qualification, known []model.Param) model.Rules {
	if w := &rules.Worth; w.CPU && w.Cost == (model.PacketCost{}) {
		w.Cost, _ = qualify.PacketCost(list)
	}
	i := slices.IndexFunc(known, func(p model.Param) bool { return p.Name == lostParam })
	lost, ok := qualify.Lost(list)
	if _, said := rules.Params[lostParam]; i < 0 || !ok || said {
		return rules
	}
	rules.Params = maps.Clone(rules.Params)
	if rules.Params == nil {
		rules.Params = model.Params{}
	}
	rules.Params[lostParam] = min(max(lost, known[i].Min), known[i].Max)
	return rules
}

// worthProblems explains why packets of all sizes have the same value although they are configured to count by their cost to the
// host.
func worthProblems(w *config.Worth, list []api.Qualification) []model.Problem {
	cost, known := model.PacketCost{Packet: w.PacketCPU, Kilobyte: w.KilobyteCPU}, true
	if cost == (model.PacketCost{}) {
		cost, known = qualify.PacketCost(list)
	}
	if !w.CPU || cost.Kilobyte > 0 {
		return nil
	}
	p := model.Problem{
		Subject: "worth.cpu", Info: true, Text: "nobody has measured what virtio costs the host, so packets of all sizes count the same",
		Remedy: "sluice qualify PF --vm VM --save, with a VM that nobody needs; or set worth.packet_cpu and worth.kilobyte_cpu in sluice.yaml",
	}
	if known {
		p.Text = fmt.Sprintf("large packets cost the host no more than small ones, %s each, so all count the same", cost.Packet)
		p.Remedy = "measure again while the host is at rest (sluice qualify PF --vm VM --save), or set worth.kilobyte_cpu in sluice.yaml"
	}
	return []model.Problem{p}
}

// holders returns which domains have which PCI devices.
func (h *host) holders(ctx context.Context) (map[model.PCIAddress]string, error) {
	domains, err := h.virt.Domains(ctx)
	if err != nil {
		return nil, err
	}
	out := map[model.PCIAddress]string{}
	for i := range domains {
		for k := range domains[i].Hostdevs {
			out[domains[i].Hostdevs[k].Address] = domains[i].Name
		}
	}
	return out, nil
}
