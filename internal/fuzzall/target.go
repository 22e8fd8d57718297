package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// target is one fuzz test.
type target struct {
	dir  string // of its package, from the module's root folder
	name string
}

// findTargets returns the fuzz tests below folders that are compiled on this system,
// by folder and name.
func findTargets(folders ...string) ([]target, error) {
	var all []target
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			found, err := targetsOf(path)
			all = append(all, found...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b target) int { return cmp.Or(cmp.Compare(a.dir, b.dir), cmp.Compare(a.name, b.name)) })
	return all, nil
}

func targetsOf(path string) ([]target, error) {
	dir, file := filepath.Split(path)
	if compiled, err := build.Default.MatchFile(dir, file); err != nil || !compiled {
		return nil, err
	}
	tree, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("look for fuzz tests: %w", err)
	}
	var found []target
	for _, d := range tree.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Fuzz") {
			found = append(found, target{filepath.Clean(dir), f.Name.Name})
		}
	}
	return found, nil
}
