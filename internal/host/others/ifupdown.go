package others

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// stanza is what /etc/network/interfaces, or a file that it includes, says of a bridge.
type stanza struct {
	file  string
	ports []string // that it lists; nil: it lists none, so that it is no bridge
	keeps string   // a regular expression for ports that ifupdown2 leaves in it
}

// ifupdown reports interfaces that /etc/network/interfaces, or a file that it includes, configures, and bridges out of which ifupdown2
// takes representors.
func ifupdown(root string, list []Interface, byName map[string]*Interface) (out []model.Problem) {
	bridges := map[string]*stanza{}
	eachLine(root, func(file, iface string, word []string) {
		for _, i := range configured(root, word, byName) {
			delete(byName, i.Name) // once is enough
			out = append(out, note(i.VF.PF, file+" configures "+i.String()+": ifup may set it up, so that it counts as the host's",
				"take it out of "+file+", or leave the VF out of vfs: in sluice.yaml"))
		}
		switch {
		case iface == "":
			return
		case bridges[iface] == nil:
			bridges[iface] = &stanza{}
		}
		switch b := bridges[iface]; word[0] {
		case "bridge-ports", "bridge_ports":
			b.file, b.ports = file, append(b.ports, word[1:]...)
		case "bridge-ports-condone-regex":
			b.keeps = word[1]
		}
	})
	if _, err := os.Stat(filepath.Join(root, "usr/share/ifupdown2")); err != nil {
		return out
	}
	removed := map[string][]*Interface{} // by bridge
	for k := range list {
		i := &list[k]
		if b := bridges[i.Bridge]; b != nil && i.Representor && b.removes(i.Name) {
			removed[i.Bridge] = append(removed[i.Bridge], i)
		}
	}
	for _, bridge := range slices.Sorted(maps.Keys(removed)) {
		var names, patterns []string
		for _, i := range removed[bridge] {
			names, patterns = append(names, i.String()), append(patterns, regexp.QuoteMeta(i.Name)+"$")
		}
		file := bridges[bridge].file
		out = append(out, note(
			removed[bridge][0].VF.PF,
			file+" does not list "+strings.Join(names, ", ")+" among the ports of "+bridge+": at each ifreload, ifupdown2 takes such ports out of "+
				"it, and a VM on the VF is cut off until Sluice sees it",
			"add to iface "+bridge+" in "+file+" what ifupdown2 is to leave there, the VMs' taps too: bridge-ports-condone-regex ^("+
				strings.Join(patterns, "|")+"|vnet)",
		))
	}
	return out
}

// removes reports whether ifupdown2 takes a port out of the bridge. Of patterns among its ports that is not known.
func (b *stanza) removes(port string) bool {
	if b.ports == nil || slices.Contains(b.ports, port) || slices.Contains(b.ports, "glob") || slices.Contains(b.ports, "regex") {
		return false
	}
	if b.keeps == "" {
		return true
	}
	keeps, err := regexp.Compile("^(?:" + b.keeps + ")")
	return err == nil && !keeps.MatchString(port)
}

// eachLine calls do for the lines of /etc/network/interfaces and the files that it includes, with the words of each and the interface whose
// stanza it is in, "" for none.
func eachLine(root string, do func(file, iface string, word []string)) {
	files := []string{"/etc/network/interfaces"}
	seen := map[string]bool{}
	for k := 0; k < len(files) && k < 1000; k++ {
		file, iface := files[k], ""
		if seen[file] {
			continue
		}
		seen[file] = true
		for _, line := range lines(root, file) {
			word := strings.Fields(line)
			if len(word) < 2 {
				continue
			}
			switch key := word[0]; {
			case key == "source":
				files = append(files, included(root, file, word[1])...)
			case key == "source-directory":
				files = append(files, slices.DeleteFunc(included(root, file, word[1]+"/*"), func(f string) bool { return !plainName(f) })...)
			case key == "iface":
				iface = word[1]
			case selects(key), key == "mapping":
				iface = ""
			}
			do(file, iface, word)
		}
	}
}

// selects reports whether a line names interfaces that ifup sets up by itself.
func selects(key string) bool { return key == "auto" || strings.HasPrefix(key, "allow-") }

// configured returns the interfaces that a line of ifupdown configures.
func configured(root string, word []string, byName map[string]*Interface) (all []*Interface) {
	switch {
	case word[0] == "iface":
		word = word[:2]
	case !selects(word[0]):
		return nil
	}
	for _, name := range word[1:] {
		name, as, _ := strings.Cut(name, "=")
		variable, value, pattern := strings.Cut(name, "/")
		for _, i := range byName {
			// What a pattern matches and no stanza is named for, ifup does not know.
			if !pattern && i.Name == name || pattern && as != "" && matches(root, i.Name, variable, value) {
				all = append(all, i)
			}
		}
	}
	slices.SortFunc(all, func(a, b *Interface) int { return strings.Compare(a.Name, b.Name) })
	return slices.Compact(all)
}

// matches reports whether a pattern of ifupdown, [VARIABLE]/VALUE[/OPTIONS], is one for the interface: for its name, its MAC or an
// attribute in sysfs.
func matches(root, name, variable, value string) bool {
	value, _, _ = strings.Cut(value, "/")
	is := name
	switch variable {
	case "":
	case "mac":
		is, value = attribute(root, name, "address"), strings.ToLower(value)
	default:
		is = attribute(root, name, path.Base(variable))
	}
	ok, err := path.Match(value, is)
	return err == nil && ok && is != ""
}

func attribute(root, name, key string) string {
	text, _ := sysif.NewTree(filepath.Join(root, "sys"), "").Text("class/net/" + name + "/" + key)
	return text
}

// plainName reports whether ifupdown reads a file of a source-directory: interfaces(5) leaves out backups and what packages replaced.
func plainName(file string) bool {
	return !strings.ContainsFunc(filepath.Base(file), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	})
}
