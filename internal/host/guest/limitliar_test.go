package guest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"sluice/internal/model"
)

// ran is the status of a command with this output.
func ran(out string) string {
	return `{"return":{"exited":true,"exitcode":0,"out-data":"` + base64.StdEncoding.EncodeToString([]byte(out)) + `"}}`
}

// stood is an honest guest's answer to its first record.
const stood = "seq 1\nqdisc htb 51ce: root refcnt 2\nclass htb 51ce:2 parent 51ce:1 prio 0 rate 8Kbit ceil 1Mbit\nok eth0 1538 b\n"

// A guest that answers nonsense is detected, without a panic, and no limit counts as set.
func TestLimitOfLiars(t *testing.T) {
	for name, s := range map[string]script{
		"nothing":          {"guest-exec": ""},
		"not a number":     {"guest-exec": `{"return":{"pid":"x"}}`},
		"status is a list": {"guest-exec": `{"return":{"pid":1}}`, "guest-exec-status": `{"return":[]}`},
		"empty":            {"guest-exec": `{"return":{"pid":1}}`, "guest-exec-status": ran("")},
		"long":             {"guest-exec": `{"return":{"pid":1}}`, "guest-exec-status": ran(strings.Repeat("seq 1\nok\n", 1000))},
		"other record":     {"guest-exec": `{"return":{"pid":1}}`, "guest-exec-status": ran("seq 7\nok eth0 1538 b\n")},
		"huge record":      {"guest-exec": `{"return":{"pid":1}}`, "guest-exec-status": ran("seq 99999999999999999999999\nok eth0 1538 b\n")},
		"odd error":        {"guest-exec": `{"return":{"pid":1}}`, "guest-exec-status": ran("error \x1b[2J" + strings.Repeat("x", 900))},
		"handle is a text": {"guest-exec": `{"return":{"pid":1}}`, "guest-exec-status": ran(stood), "guest-file-open": `{"return":"7"}`},
	} {
		sh := NewShaper(s)
		err := sh.Limit(within(t, patience), vm, nicMAC(0), bits(mbit), model.Rate{})
		if err == nil || len(err.Error()) > 700 || strings.Contains(err.Error(), "\x1b") || len(sh.channels) > 0 {
			t.Errorf("%s: %v, %d channels", name, err, len(sh.channels))
		}
	}
}

// The answer to a change is bounded too.
func TestLimitOfLiarsLater(t *testing.T) {
	s := script{
		"guest-exec": `{"return":{"pid":1}}`, "guest-exec-status": ran(stood), "guest-file-open": `{"return":7}`,
		"guest-file-close": `{"return":{}}`,
	}
	for name, change := range map[string][2]string{
		"wrote less":     {`{"return":{"count":3,"eof":false}}`, ``},
		"wrote more":     {`{"return":{"count":1000000,"eof":false}}`, ``},
		"cannot be read": {`{"return":{"count":128,"eof":false}}`, `{"return":{"count":3,"buf-b64":"QUI=","eof":true}}`},
	} {
		sh := NewShaper(s)
		sh.check = 0
		if err := sh.Limit(within(t, patience), vm, nicMAC(0), bits(mbit), model.Rate{}); err != nil {
			t.Fatal(err)
		}
		s["guest-file-write"], s["guest-file-read"], s["guest-file-flush"] = change[0], change[1], `{"return":{}}`
		if err := sh.Limit(within(t, patience), vm, nicMAC(0), bits(mbit), model.Rate{}); err == nil {
			t.Errorf("%s: taken for true", name)
		}
	}
}

// hangs never answers.
type hangs struct{}

func (hangs) Agent(ctx context.Context, _ model.VMID, _ []byte) ([]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestLimitWhereTheAgentHangs(t *testing.T) {
	sh := NewShaper(hangs{})
	ctx := within(t, 20*time.Millisecond)
	if err := sh.Limit(ctx, vm, nicMAC(0), bits(mbit), model.Rate{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if a := sh.Ability(ctx, vm); a.Limits != model.Unknown || a.Why == "" {
		t.Errorf("%+v", a)
	}
}

// notes records the commands it receives.
type notes struct {
	script
	cmds []request
}

func (n *notes) Agent(ctx context.Context, vm model.VMID, cmd []byte) ([]byte, error) {
	var r request
	if err := json.Unmarshal(cmd, &r); err != nil {
		return nil, err
	}
	n.cmds = append(n.cmds, r)
	return n.script.Agent(ctx, vm, cmd)
}

// The script is the same for every operation, and a change takes two commands.
func TestLimitCommands(t *testing.T) {
	n := &notes{script: script{
		"guest-exec": `{"return":{"pid":1}}`, "guest-exec-status": ran(stood), "guest-file-open": `{"return":7}`,
		"guest-file-write": `{"return":{"count":128,"eof":false}}`, "guest-file-flush": `{"return":{}}`,
	}}
	sh := NewShaper(n)
	for range 2 {
		if err := sh.Limit(within(t, patience), vm, nicMAC(0), model.Rate{Bits: 1e18, Packets: 1e18}, bits(mbit)); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, c := range n.cmds {
		got = append(got, c.Execute)
		if args, ok := c.Arguments.(map[string]any)["arg"].([]any); ok && (args[0] != "-c" || args[1] != limitScript) {
			t.Errorf("not the script: %v", args[:1])
		}
	}
	if want := "guest-exec guest-exec-status guest-file-open guest-file-write guest-file-flush"; strings.Join(got, " ") != want {
		t.Errorf("commands %v, want %s", got, want)
	}
}

func FuzzLimitState(f *testing.F) {
	f.Add(stood, uint64(1e6), uint64(0))
	f.Add("seq 2\nqdisc htb 51ce: root\nclass htb 51ce:1 root ceil 1e9999bit\nclass htb 51ce:2 ceil\nok x 0\n", uint64(1e9), uint64(5))
	f.Fuzz(func(t *testing.T, text string, b, p uint64) {
		err := answered(text)
		st, perr := parseState(text)
		if perr == nil {
			_ = st.kept(model.Rate{Bits: b, Packets: p})
			if st.seq == 0 || st.ceil > 1e18 {
				t.Errorf("%+v", st)
			}
		}
		if err != nil && len(err.Error()) > 800 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	})
}

func TestRecord(t *testing.T) {
	for _, rates := range [][2]model.Rate{{}, {bits(1e15 - 1), {Bits: 1e15 - 1, Packets: 1e9 - 1}}, {bits(1 << 63), {Packets: 1 << 63}}} {
		r := record(1<<53, rates[0], rates[1])
		if len(r) != recordSize || !strings.HasSuffix(r, "\n") {
			t.Errorf("%d bytes: %q", len(r), r)
		}
	}
}
