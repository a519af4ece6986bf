package guest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"sluice/internal/model"
)

// says is a Transport that gives the same answer to every command.
type says string

func (s says) Agent(context.Context, model.VMID, []byte) ([]byte, error) { return []byte(s), nil }

func nics(stats string) string {
	return `{"return":[{"name":"eth0","hardware-address":"52:54:00:00:00:01","statistics":{` + stats + `}}]}` + "\n"
}

// Each of these answers is detected: it gives an error of the guest, without a panic.
func TestLiars(t *testing.T) {
	long := strings.Repeat("x", maxName+1)
	for name, answer := range map[string]string{
		"nothing":                 "",
		"too long":                `{"return":[` + strings.Repeat(" ", maxAnswer) + "]}\n",
		"ends in the middle":      `{"return":[{"name":`,
		"garbage":                 "%!$ \x00\x01\xfe\n",
		"a number":                "42\n",
		"nothing in it":           "{}\n",
		"wrong type":              `{"return":{"name":"eth0"}}` + "\n",
		"two answers in one line": `{"return":[]}{"return":[]}` + "\n",
		"deep":                    strings.Repeat("[", 100_000) + "\n",
		"deep inside":             `{"return":[],"x":` + strings.Repeat(`{"a":`, 50) + "1" + strings.Repeat("}", 50) + "}\n",
		"negative":                nics(`"rx-bytes":-1`),
		"fraction":                nics(`"rx-bytes":1.5`),
		"exponent":                nics(`"rx-bytes":1e3`),
		"NaN":                     nics(`"rx-bytes":NaN`),
		"string":                  nics(`"rx-bytes":"7"`),
		"huge":                    nics(`"rx-bytes":9223372036854775808`),
		"beyond 64 bits":          nics(`"tx-packets":99999999999999999999999`),
		"long name":               `{"return":[{"name":"` + long + `"}]}` + "\n",
		"control in name":         `{"return":[{"name":"a\u001b[2J"}]}` + "\n",
		"no name":                 `{"return":[{}]}` + "\n",
		"same name twice":         `{"return":[{"name":"a"},{"name":"a"}]}` + "\n",
		"too many":                `{"return":[` + strings.Repeat(`{"name":"a"},`, maxInterfaces) + `{"name":"a"}]}` + "\n",
	} {
		got, err := New(says(answer)).Interfaces(t.Context(), "vm")
		if !errors.Is(err, model.ErrGuest) || !errors.Is(err, ErrAnswer) {
			t.Errorf("%s: have %v, %v", name, got, err)
		}
	}
}

// An answer with an unusual MAC is not a lie: the interface is simply not Ethernet.
func TestOddInterfaces(t *testing.T) {
	got, err := New(says(`{"return":[{"name":"lo","hardware-address":"00:00:00:00:00:00"},{"name":"tun0"},`+
		`{"name":"ib0","hardware-address":"80:00:00:00:fe:80:00:00:00:00:00:00:00:00:00:00:00:00:00:01"},`+
		`{"name":"Ethernet Instance 0","hardware-address":"52:54:00:00:00:01","statistics":{"rx-bytes":7}}]}`+"\n")).Interfaces(t.Context(), "vm")
	if err != nil || len(got) != 1 || got[0].RxBytes != 7 {
		t.Errorf("have %+v, %v", got, err)
	}
}
