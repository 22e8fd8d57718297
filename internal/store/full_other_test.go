//go:build !linux

package store

func childFull() int { return 3 }

func childUpgrade() int { return 3 }
