package openstack_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"sluice/api/v1"
	"sluice/internal/edge/fleet"
	"sluice/internal/edge/fleet/fleettest"
	"sluice/internal/edge/fleet/placementtest"
)

// virsh stands for libvirt of the hosts: it keeps definitions in a directory for each.
const virsh = `#!/bin/sh
set -eu
[ "$1" = -c ] && at=$HOSTS/${2#test://} && mkdir -p "$at"
case $3 in
define) cp "$4" "$at/$(sed -n 's|.*<name>\(.*\)</name>.*|\1|p' "$4")" ;;
start) touch "$at/$4.runs" "$at/$4" ;;
destroy) rm "$at/$4.runs" ;;
undefine) rm "$at/$4" ;;
list) ls "$at" ;;
*) exit 1 ;;
esac
`

// The examples of Terraform and Ansible make a VM where its claim is, change nothing the second time, and leave nothing.
func TestExamples(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server: make long runs it")
	}
	for name, c := range map[string]struct{ program, first, again, remove, unchanged string }{
		"Terraform": {
			"terraform", "terraform init -input=false && terraform apply -auto-approve -input=false -var uri=test://HOST",
			"terraform apply -auto-approve -input=false -var uri=test://HOST", "terraform destroy -auto-approve -input=false -var uri=test://HOST",
			"0 added, 0 changed, 0 destroyed",
		},
		"Ansible": {
			"ansible-playbook", "ansible-playbook vm.yml -e uri=test://HOST", "ansible-playbook vm.yml -e uri=test://HOST",
			"ansible-playbook vm.yml -e uri=test://HOST -e state=absent", "changed=0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(c.program); err != nil {
				if name == "Ansible" {
					t.Fatalf("%v: apt-get install ansible-core", err)
				}
				t.Skipf("%v: no package of Debian has it", err)
			}
			server := placementtest.Start(t)
			address := server.URL
			l := connect(t, address)
			for _, host := range []string{"a", "b"} {
				capacity := fleettest.Capacity()
				capacity.PFs = capacity.PFs[:1]
				capacity.PFs[0].Network = "br0"
				if host == "a" { // has less room
					capacity.Guarantees = []api.Guarantee{fleettest.Guarantee(1, 5e9, 0)}
				}
				if _, _, err := fleet.Publish(t.Context(), l, fleettest.Host(host), capacity); err != nil {
					t.Fatal(err)
				}
			}
			dir := t.TempDir()
			hosts, bin, work := filepath.Join(dir, "hosts"), filepath.Join(dir, "bin"), filepath.Join(dir, "work")
			if err := os.CopyFS(work, os.DirFS("../../../../docs/examples/fleet")); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(bin, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(bin, "virsh"), []byte(virsh), 0o700); err != nil { //nolint:gosec // a program
				t.Fatal(err)
			}
			sluice := filepath.Dir(program(t))
			sh := func(line string) string {
				t.Helper()
				cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
				cmd.Dir = work
				cmd.Env = append(os.Environ(), "HOSTS="+hosts, "OS_PLACEMENT_ENDPOINT_OVERRIDE="+address, "LC_ALL=C.UTF-8", "HOME="+dir,
					"PATH="+bin+":"+sluice+":"+os.Getenv("PATH"))
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%s: %v\n%s", line, err, out)
				}
				return string(out)
			}
			const vm, mac = "0b0c4fa4-6d2c-4b0e-9a35-5b9a2c2a1f01", "52:54:00:00:00:01"
			claimed := func() bool {
				id, err := fleet.Consumer(vm, mac)
				if err != nil {
					t.Fatal(err)
				}
				c, ok, err := l.Claim(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				return ok && c.Amounts[fleettest.Host("b").PF(fleettest.PF0)][fleet.ClassBits] == 2e6
			}
			sh(c.first)
			if _, err := os.Stat(filepath.Join(hosts, "b", "db-1.runs")); err != nil || !claimed() {
				t.Errorf("the VM is not at its claim: %v, claimed %v", err, claimed())
			}
			if out := sh(c.again); !strings.Contains(out, c.unchanged) {
				t.Errorf("the second time:\n%s", out)
			}
			sh(c.remove)
			// What is gone is not claimed again to be removed.
			put := atomic.Int64{}
			server.Before(func(request string) {
				if strings.HasPrefix(request, "PUT /allocations/") {
					put.Add(1)
				}
			})
			if sh(c.remove); put.Load() > 0 {
				t.Errorf("to remove it again, %d claims were written", put.Load())
			}
			if left, _ := filepath.Glob(filepath.Join(hosts, "*", "*")); len(left) > 0 || claimed() {
				t.Errorf("left: %v, claimed %v", left, claimed())
			}
		})
	}
}
