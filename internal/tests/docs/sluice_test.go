package docs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/internal/config"
	"sluice/internal/control/bandwidth"
	"sluice/internal/control/placement"
	"sluice/internal/demo"
	"sluice/internal/edge/cli"
	"sluice/internal/edge/fleet"
	"sluice/internal/edge/fleet/fleettest"
	"sluice/internal/model"
	"sluice/internal/research/published"
	"sluice/internal/tests/testkit"
)

// notRun lists commands that are checked against the command tree, with their flags and arguments, but are not run.
var notRun = map[string]string{
	"run":                    "becomes the daemon of this machine",
	"demo":                   "runs until somebody ends it; the demo that the other commands ask stands for it",
	"dashboard":              "serves until somebody ends it; package dashboard runs it",
	"top":                    "shows until somebody ends it; package cli runs it",
	"qualify":                "needs a real NIC",
	"prepare":                "needs libvirt; package prepare has its texts",
	"record":                 "writes for hours",
	"sim":                    "takes minutes; package scenario runs what is in scenarios/",
	"reproduce":              "takes a while; package reproduce runs every experiment",
	"doctor --offline":       "starts sluiced on this machine",
	"fsck --offline":         "starts sluiced on this machine",
	"plan --offline":         "starts sluiced on this machine",
	"bw --watch":             "runs until somebody ends it",
	"config show":            "reads /etc/sluice/sluice.yaml; package cli runs it",
	"sysdump":                "reads this machine and writes a file; package cli runs it",
	"version --check":        "asks the sluiced of this machine; package cli runs it",
	"fleet publish":          "runs until somebody ends it; package cli runs it",
	"fleet place":            "the demo's networks are not those of its ledger; package cli runs it",
	"fleet fsck":             "reads this machine's UUID; package cli runs it",
	"fleet proxy":            "runs until somebody ends it; package openstack runs it",
	"fleet id":               "reads this machine's UUID; package cli runs it",
	"fleet migrate":          "runs virsh; package cli runs it",
	"fleet release":          "the demo's ledger is new for each command",
	"reload":                 "the demo has no sluice.yaml",
	"vpf":                    "the demo has no virtual PFs",
	"vpf list":               "the demo has no virtual PFs",
	"vpf show":               "the demo has no virtual PFs",
	"vpf set":                "the demo has no virtual PFs",
	"vpf define":             "the demo has no libvirt",
	"vpf undefine":           "the demo has no libvirt",
	"fleet targets --listen": "it serves until interrupted",
}

// tree returns the command tree of the real program.
func tree() *cobra.Command {
	return cli.Root(cli.Streams{Out: io.Discard, Err: io.Discard}, deps())
}

func deps() cli.Deps {
	return cli.Deps{
		Version: "1.2.3", Demo: demo.Run,
		Known:  config.Known{Policies: placement.Policies(), Allocators: bandwidth.Allocators()},
		Ledger: func(context.Context, string) (fleet.Ledger, error) { return fleettest.Example(), nil },
	}
}

// find looks a command line up in the tree: the command must exist, have these flags, and accept these arguments. It returns the
// command's name without the program's, and the flags that were set.
func find(args []string) (path string, set []string, err error) {
	c, rest, err := tree().Find(args)
	if err != nil {
		return "", nil, err
	}
	if err := c.ParseFlags(rest); err != nil {
		return "", nil, fmt.Errorf("%s: %w", c.CommandPath(), err)
	}
	left := c.Flags().Args()
	if c.HasSubCommands() && len(left) > 0 {
		return "", nil, fmt.Errorf("%s has no command %q", c.CommandPath(), left[0])
	}
	c.Flags().Visit(func(f *pflag.Flag) { set = append(set, f.Name) })
	path = strings.TrimPrefix(strings.TrimPrefix(c.CommandPath(), "sluice"), " ")
	return path, set, c.ValidateArgs(left)
}

// why returns why a command is not run, "" if it is.
func why(path string, set []string) string {
	for _, flag := range set {
		if reason := notRun[path+" --"+flag]; reason != "" {
			return reason
		}
	}
	return notRun[path]
}

// checkSluice checks a command line, and runs it if possible.
func checkSluice(t *testing.T, args []string) error {
	t.Helper()
	path, set, err := find(args)
	if err != nil || why(path, set) != "" {
		return err
	}
	return simulated(t).run(t.Context(), path, args)
}

// host is a demo that commands query.
type host struct {
	socket string
	vms    map[string]bool
}

// hosts has one host per test.
var hosts sync.Map

// simulated returns the demo of a test, which belongs to one page, so that changes by one page do not affect another.
func simulated(t *testing.T) *host {
	t.Helper()
	if h, ok := hosts.Load(t.Name()); ok {
		return h.(*host)
	}
	h := &host{socket: filepath.Join(t.TempDir(), "s.sock"), vms: map[string]bool{}}
	ctx, cancel := context.WithCancel(context.Background())
	done, seen := make(chan error, 1), make(chan struct{})
	var once sync.Once
	go func() {
		done <- demo.Run(ctx, cli.DemoOptions{
			VMs: 40, VFs: 24, Policy: model.DefaultPolicy, Interval: time.Minute, Speed: 60, Seed: 1, Troubles: true, Socket: h.socket,
			Version: "1.2.3",
			Show: func(v *model.View) {
				once.Do(func() {
					for i := range v.Snapshot.VMs {
						h.vms[v.Snapshot.VMs[i].Name] = true
					}
					close(seen)
				})
			},
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the demo: %v", err)
		}
		hosts.Delete(t.Name())
	})
	select {
	case <-seen:
	case <-time.After(testkit.Time(time.Minute)):
		t.Fatal("the demo shows nothing")
	}
	testkit.Eventually(t, 10*time.Second, "what the demo's VMs send", func() bool {
		body, err := get(t.Context(), h.socket, "/v1/bandwidth")
		return err == nil && strings.Contains(body, `"web-00"`)
	})
	hosts.Store(t.Name(), h)
	return h
}

// run runs a command against the demo. doctor and fsck exit with status 3 if they find something.
func (h *host) run(ctx context.Context, path string, args []string) error {
	if args = slices.Clone(args); !strings.HasPrefix(path, "fleet ") { // the fleet has other hosts and VMs
		args = h.named(args)
	}
	if path == "config check" && len(args) == 2 {
		args = append(args, "/etc/sluice/sluice.yaml")
	}
	for i, a := range args {
		if strings.HasSuffix(a, "/sluice.yaml") {
			args[i] = filepath.Join(root, "packaging/sluice.yaml")
		}
	}
	ctx, cancel := context.WithTimeout(ctx, testkit.Time(10*time.Second))
	defer cancel()
	var out, errs bytes.Buffer
	ran.Add(1)
	code := cli.Main(ctx, append(args, "--socket", h.socket), cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}, deps())
	if code == cli.ExitOK || code == cli.ExitFindings && (path == "doctor" || path == "fsck") {
		return nil
	}
	if ctx.Err() != nil {
		return errors.New("it does not end: if it is not to, say so in notRun")
	}
	return &failed{code: code, text: strings.TrimSpace(errs.String())}
}

// ran counts the commands that were run.
var ran atomic.Int64

// failed is the error of a command that failed.
type failed struct {
	code int
	text string
}

func (f *failed) Error() string { return fmt.Sprintf("exit %d: %s", f.code, f.text) }

// standIns are names and UUIDs that stand for any VM in the pages, and nicNames those that stand for any NIC.
var (
	standIns = []string{"VM", "node", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"}
	nicNames = regexp.MustCompile(`^ua-[\w-]+$`)
)

var numbered = regexp.MustCompile(`^([a-z]+)-?(\d*)$`)

// named replaces VMs that pages name by VMs of the demo: db-1 by db-01, and any other by a web-NN.
func (h *host) named(args []string) []string {
	out := slices.Clone(args)
	for i, a := range out {
		m := numbered.FindStringSubmatch(a)
		switch {
		case h.vms[a]:
		case slices.Contains(standIns, a):
			out[i] = "web-00"
		case nicNames.MatchString(a):
			out[i] = "ua-net0"
		case m != nil && m[2] != "":
			for _, group := range []string{m[1], "web"} {
				if name := group + "-0" + m[2]; h.vms[name] {
					out[i] = name
					break
				}
			}
		}
	}
	return out
}

// get sends a request to a daemon over its socket.
func get(ctx context.Context, socket, path string) (string, error) {
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://sluice"+path, http.NoBody)
	if err != nil {
		return "", err
	}
	res, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && (res.StatusCode != http.StatusOK || len(body) == 0) {
		err = errors.New(res.Status + " " + string(body))
	}
	return string(body), err
}

// The commands that measure what Sluice does not run exist.
func TestPapersMeasures(t *testing.T) {
	n := 0
	for _, p := range published.Papers() {
		for _, f := range p.Figures {
			if f.Measure == "" {
				continue
			}
			n++
			list, err := calls(f.Measure)
			if err != nil {
				t.Fatal(err)
			}
			if err := checkProgram(t, list[0].args); err != nil {
				t.Errorf("%s %s: %v", p.Name, f.Name, err)
			}
		}
	}
	if n < 5 {
		t.Errorf("only %d commands", n)
	}
}

// The example of each paper is valid, without a warning.
func TestPapersConfigs(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "docs/papers/*.yaml"))
	if err != nil || len(files) != len(published.Papers()) {
		t.Fatalf("%d files for %d papers, %v", len(files), len(published.Papers()), err)
	}
	for _, f := range files {
		var out, errs bytes.Buffer
		code := cli.Main(t.Context(), []string{"config", "check", f}, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}, deps())
		if text := out.String() + errs.String(); code != cli.ExitOK || !strings.HasPrefix(text, "ok: ") {
			t.Errorf("%s: exit %d:\n%s", f, code, text)
		}
	}
}
