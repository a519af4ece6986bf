package proxy

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"sluice/internal/edge/fleet"
	"sluice/internal/edge/fleet/fleettest"
)

const (
	some  = "0b0c4fa4-6d2c-4b0e-9a35-5b9a2c2a1f01"
	other = "0b0c4fa4-6d2c-4b0e-9a35-5b9a2c2a1f02"
)

// What is sent on is what was understood, of every request.
func TestWriteIsUnderstood(t *testing.T) {
	l := &fleettest.Ledger{}
	hosts := fleettest.Victims(t, l)
	state := l.All()
	attack := fleettest.Attack(&state, hosts)
	seen := map[fleet.Kind]bool{}
	for seed := range 1000 {
		r := attack.Example(seed)
		method, path, body := write(&r)
		var data []byte
		if body != nil {
			data, _ = json.Marshal(body)
		}
		got, err := understand(method, path, strings.NewReader(string(data)))
		if err != nil {
			continue // no UUID, or a wrong one
		}
		seen[r.Kind] = true
		againMethod, againPath, againBody := write(got.write)
		again, _ := json.Marshal(againBody)
		if body == nil {
			again = nil
		}
		if got.write.Kind != r.Kind || againMethod != method || againPath != path || string(again) != string(data) {
			t.Fatalf("%s %s %s\nbecomes %s %s %s", method, path, data, againMethod, againPath, again)
		}
	}
	if len(seen) != 6 {
		t.Errorf("only %v were understood", seen)
	}
}

func TestUnderstandsQuestions(t *testing.T) {
	for uri, want := range map[string]string{
		"/": "/", "/resource_providers?in_tree=" + some: "/resource_providers?in_tree=" + some,
		"/resource_providers/" + some + "/inventories": "/resource_providers/" + some + "/inventories", "/allocations/" + some: "/allocations/" + some,
		"/allocation_candidates?limit=10&resources_NET=A%3A1&root_required=%21CUSTOM_X": "/allocation_candidates?limit=10&resources_NET=A%3A1&root_required=%21CUSTOM_X",
	} {
		got, err := understand(http.MethodGet, uri, strings.NewReader("not read"))
		if err != nil || got.path != want || got.write != nil {
			t.Errorf("%s: %+v, %v", uri, got, err)
		}
	}
}

// Whatever is not understood is refused.
func TestUnderstandsNothingElse(t *testing.T) {
	const (
		claim    = `{"allocations": {"` + other + `": {"resources": {"A": 1}}}, "project_id": "sluice", "user_id": "u", "consumer_type": "T", "consumer_generation": null}`
		provider = `{"name": "sluice:a", "uuid": "` + some + `"}`
	)
	for name, c := range map[string][3]string{
		"another method":                       {"PATCH", "/allocations/" + some, claim},
		"a question with HEAD":                 {"HEAD", "/", ""},
		"an unknown question":                  {"GET", "/reshaper", ""},
		"a path with two slashes":              {"GET", "//allocations/" + some, ""},
		"a path that goes up":                  {"GET", "/traits/../allocations/" + some, ""},
		"an encoded path":                      {"PUT", "/%61llocations/" + some, claim},
		"an encoded slash":                     {"PUT", "/allocations%2f" + some, claim},
		"an encoded dot":                       {"DELETE", "/resource_providers/" + other + "/%2e%2e/" + some, ""},
		"a slash at the end":                   {"PUT", "/allocations/" + some + "/", claim},
		"a whole URL":                          {"PUT", "http://placement/allocations/" + some, claim},
		"a parameter":                          {"PUT", "/allocations/" + some + "?x=1", claim},
		"a UUID in upper case":                 {"PUT", "/allocations/" + strings.ToUpper(some), claim},
		"a UUID without dashes":                {"PUT", "/allocations/" + strings.ReplaceAll(some, "-", ""), claim},
		"no UUID":                              {"PUT", "/allocations/x", claim},
		"a provider's UUID like that":          {"PUT", "/allocations/" + some, strings.Replace(claim, other, strings.ToUpper(other), 1)},
		"a new provider's UUID":                {"POST", "/resource_providers", strings.Replace(provider, some, strings.ToUpper(some), 1)},
		"a provider without UUID":              {"POST", "/resource_providers", `{"name": "sluice:a"}`},
		"a provider's new name":                {"PUT", "/resource_providers/" + some, provider},
		"an unknown key":                       {"POST", "/resource_providers", strings.Replace(provider, "{", `{"root_provider_uuid": "`+other+`", `, 1)},
		"two values":                           {"POST", "/resource_providers", provider + provider},
		"garbage":                              {"POST", "/resource_providers", "\x00"},
		"nothing":                              {"POST", "/resource_providers", ""},
		"too much":                             {"POST", "/resource_providers", provider + strings.Repeat(" ", mostBody)},
		"aggregates":                           {"PUT", "/resource_providers/" + some + "/aggregates", `{"aggregates": [], "resource_provider_generation": 1}`},
		"one inventory":                        {"PUT", "/resource_providers/" + some + "/inventories/VCPU", `{"total": 1, "resource_provider_generation": 1}`},
		"all inventories gone":                 {"DELETE", "/resource_providers/" + some + "/inventories", ""},
		"inventories of no generation":         {"PUT", "/resource_providers/" + some + "/inventories", `{"inventories": {}}`},
		"a class that is none":                 {"PUT", "/resource_providers/" + some + "/inventories", `{"inventories": {"a/b": {"total": 1}}, "resource_provider_generation": 1}`},
		"traits of no generation":              {"PUT", "/resource_providers/" + some + "/traits", `{"traits": []}`},
		"all traits gone":                      {"DELETE", "/resource_providers/" + some + "/traits", ""},
		"a deletion with a body":               {"DELETE", "/resource_providers/" + some, "{}"},
		"a deleted claim":                      {"DELETE", "/allocations/" + some, ""},
		"a claim of another project":           {"PUT", "/allocations/" + some, strings.Replace(claim, "sluice", "nova", 1)},
		"a claim of a negative amount":         {"PUT", "/allocations/" + some, strings.Replace(claim, "1}", "-1}", 1)},
		"a claim in a fraction":                {"PUT", "/allocations/" + some, strings.Replace(claim, "1}", "1.5}", 1)},
		"a claim with a negative count":        {"PUT", "/allocations/" + some, strings.Replace(claim, "null", "-1", 1)},
		"claims of a consumer that is no UUID": {"POST", "/allocations", `{"x": ` + claim + `}`},
		"a reshaper":                           {"POST", "/reshaper", `{"inventories": {}, "allocations": {}}`},
		"a resource class":                     {"PUT", "/resource_classes/CUSTOM_X", ""},
		"a trait that is not Sluice's":         {"PUT", "/traits/CUSTOM_X", ""},
		"a trait in lower case":                {"PUT", "/traits/CUSTOM_SLUICE_x", ""},
		"a trait gone":                         {"DELETE", "/traits/CUSTOM_SLUICE_PF", ""},
	} {
		if got, err := understand(c[0], c[1], strings.NewReader(c[2])); err == nil {
			t.Errorf("%s is understood as %+v", name, got)
		}
	}
	// The table is right: these differ from some of its lines in one thing.
	for _, c := range [][3]string{{"PUT", "/allocations/" + some, claim}, {"POST", "/resource_providers", provider}, {"PUT", "/traits/CUSTOM_SLUICE_X", ""}} {
		if _, err := understand(c[0], c[1], strings.NewReader(c[2])); err != nil {
			t.Errorf("%s %s: %v", c[0], c[1], err)
		}
	}
}

// Of two equal keys one is understood, and that alone is sent on.
func TestEqualKeys(t *testing.T) {
	got, err := understand("POST", "/resource_providers", strings.NewReader(`{"uuid": "`+other+`", "name": "x", "UUID": "`+some+`", "uuid": "`+some+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	_, _, body := write(got.write)
	data, _ := json.Marshal(body)
	if want := `{"name":"x","uuid":"` + some + `"}`; string(data) != want {
		t.Errorf("%s, want %s", data, want)
	}
}

func FuzzUnderstand(f *testing.F) {
	f.Add("PUT", "/allocations/"+some, `{"allocations": {}, "project_id": "sluice"}`)
	f.Add("POST", "/allocations", `{"`+some+`": {"allocations": {"`+other+`": {"resources": {"A": 1}}}, "project_id": "sluice"}}`)
	f.Add("PUT", "/resource_providers/"+some+"/inventories", `{"inventories": {"A": {"total": 1}}, "resource_provider_generation": 1}`)
	f.Fuzz(func(t *testing.T, method, uri, body string) {
		got, err := understand(method, uri, strings.NewReader(body))
		if err != nil || got.write == nil {
			return
		}
		method, path, out := write(got.write)
		var data []byte
		if out != nil {
			data, _ = json.Marshal(out)
		}
		again, err := understand(method, path, strings.NewReader(string(data)))
		if err != nil {
			t.Fatalf("%s %s %s is not understood again: %v", method, path, data, err)
		}
		if m, p, b := write(again.write); m != method || p != path || !reflect.DeepEqual(b, out) {
			t.Errorf("%s %s %+v becomes %s %s %+v", method, path, out, m, p, b)
		}
	})
}
