package edgetest

import (
	"context"
	"fmt"
	"sync"

	"sluice/api/v1"
)

// Preparer is a server.Preparer with two VMs: web-1, which lacks something, and old, which is refused.
type Preparer struct {
	mu       sync.Mutex
	prepared bool
}

// Prepare implements server.Preparer.
func (p *Preparer) Prepare(_ context.Context, r api.Prepare) ([]api.Prepared, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	web := api.Prepared{
		VM: "web-1", ID: "00000000-0000-4000-8000-000000000001", Changes: []string{}, Notes: []string{},
		Lacks: []api.Problem{},
	}
	old := api.Prepared{
		VM: "old", ID: "2", Changes: []string{}, Notes: []string{}, Lacks: []api.Problem{},
		Refused: &api.Error{Text: "it has no PCI Express", Remedy: "make a q35"},
	}
	if p.prepared == r.Undo {
		web.Changes = append(web.Changes, "a free PCIe root port for a VF, bus 3")
		web.Diff, web.Digest, web.Effect = "--- web-1\n+++ web-1 (prepared)\n@@ -1 +1,2 @@\n <a/>\n+<b/>\n", fmt.Sprintf("digest-%t", r.Undo),
			"at its next start"
		web.Lacks = append(web.Lacks, api.Problem{Subject: "web-1", Text: "it has no guest agent channel", Remedy: "add one"})
	}
	if !r.DryRun && r.VM != "old" {
		if r.Digest != "" && r.Digest != web.Digest {
			return nil, &api.Error{Text: "the definition of web-1 has changed since it was shown", Remedy: "look at it again"}
		}
		p.prepared, web.Defined = !r.Undo, len(web.Changes) > 0
	}
	switch {
	case r.All:
		return []api.Prepared{old, web}, nil
	case r.VM == "old":
		return []api.Prepared{old}, nil
	case r.VM == web.VM, r.VM == web.ID:
		return []api.Prepared{web}, nil
	}
	return nil, &api.Error{Text: fmt.Sprintf("there is no VM %q", r.VM), Remedy: "see which VMs there are: virsh list --all"}
}
