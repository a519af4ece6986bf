package vpflab

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"sluice/lab"
)

// PutPrograms builds the programs under test (all of cmd) and the lab's own tools (frames, cri, cnitool and CNI plugins at their
// current version, in cni/), and puts them in the shared directory.
func (h *Host) PutPrograms(ctx context.Context) error {
	top, err := goTool(ctx, ".", "list", "-m", "-f", "{{.Dir}}", "sluice")
	if err != nil {
		return err
	}
	tools := filepath.Join(top, "lab/vpflab/tools")
	plugins, err := goTool(ctx, tools, "list", "-f", "{{.ImportPath}}", "tool")
	if err != nil {
		return err
	}
	for _, dir := range []string{"", "/cni"} {
		if err := os.MkdirAll(h.Path(Share+dir), 0o755); err != nil {
			return err
		}
	}
	for _, build := range []struct {
		dir, out string
		packages []string
	}{
		{top, Share, []string{"./cmd/...", "./lab/vpflab/frames"}},
		{tools, Share, []string{"./cri"}},
		{tools, Share + "/cni", strings.Fields(plugins)},
	} {
		args := append([]string{"build", "-trimpath", "-ldflags", "-s -w", "-o", h.Path(build.out) + "/"}, build.packages...)
		if _, err := goTool(ctx, build.dir, args...); err != nil {
			return err
		}
	}
	return nil
}

func goTool(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// Frames counts the frames received somewhere with one mark and one VLAN tag.
type Frames struct {
	Mark    string
	VLAN    int
	Src     string // of the latest frame
	Frames  int
	Bytes   int
	FirstNs int64 `json:"first_ns"` // arrival, by the receiver's clock
	LastNs  int64 `json:"last_ns"`
}

// Listener counts frames received on a device.
type Listener struct{ file string }

// Listen counts the frames of the tool "frames" that a device receives. Place is a guest, "ext" or "host", optionally with one of its
// network namespaces after a slash: "node/pod".
func (h *Host) Listen(ctx context.Context, place, dev string) (*Listener, error) {
	name := fmt.Sprintf("frames-%d", h.serial.Add(1))
	l := &Listener{h.Path(Share + "/" + name)}
	command := fmt.Sprintf("frames recv %s >%s/%s", dev, Share, name)
	machine, ns, _ := strings.Cut(place, "/")
	if machine == "ext" {
		machine, ns = "host", "ext"
	}
	if ns != "" {
		command = "ip netns exec " + ns + " bash -c " + lab.Quote("exec "+command)
	}
	var err error
	if machine == "host" {
		_, err = h.Start(ctx, name, command)
	} else {
		err = h.GuestStart(ctx, machine, name, command)
	}
	if err != nil {
		return nil, err
	}
	return l, lab.Eventually(ctx, time.Minute, "a listener on "+dev+" of "+place, func() (bool, error) {
		_, err := l.All()
		return err == nil, err
	})
}

// All returns what has been received so far.
func (l *Listener) All() ([]Frames, error) {
	data, err := os.ReadFile(l.file)
	if err != nil {
		return nil, err
	}
	end := strings.LastIndexByte(string(data), '\n')
	if end < 0 {
		return nil, io.ErrUnexpectedEOF
	}
	var all []Frames
	return all, json.Unmarshal(data[strings.LastIndexByte(string(data[:end]), '\n')+1:end], &all)
}

// Count returns how many frames with a mark have been received, whatever their tag.
func (l *Listener) Count(mark string) (int, error) {
	all, err := l.All()
	n := 0
	for _, f := range all {
		if f.Mark == mark {
			n += f.Frames
		}
	}
	return n, err
}
