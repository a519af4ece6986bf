package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"sluice/api/v1"
	"sluice/internal/edge/client"
	"sluice/internal/model"
)

// preparing is one run of `sluice prepare`.
type preparing struct {
	*app
	o        *output
	off      *offline
	request  api.Prepare // for each VM
	all, yes bool
	stream   bool // --filter
}

func (a *app) prepareCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "prepare VM...|--all", Short: "add what a VM's definition needs for a VF (role own)",
		Long: `Adds to a VM's persistent definition in libvirt what is missing for a VF to be plugged
beside its virtio NIC: <teaming> and an alias for the NIC, a free PCIe root port, ACPI;
for a guest with a bond (failover: bond in sluice.yaml) only port and ACPI. Shows the
changes, asks for confirmation, and then defines the VM. Everything else in the definition
stays as it is.

A running VM is not affected: the new definition takes effect at its next full stop and
start, not at a reboot inside the guest. sluice doctor says what is still missing then.

The additions are recorded in the domain's metadata, and --undo removes exactly these.
VMs that cannot be prepared are refused, with the remedy: machines without PCI Express,
transient domains, domains whose definition contains another VF, and those with several
NICs that could have a VF, unless --nic names one.

With --filter it reads a domain's XML and prints it prepared, or with --undo as it was
before, for programs that start VMs. It needs neither daemon nor libvirt. Whatever goes
wrong, the XML comes out as it was, and the reason goes to stderr.`,
		Example: "sluice prepare web-1\nsluice prepare db-1 --nic br-data --yes\nsluice prepare --all --dry-run\nsluice prepare web-1 --undo",
	}
	p := &preparing{app: a, o: outputFlag(c), off: offlineFlags(c)}
	flags := c.Flags()
	flags.Lookup("offline").Usage = "work on this host without a daemon, as root"
	flags.BoolVar(&p.all, "all", false, "prepare all VMs that libvirt knows, and list those that are refused")
	flags.StringSliceVar(&p.request.NICs, "nic", nil, "`NIC` that is to have a VF, by alias, MAC or network; may be repeated")
	_ = c.RegisterFlagCompletionFunc("nic", completeList(a.completeNIC))
	flags.BoolVar(&p.request.Agent, "agent", false, "also add a channel for qemu-guest-agent; only for guests that run it, "+
		"since a VM whose agent does not answer gets no VF")
	flags.BoolVar(&p.request.Undo, "undo", false, "remove what was added")
	flags.BoolVar(&p.stream, "filter", false, "prepare the domain XML on stdin and print it; no VM is named")
	flags.BoolVar(&p.request.DryRun, "dry-run", false, "show the changes without making them")
	flags.BoolVarP(&p.yes, "yes", "y", false, "do not ask for confirmation")
	c.ValidArgsFunction = func(c *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		return a.completeVM(c, nil, word)
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		switch {
		case p.stream:
			return p.filter(args)
		case p.all == (len(args) > 0):
			return usage(c, errors.New("prepare needs the names or UUIDs of VMs, or --all"))
		case p.request.Undo && (len(p.request.NICs) > 0 || p.request.Agent):
			return usage(c, errors.New("--undo removes everything that was added; leave --nic and --agent out"))
		case p.o.json && !p.yes && !p.request.DryRun:
			return usage(c, errors.New("-o json cannot ask for confirmation: add --dry-run or --yes"))
		}
		return p.run(c.Context(), args)
	}
	return c
}

// run shows what would change, asks for confirmation, and applies it.
func (p *preparing) run(ctx context.Context, vms []string) error {
	list, err := p.preview(ctx, vms)
	if err != nil {
		return err
	}
	if !p.o.json {
		p.print(list)
	}
	changes := 0
	for i := range list {
		if len(list[i].Changes) > 0 {
			changes++
		}
	}
	if changes > 0 && !p.request.DryRun {
		if !p.yes && !p.confirmed(changes) {
			fmt.Fprintln(p.std.Out, "Nothing was changed.")
			return errPrinted
		}
		p.define(ctx, list)
	}
	if p.o.json {
		err = show(p.std.Out, p.o, list, nil)
	}
	if err == nil && slices.ContainsFunc(list, func(one api.Prepared) bool { return one.Refused != nil }) {
		return errPrinted
	}
	return err
}

// preview returns what would change. Of several VMs, one that cannot be read does not hide the others.
func (p *preparing) preview(ctx context.Context, vms []string) (list []api.Prepared, err error) {
	r := p.request
	r.DryRun = true
	if p.all {
		r.All = true
		return p.ask(ctx, r)
	}
	failed, same := 0, true
	var last error
	for _, vm := range vms {
		r.VM = vm
		one, err := p.ask(ctx, r)
		switch {
		case err == nil:
			list = append(list, one...)
			continue
		case ctx.Err() != nil, errors.Is(err, client.ErrUnreachable):
			return nil, err
		}
		same = same && (last == nil || last.Error() == err.Error())
		failed, last = failed+1, err
		list = append(list, api.Prepared{VM: vm, Changes: []string{}, Notes: []string{}, Lacks: []api.Problem{}, Refused: refusal(err)})
	}
	if failed == len(vms) && same { // the host's fault, or the only VM's
		return nil, last
	}
	return list, nil
}

// ask sends a request to the daemon or, with --offline, to a sluiced process.
func (p *preparing) ask(ctx context.Context, r api.Prepare) ([]api.Prepared, error) {
	if !p.off.on {
		list, err := p.client().Prepare(ctx, r)
		return list, orOffline(err)
	}
	in, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	var list []api.Prepared
	err = runDaemon(ctx, bytes.NewReader(in), func(r io.Reader) error { return json.NewDecoder(r).Decode(&list) }, "--prepare", "--config",
		p.off.config)
	return list, err
}

// define applies what was shown, one VM after the other. A VM that fails is marked as refused.
func (p *preparing) define(ctx context.Context, list []api.Prepared) {
	for i := range list {
		if len(list[i].Changes) == 0 {
			continue
		}
		r := p.request
		r.VM, r.Digest = list[i].ID, list[i].Digest
		done, err := p.ask(ctx, r)
		switch {
		case err == nil && len(done) == 1:
			list[i] = done[0]
		case err == nil:
			err = fmt.Errorf("the daemon's answer is about %d VMs instead of 1", len(done))
		}
		if err != nil {
			list[i].Refused = refusal(err)
		}
		if !p.o.json {
			p.printDone(&list[i])
		}
	}
}

// refusal is an error as the answer about a VM.
func refusal(err error) *api.Error {
	var said *api.Error
	if !errors.As(err, &said) {
		said = &api.Error{Text: err.Error()}
	}
	return said
}

// confirmed asks the user for confirmation.
func (p *preparing) confirmed(changes int) bool {
	fmt.Fprintf(p.std.Out, "Change %s in libvirt? [y/N] ", model.Plural(changes, "definition"))
	answer, _ := bufio.NewReader(p.std.In).ReadString('\n') // no answer means no
	return slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(answer)))
}

func (p *preparing) print(list []api.Prepared) {
	colour := IsTerminal(p.std.Out) && os.Getenv("NO_COLOR") == ""
	for i := range list {
		one := &list[i]
		if one.Refused != nil {
			printRefused(p.std.Out, one)
			continue
		}
		printDiff(p.std.Out, one.Diff, colour)
		head := "nothing is missing"
		switch {
		case len(one.Changes) > 0:
			head = model.Plural(len(one.Changes), "change")
		case p.request.Undo:
			head = "nothing to remove"
		}
		fmt.Fprintf(p.std.Out, "%s: %s\n", printable(one.VM), head)
		for _, text := range one.Changes {
			fmt.Fprintf(p.std.Out, "    %s\n", printable(text))
		}
		for _, text := range one.Notes {
			fmt.Fprintf(p.std.Out, "    note: %s\n", printable(text))
		}
		for _, q := range one.Lacks {
			fmt.Fprintf(p.std.Out, "    doctor will say: %s; %s\n", printable(q.Text), printable(q.Remedy))
		}
		if one.Effect != "" {
			fmt.Fprintf(p.std.Out, "    takes effect %s\n", printable(one.Effect))
		}
	}
}

func (p *preparing) printDone(one *api.Prepared) {
	if one.Refused != nil {
		printRefused(p.std.Out, one)
		return
	}
	fmt.Fprintf(p.std.Out, "%s: defined; takes effect %s\n", printable(one.VM), printable(one.Effect))
}

func printRefused(w io.Writer, one *api.Prepared) {
	fmt.Fprintf(w, "%s: left as it is: %s\n", printable(one.VM), printable(one.Refused.Text))
	if one.Refused.Remedy != "" {
		fmt.Fprintf(w, "    %s\n", printable(one.Refused.Remedy))
	}
}

// printDiff prints a unified diff, with the usual colours if colour is set.
func printDiff(w io.Writer, text string, colour bool) {
	colours := map[byte]string{'-': "31", '+': "32", '@': "36"}
	for line := range strings.Lines(text) {
		line = printable(strings.TrimSuffix(line, "\n"))
		if c := colours[(line + " ")[0]]; colour && c != "" {
			line = "\x1b[" + c + "m" + line + "\x1b[0m"
		}
		fmt.Fprintln(w, line)
	}
}
