package reconcile

import "time"

// Table holds the Objects by key. The zero Table is empty and ready for use.
type Table[K comparable, S any] struct {
	objects map[K]*Object[S]
}

// Object returns the Object for a key, and adds it if missing.
func (t *Table[K, S]) Object(k K) *Object[S] {
	o := t.objects[k]
	if o == nil {
		if t.objects == nil {
			t.objects = map[K]*Object[S]{}
		}
		o = &Object[S]{}
		t.objects[k] = o
	}
	return o
}

// Find returns a copy of the Object for a key, empty if missing. It is for queries and adds nothing.
func (t *Table[K, S]) Find(k K) Object[S] {
	if o := t.objects[k]; o != nil {
		return *o
	}
	return Object[S]{}
}

// Delete removes an object, even one with a pending attempt.
func (t *Table[K, S]) Delete(k K) { delete(t.objects, k) }

// Prune removes the objects that an observation does not show. An incomplete observation, in which something could not be read,
// removes nothing. An object with a pending attempt stays until the attempt has ended.
func (t *Table[K, S]) Prune(now time.Time, complete bool, there func(K) bool) {
	if !complete {
		return
	}
	for k, o := range t.objects {
		if !o.Pending(now) && !there(k) {
			delete(t.objects, k)
		}
	}
}
