package cli

import (
	"errors"
	"fmt"
	"io"

	"sluice/internal/host/prepare"
)

// filter copies a domain's XML from stdin to stdout and prepares it on the way, without the daemon. It is called by programs that start VMs
// with what comes out, so the input comes out whatever goes wrong; only a failed write is an error.
func (p *preparing) filter(vms []string) error {
	in, err := io.ReadAll(io.LimitReader(p.std.In, maxDomainXML+1))
	switch {
	case err != nil:
	case len(in) > maxDomainXML:
		err = fmt.Errorf("the XML has more than %d MiB", maxDomainXML>>20)
	case p.all || len(vms) > 0 || p.request.DryRun || p.o.json || p.off.on:
		err = errors.New("the only other flags that --filter can be used with are --nic, --agent and --undo, and no VM is named")
	}
	out := string(in)
	if err == nil {
		out, err = prepare.Filter(out, p.request.Undo, prepare.Options{NICs: p.request.NICs, Agent: p.request.Agent})
	}
	if err != nil {
		fmt.Fprintf(p.std.Err, "sluice prepare --filter: the XML is left as it is: %s\n", printable(err.Error()))
	}
	if _, err := io.WriteString(p.std.Out, out); err != nil {
		return fmt.Errorf("write the domain's XML: %w", err)
	}
	if len(in) > maxDomainXML {
		_, err = io.Copy(p.std.Out, p.std.In)
		return err
	}
	return nil
}
