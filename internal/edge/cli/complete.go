package cli

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/api/v1"
	"sluice/internal/edge/client"
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
	return complete(a, c, (*client.Client).SLAs, func(s *api.NICSLA) []string {
		if len(args) > 0 && args[0] != s.VM && args[0] != s.ID {
			return nil
		}
		return []string{s.NIC}
	})
}

// completePF completes the PFs of this host that have VFs.
func (a *app) completePF(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nothingToOffer(c, nil, "")
	}
	return complete(a, c, (*client.Client).VFs, func(vf *api.VF) []string { return []string{vf.PF} })
}

// completeVF completes the numbers of the virtual VFs of the given VM.
func (a *app) completeVF(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return complete(a, c, (*client.Client).VirtualPFs, func(p *api.VirtualPF) (numbers []string) {
		if len(args) > 0 && args[0] != p.VM && args[0] != p.ID || len(args) > 1 && args[1] != p.Name {
			return nil
		}
		for i := range p.Functions {
			if n := p.Functions[i].VF; n >= 0 {
				numbers = append(numbers, strconv.Itoa(n))
			}
		}
		return numbers
	})
}

// completeVM completes the names of the VMs.
func (a *app) completeVM(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nothingToOffer(c, nil, "")
	}
	return complete(a, c, (*client.Client).VMs, func(vm *api.VM) []string {
		return []string{cobra.CompletionWithDesc(vm.Name, pathOf(*vm))}
	})
}

// completeVMs completes the names of the VMs that are not given yet.
func (a *app) completeVMs(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return complete(a, c, (*client.Client).VMs, func(vm *api.VM) []string {
		if slices.Contains(args, vm.Name) {
			return nil
		}
		return []string{cobra.CompletionWithDesc(vm.Name, pathOf(*vm))}
	})
}

// completeOverridden completes the names of the VMs that are pinned or released and not given yet or, if sla is set, the name of a
// VM that has an SLA that was set at run time.
func (a *app) completeOverridden(sla bool) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		return complete(a, c, (*client.Client).Overrides, func(o *api.Override) []string {
			if sla && len(args) > 0 || slices.Contains(args, o.Name) || o.Name == "" || (o.Kind == api.VerbSetSLA) != sla {
				return nil
			}
			return []string{cobra.CompletionWithDesc(o.Name, string(o.Kind))}
		})
	}
}

// completeClass completes the classes in use.
func (a *app) completeClass(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return complete(a, c, (*client.Client).SLAs, func(s *api.NICSLA) []string { return []string{s.Class} })
}

// complete offers the words of a list that the daemon returns, if it answers in time.
func complete[T any](a *app, c *cobra.Command, get func(*client.Client, context.Context) ([]T, error), words func(*T) []string) (
	offered []string, _ cobra.ShellCompDirective,
) {
	ctx, cancel := context.WithTimeout(c.Context(), time.Second)
	defer cancel()
	list, err := get(a.client(), ctx)
	if err != nil {
		return nothingToOffer(c, nil, "")
	}
	for i := range list {
		for _, w := range words(&list[i]) {
			if w != "" && !slices.Contains(offered, w) {
				offered = append(offered, w)
			}
		}
	}
	return offered, cobra.ShellCompDirectiveNoFileComp
}
