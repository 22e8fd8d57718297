package store

var childParts = map[string]func() int{}
