package api

// Prepare is the body of POST /v1/prepare: it adds to a VM's persistent definition what the VM needs for a VF, or removes
// what was added that way. The answer is a list of Prepared, one per VM.
type Prepare struct {
	VM     string   `json:"vm,omitempty"`      // name or UUID
	All    bool     `json:"all,omitempty"`     // every VM, with dry_run only
	Undo   bool     `json:"undo,omitempty"`    // remove what was added
	NICs   []string `json:"nics,omitempty"`    // that are to have VFs, by alias, MAC or network; empty: as sluice.yaml says, or the only one
	Agent  bool     `json:"agent,omitempty"`   // add a channel to qemu-guest-agent too
	DryRun bool     `json:"dry_run,omitempty"` // change nothing
	Digest string   `json:"digest,omitempty"`  // apply only the change that was shown with this digest
}

// Prepared is what is added to one VM's definition, or removed from it.
type Prepared struct {
	VM      string    `json:"domain"`
	ID      string    `json:"uuid"`
	Changes []string  `json:"changes"`
	Diff    string    `json:"diff,omitempty"`    // of the XML, unified
	Digest  string    `json:"digest,omitempty"`  // of the change
	Defined bool      `json:"defined"`           // libvirt has accepted the definition
	Effect  string    `json:"effect,omitempty"`  // when it takes effect
	Refused *Error    `json:"refused,omitempty"` // why the VM is left unchanged
	Notes   []string  `json:"notes"`
	Lacks   []Problem `json:"lacks"` // what doctor still reports about the new definition
}
