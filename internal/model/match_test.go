package model

import "testing"

const (
	uuidA = "11111111-2222-4333-8444-555555555555"
	uuidB = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"
)

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern  string
		id, name string
		want     bool
	}{
		{"web-*", uuidA, "web-1", true},
		{"web-[", uuidA, "web-[", true},
		{"web-[", uuidA, "web-1", false},
		{uuidA, uuidA, "web-1", true},
		{"AAAAAAAA-BBBB-4CCC-8DDD-EEEEEEEEEEEE", uuidB, "x", true},
		{uuidA, uuidB, uuidA, false}, // a VM whose name is another's UUID
		{"*", uuidB, uuidA, true},
		{uuidA[:35] + "?", uuidA, "web-1", false}, // not a UUID, so a pattern on names
	} {
		if got := Matches(c.pattern, VMID(c.id), c.name); got != c.want {
			t.Errorf("%q on %s %q: %v", c.pattern, c.id, c.name, got)
		}
	}
}

func TestNamesIsNoPattern(t *testing.T) {
	vm := VM{ID: uuidA, Name: "web-*"}
	for ref, want := range map[string]bool{"web-*": true, "web-1": false, uuidA: true, "*": false} {
		if vm.Names(ref) != want {
			t.Errorf("%q: %v", ref, !want)
		}
	}
	if (&VM{ID: uuidB, Name: uuidA}).Names(uuidA) {
		t.Error("a VM that is called like another's UUID is taken for it")
	}
}

func TestRulesForAVM(t *testing.T) {
	r := Rules{
		VMs: []VMRule{
			{Match: "db-1", ByHand: true, Pin: true},
			{Match: "db-*", Forbid: true, Class: "gold", Failover: FailoverBond},
			{Match: "*", Weight: 2, Class: "lead"},
		},
		Classes: []Class{{Name: "gold", Weight: 4, Priority: 3}},
	}
	for name, want := range map[string]VMRule{
		"db-1": {Pin: true, ByHand: true, Weight: 2, Priority: 3, Class: "gold", Failover: FailoverBond},
		"db-2": {Forbid: true, Weight: 2, Priority: 3, Class: "gold", Failover: FailoverBond},
		"web":  {Weight: 2, Class: "lead"},
	} {
		if got := r.For(uuidA, name); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	var none Rules
	if got := none.For(uuidA, "x"); got != (VMRule{Weight: 1}) {
		t.Errorf("without rules: %+v", got)
	}
}
