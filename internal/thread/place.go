package thread

import "context"

// placeKey is the key under which a context holds what WithPlace was given.
type placeKey struct{}

// WithPlace returns a context for one request to a thread. f is called when the
// request has its place among those that the thread carries out in order; from
// then on a later request cannot overtake it. A request that needs no such place
// does not call f.
func WithPlace(ctx context.Context, f func()) context.Context {
	return context.WithValue(ctx, placeKey{}, f)
}

// Placed tells whoever made the context with WithPlace that the request has its
// place.
func Placed(ctx context.Context) {
	if f, ok := ctx.Value(placeKey{}).(func()); ok {
		f()
	}
}
