package proc

import (
	"context"
	"io"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// Exit tells how a runtime ended.
type Exit struct {
	Code    int    // exit status; -1 = ended by a signal, or unknown
	Text    string // "exit status 3", "signal: killed"; made by the system
	Stopped bool   // Stop, Kill or Close was called before it ended
	Cause   error  // why it was given up without being asked to; nil otherwise
}

// Process is a runtime: a child process and all that it starts.
type Process struct {
	RuntimeID string
	Provider  string
	PID       int
	StartedAt time.Time

	starter *Starter
	spec    Spec
	log     zerolog.Logger
	process *os.Process
	kin     *kin
	pipes   *pipes
	input   *input
	stderr  tail

	exited chan struct{} // the child has exited and is not reaped
	eof    chan struct{} // nothing more comes from stdout
	stop   chan struct{} // go down the ladder
	kill   chan struct{} // and do not wait on it
	done   chan struct{}

	stopOnce, killOnce, politeOnce sync.Once

	mu   sync.Mutex
	exit Exit
}

func newProcess(s *Starter, spec Spec, runtimeID string, process *os.Process, relatives *kin, pipes *pipes) *Process {
	p := &Process{
		RuntimeID: runtimeID,
		Provider:  spec.Provider,
		PID:       process.Pid,
		StartedAt: time.Now(),
		starter:   s,
		spec:      spec,
		log:       s.Log.With().Str("runtime", runtimeID).Str("provider", spec.Provider).Int("pid", process.Pid).Logger(),
		process:   process,
		kin:       relatives,
		pipes:     pipes,
		exited:    make(chan struct{}),
		eof:       make(chan struct{}),
		stop:      make(chan struct{}),
		kill:      make(chan struct{}),
		done:      make(chan struct{}),
	}
	p.input = newInput(pipes.stdin.ours, s.WriteTimeout, p.inputFailed)
	return p
}

// run starts the goroutines. The readers are there before the caller has a
// process to write to.
func (p *Process) run(entry Entry) {
	var readers sync.WaitGroup
	readers.Go(p.readFrames)
	readers.Go(func() { _, _ = io.Copy(&p.stderr, p.pipes.stderr.ours) })
	go p.input.run()
	go p.awaitExit()
	go p.supervise(entry, &readers)
}

// discard ends a process whose start failed, before run.
func (p *Process) discard() {
	p.annihilate()
	_, _ = p.process.Wait() // no deadline: it was killed in its first milliseconds
	p.kin.close()
	p.pipes.closeOurEnds()
}

// Write sends one frame, without a line feed in it, and returns once the pipe
// has taken it whole. After ctx has ended the frame may still be sent. Errors:
// OVERLOADED when too many frames wait, PROVIDER_RUNTIME_DISCONNECTED when the
// runtime takes no input any more, ctx's cause.
func (p *Process) Write(ctx context.Context, frame []byte) error {
	return p.input.write(ctx, frame)
}

// Post queues one frame and does not wait. Frames go out in the order of the
// calls. Errors as of Write; a failure after it returned ends the runtime.
func (p *Process) Post(frame []byte) error {
	_, err := p.input.post(frame)
	return err
}

// StderrTail returns at most n of the last bytes of stderr, n up to 64 KiB, as
// valid UTF-8. They may hold secrets.
func (p *Process) StderrTail(n int) string { return p.stderr.last(n) }

// ResidentBytes returns the memory of the runtime's first process; 0 = unknown
// or gone.
func (p *Process) ResidentBytes() int64 {
	select {
	case <-p.exited:
		return 0
	default:
		return residentBytes(p.PID)
	}
}

// Done is closed when the runtime is gone: the process is reaped, all that
// carries its id is killed, its output is read, its ledger entry is removed.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit tells how it ended. Before Done it holds nothing of use.
func (p *Process) Exit() Exit {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exit
}

// Stop ends the runtime and returns when it is gone. polite, if not nil, says
// goodbye in the provider's protocol and must return when its context ends;
// then stdin is closed, the group gets TERM, and in the end everything that
// carries the runtime's id gets KILL. Calls at the same time share one stop. It
// must not be called from OnFrame, for which it would wait.
func (p *Process) Stop(polite func(context.Context)) {
	if polite != nil {
		p.politeOnce.Do(func() { p.sayGoodbye(polite) })
	}
	p.stopOnce.Do(func() { p.requested(); close(p.stop) })
	<-p.done
}

func (p *Process) sayGoodbye(polite func(context.Context)) {
	ctx, cancel := context.WithTimeout(context.Background(), p.starter.PoliteWait)
	defer cancel()
	polite(ctx)
}

// Kill ends the runtime without asking it, and returns when it is gone. Like
// Stop it must not be called from OnFrame.
func (p *Process) Kill() {
	p.killOnce.Do(func() { p.requested(); close(p.kill) })
	<-p.done
}

// requested notes that somebody wanted the end, unless it came first.
func (p *Process) requested() {
	select {
	case <-p.exited:
	default:
		p.mu.Lock()
		p.exit.Stopped = true
		p.mu.Unlock()
	}
}

// giveUp ends a runtime that cannot be used any more, and does not wait.
func (p *Process) giveUp(cause error) {
	p.stopOnce.Do(func() {
		p.mu.Lock()
		p.exit.Cause = cause
		p.mu.Unlock()
		close(p.stop)
	})
}

// inputFailed gives a runtime up that takes no input, unless it is leaving by
// itself, of which a broken pipe is the first sign.
func (p *Process) inputFailed(cause error) {
	if !p.leaves(p.starter.CloseWait, p.kill) {
		p.giveUp(cause)
	}
}

// readFrames hands out frames until stdout ends. A panic of the receiver ends
// this runtime and nothing else.
func (p *Process) readFrames() {
	defer close(p.eof)
	defer func() {
		if r := recover(); r != nil {
			p.log.Error().Interface("panic", r).Bytes("stack", debug.Stack()).Msg("a frame made its reader panic; the agent is stopped")
			p.giveUp(fault.New(fault.Internal, "A frame of the agent met a fault of the daemon."))
		}
	}()
	frames := NewFrames(p.pipes.stdout.ours)
	frames.Limit = p.starter.FrameLimit
	frames.OnStray = func(s Stray) {
		p.log.Debug().Stringer("kind", s.Kind).Int64("bytes", s.Bytes).Msg("the agent printed a line that is no frame")
		if p.spec.OnStray != nil {
			p.spec.OnStray(p, s)
		}
	}
	for {
		frame, err := frames.Next()
		if err != nil {
			return
		}
		if p.spec.OnFrame != nil {
			p.spec.OnFrame(p, frame)
		}
	}
}

// awaitExit waits for the exit and leaves the reaping to the supervisor, so that
// signals to the group are safe until then.
func (p *Process) awaitExit() {
	if err := waitExit(p.process); err != nil {
		p.log.Error().Err(err).Msg("cannot wait for an agent's exit")
	}
	close(p.exited)
}

// supervise is the life of a runtime after its start.
func (p *Process) supervise(entry Entry, readers *sync.WaitGroup) {
	p.log.Info().Str("path", p.spec.Path).Msg("agent started")
	select {
	case <-p.exited:
	case <-p.stop:
		p.descend()
	case <-p.kill:
	case <-p.eof:
		if !p.leaves(p.starter.CloseWait, nil) {
			p.giveUp(fault.New(fault.ProviderRuntimeDisconnected, "The agent closed its output and went on running."))
			p.descend()
		}
	}
	clean := p.annihilate()
	if !p.leaves(p.starter.KillWait, nil) {
		p.log.Error().Msg("an agent does not die; it is left to the next start of the daemon")
		p.finish(Exit{Code: -1, Text: "does not die"})
		<-p.exited // no deadline: it sits in the kernel, and Done is told already
		clean = false
	}
	state, err := p.process.Wait()
	p.kin.close()
	p.drain(readers)
	if clean {
		p.starter.forget(entry)
	}
	p.finish(exitOf(state, err))
}

// descend goes down the ladder: closed input, TERM. The caller does the rest.
func (p *Process) descend() {
	p.input.close()
	if p.leaves(p.starter.CloseWait, p.kill) {
		return
	}
	p.kin.terminate()
	p.leaves(p.starter.TermWait, p.kill)
}

// leaves waits for the exit and reports whether it came; hurry cuts the wait
// short.
func (p *Process) leaves(wait time.Duration, hurry <-chan struct{}) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-p.exited:
		return true
	case <-hurry:
		return false
	case <-timer.C:
		return false
	}
}

// annihilate kills the group and everything that carries the runtime's id. It
// reports whether nothing of that failed. It must come before the reaping. The
// rounds come first, since they wait for what they kill, and find nothing any
// more where a signal to the group came before.
func (p *Process) annihilate() (clean bool) {
	if fault.Point("proc.kill.before") != nil {
		return false
	}
	wanted := targets{ids: map[string]bool{p.RuntimeID: true}, groups: map[int]bool{p.PID: true}}
	var err error
	for range killRounds {
		_, err = killRound(wanted)
	}
	p.kin.kill()
	if err != nil {
		p.log.Warn().Err(err).Msg("something that an agent started may be left; the next start of the daemon looks again")
	}
	return err == nil
}

// drain waits until the output is read. What keeps a pipe open now has hidden
// itself; it delays us by DrainWait at most.
func (p *Process) drain(readers *sync.WaitGroup) {
	p.input.abort()
	<-p.input.done
	read := make(chan struct{})
	go func() { readers.Wait(); close(read) }()
	timer := time.NewTimer(p.starter.DrainWait)
	defer timer.Stop()
	select {
	case <-read:
	case <-timer.C:
		p.log.Warn().Msg("something holds the output of an agent that is gone; it is closed")
	}
	_ = p.pipes.stdout.ours.Close()
	_ = p.pipes.stderr.ours.Close()
	<-read // no deadline: the pipes are closed, and OnFrame does not block
}

// finish publishes the exit; the first call counts.
func (p *Process) finish(e Exit) {
	select {
	case <-p.done:
		return
	default:
	}
	p.mu.Lock()
	e.Stopped, e.Cause = p.exit.Stopped, p.exit.Cause
	p.exit = e
	p.mu.Unlock()
	p.starter.remove(p)
	p.tell(e)
	close(p.done)
}

// tell logs the end. One that nobody asked for is not as it should be.
func (p *Process) tell(e Exit) {
	line, msg := p.log.Info(), "agent gone"
	if !e.Stopped {
		line, msg = p.log.Warn(), "agent gone without being asked to go: the turns it ran fail, and the next turn starts it again"
	}
	line.Str("exit", e.Text).Bool("stopped", e.Stopped).AnErr("cause", e.Cause).
		Stringer("lifetime", time.Since(p.StartedAt).Round(time.Millisecond)).Msg(msg)
}

func exitOf(state *os.ProcessState, err error) Exit {
	if err != nil {
		return Exit{Code: -1, Text: "unknown: " + err.Error()}
	}
	return Exit{Code: state.ExitCode(), Text: state.String()}
}
