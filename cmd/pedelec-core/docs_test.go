package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pedelec/pedelec-core/internal/assets"
	"github.com/pedelec/pedelec-core/internal/ipc"
	"github.com/pedelec/pedelec-core/internal/lifecycle"
	"github.com/pedelec/pedelec-core/internal/loopback"
	"github.com/pedelec/pedelec-core/internal/settings"
	"github.com/pedelec/pedelec-core/internal/thread"
	"github.com/pedelec/pedelec-core/internal/tool"
)

// Documents of which parts are made from the code.
const (
	operationsDoc = "../../docs/OPERATIONS.md"
	protocolDoc   = "../../docs/PROTOCOL.md"
	lifecycleDoc  = "../../docs/LIFECYCLE.md"
)

// routeFiles hold the table of requests.
const routeFiles = "../../internal/ipc/*.go"

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

// TestDocsTellTheLimits keeps the table of limits in PROTOCOL.md true. With
// -update it writes the table.
func TestDocsTellTheLimits(t *testing.T) {
	checkGenerated(t, protocolDoc, "limits", limitTable())
}

func limitTable() string {
	var b strings.Builder
	b.WriteString("| what | at most |\n| --- | --- |\n")
	for _, row := range []struct {
		what string
		most int
		unit string
	}{
		{"a line to the daemon", ipc.MaxLineBytes, "bytes"},
		{"a line from the daemon", ipc.MaxOutLineBytes, "bytes"},
		{"arrays and objects inside each other", ipc.MaxNesting, "levels"},
		{"error details", ipc.MaxDetailsBytes, "bytes"},
		{"a tool result in an event", ipc.MaxResultBytes, "bytes"},
		{"`requestId`", ipc.MaxRequestIDBytes, "bytes"},
		{"`operationId`", thread.MaxOperationIDBytes, "bytes"},
		{"`callerOrigin`", ipc.MaxOriginBytes, "bytes"},
		{"`callerSdkVersion`", ipc.MaxSDKVersionBytes, "bytes"},
		{"TCP connections", ipc.MaxConnections, ""},
		{"WebSockets", ipc.MaxSockets, ""},
		{"WebSockets of one origin", ipc.MaxSocketsOfOrigin, ""},
		{"WebSockets of origins that are not approved", ipc.MaxStrangerSockets, ""},
		{"origins that wait for a decision", ipc.MaxWaitingOrigins, ""},
		{"requests of one origin that wait for it", ipc.MaxWaitingOfOrigin, ""},
		{"origins that are decided about", ipc.MaxDecidedOrigins, ""},
		{"requests in flight on a WebSocket", ipc.MaxInFlight, ""},
		{"subscriptions of a connection", ipc.MaxSubscriptions, ""},
		{"operations that a thread remembers", thread.MaxOperations, ""},
		{"`limit` of `list_threads` and `read_events`", thread.MaxListLimit, ""},
		{"tools of a thread", tool.MaxTools, ""},
		{"guidance and tools of a thread together", tool.MaxManifest, "bytes"},
		{"`argsSchema` of a tool", tool.MaxSchemaBytes, "bytes"},
		{"arguments of a tool call", tool.MaxArgsBytes, "bytes"},
		{"result of a tool call", thread.MaxToolResult, "bytes"},
		{"tool calls that wait behind the one that is out", thread.MaxQueuedCalls, ""},
		{"a file", assets.MaxFileBytes, "bytes"},
		{"uploads that run at once, and downloads", assets.DefaultMaxUploads, "each"},
		{"stored text of a turn", thread.MaxStoredText, "bytes"},
		{"`activeMessage` of a snapshot", thread.MaxActiveMessage, "bytes"},
	} {
		fmt.Fprintf(&b, "| %s | %s |\n", row.what, strings.TrimSpace(grouped(row.most)+" "+row.unit))
	}
	return b.String()
}

// TestDocsTellTheTimes keeps the table of times in PROTOCOL.md true. With -update
// it writes the table.
func TestDocsTellTheTimes(t *testing.T) {
	checkGenerated(t, protocolDoc, "times", timeTable())
}

func timeTable() string {
	life := lifecycle.DefaultDurations
	var b strings.Builder
	b.WriteString("| what | time |\n| --- | --- |\n")
	for _, row := range []struct {
		what string
		time time.Duration
	}{
		{"from the connection to its first valid request, on TCP", ipc.DefaultFirstRequest},
		{"for a client to take what it is sent", ipc.DefaultWriteTimeout},
		{"of silence until the system asks whether a client is still there; as long again until it is given up", loopback.DefaultKeepAlive},
		{"between two pings on a WebSocket", ipc.DefaultPing},
		{"without a sign of life until a WebSocket is given up", ipc.DefaultPong},
		{"for the user to decide about an origin", ipc.DefaultApproval},
		{"for an agent to open a conversation ¹", life.Start},
		{"of an agent's silence in a turn ¹", life.Silence},
		{"for an agent to confirm a cancel or an end", life.Stop},
		{"from the last subscription to the end of an `autoEndOnDisconnect` thread", life.AutoEnd},
		{"for subscribers to take the events of an end before its answer", life.Barrier},
		{"for subscribers to take the last events when the daemon leaves", life.Farewell},
		{"from the start to the settling of threads that nobody asked for", life.SweepDelay},
		{"between two rounds of retention", life.SweepEvery},
		{"for a page to answer a tool call, unless the tool says otherwise", tool.DefaultTimeout},
		{"that a tool may say at most", tool.MaxTimeout},
		{"that a ticket lives", assets.DefaultTicketLife},
		{"without a byte until a transfer is given up", assets.DefaultIdleTimeout},
		{"for a whole transfer", assets.DefaultTransferTimeout},
	} {
		fmt.Fprintf(&b, "| %s | %s |\n", row.what, spelled(row.time))
	}
	return b.String()
}

// spelled writes a duration in its largest whole unit.
func spelled(d time.Duration) string {
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}} {
		if d%unit.length == 0 {
			return grouped(int(d/unit.length)) + " " + unit.name
		}
	}
	return d.String()
}

// TestDocsTellTheDefaults compares the settings' defaults in OPERATIONS.md with those
// that a missing file means.
func TestDocsTellTheDefaults(t *testing.T) {
	doc := read(t, operationsDoc)
	for entry, want := range map[string]string{
		"retention.journalEvents":       grouped(settings.DefaultJournalEvents),
		"retention.journalBytes":        fmt.Sprintf("%d MiB", settings.DefaultJournalBytes>>20),
		"retention.endedThreadDays":     strconv.Itoa(int(lifecycle.DefaultRetention.Ended / (24 * time.Hour))),
		"retention.idleThreadDays":      strconv.Itoa(int(lifecycle.DefaultRetention.Idle / (24 * time.Hour))),
		"retention.storeBytes":          fmt.Sprintf("%d GiB", int64(settings.DefaultStoreBytes)>>30),
		"watchdogs.silenceSeconds":      grouped(int(settings.DefaultSilence / time.Second)),
		"watchdogs.sessionStartSeconds": grouped(int(settings.DefaultSessionStart / time.Second)),
	} {
		if row := fmt.Sprintf("| `%s` ¹ | %s |", entry, want); !strings.Contains(doc, row) {
			t.Errorf("%s lacks %q", operationsDoc, row)
		}
	}
}

// commandLine is a command line of the program, as code or in a block of it.
var commandLine = regexp.MustCompile("(?:`|bin/|\\$ )pedelec-core ([^`\\n&#]+)")

// TestDocsNameCommandsThatExist looks for each command line of the program in the
// documents, with its flags.
func TestDocsNameCommandsThatExist(t *testing.T) {
	paths, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, path := range append(paths, "../../README.md", "../../client/js/README.md") {
		for _, m := range commandLine.FindAllStringSubmatch(read(t, path), -1) {
			found++
			if why := refuseCommandLine(strings.Fields(m[1])); why != "" {
				t.Errorf("%s: pedelec-core %s: %s", path, m[1], why)
			}
		}
	}
	if found < 30 {
		t.Errorf("found only %d command lines", found)
	}
}

// refuseCommandLine returns what is wrong with a command line, or "".
func refuseCommandLine(words []string) string {
	root := (&app{}).rootCommand()
	if slices.Equal(words, []string{"--background"}) {
		return "" // for launchers
	}
	for i, word := range words { // "approve|reject" stands for both
		words[i], _, _ = strings.Cut(word, "|")
	}
	cmd, rest, err := root.Find(words)
	if err != nil {
		return err.Error()
	}
	if cmd.HasSubCommands() && len(rest) > 0 && strings.ToLower(rest[0]) == rest[0] && !strings.HasPrefix(rest[0], "-") {
		return "there is no " + rest[0]
	}
	if cmd.DisableFlagParsing {
		return "" // what follows is for another program
	}
	for _, word := range words {
		name, _, _ := strings.Cut(word, "=")
		name, isFlag := strings.CutPrefix(name, "--")
		if isFlag && name != "help" && cmd.Flag(name) == nil {
			return "there is no --" + name
		}
	}
	return ""
}

// grouped writes a number with commas.
func grouped(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// TestDocsNameAllOfTheWire finds requests, events, statuses and providers that
// the documents forgot.
func TestDocsNameAllOfTheWire(t *testing.T) {
	protocol, lifecycle := read(t, protocolDoc), read(t, lifecycleDoc)
	requests := requestNames(t)
	if len(requests) < 15 {
		t.Fatalf("found only %d requests in %s: %v", len(requests), routeFiles, requests)
	}
	for _, name := range requests {
		wantNamed(t, protocol, protocolDoc, name)
	}
	for kind := thread.EventCreated; kind.String() != ""; kind++ {
		wantNamed(t, protocol, protocolDoc, kind.String())
	}
	for _, status := range thread.Statuses {
		wantNamed(t, lifecycle, lifecycleDoc, status.String())
	}
	for _, p := range thread.Providers {
		wantNamed(t, protocol, protocolDoc, p.String())
	}
}

func wantNamed(t *testing.T, doc, path, name string) {
	t.Helper()
	if !strings.Contains(doc, "`"+name+"`") {
		t.Errorf("%s does not name `%s`", path, name)
	}
}

var routeName = regexp.MustCompile(`(?:handle|handleBare)\("([a-z_]+)"|name:\s+"([a-z_]+)"`)

// requestNames reads the table of requests from the source: it is not exported.
func requestNames(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(routeFiles)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, match := range routeName.FindAllStringSubmatch(read(t, file), -1) {
			names = append(names, match[1]+match[2])
		}
	}
	return names
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// checkGenerated compares the part of a document between the markers
// <!-- begin NAME --> and <!-- end NAME --> with what it should be.
func checkGenerated(t *testing.T, path, name, want string) {
	t.Helper()
	begin, end := "<!-- begin "+name+" -->\n", "<!-- end "+name+" -->"
	before, rest, found := strings.Cut(read(t, path), begin)
	got, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s lacks the markers %q and %q", path, begin, end)
	}
	if got == want {
		return
	}
	if !*update {
		t.Fatalf("%s is out of date; run: make generate\n%s", path, cmp.Diff(want, got))
	}
	fresh := before + begin + want + end + after
	if err := os.WriteFile(path, []byte(fresh), 0o644); err != nil {
		t.Fatal(err)
	}
}
