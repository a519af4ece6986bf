package neutron

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/host/libvirt/libvirttest"
	"sluice/internal/tests/testkit"
)

// bed is a host with a real libvirt, Open vSwitch, Neutron and sluiced in namespaces of its own.
type bed struct {
	*testing.T
	d    *libvirttest.Daemon
	dir  string
	pids map[string]string // of programs, in the bed's PID namespace

	mu     sync.Mutex
	limits []limits // in the kernel, as they changed
}

type limits struct {
	at   time.Time
	text string // what each tap may send and receive
}

const patience = 10 * time.Minute // far more than anything takes: the OVN agent looks for databases only every 3 minutes

// newBed makes a bed for a mechanism driver of Neutron.
func newBed(t *testing.T, driver string) *bed {
	dir, err := os.MkdirTemp("", "nt") // short: the length of a socket's path is limited
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if out, err := exec.Command("../scripts/neutron", dir, "prepare", driver).CombinedOutput(); err != nil { //nolint:gosec // fixed
		t.Fatalf("%v\n%s", err, out)
	}
	b := &bed{T: t, d: libvirttest.Start(t), dir: dir, pids: map[string]string{}}
	t.Cleanup(b.logs)
	b.d.Run(t, "bash", "-euc", `
		mkdir -p /run/openvswitch /run/sluice && mount -t tmpfs none /run/openvswitch && mount -t tmpfs none /run/sluice
		mount -t bpf -o mode=0700 bpf /sys/fs/bpf
		ovsdb-tool create $0/conf.db /usr/share/openvswitch/vswitch.ovsschema
		ovsdb-server $0/conf.db --remote=punix:/run/openvswitch/db.sock --remote=ptcp:6640:127.0.0.1 --pidfile --detach --log-file=$0/ovsdb.log
		ovs-vsctl --no-wait init
		ovs-vswitchd --pidfile --detach --log-file=$0/ovs.log
		ovs-vsctl add-br br-phys -- set bridge br-phys datapath_type=netdev`, dir)
	return b
}

// start runs a program in the background, with its output in a new file of that name.
func (b *bed) start(name string, args ...string) {
	b.Helper()
	script := `[ ! -e "$0" ] || mv "$0" "$0.old"; setsid "$@" >"$0" 2>&1 </dev/null & echo $!`
	out := b.d.Run(b, append([]string{"bash", "-c", script, filepath.Join(b.dir, name+".log")}, args...)...)
	b.pids[name] = strings.TrimSpace(out)
}

// neutron starts parts of Neutron.
func (b *bed) neutron(parts ...string) {
	b.Helper()
	script, err := filepath.Abs("../scripts/neutron")
	if err != nil {
		b.Fatal(err)
	}
	for _, part := range parts {
		b.start(part, script, b.dir, part)
	}
}

// kill ends programs at once, with what they have started.
func (b *bed) kill(names ...string) {
	b.Helper()
	for _, name := range names {
		b.d.Run(b, "kill", "-KILL", "--", "-"+b.pids[name])
	}
}

// startSluice starts sluiced.
func (b *bed) startSluice() {
	b.Helper()
	program, err := exec.LookPath("sluiced")
	if err != nil {
		b.Fatal(err)
	}
	text := fmt.Sprintf("libvirt: {uri: %q}\nstate_dir: %[2]s/state\napi: {socket: %[2]s/sluice.sock, group: \"\"}\nsample: 500ms\n"+
		"bandwidth: {packets: 400kpps}\n", b.d.URI(), b.dir)
	if err := os.WriteFile(filepath.Join(b.dir, "sluice.yaml"), []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	b.start("sluiced", program, "--config", filepath.Join(b.dir, "sluice.yaml"), "--mode", "enforce")
}

// watch follows the limits in the kernel until the test ends.
func (b *bed) watch() {
	b.Helper()
	program, err := exec.LookPath("watch-taps")
	if err != nil {
		b.Fatal(err)
	}
	b.start("watch-taps", program)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	b.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		b.follow(ctx)
	}()
}

func (b *bed) follow(ctx context.Context) {
	file, err := os.Open(filepath.Join(b.dir, "watch-taps.log"))
	if err != nil {
		b.Error(err)
		return
	}
	defer file.Close()
	for r, line := bufio.NewReader(file), ""; ctx.Err() == nil; {
		part, err := r.ReadString('\n')
		if line += part; err != nil {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		stamp, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		line = ""
		if ns, err := strconv.ParseInt(stamp, 10, 64); err == nil {
			b.mu.Lock()
			b.limits = append(b.limits, limits{time.Unix(0, ns), text})
			b.mu.Unlock()
		}
	}
}

// now is the last change of limits in the kernel, and how many there have been.
func (b *bed) now() (last limits, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n = len(b.limits); n > 0 {
		last = b.limits[n-1]
	}
	return last, n
}

// until waits for limits in the kernel and returns when they changed to that.
func (b *bed) until(want string) time.Time {
	b.Helper()
	var last limits
	b.eventually("in the kernel: "+want, func() bool {
		last, _ = b.now()
		return last.text == want
	})
	return last.at
}

func (b *bed) eventually(what string, ok func() bool) {
	b.Helper()
	testkit.Eventually(b, patience, what, ok)
}

// unchanged checks that what happens meanwhile changes no limit in the kernel.
func (b *bed) unchanged(what string, meanwhile func()) {
	b.Helper()
	before, n := b.now()
	meanwhile()
	if after, m := b.now(); m != n {
		b.Errorf("%s: limits have changed from %q to %q, in %d steps", what, before.text, after.text, m-n)
	}
}

// ask sends a request to a server at a unix socket in the bed's directory. It fails the test unless the answer is a success.
func (b *bed) ask(socket, method, path string, body any) map[string]any {
	b.Helper()
	out, err := b.try(socket, method, path, body)
	if err != nil {
		b.Fatal(err)
	}
	return out
}

func (b *bed) try(socket, method, path string, body any) (out map[string]any, err error) {
	c := http.Client{Timeout: patience, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(b.dir, socket))
		},
	}}
	var text []byte
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	r, err := http.NewRequestWithContext(b.Context(), method, "http://it"+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := c.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err = io.ReadAll(res.Body)
	if err == nil && res.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, res.Status, text)
	}
	if err == nil && len(text) > 0 && text[0] == '{' {
		err = json.Unmarshal(text, &out)
	}
	return out, err
}

// api asks Neutron, and returns the object that it answers.
func (b *bed) api(method, path string, body any) map[string]any {
	b.Helper()
	for _, one := range b.ask("api.sock", method, "/v2.0/"+path, body) {
		if object, ok := one.(map[string]any); ok {
			return object
		}
	}
	return nil
}

// logged reports whether a program's log has a text.
func (b *bed) logged(name, text string) bool { return b.count(name, text) > 0 }

// count returns how often.
func (b *bed) count(name, text string) int {
	log, _ := os.ReadFile(filepath.Join(b.dir, name+".log")) // not there yet: 0
	return strings.Count(string(log), text)
}

func (b *bed) logs() {
	if !b.Failed() {
		return
	}
	for _, name := range []string{"sluiced", "ovs-agent", "ovn-agent", "rpc", "api", "rabbitmq", "northd", "ovn-controller", "watch-taps"} {
		if log, err := os.ReadFile(filepath.Join(b.dir, name+".log")); err == nil {
			b.Logf("%s:\n%s", name, log[max(0, len(log)-3000):])
		}
	}
}
