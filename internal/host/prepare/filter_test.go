package prepare

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/internal/host/libvirt/domxml"
)

// callers returns domains in the words of those who write them: each quotes, indents and numbers in its own way.
func callers(t testing.TB) map[string]string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.xml")
	if err != nil || len(files) == 0 {
		t.Fatal("no domains in testdata", err)
	}
	out := map[string]string{}
	for _, f := range files {
		data, err := os.ReadFile(f) //nolint:gosec // of a test
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimSuffix(filepath.Base(f), ".xml")] = string(data)
	}
	return out
}

// What each caller writes is prepared by insertions only, is prepared once, and comes back byte for byte.
func TestFilterCallers(t *testing.T) {
	for name, doc := range callers(t) {
		t.Run(name, func(t *testing.T) {
			out, err := Filter(doc, false, Options{})
			if err != nil {
				t.Fatal(err)
			}
			d, err := domxml.Parse(out)
			if err != nil {
				t.Fatal(err)
			}
			nic := d.Devices.SelectElement("interface")
			if teaming(nic) != "persistent" || !strings.HasPrefix(domxml.AliasOf(nic), "ua-") {
				t.Errorf("its NIC has teaming %q and alias %q:\n%s", teaming(nic), domxml.AliasOf(nic), out)
			}
			e, err := edit(out, Options{Unplaced: true})
			if err != nil {
				t.Fatal(err)
			}
			if need, free := 1+e.unplaced(), e.freePorts(); free < need {
				t.Errorf("%d free ports, want %d:\n%s", free, need, out)
			}
			rest := out
			for part := range strings.SplitAfterSeq(doc, ">") {
				_, after, ok := strings.Cut(rest, part)
				if !ok {
					t.Errorf("%q is not there any more, or elsewhere", part)
					break
				}
				rest = after
			}
			if again, err := Filter(out, false, Options{}); err != nil || again != out {
				t.Errorf("again: %v\n%s", err, again)
			}
			if back, err := Filter(out, true, Options{}); err != nil || back != doc {
				t.Errorf("undone: %v\n%s", err, back)
			}
		})
	}
}

// What cannot be given back, or cannot be read, is left alone.
func TestFilterLeavesAlone(t *testing.T) {
	doc := domain(card(0, "virtio", ""))
	for name, in := range map[string]string{
		"nothing": "", "no XML": "kvm", "cut off": doc[:len(doc)/2], "no domain": "<network/>",
		"no PCI Express": strings.NewReplacer("pcie-root", "pci-root", "q35", "i440fx").Replace(doc),
		"not given back": strings.Replace(doc, "<features>\n    <acpi/>\n  </features>", "<features></features>", 1),
	} {
		if out, err := Filter(in, false, Options{}); err == nil || out != in {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	if out, err := Filter("<x", true, Options{}); err == nil || out != "<x" {
		t.Errorf("undo: %v, %q", err, out)
	}
}

// mutated returns one of the domains with some of its parts removed, repeated or replaced.
func mutated(t *rapid.T, all []string) string {
	doc := rapid.SampledFrom(all).Draw(t, "domain")
	for range rapid.IntRange(1, 4).Draw(t, "mutations") {
		cuts := []int{0}
		for i := range len(doc) {
			if strings.IndexByte("<>'\"= /", doc[i]) >= 0 {
				cuts = append(cuts, i, i+1)
			}
		}
		from := rapid.SampledFrom(cuts).Draw(t, "from")
		to := min(len(doc), from+rapid.SampledFrom([]int{0, 1, 5, 40, 200}).Draw(t, "length"))
		part := rapid.SampledFrom([]string{
			"", doc[from:to] + doc[from:to], "<", "/>", "'", "<!-- ' -->", "&amp;", "&", "\r\n", "\t", "\x00", "\xff", "0x", "<metadata/>", "<features></features>",
			"<features />", "<![CDATA[<]]>", "<teaming type='persistent'/>", "<?p i?>", "<alias name='ua-net0'/>",
			"<s:prepared xmlns:s='urn:sluice:prepared:1' acpi='added' metadata='added'><s:nic mac='52:54:00:00:00:01' teaming='added'/></s:prepared>",
		}).Draw(t, "part")
		doc = doc[:from] + part + doc[to:]
	}
	return doc
}

// Of any XML, however broken: it comes out as it was, or as XML that is undone to what undoing the input gives; and undoing never fails on
// what was prepared.
func FuzzFilter(f *testing.F) {
	for _, doc := range callers(f) {
		f.Add(doc)
	}
	f.Fuzz(func(t *testing.T, doc string) { checkFilter(t, doc) })
}

func TestFilterProperty(t *testing.T) {
	var all []string
	for _, doc := range callers(t) {
		all = append(all, doc)
		if out, err := Filter(doc, false, Options{Agent: true}); err == nil {
			all = append(all, out)
		}
	}
	rounds, done := 100, 0 // of each of rapid's draws, of which there are 100 by default
	if testing.Short() {
		rounds = 40 // few of so broken documents can be prepared
	}
	rapid.Check(t, func(t *rapid.T) {
		for range rounds {
			if checkFilter(t, mutated(t, all)) {
				done++
			}
		}
	})
	if done == 0 {
		t.Error("nothing was prepared")
	}
}

func checkFilter(t interface{ Fatalf(string, ...any) }, doc string) (changed bool) {
	out, err := Filter(doc, false, Options{Agent: len(doc)%2 == 0})
	if err != nil && out != doc {
		t.Fatalf("it failed with %v and changed\n%s\ninto\n%s", err, doc, out)
	}
	before, err := Filter(doc, true, Options{})
	if err != nil && before != doc {
		t.Fatalf("undo failed with %v and changed\n%s\ninto\n%s", err, doc, before)
	}
	if out == doc {
		return false
	}
	if _, err := domxml.Parse(out); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	if back, err := Filter(out, true, Options{}); err != nil || back != before {
		t.Fatalf("%v: undone it is\n%s\nwhere the input undone is\n%s", err, back, before)
	}
	return true
}

func BenchmarkFilter(b *testing.B) {
	for name, doc := range callers(b) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Filter(doc, false, Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
