package proc

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-json-experiment/json/jsontext"
)

// readAll returns all frames and strays of a stream.
func readAll(t testing.TB, r io.Reader, limit int) (frames []string, strays []Stray, counts FrameCounts, err error) {
	t.Helper()
	f := NewFrames(r)
	f.Limit = limit
	f.OnStray = func(s Stray) { strays = append(strays, s) }
	for {
		frame, err := f.Next()
		if err != nil {
			return frames, strays, f.Counts, err
		}
		frames = append(frames, string(frame))
	}
}

func TestFrames(t *testing.T) {
	const limit = 32
	long := `{"a":"` + strings.Repeat("x", limit) + `"}`
	exact := `{"a":"` + strings.Repeat("x", limit-8) + `"}`
	tests := []struct {
		name   string
		stream string
		frames []string
		counts FrameCounts
	}{
		{"nothing", "", nil, FrameCounts{}},
		{"one", "{}\n", []string{"{}"}, FrameCounts{Frames: 1}},
		{"two", "{\"a\":1}\n{\"b\":2}\n", []string{`{"a":1}`, `{"b":2}`}, FrameCounts{Frames: 2}},
		{"CR LF", "{}\r\n{}\r\n", []string{"{}", "{}"}, FrameCounts{Frames: 2}},
		{"empty lines", "\n\r\n  \n{}\n\n", []string{"{}"}, FrameCounts{Frames: 1}},
		{"white space around", " \t{} \n", []string{"{}"}, FrameCounts{Frames: 1}},
		{"a banner", "Welcome!\n{}\n", []string{"{}"}, FrameCounts{Frames: 1, Stray: 1}},
		{"JSON, but no object", "[]\n1\nnull\n\"x\"\n", nil, FrameCounts{Stray: 4}},
		{"half an object", "{\"a\":\n{}\n", []string{"{}"}, FrameCounts{Frames: 1, Stray: 1}},
		{"two objects on a line", "{}{}\n", nil, FrameCounts{Stray: 1}},
		{"an object and words", "{} hello\n", nil, FrameCounts{Stray: 1}},
		{"unterminated at the end", "{\"a\":1}", []string{`{"a":1}`}, FrameCounts{Frames: 1}},
		{"half at the end", "{}\n{\"a\":", []string{"{}"}, FrameCounts{Frames: 1, Stray: 1}},
		{"invalid UTF-8", "{\"a\":\"\xff\"}\n", []string{"{\"a\":\"\uFFFD\"}"}, FrameCounts{Frames: 1, InvalidUTF8: 1}},
		{"invalid UTF-8 outside of JSON", "\xff\n", nil, FrameCounts{Stray: 1, InvalidUTF8: 1}},
		{"a lone surrogate", `{"a":"\ud83d"}` + "\n", []string{`{"a":"\ud83d"}`}, FrameCounts{Frames: 1}},
		{"duplicate names", `{"a":1,"a":2}` + "\n", []string{`{"a":1,"a":2}`}, FrameCounts{Frames: 1}},
		{"NUL", "\x00\n{}\n", []string{"{}"}, FrameCounts{Frames: 1, Stray: 1}},
		{"as long as allowed", exact + "\n{}\n", []string{exact, "{}"}, FrameCounts{Frames: 2}},
		{"one byte longer", exact + " \n{}\n", []string{"{}"}, FrameCounts{Frames: 1, Oversize: 1}},
		{"too long", long + "\n{}\n", []string{"{}"}, FrameCounts{Frames: 1, Oversize: 1}},
		{"too long, twice", long + "\n" + long + "\n{}\n", []string{"{}"}, FrameCounts{Frames: 1, Oversize: 2}},
		{"too long at the end", "{}\n" + long, []string{"{}"}, FrameCounts{Frames: 1, Oversize: 1}},
		{"as long as allowed at the end", exact, []string{exact}, FrameCounts{Frames: 1}},
	}
	readers := map[string]func(string) io.Reader{
		"at once":      func(s string) io.Reader { return strings.NewReader(s) },
		"byte by byte": func(s string) io.Reader { return iotest.OneByteReader(strings.NewReader(s)) },
		"with EOF":     func(s string) io.Reader { return iotest.DataErrReader(strings.NewReader(s)) },
	}
	for _, tt := range tests {
		for how, reader := range readers {
			t.Run(tt.name+" "+how, func(t *testing.T) {
				frames, _, counts, err := readAll(t, reader(tt.stream), limit)
				if !slices.Equal(frames, tt.frames) {
					t.Errorf("frames %q, want %q", frames, tt.frames)
				}
				if counts != tt.counts {
					t.Errorf("counts %+v, want %+v", counts, tt.counts)
				}
				if !errors.Is(err, io.EOF) {
					t.Errorf("error %v", err)
				}
			})
		}
	}
}

func TestAStrayTellsItsLengthAndItsEnds(t *testing.T) {
	noise := strings.Repeat("n", 3*StrayPart)
	long := strings.Repeat("l", 200<<10) + strings.Repeat("e", StrayPart)
	_, strays, _, _ := readAll(t, strings.NewReader(noise+"\nshort\n"+long+"\n"+long), 100<<10)
	end := []byte(long[len(long)-StrayPart:])
	want := []Stray{
		{NotObject, int64(len(noise)), []byte(noise[:StrayPart]), nil},
		{NotObject, 5, []byte("short"), nil},
		{Oversize, int64(len(long)), []byte(long[:StrayPart]), end},
		{Oversize, int64(len(long)), []byte(long[:StrayPart]), end},
	}
	if len(strays) != len(want) {
		t.Fatalf("%d strays, want %d", len(strays), len(want))
	}
	for i := range want {
		if strays[i].Kind != want[i].Kind || strays[i].Bytes != want[i].Bytes || !bytes.Equal(strays[i].Head, want[i].Head) || !bytes.Equal(strays[i].Tail, want[i].Tail) {
			t.Errorf("stray %d: %v of %d bytes, from %.20q to %.20q", i, strays[i].Kind, strays[i].Bytes, strays[i].Head, strays[i].Tail)
		}
	}
}

func TestABrokenStreamSaysWhy(t *testing.T) {
	broken := io.MultiReader(strings.NewReader("{}\n"), iotest.ErrReader(io.ErrClosedPipe))
	if frames, _, _, err := readAll(t, broken, 0); len(frames) != 1 || !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%q, %v", frames, err)
	}
	stuck := readerFunc(func([]byte) (int, error) { return 0, nil })
	if _, _, _, err := readAll(t, stuck, 0); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a stream that gives nothing: %v", err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestALargeFrameDoesNotKeepItsMemory(t *testing.T) {
	large := `{"a":"` + strings.Repeat("x", 5<<20) + `"}`
	f := NewFrames(io.MultiReader(strings.NewReader(large+"\n"), strings.NewReader("{}\n")))
	for _, want := range []int{len(large), 2} {
		frame, err := f.Next()
		if err != nil || len(frame) != want {
			t.Fatalf("frame of %d bytes, %v; want %d", len(frame), err, want)
		}
	}
	if len(f.buf) > shrinkThreshold {
		t.Errorf("%d bytes are kept", len(f.buf))
	}
}

func TestFramesOfAnySizeInAnyChunks(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var stream strings.Builder
	var want []string
	for range 300 {
		frame := `{"a":"` + strings.Repeat("x", random.IntN(1<<random.IntN(18))) + `"}`
		want = append(want, frame)
		stream.WriteString(frame + "\n")
	}
	source := strings.NewReader(stream.String())
	chunks := readerFunc(func(p []byte) (int, error) {
		return source.Read(p[:min(len(p), 1+random.IntN(100_000))])
	})
	frames, _, _, _ := readAll(t, chunks, 0)
	if !slices.Equal(frames, want) {
		t.Errorf("%d frames came back, not all of them as they were", len(frames))
	}
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte("{}\n{\"a\":1}\r\n"), uint8(8), uint8(3))
	f.Add([]byte("banner\n\n{\"a\":\"\xff\"}\n{"), uint8(100), uint8(1))
	f.Add([]byte(strings.Repeat("x", 500)+"\n{}"), uint8(10), uint8(200))
	f.Fuzz(func(t *testing.T, stream []byte, limit, chunk uint8) {
		bound := int(limit) + 1
		source := bytes.NewReader(stream)
		chunks := readerFunc(func(p []byte) (int, error) { return source.Read(p[:min(len(p), int(chunk)+1)]) })
		frames, strays, counts, err := readAll(t, chunks, bound)
		if !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		want, oversize := simpleFrames(stream, bound)
		if !slices.Equal(frames, want) {
			t.Fatalf("frames %q, want %q", frames, want)
		}
		if counts.Oversize != oversize || counts.Oversize+counts.Stray != uint64(len(strays)) || counts.Frames != uint64(len(frames)) {
			t.Fatalf("counts %+v with %d frames, %d strays, want %d oversize", counts, len(frames), len(strays), oversize)
		}
	})
}

// simpleFrames says in the plainest way what Frames must return.
func simpleFrames(stream []byte, limit int) (frames []string, oversize uint64) {
	for line := range bytes.SplitSeq(stream, []byte("\n")) {
		if len(line) > limit {
			oversize++
			continue
		}
		line = bytes.TrimSpace(bytes.ToValidUTF8(bytes.TrimSpace(line), []byte("\uFFFD")))
		v := jsontext.Value(line)
		if len(v) > 0 && v[0] == '{' && v.IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
			frames = append(frames, string(line))
		}
	}
	return frames, oversize
}

// deltas is a stream of frames as agents print them while they talk.
var deltas = bytes.Repeat([]byte(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"ses_0123456789abcdef","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hello wor"}}}}`+"\n"), 1000)

func TestReadingAFrameAllocatesNothing(t *testing.T) {
	endless := readerFunc(func(p []byte) (int, error) { return copy(p, deltas), nil })
	f := NewFrames(endless)
	allocs := testing.AllocsPerRun(5000, func() {
		if _, err := f.Next(); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations a frame", allocs)
	}
}

func BenchmarkFrames(b *testing.B) {
	b.SetBytes(int64(len(deltas)))
	b.ReportAllocs()
	for b.Loop() {
		f := NewFrames(bytes.NewReader(deltas))
		for {
			if _, err := f.Next(); err != nil {
				break
			}
		}
	}
}

// BenchmarkFramesBaseline splits the same stream into lines and checks nothing.
func BenchmarkFramesBaseline(b *testing.B) {
	b.SetBytes(int64(len(deltas)))
	b.ReportAllocs()
	for b.Loop() {
		s := bufio.NewScanner(bytes.NewReader(deltas))
		s.Buffer(make([]byte, frameBuffer), DefaultFrameLimit)
		for s.Scan() {
		}
	}
}

// BenchmarkFramesBaselineChecked splits by a scanner and checks like Frames.
func BenchmarkFramesBaselineChecked(b *testing.B) {
	b.SetBytes(int64(len(deltas)))
	b.ReportAllocs()
	for b.Loop() {
		s := bufio.NewScanner(bytes.NewReader(deltas))
		s.Buffer(make([]byte, frameBuffer), DefaultFrameLimit)
		for s.Scan() {
			if !isObject(s.Bytes()) {
				b.Fatal("no object")
			}
		}
	}
}
