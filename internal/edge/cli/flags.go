package cli

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/internal/model"
)

// flagError rewrites pflag's errors in plain words.
func flagError(c *cobra.Command, err error) error {
	var bad *pflag.InvalidValueError
	if errors.As(err, &bad) {
		var wrong *model.BadValue
		if errors.As(err, &wrong) {
			err = fmt.Errorf("--%s: %w", bad.GetFlag().Name, wrong)
		}
		if want := wanted[bad.GetFlag().Value.Type()]; want != "" {
			err = fmt.Errorf("--%s %s: want %s", bad.GetFlag().Name, visible(bad.GetValue()), want)
		}
	}
	var none *pflag.ValueRequiredError
	if errors.As(err, &none) {
		err = fmt.Errorf("--%s needs a value", none.GetFlag().Name)
	}
	return usage(c, err)
}

// wanted describes the values of a flag type.
var wanted = map[string]string{
	"int":         "a whole number such as 8",
	"uint64":      "a whole number, 0 or more, such as 8",
	"float64":     "a number such as 600 or 0.5",
	"duration":    "a time with its unit, such as 500ms, 10s, 5m or 2h",
	"bool":        "true or false, or no value",
	"stringSlice": "words separated by commas",
}

// rate is a flag for a rate as in sluice.yaml, which the daemon reads again.
type rate struct{ text *string }

// rateFlag adds a flag for a rate; "" is none.
func rateFlag(flags *pflag.FlagSet, to *string, name, usage string) { flags.Var(rate{to}, name, usage) }

// String, Set and Type implement pflag.Value.
func (r rate) String() string {
	if r.text == nil {
		return ""
	}
	return *r.text
}

// Set implements pflag.Value.
func (r rate) Set(s string) error {
	*r.text = s
	if s == "" {
		return nil
	}
	_, err := model.ParseRate(s)
	return err
}

// Type implements pflag.Value.
func (r rate) Type() string { return "rate" }

// visible makes an empty value visible.
func visible(value string) string { return cmp.Or(value, `""`) }

// bound is the allowed range of a flag.
type bound struct {
	flag string
	ok   bool
	want string
}

// within returns the bound of a number.
func within[T int | float64](flag string, x, least, most T) bound {
	return bound{flag, x >= least && x <= most, fmt.Sprintf("%v to %v", least, most)}
}

// lasting returns the bound of a duration.
func lasting(flag string, x, least, most time.Duration) bound {
	return bound{flag, x >= least && x <= most, brief(least) + " to " + brief(most)}
}

// brief formats a duration in one unit.
func brief(d time.Duration) string {
	switch {
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Second == 0:
		return fmt.Sprintf("%ds", d/time.Second)
	}
	return d.String()
}

// checkBounds reports the first given flag that is out of range.
func checkBounds(c *cobra.Command, bounds ...bound) error {
	for _, b := range bounds {
		if f := c.Flags().Lookup(b.flag); f.Changed && !b.ok {
			return fmt.Errorf("--%s %s: want %s", b.flag, visible(f.Value.String()), b.want)
		}
	}
	return nil
}
