package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const operationsDoc = "../../docs/OPERATIONS.md"

// TestDocsListEveryCommand keeps the table of commands in OPERATIONS.md true to
// the commands that exist. With -update it writes the table.
func TestDocsListEveryCommand(t *testing.T) {
	a := &app{}
	checkGenerated(t, operationsDoc, "commands", commandTable(a.rootCommand()))
}

// commandTable lists the commands that people see, each with its flags.
func commandTable(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("| command | what it does |\n| --- | --- |\n")
	for _, cmd := range root.Commands() {
		writeCommand(&b, root.Name(), cmd)
	}
	return b.String()
}

func writeCommand(b *strings.Builder, parents string, cmd *cobra.Command) {
	if cmd.Hidden || cmd.Name() == "help" {
		return
	}
	if cmd.HasSubCommands() {
		for _, sub := range cmd.Commands() {
			writeCommand(b, parents+" "+cmd.Name(), sub)
		}
		return
	}
	text := strings.TrimSuffix(cmd.Short, ".") + "."
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name, usage := pflag.UnquoteUsage(f)
		text += fmt.Sprintf("<br>`%s`: %s", flagUsage(f, name), usage)
	})
	fmt.Fprintf(b, "| `%s %s` | %s |\n", parents, strings.ReplaceAll(cmd.Use, "|", `\|`), text)
}

func flagUsage(f *pflag.Flag, value string) string {
	name := "--" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	return strings.TrimSpace(name + " " + value)
}

// checkGenerated compares the part of a document between the markers
// <!-- begin NAME --> and <!-- end NAME --> with what it should be.
func checkGenerated(t *testing.T, path, name, want string) {
	t.Helper()
	doc, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- begin "+name+" -->\n", "<!-- end "+name+" -->"
	before, rest, found := bytes.Cut(doc, []byte(begin))
	got, after, closed := bytes.Cut(rest, []byte(end))
	if !found || !closed {
		t.Fatalf("%s lacks the markers %q and %q", path, begin, end)
	}
	if string(got) == want {
		return
	}
	if !*update {
		t.Fatalf("%s is out of date; run: make generate\n%s", path, cmp.Diff(want, string(got)))
	}
	fresh := string(before) + begin + want + end + string(after)
	if err := os.WriteFile(path, []byte(fresh), 0o644); err != nil {
		t.Fatal(err)
	}
}
