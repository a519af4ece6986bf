package web

// Unreachable lets tests see the remedies.
func Unreachable(socket string, err error) error { return NewClient(socket).unreachable(err) }
