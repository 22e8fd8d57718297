package assets

import "testing"

// makeFIFO does nothing: Windows has none in its file systems.
func makeFIFO(testing.TB, string) {}
