package cni

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// The manual documents every key of the network configuration.
func TestManualHasEveryKey(t *testing.T) {
	page, err := os.ReadFile("../../../packaging/man/sluice-cni.8")
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []reflect.Type{reflect.TypeFor[Conf](), reflect.TypeFor[SLA]()} {
		for i := range of.NumField() {
			if key, ok := of.Field(i).Tag.Lookup("json"); ok && !strings.Contains(string(page), `\fB`+key+`\fR`) {
				t.Errorf("sluice-cni(8) lacks %s", key)
			}
		}
	}
}
