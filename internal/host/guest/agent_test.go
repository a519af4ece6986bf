package guest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/tests/testkit"
)

// noAgent is the environment variable that, set to 1, skips the tests with a real qemu-ga.
const noAgent = "SLUICE_TEST_NO_QEMU_GA"

// setUp makes the agent's interfaces: v0 has an IP address, v1 has none, as the lower devices of a failover.
const setUp = `set -e
ip link set lo up
ip link add v0 address 52:54:00:00:00:01 type veth peer v1 address 52:54:00:00:00:02
ip addr add 192.0.2.1/24 dev v0
echo 1 >/proc/sys/net/ipv6/conf/v1/disable_ipv6
ip link set v0 up
ip link set v1 up
`

// needAgent skips or fails the test if there is no qemu-ga.
func needAgent(t testing.TB) {
	t.Helper()
	if os.Getenv(noAgent) == "1" {
		t.Skip(noAgent + "=1")
	}
	if err := testkit.PrivateMounts(); err != nil {
		t.Fatal(err)
	}
	for _, prog := range []string{"qemu-ga", "ip"} {
		if _, err := exec.LookPath(prog); err != nil {
			t.Fatalf("%s is missing: apt-get install --no-install-recommends qemu-guest-agent iproute2 (%s=1 skips these tests)", prog, noAgent)
		}
	}
}

// realAgent starts qemu-ga in a network namespace of its own and returns a Client for it.
func realAgent(t testing.TB, args ...string) *Client {
	t.Helper()
	needAgent(t)
	dir, err := os.MkdirTemp("", "ga") // short: the length of Unix socket paths is limited
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	sock := filepath.Join(dir, "sock")
	run := append([]string{"exec", "qemu-ga", "-m", "unix-listen", "-p", sock, "-t", dir, "-f", filepath.Join(dir, "pid")}, args...)
	cmd := exec.Command("sh", "-c", setUp+strings.Join(run, " "))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatalf("start qemu-ga in a network namespace (needs root; %s=1 skips): %v", noAgent, err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	c := New(socket(sock))
	end := time.Now().Add(patience)
	var nothing struct{}
	for c.do(within(t, patience), "vm", "guest-ping", nil, &nothing) != nil {
		if time.Now().After(end) {
			t.Fatalf("qemu-ga does not answer: %s", out.String())
		}
		time.Sleep(5 * time.Millisecond)
	}
	return c
}

func names(cs []Counters) []string {
	var out []string
	for _, c := range cs {
		out = append(out, c.Name)
	}
	slices.Sort(out)
	return out
}

// blocked forbids qemu-ga to run these commands, as some distributions do.
func blocked(cmds ...string) []string { return []string{"-b", strings.Join(cmds, ",")} }

func TestRealAgent(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		exec bool
		want []string
	}{
		{"all allowed", nil, false, []string{"v0", "v1"}},
		{"no files", blocked("guest-file-open"), false, []string{"v0"}},
		{"no files but exec", blocked("guest-file-open"), true, []string{"v0", "v1"}},
		{"neither", blocked("guest-file-open", "guest-exec"), true, []string{"v0"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := realAgent(t, tc.args...)
			c.Exec = tc.exec
			got, err := c.Interfaces(within(t, patience), "vm")
			if err != nil || !slices.Equal(names(got), tc.want) {
				t.Fatalf("have %+v, %v; want %v", got, err, tc.want)
			}
			for _, i := range got {
				if i.MAC.IsZero() {
					t.Errorf("%s has no MAC", i.Name)
				}
			}
		})
	}
}

// Both sources of counters agree: v1 receives what v0 sends.
func TestRealAgentCounts(t *testing.T) {
	c := realAgent(t)
	end := time.Now().Add(patience)
	for {
		got, err := c.Interfaces(within(t, patience), "vm")
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(got, func(a, b Counters) int { return strings.Compare(a.Name, b.Name) })
		v0, v1 := got[0], got[1]
		if v0.TxPackets > 0 && v0.TxPackets == v1.RxPackets && v0.TxBytes == v1.RxBytes {
			return // v0's initial IPv6 traffic has ended
		}
		if time.Now().After(end) {
			t.Fatalf("v0 %+v\nv1 %+v", v0, v1)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestRealAgentWithoutNetworkCommand(t *testing.T) {
	c := realAgent(t, blocked("guest-network-get-interfaces")...)
	if _, err := c.Interfaces(within(t, patience), "vm"); !errors.Is(err, ErrRefused) {
		t.Errorf("Interfaces: %v", err)
	}
}

// A handle left open in the guest stays open forever, so none may remain.
func TestRealAgentHandles(t *testing.T) {
	c := realAgent(t)
	var first, last int64
	open := map[string]any{"path": procNetDev, "mode": "r"}
	if err := c.do(within(t, patience), "vm", "guest-file-open", open, &first); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := c.readFile(within(t, patience), "vm", procNetDev); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.do(within(t, patience), "vm", "guest-file-open", open, &last); err != nil {
		t.Fatal(err)
	}
	var nothing struct{}
	for h := first + 1; h < last; h++ { // handles count upwards
		if err := c.do(within(t, patience), "vm", "guest-file-close", map[string]any{"handle": h}, &nothing); err == nil {
			t.Errorf("handle %d was left open", h)
		}
	}
}

func BenchmarkRealAgentInterfaces(b *testing.B) {
	c := realAgent(b)
	for b.Loop() {
		if _, err := c.Interfaces(b.Context(), "vm"); err != nil {
			b.Fatal(err)
		}
	}
}
