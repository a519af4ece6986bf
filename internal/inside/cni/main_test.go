package cni

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/google/go-cmp/cmp"

	"sluice/internal/host/kernel/kerneltest"
)

const (
	stateEnv   = "SLUICE_TEST_CNI_STATE"
	bootEnv    = "SLUICE_TEST_CNI_BOOT"
	pluginsEnv = "SLUICE_TEST_CNI_PLUGINS"
)

// TestMain builds the plugins while the machine's network is still available, and runs the tests in a network namespace of their own.
func TestMain(m *testing.M) {
	os.Exit(withPlugins(func() int { return kerneltest.Run(m) }))
}

// withPlugins builds the plugins once for the test binary and its copy in the namespaces.
func withPlugins(run func() int) int {
	if os.Getenv(pluginsEnv) != "" {
		return run()
	}
	dir, err := os.MkdirTemp("", "sluice-cni-plugins")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	for _, args := range [][]string{
		{"-C", "testdata/plugins", "-o", dir + "/", "tool"}, // the stock ones, from the Go module proxy
		{"-o", dir + "/sluice-cni", "./testplugin"},
	} {
		build := exec.Command("go", append([]string{"build"}, args...)...)
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go build %v: %v\n%s", args, err, out)
			return 1
		}
	}
	_ = os.Setenv(pluginsEnv, dir)
	return run()
}

const pfMAC = "52:54:00:ab:00:00"

// node is a guest that runs containers.
type node struct {
	*testing.T
	dir  string // state directory of the plugin
	bin  string // CNI_PATH
	boot string
	gone string // if not "", its VFs are gone
	host *fakeHost
}

const (
	vf0, vf1   = "0000:01:00.1", "0000:01:00.2"
	mac0, mac1 = "52:54:00:ab:00:01", "52:54:00:ab:00:02"
)

func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{T: t, dir: t.TempDir(), bin: t.TempDir(), boot: "boot 1"}
	n.host = serve(t, filepath.Join(n.dir, "socket"))
	for _, source := range []string{"testplugin/main.go", "testdata/plugins/go.mod"} { // for Go's test cache
		if _, err := os.Stat(source); err != nil {
			t.Fatal(err)
		}
	}
	plugins, err := filepath.Glob(os.Getenv(pluginsEnv) + "/*")
	if err != nil || len(plugins) == 0 {
		t.Fatal("no plugins", err)
	}
	for _, p := range plugins {
		n.link(p, filepath.Base(p))
	}
	for i, mac := range []string{mac0, mac1} {
		kerneltest.IP(t, fmt.Sprintf("link add vf%d address %s txqueuelen %d type veth peer name tap%d", i, mac, 9001+i, i))
		kerneltest.Quiet(t, fmt.Sprintf("vf%d", i))
		kerneltest.Quiet(t, fmt.Sprintf("tap%d", i))
		t.Cleanup(func() { _ = exec.Command("ip", "link", "del", fmt.Sprintf("tap%d", i)).Run() })
	}
	return n
}

func (n *node) link(from, name string) {
	n.Helper()
	to := filepath.Join(n.bin, name)
	os.Remove(to)
	if err := os.Symlink(from, to); err != nil {
		n.Fatal(err)
	}
}

// container creates a network namespace.
func (n *node) container(name string) (netns string) {
	n.Helper()
	name = fmt.Sprintf("sluice-%d-%s", os.Getpid(), name)
	kerneltest.IP(n.T, "netns add "+name)
	n.Cleanup(func() { _ = exec.Command("ip", "netns", "del", name).Run() })
	return "/run/netns/" + name
}

// in runs ip(8) in a container.
func (n *node) in(netns, line string) string {
	n.Helper()
	return kerneltest.IP(n.T, "-n "+filepath.Base(netns)+" "+line)
}

// call is a call of one command for interface net1 of a container.
type call struct {
	command, container, netns, conf, args string
}

func (n *node) command(c call) *exec.Cmd {
	cmd := exec.Command(filepath.Join(n.bin, "sluice-cni"))
	cmd.Env = append(os.Environ(), stateEnv+"="+n.dir, bootEnv+"="+n.boot, "SLUICE_TEST_CNI_NO_VFS="+n.gone, "CNI_COMMAND="+c.command,
		"CNI_CONTAINERID="+c.container,
		"CNI_NETNS="+c.netns, "CNI_IFNAME=net1", "CNI_PATH="+n.bin, "CNI_ARGS="+c.args)
	cmd.Stdin = strings.NewReader(c.conf)
	cmd.Stderr = os.Stderr
	return cmd
}

// do runs the plugin; the error is nil on success.
func (n *node) do(c call) ([]byte, *types.Error) {
	n.Helper()
	out, err := n.command(c).Output()
	if err == nil {
		return out, nil
	}
	var e types.Error
	if json.Unmarshal(out, &e) != nil {
		n.Fatalf("%s: %v: no error object: %s", c.command, err, out)
	}
	return nil, &e
}

// must runs the plugin, which must succeed.
func (n *node) must(c call) []byte {
	n.Helper()
	out, err := n.do(c)
	if err != nil {
		n.Fatalf("%s %s: %+v", c.command, c.container, err)
	}
	return out
}

func (n *node) add(container, netns, conf string) *current.Result {
	n.Helper()
	return decode(n.T, n.must(call{"ADD", container, netns, conf, ""}))
}

// fails runs the plugin, which must fail with this code and a message that contains this text.
func (n *node) fails(c call, code uint, text string) {
	n.Helper()
	_, err := n.do(c)
	if err == nil || err.Code != code || !strings.Contains(err.Error(), text) {
		n.Errorf("%s: %+v, want code %d and %q", c.command, err, code, text)
	}
}

// clean checks that nothing is left of any container: interfaces, attachments, records, addresses.
func (n *node) clean() {
	n.Helper()
	for name, mac := range map[string]string{"vf0": mac0, "vf1": mac1} {
		have, err := os.ReadFile("/sys/class/net/" + name + "/address")
		if err != nil || strings.TrimSpace(string(have)) != mac {
			n.Errorf("interface %s is not back as it was: %q, %v", name, have, err)
		}
		if alias, _ := os.ReadFile("/sys/class/net/" + name + "/ifalias"); len(bytes.TrimSpace(alias)) > 0 {
			n.Errorf("interface %s has the alias %s", name, alias)
		}
	}
	if held := n.host.attached(); len(held) > 0 {
		n.Errorf("the host still has attached: %v", held)
	}
	if left, _ := filepath.Glob(n.dir + "/state/*.json"); len(left) > 0 {
		n.Errorf("records are left: %v", left)
	}
	if left, _ := filepath.Glob(n.dir + "/ipam/*/10.*"); len(left) > 0 {
		n.Errorf("addresses are left: %v", left)
	}
}

// conf returns a network configuration with IPAM and more keys.
func (n *node) conf(more string) string {
	return fmt.Sprintf(`{"cniVersion":"1.1.0","name":"net-a","type":"sluice-cni",%s
		"ipam":{"type":"host-local","dataDir":%q,"ranges":[[{"subnet":"10.9.0.0/24"}]]},"somebody":{"elses":"key"}}`, more, n.dir+"/ipam")
}

const device0, device1 = `"deviceID":"` + vf0 + `",`, `"deviceID":"` + vf1 + `",`

// self names the node's own network namespace to ip(8).
var self = strconv.Itoa(os.Getpid())

// del deletes a container's network namespace.
func (n *node) del(netns string) {
	n.Helper()
	kerneltest.IP(n.T, "netns del "+filepath.Base(netns))
}

func decode(t *testing.T, out []byte) *current.Result {
	t.Helper()
	var r current.Result
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatal(err)
	}
	return &r
}

// withResult adds the result of the previous plugin to a configuration.
func withResult(conf string, result []byte) string {
	return strings.TrimSuffix(strings.TrimSpace(conf), "}") + `,"prevResult":` + string(result) + "}"
}

func same(t *testing.T, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
