package proc

import (
	"fmt"
	"os"
)

// A pipe between us and a child.
type pipe struct{ ours, child *os.File }

// pipes are a child's three standard streams.
type pipes struct{ stdin, stdout, stderr pipe }

func openPipes() (*pipes, error) {
	var p pipes
	var err error
	if p.stdin.child, p.stdin.ours, err = os.Pipe(); err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	if p.stdout.ours, p.stdout.child, err = os.Pipe(); err == nil {
		p.stderr.ours, p.stderr.child, err = os.Pipe()
	}
	if err != nil {
		p.closeChildEnds()
		p.closeOurEnds()
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	return &p, nil
}

// closeChildEnds closes what the child has inherited. A nil file is closed
// with an error, which is ignored.
func (p *pipes) closeChildEnds() {
	_ = p.stdin.child.Close()
	_ = p.stdout.child.Close()
	_ = p.stderr.child.Close()
}

func (p *pipes) closeOurEnds() {
	_ = p.stdin.ours.Close()
	_ = p.stdout.ours.Close()
	_ = p.stderr.ours.Close()
}
