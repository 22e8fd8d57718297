package tool

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestModelNames(t *testing.T) {
	long := strings.Repeat("n", MaxModelNameBytes)
	got := ModelNames([]Tool{named("paint"), named("a-b_C9"), named("canvas.paint"), named("canvas_paint"), named(long), named(long + "1"), named(long + "2")})
	for toolName, want := range map[string]string{"paint": "paint", "a-b_C9": "a-b_C9", "canvas_paint": "canvas_paint", long: long} {
		if got.Model[toolName] != want {
			t.Errorf("%s becomes %s", toolName, got.Model[toolName])
		}
	}
	// The names that are made are part of what agents remember of a thread.
	if got.Model["canvas.paint"] != "canvas_paint_2bd24dfa" {
		t.Errorf("canvas.paint becomes %s", got.Model["canvas.paint"])
	}
	checkNames(t, got, 7)
}

func checkNames(t *testing.T, n Names, tools int) {
	t.Helper()
	if len(n.Model) != tools || len(n.Tool) != tools {
		t.Fatalf("%d and %d names for %d tools", len(n.Model), len(n.Tool), tools)
	}
	for toolName, modelName := range n.Model {
		if !modelNamePattern.MatchString(modelName) || n.Tool[modelName] != toolName {
			t.Errorf("%s becomes %s, which leads to %s", toolName, modelName, n.Tool[modelName])
		}
	}
}

func TestModelNamesDoNotMeet(t *testing.T) {
	// A page takes the name that would be made, and the one after it.
	wanted := ModelNames([]Tool{named("a.b")}).Model["a.b"]
	second := ModelNames([]Tool{named("a.b"), named(wanted)}).Model["a.b"]
	if second == wanted {
		t.Fatal("two tools share a name")
	}
	checkNames(t, ModelNames([]Tool{named("a.b"), named(wanted), named(second), named("a..b"), named("a.b.")}), 5)
}

func TestModelNamesDoNotDependOnTheOrder(t *testing.T) {
	tools := many(100)
	for i := range 100 {
		tools = append(tools, named("x."+strings.Repeat("y", i)))
	}
	want := ModelNames(tools)
	checkNames(t, want, 200)
	for range 20 {
		rand.Shuffle(len(tools), func(i, j int) { tools[i], tools[j] = tools[j], tools[i] })
		got := ModelNames(tools)
		if !slices.EqualFunc(tools, tools, func(a, _ Tool) bool { return got.Model[a.Name] == want.Model[a.Name] }) {
			t.Fatal("another order gives other names")
		}
	}
}
