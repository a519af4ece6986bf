package channel

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

// Handler carries out one request and returns the answer's body, or nil. The other side receives an *Error unchanged; of any other
// error it only learns that the request failed.
//
// A Handler must be idempotent: requests may come twice, and again after an answer was lost.
type Handler interface {
	Handle(ctx context.Context, method Method, body json.RawMessage) (any, error)
}

// Requests is what the daemon does for a guest. Its methods are idempotent: an Attach by the owner that has the VF changes its policy
// and gives the same answer, and Detach is not an error if nothing is attached. The connection identifies the guest; requests do not.
type Requests interface {
	Hello(ctx context.Context, h Hello) (Welcome, error)
	Attach(ctx context.Context, a Attach) (Attached, error)
	Detach(ctx context.Context, d Detach) error
	List(ctx context.Context) ([]Held, error)
	Counters(ctx context.Context, c Counters)
}

// Dispatch returns a Handler that calls r.
func Dispatch(r Requests) Handler { return dispatch{r} }

type dispatch struct{ Requests }

func (d dispatch) Handle(ctx context.Context, method Method, body json.RawMessage) (any, error) {
	switch method {
	case MethodHello:
		var h Hello
		if err := loose(body, &h); err != nil {
			return nil, err
		}
		return d.Hello(ctx, h)
	case MethodAttach:
		var a Attach
		if err := strict(body, &a); err != nil {
			return nil, err
		}
		if err := checkOwner(a.Owner); err != nil {
			return nil, err
		}
		return d.Attach(ctx, a)
	case MethodDetach:
		var x Detach
		if err := strict(body, &x); err != nil {
			return nil, err
		}
		if err := checkOwner(x.Owner); err != nil {
			return nil, err
		}
		return nil, d.Detach(ctx, x)
	case MethodList:
		return d.list(ctx, body)
	case MethodCounters:
		var c Counters
		if err := loose(body, &c); err != nil {
			return nil, err
		}
		c.Interfaces = c.Interfaces[:min(len(c.Interfaces), MaxInterfaces)]
		d.Counters(ctx, c)
		return nil, nil
	}
	return nil, &Error{
		Code: CodeInvalid, Text: fmt.Sprintf("no such request: %.40q", method),
		Remedy: "bring sluice-guest and the host's Sluice to the same release",
	}
}

// list returns one page.
func (d dispatch) list(ctx context.Context, body json.RawMessage) (any, error) {
	var from ListFrom
	if err := strict(body, &from); err != nil {
		return nil, err
	}
	all, err := d.List(ctx)
	if err != nil {
		return nil, err
	}
	i := min(max(0, from.From), len(all))
	page := List{VFs: all[i:min(i+listPage, len(all))]}
	if i+listPage < len(all) {
		page.Next = i + listPage
	}
	return page, nil
}

// checkOwner restricts the owner, which is stored, listed, and may be shown on a terminal.
func checkOwner(owner string) error {
	odd := func(r rune) bool { return r <= ' ' || r > '~' }
	if owner == "" || len(owner) > MaxOwner || strings.ContainsFunc(owner, odd) {
		return &Error{Code: CodeInvalid, Text: fmt.Sprintf("the owner is not 1 to %d printable ASCII characters", MaxOwner)}
	}
	return nil
}
