package model

import "fmt"

// ShortReason is the longest that Short returns, in columns.
const ShortReason = 28

// Short renders the Reason without its figures in a few words, for a column of a table beside
// the path that the VM uses.
func (r *Reason) Short() string {
	switch r.Code {
	case CodeEnough:
		return "VFs for all on its network"
	case CodePinned, CodeForbidden:
		return string(r.Code)
	case CodeRank, CodeOutranked:
		return fmt.Sprintf("place %d, VFs for %d", r.Rank, r.Slots)
	case CodeTurn:
		return "its turn in the round"
	case CodeWaiting:
		return fmt.Sprintf("place %d in the queue", r.Rank)
	case CodeKept:
		return "a swap does not pay yet"
	case CodeBlind:
		return "load not known"
	case CodeVeto:
		return "must not be moved"
	case CodeForeign:
		return "VF attached by others"
	case CodeNoVF:
		return "no usable VF on its network"
	case CodeBackoff:
		return "rests after a failed move"
	case CodeMoving:
		return "being moved"
	case CodeSLA:
		if r.Hold {
			return "its SLA asks for a VF"
		}
		return "no VF could keep its SLA"
	case CodeDrain:
		return "all VFs are given up"
	case CodeBudget:
		return "budget of moves is used up"
	case CodeNotNeeded:
		return "not running"
	case CodeReleased:
		return "released by hand"
	}
	return string(r.Code)
}
