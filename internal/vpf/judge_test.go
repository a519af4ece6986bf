package vpf

import (
	"errors"
	"testing"

	"sluice/internal/channel"
	"sluice/internal/model"
)

// What a VF receives may be limited further by its guest, and never less than by the host.
func TestJudgeReceive(t *testing.T) {
	for _, c := range []struct{ host, asked, want, code string }{
		{"", "", "", ""},
		{"", "10Mbit", "10Mbit", ""},
		{"1Gbit", "", "1Gbit", ""},
		{"1Gbit", "10Mbit 5kpps", "10Mbit 5kpps", ""},
		{"1Gbit", "2Gbit", "", channel.CodeDenied},
		{"", "much", "", channel.CodeInvalid},
	} {
		host, err := parseRate(c.host)
		if err != nil {
			t.Fatal(err)
		}
		v := &model.VirtualVF{Port: model.PortPolicy{SLA: model.SLA{Receive: host}}}
		grant, err := judge(&channel.Attach{Receive: c.asked}, v, &model.GuestPolicy{Attach: true})
		var refused *channel.Error
		if code := c.code; code != "" {
			if !errors.As(err, &refused) || refused.Code != code {
				t.Errorf("%+v: %v", c, err)
			}
		} else if have := grant.Port.SLA.Receive.String(); err != nil || have != c.want {
			t.Errorf("%+v: %q, %v", c, have, err)
		}
	}
}
