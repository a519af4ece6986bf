package cli

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/api/v1"
)

// completeList completes the last word of a comma-separated flag with the words from complete that are not already in the
// list.
func completeList(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
		at := strings.LastIndexByte(text, ',') + 1
		before, word := text[:at], text[at:]
		given := strings.Split(before, ",")
		offered, directive := complete(c, args, word)
		var list []string
		for _, one := range offered {
			if value, _, _ := strings.Cut(one, "\t"); strings.HasPrefix(value, word) && !slices.Contains(given, value) {
				list = append(list, before+one)
			}
		}
		return list, directive | cobra.ShellCompDirectiveNoSpace // a comma may follow
	}
}

// listOf completes a comma-separated flag with fixed words.
func listOf(words []string) cobra.CompletionFunc {
	return completeList(cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// nothingToOffer prevents the shell from completing file names.
var nothingToOffer = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveNoFileComp)

// completeNIC completes the NICs of the given VM, or of all VMs.
func (a *app) completeNIC(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.completeSLA(c, func(s *api.NICSLA) string {
		if len(args) > 0 && args[0] != s.VM && args[0] != s.ID {
			return ""
		}
		return s.NIC
	})
}

// completePF completes the PFs of this host that have VFs.
func (a *app) completePF(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(c.Context(), time.Second)
	defer cancel()
	vfs, err := a.client().VFs(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for i := range vfs {
		if pf := vfs[i].PF; !slices.Contains(names, pf) {
			names = append(names, pf)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeVF completes the numbers of the virtual VFs of the given VM.
func (a *app) completeVF(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(c.Context(), time.Second)
	defer cancel()
	list, err := a.client().VirtualPFs(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for i := range list {
		p := &list[i]
		if len(args) > 0 && args[0] != p.VM && args[0] != p.ID || len(args) > 1 && args[1] != p.Name {
			continue
		}
		for _, f := range p.Functions {
			if n := strconv.Itoa(f.VF); f.VF >= 0 && !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
