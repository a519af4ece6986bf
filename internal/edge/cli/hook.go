package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"sluice/api/v1"
	"sluice/internal/config"
	"sluice/internal/host/migrate"
	"sluice/internal/model"
)

// maxDomainXML bounds the XML that libvirt may send, in bytes.
const maxDomainXML = 4 << 20

// hookLimit bounds the wait for the daemon: libvirt waits for its hook, and the guest for the migration.
const hookLimit = 20 * time.Second

// hookCommand is called by libvirt through packaging/libvirt/qemu-hook, not by users.
func (a *app) hookCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "libvirt-hook DOMAIN OPERATION SUB-OPERATION EXTRA", Short: "called by libvirt's hook for QEMU", Hidden: true,
		Long: `Reads the XML of a domain that migrates in and prints it with VFs of this host in place of
those that Sluice gave the VM on the source host. If nothing has to change it prints
nothing, which libvirt takes as unchanged XML. If this host has no VF for the VM it fails,
so that the VM stays on the source host. It makes no calls to libvirt.`,
		Args: cobra.MinimumNArgs(2),
	}
	path := c.Flags().String("config", DefaultConfig,
		"sluice.yaml with the path of the daemon's socket, as a `file`; conf.d/*.yaml beside it is read too")
	c.RunE = func(c *cobra.Command, args []string) error {
		if args[1] != "migrate" {
			return nil
		}
		ctx, cancel := context.WithTimeout(c.Context(), hookLimit)
		defer cancel()
		if !c.Flags().Changed("socket") { // libvirt calls the hook, without --socket
			a.socket = config.Socket(*path)
		}
		return a.migrateIn(ctx)
	}
	return c
}

func (a *app) migrateIn(ctx context.Context) error {
	xml, err := io.ReadAll(io.LimitReader(a.std.In, maxDomainXML+1))
	if err == nil && len(xml) > maxDomainXML {
		err = errors.New("the domain's XML is too long")
	}
	if err != nil || !bytes.Contains(xml, []byte(model.AliasPrefix)) {
		return err // without a VF managed by Sluice, leave any XML alone, even if it is invalid
	}
	d, err := migrate.Parse(xml)
	if err != nil || len(d.NICs) == 0 {
		return err
	}
	ask := api.Incoming{ID: string(d.ID), Name: d.Name}
	for _, n := range d.NICs {
		ask.NICs = append(ask.NICs, api.IncomingNIC{Alias: n.Alias, MAC: n.MAC.String(), Network: n.Network, VLAN: n.VLAN})
	}
	given, err := a.client().Incoming(ctx, ask)
	if err != nil {
		return fmt.Errorf("%s has a VF from Sluice, and there is none for it on this host: %w", printable(d.Name), err)
	}
	vfs := make([]model.PCIAddress, len(given))
	for i := range given {
		vfs[i] = model.PCIAddress(given[i].Address)
	}
	if xml, err = d.With(vfs); err == nil {
		_, err = a.std.Out.Write(xml)
	}
	return err
}
