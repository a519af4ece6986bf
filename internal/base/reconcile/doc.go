// Package reconcile tracks objects that are brought to a desired state by attempts that take time and may fail: the desired and
// the actual state, whether an attempt is pending, what failed and when it may be retried. It has no clock: the time is an
// argument. Nothing here is safe for concurrent use.
//
// Three rules hold:
//   - an object has one attempt at a time, and backs off after failures, longer each time;
//   - the result of an attempt counts only if the object has not changed since the attempt began, see [Object.Change];
//   - no object is removed before the first complete observation, nor by an incomplete one, see [Table.Prune].
//
// The design follows level-triggered controllers such as the reconciler of cilium/statedb.
package reconcile
