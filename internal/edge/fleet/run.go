package fleet

import (
	"context"
	"fmt"
	"time"

	"sluice/api/v1"
	"sluice/internal/base/sleep"
)

// Run publishes what get returns every so often until ctx ends. What fails is tried again the next time. Tell gets a line for what was
// done, for guarantees without a claim, and for failures, each when it is new.
func Run(
	ctx context.Context, l Ledger, h Host, every time.Duration, get func(context.Context) (api.HostCapacity, error), tell func(string),
) error {
	var last []string
	for {
		c, err := get(ctx)
		var plan Plan
		var writes int
		if err == nil {
			plan, writes, err = Publish(ctx, l, h, &c)
		}
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was told to end
		}
		var lines []string
		for _, u := range plan.Unclaimed {
			lines = append(lines, u.String())
		}
		if err != nil {
			lines = append(lines, err.Error())
		}
		if writes > 0 && err == nil {
			tell(fmt.Sprintf("published, %d writes", writes))
		}
		for _, line := range added(last, lines) {
			tell(line)
		}
		if last = lines; sleep.For(ctx, every) != nil {
			return nil //nolint:nilerr // it was told to end
		}
	}
}

// added is what is only in the second list.
func added(before, now []string) (out []string) {
	known := map[string]bool{}
	for _, line := range before {
		known[line] = true
	}
	for _, line := range now {
		if !known[line] {
			out = append(out, line)
		}
	}
	return out
}
