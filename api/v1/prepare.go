package api

// Prepare is the body of POST /v1/prepare: a VM's persistent definition gets what the VM lacks for a VF, or what it got so is taken out
// again. The answer is a list of Prepared, one for each VM.
type Prepare struct {
	VM     string   `json:"vm,omitempty"`      // name or UUID
	All    bool     `json:"all,omitempty"`     // each VM, with dry_run only
	Undo   bool     `json:"undo,omitempty"`    // take out what was added
	NICs   []string `json:"nics,omitempty"`    // that are to have VFs, by alias, MAC or network; none: as sluice.yaml says, or the only one
	Agent  bool     `json:"agent,omitempty"`   // add a channel to qemu-guest-agent too
	DryRun bool     `json:"dry_run,omitempty"` // change nothing
	Digest string   `json:"digest,omitempty"`  // change nothing but what was shown with this
}

// Prepared is what is added to one VM's definition, or taken out of it.
type Prepared struct {
	VM      string    `json:"domain"`
	ID      string    `json:"uuid"`
	Changes []string  `json:"changes"`
	Diff    string    `json:"diff,omitempty"`    // of the XML, unified
	Digest  string    `json:"digest,omitempty"`  // of what is changed
	Defined bool      `json:"defined"`           // libvirt has it
	Effect  string    `json:"effect,omitempty"`  // when it takes effect
	Refused *Error    `json:"refused,omitempty"` // why the VM is left as it is
	Notes   []string  `json:"notes"`
	Lacks   []Problem `json:"lacks"` // what doctor says of the new definition all the same
}
