package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"sluice/api/v1"
	"sluice/internal/model"
)

func (a *app) doctorCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "doctor", Short: "list problems with their remedies",
		Long: `Lists what prevents Sluice from doing its job, each with its remedy: VMs that cannot fail
over, guests without an agent, PFs without link, drivers without counters, a daemon that
cannot read the host.

With --offline it checks the host without a daemon: kernel, IOMMU, vfio, BPF file system,
every NIC with SR-IOV with its driver, its mode and what the driver can do, bridges,
configuration, libvirt, and the VMs. Each line passes, warns or fails; no fault hides
those behind it.

Ends with exit code 3 if there are problems or a check fails; entries that are only for
information and warnings do not count.`,
		Example: "sluice doctor\nsluice doctor --offline      # before the first start of the daemon",
		Args:    noArgs,
	}
	o, off := outputFlag(c), offlineFlags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		get, text := a.client().Doctor, printDoctor
		if off.on {
			get, text = func(ctx context.Context) (api.Doctor, error) { return checkHost(ctx, off.config) }, printChecks
		}
		d, err := get(c.Context())
		if err == nil {
			err = show(a.std.Out, o, d, text)
		}
		if err == nil && faults(d) > 0 {
			err = errFindings
		}
		return orOffline(err)
	}
	return c
}

// faults counts the problems that are not just information.
func faults(d api.Doctor) (n int) {
	for _, p := range d.Problems {
		if !p.Info {
			n++
		}
	}
	return n
}

func printDoctor(w io.Writer, d api.Doctor) {
	if faults(d) == 0 {
		fmt.Fprintln(w, "No problems found.")
	}
	printProblems(w, d.Problems)
}

// printProblems prints the problems, those that are just information last.
func printProblems(w io.Writer, list []api.Problem) {
	for _, info := range []bool{false, true} {
		for _, p := range list {
			if p.Info != info {
				continue
			}
			fmt.Fprintf(w, "%s%s: %s\n", map[bool]string{true: "for information: "}[info], subject(p.Subject), lines(p.Text, 4))
			if p.Remedy != "" {
				fmt.Fprintf(w, "    -> %s\n", printable(p.Remedy))
			}
		}
	}
}

// printChecks prints the checklist of a host.
func printChecks(w io.Writer, d api.Doctor) {
	count, wide := map[string]int{}, 0
	for _, c := range d.Checks {
		count[c.Result]++
		wide = max(wide, utf8.RuneCountInString(printable(c.Subject)))
	}
	for _, c := range d.Checks {
		fmt.Fprintf(w, "%s  %-*s  %s\n", strings.ToUpper(printable(c.Result)), wide, printable(c.Subject), lines(c.Text, wide+8))
		if c.Remedy != "" {
			fmt.Fprintf(w, "%*s-> %s\n", wide+8, "", lines(c.Remedy, wide+11))
		}
	}
	verdict := "this host can run Sluice"
	if count["fail"] > 0 {
		verdict = "this host cannot run Sluice yet"
	}
	fmt.Fprintf(w, "%s: %d pass, %d warn, %d fail: %s\n",
		model.Plural(len(d.Checks), "check"), count["pass"], count["warn"], count["fail"], verdict)
}

func subject(s string) string { return printable(cmp.Or(s, "this host")) }
