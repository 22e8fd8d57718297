package proc

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzLedgerEntry(f *testing.F) {
	entry := Entry{RuntimeID: "id", Provider: "opencode", Instance: "i", BootID: "b", PID: 7, StartTime: 1 << 60}
	whole, err := encodeEntry(entry)
	if err != nil {
		f.Fatal(err)
	}
	if read, err := decodeEntry("id", whole); err != nil || read != entry {
		f.Fatalf("%+v became %+v, %v", entry, read, err)
	}
	f.Add(whole)
	f.Add([]byte("\x01{}"))
	f.Add([]byte("\x02{}"))
	f.Add([]byte("\x01{\"pid\":-1}"))
	f.Fuzz(func(t *testing.T, value []byte) {
		e, err := decodeEntry("id", value)
		if err != nil {
			return
		}
		again, err := encodeEntry(e)
		if err != nil {
			t.Fatalf("%+v cannot be written again: %v", e, err)
		}
		if second, err := decodeEntry("id", again); err != nil || second != e {
			t.Fatalf("%+v became %+v, %v", e, second, err)
		}
	})
}

// FuzzTail compares what is kept of a runtime's complaints with keeping all.
func FuzzTail(f *testing.F) {
	f.Add([]byte("a line\nanother ä"), uint16(5), uint8(3))
	f.Add([]byte("\xff\xfe\x80€"), uint16(2), uint8(1))
	f.Add(bytes.Repeat([]byte("0123456789"), 100), uint16(600), uint8(255))
	f.Add(bytes.Repeat([]byte("01234567"), 128), uint16(5000), uint8(tailSize/1024)) // once round and a little more
	f.Fuzz(func(t *testing.T, text []byte, n uint16, repeats uint8) {
		var kept tail
		var all []byte
		for range int(repeats) + 1 {
			if len(all) > 4*tailSize {
				break
			}
			if written, err := kept.Write(text); written != len(text) || err != nil {
				t.Fatalf("%d of %d bytes were taken: %v", written, len(text), err)
			}
			all = append(all, text...)
		}
		all = all[max(0, len(all)-tailSize):]
		got := kept.last(int(n))
		if !utf8.ValidString(got) {
			t.Fatalf("%q is no UTF-8", got)
		}
		want := all[max(0, len(all)-int(n)):]
		// The start of the cut may have gone with half a code point.
		if rest := strings.ToValidUTF8(string(want), "\ufffd"); utf8.Valid(all) && !strings.HasSuffix(rest, got) {
			t.Fatalf("the last %d bytes are %q, want the end of %q", n, got, rest)
		}
		if utf8.Valid(all) && len(got)+utf8.UTFMax <= len(want) {
			t.Fatalf("%d bytes are left of %d", len(got), len(want))
		}
	})
}

// FuzzEnvironment builds a child's environment of anything: each name stands in it
// once, and none that marks an agent or the daemon gets through.
func FuzzEnvironment(f *testing.F) {
	f.Add("PATH=/bin\x00HOME=/h\x00SECRET=x", "A=1\x00A=2\x00PEDELEC_RUNTIME=forged")
	f.Add("no_proxy=a,b\x00=C:=x\x00LC_ALL=", "CLAUDECODE=1\x00CLAUDECODE_X=1\x00NO_PROXY= x ")
	f.Fuzz(func(t *testing.T, base, extra string) {
		env := environment(strings.Split(base, "\x00"), nil, strings.Split(extra, "\x00"), "mark")
		seen := map[string]bool{}
		for i, kv := range env {
			name, value, ok := strings.Cut(kv, "=")
			if !ok || name == "" || seen[name] {
				t.Fatalf("%q stands in %q", kv, env)
			}
			seen[name] = true
			if name == RuntimeIDEnv && (value != "mark" || i != len(env)-1) || strings.HasPrefix(name, "CLAUDECODE") {
				t.Fatalf("%q got through", kv)
			}
			if (name == "NO_PROXY" || name == "no_proxy") && !slices.Contains(strings.Split(value, ","), "127.0.0.1") {
				t.Fatalf("%q leads to a proxy", kv)
			}
		}
		if !seen[RuntimeIDEnv] || seen["SECRET"] && !strings.Contains(extra, "SECRET") {
			t.Fatalf("%q", env)
		}
	})
}
