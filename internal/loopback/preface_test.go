package loopback

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
)

var prefaces = []struct {
	name    string
	bytes   string
	foreign bool
}{
	{"a request", `{"requestId":"1","type":"ping"}` + "\n", false},
	{"an empty line", "\n", false},
	{"CR LF", "\r\n", false},
	{"blanks", " \t{}", false},
	{"text", "hello\n", false},
	{"a capital letter and more", "Hello there\n", false},
	{"a capital word as a line", "PING\n", false},
	{"a capital word, then the end", "PING", false},
	{"sixteen capitals", "ABCDEFGHIJKLMNOP and more", false},
	{"invalid UTF-8", "\xff\xfe", false},
	{"nothing", "", false},
	{"GET", "GET / HTTP/1.1\r\n", true},
	{"POST with requests in its body", "POST / HTTP/1.1\r\nHost: x\r\n\r\n{\"requestId\":\"1\",\"type\":\"ping\"}\n", true},
	{"a method of fifteen letters", "ABCDEFGHIJKLMNO /", true},
	{"a method of one letter", "A ", true},
	{"a TLS hello", "\x16\x03\x01\x02\x00", true},
	{"NUL", "\x00", true},
	{"a control byte", "\x08", true},
}

func TestSniffPreface(t *testing.T) {
	readers := map[string]func(string) io.Reader{
		"at once":           func(s string) io.Reader { return strings.NewReader(s) },
		"byte by byte":      func(s string) io.Reader { return iotest.OneByteReader(strings.NewReader(s)) },
		"with EOF at once":  func(s string) io.Reader { return iotest.DataErrReader(strings.NewReader(s)) },
		"in halves":         func(s string) io.Reader { return iotest.HalfReader(strings.NewReader(s)) },
		"in halves, at end": func(s string) io.Reader { return iotest.DataErrReader(iotest.HalfReader(strings.NewReader(s))) },
	}
	for _, tt := range prefaces {
		for how, reader := range readers {
			t.Run(tt.name+" "+how, func(t *testing.T) {
				sniffed, err := SniffPreface(reader(tt.bytes))
				if foreign := errors.Is(err, ErrForeignPreface); foreign != tt.foreign {
					t.Fatalf("sniff: %v", err)
				}
				if tt.foreign {
					return
				}
				if got, err := io.ReadAll(sniffed); string(got) != tt.bytes || err != nil {
					t.Errorf("read %q, %v", got, err)
				}
			})
		}
	}
}

func TestABrokenConnectionIsNoPreface(t *testing.T) {
	if _, err := SniffPreface(iotest.ErrReader(io.ErrClosedPipe)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("sniff: %v", err)
	}
	late := io.MultiReader(strings.NewReader("{}"), iotest.ErrReader(io.ErrClosedPipe))
	sniffed, err := SniffPreface(late)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(sniffed); string(got) != "{}" || !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("read %q, %v", got, err)
	}
}

// What is decided by the first byte must not wait for a second one.
func TestSniffPrefaceWaitsForNoMoreThanItNeeds(t *testing.T) {
	for first, foreign := range map[string]bool{"{": false, "\x16": true, "GET ": true, "Gx": false} {
		client, server := net.Pipe()
		result := make(chan error, 1)
		go func() { _, err := SniffPreface(server); result <- err }()
		if _, err := io.WriteString(client, first); err != nil {
			t.Fatal(err)
		}
		if err := <-result; errors.Is(err, ErrForeignPreface) != foreign {
			t.Errorf("%q: %v", first, err)
		}
		client.Close()
		server.Close()
	}
}

func FuzzSniffPreface(f *testing.F) {
	for _, tt := range prefaces {
		f.Add([]byte(tt.bytes))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		whole, errWhole := SniffPreface(strings.NewReader(string(b)))
		slow, errSlow := SniffPreface(iotest.OneByteReader(strings.NewReader(string(b))))
		if (errWhole == nil) != (errSlow == nil) {
			t.Fatalf("%q: at once %v, byte by byte %v", b, errWhole, errSlow)
		}
		if errWhole != nil {
			return
		}
		for _, r := range []io.Reader{whole, slow} {
			if got, err := io.ReadAll(r); string(got) != string(b) || err != nil {
				t.Fatalf("%q came back as %q, %v", b, got, err)
			}
		}
	})
}
