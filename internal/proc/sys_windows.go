package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// kin is what the system knows of a runtime's descendants: here a Job, out of
// which no descendant can get.
type kin struct {
	once sync.Once
	job  windows.Handle
}

// terminate does nothing: a program without a console gets no signal. Closing
// its input, before this, is how it is asked to leave.
func (k *kin) terminate() {}

// kill ends all processes of the Job.
func (k *kin) kill() { _ = windows.TerminateJobObject(k.job, 1) }

// close gives the Job up, which kills what is left in it.
func (k *kin) close() { k.once.Do(func() { _ = windows.CloseHandle(k.job) }) }

// enterJob puts the daemon into a Job that dies with it, and every runtime with
// that, however the daemon ends. The handle is kept open for ever on purpose.
var enterJob = sync.OnceValue(func() error {
	job, err := newJob()
	if err != nil {
		return err
	}
	if err := windows.AssignProcessToJobObject(job, windows.CurrentProcess()); err != nil {
		_ = windows.CloseHandle(job)
		return fmt.Errorf("join the job: %w", err)
	}
	return nil
})

func newJob() (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, fmt.Errorf("create a job: %w", err)
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{
		BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{
			LimitFlags: windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
		},
	}
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err != nil {
		_ = windows.CloseHandle(job)
		return 0, fmt.Errorf("set up a job: %w", err)
	}
	return job, nil
}

// spawn starts a program without a console, suspended, puts it into a Job of its
// own and lets it run: so nothing that it starts is outside.
func spawn(path string, args []string, attr *os.ProcAttr) (*os.Process, *kin, error) {
	attr.Sys = &syscall.SysProcAttr{
		CreationFlags: windows.CREATE_SUSPENDED | windows.CREATE_NO_WINDOW | windows.CREATE_NEW_PROCESS_GROUP,
	}
	argv := append([]string{path}, args...)
	if isBatch(path) {
		system, err := windows.GetSystemDirectory()
		if err != nil {
			return nil, nil, fmt.Errorf("find the shell: %w", err)
		}
		shell := filepath.Join(system, "cmd.exe")
		if attr.Sys.CmdLine, err = batchCommandLine(shell, path, args); err != nil {
			return nil, nil, err
		}
		path = shell
	}
	job, err := newJob()
	if err != nil {
		return nil, nil, err
	}
	relatives := &kin{job: job}
	process, err := os.StartProcess(path, argv, attr)
	if err != nil {
		relatives.close()
		return nil, nil, err
	}
	if err := errors.Join(relatives.adopt(process), resume(process.Pid)); err != nil {
		_ = process.Kill()
		_, _ = process.Wait()
		relatives.close()
		return nil, nil, err
	}
	return process, relatives, nil
}

func (k *kin) adopt(process *os.Process) error {
	var assigned error
	err := process.WithHandle(func(handle uintptr) {
		assigned = windows.AssignProcessToJobObject(k.job, windows.Handle(handle))
	})
	if err := errors.Join(err, assigned); err != nil {
		return fmt.Errorf("put the program into a job: %w", err)
	}
	return nil
}

// resume lets a process run that was started suspended and so has one thread.
func resume(pid int) error {
	snapshot, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPTHREAD, 0)
	if err != nil {
		return fmt.Errorf("list threads: %w", err)
	}
	defer windows.CloseHandle(snapshot)
	entry := windows.ThreadEntry32{Size: uint32(unsafe.Sizeof(windows.ThreadEntry32{}))}
	for err = windows.Thread32First(snapshot, &entry); err == nil; err = windows.Thread32Next(snapshot, &entry) {
		if entry.OwnerProcessID != uint32(pid) {
			continue
		}
		thread, err := windows.OpenThread(windows.THREAD_SUSPEND_RESUME, false, entry.ThreadID)
		if err != nil {
			return fmt.Errorf("open the program's thread: %w", err)
		}
		defer windows.CloseHandle(thread)
		if _, err := windows.ResumeThread(thread); err != nil {
			return fmt.Errorf("resume the program: %w", err)
		}
		return nil
	}
	return fmt.Errorf("find the program's thread: %w", err)
}

// waitExit returns when the process has exited.
func waitExit(p *os.Process) error {
	var waited error
	err := p.WithHandle(func(handle uintptr) {
		_, waited = windows.WaitForSingleObject(windows.Handle(handle), windows.INFINITE)
	})
	return errors.Join(err, waited)
}

// The Jobs of an instance die with it, so nothing is ever swept here and a pid
// is never looked up again.

func bootID() string                 { return "" }
func startTime(int) (uint64, error)  { return 0, nil }
func residentBytes(int) int64        { return 0 } // unknown
func killRound(targets) (int, error) { return 0, nil }
func isRecorded(Entry) bool          { return false }
