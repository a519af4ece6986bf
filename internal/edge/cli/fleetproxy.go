package cli

import (
	"errors"
	"fmt"
	"net"

	"github.com/spf13/cobra"

	"sluice/internal/edge/fleet/proxy"
)

func (a *app) fleetProxyCommand(f *fleetFlags) *cobra.Command {
	c := &cobra.Command{
		Use: "proxy", Short: "stand before a Placement, and let each host write only what is its own",
		Long: `Placement knows no owners: whoever may write may write everything. The proxy knows each client
by its certificate, whose alternative name is the URI sluice:operator or sluice:host:NAME:UUID,
as sluice fleet id prints it on the host. Everybody may read. A host may write its own
providers, and claim on them for VMs that have no claim elsewhere; an operator all that the
commands of sluice fleet need. Anything else is refused, with the reason, and told.

Nothing but the proxy may reach Placement: let that listen on the loopback address of a machine
on which nobody else works, and run one proxy. The list of --revoked is read at each request.`,
		Example: `sluice fleet proxy --listen :8779 --placement http://127.0.0.1:8778 --cert proxy.crt --key proxy.key --clients ca.crt
sluice fleet proxy --cert proxy.crt --key proxy.key --clients ca.crt --revoked ca.crl`, Args: noArgs,
	}
	var files proxy.Files
	listen := c.Flags().String("listen", ":8779", "`address` to listen at")
	c.Flags().StringVar(&files.Cert, "cert", "", "`file` with the proxy's certificate, in PEM")
	c.Flags().StringVar(&files.Key, "key", "", "`file` with its key")
	c.Flags().StringVar(&files.Clients, "clients", "", "`file` with the certificates of those who sign clients' certificates")
	revoked := c.Flags().String("revoked", "", "`file` with the list of revoked certificates, in PEM; nobody is let in if it is old")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if files.Cert == "" || files.Key == "" || files.Clients == "" {
			return usage(c, errors.New("give --cert, --key and --clients"))
		}
		secure, err := files.TLS()
		if err != nil {
			return err
		}
		if a.deps.Placement == nil {
			return errNotWired
		}
		placement, err := a.deps.Placement(c.Context(), f.placement)
		if err != nil {
			return err
		}
		var lc net.ListenConfig
		l, err := lc.Listen(c.Context(), "tcp", *listen)
		if err != nil {
			return fmt.Errorf("--listen: %w", err)
		}
		a.tell("proxy at https://" + l.Addr().String())
		p := &proxy.Proxy{Placement: placement, Revoked: *revoked, Tell: a.tell}
		return p.Serve(c.Context(), l, secure)
	}
	return c
}

func (a *app) fleetIDCommand(f *fleetFlags) *cobra.Command {
	c := &cobra.Command{
		Use: "id", Short: "print the name that a certificate of this host needs for sluice fleet proxy",
		Long: `Prints the URI that must be the alternative name of the certificate with which this host
publishes through sluice fleet proxy. Its UUID is that of the host's provider in Placement,
which is made of --host-uuid.`,
		Example: "sluice fleet id\nsluice fleet id --host-name host1", Args: noArgs,
	}
	f.hostFlags(c)
	c.RunE = func(*cobra.Command, []string) error {
		host, err := f.host()
		if err != nil {
			return err
		}
		uri, err := proxy.Identity{Host: host}.URI()
		if err == nil {
			a.tell(uri)
		}
		return err
	}
	return c
}
