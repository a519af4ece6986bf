package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/base/sleep"
	"sluice/internal/edge/fleet"
	"sluice/internal/model"
)

// virshMigrate migrates a VM as libvirt's documentation recommends for hosts that share their storage.
const virshMigrate = "virsh migrate --live --persistent --undefinesource {uuid} qemu+ssh://{host}/system"

// keptEvery is how often the ledger is asked whether the new host keeps the claims.
const keptEvery = time.Second

// endTime is for the last write about a migration, also when it is interrupted.
const endTime = 30 * time.Second

func (a *app) fleetMigrateCommand(f *fleetFlags) *cobra.Command {
	c := &cobra.Command{
		Use: "migrate UUID [-- COMMAND...]", Short: "migrate a VM together with its claims",
		Long: `Claims at the new host what the VM's NICs have claimed, runs the command that migrates it,
and ends the claims at the old host, in one write. Until then it is claimed at both. If the
command fails or is interrupted, the room at the new host is given back. Without --to the best host with
room is chosen, as by sluice fleet place. What place has claimed is a guarantee at the new host from the first
frame on: the command is not run until sluice fleet publish there, which looks each minute, has answered
that the daemon keeps it. Run it where the command runs, which is

  ` + virshMigrate + `

unless another is given; {host} and {uuid} in it are replaced. If sluice itself was killed,
--end says that the VM runs at the new host, --cancel that it does not.`,
		Example: `sluice fleet migrate 00000000-0000-4000-8000-000000000000 --mac 52:54:00:00:00:00
sluice fleet migrate 00000000-0000-4000-8000-000000000000 --mac 52:54:00:00:00:00 --to host2 -- virsh migrate db-1 qemu://{host}/system
sluice fleet migrate 00000000-0000-4000-8000-000000000000 --mac 52:54:00:00:00:00 --end`,
		Args: func(c *cobra.Command, args []string) error {
			return oneVM(c, args[:min(len(args), commandAt(c, args))])
		},
		ValidArgsFunction: nothingToOffer,
	}
	macs := c.Flags().StringArray("mac", nil, "MAC `address` of the VM's NIC; once for each that has a claim")
	to := c.Flags().String("to", "", "`name` of the new host; default: the best with room")
	end := c.Flags().Bool("end", false, "an interrupted migration succeeded: the VM runs at the new host")
	cancel := c.Flags().Bool("cancel", false, "an interrupted migration failed: the VM runs where it did")
	wait := c.Flags().Duration("wait", 3*time.Minute, "`time` that the new host has to answer that it keeps the claims; 0: migrate at once")
	c.MarkFlagsMutuallyExclusive("end", "cancel", "to")
	_ = c.RegisterFlagCompletionFunc("to", a.completeHost(f))
	o := outputFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		at := commandAt(c, args)
		command := args[at:]
		vm := strings.ToLower(args[0])
		addresses, err := migratedMACs(vm, *macs)
		if err != nil {
			return usage(c, err)
		}
		if len(command) > 0 && (*end || *cancel) {
			return usage(c, errors.New("--end and --cancel run no command"))
		}
		if len(command) == 0 {
			command = strings.Fields(virshMigrate)
		}
		l, err := a.ledger(c.Context(), f)
		if err != nil {
			return err
		}
		switch {
		case *end:
			return fleet.EndMigration(c.Context(), l, vm, addresses)
		case *cancel:
			return fleet.CancelMigration(c.Context(), l, vm, addresses)
		}
		host := ""
		if *to != "" {
			hosts, err := l.Hosts(c.Context())
			if err != nil {
				return err
			}
			there, err := fleet.Find(hosts, *to)
			if err != nil {
				return err
			}
			host = there.ID
		}
		m, err := a.migrate(c.Context(), l, vm, addresses, host, *wait, command)
		if err != nil {
			return err
		}
		return show(a.std.Out, o, m, printMigration)
	}
	return c
}

// commandAt is where the command begins among the arguments.
func commandAt(c *cobra.Command, args []string) int {
	if at := c.ArgsLenAtDash(); at >= 0 {
		return at
	}
	return len(args)
}

// migratedMACs are the addresses of the NICs to be migrated.
func migratedMACs(vm string, macs []string) (out []string, err error) {
	if len(macs) == 0 {
		return nil, errors.New("give --mac for each NIC that has a claim")
	}
	for _, m := range macs {
		address, err := model.ParseMAC(m)
		if err != nil {
			return nil, fmt.Errorf("--mac: %w", err)
		}
		if _, err := fleet.Consumer(vm, address.String()); err != nil {
			return nil, err
		}
		out = append(out, address.String())
	}
	return out, nil
}

// migrate claims at the new host, runs the command, and keeps the claims where the VM is then.
func (a *app) migrate(
	ctx context.Context, l fleet.Ledger, vm string, macs []string, host string, wait time.Duration, command []string,
) (fleet.Migration, error) {
	m, err := fleet.BeginMigration(ctx, l, vm, macs, host)
	if err != nil {
		return m, err
	}
	words := strings.NewReplacer("{host}", m.Host, "{uuid}", vm)
	for i := range command {
		command[i] = words.Replace(command[i])
	}
	failed := a.awaitKept(ctx, l, &m, macs, wait)
	if failed == nil {
		failed = a.runMigration(ctx, m.Host, command)
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer stop()
	if failed == nil {
		if err := fleet.EndMigration(ctx, l, vm, macs); err != nil {
			return m, fmt.Errorf("%w; the VM is at %s, and claimed at both hosts: repeat this with --end", err, m.Host)
		}
		return m, nil
	}
	if err := fleet.CancelMigration(ctx, l, vm, macs); err != nil {
		return m, fmt.Errorf("%w; and %w: repeat this with --cancel", failed, err)
	}
	return m, fmt.Errorf("%w; the claim is at %s alone again", failed, m.From)
}

// awaitKept waits until the new host's daemon keeps the claims.
func (a *app) awaitKept(ctx context.Context, l fleet.Ledger, m *fleet.Migration, macs []string, wait time.Duration) error {
	if wait == 0 {
		return nil
	}
	ctx, stop := context.WithTimeout(ctx, wait)
	defer stop()
	for said := false; ; said = true {
		kept, err := fleet.Kept(ctx, l, m.VM, macs)
		switch {
		case kept:
			return nil
		case err != nil && ctx.Err() == nil:
			return err
		case !said:
			fmt.Fprintf(a.std.Err, "claimed at %s too; waiting until its daemon keeps that\n", printable(m.Host))
		}
		if sleep.For(ctx, keptEvery) == nil {
			continue
		}
		if err := context.Cause(ctx); !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		return fmt.Errorf("%s has not answered within %s that it keeps the claims: does sluice-fleet run there, and does api.claims in its "+
			"sluice.yaml name @sluice-claims? `sluice doctor` there names claims that it refuses; --wait 0 migrates nevertheless", m.Host, wait)
	}
}

// runMigration runs the command that migrates the VM.
func (a *app) runMigration(ctx context.Context, host string, command []string) error {
	fmt.Fprintf(a.std.Err, "claimed at %s too; running %s\n", printable(host), printable(strings.Join(command, " ")))
	cmd := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // the user's own
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.std.In, a.std.Err, a.std.Err
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", command[0], err)
	}
	return nil
}

func printMigration(w io.Writer, m fleet.Migration) {
	var rows [][]string
	for _, n := range m.NICs {
		rows = append(rows, []string{m.VM, n.MAC, fleet.Rate(n.Kbits, n.Kpackets), m.From, m.Host, n.PF})
	}
	table(w, "VM MAC GUARANTEE FROM HOST PF", rows)
}
