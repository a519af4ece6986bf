package reconcile

import (
	"iter"
	"time"
)

// Table is the account of objects by key. The zero Table is empty and ready for use.
type Table[K comparable, S any] struct {
	objects map[K]*Object[S]
	looked  bool
}

// Object is the account of an object, which is added if there is none.
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

// Find copies the account of an object, empty if there is none. It adds nothing: it is for questions.
func (t *Table[K, S]) Find(k K) Object[S] {
	if o := t.objects[k]; o != nil {
		return *o
	}
	return Object[S]{}
}

// All lists the objects in no particular order. Objects may be deleted meanwhile.
func (t *Table[K, S]) All() iter.Seq2[K, *Object[S]] {
	return func(yield func(K, *Object[S]) bool) {
		for k, o := range t.objects {
			if !yield(k, o) {
				return
			}
		}
	}
}

// Len counts the objects.
func (t *Table[K, S]) Len() int { return len(t.objects) }

// Delete forgets an object, even one with an attempt under way.
func (t *Table[K, S]) Delete(k K) { delete(t.objects, k) }

// Looked says whether there has been a complete look at the world. Nothing may be removed as unwanted before.
func (t *Table[K, S]) Looked() bool { return t.looked }

// Prune forgets the objects that a look at the world does not show. An incomplete look, where something could not be
// read, prunes nothing, and an object with an attempt under way stays until that has ended.
func (t *Table[K, S]) Prune(now time.Time, complete bool, there func(K) bool) {
	if !complete {
		return
	}
	t.looked = true
	for k, o := range t.objects {
		if !o.Pending(now) && !there(k) {
			delete(t.objects, k)
		}
	}
}
