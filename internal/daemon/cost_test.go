package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/internal/edge/answer"
	"sluice/internal/edge/client"
	"sluice/internal/host/libvirt/libvirttest"
)

// costScript runs the daemon, lets it settle, and prints its CPU time in clock ticks before and after a minute, and its memory in
// KiB: peak resident, resident, anonymous, and proportional (with its share of the pages that other processes have mapped too).
const costScript = `
%s --config %s >%s 2>&1 & pid=$!
sleep 15
awk '{print $14+$15}' /proc/$pid/stat; sleep 60; awk '{print $14+$15}' /proc/$pid/stat
awk '/VmRSS|VmHWM|RssAnon/{print $2}' /proc/$pid/status
awk '/^Pss:/{print $2}' /proc/$pid/smaps_rollup
kill $pid; wait $pid
`

// BenchmarkDaemonAtRest measures the whole daemon watching many real, paused domains once per second. SLUICE_BENCH_DOMAINS is
// their number (each takes about 40 MB), SLUICE_BENCH_BINARY the binary, SLUICE_BENCH_PAGES the number of pages that follow it
// meanwhile (up to 16).
func BenchmarkDaemonAtRest(b *testing.B) {
	n, _ := strconv.Atoi(os.Getenv("SLUICE_BENCH_DOMAINS"))
	binary := os.Getenv("SLUICE_BENCH_BINARY")
	if n == 0 || binary == "" {
		b.Skip("set SLUICE_BENCH_DOMAINS=100 and SLUICE_BENCH_BINARY=$PWD/bin/sluiced")
	}
	d := libvirttest.Start(b)
	for i := range n {
		d.Create(b, libvirttest.VM{
			Name: fmt.Sprintf("v%03d", i), Ports: 1,
			NICs: []string{libvirttest.NIC(fmt.Sprintf("52:54:00:00:01:%02x", i), "ua-net0", true)},
		})
	}
	dir := b.TempDir()
	config := filepath.Join(dir, "sluice.yaml")
	text := fmt.Sprintf("libvirt: {uri: %q}\nstate_dir: %s\napi: {socket: %s/sock, group: \"\"}\n", d.URI(), dir, dir)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	pages, _ := strconv.Atoi(os.Getenv("SLUICE_BENCH_PAGES"))
	for range pages {
		go followPage(b.Context(), client.New(filepath.Join(dir, "sock")))
	}
	for b.Loop() {
		f := strings.Fields(d.Run(b, "sh", "-c", fmt.Sprintf(costScript, binary, config, filepath.Join(dir, "log"))))
		if len(f) != 6 {
			log, _ := os.ReadFile(filepath.Join(dir, "log"))
			b.Fatalf("got %q\n%s", f, log)
		}
		num := func(i int) float64 { x, _ := strconv.ParseFloat(f[i], 64); return x }
		b.ReportMetric((num(1)-num(0))/60, "%cpu") // 100 ticks per second
		b.ReportMetric(num(2)/1024, "MB-peak")
		b.ReportMetric(num(3)/1024, "MB-resident")
		b.ReportMetric(num(4)/1024, "MB-anonymous")
		b.ReportMetric(num(5)/1024, "MB-proportional")
	}
}

// followPage makes the requests of the daemon's page: at every event for the VMs, and for new history of the last hour.
func followPage(ctx context.Context, c *client.Client) {
	var q answer.HistoryQuery
	for ctx.Err() == nil {
		_ = c.Events(ctx, func(uint64) error {
			_, _ = c.VMs(ctx)
			if h, err := c.History(ctx, q); err == nil {
				q.From = h.To
			}
			return nil
		})
		time.Sleep(time.Second) // the daemon is not running yet, or no longer
	}
}

// BenchmarkOpenVSwitch measures the whole daemon on a host without VMs while it follows a database of Open vSwitch with many ports, one of
// which comes and goes every second, in % of a core. SLUICE_BENCH_PORTS are the numbers of ports, SLUICE_BENCH_BINARY is the binary.
func BenchmarkOpenVSwitch(b *testing.B) {
	binary := os.Getenv("SLUICE_BENCH_BINARY")
	if os.Getenv("SLUICE_BENCH_PORTS") == "" || binary == "" {
		b.Skip("run it by `scripts/measure uplinks`")
	}
	d := libvirttest.Start(b)
	for n := range strings.SplitSeq(os.Getenv("SLUICE_BENCH_PORTS"), ",") {
		b.Run(n, func(b *testing.B) {
			dir := b.TempDir()
			config := filepath.Join(dir, "sluice.yaml")
			text := fmt.Sprintf("libvirt: {uri: %q}\nstate_dir: %s\napi: {socket: %s/sock, group: \"\"}\n", d.URI(), dir, dir)
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				script := fmt.Sprintf(portsScript, dir, n) + fmt.Sprintf(costScript, binary, config, filepath.Join(dir, "log")) + "kill $churn $db"
				f := strings.Fields(d.Run(b, "sh", "-c", script))
				if len(f) != 6 {
					log, _ := os.ReadFile(filepath.Join(dir, "log"))
					b.Fatalf("got %q\n%s", f, log)
				}
				begin, _ := strconv.ParseFloat(f[0], 64)
				end, _ := strconv.ParseFloat(f[1], 64)
				b.ReportMetric((end-begin)/60, "%cpu")
			}
		})
	}
}

// portsScript starts a database with that many ports of VMs, whose external ids are as OVN's, and changes it every second.
const portsScript = `
export OVS_RUNDIR=%[1]s
ovsdb-tool create $OVS_RUNDIR/conf.db /usr/share/openvswitch/vswitch.ovsschema
ovsdb-server $OVS_RUNDIR/conf.db --remote=punix:$OVS_RUNDIR/db.sock --unixctl=$OVS_RUNDIR/ctl --no-chdir >$OVS_RUNDIR/db.log 2>&1 & db=$!
vs() { ovs-vsctl --db=unix:$OVS_RUNDIR/db.sock --timeout=60 --no-wait "$@" >/dev/null 2>&1; }
until vs init; do sleep 0.1; done
args="-- add-br br0"
i=0
while [ $i -lt %[2]s ]; do
	args="$args -- add-port br0 tap$i -- set interface tap$i external_ids:iface-id=port-$i external_ids:attached-mac=52:54:00:00:00:01 external_ids:vm-id=vm-$i"
	i=$((i + 1))
done
vs $args
while sleep 1; do vs add-port br0 churn -- del-port br0 tap1 -- add-port br0 tap1 -- set interface tap1 external_ids:iface-id=port-1; vs del-port br0 churn; done &
churn=$!
`
