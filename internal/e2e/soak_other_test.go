//go:build !linux

package e2e

// childrenOf and residentMemory know nothing here.

func childrenOf(int) (children, zombies int, err error) { return 0, 0, nil }

func residentMemory(int) (int64, error) { return 0, nil }
