package report

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"strconv"
	"time"

	"sluice/internal/base/input"
	"sluice/internal/research/scenario"
)

// JSON writes all that the table shows, and more, for programs.
func JSON(w io.Writer, r *scenario.Result) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// CSV writes one row for each policy.
func CSV(w io.Writer, r *scenario.Result) error {
	if r.Guaranteed != nil {
		return keptCSV(w, r)
	}
	rows := [][]string{{
		"policy", "gross_percent", "net_percent", "moves_per_hour_per_vm", "most_plugs_per_hour", "on_vf_percent",
		"worst_vm", "worst_vm_carried_percent", "worst_vm_best_percent", "benefit_packets", "plugs", "unplugs", "moves", "failed_moves",
	}}
	for i := range r.Policies {
		o := &r.Policies[i]
		rows = append(rows, []string{
			input.Cell(o.Label), number(o.Gross), number(o.Net), number(o.MovesPerHour), number(o.Busiest.PlugRate), number(100 * o.OnVF),
			input.Cell(o.Worst.VM), number(100 * o.Worst.Carried), number(100 * o.Worst.Best), number(o.Benefit),
			strconv.Itoa(o.Plugs), strconv.Itoa(o.Unplugs), strconv.Itoa(o.Moves), strconv.FormatUint(o.Failed, 10),
		})
	}
	return csv.NewWriter(w).WriteAll(rows)
}

// Decisions writes every plug and unplug of the first host as CSV. time_s is when the guest began or ceased to use the VF, asked_s when
// the move began, both in the trace's own seconds or from the start of a scenario. A VM's packets between a plug's time_s and the next
// unplug's (or the end) are its benefit. Every plug beyond the highest number of VFs in use at once is a move.
func Decisions(w io.Writer, r *scenario.Result) error {
	c := csv.NewWriter(w)
	if err := c.Write([]string{"policy", "time_s", "asked_s", "action", "vm", "vf", "why"}); err != nil {
		return err
	}
	for i := range r.Policies {
		o := &r.Policies[i]
		for k := range o.Decisions {
			d := &o.Decisions[k]
			action := "unplug"
			if d.Plug {
				action = "plug"
			}
			if err := c.Write([]string{
				input.Cell(o.Label), seconds(r.Origin, d.At), seconds(r.Origin, d.Asked), action, input.Cell(d.VM),
				input.Cell(d.VF.String()), input.Cell(d.Why),
			}); err != nil {
				return err
			}
		}
	}
	c.Flush()
	return c.Error()
}

func number(x float64) string { return strconv.FormatFloat(x, 'f', 4, 64) }

func seconds(origin float64, d time.Duration) string {
	return strconv.FormatFloat(origin+d.Seconds(), 'f', 6, 64)
}
