package proc

import (
	"path/filepath"
	"strings"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// isBatch reports whether a program is a script of the Windows shell, which
// has to be run by it. npm installs commands so.
func isBatch(path string) bool {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".cmd", ".bat":
		return true
	}
	return false
}

// batchCommandLine returns the command line that runs a script by the Windows
// shell. The shell reads its line in ways that no quoting covers, so arguments
// with its own signs are refused; ours need none of them.
func batchCommandLine(shell, script string, args []string) (string, error) {
	const refused = "\"%!^\r\n\x00"
	var line strings.Builder
	line.WriteString(`"` + shell + `" /d /c call`)
	for _, arg := range append([]string{script}, args...) {
		if strings.ContainsAny(arg, refused) || strings.HasSuffix(arg, `\`) {
			return "", fault.New(fault.ProviderRuntimeStartFailed,
				`An argument of a .cmd or .bat program holds one of " % ! ^, a line break or a final \; set "command" to the program behind it.`)
		}
		line.WriteString(` "` + arg + `"`)
	}
	return line.String(), nil
}
