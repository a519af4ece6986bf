package vpflab

import (
	"context"
	"fmt"
	"path/filepath"

	"sluice/lab"
)

// Proc is a program that runs on the host. Its output goes to the file Log in the lab's ArtifactDir.
type Proc = lab.Proc

// Start starts a program on the host and returns at once; name names its log. It runs until it ends, is stopped, or the lab is closed;
// ctx bounds only the start.
func (h *Host) Start(ctx context.Context, name, command string) (*Proc, error) {
	name = fmt.Sprintf("%03d-%s", h.serial.Add(1), name)
	return lab.StartProc(ctx, h, filepath.Join(h.ArtifactDir, name+".log"), "/run/"+name+".pid", "exec "+command)
}
