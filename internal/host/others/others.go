// Package others finds programs of the host that change what Sluice changes too: NetworkManager, ifupdown and Neutron's agents. It reads
// their files and changes nothing.
package others

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"sluice/internal/base/input"
	"sluice/internal/model"
)

const mostBytes = 1 << 20 // of a file; none that people write is larger

// Interface is one of the host that belongs to a VF of Sluice's pool: the VF's own, or its representor.
type Interface struct {
	Name        string
	Index       int // 0: it is not there now
	VF          model.VFID
	Representor bool
	Bridge      string // the Linux bridge that it is a port of; "": none
}

func (i *Interface) String() string {
	if i.Representor {
		return "representor " + i.Name + " of VF " + i.VF.String()
	}
	return i.Name + ", the interface of VF " + i.VF.String()
}

// Find looks for others' files below root, usually "/". What cannot be read is not reported.
func Find(root string, list []Interface) (out []model.Problem) {
	byName := map[string]*Interface{}
	for i := range list {
		byName[list[i].Name] = &list[i]
		out = append(out, networkManager(root, &list[i])...)
	}
	out = append(out, ifupdown(root, list, byName)...)
	if len(list) > 0 {
		out = append(out, neutron(root)...)
	}
	return out
}

// networkManager reports an interface that NetworkManager manages. Its state of each device is a file named by the interface's index.
func networkManager(root string, i *Interface) []model.Problem {
	if i.Index == 0 || value(root, "run/NetworkManager/devices/"+strconv.Itoa(i.Index), "device", "managed") != "true" {
		return nil
	}
	return []model.Problem{note(i.VF.PF, "NetworkManager manages "+i.String()+": it may set it down or configure it",
		fmt.Sprintf("nmcli device set %s managed no; to keep it so: unmanaged-devices=interface-name:%[1]s under [keyfile] in a file in "+
			"/etc/NetworkManager/conf.d", i.Name))}
}

// included returns the files that a pattern in a file names.
func included(root, file, pattern string) (files []string) {
	if !filepath.IsAbs(pattern) {
		pattern = filepath.Join(filepath.Dir(file), pattern)
	}
	found, _ := filepath.Glob(filepath.Join(root, pattern))
	for _, f := range found {
		if rel, err := filepath.Rel(root, f); err == nil {
			files = append(files, "/"+rel)
		}
	}
	return files
}

// agents are where Neutron's agents have their configuration, from packages and in Kolla's containers.
var agents = []string{"etc/neutron/*.ini", "etc/neutron/plugins/*/*.ini", "etc/kolla/neutron-*/*.ini"}

// neutron reports extensions of Neutron's agents that write what Sluice writes.
func neutron(root string) (out []model.Problem) {
	for _, pattern := range agents {
		for _, file := range included(root, "/", pattern) {
			for name := range strings.SplitSeq(value(root, file, "agent", "extensions"), ",") {
				switch strings.TrimSpace(name) {
				case "fdb":
					out = append(out, note("", file+" loads Neutron's extension fdb, which adds filters to PFs for VMs, as Sluice does: a VM on its VF "+
						"then gets frames twice until Sluice has removed the filter",
						"take fdb out of extensions there: Sluice adds the filters that VMs need"))
				case "qos_hwol":
					out = append(out, note("", file+" loads Neutron's extension qos_hwol, which sets the rates of VFs, as Sluice does",
						"take qos_hwol out of extensions there, and load sluice, which makes the policies of ports SLAs"))
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b model.Problem) int { return cmp.Compare(a.Text, b.Text) })
	return out
}

func note(subject, text, remedy string) model.Problem {
	return model.Problem{Subject: subject, Text: input.Printable(text), Remedy: input.Printable(remedy), Info: true}
}

// lines returns the lines of a file without comments, with continued lines joined.
func lines(root, file string) []string {
	data, err := input.Read(filepath.Join(root, file), mostBytes)
	if err != nil {
		return nil
	}
	list := strings.Split(strings.ReplaceAll(string(data), "\\\n", " "), "\n")
	for i, line := range list {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			line = ""
		}
		list[i] = line
	}
	return list
}

// value returns the last value of a key in a section of an ini file, "" for none.
func value(root, file, section, key string) (last string) {
	now := ""
	for _, line := range lines(root, file) {
		if name, ok := strings.CutPrefix(line, "["); ok {
			now = strings.TrimSuffix(name, "]")
			continue
		}
		if k, v, ok := strings.Cut(line, "="); ok && strings.EqualFold(now, section) && strings.TrimSpace(k) == key {
			last = strings.TrimSpace(v)
		}
	}
	return last
}
