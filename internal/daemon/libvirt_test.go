package daemon

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/host/libvirt/libvirttest"
)

// daysWork runs a daemon on a real libvirt, sends it queries and commands, and stops it. %[1]s is the directory of sluice and
// sluiced, %[2]s that of the config.
const daysWork = `
set -eu
export PATH=%[1]s:$PATH
cd %[2]s
TEST_RUN_DIR=$PWD/run sluiced --config sluice.yaml --mode enforce 2>log & pid=$!
trap 'kill -9 $pid 2>/dev/null || true' EXIT
for i in $(seq 200); do sluice --socket s vms >vms 2>/dev/null && break; sleep 0.1; done
cat vms
sluice --socket s pin v1 --for 1h --reason 'because' || test $? = 5 # it is paused
sluice --socket s overrides
for i in $(seq 200); do sluice --socket s explain v1 | grep -q 'override.*pin by root.*because' && break; sleep 0.1; done
sluice --socket s explain v1
sluice --socket s unpin v1
sluice --socket s drain --wait 30s
sluice --socket s fsck --repair
sluice --socket s reload
kill $pid
wait $pid && echo "ended well"
`

// onLibvirt writes a sluice.yaml for a libvirt, which ends with more. It returns the folder of sluiced and that of sluice.yaml.
func onLibvirt(t *testing.T, d *libvirttest.Daemon, more string) (bin, dir string) {
	t.Helper()
	program, err := exec.LookPath("sluiced")
	if err != nil {
		t.Fatal(err)
	}
	dir, err = os.MkdirTemp("", "sld") // short: the length of a socket's path is limited
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	text := fmt.Sprintf("libvirt: {uri: %q}\nstate_dir: %s/state\napi: {socket: %s/s, group: \"\"}\nsample: 500ms\n", d.URI(), dir, dir) + more
	if err := os.WriteFile(filepath.Join(dir, "sluice.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(program), dir
}

// TestDaemonOnALibvirt runs the whole daemon as a process on a real libvirt: it sees the VM, executes commands, and ends without
// an error in its log.
func TestDaemonOnALibvirt(t *testing.T) {
	d := libvirttest.Start(t)
	d.Create(t, libvirttest.VM{Name: "v1", Ports: 1, NICs: []string{libvirttest.NIC("52:54:00:00:01:01", "ua-net0", true)}})
	bin, dir := onLibvirt(t, d, "")
	out := d.Run(t, "bash", "-c", fmt.Sprintf(daysWork, bin, dir))
	for _, want := range []string{
		"v1  ", "v1 is pinned until 20", "but it cannot get a VF: it must not be moved (the domain is paused", "because",
		"override      pin by root since", "the policy decides about v1 again",
		"no VM holds a VF from Sluice", "nothing to repair", "configuration reloaded", "ended well",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing", want)
		}
	}
	log, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil || strings.Contains(string(log), "level=ERROR") {
		t.Errorf("%v: there are errors in the log", err)
	}
	if t.Failed() {
		t.Logf("%s\n%s", out, log)
	}
}
