package assets

// childParts are what the test binary can be asked to do as a child.
var childParts = map[string]func() int{}
