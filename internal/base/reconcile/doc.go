// Package reconcile keeps account of objects that are brought to a desired state by attempts that take time and may fail:
// what is wanted and what is there, whether an attempt is under way, what failed and when it may be tried again. It has no
// clock: the time is an argument. Nothing here is safe for concurrent use.
//
// Three rules hold:
//   - an object has one attempt at a time, and after a failure it rests, longer each time;
//   - the result of an attempt counts only if the object has not changed since the attempt began, see [Object.Change];
//   - no object is forgotten before the first complete look at the world, nor by one that is not complete, see [Table.Prune].
//
// The design follows level-triggered controllers such as the reconciler of cilium/statedb.
package reconcile
