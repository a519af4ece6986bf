package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"sluice/api/v1"
	"sluice/internal/edge/answer"
	"sluice/internal/model"
)

func (a *app) runCommand() *cobra.Command {
	var config, mode string
	var lift bool
	c := &cobra.Command{
		Use: "run", Short: "run the daemon (root)",
		Long: `Becomes the daemon: the program sluiced, installed beside this one or found in PATH. It
observes the VMs of this host, decides at every sample which of them should hold a VF, and
moves VFs if sluice.yaml has mode: enforce. It logs to standard error and tells systemd
when it is ready. SIGHUP makes it read the configuration again. SIGTERM makes it finish or
undo the moves under way, for ten seconds at most, and stop. All other VFs stay where they
are, and the next start finishes or undoes what is left.`,
		Example: "sluice run\nsluice run --config ./sluice.yaml --mode observe",
		Args:    noArgs,
	}
	c.Flags().StringVar(&config, "config", DefaultConfig, "configuration `file`; conf.d/*.yaml beside it is read too")
	c.Flags().StringVar(&mode, "mode", "", "`mode` that overrides the configuration: observe or enforce")
	c.Flags().BoolVar(&lift, "lift", false, "when stopping, lift all limits on what VMs send and receive, whatever bandwidth.stop says")
	_ = c.RegisterFlagCompletionFunc("mode", modes)
	c.RunE = func(c *cobra.Command, _ []string) error {
		args := []string{"--config", config}
		switch model.Mode(mode) {
		case "":
		case model.ModeObserve, model.ModeEnforce:
			args = append(args, "--mode", mode)
		default:
			return usage(c, fmt.Errorf("--mode must be observe or enforce, not %q", mode))
		}
		if lift {
			args = append(args, "--lift")
		}
		if c.Flags().Changed("socket") {
			args = append(args, "--socket", a.socket)
		}
		path, err := findDaemon()
		if err != nil {
			return err
		}
		return fmt.Errorf("start %s: %w", path, syscall.Exec(path, append([]string{"sluiced"}, args...), os.Environ())) //nolint:gosec // as found
	}
	return c
}

// modes completes the modes of the daemon.
var modes = cobra.FixedCompletions([]string{string(model.ModeObserve), string(model.ModeEnforce)}, cobra.ShellCompDirectiveNoFileComp)

// findDaemon returns the path of sluiced: beside this program, where both are installed, or in PATH.
func findDaemon() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), "sluiced")); err == nil {
		return path, nil
	}
	path, err := exec.LookPath("sluiced")
	if err != nil {
		return "", fmt.Errorf("the daemon's program sluiced is neither in %s nor in PATH; install it beside sluice (`make build` makes both)",
			filepath.Dir(self))
	}
	return path, nil
}

// observeOffline runs sluiced to observe this host once, without changing anything.
func observeOffline(ctx context.Context, config string) (*answer.Offline, error) {
	var seen *answer.Offline
	err := runDaemon(ctx, nil, func(r io.Reader) (err error) { seen, err = readOffline(r); return err }, "--offline", "--config", config)
	return seen, err
}

// runDaemon runs sluiced for a single task and reads its output.
func runDaemon(ctx context.Context, in io.Reader, read func(io.Reader) error, args ...string) error {
	path, err := findDaemon()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, path, args...) //nolint:gosec // as found
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	var out, text bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &out, &text
	err = cmd.Run()
	switch said := strings.TrimPrefix(strings.TrimSpace(text.String()), "sluiced: "); {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && said != "":
		return errors.New(said)
	case err != nil:
		return fmt.Errorf("%s %s: %w", path, args[0], err)
	}
	if err := read(&out); err != nil {
		return fmt.Errorf("cannot read what %s %s printed: %w; install sluice and sluiced of the same version", path, args[0], err)
	}
	return nil
}

// readOffline is strict: if a sluiced of another version used other field names, a lenient decoder would report nothing at
// all.
func readOffline(r io.Reader) (*answer.Offline, error) {
	seen := &answer.Offline{}
	err := strictly(r, seen)
	if err == nil && (seen.Plan.Mode == "" || seen.Fsck.Findings == nil) {
		err = errors.New("plan or fsck is missing")
	}
	return seen, err
}

// checkHost runs sluiced to check this host, without changing anything.
func checkHost(ctx context.Context, config string) (d api.Doctor, err error) {
	err = runDaemon(ctx, nil, func(r io.Reader) error {
		err := strictly(r, &d)
		if err == nil && len(d.Checks) == 0 {
			err = errors.New("checks are missing")
		}
		return err
	}, "--doctor", "--config", config)
	return d, err
}

// strictly decodes JSON and accepts no unknown field.
func strictly(r io.Reader, into any) error {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	return d.Decode(into)
}
