package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/host/libvirt/libvirttest"
)

// slas sets SLAs in every way while the daemon runs, and kills it in between. %[1]s is the directory of sluice and sluiced, %[2]s
// that of the config, %[3]s libvirt's URI.
const slas = `
set -eu
export PATH=%[1]s:$PATH
cd %[2]s
start() { TEST_RUN_DIR=$PWD/run sluiced --config sluice.yaml 2>>log & pid=$!; }
start
trap 'kill -9 $pid 2>/dev/null || true' EXIT
shows() { for i in $(seq 200); do sluice --socket s sla show v1 >out 2>&1 && grep -q "$1" out && cat out && return; sleep 0.1; done; cat out; exit 1; }
metadata() { virsh -q -c '%[3]s' metadata v1 --uri urn:sluice:sla:1 --live "$@"; }
echo "== a rule"; shows 'v1  ua-net0  1Gbit .*sluice.yaml:5:7'
echo "== metadata"; metadata --key sluice --set '<sla limit="3Gbit" class="gold"/>'
shows 'v1  ua-net0  1Gbit      3Gbit  5Gbit .*gold   metadata; sluice.yaml:5:7; class gold, sluice.yaml:6:11'
echo "== malformed metadata"; metadata --key sluice --set '<sla limit="3"/>'
shows 'v1  ua-net0  1Gbit      -  .*sluice.yaml:5:7'
for i in $(seq 200); do sluice --socket s doctor >doctor || true; grep -q 'the SLA in its metadata cannot be read' doctor && break; sleep 0.1; done
cat doctor
metadata --remove
echo "== set at run time"; sluice --socket s sla set v1 --guarantee 2Gbit --for 1h --reason 'nightly copy'
shows 'v1  ua-net0  2Gbit .*sluice sla set by root'
sluice --socket s sla set v1 --class gld || true
sluice --socket s sla set v1 --limit 500Mbit || true
sluice --socket s overrides
echo "== killed and started"; kill -9 $pid; wait $pid || true; start
shows 'v1  ua-net0  2Gbit .*sluice sla set by root'
echo "== cleared"; sluice --socket s sla clear v1
shows 'v1  ua-net0  1Gbit .*sluice.yaml:5:7'
kill $pid
wait $pid && echo "ended well"
`

// SLAs come from rules, from the metadata of a real domain, and from run-time requests, without a reload of the daemon. Errors
// are reported while everything else keeps working.
func TestSLAsOnALibvirt(t *testing.T) {
	d := libvirttest.Start(t)
	d.Create(t, libvirttest.VM{Name: "v1", Ports: 1, NICs: []string{libvirttest.NIC("52:54:00:00:01:01", "ua-net0", true)}})
	d.Virsh(t, "resume", "v1")
	bin, dir := onLibvirt(t, d, "vms: [{match: v1, guarantee: 1Gbit}]\nclasses: [{name: gold, receive: 5Gbit}]\n")
	out := d.Run(t, "bash", "-c", fmt.Sprintf(slas, bin, dir, d.URI()))
	for _, want := range []string{
		"v1: guarantee 2Gbit, until 20",
		`the SLA in its metadata cannot be read and is ignored: limit: "3" has no unit; write 3Mbit, 3Gbit or 3kpps`,
		"virsh metadata v1 --uri urn:sluice:sla:1 --remove",
		`sluice: NIC ua-net0 of v1: there is no class "gld", which its SLA names`,
		"sluice: NIC ua-net0 of v1: its guarantee of 1Gbit is above its limit of 500Mbit, and the limit applies",
		"sla (guarantee 2Gbit)", "nightly copy", "v1: its SLA again comes from metadata, rules and class", "ended well",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if t.Failed() {
		log, _ := os.ReadFile(filepath.Join(dir, "log"))
		t.Logf("%s\n%s", out, log)
	}
}
